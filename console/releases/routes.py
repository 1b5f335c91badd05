"""Releases of policies and contracts: drafts, gates, signatures, canaries, promotion by two people, the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from console.accounts.step_up import is_proven
from console.contracts import verbs as contract_verbs
from console.contracts.schemas import PolicyVersion
from console.edge.auth import admits, caller_of
from console.edge.openapi import request_body
from console.edge.transaction import in_tenancy
from console.releases import release_steps, schemas, verbs
from console.releases.lists import DRAFTERS, RELEASES
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists
from ledger.catalogue.rules.contract import read
from ledger.catalogue.rules.policies import POLICY_KINDS
from ledger.record.rules.refusals import NotFound

if TYPE_CHECKING:
    pass

router = Router(tags=["Releases"])
PEOPLE = ("operator", "administrator")


@router.post("/releases", summary="Draft a policy change; it does not take effect yet", response={201: schemas.Release})
@admits(*DRAFTERS)
@in_tenancy
def draft(request: HttpRequest, body: schemas.ReleaseBody) -> schemas.Release:
    caller = caller_of(request)
    row = release_steps.draft_policy(
        tenant_id=caller.tenant_id,
        kind=body.kind,
        version=body.version,
        document=body.document,
        reason=body.reason,
        by=caller.actor,
        at=timezone.now(),
    )
    return verbs.release_answer(row)


@router.post(
    "/contracts/releases",
    summary="Draft a contract version that changes verification; it does not take effect yet",
    openapi_extra=request_body("ContractDocument"),
    response={201: schemas.Release},
)
@admits(*DRAFTERS)
@in_tenancy
def draft_contract(request: HttpRequest, wanted: Query[schemas.ContractReleaseReason]) -> schemas.Release:
    caller = caller_of(request)
    row = release_steps.draft_contract(
        caller.tenant_id, read(request.body), reason=wanted.reason, by=caller.actor, at=timezone.now()
    )
    return verbs.release_answer(row)


add_lists(router, __name__, RELEASES)


@router.get("/releases/{release_id}", summary="One release, its draft and its gates", response=schemas.Release)
@admits(*DRAFTERS, "audit", "person")
@in_tenancy
def get_release(request: HttpRequest, release_id: UUID) -> schemas.Release:
    return verbs.release_answer(verbs.get_release(caller_of(request).tenant_id, release_id))


@router.post(
    "/releases/{release_id}/gates",
    summary="Run the gates of a draft, or check the figures of its canary",
    response=schemas.Release,
)
@admits(*DRAFTERS)
@in_tenancy
def run_gates(request: HttpRequest, release_id: UUID) -> schemas.Release:
    caller = caller_of(request)
    row = verbs.get_release(caller.tenant_id, release_id)
    return verbs.release_answer(release_steps.run_gates(row, by=caller.actor, at=timezone.now()))


add_verbs(router, __name__, (verbs.SIGN, verbs.START_CANARY, verbs.END, verbs.PROMOTE))


@router.post(
    "/policies/{kind}/rollback",
    summary="Roll back a policy to an earlier version",
    response=PolicyVersion,
)
@admits(*PEOPLE)
@in_tenancy
def roll_back(request: HttpRequest, kind: str, body: schemas.RollbackBody) -> PolicyVersion:
    caller = caller_of(request)
    if kind not in POLICY_KINDS:
        raise NotFound
    row = release_steps.roll_back(
        tenant_id=caller.tenant_id,
        kind=kind,
        version=body.version,
        reason=body.reason,
        by=caller.actor,
        is_proven=is_proven(request, body.password, body.otp),
        at=timezone.now(),
    )
    return PolicyVersion(kind=kind, version=row.version, digest=row.digest)


add_verbs(router, __name__, [contract_verbs.ROLL_BACK])
