"""The steps of a release that need both neighbours: checking its draft, and the consequences of putting it in force."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.policy.rules import autonomy, policy
from approvals.voting.operations import approvers
from console.accounts.queries import members_with
from console.contracts import contract_check
from console.policies import policy_changes
from console.releases import call_gates
from console.releases.release_sentences import missing_people_sentence
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import releases
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules import policies
from ledger.catalogue.rules.releases import CONTRACT, NothingInForce, required_gates, verification_changes
from ledger.catalogue.rules.weakenings import weakenings
from ledger.people.queries import people_behind
from ledger.record.operations import Actor
from ledger.record.queries import events
from ledger.record.rules.canonical import digest, parse
from reviews.readback.operations.dry_runs import record_tries
from reviews.recovery.rules import recovery_table
from reviews.release_gates import operations as release_gates

if TYPE_CHECKING:
    from ledger.models import PolicyVersion, Release


def check_draft(kind: str, document: Mapping[str, Any]) -> None:
    """Refuse an invalid document, with the place of each fault."""
    policies.check_policy(kind, document)
    if kind == "recovery":
        faults = recovery_table.policy_faults(document)
        if faults:
            raise policies.BadPolicy(errors=faults)
    if kind == "approval":
        policy.parse(dict(document))
    if kind == "autonomy":
        autonomy.parse(dict(document))


def draft_policy(
    *, tenant_id: UUID, kind: str, version: str, document: Mapping[str, Any], reason: str, by: Actor, at: datetime
) -> Release:
    """Draft a policy version for release; each fault of its document is named with its place."""
    document = {**document, "version": version}
    check_draft(kind, document)
    return releases.draft_release(
        tenant_id=tenant_id, kind=kind, version=version, document=document, reason=reason, by=by, at=at
    )


def draft_contract(tenant_id: UUID, document: dict[str, Any], *, reason: str, by: Actor, at: datetime) -> Release:
    """Draft a contract version for release; each fault of its document is named with its place."""
    contract = contract_check.validate_contract(document)
    contract_check.check_sources(tenant_id, contract)
    run = contract_check.check_dry_run(tenant_id, contract, at=at)
    row = releases.draft_contract(tenant_id=tenant_id, contract=contract, reason=reason, by=by, at=at)
    record_tries(tenant_id, contract, run, by=by, at=at)
    return row


def missing_people(tenant_id: UUID) -> str:
    """The reason why nobody could finish a release in this tenant; empty if two people could."""
    able = members_with(tenant_id, "operator", "administrator")
    return missing_people_sentence(len(people_behind(tenant_id, able)))


def read_draft(row: Release) -> dict[str, Any]:
    """The document that was drafted; a contract may hold fractions, which no policy may."""
    return contracts.read(bytes(row.document)) if row.kind == CONTRACT else dict(parse(bytes(row.document)))


def run_gates(row: Release, *, by: Actor, at: datetime) -> Release:
    """Run every gate of a draft; for a release on canary, judge the canary by the ended actions."""
    if "SIMULATION" in required_gates(row.kind):
        return call_gates.run_call_gates(row, changes=draft_changes(row), by=by, at=at)
    if row.canary is not None:
        return release_gates.judge_canary(tenant_id=row.tenant_id, release_id=row.id, by=by, at=at)
    return release_gates.run_gates(tenant_id=row.tenant_id, release_id=row.id, changes=draft_changes(row), by=by, at=at)


def draft_changes(row: Release) -> list[dict[str, str]]:
    """Every difference of the draft from the version in force."""
    in_force = catalogue_queries.version_in_force(row.tenant_id, row.kind, row.tool)
    if in_force is None:
        raise NothingInForce
    if row.kind == CONTRACT:
        return contract_changes(bytes(in_force.document), bytes(row.document))
    return policy_changes.document_changes(parse(bytes(in_force.document)), parse(bytes(row.document)))


def compare_contracts(was: bytes, now: bytes) -> dict[str, Any]:
    """The differences between two documents of a contract, and the ways in which the second is weaker."""
    old, new = (contracts.load_stored(each, expected_digest=digest(each)) for each in (was, now))
    weaker = [each.text for each in weakenings(old, new)]
    parts = verification_changes(contracts.read(was), contracts.read(now))
    sentences = [
        {"heading": heading, "gone": [], "new": said}
        for heading, said in (("What is verified changes in", list(parts)), ("It is weaker", weaker))
        if said
    ]
    return {"sentences": sentences, "places": contract_changes(was, now)}


def contract_changes(was: bytes, now: bytes) -> list[dict[str, str]]:
    """Every difference of two contract documents except the version."""
    changes = contract_check.diff_documents(contracts.read(was), contracts.read(now))
    return [each for each in changes if each["path"] != "/version"]


def sign_gate(row: Release, *, gate: str, reason: str, by: Actor, is_proven: bool, at: datetime) -> Release:
    """Sign a difference or changed outcomes; refused for their drafter under any account."""
    return releases.sign_gate(
        tenant_id=row.tenant_id,
        release_id=row.id,
        gate=gate,
        reason=reason,
        by=by,
        is_proven=is_proven,
        at=at,
    )


def promote(row: Release, *, reason: str, by: Actor, is_proven: bool, at: datetime) -> Release:
    """Record the promotion by one of two people; the second one puts the version in force."""
    done = releases.promote_release(
        tenant_id=row.tenant_id,
        release_id=row.id,
        reason=reason,
        by=by,
        is_proven=is_proven,
        at=at,
    )
    if done.state == "PROMOTED":
        _follow(row.tenant_id, row.kind, at=at)
    return done


def roll_back(
    *, tenant_id: UUID, kind: str, version: str, reason: str, by: Actor, is_proven: bool, at: datetime
) -> PolicyVersion:
    """An earlier version in force again."""
    row = releases.roll_back(
        tenant_id=tenant_id, kind=kind, version=version, reason=reason, by=by, is_proven=is_proven, at=at
    )
    _follow(tenant_id, kind, at=at)
    return row


def can_come_back(row: PolicyVersion) -> bool:
    """Return whether a version may be put in force again: it was in force, and was not rolled back."""
    brought = catalogue_queries.release(row.tenant_id, row.release_id) if row.release_id else None
    taken_back = brought is not None and brought.state == "ROLLED_BACK"
    return not taken_back and events.subject_state(row.tenant_id, row.id) == "SUPERSEDED"


def _follow(tenant_id: UUID, kind: str, *, at: datetime) -> None:
    if kind == "approval":
        approvers.schedule_recheck(tenant_id=tenant_id, at=at)
