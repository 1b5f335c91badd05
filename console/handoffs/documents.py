"""The handoffs of a tenant, each computed by the queries of its subject and not stored. Inside `tenancy`."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib.resources import files
from typing import Any, Final
from uuid import UUID

from approvals.gate import queries as gate
from approvals.gate.rules.layers import Layer
from console.contracts.contract_check import current_findings, registered_systems
from console.handoffs import schemas
from console.metrics import figures, queries
from console.metrics.rules.delays import summarize_delays
from console.metrics.rules.filters import EVERYTHING
from console.metrics.rules.periods import MetricPeriod
from console.systems import context as systems
from console.web.spreadsheets import spreadsheet_cell
from ledger.actions.queries import actions, readings
from ledger.catalogue import queries as catalogue
from ledger.catalogue.rules.contract import load_stored, read
from ledger.catalogue.rules.depth import verification_depth
from ledger.record.queries import events
from ledger.record.rules.event_kinds import EVENT_KINDS
from ledger.record.rules.lifecycle import MACHINES, NEEDS, TERMINAL, TRANSITIONS, State
from ledger.record.rules.outcomes import outcome_of
from reviews import queries as after
from reviews.reconciliation.rules.discrepancies import Discrepancy, recovery_triggers
from reviews.reporting.rules.success_patterns import pattern_of_run

MOST_ROWS: Final = 1_000
Rows = list[Any]
HANDOFFS: Final[Mapping[str, Any]] = {
    each.model_fields["handoff"].default: each
    for each in (
        schemas.ContractsHandoff,
        schemas.PathologiesHandoff,
        schemas.PermissionsHandoff,
        schemas.DependenciesHandoff,
        schemas.ResourcesHandoff,
        schemas.ReviewsHandoff,
        schemas.UnrecordedHandoff,
        schemas.TelemetryHandoff,
        schemas.EvaluationsHandoff,
        schemas.ReferenceHandoff,
    )
}


def make_handoff(tenant_id: UUID, name: str, period: MetricPeriod, *, at: datetime) -> schemas.AnyHandoff:
    """One handoff over a period; present values are as of `at`."""
    rows = _ROWS[name](tenant_id, period, at)
    kind = HANDOFFS[name]
    made: schemas.AnyHandoff = kind.of(
        {
            "handoff": name,
            "version": kind.model_fields["version"].default,
            "tenant": events.tenant_by_id(tenant_id).slug,
            "made_at": at,
            "since": period.since,
            "until": period.until,
            "counted_to": queries.counted_to(tenant_id),
            "cut": len(rows) > MOST_ROWS,
            "details": list(_DETAILS[name]),
            "rows": rows[:MOST_ROWS],
        }
    )
    return made


def listed_handoffs() -> list[schemas.HandoffListed]:
    """Every hand-off, with where to get it."""
    return [
        schemas.HandoffListed(
            name=name,
            version=kind.model_fields["version"].default,
            holds=" ".join((kind.__doc__ or "").split()),
            document=f"/api/v1/handoffs/{name}",
            json_schema=f"/api/v1/handoffs/{name}/schema",
            csv=f"/api/v1/handoffs/{name}/rows.csv",
            json_lines=f"/api/v1/handoffs/{name}/rows.jsonl",
        )
        for name, kind in HANDOFFS.items()
    ]


def handoff_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a hand-off."""
    kind = HANDOFFS[name]
    schema: dict[str, Any] = kind.model_json_schema(by_alias=True, mode="serialization")
    version = kind.model_fields["version"].default
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "$id": f"urn:counterfoil:handoff:{name}:{version}", **schema}


def rows_as_lines(handoff: schemas.AnyHandoff) -> str:
    """The rows as JSON lines."""
    return "".join(f"{row.model_dump_json(by_alias=True)}\n" for row in handoff.rows)


def rows_as_table(handoff: schemas.AnyHandoff) -> str:
    """The rows as CSV; a cell of more than one value is JSON."""
    text = io.StringIO()
    written = csv.writer(text)
    row_kind = type(handoff).model_fields["rows"].annotation.__args__[0]  # type: ignore[union-attr]
    written.writerow([field.alias or name for name, field in row_kind.model_fields.items()])
    for row in handoff.rows:
        written.writerow([_cell(value) for value in row.model_dump(by_alias=True, mode="json").values()])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value) if isinstance(value, list | dict | bool) else value
    return spreadsheet_cell(text) if isinstance(value, str) else str(text)


