"""Executors: register a key, claim orders, start under a grant, report what came back."""

from __future__ import annotations

import binascii
import time
from base64 import b64decode
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from approvals.execution import queries as execution_queries
from approvals.execution.operations import executions, executors, kept_starts, ready_actions
from approvals.execution.operations.executions import StartedExecution, StartRequest
from approvals.execution.operations.ready_actions import ClaimedAction
from approvals.execution.rules import dpop
from approvals.sessions import queries as sessions_queries
from approvals.voting.queries import votes
from console.accounts import operations as accounts_operations
from console.actions import envelope
from console.actions.visibility import erasure_refusal
from console.approvals.context import verdict_for_agent
from console.edge import paging, problems, waiting
from console.edge.auth import Caller, admits, caller_of
from console.edge.openapi import request_body
from console.edge.schemas import Page
from console.edge.transaction import CHECKPOINT, after_commit, in_tenancy, record_refusal, run_once
from console.execution import schemas
from console.execution.results import raw_evidence, read_result
from counterfoil_tlog import checkpoint, notes
from counterfoil_tlog.checkpoint import CheckpointBody
from ledger.actions.queries import actions
from ledger.catalogue.rules.answer_paths import OriginField, find_at
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.schemas import first_fault
from ledger.db import tenancy
from ledger.record.rules.refusals import NotFound, Refused
from reviews import queries as after
from reviews.cases.operations import cases
from reviews.observations.operations import observations
from reviews.reconciliation.rules.facts import NamedOrigin
from reviews.tasks import verify_due
from reviews.verification.operations import verification

router = Router(tags=["Executions"])


