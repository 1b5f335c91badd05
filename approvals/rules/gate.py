"""The gate: the one place between an agent and its tools. It decides from values only, and says why.

`judge` looks at the call and its session; `clear` looks at what surrounds the target, which is known only once the
arguments are. The order is the order of authority, so that a later check never reveals what an earlier one hides:

1. The agent is registered, not revoked, and its entry unaltered (R-TG-08, C-12). The session is open.
2. The run has iterations left; refused calls count, so that an agent cannot spin on its mistakes (R-MC-23). Once it was
   forced to end, no session of it takes a call (R-FB-06).
3. The pin lives, and what the call restates is the pinned goal (R-PA-05, R-PA-06).
4. The tool exists and is disclosed (R-TG-02, R-TG-10). Suggestions name disclosed tools only.
5. A mutating call restates the goal or its hash (R-PA-08).
6. The arguments fit the contract (`malformed`), the target that the agent claims is the one they name, and the
   predicates that it adds compile. They are added to the contract's, never put in their place (D13).
7. Every action that it depends on is settled as a success, or its failure was acknowledged (R-EX-20). One that it
   stands in for (`supersedes`) has failed, and is the same key's.
8. Nothing is frozen that the call touches (R-EX-15).
9. The same mutation is not open (R-EX-08), the run is not being taken back, and after its pivot only tools start
   that may be sent again unchanged (R-RP-40).

10. No rule of the approval policy refuses it (`under`; `approvals.rules.policy`).

A call that resolved to a disclosed contract and is wrong in itself goes on record as PROPOSED, then FAILED (C-27):
`on_record`. All else is a gate record only. So is what `clear` refuses: such a call was right and only came at the
wrong time, and a FAILED action beside the open one it repeats would read as if that one had failed.

What a caller says about itself (roles, approvals, privileges) is not even read (R-CR-11). A fault inside the gate
refuses (R-TG-09): `gate_fault`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from approvals.rules import flooding, malformed, pins
from approvals.rules.malformed import Malformed, shown
from approvals.rules.policy import Demand
from ledger.rules.canonical import NotCanonical, canonical, digest
from ledger.rules.contract import Contract
from ledger.rules.targets import BadTarget

ACCEPTED = "ACCEPTED"
MAX_PREDICATES = 20
MAX_PREDICATE = 2_000

# Settled without the wanted effect: a dependent call may go on only after somebody took notice.
SETTLED_OTHERWISE = frozenset({"FAILED", "COMPENSATED", "ROLLED_BACK", "ABANDONED"})

_MEASURES = {
    ACCEPTED: "valid",
    "PHANTOM_TOOL": "phantom",
    malformed.HALLUCINATED: "argument_hallucination",
    malformed.DRIFTED: "argument_hallucination",
    malformed.COERCED: "argument_hallucination",
    malformed.UNPARSEABLE: "argument_hallucination",
    NotCanonical.code: "argument_hallucination",
}


@dataclass(frozen=True)
class Proposal:
    """A call as the agent sent it; `fault` says why it could not be read at all."""

    call_id: str = ""
    tool: str = ""
    arguments: Any = None
    goal: str | None = None
    pin_hash: str | None = None
    target_resource: str | None = None
    outcome_target: str | None = None
    outcome_predicates: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    acknowledges: frozenset[str] = frozenset()
    dry_run: bool = False
    supersedes: str | None = None
    fault: str = ""


@dataclass(frozen=True)
class Standing:
    """What the server knows about the agent and its session, read again for every call (R-CR-14)."""

    registered: bool
    sealed: bool
    open: bool
    pin: pins.Pin
    disclosed: Mapping[str, Contract]
    catalogue: frozenset[str]
    renamed: Mapping[str, str] = field(default_factory=dict)
    calls_made: int = 0
    iteration_limit: int | None = None
    forced_out: bool = False


@dataclass(frozen=True)
class Dependency:
    """How an action stands that a call depends on. `acknowledged`: a decision about its failure is on record."""

    state: str
    contradicted: bool = False
    acknowledged: bool = False


@dataclass(frozen=True)
class Surroundings:
    """What surrounds the target of a call: dependencies by id, freezes that match as (scope, value), an open twin, and
    the state of the action that it stands in for.
    """

    dependencies: Mapping[str, Dependency]
    freezes: tuple[tuple[str, str], ...] = ()
    open_twin: str | None = None
    superseded: str | None = None
    unwinding: bool = False
    after_pivot: bool = False


@dataclass(frozen=True)
class GateVerdict:
    """What the gate says, with all that the record needs. `payload_hash` is of the arguments as sent when refused."""

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
    demand: Demand | None = None

    @property
    def category(self) -> str:
        """The measuring class: valid, argument_hallucination, phantom or gate_rejection (R-MC-14, C-36)."""
        return _MEASURES.get(self.code, "gate_rejection")

    @property
    def operation_hash(self) -> str:
        """Names the logical operation, whatever key it is sent under: tool, target and payload (R-EX-08)."""
        tool = self.contract.name if self.contract else ""
        return digest(canonical(["operation", tool, self.target_resource, self.payload_hash]))


def read_call(raw: Any) -> Proposal:
    """The call in one element of a batch; a shape that is wrong becomes its `fault`, its neighbours go on (R-MC-06)."""
    if not isinstance(raw, dict):
        return Proposal(fault="A call is an object.")
    call_id, tool = raw.get("call_id"), raw.get("tool")
    known = Proposal(
        call_id=call_id if isinstance(call_id, str) else "",
        tool=tool if isinstance(tool, str) else "",
        arguments=raw.get("arguments"),
    )
    outcome = raw.get("intended_outcome")
    fault = _shape_fault(raw, {} if outcome is None else outcome)
    if fault:
        return replace(known, fault=fault)
    outcome = outcome or {}
    return replace(
        known,
        goal=raw.get("goal"),
        pin_hash=raw.get("pin_hash"),
        target_resource=raw.get("target_resource"),
        outcome_target=outcome.get("target_resource"),
        outcome_predicates=tuple(outcome.get("expected_predicates") or ()),
        depends_on=tuple(raw.get("depends_on") or ()),
        acknowledges=frozenset(raw.get("acknowledges") or ()),
        dry_run=raw.get("dry_run") is True,
        supersedes=raw.get("supersedes"),
    )


def judge(
    call: Proposal,
    standing: Standing,
    *,
    compile_predicate: Callable[[Contract, str], str | None],
    at: datetime,
) -> GateVerdict:
    """Rules 1 to 6: whether the call is this agent's to make, and is well formed."""
    refusal = _identity(standing) or _iterations(standing) or _pin(call, standing, at) or _tool(call, standing)
    if refusal is not None:
        return _refused(refusal, call)
    contract = standing.disclosed[call.tool]
    if contract.mutating and call.goal is None and call.pin_hash is None:
        refusal = Malformed(
            pins.AskDrift.code,
            "A call that changes something must restate the goal or send the pin's hash.",
            "Send `pin_hash` from the session's answer.",
        )
        return _refused(refusal, call)
    return _arguments(call, contract, compile_predicate)


