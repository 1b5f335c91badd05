"""Cases: opens, settles and reopens the decisions that people must make, with their freezes and incidents.

A resolution never overwrites an observation: it appends what a person decided, why, and on what evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions, runs
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import registration as book
from ledger.catalogue.rules.effects import Reversibility, SideEffectClass
from ledger.catalogue.rules.lent_lookups import lends_lookup
from ledger.catalogue.rules.remedies import Relation
from ledger.catalogue.rules.targets import target_text
from ledger.db import tenancy
from ledger.people.operations.statements import SignedStatement
from ledger.people.queries import is_same_person
from ledger.people.rules.confirmation import SecondPersonNeeded
from ledger.people.rules.statements import statement_hash
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State
from ledger.record.rules.refusals import AlreadyProposed, NotFound, NothingProposed, ReasonMissing, Refused
from reviews import queries
from reviews.cases.operations import settlements
from reviews.cases.rules import resolutions, runbooks
from reviews.cases.rules.resolutions import HeldAction, Resolution
from reviews.cases.rules.settlements import Act, act_of, check_second, describe_consequence
from reviews.claims import queries as claims_queries
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules.incidents import IncidentKind
from reviews.models import Case
from reviews.observations.operations import ungated_effects
from reviews.readback.operations import schedules
from reviews.reconciliation.rules.difference import describe_correction
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.shown import LastReading, describe_difference
from reviews.recovery.operations import recovery
from reviews.recovery.rules import recovery_table

if TYPE_CHECKING:
    from ledger.catalogue.rules.contract import Contract
    from ledger.models import Action
    from reviews.verification.rules.verification import RunOutcome

CONTRADICTED = "CONTRADICTED"
UNREADABLE = "UNREADABLE"
REOPENED = "REOPENED"
TAKEN_UP = "TAKEN_UP"


class AlreadyResolved(Refused):
    """This case is settled."""

    code = "ALREADY_RESOLVED"


class NotSettled(Refused):
    """Only a settled case can be reopened."""

    code = "NOT_SETTLED"


class ActionStillRunning(Refused):
    """The action is being verified or recovered; the case reopens if a person is needed."""

    code = "STILL_AT_WORK"


class NothingToSettle(Refused):
    """Nothing waits for a person here: the action has ended, or is still being executed, verified or recovered."""

    code = "NOTHING_TO_SETTLE"


class CaseIsOpen(Refused):
    """This action has an open case; settle that one."""

    code = "CASE_OPEN"


def open_case(
    *,
    tenant_id: UUID,
    action_id: UUID,
    reason: str,
    at: datetime,
    discrepancy: str = "",
    by: ledger.Actor = ledger.SYSTEM,
    why: str = "",
) -> Case | None:
    """Open the case of an action, unless one is open; the action must be locked by the caller.

    Evidence that contradicts what a case settled reopens that case: its thread and its evidence belong together.
    `why` is what a person gave as their reason to open it.
    """
    said = {"why": why} if why else {}
    known = queries.case_of(tenant_id, action_id)
    if known is not None and known.state != "RESOLVED":
        return None
    if known is not None and reason == CONTRADICTED:
        return _take_up(known, why="A later reading contradicts what was settled.", found=discrepancy, at=at)
    action = actions.action(tenant_id, action_id)
    assert action is not None
    row = _new(action, reason, discrepancy, at=at)
    ledger.append(
        ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="case"),
        ledger.NewEvent(
            kind="case_opened",
            to="OPEN",
            detail={
                "action_id": str(action_id),
                "reason": reason,
                "discrepancy": row.discrepancy,
                "side_effect_class": row.side_effect_class,
                "severity": row.severity,
                "tool": row.tool,
                "target": row.target,
                **said,
            },
        ),
        actor=by,
        at=at,
    )
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    ledger.append(
        head,
        ledger.NewEvent(
            kind="case_opened",
            changes={"recovery": {"review_id": str(row.id)}},
            detail={"case_id": str(row.id), "reason": reason, **said},
        ),
        actor=by,
        at=at,
    )
    incidents_operations.add_case(tenant_id=tenant_id, action_id=action_id, case_id=row.id, at=at)
    return row


def take_up(*, tenant_id: UUID, action_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> Case:
    """Open the case of an action that only a person can advance, because an operator wants it settled."""
    if not reason.strip():
        raise ReasonMissing
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    action = actions.action(tenant_id, action_id)
    assert action is not None
    if not resolutions.waits_for_a_person(State(head.state), settled=action.settled):
        raise NothingToSettle
    row = open_case(tenant_id=tenant_id, action_id=action_id, reason=TAKEN_UP, by=by, why=reason, at=at)
    if row is None:
        raise CaseIsOpen
    return row


def reopen(*, tenant_id: UUID, case_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> None:
    """Reopen a settled case because a person doubts it (C-03).

    The doubt is on record with the action as a contradiction is: until the case is settled again, nobody is told
    that it was completed, and a repeat is refused.
    """
    _, case = lock_case(tenant_id, case_id)
    if case.state != "RESOLVED":
        raise NotSettled
    if not reason.strip():
        raise ReasonMissing
    if case.action_id is None:
        _take_up(case, why=reason, found="", by=by, at=at)
        return
    action = actions.action(tenant_id, queries.action_id_of(case))
    assert action is not None
    other = queries.case_of(tenant_id, queries.action_id_of(case))
    if other is not None and other.state != "RESOLVED":
        raise ActionStillRunning("Another case of this action is open; settle that one.")
    if not resolutions.can_be_reopened(State(action.state)):
        raise ActionStillRunning
    if action.state in resolutions.SETTLED:
        head = ledger.lock_subject(tenant_id=tenant_id, subject_id=queries.action_id_of(case), kind="action")
        doubted = ledger.NewEvent(
            kind="doubted", detail={"reason": reason, "case_id": str(case_id)}, view={"contradicted": True}
        )
        ledger.append(head, doubted, actor=by, at=at)
    _take_up(case, why=reason, found="", by=by, at=at)


def reopen_for_claim(tenant_id: UUID, case_id: UUID, found: str, *, at: datetime) -> None:
    """Reopen the settled case of a claim that a later reading does not bear out; one that is open stays as it is."""
    _, case = lock_case(tenant_id, case_id)
    if case.state == "RESOLVED":
        _take_up(case, why="A later reading does not match what was claimed.", found=found, at=at)


def _take_up(case: Case, *, why: str, found: str, by: ledger.Actor = ledger.SYSTEM, at: datetime) -> Case:
    head = ledger.lock_subject(tenant_id=case.tenant_id, subject_id=case.id, kind="case")
    detail = {"reason": why, "discrepancy": found, "settled_as": case.resolution}
    ledger.append(head, ledger.NewEvent(kind="case_reopened", to="OPEN", detail=detail), actor=by, at=at)
    changed: dict[str, Any] = {
        "state": "OPEN",
        "reason": CONTRADICTED if by is ledger.SYSTEM else REOPENED,
        "discrepancy": found or case.discrepancy,
        "resolution": "",
        "resolved_at": None,
        **NOT_PROPOSED,
        "snoozed_until": None,
        "snooze_reason": "",
    }
    Case.objects.filter(tenant_id=case.tenant_id, id=case.id).update(**changed)
    for name, value in changed.items():
        setattr(case, name, value)
    if case.action_id is not None:
        incidents_operations.add_case(tenant_id=case.tenant_id, action_id=case.action_id, case_id=case.id, at=at)
    return case


def _new(action: Action, reason: str, discrepancy: str, *, at: datetime) -> Case:
    return Case.objects.create(
        tenant_id=action.tenant_id,
        id=ledger.new_id(at),
        action_id=action.id,
        state="OPEN",
        reason=reason[:48],
        discrepancy=discrepancy or action.discrepancy,
        side_effect_class=action.side_effect_class,
        severity=SideEffectClass(action.side_effect_class).rank,
        tool=action.tool,
        target=action.target,
        opened_at=at,
    )


def open_missing_cases(*, at: datetime) -> int:
    """Open a case for every held action without one (the sweep); returns how many."""
    opened = 0
    for tenant_id in tenants_with(Work.HELD_ACTIONS, at=at):
        with tenancy(tenant_id):
            held = actions.actions_in_review(tenant_id)
            known = set(
                Case.objects.filter(tenant_id=tenant_id, action_id__in=held)
                .exclude(state="RESOLVED")
                .values_list("action_id", flat=True)
            )
            for action_id in held:
                if action_id not in known:
                    opened += open_held_case(tenant_id=tenant_id, action_id=action_id, at=at)
    return opened


def open_held_case(*, tenant_id: UUID, action_id: UUID, at: datetime) -> bool:
    """Open the case of an action that was held outside a verification run; a security event also gets an incident."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    if head.state != State.REVIEW_REQUIRED:
        return False
    action = actions.action(tenant_id, action_id)
    assert action is not None
    opened = open_case(tenant_id=tenant_id, action_id=action_id, reason=action.recovery_decision or "HELD", at=at)
    if opened is not None and action.recovery_row == "RT-21":
        incidents_operations.open_for_action(
            action=action,
            kind=IncidentKind.SECURITY,
            title=f"An executor presented another payload than the approved one ({action.tool})",
            runbook="token-mismatch",
            at=at,
        )
    return opened is not None


