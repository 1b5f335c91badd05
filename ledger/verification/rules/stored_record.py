"""Verification of the stored record: what must hold between its rows; the first break is named.

Events are read in order, one after another; of what came before only the walk so far is remembered.

1. An envelope parses strictly, belongs to one of the tenant's logs (origin), and its stored hash is its own.
2. Every column of the event says what the envelope says; columns are for searching, the envelope is what happened.
3. The sequence has no gap, and each event names the hash of the one before (R-LE-02).
4. Every step is legal, rests on its recorded grounds, and continues the state before (R-SM-21).
5. Entry, detail and evidence are exactly the bytes that the envelope commits to with their salts. An action's events
   all carry an entry that is canonical, fits the schema, names the action and has the blocks that an action of its
   kind must have (R-LE-03, R-LE-06).
   What was erased is empty, and only that: an event names the subject and up to which of its events
   (`SubjectErasure`). The
   envelopes stand, and what they commit to is known to nobody.
6. What a policy decided names a policy that was in force then, and a row that it holds
   (`ledger.verification.rules.decisions`).
7. The head of the subject, the present view of an action, and the document of a contract or a policy are what its
   events lead to; whoever lost them could rebuild them.

One thing cannot be seen from inside: events cut off at the end together with the head. A signed checkpoint of the log
that somebody else kept shows that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ledger.record.rules import entry as entries
from ledger.record.rules import envelope as envelopes
from ledger.record.rules import lifecycle, outcomes
from ledger.record.rules.canonical import digest, parse
from ledger.record.rules.envelope import Commitment, Envelope
from ledger.record.rules.lifecycle import Ground
from ledger.record.rules.refusals import Refused
from ledger.verification.rules.decisions import PolicyHistory
from ledger.verification.rules.rebuilding import VerifiedEvent, is_same_value

CHANGING = (
    "approval_id",
    "attempt_count",
    "blocks_until",
    "contradicted",
    "discrepancy",
    "horizon_at",
    "recovery_decision",
    "recovery_row",
    "reversed",
    "settled",
)
"""The columns of an action's present view that an event after the first can change."""
_OWN = ("entry", "detail")


