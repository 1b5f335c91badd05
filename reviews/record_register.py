"""How the rows of this package follow from their events; read by `ledger.register`, walked by `verify_ledger`."""

from __future__ import annotations

from typing import Any

from ledger.verification.rules.rebuilding import (
    KEEP,
    UNKNOWN,
    Happened,
    RecordTable,
    Row,
    actor,
    at,
    changes,
    creates,
    fixed,
    said,
    state,
)
from reviews.recovery.rules import recovery_table

RECOVERY_TABLES = {recovery_table.BUILT_IN.digest: {row.id: row.action for row in recovery_table.ROWS}}

_LISTED = ("id", "number", "source", "consistency", "freshness", "result", "discrepancy", "recovery_row")
_ANSWERED = ("status", "claimed_success", "error_code", "source", "late", "pointer", "raw_pointer")


def _fold_runs(rows: dict[Any, Row], event: Happened) -> None:
    """The row that a verification run is listed as: its first event says what stands in it."""
    listed = event.said("listed", None)
    if listed is UNKNOWN or (listed is None and event.said("run", None) is not None):
        # Erased, or a later event of a run, or one from before runs were listed on record.
        if not _is_listed(rows, event):
            rows[UNKNOWN] = {}
    elif listed is not None:
        rows[listed["id"]] = dict(listed) | {"at": event.envelope.at}


def _is_listed(rows: dict[Any, Row], event: Happened) -> bool:
    run = event.said("run", None)
    return run is not UNKNOWN and any(row.get("pointer") == run for row in rows.values())


def _fold_observations(rows: dict[Any, Row], event: Happened) -> None:
    """What a tool answered, by the event that took the answer."""
    seen = event.said("observation", None)
    if isinstance(seen, dict):
        row = {name: seen[name] for name in _ANSWERED}
        rows[seen["id"]] = row | {"attempt": event.said("attempt"), "at": event.envelope.at}
    elif seen is UNKNOWN or event.said("late", None) is not None or event.envelope.kind == "webhook_received":
        rows[UNKNOWN] = {}


def _fold_case(rows: dict[Any, Row], event: Happened) -> None:
    """What reopening does to a case, and what a case that was opened knows of its action."""
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


def _first_evidence(event: Happened) -> Any:
    """The first piece of evidence that an event commits to: of a proposal, what its proposer stands for."""
    return next((each.pointer for each in event.envelope.commitments if each.pointer is not None), None)


def _stray_case(event: Happened) -> Any:
    """The case, where it is about an effect that nobody gated; of an erased one nobody knows."""
    place = event.said("place", None)
    return UNKNOWN if place is UNKNOWN else KEEP if place is None else event.envelope.subject_id


def _linked(event: Happened) -> str:
    return event.envelope.kind.removesuffix("_linked")


_NOT_PROPOSED = {
    "proposed_resolution": fixed(""),
    "proposed_reason": fixed(""),
    "proposed_evidence": fixed([]),
    "proposed_by": fixed(None),
    "proposed_statement": fixed(None),
}
_AWAKE = {"snoozed_until": fixed(None), "snooze_reason": fixed("")}

