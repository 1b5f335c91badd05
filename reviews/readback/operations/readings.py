"""Reads the systems of record outside any transaction, so that a slow system holds no lock.

Several sources are read one after the other within one deadline, each in its own system with its own credential; a
slow one takes time from those behind it only.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import orjson

from ledger.actions.queries import readings as readings_read
from ledger.catalogue.rules.policies import ReadingBudget
from ledger.db import execute, tenancy
from ledger.record import operations as ledger
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State
from ledger.record.rules.refusals import Refused
from ledger.record.rules.target_readings import TargetReading
from reviews import queries
from reviews.checks import catalogue
from reviews.checks.interface import CheckFailed
from reviews.models import ReadingCount, ReadingTotal
from reviews.readback.operations import systems
from reviews.readback.operations.origins import source_origin
from reviews.readback.operations.plans import ReadPlan, SourcePlan, SourceQuery, plan_for
from reviews.readback.rules import limits
from reviews.readback.rules.limits import ReadingUsage
from reviews.reconciliation.rules.facts import ReadFailure
from reviews.reconciliation.rules.prior_effect import prior_effect
from reviews.reconciliation.rules.reading import Reading, reading_bindings, to_json_default

READ_TIMEOUT_S = 10.0
ALL_WITHIN_S = 20.0
"""For all sources of one run: well inside the claim on its schedule row."""


@dataclass(frozen=True, kw_only=True)
class SourceReadings:
    """The readings of one run's sources, the primary one first, and the reasons why others gave none; `asked` are the
    systems that were asked, in that order.
    """

    readings: tuple[Reading, ...] = ()
    failure: ReadFailure | None = None
    silent: tuple[ReadFailure, ...] = ()
    asked: tuple[str, ...] = ()

    def count_asked(self, plan: SourcePlan, *, unlisted: int) -> dict[str, int]:
        """The readings of each system by this run and the `unlisted` ones before it, of which no event tells.

        Those asked every system that this one asked, except for a READ_ONLY action: then only the first is certain.
        """
        found: Counter[str] = Counter(self.asked)
        for name in self.asked if plan.contract.mutating else self.asked[:1]:
            found[name] += unlisted
        return dict(found)


def read_baseline(*, tenant_id: UUID, action_id: UUID, clock: Callable[[], datetime]) -> bool:
    """Read the target before the action runs and record the reading; return True if it could be read.

    If we crash before the commit, the wish still stands and the next tick takes the reading.
    """
    with tenancy(tenant_id):
        plan = plan_for(tenant_id, action_id)
        system_id = systems.primary_system_id(plan.contract, tenant_id)
        if system_id is not None and systems.is_circuit_open(tenant_id, system_id):
            return False
    at, began = clock(), time.monotonic()
    reading, failure = read_primary(plan, at=at)
    if system_id is not None:
        reason = failure.reason if failure is not None and failure.retryable else ""
        asked = systems.ReadAttempt(began_at=at, took_ms=(time.monotonic() - began) * 1000, unanswered=reason)
        with tenancy(tenant_id):
            systems.record_attempts(tenant_id=tenant_id, system_id=system_id, asked=[asked], at=clock())
    with tenancy(tenant_id):
        head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
        target = readings_read.target_reading(tenant_id, action_id)
        if head.state != State.VALIDATED or not target.is_wanted:
            return False
        if reading is None:
            _record_missed_reading(head, target, failure, at=at)
            return False
        # Who goes on from the event knows no reading, only what expressions would see of it.
        document = asdict(reading) | {"shown": reading_bindings(reading, plan.contract.required_effects)}
        kept = ledger.store_evidence(
            tenant_id=tenant_id,
            subject_id=action_id,
            purpose="baseline",
            data=mask_idempotency_key(orjson.dumps(document, default=to_json_default), plan),
            media_type="application/json",
            source=reading.source,
            at=at,
        )
        intended = plan.bindings["si"]["target_resource"]
        effect = prior_effect(reading, plan.contract, plan.bindings, intended)
        detail = {
            "pointer": str(kept.pointer),
            "source": reading.source,
            "effect": effect,
            "consistency": str(reading.consistency),
            "trusted_as": str(reading.trusted_as),
            "observed_at": instant(reading.observed_at),
            "indicators": list(reading.indicators),
        }
        happening = ledger.NewEvent(kind="reading_taken", detail=detail, evidence=(kept,))
        ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    return True


def _record_missed_reading(
    head: ledger.SubjectHead, target: TargetReading, failure: ReadFailure | None, *, at: datetime
) -> None:
    """Record that a reading before the start was tried in vain, once for each time that one was wanted."""
    if target.is_missed or failure is None:
        return
    *_, (_, _, wanted) = readings_read.readings(head.tenant_id, head.id)
    detail = {"for": wanted.get("for", ""), "reason": failure.reason, "retryable": failure.retryable}
    ledger.append(head, ledger.NewEvent(kind="reading_missed", detail=detail), actor=ledger.SYSTEM, at=at)


def read_primary(plan: SourcePlan, *, at: datetime) -> tuple[Reading | None, ReadFailure | None]:
    """Read the primary source."""
    if not plan.questions:
        return None, None
    question = plan.questions[0]
    timeout_s = float(question.document.get("timeout_s", READ_TIMEOUT_S))
    return _ask_source(question, plan, at=at, timeout_s=timeout_s)


def read_sources(plan: SourcePlan, *, at: datetime, clock: Callable[[], datetime]) -> SourceReadings:
    """Read every source; for a READ_ONLY action the further ones only as far as needed (RT-43)."""
    first, failure = read_primary(plan, at=at)
    asked = [each.access.name for each in plan.questions[:1] if each.access is not None]
    salt = os.urandom(16)
    readings = [] if first is None else [_add_origin(first, plan, plan.questions[0], salt)]
    silent = []
    for question in plan.questions[1:]:
        if not plan.contract.mutating and any(reading.is_strong for reading in readings):
            break
        left_s = ALL_WITHIN_S - (clock() - at).total_seconds()
        reading, problem = _ask_source(question, plan, at=at, timeout_s=min(left_s, READ_TIMEOUT_S))
        if question.access is not None and left_s > 0:
            asked.append(question.access.name)
        if reading is not None:
            readings.append(_add_origin(replace(reading, name=question.name), plan, question, salt))
        elif problem is not None:
            silent.append(replace(problem, source=question.name))
    return SourceReadings(readings=tuple(readings), failure=failure, silent=tuple(silent), asked=tuple(asked))


def _add_origin(reading: Reading, plan: SourcePlan, question: SourceQuery, salt: bytes) -> Reading:
    """Add to the reading the identity of its source, if there are several to distinguish."""
    if len(plan.questions) < 2 or question.access is None:
        return reading
    return replace(reading, origin={**(reading.origin or {}), **source_origin(question.access, salt=salt)})


def _ask_source(
    question: SourceQuery, plan: SourcePlan, *, at: datetime, timeout_s: float
) -> tuple[Reading | None, ReadFailure | None]:
    if timeout_s <= 0:
        return None, ReadFailure("The sources before it took all the time of this run.", retryable=True)
    if question.access is None:
        # Nobody has set this up yet: that can be mended, so the action waits for it instead of being given up.
        return None, ReadFailure(question.missing, retryable=True)
    try:
        check = catalogue.check_for(question.pattern)
        reading = check.read(
            system=question.access,
            verification=dict(question.document),
            bindings=plan.bindings,
            at=at,
            timeout_s=timeout_s,
        )
    except Refused as refused:
        # The plug-in is gone or broken since the contract was registered; that can be mended as well.
        return None, ReadFailure(refused.detail, retryable=True)
    except CheckFailed as failed:
        return None, ReadFailure(failed.reason, retryable=failed.retryable, indicators=tuple(failed.indicators))
    return reading, None


def mask_idempotency_key(data: bytes, plan: ReadPlan) -> bytes:
    # The key that repeats a mutation is a secret: evidence names it by its hash's beginning only (R-EX-16).
    key = plan.bindings["scope"].get("idempotency_key")
    return data.replace(key.encode(), b"(idempotency key)") if key else data


KEPT = timedelta(days=400)


def count_readings(
    *, tenant_id: UUID, made: Mapping[tuple[UUID, str], int], at: datetime
) -> tuple[ReadingBudget, ReadingUsage]:
    """Count readings, made by (system, tool); return the tenant's budget and its present use."""
    budget = queries.reading_budget(tenant_id)
    execute(
        "INSERT INTO reviews_readingcount (tenant_id, day, system_id, tool, readings)"
        " SELECT $1, $2, w.* FROM unnest($3::uuid[], $4::text[], $5::integer[]) AS w (system_id, tool, readings)"
        " ON CONFLICT (tenant_id, day, system_id, tool)"
        " DO UPDATE SET readings = reviews_readingcount.readings + excluded.readings",
        *(tenant_id, at.date()),
        [system_id for system_id, _ in made],
        [tool for _, tool in made],
        list(made.values()),
    )
    execute("INSERT INTO reviews_readingtotal (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING", tenant_id)
    row = ReadingTotal.objects.select_for_update().get(tenant_id=tenant_id)
    before = limits.usage_at(queries.usage_from_row(row), at=at)
    after = limits.add_reads(before, sum(made.values()))
    ReadingTotal.objects.filter(tenant_id=tenant_id).update(
        hour_from=after.hour_from, in_hour=after.in_hour, day_from=after.day_from, in_day=after.in_day
    )
    window = limits.exceeded_budget(budget, after)
    if window is not None and window != limits.exceeded_budget(budget, before):
        _tell(tenant_id, window, after, budget, at=at)
    return budget, after


def _tell(tenant_id: UUID, window: str, spent: ReadingUsage, budget: ReadingBudget, *, at: datetime) -> None:
    used, most = (
        (spent.in_day, budget.readings_per_day) if window == "day" else (spent.in_hour, budget.readings_per_hour)
    )
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=tenant_id, kind="tenant")
    detail = {"window": window, "readings": used, "budget": most}
    ledger.append(head, ledger.NewEvent(kind="reading_budget_spent", detail=detail), actor=ledger.SYSTEM, at=at)


def prune_counts(*, at: datetime) -> None:
    """Delete counts that are no longer needed."""
    for tenant_id in tenants_with(Work.OLD_COUNTS, at=at - KEPT):
        with tenancy(tenant_id):
            ReadingCount.objects.filter(tenant_id=tenant_id, day__lt=(at - KEPT).date()).delete()
