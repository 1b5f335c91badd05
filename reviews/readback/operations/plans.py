"""Read plans: what to read for an action, with everything the check needs; made in a transaction, used outside.

Plans are made for many actions at once, with as many statements as for one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import orjson
from django.conf import settings

from ledger.actions.queries import actions as actions_queries
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules import policies
from ledger.catalogue.rules.contract import Contract, Source, Verification
from ledger.catalogue.rules.policies import DecidingPolicy, VerificationNumbers
from ledger.db import pipeline
from ledger.record.queries import events, evidence
from ledger.record.rules.canonical import digest as sha256
from ledger.record.rules.canonical import parse
from ledger.record.rules.encryption import CannotOpen
from reviews import queries
from reviews.checks.interface import SystemAccess
from reviews.observations.operations import observations
from reviews.observations.rules import observe
from reviews.observations.rules.observe import ParsedObservation
from reviews.readback.rules import addresses
from reviews.reconciliation.rules.reading import Reading, parse_reading, reading_bindings

if TYPE_CHECKING:
    from ledger.models import Action

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class ActionSnapshot:
    """An action as of its event `action.seq`; valid as long as that is its last one.

    `baseline` is the reading taken before it ran, if one was required (R-RC-09).
    `request_hash` and `answer_digest` are the SHA-256 of the stored request and of the newest answer.
    """

    action: Any
    entry: dict[str, Any]
    payload: dict[str, Any]
    observation: ParsedObservation | None
    baseline: Reading | None
    idempotency: Any | None
    doubts: int
    request_hash: str
    answer_digest: str


@dataclass(frozen=True, kw_only=True)
class SourceQuery:
    """One source with its settings and credential; `missing` describes what is missing. The primary source has
    no name.
    """

    name: str
    pattern: str
    document: Mapping[str, Any]
    access: SystemAccess | None
    missing: str


@dataclass(frozen=True, kw_only=True)
class SourcePlan:
    """The readings of one effect: the primary source, if there is one, and then the further ones."""

    tenant_id: UUID
    contract: Contract
    questions: tuple[SourceQuery, ...]
    bindings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReadPlan(SourcePlan):
    """The readings of one action."""

    action_id: UUID
    known: ActionSnapshot
    verification_policy: DecidingPolicy
    lookup: Contract | None = None
    """The later version of the contract whose lookup an operator has connected, where its own names none."""

    @property
    def lookup_digest(self) -> str:
        """The digest of that version; empty if there is none."""
        return self.lookup.digest if self.lookup is not None else ""

    @property
    def numbers(self) -> VerificationNumbers:
        """The numbers of the verification policy that decided the action when the plan was made (R-VD-13)."""
        return _numbers(bytes(self.verification_policy.document))


def plan_for(tenant_id: UUID, action_id: UUID) -> ReadPlan:
    """The plan for one action, which must exist; `CannotOpen` if its evidence cannot be opened."""
    return _only(plans_for(tenant_id, [action_id]).values())


def plans_for(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, ReadPlan]:
    """The plans for these actions, by action; one that does not exist or whose evidence cannot be opened has none."""
    *found, policies, [(slug,)] = pipeline(
        *_record_calls(tenant_id, action_ids),
        catalogue_queries.deciding_policies_call(tenant_id, "verification"),
        events.slug_call(tenant_id),
    )
    deciding = catalogue_queries.read_deciding_policies(policies)
    known = _read_snapshots(tenant_id, *found)
    read_by = queries.reading_contracts(tenant_id, [each.action for each in known])
    wanted = {name for each in read_by.values() for name in _systems(each.contract)}
    systems = catalogue_queries.systems_named(tenant_id, wanted)
    agreed = {_terms(each): each.contract for each in read_by.values()}
    asked = {terms: _questions(systems, slug, contract) for terms, contract in agreed.items()}
    return {
        each.action.id: _plan(slug, each, how, asked[_terms(how)], deciding.of(each.action))
        for each in known
        for how in [read_by[each.action.id]]
    }


def _terms(how: queries.ReadBy) -> tuple[str, str]:
    return how.contract.digest, how.lookup.digest if how.lookup is not None else ""


def contract_of(tenant_id: UUID, action: Action) -> Contract:
    """The contract that an action was proposed under."""
    return catalogue_queries.registered_contract(tenant_id, action.contract_digest)


@lru_cache(maxsize=64)
def _numbers(document: bytes) -> VerificationNumbers:
    return policies.verification_numbers(parse(document))


def action_snapshot(tenant_id: UUID, action_id: UUID) -> ActionSnapshot:
    """The current record of one action; `CannotOpen` if its evidence cannot be opened."""
    return _only(_read_snapshots(tenant_id, *pipeline(*_record_calls(tenant_id, [action_id]))))


def _only(found: Iterable[Item]) -> Item:
    for each in found:
        return each
    raise CannotOpen


def _record_calls(tenant_id: UUID, action_ids: list[UUID]) -> tuple[tuple[Any, ...], ...]:
    """The calls whose rows `_read_snapshots` reads."""
    return (
        actions_queries.records_call(tenant_id, action_ids),
        queries.observations_call(tenant_id, action_ids),
        queries.doubtful_runs_call(tenant_id, action_ids),
    )


def _read_snapshots(
    tenant_id: UUID, found: list[tuple[Any, ...]], answered: list[tuple[Any, ...]], doubtful: list[tuple[Any, ...]]
) -> list[ActionSnapshot]:
    """The current records of these actions, without those whose evidence cannot be opened."""
    records, seen, doubted = actions_queries.read_records(found), queries.read_observations(answered), dict(doubtful)
    needed = {
        one.action.id: {each for each in (one.action.payload_pointer, one.reading) if each is not None}
        for one in records
    }
    for each in seen:
        needed[each.action_id].add(each.pointer)
    opened = evidence.open_evidence_many(tenant_id, list(set().union(*needed.values())), leave_out_lost=True)
    readable = {action_id for action_id, pointers in needed.items() if pointers <= opened.keys()}
    answers: dict[UUID, list[Any]] = {}
    digests: dict[UUID, str] = {}
    attempts = {each.action.id: each.action.attempt_count for each in records}
    for each in seen:
        # Only the newest attempt's answers tell: what one before claimed was read back and settled then.
        if each.action_id not in readable or each.attempt < attempts[each.action_id]:
            continue
        answer = opened[each.pointer]
        answers.setdefault(each.action_id, []).append(orjson.loads(answer))
        digests[each.action_id] = sha256(answer)
    return [
        ActionSnapshot(
            action=action,
            entry=entry,
            payload=orjson.loads(opened[action.payload_pointer]) if action.payload_pointer else {},
            observation=observations.deciding_answer(answers.get(action.id, []), contract_of(tenant_id, action)),
            baseline=parse_reading(orjson.loads(opened[reading])) if reading is not None else None,
            idempotency=idempotency,
            doubts=doubted.get(action.id, 0),
            request_hash=sha256(opened[action.payload_pointer]) if action.payload_pointer else "",
            answer_digest=digests.get(action.id, ""),
        )
        for action, entry, idempotency, reading in records
        if action.id in readable
    ]


def _plan(
    slug: str, known: ActionSnapshot, how: queries.ReadBy, questions: tuple[SourceQuery, ...], policy: DecidingPolicy
) -> ReadPlan:
    outcome = known.entry.get("intended_outcome", {})
    intended = {
        "target_resource": outcome.get("target_resource", ""),
        "predicates": outcome.get("expected_predicates", []),
    }
    return ReadPlan(
        tenant_id=known.action.tenant_id,
        action_id=known.action.id,
        contract=how.contract,
        lookup=how.lookup,
        questions=questions,
        bindings={
            "si": intended,
            "sr": known.payload,
            "so": observe.observation_bindings(known.observation),
            "scope": _scope(slug, known),
            "pre": reading_bindings(known.baseline, how.contract.required_effects),
            "sa": {},
        },
        known=known,
        verification_policy=policy,
    )


def _scope(slug: str, known: ActionSnapshot) -> dict[str, Any]:
    action, kept = known.action, known.idempotency
    return {
        "tenant": slug,
        "principal": action.agent,
        "action_id": str(action.id),
        "target": action.target,
        "trace_id": action.trace_id,
        "executed_at": known.entry["timestamps"]["executed_at"] or "",
        **({"idempotency_key": kept.key} if kept else {}),
    }


def _systems(contract: Contract) -> tuple[str, ...]:
    """The systems that an action of a contract is read in."""
    verification = contract.verification
    return (verification.system, *(each.system for each in verification.further)) if verification is not None else ()


def _questions(systems: Mapping[str, Any], slug: str, contract: Contract) -> tuple[SourceQuery, ...]:
    verification = contract.verification
    if verification is None:
        return ()
    further = (_question(systems, slug, each.name, each) for each in verification.further)
    return (_question(systems, slug, "", verification), *further)


def _question(systems: Mapping[str, Any], slug: str, name: str, part: Verification | Source) -> SourceQuery:
    access, missing = access_to(systems.get(part.system), slug, part.system)
    return SourceQuery(name=name, pattern=part.pattern, document=part.document, access=access, missing=missing)


def system_access(tenant_id: UUID, slug: str, name: str) -> tuple[SystemAccess | None, str]:
    """Settings and credential of a registered system, or what is missing; the credential is a file, never a column."""
    return access_to(catalogue_queries.system(tenant_id, name), slug, name)


def access_to(system: Any, slug: str, name: str) -> tuple[SystemAccess | None, str]:
    """Return the settings and credential of a system from its row, or what is missing."""
    if system is None:
        return None, f"The system {name} is not registered."
    try:
        credential = json.loads(credential_path(slug, system.name).read_text())
    except (OSError, ValueError):
        return None, f"There is no credential for the system {system.name}."
    if not isinstance(credential, dict):
        return None, f"The credential for the system {system.name} is no JSON object."
    own, fault = addresses.resolve_address(system.settings, credential)
    if fault:
        return None, f"The system {system.name} is not asked. {fault}"
    access = SystemAccess(
        name=system.name, pattern=system.pattern, settings=own, credential=credential, tried=system.tried
    )
    return access, ""


def credential_path(slug: str, name: str) -> Path:
    """The path of the credential file of a tenant's system."""
    return Path(settings.COUNTERFOIL_SECRETS_DIR) / "systems" / slug / f"{name}.json"