def clear(verdict: GateVerdict, call: Proposal, around: Surroundings) -> GateVerdict:
    """Rules 7 to 9, for a verdict of `judge` that accepts; any other comes back as it is."""
    if not verdict.accepted or verdict.contract is None:
        return verdict
    refusal = (
        _unwinding(around)
        or _after_pivot(verdict.contract, around)
        or _dependencies(call, around)
        or _superseding(call, around)
        or _frozen(verdict.contract, around)
        or _twin(verdict.contract, around)
    )
    if refusal is None:
        return verdict
    return replace(
        verdict,
        accepted=False,
        on_record=False,
        code=refusal.code,
        message=refusal.message,
        hint=refusal.hint,
        errors=refusal.errors,
    )


def paced(verdict: GateVerdict, *, waiting: int, most: int) -> GateVerdict:
    """The verdict for an agent that has so many approvals waiting: one more than its policy allows is refused (B38)."""
    if not flooding.is_flood(waiting, most=most):
        return verdict
    return replace(
        verdict,
        accepted=False,
        on_record=False,
        code="BUDGET_EXCEEDED",
        message=f"{waiting} of this agent's calls wait for people, and no more than {most} may.",
        hint="Wait until people have decided some of them; nothing was queued.",
    )


def under(verdict: GateVerdict, demand: Demand) -> GateVerdict:
    """Rule 10, for a verdict that accepts: what the approval policy wants of the call."""
    if demand.outcome != "refuse":
        return replace(verdict, demand=demand)
    return replace(
        verdict,
        accepted=False,
        code="OUTSIDE_AUTONOMY",
        message=demand.refusal,
        hint="Do not repeat the call: the tenant's policy refuses it, and no approval changes that.",
        errors=tuple({"path": "", "code": "POLICY", "detail": reason} for reason in demand.reasons),
        demand=demand,
    )


