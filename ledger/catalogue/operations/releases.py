"""Releases of policies and contracts: draft, gates, signatures, canary, promotion by two people, the way back, the end.

Nothing here runs a gate or knows what a policy means: `reviews.release_gates` and the console bring results, each with
its evidence. What a release lacks, the database refuses too (`ledger/sql/releases.sql`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations.registration import (
    VersionTaken,
    lint_rows,
    lock_versions,
    supersede_policy,
    weakening_rows,
)
from ledger.catalogue.rules import releases as rules
from ledger.catalogue.rules.contract import Contract, load_stored
from ledger.catalogue.rules.releases import CanaryScope
from ledger.catalogue.rules.weakenings import weakenings
from ledger.models import ContractVersion, PolicyVersion, Release, ReleaseGate
from ledger.people.queries import is_same_person
from ledger.people.rules.confirmation import Answer, SecondPersonNeeded, check_answer
from ledger.record.operations import (
    Actor,
    NewEvent,
    SealedEvidence,
    SubjectHead,
    append,
    clear_origin_cache,
    lock_subject,
    new_id,
    store_evidence,
)
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.refusals import NotFound, ProofNeeded, ReasonMissing


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """The result of a gate: one sentence, and a document that is stored as its evidence."""

    gate: str
    passed: bool
    summary: str
    evidence: Mapping[str, Any]


def draft_release(
    *, tenant_id: UUID, kind: str, version: str, document: Mapping[str, Any], reason: str, by: Actor, at: datetime
) -> Release:
    """Draft a new version of a policy; the versions in force do not change."""
    return _draft(
        tenant_id=tenant_id, kind=kind, version=version, data=canonical(document), reason=reason, by=by, at=at
    )


def draft_contract(*, tenant_id: UUID, contract: Contract, reason: str, by: Actor, at: datetime) -> Release:
    """A draft of a new version of a tool's contract, as the bytes that were validated."""
    return _draft(
        tenant_id=tenant_id,
        kind=rules.CONTRACT,
        tool=contract.name,
        version=contract.version,
        data=contract.document,
        reason=reason,
        by=by,
        at=at,
    )


def _draft(
    *, tenant_id: UUID, kind: str, tool: str = "", version: str, data: bytes, reason: str, by: Actor, at: datetime
) -> Release:
    """The same draft again is the same release."""
    if not reason.strip():
        raise ReasonMissing
    open_one = catalogue_queries.open_release(tenant_id, kind, version, tool=tool)
    if open_one is not None and open_one.digest == digest(data):
        return open_one
    if open_one is not None or _version(tenant_id, kind, tool, version) is not None:
        raise VersionTaken
    in_force = catalogue_queries.version_in_force(tenant_id, kind, tool)
    if in_force is None:
        raise rules.NothingInForce
    row = Release.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        kind=kind,
        tool=tool,
        version=version,
        digest=digest(data),
        document=data,
        basis=in_force.digest,
        state="DRAFT",
        reason=reason[:1000],
        author=by.id,
        created_at=at,
        changed_at=at,
    )
    told = {"kind": kind, "version": version, "reason": row.reason, "basis": row.basis}
    told |= {"tool": tool} if tool else {}
    append(
        SubjectHead(tenant_id=tenant_id, id=row.id, kind="release"),
        NewEvent(kind="release_drafted", to="DRAFT", detail=told, digests={"policy": row.digest}),
        actor=by,
        at=at,
    )
    return row


def _version(tenant_id: UUID, kind: str, tool: str, version: str) -> PolicyVersion | ContractVersion | None:
    if kind == rules.CONTRACT:
        return catalogue_queries.contract_version(tenant_id, tool, version)
    return catalogue_queries.policy_version(tenant_id, kind, version)


def lock_release(tenant_id: UUID, release_id: UUID, *states: str) -> tuple[SubjectHead, Release]:
    """Return the release, locked until the transaction ends; refuse it if it is in none of these states."""
    row = catalogue_queries.release(tenant_id, release_id)
    if row is None:
        raise NotFound("Release")
    head = lock_subject(tenant_id=tenant_id, subject_id=release_id, kind="release")
    row = catalogue_queries.release(tenant_id, release_id)
    assert row is not None
    if states and head.state not in states:
        raise rules.WrongStep(f"The release is {head.state}; this is done while it is {' or '.join(states)}.")
    return head, row


