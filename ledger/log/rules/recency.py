"""Decides if a record is older than one seen before (B16).

A database that was restored, or a standby that was promoted before it had everything, knows less than what executors
were told. So nothing starts on a record that is behind a head that anybody has seen: the sequencer's file of signed
heads, this process, or the caller.

1. Heads of another tenant's logs say nothing. The logs of a tenant have one base; each that was opened after a restore
   adds its number (`base`, `base/2`, `base/3`).
2. A head of a later log than the record's newest one: the record is behind.
3. A head of an earlier log says nothing: a person declared since that the record had been restored.
4. Of the same log: a smaller record is behind; at the same size, another root is another history. Whether a larger one
   begins with what was seen is for a consistency proof.
"""

from __future__ import annotations

from typing import NamedTuple

from counterfoil_tlog.checkpoint import CheckpointBody
from ledger.record.rules.refusals import Refused

_HINT = "An operator finds out why; after a restore, `manage.py log restored` opens the record again."


class RecordBehind(Refused):
    """The record has gone back: it is older than what was seen of it before. Nothing starts."""

    code = "RECORD_BEHIND"

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, hint=_HINT)


class LogStopped(RecordBehind):
    """The log of this record is stopped, so nothing starts."""

    code = "LOG_STOPPED"


class LogName(NamedTuple):
    """The parts of an origin: the part common to all logs of a tenant, and the number of this one."""

    base: str
    number: int


def log_name(origin: str) -> LogName:
    """The base and the number of the log with this origin."""
    head, _, tail = origin.rpartition("/")
    if head and tail.isascii() and tail.isdecimal() and not tail.startswith("0") and tail != "1":
        return LogName(head, int(tail))
    return LogName(origin, 1)


def check_not_behind(origin: str, stored: CheckpointBody | None, seen: CheckpointBody) -> None:
    """Refuse a record whose current log is `origin`, with `stored` as its newest signed head, after `seen` was seen."""
    here, name = log_name(origin), log_name(seen.origin)
    if here.base != name.base or name.number < here.number:
        return
    size = stored.size if stored is not None and stored.origin == origin else 0
    if name.number > here.number:
        raise RecordBehind(f"The log {seen.origin} was seen before, and this record has only {origin}.")
    if size < seen.size:
        raise RecordBehind(
            f"{origin} was seen with {seen.size} signed entries before, and this record has {size}: it has gone back."
        )
    if size == seen.size and stored is not None and stored.root != seen.root:
        raise RecordBehind(f"The {size} entries of {origin} are others than those that were seen before.")


def is_later(one: CheckpointBody, other: CheckpointBody) -> bool:
    """Return whether a head is later than another of the same tenant."""
    return (log_name(one.origin).number, one.size) > (log_name(other.origin).number, other.size)
