"""The refusals that subjects share, over the base that every package has in common (`counterfoil_tlog.refusals`).

A refusal is raised, and undoes what the request began. A function whose name ends in `_refusal` returns one, or None,
to those who say why something would be refused; the start of an execution returns one where what follows from it must
be committed. The console answers with its `status` (docs/api.md). Its records are written after the rollback, by
`write_refusal_records` in approvals/voting/operations/refusal_records.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from counterfoil_tlog.refusals import RefusalRecord as RefusalRecord
from counterfoil_tlog.refusals import Refused as Refused


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


class UnderMaintenance(Refused):
    """The installation is under maintenance, and no execution starts until it has ended; nothing was changed."""

    code = "MAINTENANCE"
    status = 503
    retry_after_s = 30


class TenantMoving(Refused):
    """This tenant is being moved to another installation; nothing was done. Try again in a moment."""

    code = "TENANT_MOVING"
    status = 503
    retry_after_s = 5


class TenantMoved(Refused):
    """This tenant is at another installation now; nothing was done."""

    code = "TENANT_MOVED"
    status = 421

    def __init__(self, address: str = "") -> None:
        super().__init__(hint=f"It is at {address}." if address else None)


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
