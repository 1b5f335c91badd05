"""Input and result of an executor's handler.

A handler is `(Work) -> Result`. It begins each effect inside `with work.effect("name"):`, which
asks the lease first. An exception is believed to mean "nothing was sent" only when the handler says
so with `NothingSent` and no effect had begun; every other exception leaves it open what happened,
and is reported so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from counterfoil.execution.lease import Lease
from counterfoil.transport.request import Trace


class NothingSent(Exception):
    """The handler stopped before sending anything: nothing can have changed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Work:
    """One attempt at one action: the stored payload, and the identifiers that tie its effect to the record."""

    action_id: str
    tool: str
    version: str
    attempt: str
    payload: Mapping[str, Any]
    payload_hash: str
    idempotency_key: str
    trace: Trace
    lease: Lease
    begun: list[str] = field(default_factory=list)

    @contextmanager
    def effect(self, name: str) -> Iterator[None]:
        """Begin the effect `name`, unless the lease is over; from here on something may have been
        sent.
        """
        self.lease.require()
        self.begun.append(name)
        yield


@dataclass(frozen=True)
class Failure:
    """The reason why a tool failed.

    `phase` is `before_send` only if nothing left the executor, and `rolled_back` if its local transaction was undone,
    which is then read back.
    """

    code: str
    message: str
    phase: str = "after_send"


@dataclass(frozen=True)
class Result:
    """The tool's answer: evidence, not truth."""

    status: str
    evidence: str | None = None
    error: Failure | None = None
    side_effects: Sequence[str] = ()
    sub_results: Sequence[Mapping[str, Any]] = ()
    raw: Any = None


def succeeded(evidence: str, *side_effects: str, raw: object = None) -> Result:
    """Report success; the receipt identifies the effect."""
    return Result("success", evidence=evidence, side_effects=side_effects, raw=raw)


def failed(code: str, message: str, *, phase: str = "after_send") -> Result:
    """Report failure."""
    return Result("failed", error=Failure(code, message, phase))
