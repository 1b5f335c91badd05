"""Claims: made, read by the workers as actions are, and settled by what the system of record shows.

A claim is put on the schedule in the transaction that records it. Its readings take the places of the system's lane,
count against its limits and its budget, and are concluded by `conclude_claim` under the claim's lock. If we crash
before that commit, the row of the schedule is due again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules import expressions, policies
from ledger.catalogue.rules.policies import DecidingPolicy, policy_context
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.canonical import canonical, parse
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound
from reviews.cases.operations import cases
from reviews.checks import catalogue
from reviews.claims import queries
from reviews.claims.rules import claims as rules
from reviews.claims.rules.claims import MISMATCHES, ClaimCircumstances, ClaimRequest, ClaimState
from reviews.models import Case, UngatedClaim
from reviews.readback.operations import schedules, work_queue
from reviews.readback.operations.plans import SourcePlan, SourceQuery, access_to
from reviews.readback.operations.readings import SourceReadings
from reviews.readback.operations.schedules import NextReading
from reviews.reconciliation.rules import findings
from reviews.reconciliation.rules.facts import ReadPacing, RunInputs
from reviews.reconciliation.rules.reading import serialize_readings, to_json_default
from reviews.reconciliation.rules.reconcile import reconcile
from reviews.reconciliation.rules.verdict import Verdict

if TYPE_CHECKING:
    from ledger.models import System
    from reviews.readback.operations.claimed_batches import DueReading
from reviews.verification.operations.rechecks import MOST_TRIES, TRY_AGAIN

CLAIM_MISMATCH = "CLAIM_MISMATCH"


@dataclass(frozen=True, kw_only=True)
class ClaimPlan(SourcePlan):
    """The reading of one claim."""

    claim: UngatedClaim
    request: ClaimRequest
    policy: DecidingPolicy


def make_claim(*, tenant_id: UUID, claim: ClaimRequest, by: ledger.Actor, at: datetime) -> UngatedClaim:
    """Record a claim and have it read now; one whose effect cannot be located, or whose fields are unknown, is
    refused.
    """
    system = catalogue_queries.system(tenant_id, claim.system)
    if system is None:
        raise NotFound("System")
    located = _locate(claim, system)
    claim_id = ledger.new_id(at)
    kept = ledger.store_evidence(
        tenant_id=tenant_id,
        subject_id=claim_id,
        purpose="claim",
        data=canonical(located.document()),
        media_type="application/json",
        source="claim",
        at=at,
        is_new=True,
    )
    row = UngatedClaim(
        tenant_id=tenant_id,
        id=claim_id,
        system_id=system.id,
        system=system.name,
        effect=claim.effect,
        operation=claim.operation,
        target=claim.target,
        said_by=claim.said_by,
        made_by=by.id,
        document=kept.pointer,
        made_at=at,
        state=str(ClaimState.OPEN),
        reached_by="claim_made",
        changed_at=at,
    )
    row.save(force_insert=True)
    names = ("system", "effect", "operation", "target", "said_by")
    detail = {name: getattr(row, name) for name in names} | {"system_id": str(system.id), "document": str(kept.pointer)}
    made = ledger.NewEvent(kind="claim_made", to=str(ClaimState.OPEN), detail=detail, evidence=(kept,))
    ledger.append(ledger.SubjectHead(tenant_id=tenant_id, id=claim_id, kind="claim"), made, actor=by, at=at)
    _schedule(row, due_at=at, at=at)
    return row


def _locate(claim: ClaimRequest, system: System) -> ClaimRequest:
    """The claim with its lookup, checked as a contract's is at registration."""
    if not claim.expected and claim.lookup is None:
        raise rules.NothingExpected
    rules.check_expected(claim.expected)
    check = catalogue.check_for(system.pattern)
    lookup = claim.lookup
    if lookup is None:
        locate = getattr(check, "locate", None)
        named = {"kind": claim.effect, "operation": claim.operation, "target": claim.target}
        lookup = locate(**named, settings=system.settings) if locate is not None else None
    if lookup is None:
        raise rules.NotLocated
    located = replace(claim, lookup=lookup)
    verification = rules.claim_contract(located, pattern=system.pattern).verification
    assert verification is not None
    faults = check.validate(dict(verification.document))
    if faults:
        raise rules.NotLocated(f"The lookup cannot be used: {faults[0]}")
    typed: dict[str, Any] = dict.fromkeys(expressions.VARIABLES) | {"sa": check.typed_fields(verification.lookup)}
    for predicate in verification.predicates:
        try:
            expressions.compile(predicate, typed)
        except expressions.BadExpression as fault:
            raise rules.BadExpectation(fault.detail) from None
    return located


