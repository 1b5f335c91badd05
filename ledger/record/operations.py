"""Appends events to the record, in the caller's transaction. Every write of the product ends here.

`append` is the only way an event comes to be: it steps the state machine, writes envelope, entry and detail, moves the
subject's head and the present view of an action, in one call of one SQL function. If the process dies anywhere before
the caller's commit, none of it happened.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, lru_cache
from threading import local
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

from ledger import keystore
from ledger.db import call_function, call_functions, insert
from ledger.models import (
    Evidence,
    Idempotency,
    SubjectKey,
    Tenant,
)
from ledger.record.queries import events as queries
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules import encryption, lifecycle
from ledger.record.rules import entry as entries
from ledger.record.rules import envelope as envelopes
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.event_kinds import check_registered
from ledger.record.rules.ids import next_uuid7
from ledger.record.rules.lifecycle import Ground, State
from ledger.record.rules.refusals import RefusalRecord, Refused

_last = local()
ORIGIN_KEPT_S = 30
# Of so many events in one message the server keeps the plan.
_PLANNED = 8
SYSTEM_ACTOR = UUID("00000000-0000-7000-8000-000000000001")


class NoSuchSubject(Refused):
    """There is no such thing here."""

    code = "NOT_FOUND"
    status = 404


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it: a kind (person, agent, executor, operator, auditor, system) and a pseudonym."""

    kind: str
    id: UUID