def freeze_target(*, tenant_id: UUID, target: str, action: Action, outcome: RunOutcome, at: datetime) -> None:
    """Freeze a target because of the verification of an action; leave a frozen target as it is."""
    if outcome.verdict.discrepancy is None:
        reason = f"Verification did not settle the outcome: {action.tool} on {target_text(action.target)}."
    else:
        reason = f"{_finding_title(action, outcome)}, found by verification."
    try:
        book.place_freeze(tenant_id=tenant_id, scope="target", value=target, reason=reason, actor=ledger.SYSTEM, at=at)
    except book.AlreadyFrozen:
        return


def open_incident(*, tenant_id: UUID, action: Action, kind: str, outcome: RunOutcome, at: datetime) -> None:
    """Open an operations or security incident about a run's findings, with the freezes that the run placed (C-18)."""
    book = runbooks.for_case(
        reason="",
        discrepancy=str(outcome.verdict.discrepancy or ""),
        trigger=recovery_table.trigger_of(outcome.decision.row),
    )
    incidents_operations.open_for_action(
        action=action,
        kind=IncidentKind(kind),
        title=_finding_title(action, outcome),
        targets=outcome.freeze,
        runbook=book.key,
        at=at,
    )


def _finding_title(action: Action, outcome: RunOutcome) -> str:
    found = str(outcome.verdict.discrepancy or "UNKNOWN").replace("_", " ").lower()
    return f"{found.capitalize()}: {action.tool} on {target_text(action.target)}"


