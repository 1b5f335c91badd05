"""The gate: checks every call of an agent before its tool runs. It decides from values only and gives reasons.

`Step` is the order of its checks, which is the order of authority, so that a later check never reveals what an earlier
one hides. `check_caller` looks at the call and its session; `check_target` at what surrounds the target, which is known
only once the arguments are. The last steps hold the call to the tenant's policies. The caller goes through `Step`
in order, and the first refusal is the answer.

Every refusal names the layer that found it (`layers`, R-TC-15), in the record and in the answer's errors.

A call that resolved to a disclosed contract and is wrong in itself goes on record as PROPOSED, then FAILED (C-27):
`on_record`. All else is a gate record only. So is what `check_target` refuses: such a call was correct and only came at
the wrong time, and a FAILED action beside the open one it repeats would read as if that one had failed.

What a caller says about itself (roles, approvals, privileges) is not even read (R-CR-11). A fault inside the gate
refuses (R-TG-09): `gate_fault`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from approvals.gate.rules import layers, malformed, preconditions, proposals, stale_reads
from approvals.gate.rules.layers import Layer
from approvals.gate.rules.malformed import Malformed, safe_name
from approvals.gate.rules.preconditions import Dependency, TargetContext
from approvals.gate.rules.proposals import Proposal, read_call
from approvals.policy.rules.policy import PolicyDecision
from approvals.sessions.rules import pins
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.targets import BadTarget
from ledger.record.rules.canonical import NotCanonical, canonical, digest

Compiler = Callable[[Contract, str], str | None]

__all__ = [
    "CALLER_STEPS",
    "TARGET_STEPS",
    "CallerContext",
    "Dependency",
    "GateVerdict",
    "Proposal",
    "Step",
    "TargetContext",
    "check_call",
    "check_caller",
    "check_preconditions",
    "check_target",
    "read_call",
]


class Step(StrEnum):
    """The checks of the gate, in order; the value describes a call that passes."""

    IDENTITY = "The agent is registered, not revoked, its entry unaltered, and the session is open (R-TG-08, C-12)."
    ITERATIONS = "The run has calls left, refused ones counted, and was not forced to end (R-MC-23, R-FB-06)."
    PIN = "The pin lives, and what the call restates is the pinned goal (R-PA-05, R-PA-06)."
    TOOL = "The tool exists, is disclosed and stands in the sealed entry of the agent (R-TG-02, R-TG-10, R-MC-22)."
    GOAL = "A mutating call restates the goal or its hash (R-PA-08)."
    TRACE = "A CRITICAL_MUTATION comes with the trace of its agent, which level 4 needs (R-VD-15, R-OB-08)."
    ARGUMENTS = "The arguments fit the contract, name the claimed target, and added predicates compile (D13)."
    UNWINDING = "The run is not being taken back."
    PIVOT = "After the run's pivot the tool may be sent again unchanged (R-RP-40)."
    DEPENDENCIES = "What the call depends on is a settled success, or its failure was acknowledged (R-EX-20)."
    SUPERSEDED = "What the call stands in for has failed, and is the same key's."
    FREEZES = "Nothing is frozen that the call touches (R-EX-15)."
    DUPLICATE = "The same mutation is not open (R-EX-08)."
    UNOBSERVED = "No step of the run on this target is unobserved (R-PL-13)."
    FAILED_STEPS = "No failed step of the run is unacknowledged (R-PL-14)."
    READS = "What the call says that it is based on still holds (R-TC-16)."
    AUTONOMY = "The call lies inside the autonomy boundary in force."
    APPROVAL_POLICY = "No rule of the approval policy refuses it, and its agent has not too many waiting (B38)."
    BUDGETS = "Agent and session have budget left; charged last, so that what is refused has cost nothing."


ACCEPTED = "ACCEPTED"
MAX_PREDICATES = 20
MAX_PREDICATE = 2_000

_MEASURES = {
    ACCEPTED: "valid",
    "PHANTOM_TOOL": "phantom",
    malformed.HALLUCINATED: "argument_hallucination",
    malformed.DRIFTED: "argument_hallucination",
    malformed.COERCED: "argument_hallucination",
    malformed.UNPARSEABLE: "argument_hallucination",
}


@dataclass(frozen=True)
class CallerContext:
    """The agent and its session as the server knows them, read again for every call (R-CR-14).

    `traced`: the call came with a W3C trace of its agent, or is made on account of an action that had its own.
    """

    registered: bool
    sealed: bool
    open: bool
    pin: pins.Pin
    disclosed: Mapping[str, Contract]
    catalogue: frozenset[str]
    registered_tools: frozenset[str] | None = None
    calls_made: int = 0
    iteration_limit: int | None = None
    forced_out: bool = False
    traced: bool = True


@dataclass(frozen=True)
class GateVerdict:
    """The gate's verdict, with everything needed for the record. `payload_hash` is of the arguments as sent when
    refused.
    """

    accepted: bool
    code: str
    message: str
    hint: str = ""
    suggestion: str | None = None
    errors: tuple[Mapping[str, Any], ...] = ()
    on_record: bool = False
    contract: Contract | None = None
    payload: bytes = b""
    payload_hash: str = ""
    target_resource: str = ""
    predicates: tuple[str, ...] = ()
    dry_run: bool = False
    demand: PolicyDecision | None = None
    layer: str = ""
    coerced: tuple[Mapping[str, str], ...] = ()

    @property
    def category(self) -> str:
        """The measuring class: valid, argument_hallucination, phantom or gate_rejection (R-MC-14, C-36)."""
        return _MEASURES.get(self.code, "gate_rejection")

    @property
    def operation_hash(self) -> str:
        """Identify the logical operation, independent of its key: tool, target and payload (R-EX-08)."""
        tool = self.contract.name if self.contract else ""
        return digest(canonical(["operation", tool, self.target_resource, self.payload_hash]))


def check_call(call: Proposal, caller: CallerContext, *, compile_predicate: Compiler, at: datetime) -> GateVerdict:
    """The steps up to ARGUMENTS: whether the call is this agent's to make, and is well formed."""
    for step in CALLER_STEPS:
        verdict = check_caller(step, call, caller, compile_predicate=compile_predicate, at=at)
        if verdict is not None:
            return verdict
    raise AssertionError("the step ARGUMENTS gives a verdict on every call")