def record_gates(
    *,
    tenant_id: UUID,
    release_id: UUID,
    results: Sequence[GateResult],
    kind: str = "release_gates_run",
    basis: str = "",
    reason: str = "",
    by: Actor,
    at: datetime,
) -> Release:
    """Store the results of gates with their evidence in one event; they determine the release's state.

    `basis` is the digest of the version in force that the draft was compared with.
    """
    head, row = lock_release(tenant_id, release_id, "DRAFT", "CHECKED", "CANARY", "READY")
    if row.canary is not None and kind != "release_canary_passed":
        raise rules.WrongStep("The draft is on canary; its other gates are behind it.")
    kept = store_evidence(
        tenant_id=tenant_id,
        subject_id=release_id,
        purpose="release_gates",
        data=canonical({each.gate: each.evidence for each in results}),
        media_type="application/json",
        source="counterfoil",
        at=at,
    )
    passed = {gate: result.passed for gate, result in catalogue_queries.gate_results(tenant_id, release_id).items()}
    passed |= {each.gate: each.passed for each in results}
    state = rules.state_by_gates(row.kind, passed, head.state)
    listed = [{"gate": each.gate, "passed": each.passed, "summary": each.summary[:1000]} for each in results]
    told: dict[str, Any] = {"gates": listed, "pointer": str(kept.pointer)}
    told |= ({"basis": basis} if basis else {}) | ({"reason": reason} if reason else {})
    append(head, NewEvent(kind=kind, to=state, detail=told, evidence=(kept,)), actor=by, at=at)
    ReleaseGate.objects.bulk_create(
        ReleaseGate(
            tenant_id=tenant_id, release_id=release_id, seq=head.seq + 1, pointer=kept.pointer, by=by.id, at=at, **each
        )
        for each in listed
    )
    return _move(row, state=state, changed_at=at, **({"basis": basis} if basis else {}))


def sign_gate(
    *,
    tenant_id: UUID,
    release_id: UUID,
    gate: str,
    reason: str,
    by: Actor,
    is_proven: bool,
    at: datetime,
) -> Release:
    """Sign the result of a gate: the difference, or the outcomes that a replay changed."""
    _, row = lock_release(tenant_id, release_id, "DRAFT", "CHECKED")
    last = catalogue_queries.gate_results(tenant_id, release_id).get(gate)
    if gate not in rules.SIGNED or last is None:
        raise rules.WrongStep("Run the gates first. A signature is for the result of RG-01, SIMULATION or RG-02.")
    if is_same_person(tenant_id, row.author, by.id):
        raise SecondPersonNeeded("You drafted this, so another person must sign it.")
    check_person(reason=reason, by=by, is_proven=is_proven)
    signed = GateResult(
        gate=gate,
        passed=True,
        summary=f"Signed: {reason}",
        evidence={"signs": str(last.pointer), "said": last.summary, "reason": reason, "by": str(by.id)},
    )
    return record_gates(
        tenant_id=tenant_id,
        release_id=release_id,
        results=[signed],
        kind="release_gate_signed",
        reason=reason,
        by=by,
        at=at,
    )


def check_person(*, reason: str, by: Actor, is_proven: bool) -> None:
    """Refuse a machine, and a person without a reason or proof."""
    if by.kind != "person":
        raise SecondPersonNeeded
    if not reason.strip():
        raise ReasonMissing
    if not is_proven:
        raise ProofNeeded("This weakens what is checked. Confirm with your password or a one-time code.")


def start_canary(*, tenant_id: UUID, release_id: UUID, scope: CanaryScope, by: Actor, at: datetime) -> Release:
    """Let the draft decide some live actions; the version in force decides all others."""
    rules.check_scope(scope)
    head, row = lock_release(tenant_id, release_id, "CHECKED")
    _check_basis(row)
    document = scope.document()
    append(head, NewEvent(kind="release_canary_started", to="CANARY", detail={"canary": document}), actor=by, at=at)
    _move(row, state="CANARY", canary=document, changed_at=at)
    told = {"kind": row.kind, "version": row.version, "release": str(row.id), "canary": document, "reason": row.reason}
    policy_id = new_id(at)
    append(
        SubjectHead(tenant_id=tenant_id, id=policy_id, kind="policy"),
        NewEvent(kind="policy_canary_started", to="CANARY", detail=told, digests={row.kind: row.digest}),
        actor=by,
        at=at,
    )
    _create_version(row, policy_id, active=False, canary=document, at=at)
    return row


