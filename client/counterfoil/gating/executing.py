"""The executor of a gateway, which both gateways have.

An order is claimed by its action, so that a gateway never carries out what another one proposed, to a system that may
be another. Everything here blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx

from counterfoil.answers import Observed
from counterfoil.executor import Executor, NotStarted, Order
from counterfoil.gating.settings import ConsoleSettings
from counterfoil.work import Result, Work

log = logging.getLogger("counterfoil.gating")

HTTP_S: Final = 30.0
"""As long as a claim may wait, and a little more."""
_REPORT_FOR_S: Final = 60.0


class GatewayExecutor(Executor):
    """Claims, runs and reports the orders of one gateway; `send` sends a stored payload to the system behind it."""

    def __init__(
        self,
        console: ConsoleSettings,
        *,
        executor_id: str,
        key_file: Path,
        tools: Iterable[str],
        send: Callable[[Work], Result],
        timeout_s: int,
        http: httpx.Client,
    ) -> None:
        key_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._observed: dict[str, Observed] = {}
        super().__init__(
            url=console.url,
            key=console.executor_key,
            executor_id=executor_id,
            key_file=key_file,
            handlers=dict.fromkeys(tools, send),
            timeout_s=timeout_s,
            issuer=console.issuer or None,
            report_for_s=_REPORT_FOR_S,
            on_report=self._keep_report,
            http=http,
        )

    def claim_action(self, action_id: str, *, wait_s: int, claim_key: str | None = None) -> Order | None:
        """The order of one action, once it is ready within this time.

        A claim that is repeated under its key gets the first one's answer, unless that grant has expired meanwhile.
        """
        orders = self.claim(actions=[action_id], wait_s=wait_s, idempotency_key=claim_key)
        now = datetime.now(UTC)
        fresh = (each for each in orders if claim_key is None or datetime.fromisoformat(each.grant_expires_at) > now)
        return next(fresh, None)

    def run_order(self, order: Order) -> Result | None:
        """Start, send and report one order; None if it was not started."""
        try:
            return self.execute(order)
        except NotStarted as refusal:
            log.warning("%s", refusal)
            return None

    def _keep_report(self, observed: Observed) -> None:
        self._observed[observed.status.action_id] = observed

    def take_report(self, action_id: str) -> Observed | None:
        """Return the console's answer to this executor's report on the action, once."""
        return self._observed.pop(action_id, None)
