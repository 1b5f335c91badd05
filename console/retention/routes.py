"""Erasure, legal holds and retention. Everything here is for people of role compliance; what destroys takes two."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from ninja import Router

from console.edge.auth import admits, caller_of
from console.edge.transaction import in_tenancy
from console.retention import lists, schemas, verbs
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists
from ledger.record.rules.refusals import NotFound
from ledger.retention import queries

router = Router(tags=["Erasure and retention"])


add_lists(router, __name__, lists.ERASURES)


@router.get("/erasures/{erasure_id}", summary="One erasure request with its subjects", response=schemas.ErasureDetail)
@admits(*lists.API_READERS)
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
add_lists(router, __name__, lists.HOLDS)
add_verbs(router, __name__, verbs.HOLD_VERBS)
add_lists(router, __name__, lists.POLICIES)
add_verbs(router, __name__, verbs.POLICY_VERBS)
add_verbs(router, __name__, verbs.OFF_BOARDING_VERBS)
