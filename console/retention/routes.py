"""Erasure, legal holds and retention. Everything here is for people of role compliance; what destroys takes two."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from console.accounts.step_up import is_proven
from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page, Paged, ReasonBody
from console.edge.transaction import in_tenancy
from console.retention import erasure, schemas
from ledger.people.rules.confirmation import Answer
from ledger.record.rules.refusals import NotFound
from ledger.retention import queries
from ledger.retention.operations import erasure as operations
from ledger.retention.operations import retention as clocks
from ledger.retention.rules.retention import HoldScope, RetentionPolicy

router = Router(tags=["Erasure and retention"])
READERS = ("compliance", "audit")


@router.get("/erasures", summary="Erasure requests, newest first", response=Page[schemas.Erasure])
@admits(*READERS)
@in_tenancy
def list_erasures(request: HttpRequest, wanted: Query[schemas.ErasuresWanted]) -> Page[schemas.Erasure]:
    found = queries.erasures(
        caller_of(request).tenant_id,
        states=(wanted.state,) if wanted.state else (),
        after=paging.decode_cursor(wanted.cursor),
        limit=wanted.limit + 1,
    )
    return paging.page_of(schemas.Erasure.of, found, wanted.limit)


@router.get("/erasures/{erasure_id}", summary="One erasure request with its subjects", response=schemas.ErasureDetail)
@admits(*READERS)
@in_tenancy
def get_erasure(request: HttpRequest, erasure_id: UUID) -> schemas.ErasureDetail:
    tenant_id = caller_of(request).tenant_id
    row = queries.erasure(tenant_id, erasure_id)
    if row is None:
        raise NotFound
    named = queries.subjects_of(tenant_id, erasure_id)
    gone = queries.erased_subjects(tenant_id, [subject for subject, _ in named])
    subjects = [schemas.ErasedThing(id=subject, kind=kind, erased=subject in gone) for subject, kind in named]
    return schemas.ErasureDetail.of(row, named=subjects)


@router.post(
    "/erasures",
    summary="Request erasure of actions with their approvals, cases and sessions",
    response={201: schemas.ErasureAsked},
)
@admits("compliance")
@in_tenancy
def ask(request: HttpRequest, body: schemas.ErasureBody) -> schemas.ErasureAsked:
    caller = caller_of(request)
    scope = erasure.erasure_scope(caller.tenant_id, body.actions)
    wish = operations.ErasureRequest(subjects=tuple(scope.subjects), legal_basis=body.legal_basis, reason=body.reason)
    row = operations.request_erasure(tenant_id=caller.tenant_id, request=wish, by=caller.actor, at=timezone.now())
    stays = [schemas.WhatStays(kind=kind, id=each, reason=why) for kind, each, why in scope.stays]
    return schemas.ErasureAsked.of(row, stays=stays)


@router.post(
    "/erasures/{erasure_id}/confirm",
    summary="Confirm an erasure as the second person, with a fresh proof of identity; it starts within seconds",
    response=schemas.Erasure,
)
@admits("compliance")
@in_tenancy
def confirm(request: HttpRequest, erasure_id: UUID, body: schemas.PasswordBody) -> schemas.Erasure:
    return _answer_erasure(request, erasure_id, Answer.CONFIRM, is_proven=is_proven(request, body.password, body.otp))


@router.post(
    "/erasures/{erasure_id}/refuse", summary="Reject an erasure as the second person", response=schemas.Erasure
)
@admits("compliance")
@in_tenancy
def refuse(request: HttpRequest, erasure_id: UUID, body: ReasonBody) -> schemas.Erasure:
    return _answer_erasure(request, erasure_id, Answer.DECLINE, reason=body.reason)


@router.post(
    "/erasures/{erasure_id}/withdraw", summary="Withdraw an erasure request before it starts", response=schemas.Erasure
)
@admits("compliance")
@in_tenancy
def withdraw(request: HttpRequest, erasure_id: UUID, body: ReasonBody) -> schemas.Erasure:
    return _answer_erasure(request, erasure_id, Answer.WITHDRAW, reason=body.reason)


def _answer_erasure(request: HttpRequest, erasure_id: UUID, answer: Answer, **said: Any) -> schemas.Erasure:
    caller = caller_of(request)
    row = operations.answer_erasure(
        tenant_id=caller.tenant_id, erasure_id=erasure_id, answer=answer, by=caller.actor, at=timezone.now(), **said
    )
    return schemas.Erasure.of(row)


@router.get("/holds", summary="Legal holds in force, or lifted ones", response=Page[schemas.Hold])
@admits(*READERS)
@in_tenancy
def list_holds(request: HttpRequest, wanted: Query[schemas.HoldsWanted]) -> Page[schemas.Hold]:
    found = queries.holds(
        caller_of(request).tenant_id,
        lifted=wanted.lifted,
        after=paging.decode_cursor(wanted.cursor),
        limit=wanted.limit + 1,
    )
    return paging.page_of(schemas.Hold.of, found, wanted.limit)


@router.post(
    "/holds", summary="Place a legal hold on an action, a target, an agent or everything", response={201: schemas.Hold}
)
@admits("compliance")
@in_tenancy
def place_hold(request: HttpRequest, body: schemas.HoldBody) -> schemas.Hold:
    caller = caller_of(request)
    row = clocks.place_hold(
        tenant_id=caller.tenant_id,
        scope=HoldScope(body.scope),
        value=body.value,
        reason=body.reason,
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.Hold.of(row)


@router.post("/holds/{hold_id}/lift", summary="Lift a legal hold", response=schemas.HoldLifted)
@admits("compliance")
@in_tenancy
def lift_hold(request: HttpRequest, hold_id: UUID, body: ReasonBody) -> schemas.HoldLifted:
    caller = caller_of(request)
    clocks.lift_hold(
        tenant_id=caller.tenant_id, hold_id=hold_id, reason=body.reason, by=caller.actor, at=timezone.now()
    )
    return schemas.HoldLifted(hold_id=hold_id, lifted=True)


@router.get(
    "/retention",
    summary="Retention policies, newest first; without one in force the defaults hold",
    response=Page[schemas.Retention],
)
@admits(*READERS)
@in_tenancy
def list_policies(request: HttpRequest, wanted: Query[Paged]) -> Page[schemas.Retention]:
    found = queries.retentions(
        caller_of(request).tenant_id, after=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1
    )
    return paging.page_of(schemas.Retention.of, found, wanted.limit)


@router.post("/retention", summary="Propose a retention policy", response={201: schemas.Retention})
@admits("compliance")
@in_tenancy
def propose_policy(request: HttpRequest, body: schemas.RetentionBody) -> schemas.Retention:
    caller = caller_of(request)
    row = clocks.propose_policy(
        tenant_id=caller.tenant_id, policy=RetentionPolicy(**body.model_dump()), by=caller.actor, at=timezone.now()
    )
    return schemas.Retention.of(row)


@router.post(
    "/retention/{retention_id}/confirm",
    summary="Confirm a retention policy as the second person, with a fresh proof of identity",
    response=schemas.Retention,
)
@admits("compliance")
@in_tenancy
def confirm_policy(request: HttpRequest, retention_id: UUID, body: schemas.PasswordBody) -> schemas.Retention:
    proven = is_proven(request, body.password, body.otp)
    return _answer_policy(request, retention_id, Answer.CONFIRM, is_proven=proven)


@router.post(
    "/retention/{retention_id}/withdraw", summary="Withdraw a proposed retention policy", response=schemas.Retention
)
@admits("compliance")
@in_tenancy
def withdraw_policy(request: HttpRequest, retention_id: UUID, body: ReasonBody) -> schemas.Retention:
    return _answer_policy(request, retention_id, Answer.WITHDRAW, reason=body.reason)


def _answer_policy(request: HttpRequest, retention_id: UUID, answer: Answer, **said: Any) -> schemas.Retention:
    caller = caller_of(request)
    row = clocks.answer_policy(
        tenant_id=caller.tenant_id, retention_id=retention_id, answer=answer, by=caller.actor, at=timezone.now(), **said
    )
    return schemas.Retention.of(row)