def check_caller(
    step: Step, call: Proposal, caller: CallerContext, *, compile_predicate: Compiler, at: datetime
) -> GateVerdict | None:
    """Run one of `CALLER_STEPS`: return a refusal, or None to continue; ARGUMENTS always returns a verdict."""
    if step is Step.ARGUMENTS:
        return _arguments(call, caller.disclosed[call.tool], compile_predicate)
    refusal = _CALLER_CHECKS[step](call, caller, at)
    return _refuse(refusal, call) if refusal is not None else None


def check_preconditions(
    verdict: GateVerdict, call: Proposal, context: TargetContext, *, at: datetime | None = None
) -> GateVerdict:
    """Take the steps UNWINDING to READS for an accepting verdict; return any other unchanged.

    Without a time nothing is asked of the reads that the call is based on.
    """
    for step in TARGET_STEPS:
        if step is Step.READS and at is None:
            continue
        verdict = check_target(step, verdict, call, context, at=at)
    return verdict


def check_target(
    step: Step, verdict: GateVerdict, call: Proposal, context: TargetContext, *, at: datetime | None
) -> GateVerdict:
    """Take one of `TARGET_STEPS` for an accepting verdict; return any other unchanged."""
    contract = verdict.contract
    if not verdict.accepted or contract is None:
        return verdict
    if step is Step.READS:
        assert at is not None
        refusal = stale_reads.find_stale_read(call.based_on, contract, verdict.target_resource, context.changes, at=at)
    else:
        refusal = _TARGET_CHECKS[step](call, contract, context)
    return verdict if refusal is None else refuse(verdict, refusal)


