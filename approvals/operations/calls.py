"""Calls: every one passes the gate, and every one is recorded, accepted or refused (R-TG-01, R-TG-04).

Each call of a batch is a savepoint of its own, so neighbours are never disturbed. A call that resolved to a disclosed
contract becomes an action; any other is a gate record only (C-27).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings

from approvals import queries
from approvals.models import AgentVersion, Approval, Call, Session
from approvals.operations import forced_exit, nudges
from approvals.operations.demands import demand_of, in_force
from approvals.operations.requests import approval_block, prepares, request_approval, want_reading
from approvals.queries import disclosed_contract
from approvals.rules import gate, pins, registry
from approvals.rules.gate import GateVerdict, Proposal, Standing, Surroundings
from approvals.rules.nudge import Nudge
from ledger.operations import record as ledger
from ledger.queries import record
from ledger.rules.canonical import canonical, digest
from ledger.rules.contract import Contract
from ledger.rules.entry import Entry
from ledger.rules.envelope import instant
from ledger.rules.refusals import Refused
from ledger.tenancy import apart, ask, insert

log = logging.getLogger(__name__)


class NoSuchSession(Refused):
    """There is no such session here."""

    code = "NOT_FOUND"
    status = 404


class CallIdReused(Refused):
    """This call id was used in the session with another body."""

    code = "IDEMPOTENCY_CONFLICT"


@dataclass(frozen=True, slots=True)
class Trace:
    """The W3C trace that a call came with: our trace id, and the caller's span."""

    trace_id: str
    parent_span_id: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One call's answer as api.md has it, without the user status, which the reader's moment decides.

    `entry` is the new action's, as it was just written; an answer that is given again has none.
    """

    document: dict[str, Any]
    action_id: UUID | None
    state: str | None
    entry: Entry | None = None


Compiler = Callable[[Contract, str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a recovery action comes from: the event that ordered it, its parent, and who is behind the order."""

    ordered_by: UUID
    parent_id: UUID
    relation: str
    requester: UUID


@dataclass(frozen=True, slots=True)
class Revision:
    """The action that a new one stands in for, and who edited it; its agent sent it again where nobody did."""

    supersedes: UUID
    editor: UUID | None = None


@dataclass(frozen=True, slots=True)
class Came:
    """How a call came: its trace, the order behind it where it is a recovery action, and what it stands in for."""

    trace: Trace
    origin: Origin | None = None
    revision: Revision | None = None

    @property
    def editor(self) -> UUID | None:
        """Who edited it, where a person did."""
        return self.revision.editor if self.revision else None


def propose(
    *,
    tenant_id: UUID,
    session_id: UUID,
    key_actor: UUID,
    raw_calls: list[Any],
    trace: Trace,
    compile_predicate: Compiler,
    at: datetime,
    origin: Origin | None = None,
) -> tuple[list[Answer], Nudge]:
    """Judge and record a batch of calls, in order; the nudge says whether to go on or to wait (R-MC-06, R-MC-09)."""
    session = queries.session(tenant_id, session_id)
    if session is None or session.key_actor != key_actor:
        raise NoSuchSession
    came = Came(trace, origin)
    if origin is None:
        forced_exit.inherit(session)
    answers = [_answer(session, raw, came=came, compile_predicate=compile_predicate, at=at) for raw in raw_calls]
    refused = [str(answer.document["result"]["error"]["code"]) for answer in answers if not answer.document["accepted"]]
    if "ITERATION_LIMIT" in refused:
        forced_exit.force(session, at=at)
    return answers, nudges.nudge_of(session, refused=refused)


def _answer(session: Session, raw: Any, *, came: Came, compile_predicate: Compiler, at: datetime) -> Answer:
    call = _storable(gate.read_call(raw))
    request_hash = _request_hash(raw)
    before = _known(session, call)
    if before is not None:
        return _replayed(before, request_hash)
    try:
        with apart():
            verdict = _judge(session, call, compile_predicate=compile_predicate, at=at, remedy=came.origin is not None)
            return _record(session, call, verdict, request_hash, came=came, at=at)
    except Exception:
        # The same call came twice at once and the other was first: its answer is the answer (R-EX-03).
        before = _known(session, call)
        if before is not None:
            return _replayed(before, request_hash)
        log.exception("the gate could not judge a call")
        with apart():
            return _record(session, call, gate.gate_fault(call), request_hash, came=came, at=at)