def gate_fault(call: Proposal) -> GateVerdict:
    """The refusal when a check itself broke: what cannot be checked does not pass (R-TG-09)."""
    refusal = Malformed("GATE_FAULT", "The call could not be checked, so it was not let through.", "Try again later.")
    return _refused(refusal, call)


# What a call says


def _shape_fault(raw: dict[str, Any], outcome: Any) -> str:
    if not isinstance(raw.get("call_id", ""), str) or not isinstance(raw.get("tool"), str):
        return "A call names its `tool`, and its `call_id` is text."
    if len(raw.get("call_id", "")) > 128:
        return "`call_id` is longer than 128 characters."
    for name in ("goal", "pin_hash", "target_resource", "supersedes"):
        if not isinstance(raw.get(name, ""), str | None):
            return f"`{name}` must be text."
    for name in ("depends_on", "acknowledges"):
        if not _texts(raw.get(name)):
            return f"`{name}` must be a list of action ids."
    if not isinstance(outcome, dict) or not isinstance(outcome.get("target_resource", ""), str | None):
        return "`intended_outcome` is an object with `target_resource` and `expected_predicates`."
    return "" if _texts(outcome.get("expected_predicates")) else "`expected_predicates` must be a list of text."


def _texts(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value))


# Rules 1 to 4


def _identity(standing: Standing) -> Malformed | None:
    if not standing.registered:
        return Malformed("AGENT_NOT_REGISTERED", "The agent is not registered, or was revoked.")
    if not standing.sealed:
        return Malformed("REGISTRY_FINGERPRINT_MISMATCH", "The agent's registry entry is not the one that was sealed.")
    if not standing.open:
        return Malformed("SESSION_CLOSED", "The session is closed.", "Open a new session.")
    return None


def _iterations(standing: Standing) -> Malformed | None:
    reached = standing.iteration_limit is not None and standing.calls_made >= standing.iteration_limit
    if reached or standing.forced_out:
        return Malformed(
            "ITERATION_LIMIT",
            f"The run has used its {standing.iteration_limit} calls." if reached else "The run was ended at its limit.",
            "Stop calling tools and report the session's summary.",
        )
    return None


def _pin(call: Proposal, standing: Standing, at: datetime) -> Malformed | None:
    if at >= standing.pin.expires_at:
        return Malformed(pins.PinExpired.code, "The session's pin has expired.", "Ask the caller for a new session.")
    if call.goal is None and call.pin_hash is None:
        return None
    try:
        matched = pins.compare(standing.pin, goal=call.goal, sent_hash=call.pin_hash, at=at).match
    except NotCanonical:
        matched = False
    if matched:
        return None
    message = "The restated goal is not the one that was pinned."
    return Malformed(pins.AskDrift.code, message, "Quote the goal word for word, or send the pin's hash.")


def _tool(call: Proposal, standing: Standing) -> Malformed | None:
    if call.fault:
        return Malformed(malformed.UNPARSEABLE, call.fault, "See the API's description of a call.")
    if call.tool in standing.disclosed:
        return None
    name = shown(call.tool)
    if call.tool in standing.catalogue:
        return Malformed("UNDISCLOSED_TOOL", f"`{name}` is not among the tools of this session.")
    renamed = standing.renamed.get(call.tool)
    near = renamed if renamed in standing.disclosed else malformed.nearest(call.tool, standing.disclosed)
    hint = f"Did you mean `{near}`?" if near else "Call only tools of the session's contract."
    return Malformed("PHANTOM_TOOL", f"There is no tool `{name}`.", hint, near)


# Rule 6


def _arguments(
    call: Proposal, contract: Contract, compile_predicate: Callable[[Contract, str], str | None]
) -> GateVerdict:
    payload = malformed.read_arguments(call.arguments)
    if isinstance(payload, Malformed):
        return _refused(payload, call, contract)
    mistake = malformed.find(payload, schema=contract.arguments_schema, validator=contract.arguments_validator)
    if mistake is not None:
        return _refused(mistake, call, contract, payload)
    try:
        target = contract.render_target(payload)
    except BadTarget as problem:
        return _refused(_wrong_value(problem.argument, str(problem)), call, contract, payload)
    mistake = _claims(call, target) or _added(call, contract, compile_predicate)
    if mistake is not None:
        return _refused(mistake, call, contract, payload)
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
    )


def _claims(call: Proposal, target: str) -> Malformed | None:
    for path, claimed in (
        ("/target_resource", call.target_resource),
        ("/intended_outcome/target_resource", call.outcome_target),
    ):
        if claimed is not None and claimed != target:
            hint = f"The arguments name the target `{shown(target)}`."
            return _wrong_value(path, "The claimed target is not the one that the arguments name.", hint)
    return None