def _create_version(
    row: Release, policy_id: UUID, *, active: bool, canary: dict[str, Any] | None, at: datetime
) -> None:
    PolicyVersion.objects.create(
        tenant_id=row.tenant_id,
        id=policy_id,
        kind=row.kind,
        version=row.version,
        digest=row.digest,
        document=bytes(row.document),
        active=active,
        release_id=row.id,
        canary=canary,
        created_at=at,
    )


def judge_canary(
    *,
    tenant_id: UUID,
    release_id: UUID,
    verdict: rules.CanaryVerdict,
    evidence: Mapping[str, Any],
    by: Actor,
    at: datetime,
) -> Release:
    """Record the result of a canary: stopped if its figures are worse, passed after enough actions."""
    _, row = lock_release(tenant_id, release_id, "CANARY", "READY")
    if verdict.is_worse:
        return end_release(
            tenant_id=tenant_id, release_id=release_id, reason=verdict.summary, evidence=evidence, by=by, at=at
        )
    if row.state == "READY" or not verdict.is_passed:
        return row
    result = GateResult(gate=rules.CANARY, passed=True, summary=verdict.summary, evidence=evidence)
    return record_gates(
        tenant_id=tenant_id, release_id=release_id, results=[result], kind="release_canary_passed", by=by, at=at
    )


def end_release(
    *,
    tenant_id: UUID,
    release_id: UUID,
    reason: str,
    evidence: Mapping[str, Any] | None = None,
    by: Actor,
    at: datetime,
) -> Release:
    """Stop a canary, or withdraw a draft; from the commit on the version in force decides everything again."""
    head, row = lock_release(tenant_id, release_id, "DRAFT", "CHECKED", "CANARY", "READY")
    if not reason.strip():
        raise ReasonMissing
    stopped = row.canary is not None
    kept: tuple[SealedEvidence, ...] = ()
    if evidence is not None:
        stored = store_evidence(
            tenant_id=tenant_id,
            subject_id=release_id,
            purpose="release_gates",
            data=canonical({rules.CANARY: evidence}),
            media_type="application/json",
            source="counterfoil",
            at=at,
        )
        kept = (stored,)
    state, kind = ("STOPPED", "release_stopped") if stopped else ("WITHDRAWN", "release_withdrawn")
    append(head, NewEvent(kind=kind, to=state, detail={"reason": reason}, evidence=kept), actor=by, at=at)
    policy = catalogue_queries.policy_version(tenant_id, row.kind, row.version) if stopped else None
    if policy is not None:
        of_policy = lock_subject(tenant_id=tenant_id, subject_id=policy.id, kind="policy")
        append(of_policy, NewEvent(kind="policy_canary_ended", to="WITHDRAWN"), actor=by, at=at)
        PolicyVersion.objects.filter(tenant_id=tenant_id, id=policy.id).update(canary=None)
    return _move(row, state=state, changed_at=at)


def promote_release(
    *, tenant_id: UUID, release_id: UUID, reason: str, by: Actor, is_proven: bool, at: datetime
) -> Release:
    """Promote a release as one of two people: the first waits for another, the second puts the version in force."""
    head, row = lock_release(tenant_id, release_id, "DRAFT", "CHECKED", "CANARY", "READY")
    red = red_gates(row)
    if red:
        names = ", ".join(f"{gate} ({rules.GATES[gate][0]})" for gate in red)
        raise rules.GatesNotPassed(f"Not all gates have passed: {names}.")
    _check_basis(row)
    check_answer(
        "release",
        Answer.CONFIRM,
        by_kind=by.kind,
        is_proposer=is_same_person(tenant_id, row.first_by, by.id),
        is_proven=is_proven,
        reason=reason,
        proposed_at=row.changed_at,
        at=at,
    )
    if row.first_by is None:
        append(head, NewEvent(kind="release_confirmed", detail={"reason": reason}), actor=by, at=at)
        return _move(row, first_by=by.id, changed_at=at)
    append(head, NewEvent(kind="release_promoted", to="PROMOTED", detail={"reason": reason}), actor=by, at=at)
    _move(row, state="PROMOTED", promoted_by=by.id, changed_at=at)
    if row.kind == rules.CONTRACT:
        _put_contract_in_force(row, by=by, at=at)
        return row
    supersede_policy(tenant_id, row.kind, by=row.version, actor=by, at=at)
    _put_in_force(row, by=by, at=at)
    return row