RECORD_TABLES = (
    RecordTable(
        model="reviews.Case",
        subjects=("case",),
        events={
            "case_opened": creates(
                action_id=said("action_id", None),
                reason=said("reason", cut=48),
                opened_at=at,
                claimed_by=fixed(None),
                claimed_at=fixed(None),
                resolution=fixed(""),
                resolved_at=fixed(None),
                **_NOT_PROPOSED,
                **_AWAKE,
            ),
            "case_claimed": changes(claimed_by=actor, claimed_at=at),
            "case_assigned": changes(claimed_by=said("to"), claimed_at=at),
            "case_released": changes(claimed_by=fixed(None), claimed_at=fixed(None)),
            "case_snoozed": changes(snoozed_until=said("until"), snooze_reason=said("reason")),
            "case_woken": changes(**_AWAKE),
            "resolution_proposed": changes(
                proposed_resolution=said("resolution"),
                proposed_reason=said("reason"),
                proposed_evidence=said("evidence"),
                proposed_by=actor,
                proposed_statement=_first_evidence,
            ),
            "resolution_declined": changes(**_NOT_PROPOSED),
            "case_resolved": changes(resolution=said("resolution"), resolved_at=at, **_AWAKE),
            "case_reopened": changes(resolution=fixed(""), resolved_at=fixed(None), **_NOT_PROPOSED, **_AWAKE),
        },
        always={"state": state},
        fold=_fold_case,
        folded=("discrepancy", "side_effect_class", "severity", "tool", "target"),
    ),
    RecordTable(
        model="reviews.Stray",
        subjects=("case",),
        place="case_id",
        key=("case_id",),
        events={
            "case_opened": creates(
                _stray_case,
                place=said("place"),
                pointer=said("pointer"),
                system_id=said("system_id"),
                id=said("stray_id"),
                at=at,
            )
        },
    ),
    RecordTable(
        model="reviews.Incident",
        subjects=("incident",),
        events={
            "incident_opened": creates(
                kind=said("kind"),
                severity=said("severity"),
                title=said("title"),
                about=said("about"),
                runbook=said("follows"),
                action_id=said("action_id"),
                opened_at=at,
                closing_note=fixed(""),
                closed_at=fixed(None),
            ),
            "incident_closed": changes(closing_note=said("reason"), closed_at=at),
            "incident_reopened": changes(closing_note=fixed(""), closed_at=fixed(None)),
        },
        always={"state": state},
    ),
    RecordTable(
        model="reviews.IncidentLink",
        subjects=("incident",),
        place="incident_id",
        key=("kind", "subject_id"),
        events={
            f"{kind}_linked": creates(lambda event: (_linked(event), event.said("subject_id")), at=at)
            for kind in ("action", "case", "freeze")
        },
        outside={"id": "a number of the row"},
    ),
    RecordTable(
        model="reviews.Hook",
        subjects=("system",),
        place="system_id",
        events={
            "hook_created": creates(said("hook_id"), created_at=at, revoked_at=fixed(None)),
            "hook_revoked": changes(said("hook_id"), revoked_at=at),
        },
    ),
    RecordTable(
        model="reviews.Health",
        subjects=("system",),
        place="system_id",
        key=("system_id",),
        events={
            "releasing_stopped": creates(stopped_at=at, stopped_because=said("reason")),
            "releasing_resumed": creates(stopped_at=fixed(None), stopped_because=fixed("")),
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
            "batch_started": creates(
                kind=said("kind"), total=said("total"), wanted=said("wanted"), started_by=actor, started_at=at
            )
        },
        always={
            "state": state,
            "ended_at": lambda event: event.envelope.at if event.envelope.to_state in ("CANCELLED", "DONE") else None,
        },
    ),
    RecordTable(
        model="reviews.Run",
        subjects=("action",),
        place="action_id",
        fold=_fold_runs,
        folded=(*_LISTED, "recovery_decision", "pointer", "at"),
    ),
    RecordTable(
        model="reviews.Observation",
        subjects=("action",),
        place="action_id",
        fold=_fold_observations,
        folded=(*_ANSWERED, "attempt", "at"),
    ),
)

OUTSIDE = {
    "reviews.Schedule": "a queue of ids; what is missing is given a row by the sweep",
    "reviews.Lane": "how hard a system may be asked now",
    "reviews.HookDelivery": "so that a webhook is taken once; forgotten after a while",
    "reviews.ReadingCount": "what readings cost",
    "reviews.ReadingTotal": "what a budget of readings is held against",
    "reviews.Watch": "how far a system's own log was compared with the record; the log itself stays the source",
    "reviews.Comment": "what people write to each other; the event of each line names it",
    "reviews.BatchItem": "how far a batch is; what was done to a case is an event of the case",
    "reviews.Report": "what was told to whom, on which event; append-only by the database",
    "reviews.GuardVerdict": "what the guard said of a message; append-only, with its grounds as evidence",
}
