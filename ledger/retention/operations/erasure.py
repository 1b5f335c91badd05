"""Erasure: requested by one person, confirmed by another, carried out by a database role that can do nothing else.

What people do here (request, confirm, refuse, withdraw) are events of a subject of kind `erasure`.
`run_erasure` runs in the eraser's process: the functions of the database that it calls look for themselves whether two
people agreed, no hold stands in the way, and the subject is one that the request names (docs/retention.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger import keystore
from ledger.db import call_function, execute, tenancy
from ledger.models import Erasure
from ledger.people.queries import is_same_person
from ledger.people.rules import confirmation
from ledger.people.rules.confirmation import Answer
from ledger.record.operations import (
    SYSTEM,
    Actor,
    EventDraft,
    NewEvent,
    SubjectHead,
    append,
    draft_event,
    lock_subject,
    new_id,
)
from ledger.record.rules.refusals import AlreadyDecided, NotFound
from ledger.retention import queries
from ledger.retention.rules import retention as rules
from ledger.retention.rules.retention import RetentionSubject

AT_ONCE = 100
_TELL = b"SELECT ledger_tell_erasure($1, $2, $3, $4, $5, $6, $7)"
_REFUSALS = {
    "ON_HOLD": (rules.OnHold.__doc__ or "").strip(),
    "TOO_YOUNG": (rules.TooYoung.__doc__ or "").strip(),
    "STILL_OPEN": (rules.StillOpen.__doc__ or "").strip(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRequest:
    """The subjects to erase, the legal basis, and a reason that names no person."""

    subjects: tuple[UUID, ...]
    legal_basis: str
    reason: str


def request_erasure(*, tenant_id: UUID, request: ErasureRequest, by: Actor, at: datetime) -> Erasure:
    """Request erasure; nothing is erased before another person confirms it."""
    found = check_subjects(tenant_id, request.subjects, at=at)
    row = _create_row(tenant_id, request, found, state="REQUESTED", by=by, at=at)
    append(
        SubjectHead(tenant_id=tenant_id, id=row.id, kind="erasure"),
        NewEvent(kind="erasure_requested", to="REQUESTED", detail=_request_detail(request, found)),
        actor=by,
        at=at,
    )
    return row


def request_erasure_by_policy(*, tenant_id: UUID, request: ErasureRequest, at: datetime) -> Erasure:
    """Request erasure under a standing policy; two people confirmed the policy, so the request is confirmed with it."""
    policy = queries.retention(tenant_id)
    if policy is None or not policy.standing:
        raise confirmation.SecondPersonNeeded
    found = check_subjects(tenant_id, request.subjects, at=at)
    row = _create_row(tenant_id, request, found, state="CONFIRMED", by=SYSTEM, at=at, retention_id=policy.id)
    asked = append(
        SubjectHead(tenant_id=tenant_id, id=row.id, kind="erasure"),
        NewEvent(
            kind="erasure_requested",
            to="REQUESTED",
            detail=_request_detail(request, found) | {"retention": str(policy.id)},
        ),
        actor=SYSTEM,
        at=at,
    )
    confirmed = NewEvent(kind="erasure_confirmed", to="CONFIRMED", detail={"retention": str(policy.id)})
    append(asked, confirmed, actor=SYSTEM, at=at)
    return row


def answer_erasure(
    *,
    tenant_id: UUID,
    erasure_id: UUID,
    answer: Answer,
    reason: str = "",
    by: Actor,
    is_proven: bool = False,
    at: datetime,
) -> Erasure:
    """Confirm or refuse a request as the second person, or withdraw it, even confirmed, until it begins.

    Holds and ages are checked again, here and when the eraser begins.
    """
    withdraws = answer is Answer.WITHDRAW
    head, row = _lock_request(tenant_id, erasure_id, *(queries.OPEN if withdraws else ("REQUESTED",)))
    confirmation.check_answer(
        "erasure",
        answer,
        by_kind=by.kind,
        is_proposer=is_same_person(tenant_id, row.requested_by, by.id),
        is_proven=is_proven,
        reason=reason,
        proposed_at=row.requested_at,
        at=at,
    )
    if answer is Answer.CONFIRM:
        named = [subject for subject, _ in queries.subjects_of(tenant_id, erasure_id)]
        check_subjects(tenant_id, named, at=at, own_request=erasure_id)
        append(head, NewEvent(kind="erasure_confirmed", to="CONFIRMED"), actor=by, at=at)
        return _update_row(row, state="CONFIRMED", confirmed_by=by.id, confirmed_at=at)
    if row.begun_at is not None:
        raise rules.HasBegun
    kind, state = ("erasure_withdrawn", "WITHDRAWN") if withdraws else ("erasure_refused", "REFUSED")
    append(head, NewEvent(kind=kind, to=state, detail={"reason": reason}), actor=by, at=at)
    return _update_row(row, state=state, ended_at=at)


def run_erasure(*, tenant_id: UUID, erasure_id: UUID, clock: Callable[[], datetime]) -> int:
    """Carry out one confirmed request and return how many subjects this run erased. For the eraser's role.

    Each portion is one transaction: the content is gone and an event says so, or neither. Keys go after that commit,
    and the request ends after the keys. If we die anywhere, the next run goes on: what is erased stays on the list of
    what was erased, and a key that is still there stands in that list until it has gone.
    """
    if not _begin_erasure(tenant_id, erasure_id, at=clock()):
        return 0
    done = 0
    while count := _erase_batch(tenant_id, erasure_id, at=clock()):
        done += count
        _destroy_keys(tenant_id, erasure_id)
    _destroy_keys(tenant_id, erasure_id)
    with tenancy(tenant_id):
        head = _head(tenant_id, erasure_id)
        if head.state == "CONFIRMED":
            _append_event(draft_event(head, NewEvent(kind="erasure_done", to="DONE"), actor=SYSTEM, at=clock()))
    return done


def _begin_erasure(tenant_id: UUID, erasure_id: UUID, *, at: datetime) -> bool:
    with tenancy(tenant_id):
        head = _head(tenant_id, erasure_id)
        if head.state != "CONFIRMED":
            return False
        code = str(execute("SELECT ledger_begin_erasure($1, $2)", tenant_id, erasure_id)[0][0])
        if code:
            detail = {"code": code, "reason": _REFUSALS[code]}
            _append_event(
                draft_event(head, NewEvent(kind="erasure_refused", to="REFUSED", detail=detail), actor=SYSTEM, at=at)
            )
        return not code


def _erase_batch(tenant_id: UUID, erasure_id: UUID, *, at: datetime) -> int:
    with tenancy(tenant_id):
        statement = "SELECT subject_id, kind, seq, evidence FROM ledger_erase($1, $2, $3)"
        rows = execute(statement, tenant_id, erasure_id, AT_ONCE)
        if rows:
            subjects = [
                {"id": str(subject), "kind": kind, "events": seq, "evidence": [str(each) for each in evidence]}
                for subject, kind, seq, evidence in rows
            ]
            happening = NewEvent(kind="erased", detail={"count": len(rows), "subjects": subjects})
            _append_event(draft_event(_head(tenant_id, erasure_id), happening, actor=SYSTEM, at=at))
        return len(rows)


def _destroy_keys(tenant_id: UUID, erasure_id: UUID) -> None:
    with tenancy(tenant_id):
        keys = queries.keys_to_destroy(tenant_id, erasure_id)
    if keys:
        keystore.destroy_keys(keys)
        with tenancy(tenant_id):
            execute("SELECT ledger_keys_destroyed($1, $2)", tenant_id, keys)


def _head(tenant_id: UUID, erasure_id: UUID) -> SubjectHead:
    rows = execute("SELECT state, seq, head FROM ledger_erasure_head($1, $2)", tenant_id, erasure_id)
    if not rows:
        raise NotFound
    state, seq, head = rows[0]
    return SubjectHead(tenant_id=tenant_id, id=erasure_id, kind="erasure", state=state, seq=seq, hash=bytes(head))


def _append_event(drafted: EventDraft) -> None:
    call_function(_TELL, *drafted.values)


def _lock_request(tenant_id: UUID, erasure_id: UUID, *states: str) -> tuple[SubjectHead, Erasure]:
    head = lock_subject(tenant_id=tenant_id, subject_id=erasure_id, kind="erasure")
    if head.state not in states:
        raise AlreadyDecided("This was already decided or withdrawn; reload it.")
    return head, Erasure.objects.get(tenant_id=tenant_id, id=erasure_id)


def _update_row(row: Erasure, **changes: Any) -> Erasure:
    Erasure.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**changes)
    for name, value in changes.items():
        setattr(row, name, value)
    return row


def check_subjects(
    tenant_id: UUID, subjects: Iterable[UUID], *, at: datetime, own_request: UUID | None = None
) -> list[RetentionSubject]:
    """The subjects that the request names; refused unless all of them may be erased now."""
    wanted = sorted(set(subjects))
    if not wanted:
        raise NotFound
    if len(wanted) > rules.MOST_SUBJECTS:
        raise rules.TooMuch
    found = queries.retention_subjects(tenant_id, wanted)
    if len(found) != len(wanted):
        raise NotFound
    if queries.erased_subjects(tenant_id, wanted):
        raise rules.AlreadyErased
    if own_request is None and queries.subjects_in_open_requests(tenant_id, wanted):
        raise rules.AlreadyErased
    rules.check_scope(found, queries.policy(tenant_id), at=at)
    holds = queries.holds_on(tenant_id, found)
    if holds:
        raise rules.OnHold(f"The hold {holds[0].id} covers this; nothing of it is erased until it is lifted.")
    return found


def _create_row(
    tenant_id: UUID,
    request: ErasureRequest,
    found: list[RetentionSubject],
    *,
    state: str,
    by: Actor,
    at: datetime,
    retention_id: UUID | None = None,
) -> Erasure:
    return Erasure.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        state=state,
        legal_basis=request.legal_basis[:300],
        reason=request.reason[:4000],
        subjects=len(found),
        retention_id=retention_id,
        requested_by=by.id,
        requested_at=at,
        confirmed_at=at if retention_id else None,
    )


def _request_detail(request: ErasureRequest, found: list[RetentionSubject]) -> dict[str, Any]:
    return {
        "legal_basis": request.legal_basis[:300],
        "reason": request.reason[:4000],
        "subjects": [{"id": str(each.id), "kind": each.kind} for each in found],
    }
