"""The log's status in the texts of the header: never reassuring without a reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ledger.log.queries import log

SILENT = timedelta(seconds=90)
"""A living sequencer reports every five seconds, also where nothing happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """The status of the newest log: a word, its time, and whether there is a problem."""

    word: str
    at: datetime | None
    is_wrong: bool
    why: str
    waiting: int
    unsigned: int


def log_status(tenant_id: UUID, *, at: datetime) -> LogStatus:
    """The present status of the tenant's newest log."""
    return describe_log(log.log_standing(tenant_id), at=at)


def describe_log(found: log.LogStanding, *, at: datetime) -> LogStatus:
    """Describe the state of a log."""
    lag = found.lag
    waiting = min(lag.waiting, log.MANY)
    if found.size is None or found.signed_size is None or found.signed_at is None:
        late = timedelta(seconds=lag.oldest_s or 0.0)
        why = "No checkpoint has been signed yet."
        if lag.is_late:
            word, since = "no checkpoint, first event", at - late
        else:
            word, since = "no checkpoint", None
        return LogStatus(word=word, at=since, is_wrong=lag.is_late, why=why, waiting=waiting, unsigned=0)
    unsigned = found.size - found.signed_size
    if lag.is_late:
        late = timedelta(seconds=max(lag.oldest_s or 0.0, lag.unsigned_s or 0.0))
        why = "Events are not sequenced yet. No irreversible action is released meanwhile."
        return LogStatus(
            word="log signed up to", at=at - late, is_wrong=True, why=why, waiting=waiting, unsigned=unsigned
        )
    seen_at = max(found.signed_at, found.reported_at or found.signed_at)
    if at - seen_at > SILENT:
        why = "The sequencer has not reported since then."
        return LogStatus(
            word="sequencer last seen", at=seen_at, is_wrong=True, why=why, waiting=waiting,
            unsigned=unsigned,
        )  # fmt: skip
    why = "The latest signed checkpoint covers everything except current writes."
    return LogStatus(
        word="last checkpoint", at=found.signed_at, is_wrong=False, why=why, waiting=waiting, unsigned=unsigned
    )