def refuse(verdict: GateVerdict, refusal: Malformed) -> GateVerdict:
    """Turn an accepting verdict into a refusal: the call was correct, so no failed action is recorded."""
    layer = refusal.layer or layers.layer_of(refusal.code)
    return replace(
        verdict,
        accepted=False,
        on_record=False,
        code=refusal.code,
        message=refusal.message,
        hint=refusal.hint,
        errors=_errors_with_layer(refusal, layer),
        layer=layer,
    )


def apply_flood_limit(verdict: GateVerdict, *, waiting: int, most: int) -> GateVerdict:
    """Refuse a call of an agent that would exceed the policy's limit of waiting approvals (B38)."""
    if not proposals.is_flood(waiting, most=most):
        return verdict
    message = f"{waiting} of this agent's calls wait for people, and no more than {most} may."
    hint = "Wait until people have decided some of them; nothing was queued."
    return refuse(verdict, Malformed("BUDGET_EXCEEDED", message, hint))


def apply_policy(verdict: GateVerdict, demand: PolicyDecision) -> GateVerdict:
    """The step APPROVAL_POLICY, for a verdict that accepts: apply the decision of the approval policy."""
    if demand.outcome != "refuse":
        return replace(verdict, demand=demand)
    hint = "Do not repeat the call: the tenant's policy refuses it, and no approval changes that."
    errors = tuple({"path": "", "code": "POLICY", "detail": reason} for reason in demand.reasons)
    refusal = Malformed("OUTSIDE_AUTONOMY", demand.refusal, hint, None, errors)
    return replace(refuse(verdict, refusal), on_record=True, demand=demand)


def gate_fault(call: Proposal) -> GateVerdict:
    """Return the refusal when a check itself raised an error: a call that cannot be checked does not pass (R-TG-09)."""
    refusal = Malformed("GATE_FAULT", "The call could not be checked, so it was not let through.", "Try again later.")
    return _refuse(refusal, call)


def contract_out_of_force(call: Proposal, version: str, state: str) -> GateVerdict:
    """The refusal when the version that the session was shown has been rolled back or retired since."""
    said = f"Version {version} of `{safe_name(call.tool)}` was {'retired' if state == 'RETIRED' else 'rolled back'}."
    return _refuse(Malformed("CAPABILITY_NOT_REGISTERED", said, "Open a new session for the version in force."), call)


# The steps up to GOAL


def _identity(call: Proposal, caller: CallerContext, at: datetime) -> Malformed | None:
    if not caller.registered:
        return Malformed("AGENT_NOT_REGISTERED", "The agent is not registered, or was revoked.")
    if not caller.sealed:
        message = "The agent's registry entry is not the one that was sealed."
        error = {"path": "", "code": "REGISTRY_FINGERPRINT_MISMATCH", "detail": message}
        return Malformed("AGENT_NOT_REGISTERED", message, errors=(error,))
    if not caller.open:
        message = "The session is closed, and its pin with it."
        error = {"path": "", "code": "SESSION_CLOSED", "detail": message}
        return Malformed(pins.PinExpired.code, message, "Open a new session.", None, (error,))
    return None


def _iterations(call: Proposal, caller: CallerContext, at: datetime) -> Malformed | None:
    reached = caller.iteration_limit is not None and caller.calls_made >= caller.iteration_limit
    if reached or caller.forced_out:
        return Malformed(
            "ITERATION_LIMIT",
            f"The run has used its {caller.iteration_limit} calls." if reached else "The run was ended at its limit.",
            "Stop calling tools and report the session's summary.",
        )
    return None


def _pin(call: Proposal, caller: CallerContext, at: datetime) -> Malformed | None:
    if over := caller.pin.expiry(at=at):
        code = pins.PinExpired.code if at >= caller.pin.expires_at else pins.SESSION_QUIET
        error = {"path": "", "code": code, "detail": over}
        return Malformed(pins.PinExpired.code, over, "Ask the caller for a new session.", None, (error,))
    if call.goal is None and call.pin_hash is None:
        return None
    try:
        matched = pins.compare_goal(caller.pin, goal=call.goal, sent_hash=call.pin_hash, at=at).match
    except NotCanonical:
        matched = False
    if matched:
        return None
    message = "The restated goal differs from the pinned goal."
    return Malformed(pins.AskDrift.code, message, "Quote the goal word for word, or send the pin's hash.")


