"""An executor in the test's own hands: it claims and carries out one order when told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import httpx

from counterfoil.executor import Executor, NotStarted, Order
from counterfoil.work import Result, Work
from example import tools
from tests.journeys.ground import Ground

# Longer than any restart of the console takes.
TIMEOUT_S = 60


class Hands:
    """`after` is called when the effect is there and nothing was reported yet."""

    def __init__(self, ground: Ground, *, url: str, timeout_s: int, after: Callable[[Work], None]) -> None:
        self.ground = ground
        self.after = after
        self.http = httpx.Client(timeout=30)
        name = f"hands-{uuid4().hex[:8]}"
        self.executor = Executor(
            url=url or ground.stack.url,
            key=ground.known["keys"]["exec"],
            executor_id=name,
            key_file=ground.place.var / f"{name}.jwk",
            handlers={"issue_refund": self._refund, "refund_small_amount": self._refund},
            timeout_s=timeout_s,
            wait_s=10,
            issuer=ground.stack.url,
            http=self.http,
        )
        self.executor.register()
        self.order: Order
        self.results: list[Result | None] = []
        self.thread: threading.Thread | None = None

    def _refund(self, work: Work) -> Result:
        result = tools.refund(self.ground.stage().shop, work)
        self.after(work)
        return result

    def claim(self) -> None:
        """Reserve the one order that is ready."""
        (self.order,) = self.executor.claim()

    def begin(self) -> None:
        """Carry the order out, in the background."""
        self.thread = threading.Thread(target=self._execute, args=(self.order,), daemon=True)
        self.thread.start()

    def _execute(self, order: Order) -> None:
        try:
            self.results.append(self.executor.execute(order))
        except NotStarted:
            self.results.append(None)

    def said(self) -> str:
        """What the tool answered, when the order is carried out and reported; empty when it was not started."""
        assert self.thread is not None
        self.thread.join(60)
        assert not self.thread.is_alive(), self.ground.last_words()
        result = self.results[-1]
        return result.status if result else ""


@contextmanager
def hands(
    ground: Ground, *, url: str = "", timeout_s: int = TIMEOUT_S, after: Callable[[Work], None] = lambda work: None
) -> Iterator[Hands]:
    """`url` is where this executor believes the console to be."""
    made = Hands(ground, url=url, timeout_s=timeout_s, after=after)
    try:
        yield made
    finally:
        made.executor.stop()
        made.http.close()