def _added(
    call: Proposal, contract: Contract, compile_predicate: Callable[[Contract, str], str | None]
) -> Malformed | None:
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
    return Malformed(malformed.HALLUCINATED, detail, hint, None, (error,))


# Rules 7 to 9


def _dependencies(call: Proposal, around: Surroundings) -> Malformed | None:
    open_ones = [one for one in call.depends_on if not _resolved(one, call, around.dependencies.get(one))]
    if not open_ones:
        return None
    errors = tuple(
        {
            "path": "/depends_on",
            "code": "UNRESOLVED_DEPENDENCY",
            "detail": f"{shown(one)}: {_standing_of(around.dependencies.get(one))}",
        }
        for one in open_ones
    )
    message = "An action that this call depends on is not settled."
    return Malformed("UNRESOLVED_DEPENDENCY", message, "Wait for it; acknowledge it once it has failed.", None, errors)


def _resolved(action_id: str, call: Proposal, dependency: Dependency | None) -> bool:
    if dependency is None or dependency.contradicted:
        return False
    if dependency.state == "RECONCILED_SUCCESS":
        return True
    # An open action cannot be acknowledged away: nobody knows yet what there is to take notice of.
    noticed = dependency.acknowledged or action_id in call.acknowledges
    return dependency.state in SETTLED_OTHERWISE and noticed


def _superseding(call: Proposal, around: Surroundings) -> Malformed | None:
    if call.supersedes is None or around.superseded == "FAILED":
        return None
    message = "The action that this call would stand in for is not one of yours that has ended."
    return Malformed("UNRESOLVED_DEPENDENCY", message, "Name in `supersedes` an action that was refused or has failed.")


def _standing_of(dependency: Dependency | None) -> str:
    if dependency is None:
        return "not an action of this session"
    return "CONTRADICTED" if dependency.contradicted else str(dependency.state)


def _frozen(contract: Contract, around: Surroundings) -> Malformed | None:
    # A frozen target may still be read; every other freeze stops reads as well.
    stops = [scope for scope, _ in around.freezes if contract.mutating or scope != "target"]
    if not stops:
        return None
    message = f"Stopped by an operator or a finding (scope: {shown(stops[0])})."
    return Malformed("TARGET_FROZEN", message, "Wait until a person lifts the freeze.")


def _unwinding(around: Surroundings) -> Malformed | None:
    if not around.unwinding:
        return None
    message = "This run is being taken back; nothing new starts in it."
    return Malformed("UNRESOLVED_DEPENDENCY", message, "Report the run's summary, and open a new session.")


def _after_pivot(contract: Contract, around: Surroundings) -> Malformed | None:
    if not around.after_pivot or not contract.mutating or contract.recovery.idempotent:
        return None
    message = "After its pivot a run can only be finished, and this tool cannot be sent again unchanged."
    return Malformed("OUTSIDE_AUTONOMY", message, "Use a tool whose contract says that it is idempotent, or a new run.")


def _twin(contract: Contract, around: Surroundings) -> Malformed | None:
    if not contract.mutating or around.open_twin is None:
        return None
    message = "The same operation is already open."
    return Malformed("DUPLICATE_BLOCKED", message, f"Wait for the action {shown(around.open_twin)}; do not repeat it.")


# Refusing


def _refused(
    refusal: Malformed, call: Proposal, contract: Contract | None = None, payload: dict[str, Any] | None = None
) -> GateVerdict:
    sent = _as_sent(call.arguments) if payload is None else canonical(payload)
    return GateVerdict(
        accepted=False,
        code=refusal.code,
        message=refusal.message,
        hint=refusal.hint,
        suggestion=refusal.suggestion,
        errors=refusal.errors,
        on_record=contract is not None,
        contract=contract,
        payload=sent,
        payload_hash=digest(sent),
        target_resource=_target(contract, payload),
        predicates=contract.predicates if contract else (),
        dry_run=call.dry_run,
    )


def _as_sent(arguments: Any) -> bytes:
    """Canonical bytes of whatever was sent: what has no canonical form of its own is kept as its text (C-27)."""
    try:
        return canonical(arguments)
    except NotCanonical:
        text = arguments if isinstance(arguments, str) else _spelled(arguments)
        return canonical(text.encode("utf-8", "replace").decode("utf-8"))


def _spelled(value: Any) -> str:
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
