"""Verification: read the system of record, judge what it said, and write down what follows.

The reading happens outside any transaction: a slow system holds no lock. What it found is judged again under the
action's lock, against the action as it then is, so a reading that comes too late changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
from django.conf import settings

from ledger import operations as ledger
from ledger import queries as record
from ledger.rules import contract as contracts
from ledger.rules.contract import Contract
from ledger.rules.lifecycle import State
from ledger.rules.refusals import Refused
from ledger.tenancy import tenancy
from reviews import queries
from reviews.checks import catalogue
from reviews.checks.interface import CheckFailed, SystemAccess
from reviews.models import Run
from reviews.operations import cases, observations, schedules
from reviews.rules import observe, reconcile
from reviews.rules import verification as rules
from reviews.rules.facts import Facts, Failure, Inputs
from reviews.rules.reading import Reading, restored, shown
from reviews.rules.reconcile import Verdict
from reviews.rules.recovery import Decision
from reviews.rules.steps import Step

READ_TIMEOUT_S = 10.0
RECHECKED = frozenset({State.RECONCILED_SUCCESS, State.FAILED})


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be read for one action, and everything the check needs; made in one transaction, used in none."""

    tenant_id: UUID
    action_id: UUID
    contract: Contract
    access: SystemAccess | None
    missing: str
    bindings: dict[str, Any]


def take_reading(*, tenant_id: UUID, action_id: UUID, clock: Callable[[], datetime]) -> bool:
    """Read the target before the action runs and put the reading on record; whether it could be read.

    If we crash before the commit, the wish still stands and the next tick takes the reading.
    """
    with tenancy(tenant_id):
        plan = planned(tenant_id, action_id)
    at = clock()
    reading, _ = read(plan, at=at)
    if reading is None:
        return False
    with tenancy(tenant_id):
        head = ledger.lock(tenant_id=tenant_id, subject_id=action_id, kind="action")
        if head.state != State.VALIDATED:
            return False
        kept = ledger.seal(
            tenant_id=tenant_id,
            subject_id=action_id,
            purpose="baseline",
            data=masked(orjson.dumps(asdict(reading), default=_plain), plan),
            media_type="application/json",
            source=reading.source,
            at=at,
        )
        happening = ledger.Happening(
            kind="reading_taken", detail={"pointer": str(kept.pointer), "source": reading.source}, evidence=(kept,)
        )
        ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    return True


def verify(*, tenant_id: UUID, action_id: UUID, clock: Callable[[], datetime]) -> str | None:
    """One verification run of one action; returns the state after, or None when there was nothing to verify.

    If we crash during the reading, the claim on the schedule row runs out and the action is read again. If we crash
    after the commit, the row has already moved on.
    """
    with tenancy(tenant_id):
        plan = _plan(tenant_id, action_id)
    if plan is None:
        schedules.settle(action_id=action_id)
        return None
    at = clock()
    reading, failure = read(plan, at=at)
    with tenancy(tenant_id):
        return _conclude(plan, reading, failure, at=at)


def _plan(tenant_id: UUID, action_id: UUID) -> Plan | None:
    action = record.action(tenant_id, action_id)
    if action is None or State(action.state) not in rules.VERIFIABLE_IN or action.settled:
        return None
    return planned(tenant_id, action_id)


def planned(tenant_id: UUID, action_id: UUID) -> Plan:
    action = record.action(tenant_id, action_id)
    assert action is not None
    row = record.contract_by_digest(tenant_id, action.contract_digest)
    assert row is not None
    contract = contracts.stored(bytes(row.document), expected_digest=row.digest)
    access, missing = _access(tenant_id, contract)
    entry = record.entry(tenant_id, action_id, action.seq) or {}
    bindings = {
        "si": _intended(entry),
        "sr": observations.payload_of(tenant_id, action.payload_pointer),
        "so": observe.bindings(observations.telling(tenant_id, action_id, contract)),
        "scope": _scope(tenant_id, action, entry["timestamps"]["executed_at"]),
        "pre": shown(baseline_of(tenant_id, action_id), contract.required_effects),
        "sa": {},
    }
    return Plan(
        tenant_id=tenant_id,
        action_id=action_id,
        contract=contract,
        access=access,
        missing=missing,
        bindings=bindings,
    )


def _intended(entry: dict[str, Any]) -> dict[str, Any]:
    outcome = entry.get("intended_outcome", {})
    return {"target_resource": outcome.get("target_resource", ""), "predicates": outcome.get("expected_predicates", [])}


def _scope(tenant_id: UUID, action: Any, executed_at: str | None) -> dict[str, Any]:
    kept = record.idempotency(tenant_id, action.id)
    return {
        "tenant": record.tenant_by_id(tenant_id).slug,
        "principal": action.agent,
        "action_id": str(action.id),
        "target": action.target,
        "trace_id": action.trace_id,
        "executed_at": executed_at or "",
        **({"idempotency_key": kept.key} if kept else {}),
    }


