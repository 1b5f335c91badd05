"""Refusals: the base of every exception with which a rule refuses a request.

A refusal is a fact about the request ("the payload is not the one that was approved"), never a fault of ours. It is
raised, and undoes what the request began. A function whose name ends in `_refusal` returns one, or None, to those who
say why something would be refused; the start of an execution returns one where what follows from it must be committed.

Every refusal is a subclass whose docstring is the sentence that a person reads, whose `code` is stable and upper
case, and whose `status` is the HTTP status that the console answers with (docs/api.md). Our own mistakes
stay `AssertionError` and `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class RefusalRecord:
    """A fact that is recorded although the request was refused, as plain data.

    Each kind is a subclass beside the operation that asks for it. `write_refusal_records` in
    approvals/voting/operations/refusal_records.py writes them all.
    """

    at: datetime


class Refused(Exception):
    """The rules do not allow this."""

    code: ClassVar[str] = "REFUSED"
    status: ClassVar[int] = 409

    def __init__(
        self,
        detail: str | None = None,
        *,
        hint: str | None = None,
        errors: list[dict[str, Any]] | None = None,
        records: tuple[RefusalRecord, ...] = (),
    ) -> None:
        """Create the refusal; `records` are recorded in spite of it, by the edge after the rollback."""
        self.detail = detail or (self.__doc__ or "").strip()
        self.hint = hint
        self.errors = errors or []
        self.records = records
        super().__init__(self.detail)


@contextmanager
def leave_on_record(
    describe: Callable[[Refused], RefusalRecord | None], *, of: type[Refused] | tuple[type[Refused], ...] = Refused
) -> Iterator[None]:
    """Put what `describe` returns for a refusal `of` these kinds before the records that it was raised with."""
    try:
        yield
    except of as refusal:
        record = describe(refusal)
        if record is not None:
            refusal.records = (record, *refusal.records)
        raise


class NotFound(Refused):
    """Not found."""

    code = "NOT_FOUND"
    status = 404

    def __init__(self, kind: str | None = None, *, detail: str | None = None) -> None:
        """`kind` begins the sentence ("Case" gives "Case not found."); `detail` replaces it."""
        super().__init__(detail or (f"{kind} not found." if kind else None))


class ProofNeeded(Refused):
    """The policy requires stronger authentication."""

    code = "STEP_UP_REQUIRED"
    status = 403


class ReasonMissing(Refused):
    """Enter a reason. It is kept in the audit log."""

    code = "REASON_REQUIRED"
    status = 422


class AlreadyProposed(Refused):
    """A proposal is waiting for its confirmation; confirm or withdraw it first."""

    code = "ALREADY_PROPOSED"


class NothingProposed(Refused):
    """Nothing is waiting for confirmation."""

    code = "NOTHING_PROPOSED"


class AlreadyDecided(Refused):
    """The request has already been decided."""

    code = "ALREADY_DECIDED"


class IdempotencyConflict(Refused):
    """This idempotency key was used with another body."""

    code = "IDEMPOTENCY_CONFLICT"


class RateExceeded(Refused):
    """This key exceeded its rate limit; wait, then try again."""

    code = "RATE_LIMITED"
    status = 429

    def __init__(self, detail: str | None = None, *, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class NothingSelected(Refused):
    """Select at least one item."""

    code = "NOTHING_SELECTED"
    status = 422


class TooManySelected(Refused):
    """Too many items for one batch."""

    code = "TOO_MANY_SELECTED"
    status = 422