def _known(session: Session, call: Proposal) -> Call | None:
    return queries.call(session.tenant_id, session.id, call.call_id) if call.call_id else None


def _storable(call: Proposal) -> Proposal:
    # PostgreSQL has no NUL in text; a name that holds one matches nothing anyway.
    return replace(call, call_id=call.call_id.replace("\x00", "\ufffd"), tool=call.tool.replace("\x00", "\ufffd"))


def _request_hash(raw: Any) -> str:
    try:
        return digest(canonical(raw))
    except Refused:
        return digest(repr(raw).encode("utf-8", "replace"))


def _replayed(before: Call, request_hash: str) -> Answer:
    if before.request_hash != request_hash:
        refusal = CallIdReused()
        error = {"code": refusal.code, "message": refusal.detail}
        document = before.result | {"accepted": False, "action_id": None, "state": None, "approval": None}
        document["result"] = before.result["result"] | {"status": "failed", "error": error}
        return Answer(document, None, None)
    state = record.subject_state(before.tenant_id, before.action_id) if before.action_id else None
    return Answer(before.result | {"state": state}, before.action_id, state)


def _judge(session: Session, call: Proposal, *, compile_predicate: Compiler, at: datetime, remedy: bool) -> GateVerdict:
    verdict = gate.judge(call, standing(session, call, at=at), compile_predicate=compile_predicate, at=at)
    if not verdict.accepted:
        return verdict
    verdict = gate.clear(verdict, call, surroundings(session, call, verdict, at=at, remedy=remedy))
    if not verdict.accepted or verdict.contract is None:
        return verdict
    version = record.active_policies(session.tenant_id)["approval"]
    wanted = demand_of(
        session,
        contract=verdict.contract,
        rules=in_force(version),
        payload=verdict.payload,
        target=verdict.target_resource,
        at=at,
    )
    verdict = gate.under(verdict, wanted)
    most = in_force(version).limits.waiting_per_agent
    if remedy or not most or not verdict.accepted or wanted.outcome != "hold":
        return verdict
    waiting = queries.waiting_of(session.tenant_id, session.agent_id, most=most)
    return gate.paced(verdict, waiting=waiting, most=most)


def standing(session: Session, call: Proposal, *, at: datetime) -> Standing:
    """What the server knows about the agent and its session now."""
    tenant_id = session.tenant_id
    agent = queries.agent(tenant_id, session.agent_id)
    version = queries.agent_version(tenant_id, session.agent_id, session.agent_version)
    disclosed = {tool["name"]: disclosed_contract(tenant_id, tool["digest"]) for tool in session.contract["tools"]}
    return Standing(
        registered=agent is not None and agent.revoked_at is None and version is not None,
        sealed=version is not None and is_sealed(version),
        open=session.closed_at is None,
        pin=pins.Pin(str(session.id), session.goal, session.pin_hash, session.pinned_at, session.pin_expires_at),
        disclosed=disclosed,
        catalogue=frozenset(disclosed) if call.tool in disclosed else record.tool_names(tenant_id),
        calls_made=session.calls_accepted + session.calls_refused,
        iteration_limit=session.iteration_limit,
        forced_out=session.forced_at is not None,
    )


def is_sealed(version: AgentVersion) -> bool:
    """Whether a stored registration still is what was sealed (R-CR-05)."""
    return registry.is_sealed(entry_of(version), seal=version.fingerprint, key=registry_key())


def entry_of(version: AgentVersion) -> registry.Entry:
    """The registry entry in a row."""
    return registry.Entry(
        tenant=str(version.tenant_id),
        agent_id=version.agent_id,
        version=version.version,
        registered_by=version.registered_by,
        tools=tuple(version.tools),
        output_tags=tuple(version.output_tags),
        model_tier=version.model_tier,
        registered_at=version.registered_at,
    )


@lru_cache(maxsize=1)
def registry_key() -> bytes:
    """The key of the registry's fingerprints: a file outside the database."""
    return bytes.fromhex((settings.COUNTERFOIL_SECRETS_DIR / "registry_key").read_text().strip())