def held_action(case: Case) -> HeldAction:
    """The action of a case, as far as the rules of resolutions need it."""
    if case.action_id is None:
        is_claim = claims_queries.claim_of_case(case.tenant_id, case.id) is not None
        return resolutions.CLAIM if is_claim else resolutions.UNGATED
    action = actions.action(case.tenant_id, queries.action_id_of(case))
    assert action is not None
    lookup = _lookup_to_connect(action)
    entry = events.entry(case.tenant_id, action.id, action.seq) or {}
    return HeldAction(
        state=State(action.state),
        executed=action.attempt_count > 0,
        reading=queries.last_reading(action, entry),
        verifiable=lookup is not None or _verifiable(action),
        lookup=lookup.version if lookup is not None else "",
        discrepancy=action.discrepancy,
        contradicted=action.contradicted,
        side_effect_class=SideEffectClass(action.side_effect_class),
        reversibility=Reversibility(action.reversibility),
        remedies=_remedies(action),
        correction=_describe_correction(action),
        taken_back=action.reversed,
        horizon_at=action.horizon_at,
        to_reverse=action.state == State.RECONCILED_SUCCESS and case.discrepancy == Discrepancy.COMPENSATION_REQUIRED,
    )


def _remedies(action: Action) -> frozenset[Relation]:
    """The recovery actions that can be ordered for an action; a recovery action is not recovered itself."""
    if action.relation or runs.has_open_order(action.tenant_id, action.id):
        return frozenset()
    planned = recovery.manual_orders(action)
    return frozenset(relation for relation, (orders, _) in planned.items() if not isinstance(orders, str))


