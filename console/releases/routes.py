"""Releases of policies and contracts: drafts, gates, signatures, canaries, promotion by two people, the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from console.accounts.step_up import is_proven
from console.contracts.schemas import PolicyVersion
from console.edge.auth import admits, caller_of
from console.edge.openapi import request_body
from console.edge.schemas import ReasonBody
from console.edge.transaction import in_tenancy
from console.releases import release_steps, schemas
from console.releases.lists import DRAFTERS, RELEASES
from console.web.list_page import add_lists
from ledger.catalogue import queries
from ledger.catalogue.operations import releases
from ledger.catalogue.rules.contract import read
from ledger.catalogue.rules.policies import POLICY_KINDS
from ledger.catalogue.rules.releases import GATES, CanaryScope
from ledger.record.rules.refusals import NotFound

if TYPE_CHECKING:
    from ledger.models import Release

router = Router(tags=["Releases"])
PEOPLE = ("operator", "administrator")


@router.post("/releases", summary="Draft a policy change; it does not take effect yet", response={201: schemas.Release})
@admits(*DRAFTERS)
@in_tenancy
def draft(request: HttpRequest, body: schemas.ReleaseBody) -> schemas.Release:
    caller = caller_of(request)
    document = body.document | {"version": body.version}
    release_steps.check_draft(body.kind, document)
    row = releases.draft_release(
        tenant_id=caller.tenant_id,
        kind=body.kind,
        version=body.version,
        document=document,
        reason=body.reason,
        by=caller.actor,
        at=timezone.now(),
    )
    return _release_schema(row)


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
    return _release_schema(row)


add_lists(router, __name__, RELEASES)


@router.get("/releases/{release_id}", summary="One release, its draft and its gates", response=schemas.Release)
@admits(*DRAFTERS, "audit", "person")
@in_tenancy
def get_release(request: HttpRequest, release_id: UUID) -> schemas.Release:
    return _release_schema(_release_or_404(request, release_id))


@router.post(
    "/releases/{release_id}/gates",
    summary="Run the gates of a draft, or check the figures of its canary",
    response=schemas.Release,
)
@admits(*DRAFTERS)
@in_tenancy
def run_gates(request: HttpRequest, release_id: UUID) -> schemas.Release:
    return _release_schema(
        release_steps.run_gates(_release_or_404(request, release_id), by=caller_of(request).actor, at=timezone.now())
    )


@router.post(
    "/releases/{release_id}/signatures",
    summary="Sign the changes, or the outcomes changed by a replay",
    response=schemas.Release,
)
@admits(*PEOPLE)
@in_tenancy
def sign(request: HttpRequest, release_id: UUID, body: schemas.GateSignatureBody) -> schemas.Release:
    signed = release_steps.sign_gate(
        _release_or_404(request, release_id),
        gate=body.gate,
        reason=body.reason,
        by=caller_of(request).actor,
        is_proven=is_proven(request, body.password, body.otp),
        at=timezone.now(),
    )
    return _release_schema(signed)


@router.post(
    "/releases/{release_id}/canary",
    summary="Start a canary: the draft decides some live actions",
    response=schemas.Release,
)
@admits(*PEOPLE)
@in_tenancy
def start_canary(request: HttpRequest, release_id: UUID, body: schemas.CanaryBody) -> schemas.Release:
    caller, at = caller_of(request), timezone.now()
    scope = CanaryScope(tools=tuple(body.tools), share=body.share, actions=body.actions, since=at)
    row = releases.start_canary(tenant_id=caller.tenant_id, release_id=release_id, scope=scope, by=caller.actor, at=at)
    return _release_schema(row)


@router.post("/releases/{release_id}/end", summary="Stop its canary, or withdraw the draft", response=schemas.Release)
@admits(*PEOPLE)
@in_tenancy
def end(request: HttpRequest, release_id: UUID, body: ReasonBody) -> schemas.Release:
    caller = caller_of(request)
    row = releases.end_release(
        tenant_id=caller.tenant_id, release_id=release_id, reason=body.reason, by=caller.actor, at=timezone.now()
    )
    return _release_schema(row)


@router.post(
    "/releases/{release_id}/promotion",
    summary="Promote a release as one of two people",
    response=schemas.Release,
)
@admits(*PEOPLE)
@in_tenancy
def promote(request: HttpRequest, release_id: UUID, body: schemas.ReleaseWordBody) -> schemas.Release:
    promoted = release_steps.promote(
        _release_or_404(request, release_id),
        reason=body.reason,
        by=caller_of(request).actor,
        is_proven=is_proven(request, body.password, body.otp),
        at=timezone.now(),
    )
    return _release_schema(promoted)


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


@router.post(
    "/contracts/{name}/{version}/rollback",
    summary="Roll back a contract to an earlier version",
    response=schemas.ContractInForce,
)
@admits(*PEOPLE)
@in_tenancy
def roll_back_contract(
    request: HttpRequest, name: str, version: str, body: schemas.ReleaseWordBody
) -> schemas.ContractInForce:
    caller = caller_of(request)
    row = releases.roll_back_contract(
        tenant_id=caller.tenant_id,
        name=name,
        version=version,
        reason=body.reason,
        by=caller.actor,
        is_proven=is_proven(request, body.password, body.otp),
        at=timezone.now(),
    )
    return schemas.ContractInForce(name=row.name, version=row.version, digest=row.digest)


def _release_or_404(request: HttpRequest, release_id: UUID) -> Release:
    row = queries.release(caller_of(request).tenant_id, release_id)
    if row is None:
        raise NotFound
    return row


def _release_schema(row: Release) -> schemas.Release:
    gates = queries.gate_results(row.tenant_id, row.id)
    return schemas.Release.of(
        row,
        document=release_steps.read_draft(row),
        needs=releases.red_gates(row),
        gates=[schemas.Gate.of(gates[name], name=words) for name, (words, _) in GATES.items() if name in gates],
    )
