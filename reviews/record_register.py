"""The rules by which rows of this package follow from events, for `ledger.register` and `manage.py verify_ledger`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.record.rules import lifecycle
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import BY_STATE, outcome_of_step
from ledger.verification.rules.rebuilding import (
    KEEP,
    UNKNOWN,
    RecordTable,
    Row,
    VerifiedEvent,
    actor_of,
    changes_row,
    constant,
    creates_row,
    detail_field,
    event_time,
    state_after,
)
from reviews.recovery.rules import recovery_table
from reviews.reporting.rules.report import StatusCode, possible_codes

RECOVERY_TABLES = {recovery_table.BUILT_IN.digest: {row.id: row.action for row in recovery_table.ROWS}}

_LISTED = (
    *("id", "number", "source", "consistency", "freshness", "result", "discrepancy", "recovery_row"),
    *("recovery_decision", "pointer", "asked"),
)
_ANSWERED = ("status", "claimed_success", "error_code", "source", "late", "pointer", "raw_pointer")


def _fold_runs(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """The row of a verification run, from its first event."""
    listed = event.said("listed", None)
    if listed is UNKNOWN or (listed is None and event.said("run", None) is not None):
        # Erased, or a later event of a run, or one from before runs were listed on record.
        if not _is_listed(rows, event):
            rows[UNKNOWN] = {}
    elif listed is not None:
        # The event says more of the reading than its row has.
        rows[listed["id"]] = {name: listed[name] for name in _LISTED if name in listed} | {"at": event.envelope.at}


def _is_listed(rows: dict[Any, Row], event: VerifiedEvent) -> bool:
    run = event.said("run", None)
    return run is not UNKNOWN and any(row.get("pointer") == run for row in rows.values())


def _fold_observations(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """Observations: what a tool answered, from the event that recorded it."""
    seen = event.said("observation", None)
    if isinstance(seen, dict):
        row = {name: seen[name] for name in _ANSWERED}
        rows[seen["id"]] = row | {"attempt": event.said("attempt"), "at": event.envelope.at}
    elif seen is UNKNOWN or event.said("late", None) is not None or event.envelope.kind == "webhook_received":
        rows[UNKNOWN] = {}


@dataclass(slots=True, eq=False)
class _ReportedCode:
    """The code of a report given on an event: one of those possible in the state that the event left."""

    state: str
    entry: Mapping[str, Any] | None
    reached_by: str
    contradicted: bool
    reversed: bool

    def __eq__(self, stored: object) -> bool:
        if self.entry is None:
            return True
        state = State(self.state)
        outcome = BY_STATE[state] if self.reversed else outcome_of_step(self.state, self.reached_by)
        return stored in possible_codes(state, self.entry, outcome=outcome, contradicted=self.contradicted)

    __hash__ = None  # type: ignore[assignment]


_FIRST = _ReportedCode(state="", entry=None, reached_by="", contradicted=False, reversed=False)


def _fold_reports(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """Keep the status code that a report on the action has after this event."""
    envelope = event.envelope
    before: _ReportedCode = next((row["code"] for row in reversed(rows.values())), _FIRST)
    turned = lifecycle.changes_outcome(envelope.kind, envelope.from_state, envelope.to_state)
    code = _ReportedCode(
        state=envelope.to_state,
        entry=event.entry,
        reached_by=envelope.kind if turned else before.reached_by,
        contradicted=event.said("view.contradicted", before.contradicted) is True,
        reversed=event.said("view.reversed", before.reversed) is True,
    )
    rows[envelope.id] = {"code": code, "completed": True}


def _says_completed_rightly(row: Mapping[str, Any]) -> bool:
    """Return True if `completed` fits the report's code; earlier reports on answered reads stay as given."""
    return row["code"] == StatusCode.ANSWERED or bool(row["completed"] == (row["code"] == StatusCode.COMPLETED))


def _guard_verdict(event: VerifiedEvent) -> Any:
    """The guard's verdict: the kind of the event."""
    return "BLOCK" if event.envelope.kind == "message_blocked" else "ALLOW"


