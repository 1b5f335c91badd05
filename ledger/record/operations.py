"""Appends events to the record, in the caller's transaction. Every write of the product ends here.

`append` is the only way to write an event: it steps the state machine, writes envelope, entry and detail, and updates
the subject's head and the present view of an action, all in one call of one SQL function. If the process dies before
the caller's commit, nothing was written.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from os import urandom
from threading import local
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import orjson
from django.db import DatabaseError, OperationalError

from ledger import keystore
from ledger.db import RawCall, call_function, call_functions, execute, insert, tenancy
from ledger.models import (
    Evidence,
    Idempotency,
    SubjectKey,
    Tenant,
)
from ledger.record.queries import events as queries
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules import encryption, lifecycle, record_schemas
from ledger.record.rules import entry as entries
from ledger.record.rules import envelope as envelopes
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.event_kinds import EVENT_KINDS, check_registered
from ledger.record.rules.ids import next_uuid7
from ledger.record.rules.lifecycle import Ground, State
from ledger.record.rules.refusals import NotFound, RefusalRecord, Refused

log = logging.getLogger(__name__)
_last_id = local()
ORIGIN_KEPT_S = 30
# Up to this many events per message are sent as a prepared statement.
_MOST_PREPARED = 8
SYSTEM_ACTOR = UUID("00000000-0000-7000-8000-000000000001")


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of an event: a kind (person, agent, executor, operator, auditor, system) and a pseudonym."""

    kind: str
    id: UUID


