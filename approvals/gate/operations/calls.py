"""Checks calls at the gate and records every one, accepted or refused (R-TG-01, R-TG-04).

One call of a batch cannot disturb the others: where one fails, each runs in a savepoint of its own. A call that
resolves to a disclosed contract becomes an action; any other is a gate record only (C-27). Calls of one session are
checked one at a time, however many arrive together, so that limits (iterations, budgets) are exact.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import DatabaseError, OperationalError
from django.db.models import Model

from approvals.agents.operations import agent_flags
from approvals.agents.rules.acceptance import UNDISCLOSED_NAMES
from approvals.gate import queries as gate_queries
from approvals.gate.operations.actions import (
    CallAnswer,
    CallOrigin,
    RecoveryOrigin,
    Revision,
    Trace,
    create_action,
    reject_call,
)
from approvals.gate.operations.call_context import caller_context, target_context
from approvals.gate.rules import gate
from approvals.gate.rules.gate import Compiler, GateVerdict
from approvals.gate.rules.malformed import Malformed
from approvals.gate.rules.preconditions import acknowledged_steps
from approvals.gate.rules.proposals import MAX_CALL_ID, Proposal, read_call
from approvals.models import Call, Session
from approvals.policy.operations import policy_evaluation
from approvals.policy.operations.policy_evaluation import evaluate_policy, gather_facts, rules_of
from approvals.policy.rules import autonomy
from approvals.requests.queries import approvals
from approvals.sessions.operations import sessions
from approvals.sessions.rules.nudge import Nudge
from approvals.sessions.rules.pins import PinExpired
from ledger.actions.queries import runs
from ledger.catalogue import queries as catalogue_queries
from ledger.db import defer, insert_call, savepoint
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.lifecycle import OPEN, State, phases
from ledger.record.rules.record_schemas import SchemaNotReleased
from ledger.record.rules.refusals import IdempotencyConflict, NotFound, Refused
from ledger.verification.queries import storage

__all__ = [
    "CallAnswer",
    "CallOrigin",
    "RecoveryOrigin",
    "Revision",
    "Trace",
    "isolate_after_fault",
    "propose_calls",
]

log = logging.getLogger(__name__)
T = TypeVar("T")


class CallFault(Exception):
    """A call could not be judged or recorded, and nothing of its transaction may stay."""


@dataclass(frozen=True, slots=True)
class _Judgement:
    """A verdict and the policies behind it; None if the call was refused before the policy steps."""

    verdict: GateVerdict
    policies: Mapping[str, Any] | None = None


def propose_calls(
    *,
    tenant_id: UUID,
    session_id: UUID,
    key_actor: UUID,
    raw_calls: list[Any],
    trace: Trace,
    compile_predicate: Compiler,
    at: datetime,
    origin: RecoveryOrigin | None = None,
    behind_tenant: bool = False,
    isolated: bool = True,
) -> tuple[list[CallAnswer], Nudge]:
    """Check and record a batch of calls in order; the nudge advises to continue or to wait (R-MC-06, R-MC-09).

    With `behind_tenant` nothing that a start is judged by changes from here to the end of the transaction. Not
    `isolated` is for a transaction that the caller makes again; see `isolate_after_fault`.
    """
    proposed = [(raw, _without_nul(read_call(raw))) for raw in raw_calls]
    only = proposed[0][1] if len(proposed) == 1 else None
    locked = gate_queries.lock_session(
        tenant_id, session_id, call_id=_recorded_call_id(only) if only else "", behind_tenant=behind_tenant
    )
    if locked is None or locked.session.key_actor != key_actor:
        raise NotFound("Session")
    session, call_origin = locked.session, CallOrigin(trace, origin)
    if origin is None and session.forced_at is None:
        # Only in memory: its run reached its limit in another session.
        session.forced_at = locked.limit_reached_at
    answers = []
    # Read again for a call that follows another.
    caller: tuple[Any, ...] | None = locked.caller
    for raw, call in proposed:
        # One of several may repeat one before it.
        before, request_hash = locked.recorded if only else _recorded_call(session, call), _request_hash(raw)
        before = before or gate_queries.continued_call(session, _recorded_call_id(call))
        if before is not None:
            sessions.note_use(session=session, at=at)
        answers.append(
            _replay_answer(before, raw)
            if before is not None
            else _answer_call(
                session,
                call,
                request_hash,
                caller,
                call_origin=call_origin,
                compile_predicate=compile_predicate,
                isolated=isolated,
                at=at,
            )
        )
        caller = None
    refused = [str(answer.document["result"]["error"]["code"]) for answer in answers if not answer.document["accepted"]]
    if "ITERATION_LIMIT" in refused:
        sessions.record_limit_reached(session, at=at)
    made = {answer.state for answer in answers if answer.state is not None and State(answer.state) in OPEN}
    # The session is locked: what else it has open was read behind the lock.
    return answers, sessions.session_nudge(session, locked.open_phases | set(phases(made)), refused=refused)


def isolate_after_fault(run: Callable[[bool], T]) -> T:
    """Run a transaction that calls `propose_calls`, given whether its calls are isolated.

    At first they are not: their writes go out with the next message, at the latest with COMMIT. If one of them cannot
    be judged or written, all of it is rolled back and made again with each call in a savepoint of its own, so that this
    one is refused on record and the others are not (R-TG-09).
    """
    try:
        return run(False)
    except OperationalError:
        raise
    except (CallFault, DatabaseError) as fault:
        # Its name alone: a database's message may quote a payload.
        log.warning("a request is made again, each call by itself, after %s", type(fault.__cause__ or fault).__name__)
        return run(True)


def _answer_call(
    session: Session,
    call: Proposal,
    request_hash: str,
    caller: tuple[Any, ...] | None,
    *,
    call_origin: CallOrigin,
    compile_predicate: Compiler,
    isolated: bool,
    at: datetime,
) -> CallAnswer:
    try:
        with savepoint() if isolated else nullcontext():
            judgement = _judge_call(
                session, call, caller, call_origin=call_origin, compile_predicate=compile_predicate, at=at
            )
            answer = _record_call(session, call, judgement, request_hash, call_origin=call_origin, at=at)
    except (OperationalError, SchemaNotReleased):
        # A database is away or takes no writes, or this program may not write. Nothing of the request is on record, so
        # its client may send it again.
        raise
    except Exception as error:
        if not isolated:
            raise CallFault from error
        # A call that cannot be checked is refused, whatever the error (R-TG-09). The database refuses an action under a
        # contract that was rolled back or retired since the session began; so no call has to query that.
        out_of_force = _version_out_of_force(session, call.tool)
        if out_of_force is None:
            log.exception("the gate could not judge a call")
        refusal = gate.gate_fault(call) if out_of_force is None else gate.contract_out_of_force(call, *out_of_force)
        with savepoint():
            answer = _record_call(session, call, _Judgement(refusal), request_hash, call_origin=call_origin, at=at)
    return answer


def _version_out_of_force(session: Session, tool: str) -> tuple[str, str] | None:
    """Return the disclosed version of a tool and its state, if it was rolled back or retired since."""
    version = next((each["version"] for each in session.contract["tools"] if each["name"] == tool), None)
    row = catalogue_queries.contract_version(session.tenant_id, tool, version) if version is not None else None
    state = events.subject_state(session.tenant_id, row.id) if row is not None else None
    return (row.version, state) if row is not None and state in ("ROLLED_BACK", "RETIRED") else None


def _recorded_call(session: Session, call: Proposal) -> Call | None:
    return (
        gate_queries.call(session.tenant_id, session.id, _recorded_call_id(call)) if _recorded_call_id(call) else None
    )


def _recorded_call_id(call: Proposal) -> str:
    """The call id as recorded; empty if it is too long, in which case the call is refused."""
    return call.call_id if len(call.call_id) <= MAX_CALL_ID else ""


def _without_nul(call: Proposal) -> Proposal:
    # PostgreSQL text cannot hold NUL; a name with one matches nothing anyway.
    return replace(call, call_id=call.call_id.replace("\x00", "\ufffd"), tool=call.tool.replace("\x00", "\ufffd"))


def _request_hash(raw: Any) -> str:
    """The digest of a call without the words of its goal, which are another session's where one continues it."""
    return _digest({name: raw[name] for name in raw.keys() - _GOAL} if isinstance(raw, dict) else raw)


