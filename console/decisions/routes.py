"""Decisions for other gateways: one call in, allow, deny or wait out; and the outcome of what was allowed.

A decision is an action. It is proposed, claimed and started as everywhere else; these routes say in three words what
came of it. Its lease is that of the attempt: if no outcome arrives in time, it is UNKNOWN and read back.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from approvals.execution import queries as execution_queries
from approvals.execution.operations import executors, ready_actions
from approvals.execution.operations.executions import StartRequest
from approvals.gate.operations import calls
from console.approvals.context import verdict_for_agent
from console.decisions import schemas
from console.edge.auth import Caller, NotAllowed, admits
from console.edge.openapi import request_body
from console.edge.transaction import in_tenancy, run_once
from console.execution.routes import take_answer
from console.execution.schemas import Observed
from console.sessions.routes.sessions import executor_at_hand, propose_and_start, visible_session
from console.sessions.schemas import CallResult
from ledger.actions.queries import actions
from ledger.record.rules.outcomes import outcome_of
from ledger.record.rules.refusals import Refused
from reviews import queries as after

if TYPE_CHECKING:
    from approvals.models import Executor
    from ledger.models import Action

router = Router(tags=["Decisions"])


class CallUnnamed(Refused):
    """A call to decide on has a `call_id` of yours, by which the same request is known again."""

    code = "CALL_UNNAMED"
    status = 422


class DecisionDryRun(Refused):
    """A dry run starts nothing, so it is no decision; send it to the session's calls."""

    code = "DRY_RUN"
    status = 422


@router.post("/decide", summary="Decide on one call of another gateway: allow, deny or wait", response=schemas.Decision)
@admits("agent")
def decide(request: HttpRequest, body: schemas.DecideBody) -> HttpResponse | None:
    raw: Any = body.call
    named = raw.get("call_id") if isinstance(raw, dict) else None
    if not isinstance(named, str) or not named:
        raise CallUnnamed
    if raw.get("dry_run"):
        raise DecisionDryRun
    executor, wanted, proof = executor_at_hand(request, body.start)
    return calls.isolate_after_fault(
        lambda isolated: run_once(
            request,
            lambda: _decide(request, body, executor, wanted, isolated=isolated),
            bound_to=wanted.thumbprint,
            proof=proof,
        )
    )


@router.post(
    "/decisions/{decision_id}/outcome",
    summary="Report what came of an allowed call; accepted after the lease as well",
    openapi_extra=request_body("Observation"),
    response={202: Observed},
)
@admits("exec")
@in_tenancy
def report_outcome(request: HttpRequest, decision_id: UUID, wanted: Query[schemas.OutcomeWanted]) -> Observed:
    return take_answer(request, decision_id, wanted.attempt, with_report=wanted.report)


def _decide(
    request: HttpRequest, body: schemas.DecideBody, executor: Caller, wanted: StartRequest, *, isolated: bool
) -> schemas.Decision:
    session = visible_session(request, body.session_id)
    if session.agent_id != body.agent_id:
        raise NotAllowed(f"This session is of the agent {session.agent_id}.")
    registered = _check_executor(executor, wanted)
    proposed = propose_and_start(request, session.id, body.call, executor, wanted, isolated=isolated)
    [result] = proposed.answer.results
    if not result.accepted or result.action_id is None:
        error = result.result.error
        assert error is not None
        return _decision(result, "deny", code=error.code, reason=_sentences(error.message, result.hint))
    action = actions.action(executor.tenant_id, result.action_id)
    assert action is not None
    if result.started is not None:
        return _decision(result, "allow", action)
    if action.state == "VALIDATED":
        _check_tool(executor, registered, action.tool)
        return _waiting_decision(result, action, proposed.refusal, at=timezone.now())
    return _ended_decision(result, action)


def _check_executor(executor: Caller, wanted: StartRequest) -> Executor:
    """Refuse an executor that could start nothing, before anything is proposed that would wait for it."""
    registered = executors.starting_executor(executor.tenant_id, wanted.executor_id, executor.actor)
    if registered.thumbprint != wanted.thumbprint:
        raise NotAllowed(f"The proof in Executor-DPoP is not by the key that {wanted.executor_id} has registered.")
    return registered


def _check_tool(executor: Caller, registered: Executor, tool: str) -> None:
    executor.require("tool", [tool])
    if tool not in registered.tools:
        raise NotAllowed(f"The executor {registered.executor_id} is not registered for the tool {tool}.")


def _waiting_decision(result: CallResult, action: Action, refusal: Refused | None, *, at: datetime) -> schemas.Decision:
    ready = ready_actions.ready_action(
        tenant_id=action.tenant_id,
        action_id=action.id,
        unverifiable=after.release_stops(action.tenant_id, at=at).keys(),
        at=at,
    )
    waiting_for = list(ready.waiting_for) if ready is not None else []
    verdict = verdict_for_agent(action)
    if refusal is not None:
        why = f"It was not started: {refusal.detail}"
    elif verdict is not None and verdict["waiting"]:
        why = "It waits for approval."
    else:
        why = f"It waits for: {', '.join(waiting_for) or 'its start'}."
    reason = f"{why} Send the same request again: it is this decision, and is allowed once."
    return _decision(result, "wait", action, reason=reason, waiting_for=waiting_for, task_id=action.id)


def _ended_decision(result: CallResult, action: Action) -> schemas.Decision:
    """The denial of a call whose action was allowed before, or has ended without a start."""
    attempts = execution_queries.attempts_of(action.tenant_id, action.id)
    if attempts:
        reason = (
            f"It was allowed once, as attempt {attempts[-1].number}, and is not allowed again."
            " Report the outcome of that attempt, or read the action's report; another call needs a `call_id` of its"
            " own."
        )
        return _decision(result, "deny", action, code="ALREADY_ALLOWED", reason=reason)
    verdict = verdict_for_agent(action)
    advice = verdict["next"]["text"] if verdict is not None else "Another call needs a `call_id` of its own."
    return _decision(
        result, "deny", action, code=str(outcome_of(action)), reason=_sentences(result.user_status.text, advice)
    )


def _decision(result: CallResult, decision: str, action: Action | None = None, **more: Any) -> schemas.Decision:
    known = {"code": None, "reason": "", "waiting_for": [], "task_id": None} | more
    return schemas.Decision.of(
        result,
        decision=decision,
        decision_id=action.id if action is not None else None,
        state=action.state if action is not None else None,
        outcome=str(outcome_of(action)) if action is not None else None,
        **known,
    )


def _sentences(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)