def _describe_correction(action: Action) -> str:
    """Describe what the correction of an action would do; empty where there can be none, or one is under way."""
    if action.relation or runs.has_open_order(action.tenant_id, action.id):
        return ""
    planned = recovery.correction_for(action)
    if isinstance(planned, str):
        return ""
    run = queries.last_run(action.tenant_id, action.id)
    contract = catalogue_queries.registered_contract(action.tenant_id, action.contract_digest)
    said = describe_difference(queries.run_findings(run), contract) if run is not None else ""
    tools = ", ".join(dict.fromkeys(each.tool for each in planned.orders))
    return f"{describe_correction(planned.difference, said)} with {tools}"


def _verifiable(action: Action) -> bool:
    """Return True if another reading can be conclusive: a settled action is read again only if rechecks read it."""
    read_again = not action.contradicted or action.state in resolutions.RECHECKED
    return read_again and queries.reading_contracts(action.tenant_id, [action])[action.id].contract.verifiable


def _lookup_to_connect(action: Action) -> Contract | None:
    """The version of its tool in force by whose lookup an open action can be read, where its own names none."""
    own = catalogue_queries.registered_contract(action.tenant_id, action.contract_digest)
    if own.verifiable or State(action.state) in resolutions.SETTLED:
        return None
    in_force = catalogue_queries.contracts_in_force(action.tenant_id, [action.tool]).get(action.tool, ())
    for row in in_force[-1:]:
        newest = catalogue_queries.registered_contract(action.tenant_id, row.digest)
        return newest if lends_lookup(newest, own) else None
    return None


def attach_evidence(
    *, tenant_id: UUID, action_id: UUID, data: bytes, media_type: str, by: ledger.Actor, at: datetime
) -> UUID:
    """Store a person's evidence about an action and put its commitment on record."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    kept = ledger.store_evidence(
        tenant_id=tenant_id,
        subject_id=action_id,
        purpose="attachment",
        data=data,
        media_type=media_type,
        source="person",
        at=at,
    )
    happening = ledger.NewEvent(kind="evidence_added", detail={"pointer": str(kept.pointer)}, evidence=(kept,))
    ledger.append(head, happening, actor=by, at=at)
    return kept.pointer


def resolve(
    *,
    tenant_id: UUID,
    case_id: UUID,
    resolution: Resolution,
    reason: str,
    evidence: list[str],
    by: ledger.Actor,
    proof: settlements.SettlementProof | None = None,
    at: datetime,
) -> str:
    """Decide a case, or propose the decision where a second person must confirm; returns the case's state after.

    Without a `proof` it is the session's alone, which is enough to look again and to acknowledge.
    """
    head, case = lock_open_case(tenant_id, case_id)
    held = held_action(case)
    act, made = _decide(case, held, resolution, reason, evidence, by, proof, at=at)
    if act is Act.PROPOSE:
        return _propose(head, case, resolution, reason, evidence, by, made, at=at)
    ending = _Ending(resolution=resolution, reason=reason, evidence=evidence, by=by, made=made, reading=held.reading)
    if case.action_id is None:
        kept = settlements.store_evidence(tenant_id, case_id, made.pieces, at=at)
        return ungated_effects.resolve_ungated_case(head, case, detail=ending.detail(case), kept=kept, by=by, at=at)
    return _carry_out(head, case, held, ending, at=at)


def draft_statement(
    *,
    tenant_id: UUID,
    case_id: UUID,
    resolution: Resolution | None,
    reason: str,
    evidence: list[str],
    by: ledger.Actor,
    proof: settlements.SettlementProof,
    at: datetime,
) -> SignedStatement:
    """Return the statement for a passkey to sign, of a settlement that would count now; without a resolution, of the
    confirmation of the proposal. Refuse whatever the settlement would refuse; record nothing.
    """
    _, case = lock_open_case(tenant_id, case_id)
    if resolution is None:
        return _confirm_proposal(case, by, proof, at=at).made
    return _decide(case, held_action(case), resolution, reason, evidence, by, proof, at=at)[1]


def _decide(
    case: Case,
    held: HeldAction,
    resolution: Resolution,
    reason: str,
    evidence: list[str],
    by: ledger.Actor,
    proof: settlements.SettlementProof | None,
    *,
    at: datetime,
) -> tuple[Act, SignedStatement]:
    """Return the first person's act on a case and its statement; otherwise raise the refusal."""
    if case.state == "AWAITING_SECOND":
        # Else the second person could confirm something else than they have read.
        raise AlreadyProposed(
            "A resolution is waiting for a second approver; confirm or return it before proposing another."
        )
    resolutions.check_resolution(held, resolution, reason=reason, evidence=evidence)
    act = act_of(held, resolution)
    made = settlements.accept_statement(
        case,
        held,
        act=act,
        resolution=resolution,
        reason=reason,
        evidence=evidence,
        by=by,
        proof=proof or settlements.SettlementProof(person=str(by.id)),
        at=at,
    )
    return act, made


