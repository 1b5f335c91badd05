"""Verification of the stored record: the relations that must hold between its rows; each break is a finding.

Events are read in order, one after another; of what came before only the walk so far is remembered. After a finding the
walk goes on from what is stored. What only follows from an earlier finding is not listed again: of a chain that has a
hole, or an event that cannot be read, nobody knows what it said, so what depends on that is not compared any more.

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

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from ledger.record.rules import entry as entries
from ledger.record.rules import envelope as envelopes
from ledger.record.rules import lifecycle, outcomes
from ledger.record.rules.canonical import digest, parse
from ledger.record.rules.envelope import Commitment, Envelope
from ledger.record.rules.lifecycle import Ground
from ledger.record.rules.refusals import Refused
from ledger.verification.rules.decisions import PolicyHistory
from ledger.verification.rules.rebuilding import VerifiedEvent, is_same_value

P = ParamSpec("P")
T = TypeVar("T")

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

    @property
    def kind(self) -> str:
        """The kind of damage, in a few words (`FINDING_KINDS`)."""
        return FINDING_KINDS.get(self.part) or FINDING_KINDS.get(re.split(r"[ .]", self.part)[0], _ROWS)


_ROWS = "rows that differ from their events"
FINDING_KINDS = {
    **dict.fromkeys(
        ("envelope", "origin", "commitment", "column", "sequence", "prev", "kind", "state", "grounds", "events"),
        "events and their order",
    ),
    **dict.fromkeys(("entry", "detail"), "content of events"),
    "evidence": "evidence",
    **dict.fromkeys(("policy", "document", "in force"), "policies and contracts"),
    **dict.fromkeys(("head", "view", "search"), "heads and present views"),
    **dict.fromkeys(("erased", "pruned"), "erased content"),
    **dict.fromkeys(("checkpoint", "log"), "log"),
    "password": "passwords",
    "stray": "rows that belong to no event",
    "stray evidence": "evidence that no event has committed to",
}
"""The kinds of finding in plain words, by the part that is damaged; a table's rows are by its model's name."""
FINDINGS_LISTED = 100


@dataclass
class Findings:
    """The findings of a check: the number of each kind, and the first of them as sentences."""

    counts: Counter[str] = field(default_factory=Counter)
    listed: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of findings, listed or not."""
        return self.counts.total()

    def add(self, *found: RecordBroken) -> None:
        """Count these, and list them while there is space; the first of each kind is always listed."""
        for each in found:
            if len(self.listed) < FINDINGS_LISTED or each.kind not in self.counts:
                self.listed.append(each.detail)
            self.counts[each.kind] += 1

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Findings:
        """The findings that `document()` wrote down."""
        return cls(Counter(document.get("counts", {})), list(document.get("listed", ())))

    def document(self) -> dict[str, Any]:
        """The same as a JSON document."""
        return {"total": self.total, "counts": dict(self.counts), "listed": self.listed}

    def kinds(self) -> str:
        """Each kind with how often it was found, the most frequent first."""
        return ", ".join(f"{kind} ({count})" for kind, count in self.counts.most_common())

    def summary(self) -> str:
        """All of it in short: the only finding, or the total, each kind, and the first one."""
        if self.total < 2:
            return "".join(self.listed)
        return f"{self.total} findings: {self.kinds()}. The first: {self.listed[0]}"


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """The location of a break; `seq` is None if it concerns the subject as a whole."""

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
    """A subject's head; `view` holds the columns of an action's present view, `in_force` is True for a policy version
    in force.
    """

    columns: Mapping[str, Any]
    view: Mapping[str, Any] | None = None
    in_force: bool | None = None

    @property
    def place(self) -> RecordLocation:
        return RecordLocation(self.columns["kind"], self.columns["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvidence:
    """A piece of evidence and its decrypted content; `data` is None if it could not be decrypted."""

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
    """The row of a contract version or a policy version; `name` is its name in the envelope's digests."""

    name: str
    digest: str
    document: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """The state that the events of one subject have reached so far."""

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
    lost: bool = False
    """An event of the subject is missing or cannot be read, so what its events lead to is not known."""


def replay_event(
    replay: ReplayState,
    stored: StoredEvent,
    *,
    origins: Collection[str],
    policies: PolicyHistory,
    erasure: SubjectErasure | None = None,
) -> tuple[ReplayState, VerifiedEvent | None, list[RecordBroken]]:
    """Return the replay after one more event, the event's content, and its faults (rules 1 to 6, without evidence).

    There is no event where its envelope cannot be read; its detail is unknown where that is not what was committed to.
    """
    found: list[RecordBroken] = []
    envelope = attempt(found, _envelope, stored)
    if envelope is None:
        after = replace(replay, seq=stored.columns["seq"], state=stored.columns["state"], hash=None, lost=True)
        return after, None, found
    place = stored.place
    found += _foreign_parts(envelope, place, origins)
    found += _differing_columns(place, _columns(envelope, stored.envelope), stored.columns)
    if replay.seq and replay.hash is None:
        # The event before cannot be read: whether this one continues it is not known.
        replay = replace(replay, state=envelope.from_state)
    elif envelope.seq != replay.seq + 1:
        found.append(RecordBroken(place, "sequence", f"event {replay.seq + 1} is missing before it."))
        replay = replace(replay, seq=envelope.seq - 1, state=envelope.from_state, policy_context=None, lost=True)
    elif envelope.prev != (replay.hash.hex() if replay.hash else None):
        found.append(RecordBroken(place, "prev", "it does not continue the event before it."))
    if erasure is not None and envelope.seq <= erasure.seq:
        attempt(found, _check_erased, replay, envelope, stored, erasure)
        after = replace(_state_after(replay, envelope, stored), policy_context=None, emptied=True)
        return after, VerifiedEvent(envelope=envelope, detail=None), found
    whole = len(found)
    entry = attempt(found, _read_content, place, envelope, "entry", stored.entry, stored.entry_salt)
    entry_known = len(found) == whole
    detail = attempt(found, _read_detail, stored, envelope)
    attempt(found, _check_step, replay, envelope, place, detail)
    happened = VerifiedEvent(envelope=envelope, detail=detail, entry=entry)
    checked = len(found)
    if entry_known:
        attempt(found, _check_entry, envelope, place, entry)
    if not entry_known or detail is None or len(found) > checked:
        return replace(_state_after(replay, envelope, stored), policy_context=None, lost=True), happened, found
    view = attempt(found, _view_after, replay, envelope, place, detail, entry)
    context = attempt(found, _policy_context, policies, replay, envelope, place, detail, entry)
    after = replace(_state_after(replay, envelope, stored), view=replay.view, policy_context=context)
    return (replace(after, view=view) if view is not None else replace(after, lost=True)), happened, found


def attempt(found: list[RecordBroken], check: Callable[P, T], *values: P.args, **named: P.kwargs) -> T | None:
    """Return the result of a check; add its finding, if it raises one, to `found`."""
    try:
        return check(*values, **named)
    except RecordBroken as broken:
        found.append(broken)
        return None


def _view_after(
    replay: ReplayState,
    envelope: Envelope,
    place: RecordLocation,
    detail: Mapping[str, Any],
    entry: entries.Entry | None,
) -> Mapping[str, Any]:
    """The present view after an event."""
    if not entries.allows_grounds(entry, detail.get("grounds", ())):
        what = "it says that it changes nothing, of a tool that does not only read."
        raise RecordBroken(place, "grounds", what)
    view = {**detail.get("view", {}), **(entries.view_columns(entry) if entry is not None else {})}
    if replay.seq:
        view = {**replay.view, **{name: value for name, value in view.items() if name in CHANGING}}
    noticed = lifecycle.is_agent_notice(envelope.kind, envelope.actor_kind) or replay.view.get("noticed") is True
    turned = lifecycle.changes_outcome(envelope.kind, envelope.from_state, envelope.to_state)
    view = {**view, "noticed": noticed, "reached_by": envelope.kind if turned else replay.view.get("reached_by", "")}
    gated = view.get("approval_id") is not None
    if entry is not None and not entries.is_complete(entry, mutating=view.get("mutating") is True, gated=gated):
        raise RecordBroken(place, "entry", "its entry lacks a block that it must carry.")
    return view


def _policy_context(
    policies: PolicyHistory,
    replay: ReplayState,
    envelope: Envelope,
    place: RecordLocation,
    detail: Mapping[str, Any],
    entry: Mapping[str, Any] | None,
) -> Mapping[str, str] | None:
    """Check the policies that the entry names (rule 6)."""
    if entry is None:
        return None
    fault = policies.fault(envelope, detail, entry, replay.policy_context)
    if fault is not None:
        raise RecordBroken(place, "policy", fault)
    context: Mapping[str, str] = entry["policy_context"]
    return context


def read_event(stored: StoredEvent) -> VerifiedEvent:
    """Read an event again for its rows only; content that differs from its commitment is treated as unknown."""
    envelope = envelopes.parse(stored.envelope)
    unread: list[RecordBroken] = []
    place = stored.place
    detail = attempt(unread, _read_detail, stored, envelope)
    entry = attempt(unread, _read_content, place, envelope, "entry", stored.entry, stored.entry_salt)
    return VerifiedEvent(envelope=envelope, detail=detail, entry=entry)


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


def _check_erased(replay: ReplayState, envelope: Envelope, stored: StoredEvent, erasure: SubjectErasure) -> None:
    """Refuse an erased event whose content is still there, or that does not continue the one before."""
    if any(each is not None for each in (stored.entry, stored.entry_salt, stored.detail, stored.detail_salt)):
        raise RecordBroken(stored.place, "erased", f"it was erased under request {erasure.request} and is there still.")
    kind, pair = envelope.subject_kind, (envelope.from_state, envelope.to_state)
    try:
        lifecycle.replay(kind, [pair], since=replay.state)
    except (lifecycle.IllegalTransition, KeyError):
        raise RecordBroken(stored.place, "state", "its step is not one from where it was.") from None


def head_findings(replay: ReplayState, head: StoredHead) -> list[RecordBroken]:
    """The parts of a head and a present view that the events do not lead to (rule 7)."""
    if replay.seq == 0:
        return [RecordBroken(head.place, "events", "it has a head and no events.")]
    expected = {
        "seq": replay.seq,
        "kind": replay.kind,
        "state": replay.state,
        "head": replay.hash,
        **({} if replay.lost else {"created_at": replay.created_at}),
        "updated_at": replay.updated_at,
    }
    if replay.hash is None:
        # The last event cannot be read.
        expected = {"seq": replay.seq}
    found = [
        RecordBroken(head.place, f"head.{name}", f"its head has another {name} than its events lead to.")
        for name, value in expected.items()
        if head.columns[name] != value
    ]
    if head.columns["seq"] != replay.seq:
        # Events are missing behind the last one, or the head was moved: the rest follows from that.
        return found[:1]
    if replay.kind == "action" and not replay.lost:
        found += _view_findings(replay, head)
    if replay.kind == "policy" and replay.hash is not None and head.in_force != (replay.state == "ACTIVE"):
        found.append(RecordBroken(head.place, "in force", "whether it is in force is not what its events say."))
    return found


def check_document(replay: ReplayState, head: StoredHead, stored: StoredDocument | None) -> None:
    """Refuse a contract's or a policy's document that is not the one its first event named (rule 7)."""
    if stored is None:
        raise RecordBroken(head.place, "document", "its document is missing.")
    if not replay.digests.get(stored.name) == stored.digest == digest(stored.document):
        raise RecordBroken(head.place, "document", "its document is not the one that was registered.")


def check_evidence(
    place: RecordLocation,
    promised: Commitment,
    stored: StoredEvidence | None,
    *,
    erasure: SubjectErasure | None = None,
    owner: str = "",
) -> None:
    """Refuse evidence that differs from the event's commitment, or that is still there after its erasure (rule 5).

    `owner` is the subject that it was stored for, where that is not the event's.
    """
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
        "subject_id": owner or place.subject_id,
        "purpose": promised.purpose,
        "length": promised.length,
        "commitment": promised.digest,
    }
    if not _matches(promised, stored.salt, stored.data) or stored.columns != columns:
        raise RecordBroken(place, part, f"{name} ({promised.purpose}) is not what was committed to.")


def _envelope(stored: StoredEvent) -> Envelope:
    try:
        return envelopes.parse(stored.envelope)
    except Refused as refusal:
        raise RecordBroken(stored.place, "envelope", f"its envelope cannot be read: {refusal.detail}") from None


def _foreign_parts(envelope: Envelope, place: RecordLocation, origins: Collection[str]) -> list[RecordBroken]:
    found = []
    if envelope.origin not in origins:
        found.append(RecordBroken(place, "origin", "its envelope belongs to another log."))
    if any(each.pointer is None and each.purpose not in _OWN for each in envelope.commitments):
        found.append(RecordBroken(place, "commitment", "it commits to something that is stored nowhere."))
    return found


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


def _differing_columns(
    place: RecordLocation, expected: Mapping[str, Any], stored: Mapping[str, Any]
) -> list[RecordBroken]:
    return [
        RecordBroken(place, f"column {name}", f"its column {name} differs from its envelope.")
        for name, value in expected.items()
        if stored[name] != value
    ]


def _check_step(
    replay: ReplayState, envelope: Envelope, place: RecordLocation, detail: Mapping[str, Any] | None
) -> None:
    """Take the step again with its recorded grounds, so that one written past the lifecycle rules is found.

    Without a detail the grounds are not known.
    """
    kind, pair = envelope.subject_kind, (envelope.from_state, envelope.to_state)
    if replay.kind not in ("", kind) or kind not in lifecycle.MACHINES:
        raise RecordBroken(place, "kind", "its subject was of another kind before.")
    try:
        lifecycle.replay(kind, [pair], since=replay.state)
        if detail is None:
            return
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
    """Return the content stored under this purpose, checked against its commitment; None if both are missing."""
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


def _read_detail(stored: StoredEvent, envelope: Envelope) -> dict[str, Any]:
    return _read_content(stored.place, envelope, "detail", stored.detail, stored.detail_salt) or {}


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


def _view_findings(replay: ReplayState, head: StoredHead) -> list[RecordBroken]:
    if head.view is None:
        return [RecordBroken(head.place, "view", "it has no present view.")]
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
    return [
        RecordBroken(head.place, f"view.{name}", f"its present view has another {name} than its events say.")
        for name, value in head.view.items()
        if not is_same_value(expected.get(name), value)
    ]
