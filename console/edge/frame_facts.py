"""Reads shared by every page of a tenant: memberships, and the counts in the frame.

The frame is one statement, and its result is kept for a moment per person, so that going through lists does not count
everything again on each page. A person who changes something sees it on the next page: their own write discards the
kept result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, LiteralString, NamedTuple
from uuid import UUID

from django.conf import settings

from console.accounts import queries as accounts_queries
from ledger.db import execute
from ledger.log.queries.log import STANDING, LogStanding
from ledger.record.queries import events

if TYPE_CHECKING:
    from console.models import Membership, User
    from ledger.models import Tenant

MOST = 100
"""Counters go no further; a page says 99+."""
MOST_KEPT: Final = 10_000


class PlacedFreeze(NamedTuple):
    """A freeze in force."""

    id: UUID
    scope: str
    value: str
    reason: str
    placed_at: datetime


class UnreviewedUse(NamedTuple):
    """A use of break-glass whose review has not ended."""

    used_at: datetime
    review_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFacts:
    """The waiting items of a tenant, counted up to MOST, and its problems; `maintenance` is the reason for one."""

    approvals: int
    cases: int
    own_cases: int
    incidents: int
    unread: int
    maintenance: str
    freezes: list[PlacedFreeze]
    alarms: list[str]
    unreviewed: list[UnreviewedUse]
    log: LogStanding
    inbox: int = 0
    """What waits for this person, of every kind."""


def places(user: User) -> list[tuple[Membership, Tenant]]:
    """A user's memberships, each with its tenant."""
    rows = accounts_queries.memberships(user)
    known = events.tenants_by_id([row.tenant_id for row in rows])
    return [(row, known[row.tenant_id]) for row in rows]


_FREEZES: Final[LiteralString] = "FROM ledger_freeze WHERE tenant_id = $1 AND lifted_at IS NULL ORDER BY id"
_USES: Final[LiteralString] = (
    "FROM approvals_emergency WHERE tenant_id = $1 AND reviewed_at IS NULL ORDER BY review_by, id LIMIT 10"
)
_FRAME: Final[LiteralString] = f"""
    SELECT (SELECT count(*) FROM (SELECT FROM approvals_approval
               WHERE tenant_id = $1 AND state = 'REQUESTED' LIMIT {MOST}) AS waiting),
           (SELECT count(*) FROM (SELECT FROM reviews_case WHERE tenant_id = $1 AND state <> 'RESOLVED'
               AND (snoozed_until IS NULL OR snoozed_until <= $3) LIMIT {MOST}) AS awake),
           (SELECT count(*) FROM (SELECT FROM reviews_case WHERE tenant_id = $1 AND state = 'OPEN'
               AND (claimed_by IS NULL OR claimed_by = $2)
               AND (snoozed_until IS NULL OR snoozed_until <= $3) LIMIT {MOST}) AS own),
           (SELECT count(*) FROM (SELECT FROM reviews_incident
               WHERE tenant_id = $1 AND state = 'OPEN' LIMIT {MOST}) AS open),
           (SELECT count(*) FROM (SELECT FROM console_message
               WHERE tenant_id = $1 AND actor_id = $2 AND read_at IS NULL LIMIT {MOST}) AS unread),
           coalesce((SELECT reason FROM ledger_maintenance WHERE ended_at IS NULL), ''),
           ARRAY(SELECT id {_FREEZES}), ARRAY(SELECT scope {_FREEZES}), ARRAY(SELECT value {_FREEZES}),
           ARRAY(SELECT reason {_FREEZES}),
           ARRAY(SELECT placed_at {_FREEZES}),
           ARRAY(SELECT kind FROM ledger_alarm WHERE tenant_id = $1 AND closed_at IS NULL
               ORDER BY raised_at DESC LIMIT {MOST}),
           ARRAY(SELECT used_at {_USES}), ARRAY(SELECT review_by {_USES}),
           log.*
      FROM ({STANDING}) AS log
"""


def frame_facts(tenant_id: UUID, actor_id: UUID, *, at: datetime) -> FrameFacts:
    """The facts for the frame of this person's page, read now."""
    [row] = execute(_FRAME, tenant_id, actor_id, at)
    approvals, cases, own_cases, incidents, unread, maintenance, freezes, scopes, values, reasons, placed, *more = row
    alarms, used, review_by, *log = more
    return FrameFacts(
        approvals=approvals,
        cases=cases,
        own_cases=own_cases,
        incidents=incidents,
        unread=unread,
        maintenance=maintenance,
        freezes=[PlacedFreeze(*each) for each in zip(freezes, scopes, values, reasons, placed, strict=True)],
        alarms=alarms,
        unreviewed=[UnreviewedUse(*each) for each in zip(used, review_by, strict=True)],
        log=LogStanding(*log),
    )


# What was found, by tenant and person, with the moment at which it is too old.
_kept: dict[tuple[UUID, UUID], tuple[float, FrameFacts]] = {}


def kept_frame_facts(tenant_id: UUID, actor_id: UUID, read: Callable[[], FrameFacts]) -> FrameFacts:
    """Return the facts kept for this person a short time ago, or the result of `read`."""
    now, place = time.monotonic(), (tenant_id, actor_id)
    until, found = _kept.get(place, (0.0, None))
    if found is None or until <= now:
        found = read()
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[place] = (now + settings.COUNTERFOIL_FRAME_KEPT_S, found)
    return found


def forget_frame_facts(tenant_id: UUID, actor_id: UUID) -> None:
    """Forget the counts of this person after a change, so that the next page counts again."""
    _kept.pop((tenant_id, actor_id), None)
