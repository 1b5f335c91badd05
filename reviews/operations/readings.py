"""Readings: what is to be read for one action, and the reading itself.

The reading happens outside any transaction: a slow system holds no lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings

from ledger import operations as ledger
from ledger import queries as record
from ledger.rules import contract as contracts
from ledger.rules.contract import Contract
from ledger.rules.lifecycle import State
from ledger.rules.refusals import Refused
from ledger.tenancy import tenancy
from reviews.checks import catalogue
from reviews.checks.interface import CheckFailed, SystemAccess
from reviews.operations import observations
from reviews.rules import observe
from reviews.rules.facts import Failure
from reviews.rules.reading import Reading, restored, shown

READ_TIMEOUT_S = 10.0


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
            data=masked(orjson.dumps(asdict(reading), default=plain), plan),
            media_type="application/json",
            source=reading.source,
            at=at,
        )
        happening = ledger.Happening(
            kind="reading_taken", detail={"pointer": str(kept.pointer), "source": reading.source}, evidence=(kept,)
        )
        ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    return True


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
            timeout_s=float(verification.document.get("timeout_s", READ_TIMEOUT_S)),
        )
    except Refused as refused:
        # The plug-in is gone or broken since the contract was registered; that can be mended as well.
        return None, Failure(refused.detail, retryable=True)
    except CheckFailed as failed:
        return None, Failure(failed.reason, retryable=failed.retryable, indicators=tuple(failed.indicators))
    return reading, None


def baseline_of(tenant_id: UUID, action_id: UUID) -> Reading | None:
    """The reading that was taken before the action ran, where one was wanted (R-RC-09)."""
    taken = [detail for kind, _, detail in record.readings(tenant_id, action_id) if kind == "reading_taken"]
    data = record.opened(tenant_id, UUID(taken[-1]["pointer"])) if taken else None
    return restored(orjson.loads(data)) if data is not None else None


def masked(data: bytes, plan: Plan) -> bytes:
    # The key that repeats a mutation is a secret: evidence names it by its hash's beginning only (R-EX-16).
    key = plan.bindings["scope"].get("idempotency_key")
    return data.replace(key.encode(), b"(idempotency key)") if key else data


def plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return str(value)
