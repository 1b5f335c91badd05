"""Sessions and calls: the agents' side. An agent proposes; it can set no status and sees no grants."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from approvals.agents.operations import withheld_tools
from approvals.agents.rules.relevance import WithheldReason, WithheldTool
from approvals.execution.operations import executions
from approvals.execution.operations.executions import StartedExecution, StartRequest
from approvals.execution.operations.ready_actions import ClaimedAction
from approvals.gate import queries as calls_read
from approvals.gate.operations import calls
from approvals.gate.operations.actions import CallAnswer, Trace
from approvals.sessions import queries as sessions_read
from approvals.sessions.operations import model_usage, sessions
from approvals.sessions.rules.nudge import NextMove, Nudge
from approvals.voting.operations.refusal_records import write_refusal_records
from console.actions import predicates
from console.actions.envelope import status_of, unanswered_questions
from console.edge.auth import Caller, admits, caller_of, second_executor
from console.edge.members import member_named
from console.edge.transaction import in_tenancy, run_once
from console.execution.routes import proof_of, seen_checkpoint
from console.execution.schemas import StartedAtOnce
from console.sessions import schemas, session_context
from ledger.actions.queries import actions
from ledger.db import savepoint
from ledger.record.rules.refusals import NotFound, Refused
from reviews import queries as after
from reviews.guarding import operations as guarding
from reviews.guarding.queries import message_rule_of

router = Router(tags=["Sessions"])
MOST_ATTEMPTS = 500
_TRACEPARENT = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$")


class OneCallAtATime(Refused):
    """`start` is for one call; send the others in requests of their own."""

    code = "ONE_CALL_AT_A_TIME"
    status = 422


@router.post(
    "/sessions", summary="Open a session: negotiate its tools and pin the goal", response={201: schemas.Session}
)
@admits("agent")
@in_tenancy
def open_session(request: HttpRequest, body: schemas.SessionBody) -> schemas.Session:
    caller = caller_of(request)
    caller.require("agent", [body.agent_id])
    wanted = sessions.SessionRequest(
        agent_id=body.agent_id,
        goal=body.goal,
        ttl_seconds=body.ttl_seconds,
        tools=tuple(body.tools) if body.tools is not None else None,
        output_tags=tuple(body.output_tags),
        intent=body.intent,
        max_registry_age_s=body.max_registry_age_s,
        run_id=body.workflow_run_id,
        iteration_limit=body.iteration_limit,
        unwinds=body.on_failure == "compensate",
        on_behalf_of=member_named(caller.tenant_id, body.on_behalf_of) if body.on_behalf_of else None,
        continues=body.continues,
    )
    session = sessions.open_session(
        tenant_id=caller.tenant_id, wanted=wanted, key_actor=caller.actor.id, at=timezone.now()
    )
    return schemas.Session.of(session)


@router.get(
    "/sessions/{session_id}", summary="A session with its contract, pin and counts", response=schemas.SessionState
)
@admits("agent", "oper", "audit", "person")
@in_tenancy
def get_session(request: HttpRequest, session_id: UUID) -> schemas.SessionState:
    session = visible_session(request, session_id)
    tally = calls_read.call_tally(
        session.tenant_id, since=session.pinned_at, until=timezone.now(), session_id=session.id
    )
    waiting = actions.actions(session.tenant_id, session=session.id, state="VALIDATED", before=None, limit=500)
    return schemas.SessionState.of(
        session,
        acceptance_rate=tally.acceptance_rate,
        attempted_undisclosed=tally.undisclosed,
        phantom_share=tally.phantom_share,
        flags=["PROBING"] if session.probing_at is not None else [],
        attempted_tools=list(
            calls_read.undisclosed_attempts(session.tenant_id, session_id=session.id, limit=MOST_ATTEMPTS)
        ),
        budgets=_budgets(session),
        questions=unanswered_questions(session.tenant_id, waiting),
        surface=schemas.Surface.of(withheld_tools.newest_report(session)),
    )


@router.post(
    "/sessions/{session_id}/ask-check", summary="Compare a restated goal with the pinned one", response=schemas.AskCheck
)
@admits("agent")
@in_tenancy
def ask_check(request: HttpRequest, session_id: UUID, body: schemas.GoalBody) -> schemas.AskCheck:
    caller = caller_of(request)
    compared = sessions.check_goal(
        tenant_id=caller.tenant_id,
        session_id=session_id,
        key_actor=caller.actor.id,
        goal=body.goal,
        at=timezone.now(),
    )
    return schemas.AskCheck.of(compared)


@router.post(
    "/sessions/{session_id}/surface",
    summary="Report which of a server's tools a gateway withholds",
    response=schemas.Surface,
)
@admits("agent")
@in_tenancy
def withhold(request: HttpRequest, session_id: UUID, body: schemas.SurfaceBody) -> schemas.Surface:
    caller = caller_of(request)
    found = withheld_tools.record_report(
        tenant_id=caller.tenant_id,
        session_id=session_id,
        key_actor=caller.actor.id,
        withheld=[WithheldTool(WithheldReason(each.fate), each.tool, each.why) for each in body.withheld],
        at=timezone.now(),
    )
    return schemas.Surface.of(found)


@router.post(
    "/sessions/{session_id}/model-usage",
    summary="Report calls of a model and their tokens, for the costs",
    response={201: schemas.ModelUsage},
)
@admits("agent")
def report_model_usage(request: HttpRequest, session_id: UUID, body: schemas.ModelUsageBody) -> HttpResponse | None:
    caller = caller_of(request)

    def write() -> schemas.ModelUsage:
        found = model_usage.record_usage(
            tenant_id=caller.tenant_id,
            session_id=session_id,
            key_actor=caller.actor.id,
            reported=model_usage.ReportedUsage(**body.model_dump()),
            at=timezone.now(),
        )
        return schemas.ModelUsage.of(found)

    return run_once(request, write, status=201)


@router.post(
    "/sessions/{session_id}/calls",
    summary="Propose calls; each is checked and recorded on its own",
    response=schemas.CallResults,
)
@admits("agent")
def propose(request: HttpRequest, session_id: UUID, body: schemas.CallsBody) -> HttpResponse | None:
    if body.start is None:
        return calls.isolate_after_fault(
            lambda isolated: run_once(request, lambda: _propose(request, session_id, body, isolated=isolated))
        )
    if len(body.calls) != 1:
        raise OneCallAtATime
    [call] = body.calls
    executor, wanted, proof = executor_at_hand(request, body.start)
    return calls.isolate_after_fault(
        lambda isolated: run_once(
            request,
            lambda: propose_and_start(request, session_id, call, executor, wanted, isolated=isolated).answer,
            bound_to=wanted.thumbprint,
            proof=proof,
        )
    )


def executor_at_hand(request: HttpRequest, start: schemas.ExecutorAtHand) -> tuple[Caller, StartRequest, str]:
    """The executor that an agent's request names besides, its request to start whatever is proposed, and the id of the
    proof that came with it.
    """
    executor, key = second_executor(request)
    proof = proof_of(request, key, header="Executor-DPoP", at=timezone.now())
    wanted = StartRequest(
        # The action that is proposed takes this place.
        action_id=UUID(int=0),
        token="",
        executor_id=start.executor_id,
        thumbprint=proof.thumbprint,
        wrapper_version=start.wrapper_version,
        timeout_s=start.timeout_s,
        payload_hash=None,
        seen=seen_checkpoint(request),
    )
    return executor, wanted, proof.jti


class ProposedCall(NamedTuple):
    """The answer to one call with its executor at hand, and the refusal of its start, if that was refused."""

    answer: schemas.CallResults
    refusal: Refused | None = None


def propose_and_start(
    request: HttpRequest, session_id: UUID, call: Any, executor: Caller, wanted: StartRequest, *, isolated: bool
) -> ProposedCall:
    """Propose a call, and start its action if nothing holds it back, in one transaction.

    If we crash before the commit, neither happened; after it the action is EXECUTING, and a repeat of this request
    gets the same attempt. A start that is refused undoes nothing of the proposal: the order waits as any other.
    """
    [made], nudge = _make_calls(request, session_id, [call], behind_tenant=True, isolated=isolated)
    answer = _answer_of([made], nudge, tenant_id=executor.tenant_id, session_id=session_id)
    result = answer.results[0]
    result.started = None
    if not result.accepted or result.action_id is None or result.state != "VALIDATED":
        return ProposedCall(answer)
    tool = made.document["result"]["tool"]
    if executor.keep_to("tool", [tool]) != [tool]:
        return ProposedCall(answer)
    begun = _start(executor, replace(wanted, action_id=result.action_id))
    if begun is None or isinstance(begun, Refused):
        return ProposedCall(answer, begun)
    order, started = begun
    result.started = StartedAtOnce.of(
        started,
        action_id=result.action_id,
        tool=order.tool,
        version=order.version,
        grant=order.grant,
        grant_expires_at=order.grant_expires_at,
        override_id=order.override_id,
    )
    result.state = "EXECUTING"
    # One that was proposed before may have more on record than its entry says.
    entry = started.entry if made.entry is not None else None
    result.user_status = status_of(replace(made, state="EXECUTING", entry=entry), executor.tenant_id)
    return ProposedCall(answer)


def _start(executor: Caller, wanted: StartRequest) -> tuple[ClaimedAction, StartedExecution] | Refused | None:
    at = timezone.now()
    stops = after.release_stops(executor.tenant_id, at=at).keys()
    try:
        with savepoint():
            return executions.claim_and_start(
                tenant_id=executor.tenant_id, request=wanted, unverifiable=stops, by=executor.actor, at=at
            )
    except Refused as refusal:
        write_refusal_records(executor.tenant_id, refusal.records)
        return refusal


def _propose(request: HttpRequest, session_id: UUID, body: schemas.CallsBody, *, isolated: bool) -> schemas.CallResults:
    made, nudge = _make_calls(request, session_id, body.calls, isolated=isolated)
    return _answer_of(made, nudge, tenant_id=caller_of(request).tenant_id, session_id=session_id)


def _make_calls(
    request: HttpRequest, session_id: UUID, raw_calls: list[Any], *, behind_tenant: bool = False, isolated: bool
) -> tuple[list[CallAnswer], Nudge]:
    caller = caller_of(request)
    return calls.propose_calls(
        tenant_id=caller.tenant_id,
        session_id=session_id,
        key_actor=caller.actor.id,
        raw_calls=raw_calls,
        trace=trace_of(request),
        compile_predicate=predicates.agent_predicate_fault,
        at=timezone.now(),
        behind_tenant=behind_tenant,
        isolated=isolated,
    )


def _answer_of(made: list[CallAnswer], nudge: Nudge, *, tenant_id: UUID, session_id: UUID) -> schemas.CallResults:
    results = [schemas.CallResult(**each.document, user_status=status_of(each, tenant_id)) for each in made]
    # A run that has come to its limit ends with its summary, behind the results (R-FB-01, R-FB-04).
    forced = nudge.move is NextMove.STOP
    session = sessions_read.session(tenant_id, session_id) if forced else None
    summary = session_context.summary_document(session) if session else None
    return schemas.CallResults(
        results=results,
        nudge=nudge.text,
        next=schemas.Next.of(nudge),
        summary=schemas.Summary.of(summary) if summary else None,
    )


@router.post("/sessions/{session_id}/close", summary="Close a session", response=schemas.Closed)
@admits("agent")
@in_tenancy
def close(request: HttpRequest, session_id: UUID) -> schemas.Closed:
    caller = caller_of(request)
    session = visible_session(request, session_id)
    if session.closed_at is None and message_rule_of(session.tenant_id, session.agent_id).guarded:
        guarding.check_guarded(session.tenant_id, session_id)
    sessions.close_session(
        tenant_id=caller.tenant_id, session_id=session_id, key_actor=caller.actor.id, at=timezone.now()
    )
    return schemas.Closed(session_id=session_id, closed=True)


def trace_of(request: HttpRequest) -> Trace:
    """The caller's W3C trace, or a new one; a header that is none is as good as no header."""
    found = _TRACEPARENT.match(request.headers.get("traceparent", ""))
    return Trace(found.group(1), found.group(2)) if found else Trace(secrets.token_hex(16))


def visible_session(request: HttpRequest, session_id: UUID) -> Any:
    """The session, for who may see it: an agent's key sees its own."""
    caller = caller_of(request)
    session = sessions_read.session(caller.tenant_id, session_id)
    if session is None or (caller.kind == "agent" and session.key_actor != caller.actor.id):
        raise NotFound("Session")
    return session


def _budgets(session: Any) -> list[schemas.SpentBudget]:
    spent = sessions_read.budget_spending(session.tenant_id, agent_id=session.agent_id, session_ids=[session.id])
    return [schemas.SpentBudget.of(each, per=each.holder.partition(":")[0]) for each in spent]