_GOAL = {"goal", "pin_hash"}


def _digest(raw: Any) -> str:
    try:
        return digest(canonical(raw))
    except Refused:
        return digest(repr(raw).encode("utf-8", "replace"))


def _replay_answer(before: Call, raw: Any) -> CallAnswer:
    # An earlier version kept the digest of the whole call.
    if before.request_hash not in (_request_hash(raw), _digest(raw)):
        refusal = IdempotencyConflict("This call id was already used in this session with a different body.")
        error = {"code": refusal.code, "message": refusal.detail}
        document = before.result | {"accepted": False, "action_id": None, "state": None, "approval": None}
        document["result"] = before.result["result"] | {"status": "failed", "error": error}
        return CallAnswer(document, None, None)
    state = events.subject_state(before.tenant_id, before.action_id) if before.action_id else None
    return CallAnswer(before.result | {"state": state}, before.action_id, state)


def _judge_call(
    session: Session,
    call: Proposal,
    caller: tuple[Any, ...] | None,
    *,
    call_origin: CallOrigin,
    compile_predicate: Compiler,
    at: datetime,
) -> _Judgement:
    """Take the gate's steps in order; the first refusal is the verdict. A remedy has no boundary or budget.

    `caller` is the row of its caller's facts, if it was read with the session's lock.
    """
    remedy = call_origin.origin is not None
    facts = gate_queries.caller_facts(session, caller)
    context = caller_context(session, call, facts, traced=remedy or call_origin.trace.parent_span_id is not None)
    target: gate.TargetContext | None = None
    policies: Mapping[str, Any] | None = None
    verdict: GateVerdict | None = None
    for step in gate.Step:
        if step in gate.CALLER_STEPS:
            verdict = gate.check_caller(step, call, context, compile_predicate=compile_predicate, at=at)
        elif verdict is not None and step in gate.TARGET_STEPS:
            target = target or target_context(session, call, verdict, at=at, remedy=remedy)
            verdict = gate.check_target(step, verdict, call, target, at=at)
        elif verdict is not None:
            policies = facts.policies
            verdict = _POLICY_CHECKS[step](session, verdict, policies, at=at, remedy=remedy)
        if verdict is not None and not verdict.accepted:
            break
    assert verdict is not None
    return _Judgement(verdict, policies)


