"""Readings: the system of record is asked, outside any transaction, so that a slow system holds no lock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger import operations as ledger
from ledger.rules.lifecycle import State
from ledger.rules.refusals import Refused
from ledger.tenancy import tenancy
from reviews.checks import catalogue
from reviews.checks.interface import CheckFailed
from reviews.operations.plans import Plan, planned
from reviews.rules.facts import Failure
from reviews.rules.reading import Reading

READ_TIMEOUT_S = 10.0


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


def masked(data: bytes, plan: Plan) -> bytes:
    # The key that repeats a mutation is a secret: evidence names it by its hash's beginning only (R-EX-16).
    key = plan.bindings["scope"].get("idempotency_key")
    return data.replace(key.encode(), b"(idempotency key)") if key else data


def plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return str(value)