def _counts(tenant_id: UUID, period: MetricPeriod, *by: str) -> dict[tuple[Any, ...], dict[str, int]]:
    return queries.count_by(tenant_id, *by, since=period.since, until=period.until, span=period.span, about=EVERYTHING)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _contracts(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    counted = _counts(tenant_id, period, "tool")
    known = registered_systems(tenant_id)
    rows = []
    for name, row in sorted(catalogue.newest_contracts(tenant_id, catalogue.tool_names(tenant_id)).items()):
        document, counts = bytes(row.document), counted.get((name,), {})
        contract = load_stored(document, expected_digest=row.digest)
        check = contract.verification
        executed, read_back = counts.get("executed", 0), counts.get("read_back", 0)
        rows.append(
            schemas.ContractRow.of(
                {
                    "tool": name,
                    "version": row.version,
                    "digest": row.digest,
                    "side_effect_class": str(contract.side_effect_class),
                    "reversibility": str(contract.reversibility),
                    "verification": check.pattern if check else None,
                    "system": check.system if check else None,
                    "further_systems": [each.system for each in check.further] if check else [],
                    "predicates": len(contract.predicates),
                    "read_first_after_s": check.polling.first_after_s if check else None,
                    "read_until_s": check.polling.sla_s if check else None,
                    "missing_checks": list(verification_depth(read(document)).uncovered),
                    "idempotent": contract.recovery.idempotent,
                    "lint": sorted({each.code for each in current_findings(contract, known)}),
                    "executed": executed,
                    "read_back": read_back,
                    "readings": counts.get("readings", 0),
                    "mismatched": counts.get("mismatched", 0),
                    "stale_reads": counts.get("stale_reads", 0),
                    "unknown": counts.get("unknown", 0),
                    "read_back_share": _share(read_back, executed),
                    "mismatch_share": _share(counts.get("mismatched", 0), read_back),
                }
            )
        )
    return rows


def _pathologies(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for tool, discrepancy, count in after.discrepancies_by_tool(tenant_id, since=period.since, until=period.until):
        found[tool][discrepancy] = count
    rows = []
    for (tool, side_effect_class), counts in sorted(_counts(tenant_id, period, "tool", "side_effect_class").items()):
        if not counts["actions"]:
            continue
        same = ("executed", "mismatched", "unknown", "partial", "stale_state", "pending", "pending_over_sla")
        more = ("unsettled", "compensations_failed", "false_success")
        rows.append(
            schemas.PathologyRow.of(
                {
                    "tool": tool,
                    "side_effect_class": side_effect_class,
                    "failed_verification": counts["verification_failed"],
                    "failure_share": _share(counts["verification_failed"], counts["executed"]),
                    # A tool that changed its class has two rows; what was read of it stands in the first.
                    "discrepancies": dict(found.pop(tool, {})),
                    **{name: counts[name] for name in (*same, *more)},
                }
            )
        )
    return rows


def _permissions(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    tenant, stretch = events.tenant_by_id(tenant_id).slug, {"since": period.since, "until": period.until}
    common = {"tenant": tenant, "agent": None, "tool": None, "action_id": None, "session_id": None, "case_id": None}
    limit = MOST_ROWS + 1
    wrong = after.wrong_targets(tenant_id, limit=limit, **stretch)
    known = actions.actions_by_id(tenant_id, [action_id for action_id, _ in wrong])
    found: list[dict[str, Any]] = [
        {
            "kind": "wrong_target",
            "at": moment,
            "code": str(Discrepancy.WRONG_TARGET_MODIFIED),
            "action_id": action_id,
            "agent": known[action_id].agent,
            "tool": known[action_id].tool,
            "session_id": known[action_id].session_id,
        }
        for action_id, moment in wrong
    ]
    calls = gate.calls_page(
        tenant_id,
        since=period.since,
        until=period.until,
        before=None,
        limit=limit,
        accepted=False,
        layer=str(Layer.PERMISSIONS),
    )
    found += [
        {
            "kind": "refused_call",
            "at": call.at,
            "code": call.code,
            "agent": call.agent_id,
            "tool": call.tool,
            "session_id": call.session_id,
            "action_id": call.action_id,
        }
        for call in calls
    ]
    found += [
        {"kind": "ungated_effect", "at": stray.at, "code": "UNGATED_EFFECT", "case_id": stray.case_id}
        for stray in after.ungated_effects(tenant_id, limit=limit, **stretch)
    ]
    found.sort(key=lambda each: each["at"], reverse=True)
    return [schemas.PermissionRow.of(common | each) for each in found]


def _dependencies(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    tools: defaultdict[str, list[str]] = defaultdict(list)
    for name, row in sorted(catalogue.newest_contracts(tenant_id, catalogue.tool_names(tenant_id)).items()):
        check = load_stored(bytes(row.document), expected_digest=row.digest).verification
        if check is not None:
            tools[check.system].append(name)
    delays = queries.delays_by(
        tenant_id, "tool", since=period.since, until=period.until, span=period.span, about=EVERYTHING
    )
    rows = []
    for seen in systems.all_systems(tenant_id, at=at):
        lengths, total = Counter[int](), 0
        for tool in tools[seen.name]:
            for rounded, (count, sum_ms) in delays.get(("verification", tool), {}).items():
                lengths[rounded] += count
                total += sum_ms
        settled, health = summarize_delays(lengths, total_ms=total), seen.health
        rows.append(
            schemas.DependencyRow.of(
                {
                    "system": seen.name,
                    "pattern": seen.pattern,
                    "circuit": seen.standing.value,
                    "since": health.since,
                    "reads": health.reads,
                    "unanswered": health.unanswered,
                    "unanswered_share": _share(health.unanswered, health.reads),
                    "failures": health.failures,
                    "last_read_ms": health.latency_ms,
                    "last_answered_at": health.last_success_at,
                    "waiting": seen.debt.waiting,
                    "oldest_waiting_at": seen.debt.oldest_at,
                    "not_releasing": str(seen.stop) if seen.stop else None,
                    "tools": tools[seen.name],
                    "settled": settled.count,
                    "settled_median_ms": settled.median_ms,
                    "settled_p95_ms": settled.p95_ms,
                }
            )
        )
    return rows


def _resources(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    same = ("executed", "calls", "readings", "repeats", "duplicated", "compensations")
    return [
        schemas.ResourceRow.of(
            {
                "tool": tool,
                "agent": agent,
                "readings_per_action": _share(counts["readings"], counts["executed"]),
                "repeats_per_action": _share(counts["repeats"], counts["executed"]),
                "duplicate_share": _share(counts["duplicated"], counts["executed"]),
                "compensation_share": _share(counts["compensations"], counts["executed"]),
                **{name: counts[name] for name in same},
            }
        )
        for (tool, agent), counts in sorted(_counts(tenant_id, period, "tool", "agent").items())
    ]


def _reviews(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    cases = after.cases(tenant_id, limit=MOST_ROWS + 1)
    known = actions.actions_by_id(tenant_id, [each.action_id for each in cases if each.action_id])
    rows = []
    for case in cases:
        action = known.get(case.action_id) if case.action_id else None
        rows.append(
            schemas.ReviewRow.of(
                {
                    "case_id": case.id,
                    "action_id": case.action_id,
                    "state": case.state,
                    "reason": case.reason,
                    "discrepancy": case.discrepancy or None,
                    "side_effect_class": case.side_effect_class,
                    "severity": case.severity,
                    "tool": case.tool,
                    "opened_at": case.opened_at,
                    "claimed": case.claimed_by is not None,
                    "proposed": case.proposed_resolution or None,
                    "action_state": State(action.state) if action else None,
                    "action_outcome": outcome_of(action) if action else None,
                    "compensation_failed": case.reason == State.COMPENSATION_FAILED,
                    "details": f"/api/v1/reviews/{case.id}",
                }
            )
        )
    return rows


def _unrecorded_rows(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    told = [
        start
        for start in reversed(readings.unrecorded_starts(tenant_id))
        if period.since <= start["told_at"] < period.until
    ]
    found = actions.actions_by_id(tenant_id, [UUID(start["action_id"]) for start in told])
    known = {str(action_id): action for action_id, action in found.items()}
    same = ("action_id", "attempt", "executor_id", "tool", "payload_hash", "started_at")
    return [
        schemas.UnrecordedRow.of(
            {
                **{name: start[name] for name in same},
                "tool_status": start["status"] or None,
                "reported_at": start["told_at"],
                "action_state": action.state if action else None,
                "action_outcome": outcome_of(action) if action else None,
            }
        )
        for start in told
        for action in [known.get(start["action_id"])]
    ]


def _telemetry(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    return [
        schemas.TelemetryRow.of(
            {
                "metric": figure.metric.id,
                "name": figure.metric.name,
                "kind": str(figure.metric.kind),
                "formula": figure.metric.formula,
                "value": figure.value,
                "before": figure.before,
                "part": figure.part,
                "whole": figure.whole,
                "healthy": figure.healthy,
                "median_ms": figure.delay.median_ms if figure.delay else None,
                "p95_ms": figure.delay.p95_ms if figure.delay else None,
            }
        )
        for figure in figures.metric_report(tenant_id, period, EVERYTHING).figures.values()
    ]


def _evaluations(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    found = after.failures(tenant_id, since=period.since, until=period.until, limit=MOST_ROWS + 1)
    known = actions.actions_by_id(tenant_id, [action_id for action_id, *_ in found])
    return [
        schemas.EvaluationRow.of(
            {
                "action_id": action_id,
                "tool": known[action_id].tool,
                "side_effect_class": known[action_id].side_effect_class,
                "found_at": moment,
                "claimed": claimed,
                "result": result,
                "discrepancy": discrepancy,
                "pattern": pattern_of_run(discrepancy, claimed=claimed),
                "decision": decision or None,
                "bundle": f"/api/v1/replay-bundles/{action_id}",
            }
        )
        for action_id, result, discrepancy, decision, moment, claimed in found
    ]


def _reference(tenant_id: UUID, period: MetricPeriod, at: datetime) -> Rows:
    return [
        schemas.ReferenceRow.of({"table": table, "about": about, "content": content})
        for table, about, content in _tables()
    ]


def _tables() -> Iterator[tuple[str, str, dict[str, Any]]]:
    def stored(package: str, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(files(package).joinpath(name).read_bytes())
        return document

    lifecycle = [
        {"from": start, "to": target, "grounds": sorted(NEEDS.get((start, target), ()))}
        for start, target in sorted(TRANSITIONS)
    ]
    yield (
        "lifecycle",
        "States of an action and their transitions, with the grounds that each needs.",
        {
            "states": list(State),
            "terminal": sorted(TERMINAL),
            "transitions": lifecycle,
        },
    )
    yield (
        "state_machines",
        "The transitions of every kind of subject; the empty state is before its first event.",
        {
            subject: [{"from": start, "to": target} for start, target in sorted(pairs)]
            for subject, pairs in MACHINES.items()
        },
    )
    yield (
        "events",
        "Every kind of event.",
        {
            name: {"words": kind.words, "subjects": list(kind.subjects), "by": list(kind.by), "meaning": kind.meaning}
            for name, kind in EVENT_KINDS.items()
        },
    )
    yield (
        "discrepancies",
        "The twelve classes in the order in which they decide, with what each asks the recovery table.",
        {
            name: {"rank": rank, "triggers": sorted(recovery_triggers(name, claimed=True))}
            for rank, name in enumerate(Discrepancy, 1)
        },
    )
    recovery, record, contracts = "reviews.recovery.rules", "ledger.record.rules", "ledger.catalogue.rules"
    yield "recovery", "The recovery table as it comes with the program.", stored(recovery, "recovery_table.json")
    yield "check_patterns", "How systems are read back.", stored("reviews.reconciliation.rules", "check_patterns.json")
    yield "side_effect_classes", "What each class requires.", stored(contracts, "side_effect_classes.json")
    yield "ledger_entry", "JSON Schema of a ledger entry, version 2.", stored(record, "ledger_entry.schema.json")
    yield (
        "ledger_entry_1",
        "JSON Schema of a ledger entry, version 1: without the digests of policies.",
        stored(record, "ledger_entry_1.schema.json"),
    )
    yield "observation", "JSON Schema of an observation, version 1.", stored(record, "observation.schema.json")
    yield "contract", "JSON Schema of a tool's contract.", stored(contracts, "contract.schema.json")


_ROWS: Final[Mapping[str, Callable[[UUID, MetricPeriod, datetime], Rows]]] = {
    "contracts": _contracts,
    "pathologies": _pathologies,
    "permissions": _permissions,
    "dependencies": _dependencies,
    "resources": _resources,
    "reviews": _reviews,
    "unrecorded": _unrecorded_rows,
    "telemetry": _telemetry,
    "evaluations": _evaluations,
    "reference": _reference,
}
_DETAILS: Final[Mapping[str, tuple[str, ...]]] = {
    "contracts": ("GET /contracts/{tool}/{version}",),
    "pathologies": ("GET /metrics/actions?count=&from=&to=&tool=",),
    "permissions": ("GET /actions/{action_id}", "GET /sessions/{session_id}", "GET /reviews/{case_id}"),
    "dependencies": ("GET /systems",),
    "resources": ("GET /metrics/actions?count=&from=&to=&tool=&agent=",),
    "reviews": ("GET /reviews/{case_id}", "GET /actions/{action_id}/report"),
    "unrecorded": ("GET /ledger/standing", "GET /actions/{action_id}"),
    "telemetry": ("GET /metrics/summary", "GET /actions/{action_id}/trace"),
    "evaluations": ("GET /replay-bundles/{action_id}", "GET /actions/{action_id}/replay"),
    "reference": ("GET /openapi.json",),
}