def order_reading(*, tenant_id: UUID, claim_id: UUID, by: ledger.Actor, at: datetime) -> UngatedClaim:
    """Have a claim read again now, however it stands."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=claim_id, kind="claim")
    row = queries.claim(tenant_id, claim_id)
    if row is None or (by.kind == "agent" and row.made_by != by.id):
        raise NotFound("Claim")
    ledger.append(head, ledger.NewEvent(kind="claim_reading_ordered"), actor=by, at=at)
    _schedule(row, due_at=at, at=at, recheck=None if row.state == ClaimState.OPEN else 0)
    return row


def _schedule(row: UngatedClaim, *, due_at: datetime, at: datetime, recheck: int | None = None) -> None:
    system = catalogue_queries.system_by_id(row.tenant_id, row.system_id)
    limits = [] if system is None else [(system.id, system.settings)]
    place = work_queue.lane_of(row.tenant_id, rules.CLASS.rank, limits)
    schedules.schedule_claim(row.tenant_id, row.id, place, due_at=due_at, recheck=recheck, at=at)


def schedule_missing(*, at: datetime) -> int:
    """Schedule every open claim that has no row there; returns how many."""
    adopted = 0
    for tenant_id in tenants_with(Work.UNSCHEDULED_CLAIMS, at=at):
        with tenancy(tenant_id):
            for claim_id in schedules.find_unscheduled(tenant_id, queries.open_claims(tenant_id)):
                row = queries.claim(tenant_id, claim_id)
                if row is not None:
                    _schedule(row, due_at=at, at=at)
                    adopted += 1
    return adopted


def claim_plans(tenant_id: UUID, claim_ids: list[UUID]) -> dict[UUID, ClaimPlan]:
    """The plans for these claims, by claim; one that does not exist or was erased has none."""
    rows = queries.claims_by_id(tenant_id, claim_ids)
    if not rows:
        return {}
    systems = catalogue_queries.systems_named(tenant_id, {row.system for row in rows})
    slug = events.tenant_by_id(tenant_id).slug
    policy = catalogue_queries.deciding_policies(tenant_id, "verification").in_force
    found = {}
    for row in rows:
        document = queries.claim_document(row)
        if document:
            found[row.id] = _plan(row, rules.read_request(document), systems.get(row.system), slug, policy)
    return found


def _plan(
    row: UngatedClaim, request: ClaimRequest, system: System | None, slug: str, policy: DecidingPolicy
) -> ClaimPlan:
    access, missing = access_to(system, slug, row.system)
    contract = rules.claim_contract(request, pattern=system.pattern if system is not None else "")
    assert contract.verification is not None
    question = SourceQuery(
        name="",
        pattern=contract.verification.pattern,
        document=contract.verification.document,
        access=access,
        missing=missing,
    )
    return ClaimPlan(
        tenant_id=row.tenant_id,
        contract=contract,
        questions=(question,),
        bindings=rules.claim_bindings(request, claim_id=str(row.id), tenant=slug),
        claim=row,
        request=request,
        policy=policy,
    )


def conclude_claim(
    plan: ClaimPlan, taken: SourceReadings, due: DueReading, *, pacing: ReadPacing, at: datetime
) -> str | None:
    """Judge a reading under the claim's lock, and record what it changes; return the state after."""
    head = ledger.lock_subject(tenant_id=plan.tenant_id, subject_id=plan.claim.id, kind="claim")
    row = queries.claim(plan.tenant_id, plan.claim.id)
    assert row is not None
    numbers = policies.verification_numbers(parse(bytes(plan.policy.document)))
    now = ClaimCircumstances(
        claim_id=str(row.id),
        made_at=row.made_at,
        opened_at=due.opened_at,
        at=at,
        attempts=due.readings,
        pacing=pacing,
    )
    inputs = rules.claim_inputs(plan.request, plan.contract, numbers, plan.bindings, taken.readings, taken.failure, now)
    verdict = reconcile(inputs)
    if due.recheck is not None and not verdict.decisive and due.readings + 1 < MOST_TRIES:
        again = NextReading(action_id=row.id, due_at=at + TRY_AGAIN, began_at=at)
        schedules.reschedule(row.tenant_id, again)
        return row.state
    step = rules.claim_step(ClaimState(row.state), verdict)
    told = (str(verdict.result), str(verdict.discrepancy or ""))
    if step.kind != "claim_read" or due.recheck is not None or told != (row.result, row.discrepancy):
        _write(plan, row, head, inputs, verdict, step, at=at)
    _follow(plan, row, step, due, inputs, verdict, at=at)
    return str(step.state)


