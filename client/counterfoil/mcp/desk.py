"""The gateway's console client: one agent session and the executor of its proposals.

Everything here blocks, and is called in threads.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from counterfoil.agent import Agent, Call, Session
from counterfoil.answers import CallResult, Receipt, Report, Status, Verification
from counterfoil.executor import Effect
from counterfoil.gating.executing import HTTP_S, GatewayExecutor
from counterfoil.mcp.settings import Settings
from counterfoil.mcp.surface import OfferedTool, RegisteredTool, registered_tools
from counterfoil.problems import NotFound, Problem, Unreachable
from counterfoil.work import Result, Work

log = logging.getLogger("counterfoil.mcp")

# Beyond the server's own time, so that a late answer still finds its attempt open.
_GRACE_S = 5
_CLAIMED = ("system", "effect", "operation", "target", "expected", "statement")
_MOST_WITHHELD = 200
_MOST_NAME = 256
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ConsoleClient:
    """The gateway's place at the console; `forward` sends a stored payload to the server."""

    def __init__(self, settings: Settings, *, forward: Callable[[Work], Result] | None = None) -> None:
        console = settings.console
        self._settings = settings
        self._agent = Agent(url=console.url, key=console.agent_key, agent_id=console.agent_id)
        self._forward = forward
        self._http = httpx.Client(timeout=HTTP_S)
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._executor: GatewayExecutor | None = None
        self._withheld: tuple[str, list[dict[str, str]]] | None = None
        self.known: dict[str, RegisteredTool] = {}

    def open(self) -> None:
        """Pin the goal and learn which tools are registered."""
        wish = self._settings.session
        self._session = self._agent.open_session(
            goal=wish.goal, ttl_seconds=wish.ttl_s, run_id=wish.run_id or None, renew=wish.renew
        )
        self.known = registered_tools(self._session.contract)

    def enlist(self) -> None:
        """Register as the executor of this server's tools."""
        assert self._forward is not None
        tools = [name for name in self.known if name.startswith(self._settings.prefix)]
        self._executor = GatewayExecutor(
            self._settings.console,
            executor_id=self._settings.executor_id,
            key_file=self._settings.executor_jwk,
            tools=tools,
            send=self._forward,
            timeout_s=self._settings.gateway.timeout_s + _GRACE_S,
            http=self._http,
        )
        if tools:
            self._executor.register()

    def close(self) -> None:
        """End the session; its proposed actions continue."""
        if self._executor is not None:
            self._executor.stop()
        try:
            if self._session is not None:
                self._session.close()
        except (Problem, Unreachable) as fault:
            log.info("the session could not be closed: %s", fault)
        finally:
            self._agent.close()
            self._http.close()

    def propose(self, call: Call, *, goal: str | None = None) -> tuple[CallResult, Effect | None]:
        """Propose a call; return the gate's answer and, if nothing held it back and it has started, its effect, to be
        run once.

        `goal` restates the goal in words, else the pin's hash is sent.
        """
        session = self._session
        assert session is not None
        before = session.session_id
        if self._executor is None:
            result, effect = session.call(call, goal=goal), None
        else:
            result, effect = self._executor.propose(session, call, goal=goal)
        if session.session_id != before:
            self._learn_again(session)
        return result, effect

    def _learn_again(self, session: Session) -> None:
        """A session was over, and another one with the same goal has followed it, perhaps with other tools."""
        log.info("the session was over; another one is open with the same goal")
        with self._lock:
            self.known = registered_tools(session.contract)
            if self._forward is not None:
                self.enlist()

    def withhold(self, tools: Sequence[OfferedTool]) -> None:
        """Record the withheld tools with the session, once for each change; a refusal by the console stops nothing."""
        session = self._session
        assert session is not None
        named = [
            {"tool": (self._settings.prefix + one.tool.name)[:_MOST_NAME], "fate": one.fate.value, "why": one.why}
            for one in tools[:_MOST_WITHHELD]
        ]
        if (session.session_id, named) == self._withheld or (not named and self._withheld is None):
            return
        try:
            session.withheld(named)
            self._withheld = (session.session_id, named)
        except (Problem, Unreachable) as fault:
            log.warning("what is held back could not be put on record: %s", fault)

    @property
    def executor(self) -> GatewayExecutor:
        """The executor as it is enlisted now."""
        assert self._executor is not None
        return self._executor

    def state(self, action_id: str) -> Status:
        """The status of an action of this agent; the id is a stranger's word until it is known to be one."""
        if not _UUID.fullmatch(action_id):
            raise NotFound(status=404, code="NOT_FOUND", detail="This is no id of an action.")
        return self._agent.status(action_id)

    def report(self, action_id: str) -> Report:
        """The report on an action."""
        return self._agent.report(action_id)

    def receipt(self) -> Receipt:
        """The receipt of everything that this session changed."""
        assert self._session is not None
        return self._session.receipt()

    def verify(self, claimed: Mapping[str, Any]) -> Verification:
        """Verify something that was done without this gateway, as this agent says."""
        named = {name: claimed[name] for name in _CLAIMED if name in claimed}
        return self._agent.verify(**{"system": "", "effect": "", **named}, said_by=self._agent.agent_id)

    def withdraw(self, action_id: str) -> None:
        """Withdraw an action that has not started."""
        self._agent.cancel(action_id)