def _propose(
    head: ledger.SubjectHead,
    case: Case,
    resolution: Resolution,
    reason: str,
    evidence: list[str],
    by: ledger.Actor,
    made: SignedStatement,
    *,
    at: datetime,
) -> str:
    kept = settlements.store_evidence(case.tenant_id, case.id, made.pieces, at=at)
    said = {"resolution": str(resolution), "reason": reason, "evidence": evidence, **settlements.statement_detail(made)}
    happening = ledger.NewEvent(kind="resolution_proposed", to="AWAITING_SECOND", detail=said, evidence=kept)
    ledger.append(head, happening, actor=by, at=at)
    Case.objects.filter(tenant_id=case.tenant_id, id=case.id).update(
        state="AWAITING_SECOND",
        proposed_resolution=str(resolution),
        proposed_reason=reason,
        proposed_evidence=evidence,
        proposed_by=by.id,
        proposed_statement=kept[0].pointer,
    )
    return "AWAITING_SECOND"


def confirm(
    *,
    tenant_id: UUID,
    case_id: UUID,
    accept: bool,
    by: ledger.Actor,
    proof: settlements.SettlementProof | None = None,
    at: datetime,
) -> str:
    """Confirm a proposed resolution as the second person, or return it, as its proposer also may.

    Sending back needs no proof: what stops a settlement is never made hard.
    """
    head, case = lock_open_case(tenant_id, case_id)
    if case.state != "AWAITING_SECOND":
        raise NothingProposed("Nothing is waiting for a second approver.")
    if not accept:
        ledger.append(head, ledger.NewEvent(kind="resolution_declined", to="OPEN"), actor=by, at=at)
        Case.objects.filter(tenant_id=tenant_id, id=case_id).update(**NOT_PROPOSED, state="OPEN")
        return "OPEN"
    return _carry_out(head, case, held_action(case), _confirm_proposal(case, by, proof, at=at), at=at)


NOT_PROPOSED: dict[str, Any] = {
    "proposed_resolution": "",
    "proposed_reason": "",
    "proposed_evidence": [],
    "proposed_by": None,
    "proposed_statement": None,
}


@dataclass(frozen=True, kw_only=True)
class _Ending:
    """The end of a case: who decides what and why, on the basis of which reading, and who confirmed it.

    `first` is what the first person signed.
    """

    resolution: Resolution
    reason: str
    evidence: list[str]
    by: ledger.Actor
    made: SignedStatement
    reading: LastReading
    second: ledger.Actor | None = None
    first: bytes = b""

    @property
    def actor(self) -> ledger.Actor:
        """The person who carries it out now."""
        return self.second or self.by

    def detail(self, case: Case) -> dict[str, Any]:
        """The detail for the events of the case and of its action."""
        said = {
            "case_id": str(case.id),
            "resolution": str(self.resolution),
            "reason": self.reason,
            "evidence": self.evidence,
            "by": str(self.by.id),
            "confirmed_by": str(self.second.id) if self.second else None,
            "reading": {"shown": str(self.reading.shown), "run": self.reading.run or None},
            **settlements.statement_detail(self.made),
        }
        return said | ({"proposal_hash": statement_hash(self.first)} if self.first else {})


