"""Reports on the actions of a session or run, for its model context and summary.

What is read here is the record: states, entries, what a reading found. No answer of a tool and no text of a model is
opened (R-PL-10, R-PL-11).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.db import execute
from ledger.log.queries import log
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from ledger.record.rules.lifecycle import State
from reviews import queries
from reviews.reconciliation.rules.freshness import freshness_marks
from reviews.reconciliation.rules.reading import parse_reading
from reviews.reporting.operations.reports import report_on
from reviews.reporting.queries import facts_of_each
from reviews.reporting.rules.context import ReportedAction, to_single_line
from reviews.reporting.rules.facts import Facts
from reviews.reporting.rules.report import StatusReport
from reviews.verification.rules.trust import trust_ladder

if TYPE_CHECKING:
    from ledger.models import Action

STALE = "RT-11"
"""The row of the recovery table that hands a new plan the version as it is now."""

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
    return ReportedAction(
        action_id=str(action.id),
        tool=action.tool,
        target=action.target,
        state=State(action.state),
        report=report_on(action, entry, facts=facts, ladder=ladder),
        as_of=_as_of(action, entry),
        trace_id=action.trace_id,
        discrepancy=action.discrepancy,
        contradicted=action.contradicted,
        reversal_tried=any(recovery.get(name) for name in _REVERSALS),
        version=_version(action) if action.recovery_row == STALE else "",
    )


def _as_of(action: Action, entry: dict[str, Any]) -> datetime:
    """Return the time at which the report is true: that of the last reading, if nothing has changed since."""
    changed: datetime = action.changed_at
    read = entry["timestamps"]["verified_at"]
    return changed if read is None or action.contradicted or action.reversed else datetime.fromisoformat(read)


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
