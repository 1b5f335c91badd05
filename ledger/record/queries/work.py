"""Which tenants have work, asked once for all of them (`sql/surveys.sql` of each package).

A tick asks for every kind that it is about to look at in one statement (`one_survey`), and visits the tenants that are
named. Each visit reads again what is due: a survey may name a tenant too many, never one too few.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from typing import Final, LiteralString
from uuid import UUID

from ledger.db import execute


class Work(StrEnum):
    """A kind of work: the package whose survey knows it, and its name there."""

    UNSIGNED_LOGS = "ledger.unsigned_logs"
    LATE_LOGS = "ledger.late_logs"
    DUE_COSIGNATURES = "ledger.due_cosignatures"
    DUE_TIME_STAMPS = "ledger.due_time_stamps"
    CONFIRMED_ERASURES = "ledger.confirmed_erasures"
    RUNNING_EXPORTS = "ledger.running_exports"
    ENDED_EXPORTS = "ledger.ended_exports"
    RUNNING_CHECKS = "ledger.running_checks"
    UNPROPOSED_ORDERS = "ledger.unproposed_orders"
    PROPOSED_ORDERS = "ledger.proposed_orders"
    DEADLINES = "approvals.deadlines"
    STOPPED_AGENTS = "approvals.stopped_agents"
    PREPARING_APPROVALS = "approvals.preparing_approvals"
    SPENT_APPROVALS = "approvals.spent_approvals"
    MOVED_CLOCKS = "approvals.moved_clocks"
    WATCHED_AGENTS = "approvals.watched_agents"
    UNSTARTED_STEPS = "approvals.unstarted_steps"
    STANDING_APPROVALS = "approvals.standing_approvals"
    OLD_DISPLAYS = "approvals.old_displays"
    WANTED_READINGS = "reviews.wanted_readings"
    UNSCHEDULED_ACTIONS = "reviews.unscheduled_actions"
    UNSCHEDULED_CLAIMS = "reviews.unscheduled_claims"
    HELD_ACTIONS = "reviews.held_actions"
    STALLED_ACTIONS = "reviews.stalled_actions"
    AWAY_SYSTEMS = "reviews.away_systems"
    ROLLBACKS = "reviews.rollbacks"
    WATCHED_SYSTEMS = "reviews.watched_systems"
    CANARIES = "reviews.canaries"
    RUNNING_BATCHES = "reviews.running_batches"
    OLD_DELIVERIES = "reviews.old_deliveries"
    OLD_COUNTS = "reviews.old_counts"
    UNCOUNTED_EVENTS = "console.uncounted_events"
    UNINDEXED_EVENTS = "console.unindexed_events"
    ALERT_RULES = "console.alert_rules"
    BUDGETS = "console.budgets"
    COMPARED_VERSIONS = "console.compared_versions"
    ENDED_SPANS = "console.ended_spans"
    EVENT_DESTINATIONS = "console.event_destinations"
    ALARM_NOTICES = "console.alarm_notices"
    NOTICES = "console.notices"
    HANDOFFS = "console.handoffs"
    OLD_NOTICES = "console.old_notices"
    STANDING_RETENTION = "console.standing_retention"
    OPEN_PROPOSALS = "console.open_proposals"


_PACKAGES: Final = ("ledger", "approvals", "reviews", "console")
_survey_answers: ContextVar[Mapping[Work, list[UUID]] | None] = ContextVar("survey_answers", default=None)


HELD_TENANTS: Final[LiteralString] = "SELECT id FROM ledger_tenant WHERE moving <> ''"
"""The tenants on the way to or from another installation, or at another one: nothing is written for them here."""
# While the queue of such a tenant is emptied, its log is signed.
_HERE: Final[LiteralString] = (
    f"named NOT IN ({HELD_TENANTS} AND (moving <> 'freezing' OR kind <> '{Work.UNSIGNED_LOGS.value}'))"
)


def survey(kinds: Collection[Work], *, at: datetime | None) -> dict[Work, list[UUID]]:
    """The tenants that have work of each of these kinds now, in one statement."""
    asked = {package: [kind.split(".")[1] for kind in kinds if kind.startswith(f"{package}.")] for package in _PACKAGES}
    parts = [(package, names) for package, names in asked.items() if names]
    text = " UNION ALL ".join(
        f"SELECT '{package}.' || asked AS kind, named"
        f" FROM unnest(${place}::text[]) asked, {package}_survey(asked, $1) named"
        for place, (package, _) in enumerate(parts, 2)
    )
    found: dict[Work, list[UUID]] = {kind: [] for kind in kinds}
    named = f"SELECT kind, named FROM ({text}) work WHERE {_HERE}"
    for kind, tenant_id in execute(named, at, *(names for _, names in parts)) if parts else ():
        found[Work(kind)].append(tenant_id)
    return found


@contextmanager
def one_survey(found: Mapping[Work, list[UUID]]) -> Iterator[None]:
    """Inside, `tenants_with` answers from what was just asked for all kinds at once."""
    token = _survey_answers.set(found)
    try:
        yield
    finally:
        _survey_answers.reset(token)


def tenants_with(kind: Work, *, at: datetime | None = None) -> list[UUID]:
    """The tenants that have work of a kind at this time, in an order of chance: where time runs out, nobody is always
    last. Work that is due at any time needs none.
    """
    known = _survey_answers.get() or {}
    found = known[kind] if kind in known else survey([kind], at=at)[kind]
    return random.sample(found, len(found))
