"""Runs: the steps of one workflow as a saga, and taking it back; and what the recovery policy would decide."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from approvals.sessions import queries as sessions_queries
from console.edge.auth import Caller, admits, caller_of
from console.edge.transaction import in_tenancy, json_response
from console.runs import context as runs_context
from console.runs import schemas, verbs
from console.verbs.verb import add_verbs
from ledger.catalogue import queries as catalogue_queries
from ledger.record.rules.refusals import NotFound
from reviews.recovery.rules import recovery_table
from reviews.recovery.rules.recovery_table import TABLE, RecoverySituation

router = Router(tags=["Runs and recovery"])


@router.get(
    "/runs/{run_id}",
    summary="The steps of a run, its point of no return and what was reversed",
    response=schemas.Workflow,
)
@admits("agent", "oper", "audit", "person")
@in_tenancy
def get_run(request: HttpRequest, run_id: str) -> schemas.Workflow:
    caller = caller_of(request)
    found = runs_context.load_run(caller.tenant_id, run_id)
    if found is None or not _is_theirs(caller, found):
        raise NotFound
    return verbs.run_answer(found)


add_verbs(router, __name__, [verbs.CANCEL])


@router.post(
    "/recovery/decide",
    summary="Evaluate the recovery policy in force for these inputs; nothing is done",
    response=schemas.RecoveryDecision,
)
@admits("oper", "audit", "person")
@in_tenancy
def decide(request: HttpRequest, body: schemas.SituationBody) -> schemas.RecoveryDecision:
    caller = caller_of(request)
    in_force = catalogue_queries.active_policies(caller.tenant_id)["recovery"]
    policy = recovery_table.parse_policy(bytes(in_force.document))
    given = body.model_dump() | {"triggers": frozenset(body.triggers)}
    row = policy.match(RecoverySituation(**given))
    return schemas.RecoveryDecision(
        row=row.id,
        action=row.action,
        finding=row.finding,
        condition=row.condition,
        state_paths=[[str(state) for state in path] for path in row.paths],
        effects=list(row.effects),
        table_digest=policy.digest,
        held_for_a_person=row.id in policy.hold,
    )


@router.get("/recovery/strategies", summary="The strategies that reviewers choose among", response=dict[str, Any])
@admits("oper", "audit", "person")
def strategies(request: HttpRequest) -> HttpResponse:
    names = ("strategy_branches", "strategy_matrix", "saga_regions", "selection_rules")
    return json_response({name: TABLE[name] for name in names})


def _is_theirs(caller: Caller, found: runs_context.RunView) -> bool:
    """Return True if the agent has a session of its own in the run."""
    if caller.kind != "agent":
        return True
    theirs = set(sessions_queries.sessions_of_key(caller.tenant_id, caller.actor.id))
    return any(one.row.session_id in theirs for one in found.steps)
