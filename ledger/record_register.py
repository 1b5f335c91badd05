"""How the rows of this package follow from their events; read by `ledger.register`, walked by `verify_ledger`."""

from __future__ import annotations

from typing import Any

from ledger.record.rules.envelope import instant
from ledger.verification.rules.rebuilding import (
    UNKNOWN,
    Happened,
    RecordTable,
    Row,
    actor,
    at,
    at_first,
    changes,
    creates,
    fixed,
    named,
    said,
    state,
)


def _fold_idempotency(rows: dict[Any, Row], event: Happened) -> None:
    """The key that a mutation was sent with, as the action's entry names it from the start on."""
    block = (event.entry or {}).get("idempotency")
    if event.envelope.subject_kind == "action" and block and block["key_hash"]:
        rows[event.envelope.subject_id] = {"key_hash": block["key_hash"], "request_hash": block["request_hash"]}


def _proposed_system(event: Happened) -> Any:
    """The change of a system that waits for a second person."""
    wanted = {name: event.said(name) for name in ("pattern", "settings")}
    return wanted | {"by": event.envelope.actor_id, "at": instant(event.envelope.at)}


def _of_kind(event: Happened) -> Any:
    digests = event.envelope.digests
    return next((digests[kind] for kind in digests), UNKNOWN)


_REST = "compared by rule of its own (`ledger.verification.rules.stored_record`)"

RECORD_TABLES = (
    RecordTable(
        model="ledger.ContractVersion",
        subjects=("contract",),
        events={
            "contract_registered": creates(
                name=said("name"),
                version=said("version"),
                digest=named("contract"),
                registered_at=at,
                weakens=fixed([]),
            ),
            "contract_proposed": creates(
                name=said("name"),
                version=said("version"),
                digest=named("contract"),
                registered_at=at,
                weakens=said("weakens"),
                compared_with=said("compared_with"),
                sent_by=actor,
            ),
        },
        outside={"document": "held to its digest", "lint": "findings of the linter, made anew from the document"},
    ),
    RecordTable(
        model="ledger.PolicyVersion",
        subjects=("policy",),
        events={
            "policy_activated": creates(
                kind=said("kind"), version=said("version"), digest=_of_kind, active=fixed(value=True), created_at=at
            ),
            "policy_superseded": changes(active=fixed(value=False)),
        },
        outside={"document": "held to its digest"},
    ),
    RecordTable(
        model="ledger.System",
        subjects=("system",),
        events={
            "system_registered": creates(
                name=said("name"),
                pattern=said("pattern"),
                settings=said("settings"),
                registered_at=at_first(at),
                proposal=at_first(fixed(None)),
            ),
            "system_change_proposed": changes(proposal=_proposed_system),
            "system_change_confirmed": changes(
                proposal=fixed(None), pattern=said("pattern"), settings=said("settings")
            ),
            "system_change_declined": changes(proposal=fixed(None)),
        },
    ),
    RecordTable(
        model="ledger.Freeze",
        subjects=("freeze",),
        events={
            "freeze_placed": creates(
                scope=said("scope"),
                value=said("value"),
                reason=said("reason", cut=1000),
                placed_at=at,
                lifted_at=fixed(None),
            ),
            "freeze_lifted": changes(lifted_at=at),
        },
    ),
    RecordTable(
        model="ledger.Unwinding",
        subjects=("unwinding",),
        events={"unwinding_began": creates(run_id=said("run_id"), opened_at=at)},
        always={"state": state, "reason": said("reason", cut=1000), "changed_at": at},
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
        events={kind: creates(origin=said("origin"), opened_at=at) for kind in ("log_opened", "restored")},
        outside={"number": "the order in which the logs were opened; `--log` walks by it"},
    ),
    RecordTable(
        model="ledger.Erasure",
        subjects=("erasure",),
        events={
            "erasure_requested": creates(
                legal_basis=said("legal_basis"),
                reason=said("reason"),
                subjects=lambda event: _count(event.said("subjects")),
                retention_id=said("retention", None),
                requested_by=actor,
                requested_at=at,
                confirmed_by=fixed(None),
                confirmed_at=fixed(None),
                ended_at=fixed(None),
            ),
            "erasure_confirmed": changes(
                confirmed_by=lambda event: event.envelope.actor_id if event.envelope.actor_kind == "person" else None,
                confirmed_at=at,
            ),
            **{kind: changes(ended_at=at) for kind in ("erasure_refused", "erasure_withdrawn", "erasure_done")},
        },
        always={"state": state},
        outside={
            "erased": "how far the eraser is; each portion is an event",
            "begun_at": "the clock of the database, when the eraser began",
        },
    ),
    RecordTable(
        model="ledger.Hold",
        subjects=("hold",),
        events={
            "hold_placed": creates(
                scope=said("scope"),
                value=said("value"),
                reason=said("reason"),
                placed_by=actor,
                placed_at=at,
                lifted_at=fixed(None),
            ),
            "hold_lifted": changes(lifted_at=at),
        },
    ),
    RecordTable(
        model="ledger.Retention",
        subjects=("retention",),
        events={
            "retention_proposed": creates(
                payload_days=said("payload_days"),
                envelope_days=said("envelope_days"),
                floor_days=said("floor_days"),
                standing=said("standing"),
                proposed_by=actor,
                proposed_at=at,
                confirmed_by=fixed(None),
                confirmed_at=fixed(None),
            ),
            "retention_confirmed": changes(confirmed_by=actor, confirmed_at=at),
        },
        always={"state": state},
    ),
    RecordTable(
        model="ledger.IntegrityCheck",
        subjects=("integrity",),
        events={"integrity_check_started": creates(started_by=actor, started_at=at)},
        always={"state": state},
        outside=dict.fromkeys(
            (
                *("phase", "place", "log", "block", "carried", "expected", "subjects", "events", "evidence"),
                *("erased", "leaves", "finding", "ended_at"),
            ),
            "where the walk stands; how it ended is its state",
        ),
    ),
    RecordTable(
        model="ledger.Export",
        subjects=("export",),
        events={
            "export_requested": creates(
                wanted=lambda event: UNKNOWN if event.detail is None else dict(event.detail),
                event_id=lambda event: event.envelope.id,
                requested_by=actor,
                requester_kind=lambda event: event.envelope.actor_kind,
                requested_at=at,
            )
        },
        always={"state": state},
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
    "ledger.Erased": "compared with the events of the erasure that names the subject",
    "ledger.Checkpoint": "compared by a check of its own: none is missing, each is signed",
    "ledger.Order": "a queue of ids; the order itself is an event",
    "ledger.Pending": "the sequencer's queue; an event without a place in the log is found by `--log`",
    "ledger.Leaf": "compared by `--log`",
    "ledger.Tile": "compared by `--log`",
    "ledger.Tip": "compared by `--log`",
    "ledger.Anchor": "signatures of others, which verify by themselves; the log holds the digest of each",
    "ledger.Anchoring": "when outsiders are asked next",
    "ledger.Alarm": "a reminder to people; it was raised by an event, and comes back while its cause is there",
}
