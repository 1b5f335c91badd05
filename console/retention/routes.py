"""Erasure, legal holds and retention. Everything here is for people of role compliance; what destroys takes two."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router

from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page, Paged
from console.edge.transaction import in_tenancy
from console.retention import schemas, verbs
from console.verbs.verb import add_verbs
from ledger.record.rules.refusals import NotFound
from ledger.retention import queries

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


add_verbs(router, __name__, verbs.ERASURE_VERBS)


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


add_verbs(router, __name__, verbs.HOLD_VERBS)


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


add_verbs(router, __name__, verbs.POLICY_VERBS)