def surroundings(session: Session, call: Proposal, verdict: GateVerdict, *, at: datetime, remedy: bool) -> Surroundings:
    """What surrounds the target of a call now."""
    assert verdict.contract is not None
    tenant_id, tool = session.tenant_id, verdict.contract.name
    freezes = record.freezes_on(tenant_id, agent=session.agent_id, tool=tool, target=verdict.target_resource)
    twin = record.open_repeat(tenant_id, verdict.operation_hash, at=at)
    return Surroundings(
        dependencies=_dependencies(session, call),
        freezes=tuple((freeze.scope, freeze.value) for freeze in freezes),
        open_twin=str(twin.id) if twin else None,
        superseded=_superseded(session, call),
        **_run(tenant_id, session.run_id, remedy=remedy),
    )


def _run(tenant_id: UUID, run_id: str, *, remedy: bool) -> dict[str, bool]:
    """How the run stands for a new step; a recovery action is let through, for it is how a run is put right."""
    if remedy:
        return {}
    unwinding, succeeded = record.run_facts(tenant_id, run_id)
    return {"unwinding": unwinding, "after_pivot": any(record.is_pivot(tenant_id, each) for each in succeeded)}


def _dependencies(session: Session, call: Proposal) -> dict[str, gate.Dependency]:
    ids = [UUID(one) for one in call.depends_on if _is_uuid(one)]
    if not ids:
        return {}
    found = record.actions_by_id(session.tenant_id, ids)
    return {
        str(action.id): gate.Dependency(action.state, contradicted=action.contradicted)
        for action in found.values()
        if action.session_id == session.id
    }


def _superseded(session: Session, call: Proposal) -> str | None:
    """The state of the action that a call stands in for, where it is one of the same key's."""
    if call.supersedes is None or not _is_uuid(call.supersedes):
        return None
    action = record.action(session.tenant_id, UUID(call.supersedes))
    before = queries.session(session.tenant_id, action.session_id) if action is not None else None
    return action.state if action is not None and before is not None and before.key_actor == session.key_actor else None


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _record(
    session: Session, call: Proposal, verdict: GateVerdict, request_hash: str, *, came: Came, at: datetime
) -> Answer:
    if call.supersedes and verdict.accepted:
        came = replace(came, revision=Revision(UUID(call.supersedes)))
    answer = acted(session, call, verdict, came=came, at=at) if _makes_action(verdict) else _noted(call, verdict, at)
    insert(
        Call(
            tenant_id=session.tenant_id,
            id=ledger.new_id(at),
            session_id=session.id,
            agent_id=session.agent_id,
            call_id=call.call_id,
            tool=call.tool[:200],
            accepted=verdict.accepted,
            code=verdict.code,
            category=verdict.category,
            reason=verdict.message,
            request_hash=request_hash,
            restated_goal=(call.goal or "")[:8000].replace("\x00", "\ufffd") if verdict.code == "ASK_DRIFT" else "",
            disclosed=len(session.contract["tools"]),
            model_tier=session.model_tier,
            action_id=answer.action_id,
            result=answer.document,
            at=at,
        )
    )
    _count(session, accepted=verdict.accepted)
    return answer


def _count(session: Session, *, accepted: bool) -> None:
    ask(
        "UPDATE approvals_session SET calls_accepted = calls_accepted + $3, calls_refused = calls_refused + $4"
        " WHERE tenant_id = $1 AND id = $2",
        *(session.tenant_id, session.id, int(accepted), int(not accepted)),
    )
    session.calls_accepted += int(accepted)
    session.calls_refused += int(not accepted)


def _makes_action(verdict: GateVerdict) -> bool:
    # A dry run asks what the gate would say. Whoever asks may go on without us, so that neither "failed" nor "never
    # ran" would be true of it.
    return verdict.on_record and not verdict.dry_run


def _noted(call: Proposal, verdict: GateVerdict, at: datetime) -> Answer:
    return Answer(_document(call, verdict, at=at), None, None)