def _write(
    plan: ClaimPlan,
    row: UngatedClaim,
    head: ledger.SubjectHead,
    inputs: RunInputs,
    verdict: Verdict,
    step: rules.ClaimStep,
    *,
    at: datetime,
) -> None:
    """Record a reading; where it settles nothing, the result of the one that settled the claim stays in its row."""
    reading = inputs.readings[0] if inputs.readings else None
    kept = ledger.store_evidence(
        tenant_id=row.tenant_id,
        subject_id=row.id,
        purpose="readback",
        data=_run_document(plan, inputs, verdict),
        media_type="application/json",
        source=reading.source if reading else "none",
        at=at,
    )
    is_new = step.state == ClaimState.OPEN or step.kind != "claim_read" or verdict.decisive
    changes: dict[str, Any] = {}
    if is_new:
        changes = {
            "result": str(verdict.result),
            "discrepancy": str(verdict.discrepancy or ""),
            "pointer": str(kept.pointer),
            "read_at": instant(at),
        }
    moved = step.state != row.state
    if moved:
        changes |= {"reached_by": step.kind, "changed_at": instant(at)}
    case_id = row.case_id
    if moved and step.state in MISMATCHES:
        case_id = _open_case(row, str(verdict.discrepancy or ""), at=at)
        changes["case_id"] = str(case_id)
    event = ledger.NewEvent(
        kind=step.kind,
        to=str(step.state),
        detail={"reason": verdict.reason, "run": str(kept.pointer), "row": changes},
        digests={"verification": plan.policy.digest},
        evidence=(kept,),
    )
    ledger.append(head, event, actor=ledger.SYSTEM, at=at)
    if changes:
        UngatedClaim.objects.filter(tenant_id=row.tenant_id, id=row.id).update(state=str(step.state), **changes)


def _run_document(plan: ClaimPlan, inputs: RunInputs, verdict: Verdict) -> bytes:
    """The evidence of a run: what was asked, what was read, and how it was judged."""
    readings, _ = serialize_readings(inputs.readings)
    reading = inputs.readings[0] if inputs.readings else None
    layers: Mapping[str, Mapping[str, Any]] = findings.run_bindings(inputs, reading)
    document = {
        "contract": orjson.Fragment(plan.contract.document),
        "layers": {name: dict(values) for name, values in layers.items()},
        "readings": orjson.Fragment(readings),
        "failure": inputs.failure,
        "verdict": verdict,
        "decided_under": policy_context([plan.policy]),
        "horizon_at": inputs.horizon_at,
        "sla_at": inputs.sla_at,
        "at": inputs.at,
        "attempts": inputs.attempts,
    }
    return orjson.dumps(document, default=to_json_default)


def _follow(
    plan: ClaimPlan,
    row: UngatedClaim,
    step: rules.ClaimStep,
    due: DueReading,
    inputs: RunInputs,
    verdict: Verdict,
    *,
    at: datetime,
) -> None:
    """Plan the next reading: soon while the claim is open, later by the delays of rule 4 once it is settled."""
    if step.state is ClaimState.OPEN:
        again = NextReading(
            action_id=row.id,
            due_at=rules.next_reading(inputs, verdict),
            began_at=at,
            asked=inputs.pacing.asked,
        )
        schedules.reschedule(row.tenant_id, again)
        return
    verification = plan.contract.verification
    assert verification is not None
    delays, number = verification.recheck_after, 0 if due.recheck is None else due.recheck + 1
    schedules.end_schedule(tenant_id=row.tenant_id, action_id=row.id)
    if step.kind != "claim_read":
        # What changed is looked at again from the start.
        number = 0
    if number < len(delays):
        before = delays[number - 1] if number else timedelta(0)
        _schedule(row, due_at=at + delays[number] - before, at=at, recheck=number)


def _open_case(row: UngatedClaim, discrepancy: str, *, at: datetime) -> UUID:
    """The case of a claim that does not match: a new one, its own reopened, or the one that is open."""
    if row.case_id is not None:
        cases.reopen_for_claim(row.tenant_id, row.case_id, discrepancy, at=at)
        return row.case_id
    case_id = ledger.new_id(at)
    known = {
        "reason": CLAIM_MISMATCH,
        "discrepancy": discrepancy,
        "side_effect_class": str(rules.CLASS),
        "severity": rules.CLASS.rank,
        "tool": row.effect[:128],
        "target": (row.target or row.operation or row.system)[:512],
    }
    Case.objects.create(tenant_id=row.tenant_id, id=case_id, action_id=None, state="OPEN", opened_at=at, **known)
    happening = ledger.NewEvent(
        kind="case_opened", to="OPEN", detail={**known, "claim_id": str(row.id), "system": row.system}
    )
    ledger.append(
        ledger.SubjectHead(tenant_id=row.tenant_id, id=case_id, kind="case"), happening, actor=ledger.SYSTEM, at=at
    )
    return case_id