def _confirm_proposal(
    case: Case, by: ledger.Actor, proof: settlements.SettlementProof | None, *, at: datetime
) -> _Ending:
    """The end that was proposed, if this person may confirm exactly that."""
    if case.state != "AWAITING_SECOND":
        raise NothingProposed("Nothing is waiting for a second approver.")
    if is_same_person(case.tenant_id, case.proposed_by, by.id):
        raise SecondPersonNeeded
    held, proof = held_action(case), proof or settlements.SettlementProof(person=str(by.id))
    resolution, evidence = Resolution(case.proposed_resolution), list(case.proposed_evidence)
    resolutions.check_resolution(held, resolution, reason=case.proposed_reason, evidence=evidence)
    first, said = settlements.signed_proposal(case)
    covers = settlements.coverage(case, held)
    check_second(
        said,
        covers,
        resolution=str(resolution),
        consequence=describe_consequence(held, resolution),
        by=str(case.proposed_by),
        person=proof.person,
    )
    assert case.proposed_by is not None
    made = settlements.accept_statement(
        case,
        held,
        act=Act.CONFIRM,
        resolution=resolution,
        reason=case.proposed_reason,
        evidence=evidence,
        over=statement_hash(first),
        by=by,
        proof=proof,
        at=at,
    )
    return _Ending(
        resolution=resolution,
        reason=case.proposed_reason,
        evidence=evidence,
        by=ledger.Actor("person", case.proposed_by),
        made=made,
        reading=held.reading,
        second=by,
        first=first,
    )


def _carry_out(head: ledger.SubjectHead, case: Case, held: HeldAction, ending: _Ending, *, at: datetime) -> str:
    tenant_id, resolution, detail = case.tenant_id, ending.resolution, ending.detail(case)
    connected = _connect_lookup(case) if held.lookup and resolution in resolutions.LOOKS else _NOT_CONNECTED
    detail |= connected.detail
    parts = {"resolution": orjson.dumps(detail), **ending.made.pieces, "proposal": ending.first}
    kept = settlements.store_evidence(tenant_id, queries.action_id_of(case), parts, at=at)
    moves = resolutions.resolution_events(held, resolution, at=at)
    action = _move(case, moves, detail, kept, ending.actor, view=connected.view, at=at)
    action = _order(case, action, resolution, ending.by, at=at)
    settled = actions.action(tenant_id, action.id)
    assert settled is not None
    ledger_orders.unwind_after_failure(settled, action.state, at=at)
    if held.contradicted and resolution in resolutions.LOOKS:
        schedules.schedule_recheck(tenant_id=tenant_id, action_id=action.id, due_at=at, number=99, at=at)
    if action.state == State.PENDING:
        schedules.restart_schedule(tenant_id=tenant_id, action_id=action.id, priority=case.severity, at=at)
    if resolution is Resolution.CORRECT:
        proposed = {"reason": ending.reason, "correction": held.correction}
        ledger.append(head, ledger.NewEvent(kind="correction_ordered", detail=proposed), actor=ending.actor, at=at)
        return case.state
    return _close(head, case, resolution, detail, ending.actor, at=at)


def _close(
    head: ledger.SubjectHead,
    case: Case,
    resolution: Resolution,
    detail: Mapping[str, Any],
    actor: ledger.Actor,
    *,
    at: datetime,
) -> str:
    resolved = ledger.NewEvent(kind="case_resolved", to="RESOLVED", detail=detail)
    ledger.append(head, resolved, actor=actor, at=at)
    Case.objects.filter(tenant_id=case.tenant_id, id=case.id).update(
        state="RESOLVED", resolution=str(resolution), resolved_at=at, snoozed_until=None, snooze_reason=""
    )
    return "RESOLVED"


def end_correction(*, tenant_id: UUID, action_id: UUID, is_verified: bool, reason: str, at: datetime) -> None:
    """Close the case of an action whose correction was verified; else the case stays open and its record says why."""
    case = queries.case_of(tenant_id, action_id)
    if case is None or case.state == "RESOLVED":
        return
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=case.id, kind="case")
    if is_verified:
        detail = {"resolution": str(Resolution.CORRECT), "reason": reason}
        _close(head, case, Resolution.CORRECT, detail, ledger.SYSTEM, at=at)
        return
    ledger.append(
        head, ledger.NewEvent(kind="correction_failed", detail={"reason": reason}), actor=ledger.SYSTEM, at=at
    )