def acted(session: Session, call: Proposal, verdict: GateVerdict, *, came: Came, at: datetime) -> Answer:
    """PROPOSED, and then VALIDATED (with an approval, where one is needed) or FAILED."""
    assert verdict.contract is not None
    by = ledger.Actor("person", came.editor) if came.editor else ledger.Actor("agent", session.actor_id)
    policies = record.active_policies(session.tenant_id)
    action_id = ledger.new_id(at)
    payload = ledger.seal(
        tenant_id=session.tenant_id,
        subject_id=action_id,
        purpose="payload",
        data=verdict.payload,
        media_type="application/json",
        source="a reviewer's edit" if came.editor else f"agent {session.agent_id}",
        at=at,
        is_new=True,
    )
    digests = {"contract": verdict.contract.digest} | {kind: each.digest for kind, each in policies.items()}
    proposed = ledger.draft(
        ledger.Head(tenant_id=session.tenant_id, id=action_id, kind="action"),
        ledger.Happening(
            kind="proposed",
            to="PROPOSED",
            entry=_first_entry(session, action_id, verdict, policies, came.trace, at),
            evidence=(payload,),
            digests=digests,
            detail=_first_detail(session, call, came),
            view=_first_view(session, call, verdict, payload, came),
            causation=came.origin.ordered_by if came.origin else None,
        ),
        actor=by,
        at=at,
    )
    if verdict.accepted:
        requester = came.origin.requester if came.origin else session.actor_id
        whose = (requester, came.editor)
        approval, following = _validated(whose, proposed.head, verdict, policies, digests, at=at)
    else:
        approval, following = None, [_failed(proposed.head, verdict, at=at)]
    ledger.write(proposed, *following)
    end = following[-1].head
    document = _document(call, verdict, at=at, action_id=action_id, state=end.state, approval=approval)
    return Answer(document, action_id, end.state, end.entry)


