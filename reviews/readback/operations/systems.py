"""Systems that are read back: their health, circuits, and releases that a person pauses.

A reading is counted when it has been made, not before: a worker that dies loses counts, never a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import second_person
from ledger.catalogue.rules.contract import Contract
from ledger.db import tenancy
from ledger.people.rules.confirmation import Answer
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, ReasonMissing, Refused
from reviews import queries
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules.incidents import IncidentKind, Severity
from reviews.models import Lane, SystemHealth
from reviews.readback.operations import work_queue
from reviews.readback.rules import circuit as circuits
from reviews.readback.rules.circuit import Circuit
from reviews.readback.rules.limits import BadLimits, SystemLimits, limits_of

_NEWEST_WEIGHS = 0.2


class AlreadyStopped(Refused):
    """Releases to this system are already paused."""

    code = "ALREADY_STOPPED"


class NotStopped(Refused):
    """Releases to this system are not paused."""

    code = "NOT_STOPPED"


@dataclass(frozen=True, kw_only=True)
class ReadAttempt:
    """One reading of a system: its duration, and the reason why there was no answer (empty: there was one)."""

    began_at: datetime
    took_ms: float
    unanswered: str = ""


def record_attempts(*, tenant_id: UUID, system_id: UUID, asked: Iterable[ReadAttempt], at: datetime) -> None:
    """Count readings of a system, in the order in which they were made, and move its circuit (RT-19)."""
    made = list(asked)
    if not made:
        return
    if system_id == tenant_id:
        # No registered system has failed here; there is only a pace.
        pace = _latency(None, made)
        work_queue.update_pace(
            tenant_id=tenant_id, system_id=system_id, limits=SystemLimits(), pace_ms=pace, held_until=None
        )
        return
    row = _lock_health(tenant_id, system_id)
    system = catalogue_queries.system_by_id(tenant_id, system_id)
    limits = limits_in_force(system.settings if system is not None else {})
    before = circuit_of(row)
    after = before
    for each in made:
        after = _circuit_after(after, each, limits, seed=str(system_id), at=at)
    _count_attempts(row, made, after)
    work_queue.update_pace(
        tenant_id=tenant_id, system_id=system_id, limits=limits, pace_ms=row.latency_ms, held_until=after.probe_at
    )
    if after.is_open and not before.is_open:
        _circuit_opened(row, after, at=at)
    elif before.is_open and not after.is_open:
        _circuit_closed(row, before, at=at)


def _circuit_after(circuit: Circuit, asked: ReadAttempt, limits: SystemLimits, *, seed: str, at: datetime) -> Circuit:
    if not asked.unanswered:
        return circuits.after_answer(circuit, at=at)
    return circuits.after_failure(circuit, limits, began_at=asked.began_at, seed=seed, at=at)


def primary_system_id(contract: Contract, tenant_id: UUID) -> UUID | None:
    """Return the registered system that a contract's readings query first."""
    system = (
        catalogue_queries.system(tenant_id, contract.verification.system) if contract.verification is not None else None
    )
    return system.id if system is not None else None


def is_circuit_open(tenant_id: UUID, system_id: UUID) -> bool:
    """Return whether a system's circuit is open, its probe still to be made."""
    return SystemHealth.objects.filter(tenant_id=tenant_id, system_id=system_id, probe_at__isnull=False).exists()


def initial_health(tenant_id: UUID, system_id: UUID) -> SystemHealth:
    """The initial health of a system that was never read."""
    return SystemHealth(tenant_id=tenant_id, system_id=system_id)


def circuit_of(row: SystemHealth) -> Circuit:
    """The circuit that a row of health holds."""
    return Circuit(failures=row.failures, since=row.since, probe_at=row.probe_at, cooldown_s=row.cooldown_s)


def limits_in_force(settings: Mapping[str, Any]) -> SystemLimits:
    """Return the limits of a system by its settings; the defaults if these were stored before limits were checked."""
    try:
        return limits_of(settings)
    except BadLimits:
        return SystemLimits()


def _lock_health(tenant_id: UUID, system_id: UUID) -> SystemHealth:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO reviews_health (tenant_id, system_id, reads, unanswered, failures, last_failure, cooldown_s,"
            " stopped_because) VALUES (%s, %s, 0, 0, 0, '', 0, '') ON CONFLICT (tenant_id, system_id) DO NOTHING",
            [tenant_id, system_id],
        )
    return SystemHealth.objects.select_for_update().get(tenant_id=tenant_id, system_id=system_id)


def _latency(known: int | None, made: list[ReadAttempt]) -> int:
    newest = sum(each.took_ms for each in made) / len(made)
    weight = 1.0 if known is None else max(_NEWEST_WEIGHS, 1 - (1 - _NEWEST_WEIGHS) ** len(made))
    return round((known or 0) * (1 - weight) + newest * weight)


def _count_attempts(row: SystemHealth, made: list[ReadAttempt], circuit: Circuit) -> None:
    failed = [each for each in made if each.unanswered]
    good = [each for each in made if not each.unanswered]
    row.reads += len(made)
    row.unanswered += len(failed)
    row.latency_ms = _latency(row.latency_ms, made)
    row.last_read_at = max(each.began_at for each in made)
    if good:
        row.last_success_at = max(each.began_at for each in good)
    if failed:
        row.last_failure = failed[-1].unanswered[:300]
    row.failures, row.since = circuit.failures, circuit.since
    row.probe_at, row.cooldown_s = circuit.probe_at, circuit.cooldown_s
    row.save(force_update=True)