def _put_in_force(row: Release, *, by: Actor, at: datetime) -> None:
    told = {"kind": row.kind, "version": row.version, "release": str(row.id), "reason": row.reason}
    tried = catalogue_queries.policy_version(row.tenant_id, row.kind, row.version)
    if tried is None:
        policy_id = new_id(at)
        append(
            SubjectHead(tenant_id=row.tenant_id, id=policy_id, kind="policy"),
            NewEvent(kind="policy_activated", to="ACTIVE", detail=told, digests={row.kind: row.digest}),
            actor=by,
            at=at,
        )
        _create_version(row, policy_id, active=True, canary=None, at=at)
        clear_origin_cache()
        return
    head = lock_subject(tenant_id=row.tenant_id, subject_id=tried.id, kind="policy")
    event = NewEvent(kind="policy_promoted", to="ACTIVE", detail=told, digests={row.kind: row.digest})
    append(head, event, actor=by, at=at)
    PolicyVersion.objects.filter(tenant_id=row.tenant_id, id=tried.id).update(active=True, canary=None)
    clear_origin_cache()


def _put_contract_in_force(row: Release, *, by: Actor, at: datetime) -> None:
    contract = load_stored(bytes(row.document), expected_digest=row.digest)
    before = catalogue_queries.contract_to_compare(row.tenant_id, row.tool)
    assert before is not None
    weaker = weakenings(load_stored(bytes(before.document), expected_digest=before.digest), contract)
    version = ContractVersion.objects.create(
        tenant_id=row.tenant_id,
        id=new_id(at),
        name=row.tool,
        version=row.version,
        digest=row.digest,
        document=bytes(row.document),
        lint=lint_rows(contract),
        weakens=weakening_rows(weaker),
        compared_with=before.version,
        sent_by=row.author,
        release_id=row.id,
        registered_at=at,
    )
    told = {"name": row.tool, "version": row.version, "compared_with": before.version, "weakens": version.weakens}
    told |= {"release": str(row.id), "drafted_by": str(row.author), "reason": row.reason}
    append(
        SubjectHead(tenant_id=row.tenant_id, id=version.id, kind="contract"),
        NewEvent(kind="contract_released", to="REGISTERED", detail=told, digests={"contract": row.digest}),
        actor=by,
        at=at,
    )


def roll_back_contract(
    *, tenant_id: UUID, name: str, version: str, reason: str, by: Actor, is_proven: bool, at: datetime
) -> ContractVersion:
    """Put every later version of a tool's contract out of force; one step, one person.

    They are over, with their releases. What was proposed under them is judged by them, and not started any more.
    """
    check_person(reason=reason, by=by, is_proven=is_proven)
    if catalogue_queries.contract_version(tenant_id, name, version) is None:
        raise NotFound("Contract version")
    lock_versions(tenant_id, rules.CONTRACT, name)
    in_force = catalogue_queries.contracts_in_force(tenant_id, [name]).get(name, [])
    wanted = next((each for each in in_force if each.version == version), None)
    if wanted is None or wanted is in_force[-1]:
        raise rules.CannotGoBack(
            "Only an earlier version of the contract that is still in force can replace the later ones."
        )
    for leaving in in_force[in_force.index(wanted) + 1 :]:
        head = lock_subject(tenant_id=tenant_id, subject_id=leaving.id, kind="contract")
        told = {"name": name, "version": leaving.version, "to": version, "reason": reason}
        append(head, NewEvent(kind="contract_rolled_back", to="ROLLED_BACK", detail=told), actor=by, at=at)
        _end_promoted(tenant_id, leaving.release_id, to=version, reason=reason, by=by, at=at)
    return wanted