def _failed(head: ledger.Head, verdict: GateVerdict, *, at: datetime) -> ledger.Draft:
    return ledger.draft(
        head,
        ledger.Happening(
            kind="validation_failed",
            to="FAILED",
            changes={"verification": {"status": "NOT_REQUIRED"}},
            detail={"code": verdict.code, "reason": verdict.message, "errors": [dict(one) for one in verdict.errors]},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )


def _validated(
    whose: tuple[UUID, UUID | None],
    head: ledger.Head,
    verdict: GateVerdict,
    policies: Mapping[str, Any],
    digests: Mapping[str, str],
    *,
    at: datetime,
) -> tuple[Approval | None, list[ledger.Draft]]:
    """The approval that is asked for, where one is needed, and the events of both; `whose` is requester and editor."""
    assert verdict.contract is not None
    assert verdict.demand is not None
    held = verdict.demand.outcome == "hold"
    approval, drafts = None, []
    prepare = prepares(verdict.contract, verdict.predicates)
    if held:
        approval, requested = request_approval(
            tenant_id=head.tenant_id,
            action_id=head.id,
            requester=whose[0],
            contract=verdict.contract,
            version=policies["approval"],
            payload=verdict.payload,
            demand=verdict.demand,
            at=at,
            prepare=prepare,
            editor=whose[1],
        )
        drafts.append(requested)
    block = {"approval": approval_block(approval)} if approval else {}
    validated = ledger.draft(
        head,
        ledger.Happening(
            kind="validated",
            to="VALIDATED",
            changes={"timestamps": {"validated_at": instant(at)}, **block},
            detail={"approval_required": held, "rules": list(verdict.demand.reasons)},
            view={"approval_id": str(approval.id)} if approval else {},
            digests=digests,
        ),
        actor=ledger.SYSTEM,
        at=at,
    )
    wish = [want_reading(validated.head, approval, verdict.contract, at=at)] if approval and prepare else []
    return approval, [*drafts, validated, *wish]


def _first_entry(
    session: Session, action_id: UUID, verdict: GateVerdict, policies: Mapping[str, Any], trace: Trace, at: datetime
) -> Entry:
    contract = verdict.contract
    assert contract is not None
    entry: Entry = {
        "action_id": str(action_id),
        "workflow_run_id": session.run_id,
        "tenant_id": str(session.tenant_id),
        "principal_id": str(session.actor_id),
        "tool_contract": {
            "name": contract.name,
            "version": contract.version,
            "schema_version": contract.schema_version,
            "wrapper_version": contract.wrapper_version,
        },
        "policy_context": {
            "autonomy_boundary_version": policies["autonomy"].version,
            "approval_policy_version": policies["approval"].version,
            "verification_policy_version": policies["verification"].version,
            "recovery_policy_version": policies["recovery"].version,
        },
        "side_effect_class": str(contract.side_effect_class),
        "intended_outcome": {
            "target_resource": verdict.target_resource,
            "expected_predicates": list(verdict.predicates),
        },
        "requested_operation": {
            "validated_payload_hash": verdict.payload_hash,
            "target_resource": verdict.target_resource,
            "operation_kind": contract.operation_kind,
        },
        **_untouched(at),
        "trace": {"trace_id": trace.trace_id, "parent_span_id": trace.parent_span_id, "replay_bundle_id": None},
    }
    if contract.mutating:
        entry["idempotency"] = {
            "required": True,
            "key_hash": None,
            "request_hash": verdict.payload_hash,
            "status": None,
        }
    return entry


def _untouched(at: datetime) -> Entry:
    """The blocks of an entry before anything has happened."""
    later = dict.fromkeys(("validated_at", "executed_at", "verified_at", "reconciled_at"))
    return {
        "execution": {"status": "NOT_EXECUTED", "observation_pointer": None, "attempt_count": 0},
        "verification": {
            "status": "NOT_STARTED",
            "source": None,
            "query_pointer": None,
            "verified_state_pointer": None,
        },
        "reconciliation": {"status": "NOT_STARTED", "discrepancy_class": None, "recovery_decision": None},
        "timestamps": {"proposed_at": instant(at), **later},
    }


def _first_detail(session: Session, call: Proposal, came: Came) -> dict[str, Any]:
    """What the first event says of the call; what it depends on is kept, so that a chain can be followed later."""
    detail: dict[str, Any] = {
        "call_id": call.call_id,
        "session_id": str(session.id),
        "pin_hash": session.pin_hash,
        "depends_on": list(call.depends_on),
        "acknowledges": sorted(call.acknowledges),
    }
    if came.revision is not None:
        detail |= {"supersedes": str(came.revision.supersedes), "edited": came.editor is not None}
    if came.origin is not None:
        detail |= {"parent_id": str(came.origin.parent_id), "relation": came.origin.relation}
    return detail


def _first_view(
    session: Session, call: Proposal, verdict: GateVerdict, payload: ledger.Sealed, came: Came
) -> dict[str, Any]:
    contract = verdict.contract
    assert contract is not None
    return {
        "tool": contract.name,
        "tool_version": contract.version,
        "contract_digest": contract.digest,
        "side_effect_class": str(contract.side_effect_class),
        "reversibility": str(contract.reversibility),
        "mutating": contract.mutating,
        "agent": session.agent_id,
        "agent_actor": str(session.actor_id),
        "session_id": str(session.id),
        "run_id": session.run_id,
        "call_id": call.call_id,
        "target": verdict.target_resource[:512],
        "operation_kind": contract.operation_kind,
        "operation_key": verdict.operation_hash,
        "payload_hash": verdict.payload_hash,
        "payload_pointer": str(payload.pointer),
        "trace_id": came.trace.trace_id,
        "recovery_row": "",
        "contradicted": False,
        "reversed": False,
        "settled": False,
        **({"supersedes": str(came.revision.supersedes)} if came.revision else {}),
        **_lineage(session, came.origin),
    }


def _lineage(session: Session, origin: Origin | None) -> dict[str, Any]:
    if origin is None:
        return {"relation": "", "unwinds": session.unwinds}
    return {
        "ordered_by": str(origin.ordered_by),
        "parent_id": str(origin.parent_id),
        "relation": origin.relation,
        "unwinds": False,
    }


def _document(
    call: Proposal,
    verdict: GateVerdict,
    *,
    at: datetime,
    action_id: UUID | None = None,
    state: str | None = None,
    approval: Approval | None = None,
) -> dict[str, Any]:
    """The answer to one call (api.md, "A result"). A refused call is an answer like any other (C-29)."""
    error = None if verdict.accepted else {"code": verdict.code, "message": verdict.message}
    return {
        "call_id": call.call_id,
        "accepted": verdict.accepted,
        "action_id": str(action_id) if action_id else None,
        "state": state,
        "result": {
            "tool": call.tool,
            "status": "pending" if verdict.accepted else "failed",
            "evidence": None,
            "error": error,
            "timestamp": instant(at),
            "side_effects": [],
        },
        "hint": verdict.hint or None,
        "suggestion": verdict.suggestion,
        "errors": [dict(one) for one in verdict.errors],
        "approval": {
            "required": verdict.accepted and verdict.demand is not None and verdict.demand.outcome == "hold",
            "approval_id": str(approval.id) if approval else None,
            "expires_at": instant(approval.decide_by) if approval else None,
        },
    }
