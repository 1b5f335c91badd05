"""Ungated effects: changes in a system that no action of the record accounts for.

1. A change that carries our idempotency key, an action's id or a trace is that action's, if the action was ever started
   there. A key that the record does not know is nobody's, whatever else the change carries.
2. A change that carries none of these may be an action's on the same target, started before and no later than its
   late-effect horizon after.
3. While an action that could have made it is still running inside its horizon, nothing is said: it waits.
4. Everything else was gated by nobody. It is told once, to a person, with the change as evidence; nothing is undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

CLOCKS_APART = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One entry of a system's own change log. `place` is its position there; entries read after it are later."""

    place: str
    at: datetime | None = None
    operation: str = ""
    actor: str = ""
    target: str | None = None
    key: str | None = None
    trace_id: str | None = None
    action_id: str | None = None
    shown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CandidateAction:
    """An action as far as it can account for a change; `until` is the end of its late-effect horizon."""

    action_id: str
    target: str
    trace_id: str
    key_hash: str | None
    started_at: datetime | None
    until: datetime | None


class ChangeOwner(StrEnum):
    """The action that accounts for a change."""

    ACTION = "ACTION"
    NOT_YET = "NOT_YET"
    NOBODY = "NOBODY"


def find_owner(change: Change, runs: tuple[CandidateAction, ...], *, key_hash: str | None, at: datetime) -> ChangeOwner:
    """Return whether an action of the record accounts for a change (rules 1 to 4)."""
    started = [run for run in runs if run.started_at is not None]
    if key_hash is not None:
        known = any(run.key_hash == key_hash for run in started)
        return ChangeOwner.ACTION if known else ChangeOwner.NOBODY
    named = (change.action_id, change.trace_id)
    if any(named):
        known = any(run.action_id == change.action_id or run.trace_id == change.trace_id for run in started)
        return ChangeOwner.ACTION if known else ChangeOwner.NOBODY
    on_target = [run for run in started if change.target is not None and run.target == change.target]
    if any(_could_have(run, change) for run in on_target):
        return ChangeOwner.ACTION
    running = any(run.until is not None and run.until + CLOCKS_APART > at for run in on_target)
    return ChangeOwner.NOT_YET if running else ChangeOwner.NOBODY


def _could_have(run: CandidateAction, change: Change) -> bool:
    if change.at is None or run.started_at is None:
        return False
    until = run.until or run.started_at
    return run.started_at - CLOCKS_APART <= change.at <= until + CLOCKS_APART
