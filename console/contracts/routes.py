"""Contracts and policies: what operators commit."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from console.contracts import schemas, verbs
from console.contracts.contract_check import check_dry_run, check_sources, validate_contract
from console.contracts.lists import CONTRACTS, OPERATORS
from console.edge.auth import admits, caller_of
from console.edge.openapi import request_body
from console.edge.transaction import in_tenancy
from console.releases.release_steps import check_draft
from console.verbs.verb import add_verbs
from console.web import policy_simulation
from console.web.list_page import add_lists
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import registration
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules import policies
from ledger.record.rules.canonical import parse
from ledger.record.rules.refusals import NotFound
from reviews.readback.operations.dry_runs import record_tries

router = Router(tags=["Registry and contracts"])


@router.post(
    "/contracts",
    summary="Register a contract document; a used version is immutable, a weaker one needs a second person, and one"
    " that changes verification needs a release",
    openapi_extra=request_body("ContractDocument"),
    response={201: schemas.ContractVersion},
)
@admits(*OPERATORS)
@in_tenancy
def register_contract(request: HttpRequest) -> schemas.ContractVersion:
    caller = caller_of(request)
    # Read from the bytes: a contract may hold fractions (back-off), which no other body may.
    contract = validate_contract(contracts.read(request.body))
    check_sources(caller.tenant_id, contract)
    at = timezone.now()
    run = check_dry_run(caller.tenant_id, contract, at=at)
    row = registration.register_contract(tenant_id=caller.tenant_id, contract=contract, actor=caller.actor, at=at)
    record_tries(caller.tenant_id, contract, run, by=caller.actor, at=at)
    return verbs.contract_answer(row)


add_lists(router, __name__, CONTRACTS)


@router.get("/contracts/{name}/{version}", summary="One contract document as registered", response=schemas.Contract)
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def get_contract(request: HttpRequest, name: str, version: str) -> schemas.Contract:
    row = catalogue_queries.contract_version(caller_of(request).tenant_id, name, version)
    if row is None:
        raise NotFound
    return schemas.Contract(**dict(verbs.contract_answer(row)), document=contracts.read(bytes(row.document)))


add_verbs(router, __name__, (verbs.ANSWER, verbs.RETIRE))


@router.post(
    "/policies/{kind}",
    summary="Accepts only the version in force; a policy changes through a release",
    response={201: schemas.PolicyVersion},
)
@admits("oper", "administrator")
@in_tenancy
def set_policy(request: HttpRequest, kind: str, body: schemas.PolicyBody) -> schemas.PolicyVersion:
    caller = caller_of(request)
    if kind not in policies.POLICY_KINDS:
        raise NotFound
    document = body.document | {"version": body.version}
    check_draft(kind, document)
    row = registration.install_policy(
        tenant_id=caller.tenant_id,
        kind=kind,
        version=body.version,
        document=document,
        actor=caller.actor,
        at=timezone.now(),
    )
    return schemas.PolicyVersion(kind=kind, version=row.version, digest=row.digest)


@router.post(
    "/policies/{kind}/simulation",
    summary="Simulate a policy version or draft over a period, with what later proved wrong",
    response=schemas.SimulatedPolicy,
)
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def simulate(request: HttpRequest, kind: str, body: schemas.SimulationBody) -> schemas.SimulatedPolicy:
    """Nothing is kept and nothing is changed."""
    tenant_id = caller_of(request).tenant_id
    row = catalogue_queries.policy_version(tenant_id, kind, body.version) if body.document is None else None
    if kind not in policies.POLICY_KINDS or (body.document is None and row is None):
        raise NotFound
    document = parse(bytes(row.document)) if row is not None else body.document or {}
    until = body.until or timezone.now()
    since = body.since or until - timedelta(days=30)
    found = policy_simulation.simulate_policy(tenant_id, kind, document, since=since, until=until)
    return schemas.SimulatedPolicy(
        kind=kind,
        since=found.since,
        until=found.until,
        text=found.text,
        decided=found.decided,
        left_out=found.left_out,
        is_cut=found.is_cut,
        figures=[
            schemas.SimulationFigure(then=then, now=now, actions=count, proved_wrong=wrong)
            for then, now, count, wrong in found.figures
        ],
        touched=[
            schemas.SimulatedAction(
                action_id=each.action_id, then=each.then, now=each.now, text=each.text, proved_wrong=each.wrong
            )
            for each in found.touched
        ],
    )


@router.get("/policies", summary="The policies in force", response=dict[str, schemas.PolicyInForce])
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def list_policies(request: HttpRequest) -> dict[str, schemas.PolicyInForce]:
    active = catalogue_queries.active_policies(caller_of(request).tenant_id)
    return {kind: schemas.PolicyInForce.of(row, document=parse(bytes(row.document))) for kind, row in active.items()}