def _tool(call: Proposal, caller: CallerContext, at: datetime) -> Malformed | None:
    if call.fault:
        return Malformed(malformed.UNPARSEABLE, call.fault, "See the API's description of a call.")
    known = caller.registered_tools
    name, named = safe_name(call.tool), call.tool in caller.disclosed
    if named and known is not None and call.tool not in known:
        return Malformed("CAPABILITY_NOT_REGISTERED", f"`{name}` is not registered for this agent.")
    if named:
        return None
    successor = next((new for new, each in caller.disclosed.items() if call.tool in each.formerly), None)
    if successor is None and call.tool in caller.catalogue:
        return Malformed("UNDISCLOSED_TOOL", f"`{name}` is not among the tools of this session.")
    near = successor or malformed.nearest_name(call.tool, caller.disclosed)
    hint = f"Did you mean `{near}`?" if near else "Call only tools of the session's contract."
    if successor is not None:
        hint = f"It is called `{successor}` now, and may take other parameters: read its schema."
    return Malformed("PHANTOM_TOOL", f"There is no tool `{name}`.", hint, near)


def _goal(call: Proposal, caller: CallerContext, at: datetime) -> Malformed | None:
    if not caller.disclosed[call.tool].mutating or call.goal is not None or call.pin_hash is not None:
        return None
    message = "A call that changes something must restate the goal or send the pin's hash."
    return Malformed(pins.AskDrift.code, message, "Send `pin_hash` from the session's answer.")


def _trace(call: Proposal, caller: CallerContext, at: datetime) -> Malformed | None:
    critical = caller.disclosed[call.tool].side_effect_class is SideEffectClass.CRITICAL_MUTATION
    if caller.traced or not critical:
        return None
    message = "A critical mutation is let through only with the W3C trace of its agent, which its record has to name."
    error = {"path": "/headers/traceparent", "code": "TRACE_REQUIRED", "detail": message}
    hint = "Send the header `traceparent: 00-<32 hex digits>-<16 hex digits>-01`; the client library does."
    return Malformed("OUTSIDE_AUTONOMY", message, hint, None, (error,))


_CALLER_CHECKS: Mapping[Step, Callable[[Proposal, CallerContext, datetime], Malformed | None]] = {
    Step.IDENTITY: _identity,
    Step.ITERATIONS: _iterations,
    Step.PIN: _pin,
    Step.TOOL: _tool,
    Step.GOAL: _goal,
    Step.TRACE: _trace,
}
_TARGET_CHECKS: Mapping[Step, Callable[[Proposal, Contract, TargetContext], Malformed | None]] = {
    Step.UNWINDING: preconditions.check_unwinding,
    Step.PIVOT: preconditions.check_pivot,
    Step.DEPENDENCIES: preconditions.check_dependencies,
    Step.SUPERSEDED: preconditions.check_superseded,
    Step.FREEZES: preconditions.check_freezes,
    Step.DUPLICATE: preconditions.check_duplicate,
    Step.UNOBSERVED: preconditions.check_unobserved,
    Step.FAILED_STEPS: preconditions.check_failed,
}
# In the order of `Step`, whatever the order above.
CALLER_STEPS = tuple(step for step in Step if step in _CALLER_CHECKS or step is Step.ARGUMENTS)
TARGET_STEPS = tuple(step for step in Step if step in _TARGET_CHECKS or step is Step.READS)


# ARGUMENTS