def _check_autonomy(
    session: Session, verdict: GateVerdict, policies: Mapping[str, Any], *, at: datetime, remedy: bool
) -> GateVerdict:
    boundary = autonomy.load_stored(bytes(policies["autonomy"].document))
    if remedy or not boundary.outside or verdict.contract is None:
        return verdict
    facts = gather_facts(session, payload=verdict.payload, target=verdict.target_resource, at=at)
    refusal = autonomy.check_boundary(boundary, verdict.contract, facts)
    return gate.refuse(verdict, refusal) if refusal is not None else verdict


def _apply_approval_policy(
    session: Session, verdict: GateVerdict, policies: Mapping[str, Any], *, at: datetime, remedy: bool
) -> GateVerdict:
    """Apply the approval policy, and refuse a held call if its agent has too many waiting."""
    if verdict.contract is None:
        return verdict
    rules = rules_of(policies["approval"])
    wanted = evaluate_policy(
        session,
        contract=verdict.contract,
        rules=rules,
        payload=verdict.payload,
        target=verdict.target_resource,
        at=at,
    )
    verdict = gate.apply_policy(verdict, wanted)
    most = rules.limits.waiting_per_agent
    if remedy or not most or not verdict.accepted or wanted.outcome != "hold":
        return verdict
    return gate.apply_flood_limit(
        verdict, waiting=approvals.count_waiting(session.tenant_id, session.agent_id, most=most), most=most
    )


def _charge_budgets(
    session: Session, verdict: GateVerdict, policies: Mapping[str, Any], *, at: datetime, remedy: bool
) -> GateVerdict:
    boundary = autonomy.load_stored(bytes(policies["autonomy"].document))
    if remedy or not boundary.budgets or verdict.contract is None:
        return verdict
    facts = gather_facts(session, payload=verdict.payload, target=verdict.target_resource, at=at)
    found = autonomy.charges(boundary, verdict.contract, facts, session=str(session.id))
    if isinstance(found, Malformed):
        return gate.refuse(verdict, found)
    short = policy_evaluation.charge_budgets(
        tenant_id=session.tenant_id, agent_id=session.agent_id, charges=found, kept=not verdict.dry_run
    )
    return gate.refuse(verdict, autonomy.refuse_charge(short)) if short is not None else verdict