@router.post(
    "/executors",
    summary="Register an executor and the key that its grants are bound to",
    response={201: schemas.Executor},
)
@admits("exec", "oper", "operator")
@in_tenancy
def register_executor(request: HttpRequest, body: schemas.ExecutorBody) -> schemas.Executor:
    caller = caller_of(request)
    caller.require("tool", body.tools)
    row = executors.register_executor(
        tenant_id=caller.tenant_id,
        executor_id=body.executor_id,
        public_jwk=body.public_jwk,
        tools=body.tools,
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.Executor.of(row)


@router.post(
    "/executors/{executor_id}/kept",
    summary="Tell the starts that an executor kept; those that the record has lost are put on record",
    response=schemas.KeptTaken,
)
@admits("exec")
@in_tenancy
def tell_kept_starts(request: HttpRequest, executor_id: str, body: schemas.KeptBody) -> schemas.KeptTaken:
    caller = caller_of(request)
    unrecorded = kept_starts.take_in_starts(
        tenant_id=caller.tenant_id,
        executor_id=executor_id,
        starts=[kept_starts.KeptStart(**each.model_dump()) for each in body.starts],
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.KeptTaken(unrecorded=unrecorded)


@router.get(
    "/executions/ready",
    summary="Orders, each with its readiness or what it waits for",
    response=Page[schemas.ReadyOrder],
)
@admits("exec")
@in_tenancy
def ready(request: HttpRequest, wanted: Query[schemas.OrdersWanted]) -> Page[schemas.ReadyOrder]:
    caller = caller_of(request)
    tools = caller.keep_to("tool", wanted.names()) or []
    at = timezone.now()
    found = ready_actions.ready_actions(
        tenant_id=caller.tenant_id,
        tools=tools,
        after=paging.decode_cursor(wanted.cursor),
        limit=wanted.limit + 1,
        unverifiable=after.release_stops(caller.tenant_id, at=at).keys(),
        at=at,
    )
    return paging.page_of(schemas.ReadyOrder.of, found, wanted.limit, id_of=attrgetter("action_id"))


@router.post(
    "/executions/claim", summary="Claim ready orders; waits up to wait_s for the first", response=schemas.Orders
)
@admits("exec")
def claim(request: HttpRequest, body: schemas.ClaimBody) -> HttpResponse:
    caller, seen, before = caller_of(request), seen_checkpoint(request), waiting.earlier_wait(request)
    starting, proof = None, None
    if before is not None:
        # The proof was spent before the wait.
        starting = before.kept
    elif body.start is not None:
        starting, proof = _starting(request, body, seen)
    until = waiting.end_of_wait(request, body.wait_s)
    look = partial(_claim_orders, caller, body, seen, starting, last=time.monotonic() >= until)
    bound_to = starting.thumbprint if starting is not None else ""
    found = run_once(request, look, bound_to=bound_to, proof=proof)
    if found is not None:
        return found
    return waiting.StillWaiting(waiting.Wait(until, partial(_has_startable, caller, body), starting))


def _has_startable(caller: Caller, body: schemas.ClaimBody) -> bool:
    """Return whether there may be something to claim.

    That is one read, where a claim reserves its answer and looks at its executor in a transaction that writes.
    """
    tools = caller.keep_to("tool", body.tools)
    with tenancy(caller.tenant_id, reads_only=True):
        return ready_actions.has_startable(caller.tenant_id, body.executor_id, tools=tools, only=body.actions)


def _starting(request: HttpRequest, body: schemas.ClaimBody, seen: CheckpointBody | None) -> tuple[StartRequest, str]:
    """The request to start whatever is claimed, and the id of the proof that came with it.

    The grants do not exist yet, so the proof is for this address and the API key that the claim is made with.
    """
    assert body.start is not None
    key = request.headers.get("Authorization", "").partition(" ")[2]
    proof = proof_of(request, key, at=timezone.now())
    wanted = StartRequest(
        # Each action that is claimed takes this place.
        action_id=UUID(int=0),
        token="",
        executor_id=body.executor_id,
        thumbprint=proof.thumbprint,
        wrapper_version=body.start.wrapper_version,
        timeout_s=body.start.timeout_s,
        payload_hash=None,
        seen=seen,
    )
    return wanted, proof.jti


def _claim_orders(
    caller: Caller, body: schemas.ClaimBody, seen: CheckpointBody | None, starting: StartRequest | None, *, last: bool
) -> schemas.Orders | None:
    at = timezone.now()
    if starting is not None:
        begun = executions.claim_and_start_ready(
            tenant_id=caller.tenant_id,
            request=starting,
            tools=caller.keep_to("tool", body.tools),
            limit=body.limit,
            only=body.actions,
            unverifiable=after.release_stops(caller.tenant_id, at=at).keys(),
            by=caller.actor,
            at=at,
        )
        if not begun and not last:
            return None
        return schemas.Orders(orders=[_started_order(caller, *each, with_proof=body.proof) for each in begun])
    claimed = ready_actions.claim_actions(
        tenant_id=caller.tenant_id,
        executor_id=body.executor_id,
        tools=caller.keep_to("tool", body.tools),
        limit=body.limit,
        only=body.actions,
        unverifiable=after.release_stops(caller.tenant_id, at=at).keys(),
        seen=seen,
        by=caller.actor,
        at=at,
    )
    if not claimed and not last:
        return None
    return schemas.Orders(orders=[_order(caller, order, with_proof=body.proof) for order in claimed])


@router.post(
    "/actions/{action_id}/executions", summary="Redeem a grant and start an attempt", response={201: schemas.Started}
)
@admits("exec")
def start(request: HttpRequest, action_id: UUID, body: schemas.StartBody) -> HttpResponse | None:
    # The proof comes before the stored answer: a repeat, too, is only for who holds the key.
    caller, at = caller_of(request), timezone.now()
    wanted = StartRequest(
        action_id=action_id,
        token=body.grant,
        executor_id=body.executor_id,
        thumbprint="",
        wrapper_version=body.wrapper_version,
        timeout_s=body.timeout_s,
        payload_hash=body.payload_hash,
        seen=seen_checkpoint(request),
    )
    try:
        proof = proof_of(request, body.grant, at=at)
        write = partial(_start, request, wanted, proof, at)
        return run_once(request, write, status=201, bound_to=proof.thumbprint, proof=proof.jti)
    except (dpop.ProofInvalid, accounts_operations.ProofReplayed) as refusal:
        record_refusal(caller.tenant_id, [executions.refused_start(wanted, refusal, by=caller.actor, at=at)])
        raise


def _start(
    request: HttpRequest, wanted: StartRequest, proof: dpop.DpopProof, at: datetime
) -> schemas.Started | HttpResponse:
    caller, action_id = caller_of(request), wanted.action_id
    started = executions.start_execution(
        tenant_id=caller.tenant_id,
        request=replace(wanted, thumbprint=proof.thumbprint),
        unverifiable=after.release_stops(caller.tenant_id, at=at).keys(),
        by=caller.actor,
        at=at,
    )
    if isinstance(started, Refused):
        # On record and committed: what was refused here must be looked at by people.
        cases.open_held_case(tenant_id=caller.tenant_id, action_id=action_id, at=at)
        return problems.refusal_response(request, started)
    return schemas.Started.of(started, action_id=action_id)


@router.post("/actions/{action_id}/executions/{attempt}/heartbeat", summary="Extend the lease", response=schemas.Lease)
@admits("exec")
@in_tenancy
def heartbeat(request: HttpRequest, action_id: UUID, attempt: int, body: schemas.HeartbeatBody) -> schemas.Lease:
    caller = caller_of(request)
    until = executions.extend_lease(
        tenant_id=caller.tenant_id,
        action_id=action_id,
        number=attempt,
        executor_id=body.executor_id,
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.Lease(lease_expires_at=until)


@router.post(
    "/actions/{action_id}/executions/{attempt}/observations",
    summary="Report the answer of the tool or runtime; accepted after the lease as well",
    openapi_extra=request_body("Observation"),
    response={202: schemas.Observed},
)
@admits("exec")
@in_tenancy
def observe(
    request: HttpRequest, action_id: UUID, attempt: int, wanted: Query[schemas.ObserveWanted]
) -> schemas.Observed:
    return take_answer(request, action_id, attempt, with_report=wanted.report)


def take_answer(request: HttpRequest, action_id: UUID, attempt: int, *, with_report: bool) -> schemas.Observed:
    """Take the answer in the request's body, which the tool gave to an attempt of the caller's executor."""
    caller = caller_of(request)
    at = timezone.now()
    tenant_id = caller.tenant_id
    reported = execution_queries.reported_attempt(tenant_id, action_id, attempt, key_actor=caller.actor.id)
    if reported is None:
        raise NotFound
    if reported.erasure_id is not None:
        raise erasure_refusal(reported.erasure_id)
    if reported.executor_id is None:
        raise NotFound(detail="This executor has no attempt with this number.")
    document, raw = read_result(request.body)
    contract = sessions_queries.disclosed_contract(tenant_id, reported.contract_digest)
    stored = observations.record_answer(
        tenant_id=tenant_id,
        action_id=action_id,
        contract=contract,
        answer=observations.AttemptAnswer(
            attempt=attempt,
            timeout_s=reported.timeout_s,
            lease_ends_at=reported.lease_expires_at,
            document=document,
            raw=raw,
            source="executor",
            disclosed=tuple(reported.disclosed or ()),
        ),
        by=caller.actor,
        at=at,
        ended=executions.finish_attempt_call(tenant_id=tenant_id, action_id=action_id, number=attempt, at=at),
    )
    state = stored.state
    if contract.answer_only:
        by = _answerer(tenant_id, reported, contract, request.body)
        state = verification.check_answer(tenant_id=tenant_id, action_id=action_id, by=by, at=at) or state
    # What is read later is found by whoever looks then.
    if stored.read_at is not None and stored.read_at <= at:
        after_commit(verify_due)
    if not with_report:
        return schemas.Observed(state=state)
    latest = actions.latest_event(tenant_id, action_id)
    report = envelope.issue_report(request, latest, at=at)
    return schemas.Observed.model_validate(
        {"state": latest.action.state, "report": report, "approval": verdict_for_agent(latest.action)}
    )


def _answerer(
    tenant_id: UUID, reported: execution_queries.ReportedAttempt, contract: Contract, body: bytes
) -> verification.AnswerSource:
    """The source of a read's answer, its faults against the contract's schema, and the origins that it names.

    The answer is checked as it was sent: in the record, fractions are text.
    """
    answer = raw_evidence(body)
    fault = first_fault(contract.result_schema, answer) if contract.result_schema else ""
    return verification.AnswerSource(
        executor_id=reported.executor_id,
        tenant_id=tenant_id,
        tools=tuple(reported.tools),
        schema_fault=fault,
        origin={name: _named_origin(field, answer) for name, field in contract.answer_origin.items()},
    )


def _named_origin(field: OriginField, answer: object) -> NamedOrigin:
    named = find_at(answer, field.path)
    return NamedOrigin(field.path, field.expected, None if named is None else str(named))


def proof_of(request: HttpRequest, token: str, *, header: str = "DPoP", at: datetime) -> dpop.DpopProof:
    """The proof in a header of the request that its sender holds a key, for this address and this token."""
    # The host that was asked for is one of ALLOWED_HOSTS by now, so every name that this names is ours.
    url = request.build_absolute_uri(request.path)
    return dpop.verify_proof(request.headers.get(header, ""), method="POST", url=url, grant=token, at=at)


def seen_checkpoint(request: HttpRequest) -> CheckpointBody | None:
    """The head of the log that the caller says that it has seen; nothing starts on a record that is behind it."""
    sent = request.headers.get(CHECKPOINT)
    if sent is None:
        return None
    try:
        note = notes.parse(b64decode(sent, validate=True))
    except (binascii.Error, ValueError):
        raise notes.BadNote(f"{CHECKPOINT} is a signed checkpoint in Base64.") from None
    return checkpoint.parse(note.text)


def _started_order(
    caller: Caller, order: ClaimedAction, started: StartedExecution, *, with_proof: bool
) -> schemas.Order:
    made = _order(caller, order, with_proof=with_proof)
    made.started = schemas.Started.of(started, action_id=order.action_id)
    return made


def _order(caller: Caller, order: ClaimedAction, *, with_proof: bool) -> schemas.Order:
    if not with_proof or order.approval_id is None:
        return schemas.Order.of(order)
    return schemas.Order.of(order, proof=votes.votes_proof(caller.tenant_id, order.approval_id))