SYSTEM = Actor("system", SYSTEM_ACTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectHead:
    """A subject as the next event finds it; `seq` 0 is a subject that does not exist yet."""

    tenant_id: UUID
    id: UUID
    kind: str
    state: str = ""
    seq: int = 0
    hash: bytes | None = None
    entry: entries.Entry | None = None
    event_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class SealedEvidence:
    """Evidence that was stored: its pointer, and the commitment that an envelope carries."""

    pointer: UUID
    commitment: envelopes.Commitment


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """What one event says besides its state: all of it is committed to, only digests and ids are in the envelope.

    `kind` stands in the register (`rules/event_kinds.py`), with the kinds of subject that it is for. `changes` are laid
    over the action's entry (or `entry` is its first one); `detail` is the event's own document; `view` are columns of
    the action's present view.
    """

    kind: str
    to: str | None = None
    grounds: frozenset[Ground] = frozenset()
    entry: entries.Entry | None = None
    changes: Mapping[str, Mapping[str, Any] | str] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[SealedEvidence, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    view: Mapping[str, Any] = field(default_factory=dict)
    causation: UUID | None = None


@dataclass(frozen=True, kw_only=True)
class RefusedEvent(RefusalRecord):
    """An event that goes on a subject's record although the request was refused."""

    subject_kind: str
    subject_id: UUID
    event: NewEvent
    actor: Actor


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event that is ready to be written, and the head that it leaves."""

    head: SubjectHead
    values: tuple[bytes | str | None, ...]


def new_id(at: datetime) -> UUID:
    """A fresh UUIDv7 of the time `at`, after the one that this thread made before in the same millisecond."""
    made = next_uuid7(getattr(_last, "id", None), at, secrets.token_bytes(10))
    _last.id = made
    return made


def lock_subject(*, tenant_id: UUID, subject_id: UUID, kind: str) -> SubjectHead:
    """The subject, locked until the transaction ends; its next event must continue this head."""
    head = queries.head_for_update(tenant_id, subject_id, kind)
    if head is None:
        raise NoSuchSubject
    return SubjectHead(**head)


def lock_behind_tenant(*, tenant_id: UUID, subject_id: UUID, kind: str) -> SubjectHead:
    """The same, behind the tenant's gate: no policy, freeze, executor or approver changes until the transaction ends.

    To be called first, before anything else is locked. Whoever changes one of those waits for us, or we for them.
    """
    head = queries.head_for_update(tenant_id, subject_id, kind, through_gate=True)
    if head is None:
        raise NoSuchSubject
    return SubjectHead(**head)


def lock_subjects(*, tenant_id: UUID, subject_ids: Iterable[UUID], kind: str) -> list[SubjectHead]:
    """Those of these subjects that exist, locked in the order of their ids, in one message."""
    return [SubjectHead(**head) for head in queries.heads_for_update(tenant_id, sorted(subject_ids), kind)]


def lock_by_statement(tenant_id: UUID, statement: bytes, *values: UUID) -> list[SubjectHead]:
    """The subjects that a statement of its caller locks, in its order (`queries.heads_locked`)."""
    return [SubjectHead(**head) for head in queries.heads_locked(tenant_id, statement, *values)]


def append(head: SubjectHead, happening: NewEvent, *, actor: Actor, at: datetime) -> SubjectHead:
    """Write one event after `head` and return the new head (D4).

    `head` must be locked (or new) in this transaction; otherwise the database refuses, and nothing is written.
    """
    drafted = draft_event(head, happening, actor=actor, at=at)
    write_events(drafted)
    return drafted.head


def write_events(*drafts: EventDraft) -> None:
    """Write events in one message, in this order: one that came before its predecessor would continue nothing."""
    if len(drafts) > _PLANNED:
        call_functions(_appending(1), [each.values for each in drafts])
    else:
        call_function(_appending(len(drafts)), *(value for each in drafts for value in each.values), prepared=True)


def draft_event(head: SubjectHead, happening: NewEvent, *, actor: Actor, at: datetime) -> EventDraft:
    """The event that `append` would write; refuses an illegal step, missing grounds and an entry out of schema.

    An event that the register does not know is `UnregisteredEvent`, which is a mistake of the program.
    """
    check_registered(happening.kind, head.kind)
    state = lifecycle.next_state(
        head.kind, head.state, happening.to or (None if head.seq else ""), by=actor.kind, grounds=happening.grounds
    )
    snapshot = _snapshot(head, happening, state)
    if not entries.allows_grounds(snapshot, happening.grounds):
        raise lifecycle.GroundsMissing("Only of a tool that reads can it be said that it changes nothing.")
    event_id = new_id(at)
    entry_bytes, entry_salt = _committed(snapshot)
    detail_bytes, detail_salt = _committed(_detail(happening))
    envelope = envelopes.Envelope(
        origin=tenant_origin(head.tenant_id),
        id=str(event_id),
        kind=happening.kind,
        subject_kind=head.kind,
        subject_id=str(head.id),
        seq=head.seq + 1,
        prev=head.hash.hex() if head.hash else None,
        from_state=head.state,
        to_state=state,
        actor_kind=actor.kind,
        actor_id=str(actor.id),
        at=at,
        causation=str(happening.causation) if happening.causation else None,
        digests=happening.digests,
        commitments=(
            *_own("entry", entry_salt, entry_bytes),
            *_own("detail", detail_salt, detail_bytes),
            *(sealed.commitment for sealed in happening.evidence),
        ),
    )
    data = envelopes.write(envelope)
    following = replace(
        head, state=state, seq=head.seq + 1, hash=envelopes.entry_hash(data), entry=snapshot, event_id=event_id
    )
    return EventDraft(following, (data, entry_salt, entry_bytes, detail_salt, detail_bytes, _view(happening, snapshot)))


def store_evidence(
    *,
    tenant_id: UUID,
    subject_id: UUID,
    purpose: str,
    data: bytes,
    media_type: str,
    source: str,
    at: datetime,
    pointer: UUID | None = None,
    is_new: bool = False,
) -> SealedEvidence:
    """Store evidence, encrypted under its subject's own key, and return what an event needs to commit to it.

    `pointer` is given where the evidence itself must name its own place. A subject that `is_new` was begun in this
    transaction: it has no key yet, and nobody can have made one.
    """
    sealed, rows = seal_evidence(
        tenant_id=tenant_id,
        subject_id=subject_id,
        purpose=purpose,
        data=data,
        media_type=media_type,
        source=source,
        at=at,
        pointer=pointer,
        key_id=None if is_new else evidence_queries.key_id(tenant_id, subject_id),
    )
    insert(*rows)
    return sealed


def seal_evidence(
    *,
    tenant_id: UUID,
    subject_id: UUID,
    purpose: str,
    data: bytes,
    media_type: str,
    source: str,
    at: datetime,
    pointer: UUID | None = None,
    key_id: UUID | None,
) -> tuple[SealedEvidence, list[SubjectKey | Evidence]]:
    """The same, with the rows that are the caller's to insert; `key_id` is that of the subject's key, if it has one."""
    pointer, salt = pointer or uuid4(), secrets.token_bytes(envelopes.SALT_BYTES)
    place = f"{tenant_id}/{subject_id}/{pointer}"
    key, fresh = _data_key(tenant_id, subject_id, key_id)
    sealed = encryption.seal(key, secrets.token_bytes(encryption.NONCE_BYTES), data, place)
    digest = envelopes.commitment(purpose, salt, data)
    evidence = Evidence(
        tenant_id=tenant_id,
        id=pointer,
        subject_id=subject_id,
        purpose=purpose,
        media_type=media_type,
        source=source[:200],
        observed_at=at,
        length=len(data),
        salt=salt,
        sealed=sealed,
        commitment=digest,
    )
    return SealedEvidence(pointer, envelopes.Commitment(purpose, str(pointer), len(data), digest)), [*fresh, evidence]


def seal_pieces(
    *,
    tenant_id: UUID,
    subject_id: UUID,
    pieces: Mapping[str, bytes],
    sources: Mapping[str, str],
    media_type: str,
    at: datetime,
    key_id: UUID | None,
) -> tuple[tuple[SealedEvidence, ...], list[SubjectKey | Evidence]]:
    """The same of several pieces of one subject, by purpose, with the source of each."""
    found: list[SealedEvidence] = []
    rows: list[SubjectKey | Evidence] = []
    for purpose, data in pieces.items():
        sealed, more = seal_evidence(
            tenant_id=tenant_id,
            subject_id=subject_id,
            purpose=purpose,
            data=data,
            media_type=media_type,
            source=sources[purpose],
            at=at,
            key_id=key_id,
        )
        found.append(sealed)
        rows += more
        key_id = next((row.key_id for row in more if isinstance(row, SubjectKey)), key_id)
    return tuple(found), rows


def tenant_origin(tenant_id: UUID) -> str:
    """The origin of a tenant's log. It changes only after a restore, so it is read once in a while.

    Whoever still holds the old one is refused by `ledger_append`, and nothing is written.
    """
    return _origin_of(tenant_id, int(monotonic() // ORIGIN_KEPT_S))


def clear_origin_cache() -> None:
    """Read origins again: one has just changed in this process."""
    _origin_of.cache_clear()


@lru_cache(maxsize=4096)
def _origin_of(tenant_id: UUID, period: int) -> str:
    return str(Tenant.objects.values_list("origin", flat=True).get(id=tenant_id))


def _snapshot(head: SubjectHead, happening: NewEvent, state: str) -> entries.Entry | None:
    if happening.entry is not None:
        entries.check_entry(happening.entry)
        return happening.entry
    if head.entry is None:
        if head.kind == "action":
            raise encryption.EvidenceErased
        return None
    changes = happening.changes
    if state != head.state:
        changes = entries.add_state_blocks(head.entry, changes, State(state))
    return entries.amend(head.entry, changes) if changes else head.entry


def _detail(happening: NewEvent) -> dict[str, Any] | None:
    detail = dict(happening.detail)
    if happening.grounds:
        detail["grounds"] = sorted(happening.grounds)
    if happening.view:
        detail["view"] = dict(happening.view)
    return detail or None


def _committed(value: Mapping[str, Any] | None) -> tuple[bytes | None, bytes | None]:
    if value is None:
        return None, None
    return canonical(value), secrets.token_bytes(envelopes.SALT_BYTES)


def _own(purpose: str, salt: bytes | None, data: bytes | None) -> Iterable[envelopes.Commitment]:
    if salt is not None and data is not None:
        yield envelopes.Commitment(purpose, None, len(data), envelopes.commitment(purpose, salt, data))


def _view(happening: NewEvent, snapshot: entries.Entry | None) -> str:
    view = dict(happening.view)
    if snapshot is not None:
        view |= entries.view_columns(snapshot)
    return json.dumps(view)


@cache
def _appending(count: int) -> bytes:
    calls = (f"ledger_append({', '.join(f'${6 * one + place}' for place in range(1, 7))})" for one in range(count))
    return f"SELECT {', '.join(calls)}".encode()


def _data_key(tenant_id: UUID, subject_id: UUID, key_id: UUID | None) -> tuple[bytes, list[SubjectKey]]:
    """The key of a subject's evidence, and the row to write where it is a fresh one."""
    if key_id is not None:
        return evidence_queries.data_key(key_id), []
    fresh = keystore.new_key()
    return fresh.key, [SubjectKey(tenant_id=tenant_id, subject_id=subject_id, key_id=fresh.id)]


def make_idempotency(*, tenant_id: UUID, action_id: UUID, request_hash: str) -> Idempotency:
    """The key that the executor sends with the mutation, a row for the caller to insert; the ledger knows only its hash
    (R-EX-16).
    """
    key = secrets.token_urlsafe(24)
    return Idempotency(
        tenant_id=tenant_id,
        key_hash=digest(key.encode()),
        key=key,
        request_hash=request_hash,
        action_id=action_id,
    )