def _arguments(call: Proposal, contract: Contract, compile_predicate: Compiler) -> GateVerdict:
    payload = malformed.read_arguments(call.arguments)
    if isinstance(payload, Malformed):
        return _refuse(payload, call, contract)
    mistake = malformed.find_mistake(payload, schema=contract.arguments_schema, validator=contract.arguments_validator)
    coerced = malformed.coerce_arguments(payload, contract) if mistake is not None else None
    if mistake is not None and coerced is None:
        return _refuse(mistake, call, contract, payload)
    payload, conversions = coerced or (payload, ())
    try:
        target = contract.render_target(payload)
    except BadTarget as problem:
        return _refuse(_wrong_value(problem.argument, str(problem)), call, contract, payload)
    mistake = _claims(call, target) or _check_predicates(call, contract, compile_predicate)
    if mistake is not None:
        return _refuse(mistake, call, contract, payload)
    text = canonical(payload)
    return GateVerdict(
        accepted=True,
        code=ACCEPTED,
        message="The call is well formed and allowed here.",
        on_record=True,
        contract=contract,
        payload=text,
        payload_hash=digest(text),
        target_resource=target,
        predicates=tuple(dict.fromkeys((*contract.predicates, *call.outcome_predicates))),
        dry_run=call.dry_run,
        coerced=conversions,
    )


def _claims(call: Proposal, target: str) -> Malformed | None:
    for path, claimed in (
        ("/target_resource", call.target_resource),
        ("/intended_outcome/target_resource", call.outcome_target),
    ):
        if claimed is not None and claimed != target:
            hint = f"The arguments name the target `{safe_name(target)}`."
            return _wrong_value(path, "The claimed target is not the one that the arguments name.", hint)
    return None


def _check_predicates(call: Proposal, contract: Contract, compile_predicate: Compiler) -> Malformed | None:
    path = "/intended_outcome/expected_predicates"
    if len(call.outcome_predicates) > MAX_PREDICATES:
        return _wrong_value(path, f"A call may add at most {MAX_PREDICATES} predicates.")
    for index, predicate in enumerate(call.outcome_predicates):
        if len(predicate) > MAX_PREDICATE:
            return _wrong_value(f"{path}/{index}", f"A predicate has at most {MAX_PREDICATE} characters.")
        problem = compile_predicate(contract, predicate)
        if problem is not None:
            return _wrong_value(f"{path}/{index}", f"The predicate does not compile: {problem}")
    return None


def _wrong_value(path: str, detail: str, hint: str = "") -> Malformed:
    error = {"path": path if path.startswith("/") else f"/{path}", "code": malformed.HALLUCINATED, "detail": detail}
    return Malformed(malformed.HALLUCINATED, detail, hint, None, (error,), Layer.SEMANTICS)


# Refusing


def _refuse(
    refusal: Malformed, call: Proposal, contract: Contract | None = None, payload: dict[str, Any] | None = None
) -> GateVerdict:
    sent = _as_sent(call.arguments) if payload is None else canonical(payload)
    layer = refusal.layer or layers.layer_of(refusal.code)
    return GateVerdict(
        accepted=False,
        code=refusal.code,
        message=refusal.message,
        hint=refusal.hint,
        suggestion=refusal.suggestion,
        errors=_errors_with_layer(refusal, layer),
        layer=layer,
        on_record=contract is not None,
        contract=contract,
        payload=sent,
        payload_hash=digest(sent),
        target_resource=_target(contract, payload),
        predicates=contract.predicates if contract else (),
        dry_run=call.dry_run,
    )


def _errors_with_layer(refusal: Malformed, layer: str) -> tuple[Mapping[str, Any], ...]:
    """The errors of a refusal, at least one, each with the layer that found it."""
    errors = refusal.errors or ({"path": "", "code": refusal.code, "detail": refusal.message},)
    return tuple({**each, "layer": layer} for each in errors)


def _as_sent(arguments: Any) -> bytes:
    """Canonical bytes of any input; an input without a canonical form is kept as its text (C-27)."""
    try:
        return canonical(arguments)
    except NotCanonical:
        text = arguments if isinstance(arguments, str) else _as_text(arguments)
        return canonical(text.encode("utf-8", "replace").decode("utf-8"))


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, default=str)
    except (ValueError, RecursionError):
        return "(too deep to keep)"


def _target(contract: Contract | None, payload: dict[str, Any] | None) -> str:
    """The target of a refused call. No real target holds a brace, so the bare template cannot pass for one."""
    if contract is None:
        return ""
    try:
        return contract.render_target(payload or {})
    except BadTarget:
        return contract.target_template
