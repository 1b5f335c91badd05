"""Tests the connection to a system with one query: same check, credential and time limits as a reading.

It writes nothing, neither the system's health nor the counts of readings. A system whose circuit is open is asked too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules import contract as contracts
from ledger.record.queries import events
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import Refused
from reviews import queries
from reviews.checks import catalogue
from reviews.checks.interface import CheckFailed, SystemAccess
from reviews.observations.rules import observe
from reviews.readback.operations.plans import plans_for, system_access
from reviews.readback.rules.sample_arguments import NAME, sample_value
from reviews.reconciliation.rules.reading import Reading

if TYPE_CHECKING:
    from ledger.catalogue.rules.contract import Contract, Source, Verification
    from ledger.models import System

TRY_TIMEOUT_S = 5.0
_LOOKED_THROUGH = 50
_NO_ACTION = UUID(int=0)


@dataclass(frozen=True, kw_only=True)
class ConnectionResult:
    """The result of one query. With `action_id` it is that action's reading, otherwise one with sample arguments."""

    system_id: UUID
    at: datetime
    took_ms: int = 0
    contract: tuple[str, str] | None = None
    action_id: UUID | None = None
    target: str = ""
    reading: Reading | None = None
    failure: str = ""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A lookup that can be asked of one system, and what its expressions see."""

    contract: tuple[str, str]
    pattern: str
    document: Mapping[str, Any]
    bindings: Mapping[str, Mapping[str, Any]]
    action_id: UUID | None = None
    target: str = ""


def try_connection(tenant_id: UUID, system: System, *, at: datetime) -> ConnectionResult:
    """Repeat the last reading of this system, or query it with sample arguments."""
    slug = events.tenant_by_id(tenant_id).slug
    access, missing = system_access(tenant_id, slug, system.name)
    question = _known_question(tenant_id, system.name) or _made_up_question(tenant_id, slug, system.name, at=at)
    if access is None:
        return ConnectionResult(system_id=system.id, at=at, failure=missing)
    if question is None:
        failure = "Not asked: no contract in force is verified in it, so nothing says what to read there."
        return ConnectionResult(system_id=system.id, at=at, failure=failure)
    began = time.monotonic()
    reading, failure = ask_system(access, question, at=at)
    return ConnectionResult(
        system_id=system.id,
        at=at,
        took_ms=round((time.monotonic() - began) * 1000),
        contract=question.contract,
        action_id=question.action_id,
        target=question.target,
        reading=reading,
        failure=failure,
    )


def ask_system(access: SystemAccess, question: Question, *, at: datetime) -> tuple[Reading | None, str]:
    """Ask a system a question once; the reading, or the reason why there is none."""
    try:
        check = catalogue.check_for(question.pattern)
        reading = check.read(
            system=access,
            verification=dict(question.document),
            bindings=question.bindings,
            at=at,
            timeout_s=TRY_TIMEOUT_S,
        )
    except CheckFailed as failed:
        return None, failed.reason
    except Refused as refused:
        return None, refused.detail
    # The key that repeats a mutation is a secret, and a pointer may name it (R-EX-16).
    key = str(question.bindings["scope"].get("idempotency_key") or "")
    pointer = reading.pointer.replace(key, "(idempotency key)") if key else reading.pointer
    return replace(reading, pointer=pointer, raw={}), ""


def _known_question(tenant_id: UUID, name: str) -> Question | None:
    """The question about the newest action that was read back from a system."""
    ids = dict.fromkeys(run.action_id for run in queries.recent_runs(tenant_id, limit=_LOOKED_THROUGH))
    plans = plans_for(tenant_id, list(ids)) if ids else {}
    for action_id in ids:
        plan = plans.get(action_id)
        for part in _parts_read_from(name, plan.contract) if plan is not None else ():
            assert plan is not None
            return Question(
                contract=(plan.contract.name, plan.contract.version),
                pattern=part.pattern,
                document=part.document,
                bindings=plan.bindings,
                action_id=action_id,
                target=plan.known.action.target,
            )
    return None


def _parts_read_from(name: str, contract: Contract) -> Iterator[Verification | Source]:
    if contract.verification is not None:
        parts: list[Verification | Source] = [contract.verification, *contract.verification.further]
        yield from (part for part in parts if part.system == name)


def _made_up_question(tenant_id: UUID, slug: str, name: str, *, at: datetime) -> Question | None:
    """The lookup of the newest contract in force that is verified in a system, with arguments that name nothing."""
    for tool, _ in catalogue_queries.versions_by_system(tenant_id).get(name, []):
        row = catalogue_queries.contract_to_compare(tenant_id, tool)
        assert row is not None
        contract = contracts.load_stored(bytes(row.document), expected_digest=row.digest)
        for part in _parts_read_from(name, contract):
            return Question(
                contract=(row.name, row.version),
                pattern=part.pattern,
                document=part.document,
                bindings=made_up_bindings(slug, contract.arguments_schema, at=at),
            )
    return None


def made_up_bindings(slug: str, schema: Mapping[str, Any], *, at: datetime) -> dict[str, dict[str, Any]]:
    """The bindings of a lookup for arguments that name nothing."""
    made_up = {"principal": NAME, "target": NAME, "trace_id": "", "idempotency_key": NAME}
    return {
        "si": {"target_resource": NAME, "predicates": []},
        "sr": {name: sample_value(part) for name, part in schema.get("properties", {}).items()},
        "so": observe.observation_bindings(None),
        "scope": {"tenant": slug, "action_id": str(_NO_ACTION), "executed_at": instant(at), **made_up},
        "pre": {},
        "sa": {},
    }