def _fold_case(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """Apply opening and reopening to the row of a case."""
    row, envelope = rows.get(envelope_id := event.envelope.subject_id), event.envelope
    if row is None:
        return
    if envelope.kind == "case_opened":
        names = ("discrepancy", "side_effect_class", "severity", "tool", "target")
        # Before cases said all of it, the class that they named was the action's.
        known = event.said("severity") is not UNKNOWN
        row |= {name: event.said(name) if known else UNKNOWN for name in names}
    elif envelope.kind == "case_reopened":
        found = event.said("discrepancy")
        row["discrepancy"] = found if found is UNKNOWN or found else row["discrepancy"]
        row["reason"] = "CONTRADICTED" if envelope.actor_kind == "system" else "REOPENED"
    rows[envelope_id] = row


def _first_evidence(event: VerifiedEvent) -> Any:
    """The first piece of evidence that an event commits to; of a proposal, the signed statement."""
    return next((each.pointer for each in event.envelope.commitments if each.pointer is not None), None)


def _stray_case(event: VerifiedEvent) -> Any:
    """The id of the case if it is about an ungated effect; unknown if the event was erased."""
    place = event.said("place", None)
    return UNKNOWN if place is UNKNOWN else KEEP if place is None else event.envelope.subject_id


def _link_relation(event: VerifiedEvent) -> str:
    return event.envelope.kind.removesuffix("_linked")


_NOT_PROPOSED = {
    "proposed_resolution": constant(""),
    "proposed_reason": constant(""),
    "proposed_evidence": constant([]),
    "proposed_by": constant(None),
    "proposed_statement": constant(None),
}
_AWAKE = {"snoozed_until": constant(None), "snooze_reason": constant("")}

_READ_CLAIM = {
    name: detail_field(f"row.{name}", KEEP) for name in ("result", "discrepancy", "pointer", "read_at", "case_id")
}
_MOVED_CLAIM = {name: detail_field(f"row.{name}", KEEP) for name in ("reached_by", "changed_at")}

RECORD_TABLES = (
    RecordTable(
        model="reviews.UngatedClaim",
        subjects=("claim",),
        events={
            "claim_made": creates_row(
                **{
                    name: detail_field(name)
                    for name in ("system", "system_id", "effect", "operation", "target", "said_by", "document")
                },
                made_by=actor_of,
                made_at=event_time,
                reached_by=constant("claim_made"),
                changed_at=event_time,
                result=constant(""),
                discrepancy=constant(""),
                pointer=constant(None),
                read_at=constant(None),
                case_id=constant(None),
            ),
            **{
                kind: changes_row(**_READ_CLAIM, **_MOVED_CLAIM)
                for kind in (
                    *("claim_verified", "claim_refuted", "claim_left_unknown", "claim_contradicted", "claim_read"),
                )
            },
        },
        always={"state": state_after},
    ),
    RecordTable(
        model="reviews.Case",
        subjects=("case",),
        events={
            "case_opened": creates_row(
                action_id=detail_field("action_id", None),
                reason=detail_field("reason", cut=48),
                opened_at=event_time,
                claimed_by=constant(None),
                claimed_at=constant(None),
                resolution=constant(""),
                resolved_at=constant(None),
                **_NOT_PROPOSED,
                **_AWAKE,
            ),
            "case_claimed": changes_row(claimed_by=actor_of, claimed_at=event_time),
            "case_assigned": changes_row(claimed_by=detail_field("to"), claimed_at=event_time),
            "case_released": changes_row(claimed_by=constant(None), claimed_at=constant(None)),
            "case_snoozed": changes_row(snoozed_until=detail_field("until"), snooze_reason=detail_field("reason")),
            "case_woken": changes_row(**_AWAKE),
            "resolution_proposed": changes_row(
                proposed_resolution=detail_field("resolution"),
                proposed_reason=detail_field("reason"),
                proposed_evidence=detail_field("evidence"),
                proposed_by=actor_of,
                proposed_statement=_first_evidence,
            ),
            "resolution_declined": changes_row(**_NOT_PROPOSED),
            "case_resolved": changes_row(resolution=detail_field("resolution"), resolved_at=event_time, **_AWAKE),
            "case_reopened": changes_row(
                resolution=constant(""), resolved_at=constant(None), **_NOT_PROPOSED, **_AWAKE
            ),
        },
        always={"state": state_after},
        fold=_fold_case,
        folded=("discrepancy", "side_effect_class", "severity", "tool", "target"),
    ),
    RecordTable(
        model="reviews.UngatedEffect",
        subjects=("case",),
        place="case_id",
        key=("case_id",),
        events={
            "case_opened": creates_row(
                _stray_case,
                place=detail_field("place"),
                pointer=detail_field("pointer"),
                system_id=detail_field("system_id"),
                id=detail_field("stray_id"),
                at=event_time,
            )
        },
    ),
    RecordTable(
        model="reviews.Incident",
        subjects=("incident",),
        events={
            "incident_opened": creates_row(
                kind=detail_field("kind"),
                severity=detail_field("severity"),
                title=detail_field("title"),
                about=detail_field("about"),
                runbook=detail_field("follows"),
                action_id=detail_field("action_id"),
                opened_at=event_time,
                closing_note=constant(""),
                closed_at=constant(None),
            ),
            "incident_closed": changes_row(closing_note=detail_field("reason"), closed_at=event_time),
            "incident_reopened": changes_row(closing_note=constant(""), closed_at=constant(None)),
        },
        always={"state": state_after},
    ),
    RecordTable(
        model="reviews.IncidentLink",
        subjects=("incident",),
        place="incident_id",
        key=("kind", "subject_id"),
        events={
            f"{kind}_linked": creates_row(
                lambda event: (_link_relation(event), event.said("subject_id")), at=event_time
            )
            for kind in ("action", "case", "freeze")
        },
        outside={"id": "a number of the row"},
    ),
    RecordTable(
        model="reviews.Webhook",
        subjects=("system",),
        place="system_id",
        events={
            "hook_created": creates_row(detail_field("hook_id"), created_at=event_time, revoked_at=constant(None)),
            "hook_revoked": changes_row(detail_field("hook_id"), revoked_at=event_time),
        },
    ),
    RecordTable(
        model="reviews.SystemHealth",
        subjects=("system",),
        place="system_id",
        key=("system_id",),
        events={
            "releasing_stopped": creates_row(stopped_at=event_time, stopped_because=detail_field("reason")),
            "releasing_resumed": creates_row(stopped_at=constant(None), stopped_because=constant("")),
        },
        whole=False,
        outside=dict.fromkeys(
            (
                *("reads", "unanswered", "failures", "latency_ms", "last_read_at", "last_success_at"),
                *("last_failure", "since", "probe_at", "cooldown_s"),
            ),
            "measurements of a system, made anew by every reading",
        ),
    ),
    RecordTable(
        model="reviews.Batch",
        subjects=("batch",),
        events={
            "batch_started": creates_row(
                kind=detail_field("kind"),
                total=detail_field("total"),
                wanted=detail_field("wanted"),
                started_by=actor_of,
                started_at=event_time,
            )
        },
        always={
            "state": state_after,
            "ended_at": lambda event: event.envelope.at if event.envelope.to_state in ("CANCELLED", "DONE") else None,
        },
    ),
    RecordTable(
        model="reviews.VerificationRun",
        subjects=("action",),
        place="action_id",
        fold=_fold_runs,
        folded=(*_LISTED, "at"),
        adopted_by="pointer",
    ),
    RecordTable(
        model="reviews.Observation",
        subjects=("action",),
        place="action_id",
        fold=_fold_observations,
        folded=(*_ANSWERED, "attempt", "at"),
    ),
    RecordTable(
        model="reviews.Report",
        subjects=("action",),
        place="action_id",
        key=("event_id",),
        fold=_fold_reports,
        folded=("code", "completed"),
        read={"completed": _says_completed_rightly},
        optional=True,
        outside={
            "id": "a number of the row",
            "text": "what people read of the code; emptied by erasing",
            "told_to": "who asked; each of them once for an event",
            "at": "when it was first asked for",
        },
    ),
    RecordTable(
        model="reviews.GuardVerdict",
        subjects=("session",),
        place="session_id",
        key=("event_id",),
        events={
            kind: creates_row(
                lambda event: event.envelope.id,
                verdict=_guard_verdict,
                codes=detail_field("codes"),
                tags=detail_field("tags"),
                claims=detail_field("claims"),
                records=detail_field("records"),
                message_hash=detail_field("message_hash"),
                pointer=_first_evidence,
                at=event_time,
            )
            for kind in ("message_allowed", "message_blocked")
        },
        outside={"id": "a number of the row"},
    ),
)

OUTSIDE = {
    "reviews.Schedule": "a queue of ids; what is missing is given a row by the sweep",
    "reviews.Lane": "how hard a system may be asked now",
    "reviews.WebhookDelivery": "so that a webhook is taken once; forgotten after a while",
    "reviews.ReadingCount": "what readings cost",
    "reviews.ReadingTotal": "what a budget of readings is held against",
    "reviews.ChangeLogPosition": "how far a system's own log was compared; the log itself stays the source",
    "reviews.Comment": "what people write to each other; the event of each line names it",
    "reviews.BatchItem": "how far a batch is; what was done to a case is an event of the case",
}