class RecordBroken(Refused):
    """The stored record does not hold together."""

    code = "RECORD_BROKEN"

    def __init__(self, place: RecordLocation, part: str, what: str) -> None:
        self.place, self.part = place, part
        super().__init__(f"{place}: {what}")


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """Where a break was found; `seq` is None where it is about the subject as a whole."""

    kind: str
    subject_id: str
    seq: int | None = None

    def __str__(self) -> str:
        event = f", event {self.seq}" if self.seq is not None else ""
        return f"{self.kind} {self.subject_id}{event}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as its rows hold it: ids as text, bytes as bytes."""

    columns: Mapping[str, Any]
    envelope: bytes
    entry: bytes | None = None
    entry_salt: bytes | None = None
    detail: bytes | None = None
    detail_salt: bytes | None = None

    @property
    def place(self) -> RecordLocation:
        return RecordLocation(self.columns["subject_kind"], self.columns["subject_id"], self.columns["seq"])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHead:
    """A subject's head; `view` are the columns of an action's present view, `in_force` says so of a policy version."""

    columns: Mapping[str, Any]
    view: Mapping[str, Any] | None = None
    in_force: bool | None = None

    @property
    def place(self) -> RecordLocation:
        return RecordLocation(self.columns["kind"], self.columns["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvidence:
    """A piece of evidence and what came out of it; `data` is None where it could not be opened."""

    columns: Mapping[str, Any]
    salt: bytes
    data: bytes | None
    emptied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectErasure:
    """A subject whose content was erased up to event `seq`, and the request under which it was."""

    request: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """The row of a contract version or a policy version; `name` is what the envelope's digests call it."""

    name: str
    digest: str
    document: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """What the events of one subject have led to so far."""

    kind: str = ""
    state: str = ""
    seq: int = 0
    hash: bytes | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    view: Mapping[str, Any] = field(default_factory=dict)
    policy_context: Mapping[str, str] | None = None
    emptied: bool = False


def replay_event(
    replay: ReplayState,
    stored: StoredEvent,
    *,
    origins: Collection[str],
    policies: PolicyHistory,
    erasure: SubjectErasure | None = None,
) -> tuple[ReplayState, VerifiedEvent]:
    """The replay after one more event, and what the event says (rules 1 to 6, evidence apart)."""
    envelope = _envelope(stored, origins)
    _check_columns(stored.place, _columns(envelope, stored.envelope), stored.columns)
    _check_chain(replay, envelope, stored.place)
    if erasure is not None and envelope.seq <= erasure.seq:
        return _replay_erased(replay, envelope, stored, erasure), VerifiedEvent(envelope=envelope, detail=None)
    entry = _read_content(stored.place, envelope, "entry", stored.entry, stored.entry_salt)
    detail = _read_content(stored.place, envelope, "detail", stored.detail, stored.detail_salt) or {}
    _check_step(replay, envelope, stored.place, detail)
    _check_entry(envelope, stored.place, entry)
    if not entries.allows_grounds(entry, detail.get("grounds", ())):
        what = "it says that it changes nothing, of a tool that does not only read."
        raise RecordBroken(stored.place, "grounds", what)
    view = {**detail.get("view", {}), **(entries.view_columns(entry) if entry is not None else {})}
    if replay.seq:
        view = {**replay.view, **{name: value for name, value in view.items() if name in CHANGING}}
    noticed = lifecycle.is_agent_notice(envelope.kind, envelope.actor_kind) or replay.view.get("noticed") is True
    turned = lifecycle.changes_outcome(envelope.kind, envelope.from_state, envelope.to_state)
    view = {**view, "noticed": noticed, "reached_by": envelope.kind if turned else replay.view.get("reached_by", "")}
    gated = view.get("approval_id") is not None
    if entry is not None and not entries.is_complete(entry, mutating=view.get("mutating") is True, gated=gated):
        raise RecordBroken(stored.place, "entry", "its entry lacks a block that it must carry.")
    context = _policy_context(policies, replay, envelope, stored.place, detail, entry)
    happened = VerifiedEvent(envelope=envelope, detail=detail, entry=entry)
    return replace(_state_after(replay, envelope, stored), view=view, policy_context=context), happened


def _policy_context(
    policies: PolicyHistory,
    replay: ReplayState,
    envelope: Envelope,
    place: RecordLocation,
    detail: Mapping[str, Any],
    entry: Mapping[str, Any] | None,
) -> Mapping[str, str] | None:
    """What the entry says of policies (rule 6)."""
    if entry is None:
        return None
    fault = policies.fault(envelope, detail, entry, replay.policy_context)
    if fault is not None:
        raise RecordBroken(place, "policy", fault)
    context: Mapping[str, str] = entry["policy_context"]
    return context


def read_event(stored: StoredEvent) -> VerifiedEvent:
    """Read an event without checks: it was verified already, or only its rows are wanted."""
    envelope = envelopes.parse(stored.envelope)
    detail = parse(stored.detail) if stored.detail is not None else None
    has_detail = any(each.pointer is None and each.purpose == "detail" for each in envelope.commitments)
    entry = parse(stored.entry) if stored.entry is not None else None
    return VerifiedEvent(envelope=envelope, detail=detail if has_detail else {}, entry=entry)


def _state_after(replay: ReplayState, envelope: Envelope, stored: StoredEvent) -> ReplayState:
    return replace(
        replay,
        kind=envelope.subject_kind,
        state=envelope.to_state,
        seq=envelope.seq,
        hash=envelopes.entry_hash(stored.envelope),
        created_at=replay.created_at or envelope.at,
        updated_at=envelope.at,
        digests=replay.digests if replay.seq else envelope.digests,
    )


def _replay_erased(
    replay: ReplayState, envelope: Envelope, stored: StoredEvent, erasure: SubjectErasure
) -> ReplayState:
    """An event whose content was erased: it still continues the one before, and nothing of the content is there."""
    if any(each is not None for each in (stored.entry, stored.entry_salt, stored.detail, stored.detail_salt)):
        raise RecordBroken(stored.place, "erased", f"it was erased under request {erasure.request} and is there still.")
    kind, pair = envelope.subject_kind, (envelope.from_state, envelope.to_state)
    try:
        lifecycle.replay(kind, [pair], since=replay.state)
    except (lifecycle.IllegalTransition, KeyError):
        raise RecordBroken(stored.place, "state", "its step is not one from where it was.") from None
    return replace(_state_after(replay, envelope, stored), policy_context=None, emptied=True)


def check_head(replay: ReplayState, head: StoredHead) -> None:
    """Refuse a head or a present view that the events do not lead to (rule 7)."""
    if replay.seq == 0:
        raise RecordBroken(head.place, "events", "it has a head and no events.")
    expected = {
        "seq": replay.seq,
        "kind": replay.kind,
        "state": replay.state,
        "head": replay.hash,
        "created_at": replay.created_at,
        "updated_at": replay.updated_at,
    }
    for name, value in expected.items():
        if head.columns[name] != value:
            raise RecordBroken(head.place, f"head.{name}", f"its head has another {name} than its events lead to.")
    if replay.kind == "action":
        _check_view(replay, head)
    if replay.kind == "policy" and head.in_force != (replay.state == "ACTIVE"):
        raise RecordBroken(head.place, "in force", "whether it is in force is not what its events say.")


def check_document(replay: ReplayState, head: StoredHead, stored: StoredDocument | None) -> None:
    """Refuse a contract's or a policy's document that is not the one its first event named (rule 7)."""
    if stored is None:
        raise RecordBroken(head.place, "document", "its document is missing.")
    if not replay.digests.get(stored.name) == stored.digest == digest(stored.document):
        raise RecordBroken(head.place, "document", "its document is not the one that was registered.")


def check_evidence(
    place: RecordLocation, promised: Commitment, stored: StoredEvidence | None, *, erasure: SubjectErasure | None = None
) -> None:
    """Refuse evidence that is not what the event committed to, or not gone where it was erased (rule 5)."""
    part, name = f"evidence {promised.pointer}", f"the evidence {promised.pointer}"
    if stored is None:
        raise RecordBroken(place, part, f"{name} ({promised.purpose}) is missing.")
    if erasure is not None and (place.seq or 0) <= erasure.seq:
        if not stored.emptied:
            raise RecordBroken(place, part, f"{name} was erased under request {erasure.request} and is there still.")
        return
    if stored.data is None:
        raise RecordBroken(place, part, f"{name} ({promised.purpose}) cannot be opened.")
    columns = {
        "subject_id": place.subject_id,
        "purpose": promised.purpose,
        "length": promised.length,
        "commitment": promised.digest,
    }
    if not _matches(promised, stored.salt, stored.data) or stored.columns != columns:
        raise RecordBroken(place, part, f"{name} ({promised.purpose}) is not what was committed to.")


def _envelope(stored: StoredEvent, origins: Collection[str]) -> Envelope:
    try:
        envelope = envelopes.parse(stored.envelope)
    except Refused as refusal:
        raise RecordBroken(stored.place, "envelope", f"its envelope cannot be read: {refusal.detail}") from None
    if envelope.origin not in origins:
        raise RecordBroken(stored.place, "origin", "its envelope belongs to another log.")
    if any(each.pointer is None and each.purpose not in _OWN for each in envelope.commitments):
        raise RecordBroken(stored.place, "commitment", "it commits to something that is stored nowhere.")
    return envelope


def _columns(envelope: Envelope, data: bytes) -> dict[str, Any]:
    return {
        "entry_hash": envelopes.entry_hash(data),
        "subject_kind": envelope.subject_kind,
        "subject_id": envelope.subject_id,
        "seq": envelope.seq,
        "prev_seq": envelope.seq - 1 or None,
        "prev": bytes.fromhex(envelope.prev) if envelope.prev else None,
        "id": envelope.id,
        "kind": envelope.kind,
        "from_state": envelope.from_state,
        "state": envelope.to_state,
        "actor_kind": envelope.actor_kind,
        "actor_id": envelope.actor_id,
        "at": envelope.at,
    }


def _check_columns(place: RecordLocation, expected: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    for name, value in expected.items():
        if stored[name] != value:
            raise RecordBroken(place, f"column {name}", f"its column {name} differs from its envelope.")


def _check_chain(replay: ReplayState, envelope: Envelope, place: RecordLocation) -> None:
    if envelope.seq != replay.seq + 1:
        raise RecordBroken(place, "sequence", f"event {replay.seq + 1} is missing before it.")
    if envelope.prev != (replay.hash.hex() if replay.hash else None):
        raise RecordBroken(place, "prev", "it does not continue the event before it.")


def _check_step(replay: ReplayState, envelope: Envelope, place: RecordLocation, detail: Mapping[str, Any]) -> None:
    """Take the step again with its recorded grounds, so that one written past the lifecycle rules is found."""
    kind, pair = envelope.subject_kind, (envelope.from_state, envelope.to_state)
    if replay.kind not in ("", kind) or kind not in lifecycle.MACHINES:
        raise RecordBroken(place, "kind", "its subject was of another kind before.")
    try:
        lifecycle.replay(kind, [pair], since=replay.state)
        grounds = frozenset(Ground(text) for text in detail.get("grounds", ()))
        lifecycle.next_state(kind, *pair, by=envelope.actor_kind, grounds=grounds)
    except lifecycle.IllegalTransition:
        start, target = (state or "nothing" for state in pair)
        raise RecordBroken(place, "state", f"from {start} to {target} is not a step from where it was.") from None
    except (lifecycle.GroundsMissing, ValueError):
        raise RecordBroken(place, "grounds", "its step lacks the grounds that it needs.") from None


def _read_content(
    place: RecordLocation, envelope: Envelope, purpose: str, data: bytes | None, salt: bytes | None
) -> dict[str, Any] | None:
    """The content stored under this purpose, checked against its commitment; None where there is neither."""
    promised = [each for each in envelope.commitments if each.pointer is None and each.purpose == purpose]
    if not promised and data is None and salt is None:
        return None
    if len(promised) != 1 or data is None or salt is None or not _matches(promised[0], salt, data):
        raise RecordBroken(place, purpose, f"its {purpose} is not what was committed to.")
    try:
        value = parse(data)
    except Refused:
        value = None
    if not isinstance(value, dict):
        raise RecordBroken(place, purpose, f"its {purpose} is not a canonical document.")
    return value


def _matches(promised: Commitment, salt: bytes, data: bytes) -> bool:
    return (
        len(salt) == envelopes.SALT_BYTES
        and len(data) == promised.length
        and envelopes.commitment(promised.purpose, salt, data) == promised.digest
    )


def _check_entry(envelope: Envelope, place: RecordLocation, entry: dict[str, Any] | None) -> None:
    if entry is None:
        if envelope.subject_kind == "action":
            raise RecordBroken(place, "entry", "it carries no entry.")
        return
    try:
        entries.check_entry(entry)
    except Refused as refusal:
        raise RecordBroken(place, "entry", f"its entry does not fit the schema: {refusal.detail}") from None
    if entry["action_id"] != envelope.subject_id:
        raise RecordBroken(place, "entry", "its entry is about another action.")


def _check_view(replay: ReplayState, head: StoredHead) -> None:
    if head.view is None:
        raise RecordBroken(head.place, "view", "it has no present view.")
    expected = {
        **replay.view,
        "state": replay.state,
        "seq": replay.seq,
        "proposed_at": replay.created_at,
        "changed_at": replay.updated_at,
    }
    if replay.emptied:
        # What its columns were is not known any more; what an erased action must not say, it does not say.
        expected = {**head.view, **{name: expected[name] for name in ("state", "seq", "proposed_at", "changed_at")}}
        expected |= {"target": "", "payload_hash": "", "operation_key": "", "call_id": ""}
    # What the database makes of the two itself.
    expected |= {
        "phase": lifecycle.phase(replay.state),
        "set_apart": outcomes.set_apart(expected.get("reached_by", "")),
    }
    for name, value in head.view.items():
        if not is_same_value(expected.get(name), value):
            raise RecordBroken(head.place, f"view.{name}", f"its present view has another {name} than its events say.")