def _circuit_opened(row: SystemHealth, circuit: Circuit, *, at: datetime) -> None:
    assert circuit.probe_at is not None
    detail = {
        "failures": circuit.failures,
        "reason": row.last_failure,
        "probe_at": instant(circuit.probe_at),
    }
    _tell(row, ledger.NewEvent(kind="circuit_opened", detail=detail), ledger.SYSTEM, at=at)


def _circuit_closed(row: SystemHealth, before: Circuit, *, at: datetime) -> None:
    since = instant(before.since) if before.since is not None else None
    _tell(row, ledger.NewEvent(kind="circuit_closed", detail={"open_since": since}), ledger.SYSTEM, at=at)
    system = catalogue_queries.system_by_id(row.tenant_id, row.system_id)
    incident = queries.incident_with_cause(row.tenant_id, _about(system.name)) if system is not None else None
    if incident is not None:
        head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=incident.id, kind="incident")
        happening = ledger.NewEvent(kind="system_answers_again", detail={"system_id": str(row.system_id)})
        ledger.append(head, happening, actor=ledger.SYSTEM, at=at)


def _tell(row: SystemHealth, happening: ledger.NewEvent, by: ledger.Actor, *, at: datetime) -> None:
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.system_id, kind="system")
    ledger.append(head, happening, actor=by, at=at)


def _about(name: str) -> str:
    return f"system:{name}"


def open_outage_incidents(*, at: datetime) -> int:
    """Open one incident for each system that has been unavailable too long, or for too many (R-RB-06); return the
    number unavailable.
    """
    away = list(Lane.objects.filter(held_until__isnull=False).values_list("tenant_id", "system_id"))
    for tenant_id, system_id in away:
        with tenancy(tenant_id):
            _raise_alarm(tenant_id, system_id, at=at)
    return len(away)


def _raise_alarm(tenant_id: UUID, system_id: UUID, *, at: datetime) -> None:
    row = SystemHealth.objects.filter(tenant_id=tenant_id, system_id=system_id, probe_at__isnull=False).first()
    system = catalogue_queries.system_by_id(tenant_id, system_id)
    if (
        row is None
        or row.since is None
        or system is None
        or queries.incident_with_cause(tenant_id, _about(system.name))
    ):
        return
    limits = limits_of(system.settings)
    waiting = queries.verification_debts(tenant_id, [system_id], at=at)[system_id].waiting
    if (at - row.since).total_seconds() < limits.incident_after_s and waiting < limits.incident_actions:
        return
    incidents_operations.open_for_cause(
        tenant_id=tenant_id,
        title=f"{system.name} does not answer: {waiting} actions wait for their verification",
        kind=IncidentKind.OPERATIONS,
        severity=Severity.HIGH,
        about=_about(system.name),
        note=f"The circuit is open since {instant(row.since)}. {row.last_failure}",
        at=at,
    )


def stop_releasing(*, tenant_id: UUID, name: str, reason: str, by: ledger.Actor, at: datetime) -> None:
    """Pause releases of irreversible actions to a system until a person resumes them."""
    row = _lock_named(tenant_id, name)
    if not reason.strip():
        raise ReasonMissing
    if row.stopped_at is not None:
        raise AlreadyStopped
    SystemHealth.objects.filter(tenant_id=tenant_id, system_id=row.system_id).update(
        stopped_at=at, stopped_because=reason[:1000]
    )
    _tell(row, ledger.NewEvent(kind="releasing_stopped", detail={"reason": reason[:1000]}), by, at=at)


def resume_releasing(*, tenant_id: UUID, name: str, reason: str, by: ledger.Actor, at: datetime) -> None:
    """Release to a system again, as far as its circuit and its debt allow."""
    row = _lock_named(tenant_id, name)
    if not reason.strip():
        raise ReasonMissing
    if row.stopped_at is None:
        raise NotStopped
    SystemHealth.objects.filter(tenant_id=tenant_id, system_id=row.system_id).update(
        stopped_at=None, stopped_because=""
    )
    _tell(row, ledger.NewEvent(kind="releasing_resumed", detail={"reason": reason[:1000]}), by, at=at)


def record_connection(
    *, tenant_id: UUID, system_id: UUID, contract: tuple[str, str], by: ledger.Actor, at: datetime
) -> None:
    """Put a successful connection test on record, with the contract whose check read the system."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=system_id, kind="system")
    detail = dict(zip(("contract", "version"), contract, strict=True))
    ledger.append(head, ledger.NewEvent(kind="connection_tested", detail=detail), actor=by, at=at)


def decide_change(
    *,
    tenant_id: UUID,
    name: str,
    answer: Answer,
    reason: str,
    by: ledger.Actor,
    is_proven: bool = False,
    at: datetime,
) -> Any:
    """Record the second person's decision on a change of a system; after a yes, its limits apply from now on too."""
    row = second_person.decide_system_change(
        tenant_id=tenant_id,
        name=name,
        answer=answer,
        reason=reason,
        by=by,
        is_proven=is_proven,
        at=at,
    )
    if answer is Answer.CONFIRM:
        work_queue.set_lane_limits(tenant_id=tenant_id, system_id=row.id, limits=limits_of(row.settings))
    return row


def _lock_named(tenant_id: UUID, name: str) -> SystemHealth:
    system: Any = catalogue_queries.system(tenant_id, name)
    if system is None:
        raise NotFound("System")
    return _lock_health(tenant_id, system.id)
