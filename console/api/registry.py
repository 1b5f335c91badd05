"""Agents, contracts and policies: what operators commit."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from approvals import queries as before
from approvals.operations import agents, roster
from approvals.rules import policy, registry
from console.api import answers, pages, predicates
from console.api.caller import admits, caller_of
from console.api.document import body_of
from console.api.edge import NotFound, answer, in_tenancy
from console.api.members import member_named
from console.api.schemas import AgentBody, Paged, PolicyBody, ReasonBody
from ledger.operations import book
from ledger.queries import record
from ledger.rules import contract as contracts
from ledger.rules import policies
from ledger.rules.canonical import parse
from reviews.checks import catalogue
from reviews.rules import recovery_table

router = Router(tags=["Registry and contracts"])
OPERATORS = ("oper", "operator", "administrator")


@router.post("/agents", summary="Register a version of an agent", response={201: answers.AgentVersion})
@admits(*OPERATORS)
@in_tenancy
def register_agent(request: HttpRequest, body: AgentBody) -> HttpResponse:
    caller, at = caller_of(request), timezone.now()
    entry = registry.Entry(
        tenant=str(caller.tenant_id),
        agent_id=body.agent_id,
        version=body.version,
        tools=tuple(body.tools),
        output_tags=tuple(body.output_tags),
        model_tier=body.model_tier or "",
        registered_by=body.registered_by or caller.name,
        registered_at=at,
    )
    owner = member_named(caller.tenant_id, body.owner) if body.owner else None
    version = agents.register(tenant_id=caller.tenant_id, entry=entry, owner=owner, by=caller.actor, at=at)
    return answer(_version(version), 201)


@router.get("/agents", summary="The registered agents", response=answers.Page[answers.AgentSummary])
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def list_agents(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    tenant_id = caller_of(request).tenant_id
    found = before.agents(tenant_id, after=pages.place(wanted.cursor), limit=wanted.limit + 1)
    return pages.listed(found, wanted.limit, _agent)


@router.get(
    "/agents/{agent_id}", summary="One agent with its versions and its record at the gate", response=answers.Agent
)
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def get_agent(request: HttpRequest, agent_id: str) -> HttpResponse:
    tenant_id = caller_of(request).tenant_id
    agent = before.agent(tenant_id, agent_id)
    if agent is None:
        raise NotFound
    versions = [_version(each) for each in before.agent_versions(tenant_id, agent_id)]
    undisclosed = [
        {"tool": call.tool, "session_id": str(call.session_id), "at": call.at}
        for call in before.attempted_undisclosed(tenant_id, agent_id=agent_id)
    ]
    return answer(_agent(agent) | {"versions": versions, "attempted_undisclosed": undisclosed})


@router.post(
    "/agents/{agent_id}/revoke", summary="Revoke an agent, at once and for open sessions too", response=answers.Revoked
)
@admits(*OPERATORS)
@in_tenancy
def revoke_agent(request: HttpRequest, agent_id: str, body: ReasonBody) -> HttpResponse:
    caller = caller_of(request)
    agents.revoke(tenant_id=caller.tenant_id, agent_id=agent_id, reason=body.reason, by=caller.actor, at=timezone.now())
    return answer({"agent_id": agent_id, "revoked": True})


@router.post(
    "/contracts",
    summary="Register a contract document; a used version is immutable",
    openapi_extra=body_of("ContractDocument"),
    response={201: answers.ContractVersion},
)
@admits(*OPERATORS)
@in_tenancy
def register_contract(request: HttpRequest) -> HttpResponse:
    caller = caller_of(request)
    # Read from the bytes: a contract may hold fractions (back-off), which no other body may.
    document = contracts.read(request.body)
    contract = contracts.validate(
        document,
        compile_predicate=lambda text: predicates.fault(text, _variables(document)),
        check_verification=_verification_faults,
        compile_for=lambda source, text: predicates.fault(
            text, predicates.variables(document["arguments_schema"], source)
        ),
    )
    row = book.register_contract(tenant_id=caller.tenant_id, contract=contract, actor=caller.actor, at=timezone.now())
    return answer(_contract(row), 201)


@router.get("/contracts", summary="Every version of every contract", response=answers.Page[answers.ContractVersion])
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def list_contracts(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    tenant_id = caller_of(request).tenant_id
    found = record.contract_versions(tenant_id, after=pages.place(wanted.cursor), limit=wanted.limit + 1)
    return pages.listed(found, wanted.limit, _contract)


@router.get(
    "/contracts/{name}/{version}", summary="One contract document as it was registered", response=answers.Contract
)
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def get_contract(request: HttpRequest, name: str, version: str) -> HttpResponse:
    row = record.contract_version(caller_of(request).tenant_id, name, version)
    if row is None:
        raise NotFound
    known = {"name": row.name, "version": row.version, "digest": row.digest, "lint": row.lint}
    return answer(known | {"document": contracts.read(bytes(row.document))})


@router.post(
    "/policies/{kind}", summary="Put a new version of a policy in force", response={201: answers.PolicyVersion}
)
@admits("oper", "administrator")
@in_tenancy
def set_policy(request: HttpRequest, kind: str, body: PolicyBody) -> HttpResponse:
    caller = caller_of(request)
    if kind not in policies.POLICY_KINDS:
        raise NotFound
    document = body.document | {"version": body.version}
    policies.check(kind, document)
    if kind == "recovery":
        faults = recovery_table.faults(document)
        if faults:
            raise policies.BadPolicy(errors=faults)
    if kind == "approval":
        policy.parse(document)
    row = book.set_policy(
        tenant_id=caller.tenant_id,
        kind=kind,
        version=body.version,
        document=document,
        actor=caller.actor,
        at=timezone.now(),
    )
    if kind == "approval":
        roster.look_soon(tenant_id=caller.tenant_id, at=timezone.now())
    return answer({"kind": kind, "version": row.version, "digest": row.digest}, 201)


@router.get("/policies", summary="The policies in force", response=dict[str, answers.PolicyInForce])
@admits(*OPERATORS, "audit", "person")
@in_tenancy
def list_policies(request: HttpRequest) -> HttpResponse:
    active = record.active_policies(caller_of(request).tenant_id)
    return answer({kind: _policy(row) for kind, row in active.items()})


def _variables(document: dict[str, Any]) -> dict[str, Any]:
    return predicates.variables(document["arguments_schema"], document.get("verification"))


def _verification_faults(verification: dict[str, Any]) -> list[str]:
    return catalogue.check_for(verification["pattern"]).validate(verification)


def _agent(agent: Any) -> dict[str, Any]:
    counts = before.call_counts(agent.tenant_id, agent.agent_id)
    made = counts["made"]
    return {
        "agent_id": agent.agent_id,
        "version": agent.version,
        "revoked": agent.revoked_at is not None,
        "calls": made,
        "acceptance_rate": counts["accepted"] / made if made else None,
        "phantom_share": counts["phantom"] / made if made else None,
    }


def _version(version: Any) -> dict[str, Any]:
    return {
        "agent_id": version.agent_id,
        "version": version.version,
        "tools": version.tools,
        "output_tags": version.output_tags,
        "registered_by": version.registered_by,
        "registered_at": version.registered_at,
        "fingerprint": version.fingerprint,
    }


def _contract(row: Any) -> dict[str, Any]:
    return {"name": row.name, "version": row.version, "digest": row.digest, "lint": row.lint}


def _policy(row: Any) -> dict[str, Any]:
    return {"version": row.version, "digest": row.digest, "document": parse(bytes(row.document))}
