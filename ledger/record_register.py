"""The rules by which this package's rows follow from their events, for `ledger.register` and
`manage.py verify_ledger`.
"""

from __future__ import annotations

from typing import Any

from ledger.record.rules.envelope import instant
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
    envelope_digest,
    event_time,
    on_first_event,
    state_after,
)


def _fold_idempotency(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """The idempotency key of a mutation, from the entry of the action's start."""
    block = (event.entry or {}).get("idempotency")
    if event.envelope.subject_kind == "action" and block and block["key_hash"]:
        rows[event.envelope.subject_id] = {"key_hash": block["key_hash"], "request_hash": block["request_hash"]}


def _proposed_system(event: VerifiedEvent) -> Any:
    """The change of a system that waits for a second person."""
    wanted = {name: event.said(name) for name in ("pattern", "settings")}
    return wanted | {"by": event.envelope.actor_id, "at": instant(event.envelope.at)}


def _of_kind(event: VerifiedEvent) -> Any:
    digests = event.envelope.digests
    return next((digests[kind] for kind in digests), UNKNOWN)


def _fold_gates(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """Gate results of a release, from the event that stored them."""
    results = event.said("gates", None)
    if results is UNKNOWN:
        rows[UNKNOWN] = {}
        return
    envelope = event.envelope
    shared = {"pointer": event.said("pointer", None), "by": envelope.actor_id, "at": envelope.at}
    for each in results or ():
        said = {"passed": each["passed"], "summary": each["summary"]}
        rows[envelope.seq, each["gate"]] = said | shared


_REST = "compared by rule of its own (`ledger.verification.rules.stored_record`)"

RECORD_TABLES = (
    RecordTable(
        model="ledger.ContractVersion",
        subjects=("contract",),
        events={
            "contract_registered": creates_row(
                name=detail_field("name"),
                version=detail_field("version"),
                digest=envelope_digest("contract"),
                registered_at=event_time,
                weakens=constant([]),
                release_id=constant(None),
            ),
            "contract_released": creates_row(
                name=detail_field("name"),
                version=detail_field("version"),
                digest=envelope_digest("contract"),
                registered_at=event_time,
                weakens=detail_field("weakens"),
                compared_with=detail_field("compared_with"),
                sent_by=detail_field("drafted_by"),
                release_id=detail_field("release"),
            ),
            "contract_proposed": creates_row(
                name=detail_field("name"),
                version=detail_field("version"),
                digest=envelope_digest("contract"),
                registered_at=event_time,
                weakens=detail_field("weakens"),
                compared_with=detail_field("compared_with"),
                sent_by=actor_of,
                release_id=constant(None),
            ),
        },
        outside={"document": "held to its digest", "lint": "findings of the linter, made anew from the document"},
    ),
    RecordTable(
        model="ledger.PolicyVersion",
        subjects=("policy",),
        events={
            "policy_activated": creates_row(
                kind=detail_field("kind"),
                version=detail_field("version"),
                digest=_of_kind,
                active=constant(value=True),
                release_id=detail_field("release", None),
                canary=constant(None),
                created_at=event_time,
            ),
            "policy_superseded": changes_row(active=constant(value=False)),
            "policy_canary_started": creates_row(
                kind=detail_field("kind"),
                version=detail_field("version"),
                digest=_of_kind,
                active=constant(value=False),
                release_id=detail_field("release"),
                canary=detail_field("canary"),
                created_at=event_time,
            ),
            "policy_canary_ended": changes_row(canary=constant(None)),
            "policy_promoted": changes_row(active=constant(value=True), canary=constant(None)),
            "policy_restored": changes_row(active=constant(value=True)),
        },
        outside={"document": "held to its digest"},
    ),
    RecordTable(
        model="ledger.Release",
        subjects=("release",),
        events={
            "release_drafted": creates_row(
                kind=detail_field("kind"),
                tool=detail_field("tool", ""),
                version=detail_field("version"),
                digest=envelope_digest("policy"),
                basis=detail_field("basis"),
                reason=detail_field("reason"),
                canary=constant(None),
                author=actor_of,
                first_by=constant(None),
                promoted_by=constant(None),
                created_at=event_time,
            ),
            "release_gates_run": changes_row(basis=lambda event: event.said("basis", KEEP)),
            "release_canary_started": changes_row(canary=detail_field("canary")),
            "release_confirmed": changes_row(first_by=actor_of),
            "release_promoted": changes_row(promoted_by=actor_of),
        },
        always={"state": state_after, "changed_at": event_time},
        outside={"document": "the version that is made of it is held to the same digest"},
    ),
    RecordTable(
        model="ledger.ReleaseGate",
        subjects=("release",),
        place="release_id",
        key=("seq", "gate"),
        fold=_fold_gates,
        folded=("passed", "summary", "pointer", "by", "at"),
    ),
    RecordTable(
        model="ledger.System",
        subjects=("system",),
        events={
            "system_registered": creates_row(
                name=detail_field("name"),
                pattern=detail_field("pattern"),
                settings=detail_field("settings"),
                registered_at=on_first_event(event_time),
                proposal=on_first_event(constant(None)),
                tried=on_first_event(constant("")),
            ),
            "description_tried": changes_row(tried=detail_field("digest")),
            "system_change_proposed": changes_row(proposal=_proposed_system),
            "system_change_confirmed": changes_row(
                proposal=constant(None),
                pattern=detail_field("pattern"),
                settings=detail_field("settings"),
                tried=constant(""),
            ),
            "system_change_declined": changes_row(proposal=constant(None)),
        },
    ),
    RecordTable(
        model="ledger.Freeze",
        subjects=("freeze",),
        events={
            "freeze_placed": creates_row(
                scope=detail_field("scope"),
                value=detail_field("value"),
                reason=detail_field("reason", cut=1000),
                placed_at=event_time,
                lifted_at=constant(None),
            ),
            "freeze_lifted": changes_row(lifted_at=event_time),
        },
    ),
    RecordTable(
        model="ledger.RunRollback",
        subjects=("unwinding",),
        events={"unwinding_began": creates_row(run_id=detail_field("run_id"), opened_at=event_time)},
        always={"state": state_after, "reason": detail_field("reason", cut=1000), "changed_at": event_time},
    ),
    RecordTable(
        model="ledger.Idempotency",
        subjects=("action",),
        place="action_id",
        key=("action_id",),
        fold=_fold_idempotency,
        folded=("key_hash", "request_hash"),
        whole=False,
        outside={
            "key": "what the hash is of; only its holder can send it",
        },
    ),
    RecordTable(
        model="ledger.Log",
        subjects=("log",),
        events={
            kind: creates_row(origin=detail_field("origin"), opened_at=event_time)
            for kind in ("log_opened", "restored")
        },
        outside={"number": "the order in which the logs were opened; `--log` walks by it"},
    ),
    RecordTable(
        model="ledger.Erasure",
        subjects=("erasure",),
        events={
            "erasure_requested": creates_row(
                legal_basis=detail_field("legal_basis"),
                reason=detail_field("reason"),
                subjects=lambda event: _count(event.said("subjects")),
                retention_id=detail_field("retention", None),
                requested_by=actor_of,
                requested_at=event_time,
                confirmed_by=constant(None),
                confirmed_at=constant(None),
                ended_at=constant(None),
            ),
            "erasure_confirmed": changes_row(
                confirmed_by=lambda event: event.envelope.actor_id if event.envelope.actor_kind == "person" else None,
                confirmed_at=event_time,
            ),
            **{
                kind: changes_row(ended_at=event_time)
                for kind in ("erasure_refused", "erasure_withdrawn", "erasure_done")
            },
        },
        always={"state": state_after},
        outside={
            "erased": "how far the eraser is; each portion is an event",
            "begun_at": "the clock of the database, when the eraser began",
        },
    ),
    RecordTable(
        model="ledger.LegalHold",
        subjects=("hold",),
        events={
            "hold_placed": creates_row(
                scope=detail_field("scope"),
                value=detail_field("value"),
                reason=detail_field("reason"),
                placed_by=actor_of,
                placed_at=event_time,
                lifted_at=constant(None),
            ),
            "hold_lifted": changes_row(lifted_at=event_time),
        },
    ),
    RecordTable(
        model="ledger.Retention",
        subjects=("retention",),
        events={
            "retention_proposed": creates_row(
                payload_days=detail_field("payload_days"),
                envelope_days=detail_field("envelope_days"),
                floor_days=detail_field("floor_days"),
                standing=detail_field("standing"),
                proposed_by=actor_of,
                proposed_at=event_time,
                confirmed_by=constant(None),
                confirmed_at=constant(None),
            ),
            "retention_confirmed": changes_row(confirmed_by=actor_of, confirmed_at=event_time),
        },
        always={"state": state_after},
    ),
    RecordTable(
        model="ledger.IntegrityCheck",
        subjects=("integrity",),
        events={"integrity_check_started": creates_row(started_by=actor_of, started_at=event_time)},
        always={"state": state_after},
        outside=dict.fromkeys(
            (
                *("phase", "place", "log", "block", "carried", "expected", "subjects", "events", "evidence"),
                *("erased", "leaves", "finding", "findings", "ended_at"),
            ),
            "where the walk stands; how it ended is its state",
        ),
    ),
    RecordTable(
        model="ledger.Export",
        subjects=("export",),
        events={
            "export_requested": creates_row(
                wanted=lambda event: UNKNOWN if event.detail is None else dict(event.detail),
                event_id=lambda event: event.envelope.id,
                requested_by=actor_of,
                requester_kind=lambda event: event.envelope.actor_kind,
                requested_at=event_time,
            )
        },
        always={"state": state_after},
        outside=dict.fromkeys(
            (
                *("log", "start", "end", "done", "chunks", "withheld", "size", "sha256", "reason", "finished_at"),
                *("expires_at",),
            ),
            "how far the making of the file is; what was handed out is in the event that ends it",
        ),
    ),
)


def _count(subjects: Any) -> Any:
    return len(subjects) if isinstance(subjects, list) else subjects


OUTSIDE = {
    "ledger.Tenant": "the directory; every envelope names the origin of its log, which is compared with it",
    "ledger.Subject": _REST,
    "ledger.Event": _REST,
    "ledger.Entry": _REST,
    "ledger.Action": _REST,
    "ledger.Evidence": _REST,
    "ledger.SubjectKey": "evidence that cannot be opened is found, and that is all that another key could do",
    "ledger.ErasedSubject": "compared with the events of the erasure that names the subject",
    "ledger.Checkpoint": "compared by a check of its own: none is missing, each is signed",
    "ledger.RecoveryOrder": "a queue of ids; the order itself is an event",
    "ledger.QueuedEvent": "the sequencer's queue; an event without a place in the log is found by `--log`",
    "ledger.Leaf": "compared by `--log`",
    "ledger.Tile": "compared by `--log`",
    "ledger.LogTip": "compared by `--log`",
    "ledger.Anchor": "signatures of others, which verify by themselves; the log holds the digest of each",
    "ledger.AnchorSchedule": "when outsiders are asked next",
    "ledger.SignedEpoch": "signed with the log's key, and checked by whoever reads it",
    "ledger.ProcessLease": "which process does a work now, for seconds; nothing follows from it",
    "ledger.TaskRun": "when a task last ended on a host of workers; nothing follows from it",
    "ledger.Maintenance": "of the whole installation; each tenant's record tells its beginning and its end",
    "ledger.WrongClock": "whose clock was off, for a minute; nothing follows from it",
    "ledger.Alarm": "a reminder to people; it was raised by an event, and comes back while its cause is there",
}