@dataclass(frozen=True, kw_only=True)
class _ConnectedLookup:
    """The detail and the columns for events of an action that was lent a lookup."""

    detail: Mapping[str, Any] = field(default_factory=dict)
    view: Mapping[str, Any] = field(default_factory=dict)


_NOT_CONNECTED = _ConnectedLookup()


def _connect_lookup(case: Case) -> _ConnectedLookup:
    """Read the action with the lookup of the version in force from now on; a finding of absence waits for
    that reading.
    """
    action = actions.action(case.tenant_id, queries.action_id_of(case))
    assert action is not None
    lookup = _lookup_to_connect(action)
    if lookup is None or lookup.verification is None:
        raise resolutions.NotOffered
    detail = {"lookup": {"version": lookup.version, "digest": lookup.digest}}
    if action.horizon_at is None:
        return _ConnectedLookup(detail=detail)
    settled_at = action.horizon_at + timedelta(seconds=lookup.verification.settle_s)
    return _ConnectedLookup(detail=detail, view={"horizon_at": instant(settled_at)})


def _move(
    case: Case,
    moves: tuple[resolutions.ResolutionEvent, ...],
    detail: dict[str, Any],
    kept: tuple[ledger.SealedEvidence, ...],
    actor: ledger.Actor,
    *,
    view: Mapping[str, Any],
    at: datetime,
) -> ledger.SubjectHead:
    action = ledger.lock_subject(tenant_id=case.tenant_id, subject_id=queries.action_id_of(case), kind="action")
    for number, move in enumerate(moves):
        # An action that is looked at again is automation's once more; any other way out of review ends its part.
        settled = {} if move.state is None else {"settled": move.state is not State.PENDING}
        happening = ledger.NewEvent(
            kind=move.kind,
            to=str(move.state) if move.state is not None else None,
            grounds=move.grounds,
            changes=move.changes,
            detail=detail,
            evidence=kept if number == 0 else (),
            view={**settled, **move.view, **view},
        )
        action = ledger.append(action, happening, actor=actor, at=at)
    return action


def _order(
    case: Case, action: ledger.SubjectHead, resolution: Resolution, by: ledger.Actor, *, at: datetime
) -> ledger.SubjectHead:
    """Order the recovery that a person decided on, as its requester, so that they cannot approve it."""
    relation = resolutions.REMEDIES.get(resolution)
    if relation is None and resolution is not Resolution.CORRECT:
        return action
    behind = actions.action(case.tenant_id, queries.action_id_of(case))
    assert behind is not None
    if relation is None:
        planned = recovery.correction_for(behind)
        if isinstance(planned, str):
            raise resolutions.NotOffered(planned)
        return recovery.order_recovery(
            action,
            planned.orders,
            concerned=(planned.difference.effect,),
            because=str(resolution),
            requester=by.id,
            actor=by,
            difference=planned.difference,
            at=at,
        )
    wanted, concerned = recovery.manual_orders(behind)[relation]
    if isinstance(wanted, str):
        raise resolutions.NotOffered(wanted)
    return recovery.order_recovery(
        action, wanted, concerned=concerned, because=str(resolution), requester=by.id, actor=by, at=at
    )


def lock_case(tenant_id: UUID, case_id: UUID) -> tuple[ledger.SubjectHead, Case]:
    """The head of a case and its row, with its action and itself locked until the transaction ends."""
    case = queries.case(tenant_id, case_id)
    if case is None:
        raise NotFound("Case")
    # The action comes first, as everywhere; a verification run that opens the case holds the same order.
    if case.action_id is not None:
        ledger.lock_subject(tenant_id=tenant_id, subject_id=case.action_id, kind="action")
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=case_id, kind="case")
    fresh = queries.case(tenant_id, case_id)
    assert fresh is not None
    return head, fresh


def lock_open_case(tenant_id: UUID, case_id: UUID) -> tuple[ledger.SubjectHead, Case]:
    """Lock a case that is not settled."""
    head, case = lock_case(tenant_id, case_id)
    if case.state == "RESOLVED":
        raise AlreadyResolved
    return head, case
