"""Reports on the actions of a session or run, for its model context and summary.

What is read here is the record: states, entries, what a reading found. No answer of a tool and no text of a model is
opened (R-PL-10, R-PL-11).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.db import execute
from ledger.log.queries import log
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import AS_REQUESTED, Outcome
from reviews import queries
from reviews.cases.rules.resolutions import RECHECKED
from reviews.readback.operations import schedules
from reviews.reconciliation.rules.freshness import freshness_marks
from reviews.reconciliation.rules.reading import parse_reading
from reviews.reporting.operations.reports import report_on
from reviews.reporting.queries import facts_of_each
from reviews.reporting.rules.context import FACT_LIFE, ReportedAction, to_single_line
from reviews.reporting.rules.facts import Facts
from reviews.reporting.rules.report import StatusReport
from reviews.verification.rules.trust import trust_ladder

if TYPE_CHECKING:
    from ledger.models import Action

STALE = "RT-11"
"""The row of the recovery table that hands a new plan the version as it is now."""

_READABLE = AS_REQUESTED | {Outcome.FAILED, Outcome.ROLLED_BACK}
"""The outcomes that a reading has settled and another one can confirm."""

_REVERSALS = ("compensation_action_id", "rollback_action_id")


def reported_actions(tenant_id: UUID, actions: Iterable[Any]) -> list[ReportedAction]:
    """Return the actions as items, in order; erased actions are left out because nothing can be reported of them."""
    actions = list(actions)
    entries = events_queries.entries(tenant_id, [(each.id, each.seq) for each in actions])
    sealed = log.sealed_subjects(tenant_id, [each.id for each in actions]) if actions else set()
    facts = facts_of_each(tenant_id, actions, entries)
    return [
        _item(each, entries[each.id], facts[each.id], sealed=each.id in sealed) for each in actions if each.id in facts
    ]


def _item(action: Action, entry: dict[str, Any], facts: Facts, *, sealed: bool) -> ReportedAction:
    ladder = trust_ladder(entry, sealed=sealed, contradicted=action.contradicted)
    recovery = entry.get("recovery") or {}
    as_of = _as_of(action, entry, facts)
    return ReportedAction(
        action_id=str(action.id),
        tool=action.tool,
        target=action.target,
        state=State(action.state),
        report=report_on(action, entry, facts=facts, ladder=ladder),
        as_of=as_of,
        fresh_until=as_of + FACT_LIFE[SideEffectClass(action.side_effect_class)] if _ages(facts) else None,
        can_be_read=facts.outcome in _READABLE and action.state in RECHECKED,
        trace_id=action.trace_id,
        discrepancy=action.discrepancy,
        contradicted=action.contradicted,
        reversal_tried=any(recovery.get(name) for name in _REVERSALS),
        version=_version(action) if action.recovery_row == STALE else "",
    )


def _ages(facts: Facts) -> bool:
    """Return whether what settled the action is true of a moment: a reading, an answer or a person's word."""
    return facts.found is not None or facts.outcome in (Outcome.ANSWERED, Outcome.ATTESTED, Outcome.ATTESTED_ABSENT)


def _as_of(action: Action, entry: dict[str, Any], facts: Facts) -> datetime:
    """The moment that the report is true of: of the last reading, where nothing has changed since it was taken."""
    changed: datetime = action.changed_at
    read = entry["timestamps"]["verified_at"]
    if read is None or action.contradicted or action.reversed:
        return changed
    first = datetime.fromisoformat(read)
    return max(first, facts.found.at) if facts.found is not None and facts.outcome in _READABLE else first


AGAIN_AFTER = timedelta(minutes=10)
"""How long a reading of an aged fact is waited for before it is ordered once more."""


def read_aged_again(*, tenant_id: UUID, aged: Iterable[ReportedAction], at: datetime) -> None:
    """Have facts that have outlived their life read again, unless such a reading is under way."""
    for item in aged:
        row = queries.schedule_of(tenant_id, UUID(item.action_id)) if item.can_be_read else None
        under_way = row is not None and row.recheck is not None and row.opened_at > at - AGAIN_AFTER
        if item.can_be_read and not under_way:
            schedules.recheck_now(tenant_id=tenant_id, action_id=UUID(item.action_id), at=at)


def _version(action: Action) -> str:
    """The version or ETag that the last reading showed (R-PL-16)."""
    run = queries.last_run(action.tenant_id, action.id)
    readings = queries.run_findings(run).get("readings", []) if run else []
    found: dict[str, Any] = freshness_marks(parse_reading(readings[0])) if readings else {}
    mark = found.get("version", found.get("etag"))
    return "" if mark is None else to_single_line(str(mark))


def remember_reports(*, tenant_id: UUID, told: Iterable[tuple[Any, StatusReport]], to: UUID, at: datetime) -> None:
    """Record reports as given to `to`, each on the state of the record in which its action was read (R-RI-15)."""
    rows = [
        (ledger.new_id(at), action.id, action.seq, str(report.code), report.text, report.completed)
        for action, report in told
    ]
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else []
    if columns:
        execute(_REMEMBER, tenant_id, to, at, *columns)


_REMEMBER = """
INSERT INTO reviews_report (tenant_id, id, action_id, event_id, code, text, completed, told_to, at)
SELECT $1, t.id, t.action_id, e.id, t.code, t.text, t.completed, $2, $3
FROM unnest($4::uuid[], $5::uuid[], $6::integer[], $7::text[], $8::text[], $9::boolean[])
    AS t (id, action_id, seq, code, text, completed)
JOIN ledger_event e ON e.tenant_id = $1 AND e.subject_id = t.action_id AND e.seq = t.seq
ON CONFLICT DO NOTHING
"""