def _access(tenant_id: UUID, contract: Contract) -> tuple[SystemAccess | None, str]:
    """The way into the system that the contract names; the credential is a file, never a column."""
    if contract.verification is None:
        return None, ""
    system = record.system(tenant_id, contract.verification.system)
    if system is None:
        return None, f"The system {contract.verification.system} is not registered."
    slug = record.tenant_by_id(tenant_id).slug
    path = settings.COUNTERFOIL_SECRETS_DIR / "systems" / slug / f"{system.name}.json"
    try:
        credential = json.loads(path.read_text())
    except (OSError, ValueError):
        return None, f"There is no credential for the system {system.name}."
    access = SystemAccess(
        name=system.name, pattern=system.pattern, settings=dict(system.settings), credential=credential
    )
    return access, ""


def read(plan: Plan, *, at: datetime) -> tuple[Reading | None, Failure | None]:
    verification = plan.contract.verification
    if verification is None:
        return None, None
    if plan.access is None:
        # Nobody has set this up yet: that can be mended, so the action waits for it instead of being given up.
        return None, Failure(plan.missing, retryable=True)
    try:
        check = catalogue.check_for(verification.pattern)
        reading = check.read(
            system=plan.access,
            verification=dict(verification.document),
            bindings=plan.bindings,
            at=at,
            timeout_s=READ_TIMEOUT_S,
        )
    except Refused as refused:
        # The plug-in is gone or broken since the contract was registered; that can be mended as well.
        return None, Failure(refused.detail, retryable=True)
    except CheckFailed as failed:
        return None, Failure(failed.reason, retryable=failed.retryable, indicators=tuple(failed.indicators))
    return reading, None


def _conclude(plan: Plan, reading: Reading | None, failure: Failure | None, *, at: datetime) -> str | None:
    head = ledger.lock(tenant_id=plan.tenant_id, subject_id=plan.action_id, kind="action")
    action = record.action(plan.tenant_id, plan.action_id)
    row = queries.scheduled(plan.action_id)
    if action is None or head.entry is None or State(head.state) not in rules.VERIFIABLE_IN or action.settled:
        schedules.settle(action_id=plan.action_id)
        return None
    pointer = uuid4()
    inputs = inputs_of(plan, action, head, row, reading, failure, pointer, at=at)
    outcome = rules.run(inputs)
    if outcome.steps or (row is not None and row.readings == 0):
        kept = keep(plan, inputs, outcome.verdict, outcome.decision, outcome.steps, pointer, at=at)
        head = _append(head, outcome, kept, at=at)
    _follow(plan, action, outcome, at=at)
    return head.state


def inputs_of(
    plan: Plan,
    action: Any,
    head: ledger.Head,
    row: Any,
    reading: Reading | None,
    failure: Failure | None,
    pointer: UUID,
    *,
    at: datetime,
) -> Inputs:
    assert head.entry is not None
    facts = Facts.of(plan.contract)
    opened_at = row.opened_at if row is not None else at
    kept = record.idempotency(plan.tenant_id, plan.action_id)
    own = set(plan.contract.predicates)
    return Inputs(
        state=State(head.state),
        facts=facts,
        entry=head.entry,
        target_resource=action.target,
        horizon_at=action.horizon_at or at,
        sla_at=opened_at + timedelta(seconds=facts.polling.sla_s),
        at=at,
        attempts=row.readings if row is not None else 0,
        seed=str(plan.action_id),
        si=plan.bindings["si"],
        sr=plan.bindings["sr"],
        scope=plan.bindings["scope"],
        observation=observations.telling(plan.tenant_id, plan.action_id, plan.contract),
        baseline=baseline_of(plan.tenant_id, plan.action_id),
        readings=(reading,) if reading is not None else (),
        failure=failure,
        added_predicates=tuple(
            text for text in head.entry["intended_outcome"]["expected_predicates"] if text not in own
        ),
        idempotency_status=kept.status if kept else None,
        query_pointer=f"{pointer}#query",
        state_pointer=str(pointer),
    )


def baseline_of(tenant_id: UUID, action_id: UUID) -> Reading | None:
    """The reading that was taken before the action ran, where one was wanted (R-RC-09)."""
    taken = [detail for kind, _, detail in record.readings(tenant_id, action_id) if kind == "reading_taken"]
    data = record.opened(tenant_id, UUID(taken[-1]["pointer"])) if taken else None
    return restored(orjson.loads(data)) if data is not None else None