def retire_contract(
    *,
    tenant_id: UUID,
    name: str,
    version: str,
    reason: str,
    by: Actor,
    is_proven: bool,
    ends_tool: bool | None = None,
    at: datetime,
) -> list[ContractVersion]:
    """Put a version of a tool's contract out of force with every earlier one; the newest ends the tool.

    Nobody comes to another version by it: neither back to an earlier one, nor on to a weaker. What was proposed under
    them is judged by them, and not started any more. `ends_tool`: whether `by` knows that the tool ends; where other
    versions came or went since, it is refused.
    """
    check_person(reason=reason, by=by, is_proven=is_proven)
    if catalogue_queries.contract_version(tenant_id, name, version) is None:
        raise NotFound("Contract version")
    lock_versions(tenant_id, rules.CONTRACT, name)
    in_force = catalogue_queries.contracts_in_force(tenant_id, [name]).get(name, [])
    place = next((place for place, each in enumerate(in_force) if each.version == version), None)
    if place is None:
        raise rules.CannotRetire
    leaving, staying = in_force[: place + 1], in_force[place + 1 :]
    if ends_tool is not None and ends_tool == bool(staying):
        raise rules.VersionsMoved
    if staying and catalogue_queries.choose_contract(in_force) != catalogue_queries.choose_contract(staying):
        raise rules.CannotRetire(
            "Agents that name no version still use this one: every later one is weaker."
            " Retiring the newest ends the tool."
        )
    for each in leaving:
        head = lock_subject(tenant_id=tenant_id, subject_id=each.id, kind="contract")
        told = {"name": name, "version": each.version, "reason": reason}
        append(head, NewEvent(kind="contract_retired", to="RETIRED", detail=told), actor=by, at=at)
    return leaving


def _end_promoted(tenant_id: UUID, release_id: UUID | None, *, to: str, reason: str, by: Actor, at: datetime) -> None:
    """The release that brought a version is over once the version was rolled back."""
    if release_id is None:
        return
    head, row = lock_release(tenant_id, release_id)
    if head.state == "PROMOTED":
        back = NewEvent(kind="release_rolled_back", to="ROLLED_BACK", detail={"to": to, "reason": reason})
        append(head, back, actor=by, at=at)
        _move(row, state="ROLLED_BACK", changed_at=at)


def roll_back(
    *, tenant_id: UUID, kind: str, version: str, reason: str, by: Actor, is_proven: bool, at: datetime
) -> PolicyVersion:
    """Put a version in force again that was in force before, in one step and by one person.

    The release that brought the version in force is over; what was decided under it keeps its name.
    """
    check_person(reason=reason, by=by, is_proven=is_proven)
    lock_versions(tenant_id, kind)
    wanted = catalogue_queries.policy_version(tenant_id, kind, version)
    if wanted is None:
        raise rules.CannotGoBack
    leaving = catalogue_queries.active_policies(tenant_id)[kind]
    head = lock_subject(tenant_id=tenant_id, subject_id=wanted.id, kind="policy")
    brought = catalogue_queries.release(tenant_id, wanted.release_id) if wanted.release_id else None
    if head.state != "SUPERSEDED" or (brought is not None and brought.state == "ROLLED_BACK"):
        raise rules.CannotGoBack
    supersede_policy(tenant_id, kind, by=version, actor=by, at=at)
    told = {"kind": kind, "version": version, "instead_of": leaving.version, "reason": reason}
    event = NewEvent(kind="policy_restored", to="ACTIVE", detail=told, digests={kind: wanted.digest})
    append(head, event, actor=by, at=at)
    PolicyVersion.objects.filter(tenant_id=tenant_id, id=wanted.id).update(active=True)
    clear_origin_cache()
    _end_promoted(tenant_id, leaving.release_id, to=version, reason=reason, by=by, at=at)
    return wanted


def red_gates(row: Release) -> list[str]:
    """The gates of a release that are not passed, in their order."""
    found = catalogue_queries.gate_results(row.tenant_id, row.id)
    return [gate for gate in rules.required_gates(row.kind) if gate not in found or not found[gate].passed]


def _check_basis(row: Release) -> None:
    """Refuse a draft whose gates compared it with another version than the one in force, which stays so until the
    transaction ends.
    """
    lock_versions(row.tenant_id, row.kind, row.tool)
    in_force = catalogue_queries.version_in_force(row.tenant_id, row.kind, row.tool)
    if in_force is None or row.basis != in_force.digest:
        raise rules.VersionsMoved(
            "Another version took effect since the gates ran. Run them again, or draft the change again."
        )


def _move(row: Release, **changes: Any) -> Release:
    Release.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**changes)
    for name, value in changes.items():
        setattr(row, name, value)
    return row