_POLICY_CHECKS = {
    gate.Step.AUTONOMY: _check_autonomy,
    gate.Step.APPROVAL_POLICY: _apply_approval_policy,
    gate.Step.BUDGETS: _charge_budgets,
}


def _record_call(
    session: Session, call: Proposal, judgement: _Judgement, request_hash: str, *, call_origin: CallOrigin, at: datetime
) -> CallAnswer:
    verdict = judgement.verdict
    if call.supersedes and verdict.accepted:
        call_origin = replace(call_origin, revision=Revision(UUID(call.supersedes)))
    # A dry run creates no action: its caller may run the tool without us, so neither "failed" nor "never ran" would
    # be true of it.
    if verdict.on_record and not verdict.dry_run:
        answer, rows, drafts = create_action(
            session, call, verdict, call_origin=call_origin, at=at, policies=judgement.policies
        )
    else:
        answer, rows, drafts = reject_call(call, verdict, at), [], []
    _write_call(
        session,
        Call(
            tenant_id=session.tenant_id,
            id=ledger.new_id(at),
            session_id=session.id,
            agent_id=session.agent_id,
            call_id=_recorded_call_id(call),
            tool=call.tool[:200],
            accepted=verdict.accepted,
            code=verdict.code,
            category=verdict.category,
            reason=verdict.message,
            request_hash=request_hash,
            restated_goal=(call.goal or "")[:8000].replace("\x00", "\ufffd") if verdict.code == "ASK_DRIFT" else "",
            disclosed=len(session.contract["tools"]),
            model_tier=session.model_tier,
            layer=verdict.layer,
            autonomy_version=judgement.policies["autonomy"].version if judgement.policies else "",
            action_id=answer.action_id,
            result=answer.document,
            at=at,
        ),
        verdict,
        rows,
    )
    if drafts:
        defer(ledger.events_call(*drafts))
    if verdict.accepted and answer.action_id is not None:
        _acknowledge_failures(session, call, answer.action_id, at=at)
    if not verdict.accepted:
        agent_flags.flag_refused_call(session, call, verdict, at=at)
    return answer


def _acknowledge_failures(session: Session, call: Proposal, action_id: UUID, *, at: datetime) -> None:
    """Record, on each failed step that the call acknowledges, the decision to go on past it (R-PL-14)."""
    named = [UUID(one) for one in acknowledged_steps(call) if storage.is_uuid(one)]
    if not named:
        return
    for step in runs.unacknowledged_failures(session.tenant_id, session.run_id, named):
        event = ledger.NewEvent(
            kind="failure_acknowledged", detail={"by": str(action_id), "session_id": str(session.id)}
        )
        head = ledger.lock_subject(tenant_id=session.tenant_id, subject_id=step, kind="action")
        ledger.append(head, event, actor=ledger.Actor("agent", session.actor_id), at=at)


_COUNT_CALL = """
UPDATE approvals_session SET calls_accepted = calls_accepted + {}, calls_refused = calls_refused + {},
    undisclosed_attempts = undisclosed_attempts + {}, drifts = drifts + {}, used_at = {}
WHERE tenant_id = {} AND id = {}
"""


def _write_call(session: Session, call: Call, verdict: GateVerdict, rows: list[Model]) -> None:
    """Insert a call and the rows of its action, and update its session's counters, in one statement."""
    counted = {
        "calls_accepted": verdict.accepted,
        "calls_refused": not verdict.accepted,
        "undisclosed_attempts": not verdict.accepted and verdict.code in UNDISCLOSED_NAMES,
        "drifts": not verdict.accepted and verdict.code == "ASK_DRIFT",
    }
    # What comes when the session is over does not bring it back.
    used_at = session.used_at if verdict.code == PinExpired.code else call.at
    counts = (_COUNT_CALL, *map(int, counted.values()), used_at, session.tenant_id, session.id)
    defer(insert_call(*rows, call, then=counts))
    session.used_at = used_at
    for name, more in counted.items():
        setattr(session, name, getattr(session, name) + int(more))