def keep(
    plan: Plan,
    inputs: Inputs,
    verdict: Verdict,
    decision: Decision,
    steps: tuple[Step, ...],
    pointer: UUID,
    *,
    at: datetime,
) -> ledger.Sealed:
    """The run's evidence: what was read, over which layers, with each predicate's result, and what was decided."""
    reading = inputs.readings[0] if inputs.readings else None
    document = {
        "layers": _shown(plan, reconcile.bindings(inputs, reading)),
        "readings": [asdict(each) for each in inputs.readings],
        "failure": asdict(inputs.failure) if inputs.failure else None,
        "verdict": asdict(verdict),
        "decision": asdict(decision),
        "steps": [{"state": str(step.state), "kind": step.kind, "reason": step.reason} for step in steps],
        "horizon_at": inputs.horizon_at,
        "sla_at": inputs.sla_at,
    }
    sealed = ledger.seal(
        tenant_id=plan.tenant_id,
        subject_id=plan.action_id,
        purpose="readback",
        data=masked(orjson.dumps(document, default=_plain), plan),
        media_type="application/json",
        source=reading.source if reading else "none",
        at=at,
        pointer=pointer,
    )
    _number(plan, reading, verdict, decision, pointer, at=at)
    return sealed


def _number(
    plan: Plan, reading: Reading | None, verdict: Verdict, decision: Decision, pointer: UUID, *, at: datetime
) -> None:
    """The run in codes, for lists; what it says is behind the pointer."""
    number = len(queries.runs_of(plan.tenant_id, plan.action_id)) + 1
    Run.objects.create(
        tenant_id=plan.tenant_id,
        id=ledger.new_id(at),
        action_id=plan.action_id,
        number=number,
        source=(reading.source if reading else "")[:200],
        consistency=str(reading.consistency) if reading else "",
        freshness=(reading.freshness if reading else "")[:200],
        result=str(verdict.result),
        discrepancy=str(verdict.discrepancy or ""),
        recovery_row=decision.row or "",
        recovery_decision=(decision.text or "")[:48],
        pointer=pointer,
        at=at,
    )


def _shown(plan: Plan, layers: dict[str, Any]) -> dict[str, Any]:
    return {name: dict(values) for name, values in layers.items()}


def masked(data: bytes, plan: Plan) -> bytes:
    # The key that repeats a mutation is a secret: evidence names it by its hash's beginning only (R-EX-16).
    key = plan.bindings["scope"].get("idempotency_key")
    return data.replace(key.encode(), b"(idempotency key)") if key else data


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return str(value)


def _append(head: ledger.Head, outcome: rules.Outcome, kept: ledger.Sealed, *, at: datetime) -> ledger.Head:
    for number, step in enumerate(outcome.steps):
        head = ledger.append(head, _happening(step, number, outcome, kept), actor=ledger.SYSTEM, at=at)
    return head


def _happening(step: Step, number: int, outcome: rules.Outcome, kept: ledger.Sealed) -> ledger.Happening:
    decision = outcome.decision
    view: dict[str, Any] = {"settled": outcome.settled}
    if decision.row is not None:
        view["recovery_row"] = decision.row
    return ledger.Happening(
        kind=step.kind,
        to=str(step.state) if step.moves else None,
        grounds=step.grounds,
        changes=step.entry,
        detail={"reason": step.reason, "recovery_row": decision.row, "run": str(kept.pointer)},
        # The bytes are committed to once; later events of the same run point to them.
        evidence=(kept,) if number == 0 else (),
        view=view,
    )


def _follow(plan: Plan, action: Any, outcome: rules.Outcome, *, at: datetime) -> None:
    tenant_id, action_id = plan.tenant_id, plan.action_id
    if outcome.idempotency_status is not None:
        ledger.set_idempotency(tenant_id=tenant_id, action_id=action_id, status=outcome.idempotency_status, at=at)
    if outcome.next_read_at is not None:
        schedules.read_again(action_id=action_id, due_at=outcome.next_read_at)
    else:
        schedules.settle(action_id=action_id)
        plan_recheck(plan, outcome.state, number=0, at=at)
    for target in outcome.freeze:
        cases.freeze_target(tenant_id=tenant_id, target=target, action_id=action_id, at=at)
    if outcome.incident is not None:
        cases.open_incident(tenant_id=tenant_id, action=action, kind=outcome.incident, outcome=outcome, at=at)
    if outcome.case:
        cases.open_case(tenant_id=tenant_id, action_id=action_id, reason=outcome.decision.text or "HELD", at=at)


def plan_recheck(plan: Plan, state: State, *, number: int, at: datetime) -> None:
    """Schedule the contract's recheck of that number, counted from zero, if there is one for a settled action."""
    delays = plan.contract.verification.recheck_after if plan.contract.verification else ()
    if state in RECHECKED and number < len(delays):
        before = delays[number - 1] if number else timedelta(0)
        due_at = at + delays[number] - before
        schedules.schedule_recheck(
            tenant_id=plan.tenant_id, action_id=plan.action_id, due_at=due_at, number=number, at=at
        )