SYSTEM = Actor("system", SYSTEM_ACTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectHead:
    """A subject before its next event; `seq` 0 means that it does not exist yet."""

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
    """Stored evidence: its pointer, and the commitment for the envelope."""

    pointer: UUID
    commitment: envelopes.Commitment


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """The content of an event: the envelope commits to all of it and contains only digests and ids.

    `kind` is in the register (`rules/event_kinds.py`), with the kinds of subject that may have it. `changes` amend the
    action's entry (`entry` is its first one); `detail` is the event's own document; `view` are columns of the action's
    present view.
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
    """An event to record on a subject although the request was refused."""

    subject_kind: str
    subject_id: UUID
    event: NewEvent
    actor: Actor


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event that is ready to be written, and the head after it."""

    head: SubjectHead
    values: tuple[bytes | str | None, ...]


def new_id(at: datetime) -> UUID:
    """A new UUIDv7 of the time `at`, greater than this thread's last one of the same millisecond."""
    fresh_id = next_uuid7(getattr(_last_id, "id", None), at, urandom(10))
    _last_id.id = fresh_id
    return fresh_id


def lock_subject(*, tenant_id: UUID, subject_id: UUID, kind: str) -> SubjectHead:
    """Lock a subject until the transaction ends; its next event must continue this head."""
    head = queries.head_for_update(tenant_id, subject_id, kind)
    if head is None:
        raise NotFound
    return SubjectHead(**head)


def lock_and_read(
    *reads: tuple[Any, ...], tenant_id: UUID, subject_id: UUID, kind: str
) -> tuple[SubjectHead, list[list[tuple[Any, ...]]]]:
    """Lock a subject and run these statements after the lock, in one message."""
    heads, found = queries.heads_for_update(tenant_id, [queries.lock_call(subject_id, kind)], reads)
    if not heads:
        raise NotFound
    return SubjectHead(**heads[0]), found


def lock_subjects(
    *reads: tuple[Any, ...], tenant_id: UUID, locks: Sequence[RawCall]
) -> tuple[list[SubjectHead], list[list[tuple[Any, ...]]]]:
    """Lock the existing subjects by calls of `queries.lock_call` or of a statement like it, in the order of the calls,
    and run these statements after the locks, all in one message.
    """
    heads, found = queries.heads_for_update(tenant_id, locks, reads)
    return [SubjectHead(**head) for head in heads], found


def read_head(tenant_id: UUID, row: Sequence[Any]) -> SubjectHead:
    """The head of a locked subject, from a row of a statement like those of `lock_subjects`."""
    return SubjectHead(**queries.read_head(tenant_id, *row))


def append(head: SubjectHead, event: NewEvent, *, actor: Actor, at: datetime) -> SubjectHead:
    """Write one event after `head` and return the new head (D4).

    `head` must be locked (or new) in this transaction; otherwise the database refuses, and nothing is written.
    """
    draft = draft_event(head, event, actor=actor, at=at)
    write_events(draft)
    return draft.head


def record_failed_step(*, tenant_id: UUID, subject_id: UUID, step: str, problem: Exception, at: datetime) -> None:
    """Record that a background task could not write this step of a subject, after its rollback (R-EX-26).

    The step is tried again at each tick; the same failure is recorded once until another event follows it. After a
    crash before the commit nothing is recorded, and the next tick fails and records it. A subject of a kind that the
    register does not name for it gets no event: a task must not end because of what it records.
    """
    code, reason = (problem.code, problem.detail) if isinstance(problem, Refused) else (type(problem).__name__, "")
    detail = {"step": step, "code": code, "reason": reason}
    try:
        with tenancy(tenant_id):
            kind = queries.subject_kind(tenant_id, subject_id)
            if kind not in EVENT_KINDS["step_failed"].subjects:
                return
            head = lock_subject(tenant_id=tenant_id, subject_id=subject_id, kind=str(kind))
            last = queries.event_with_detail(tenant_id, subject_id, head.seq)
            is_erased = kind == "action" and head.entry is None
            is_repeat = last is not None and (last[0].kind, last[2]) == ("step_failed", detail)
            if not is_erased and not is_repeat:
                append(head, NewEvent(kind="step_failed", detail=detail), actor=SYSTEM, at=at)
    except DatabaseError:
        log.exception("that the step %s of %s failed could not be recorded", step, subject_id)


def write_events(*drafts: EventDraft) -> None:
    """Write events in one message, in this order; an event must follow its predecessor."""
    try:
        if len(drafts) > _MOST_PREPARED:
            call_functions(_append_statement(1), [each.values for each in drafts])
        else:
            statement, values = events_call(*drafts)
            call_function(statement, *values, prepared=True)
    except OperationalError:
        # The tenant may have another log since a restore; whoever tries again finds out.
        clear_origin_cache()
        raise


def events_call(*drafts: EventDraft) -> RawCall:
    """The same of a few events as a call for `pipeline`; the rows that they point to must be inserted before it."""
    return RawCall(_append_statement(len(drafts)), [value for each in drafts for value in each.values])


def draft_event(head: SubjectHead, event: NewEvent, *, actor: Actor, at: datetime) -> EventDraft:
    """Draft the event that `append` would write; refuses an illegal step, missing grounds and an invalid entry.

    A kind that is not in the register raises `UnregisteredEvent`, which is a programming error.
    """
    check_registered(event.kind, head.kind)
    state = lifecycle.next_state(
        head.kind, head.state, event.to or (None if head.seq else ""), by=actor.kind, grounds=event.grounds
    )
    entry = _next_entry(head, event, state)
    # The sequencer's role writes no entry and may read no policy.
    if entry is not head.entry:
        record_schemas.check_schemas(_cached_schemas(head.tenant_id, int(monotonic() // ORIGIN_KEPT_S)))
    if not entries.allows_grounds(entry, event.grounds):
        raise lifecycle.GroundsMissing("Only of a tool that reads can it be said that it changes nothing.")
    event_id = new_id(at)
    entry_bytes, entry_salt = _salted_bytes(entry)
    detail_bytes, detail_salt = _salted_bytes(_detail_document(event))
    envelope = envelopes.Envelope(
        origin=tenant_origin(head.tenant_id),
        id=str(event_id),
        kind=event.kind,
        subject_kind=head.kind,
        subject_id=str(head.id),
        seq=head.seq + 1,
        prev=head.hash.hex() if head.hash else None,
        from_state=head.state,
        to_state=state,
        actor_kind=actor.kind,
        actor_id=str(actor.id),
        at=at,
        causation=str(event.causation) if event.causation else None,
        digests=event.digests,
        commitments=(
            *_commitments("entry", entry_salt, entry_bytes),
            *_commitments("detail", detail_salt, detail_bytes),
            *(sealed.commitment for sealed in event.evidence),
        ),
    )
    data = envelopes.write(envelope)
    following = SubjectHead(
        tenant_id=head.tenant_id,
        id=head.id,
        kind=head.kind,
        state=state,
        seq=head.seq + 1,
        hash=envelopes.entry_hash(data),
        entry=entry,
        event_id=event_id,
    )
    values = (data, entry_salt, entry_bytes, detail_salt, detail_bytes, _view_json(event, entry))
    return EventDraft(following, (head.tenant_id.bytes, *values))


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
    """Store evidence, encrypted under its subject's own key; return the commitment for the event.

    Pass a `pointer` if the evidence must contain it. A subject that `is_new` was created in this transaction and cannot
    have a key yet.
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
    """Encrypt evidence and return the rows for the caller to insert; `key_id` is that of the subject's key, if any."""
    pointer, salt = pointer or uuid4(), secrets.token_bytes(envelopes.SALT_BYTES)
    place = f"{tenant_id}/{subject_id}/{pointer}"
    key, fresh = _evidence_key(tenant_id, subject_id, key_id)
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
    media_types: Mapping[str, str],
    at: datetime,
    key_id: UUID | None,
) -> tuple[tuple[SealedEvidence, ...], list[SubjectKey | Evidence]]:
    """Encrypt several pieces of evidence of one subject, by purpose, with the source and the media type of each."""
    evidence: list[SealedEvidence] = []
    rows: list[SubjectKey | Evidence] = []
    for purpose, data in pieces.items():
        sealed, more = seal_evidence(
            tenant_id=tenant_id,
            subject_id=subject_id,
            purpose=purpose,
            data=data,
            media_type=media_types[purpose],
            source=sources[purpose],
            at=at,
            key_id=key_id,
        )
        evidence.append(sealed)
        rows += more
        key_id = next((row.key_id for row in more if isinstance(row, SubjectKey)), key_id)
    return tuple(evidence), rows


def tenant_origin(tenant_id: UUID) -> str:
    """The origin of a tenant's log, cached for a while, since it changes only after a restore.

    `ledger_append` refuses an event with an outdated origin.
    """
    return _cached_origin(tenant_id, int(monotonic() // ORIGIN_KEPT_S))


def clear_origin_cache() -> None:
    """Drop what is cached of tenants, after an origin or a policy in force has changed."""
    _cached_origin.cache_clear()
    _cached_schemas.cache_clear()


@lru_cache(maxsize=4096)
def _cached_origin(tenant_id: UUID, period: int) -> str:
    return str(Tenant.objects.values_list("origin", flat=True).get(id=tenant_id))


@lru_cache(maxsize=4096)
def _cached_schemas(tenant_id: UUID, period: int) -> Mapping[str, Any] | None:
    """The schemas of the record that the verification policy in force names; None if it names none."""
    rows = execute(
        "SELECT convert_from(document, 'UTF8')::jsonb -> 'schemas' FROM ledger_policyversion"
        " WHERE tenant_id = $1 AND kind = 'verification' AND active",
        tenant_id,
    )
    return rows[0][0] if rows else None


def _next_entry(head: SubjectHead, event: NewEvent, state: str) -> entries.Entry | None:
    if event.entry is not None:
        entries.check_entry(event.entry)
        return event.entry
    if head.entry is None:
        if head.kind == "action":
            raise encryption.EvidenceErased
        return None
    changes = event.changes
    if state != head.state:
        changes = entries.add_state_blocks(head.entry, changes, State(state))
    return entries.amend(head.entry, changes) if changes else head.entry


def _detail_document(event: NewEvent) -> dict[str, Any] | None:
    detail = dict(event.detail)
    if event.grounds:
        detail["grounds"] = sorted(map(str, event.grounds))
    if event.view:
        detail["view"] = dict(event.view)
    return detail or None


def _salted_bytes(value: Mapping[str, Any] | None) -> tuple[bytes | None, bytes | None]:
    if value is None:
        return None, None
    return canonical(value), urandom(envelopes.SALT_BYTES)


def _commitments(purpose: str, salt: bytes | None, data: bytes | None) -> Iterable[envelopes.Commitment]:
    if salt is not None and data is not None:
        yield envelopes.Commitment(purpose, None, len(data), envelopes.commitment(purpose, salt, data))


def _view_json(event: NewEvent, entry: entries.Entry | None) -> str:
    view = dict(event.view)
    if entry is not None:
        view |= entries.view_columns(entry)
    return orjson.dumps(view).decode()


@cache
def _append_statement(count: int) -> bytes:
    calls = (f"ledger_append({', '.join(f'${7 * one + place}' for place in range(1, 8))})" for one in range(count))
    return f"SELECT {', '.join(calls)}".encode()


def _evidence_key(tenant_id: UUID, subject_id: UUID, key_id: UUID | None) -> tuple[bytes, list[SubjectKey]]:
    """The key of a subject's evidence, and the row to insert if the key is new."""
    if key_id is not None:
        # The subject is not erased, so a key that is not there was lost, as with an older backup of the keys.
        return keystore.read_keys([key_id]).get(key_id) or keystore.renew_key(key_id), []
    fresh = keystore.new_key()
    return fresh.key, [SubjectKey(tenant_id=tenant_id, subject_id=subject_id, key_id=fresh.id)]


def make_idempotency(*, tenant_id: UUID, action_id: UUID, request_hash: str) -> Idempotency:
    """Create the idempotency key that the executor sends with the mutation, as a row for the caller to insert.

    The record contains only its hash (R-EX-16).
    """
    key = secrets.token_urlsafe(24)
    return Idempotency(
        tenant_id=tenant_id,
        key_hash=digest(key.encode()),
        key=key,
        request_hash=request_hash,
        action_id=action_id,
    )
