"""Celery tasks after the attempt: pick ids, read the clock, make one call. Messages may be lost or repeated."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task
from django.db import DatabaseError
from django.utils import timezone
from kombu.exceptions import OperationalError

from ledger.actions import operations as ledger_orders
from ledger.actions.queries import runs
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.rules.refusals import Refused
from reviews.cases.operations import cases
from reviews.claims import operations as claims
from reviews.observations.operations import observations, ungated_effects
from reviews.readback.operations import polling, probes, readings, schedules, systems
from reviews.recovery.operations import recovery_outcome, run_compensation
from reviews.release_gates import operations as release_gates

log = logging.getLogger(__name__)


@shared_task
def verify_due(stay_s: float = 0.0) -> int:
    """Make the readings that are due, and those that become due while this task runs; then hand over to the next."""
    polled = polling.poll_due(clock=timezone.now, stay=timedelta(seconds=stay_s))
    if polled.goes_on:
        try:
            # Longer than a busy worker may take to get to it: while beat is away nothing else begins the next.
            verify_due.apply_async(kwargs={"stay_s": stay_s}, expires=30, retry=False)
        except (OSError, OperationalError):
            log.warning("the broker did not take over; the next tick does")
    return polled.read


@shared_task
def probe_idle() -> bool:
    """Query one system that is unavailable and that nothing waits for."""
    return probes.probe_next_system(clock=timezone.now)


@shared_task
def take_readings() -> int:
    """Read the targets whose state before execution is wanted; retry at the next tick what cannot be read now."""
    taken = 0
    for tenant_id, action_id in schedules.requested_readings():
        try:
            taken += readings.read_baseline(tenant_id=tenant_id, action_id=action_id, clock=timezone.now)
        except (DatabaseError, Refused) as problem:
            log.exception("the reading before %s could not be taken", action_id)
            ledger.record_failed_step(
                tenant_id=tenant_id,
                subject_id=action_id,
                step="read the target",
                problem=problem,
                at=timezone.now(),
            )
    return taken


@shared_task
def recover() -> int:
    """Carry over the ends of recovery actions, and roll runs back step by step; return the number that advanced."""
    at, moved = timezone.now(), 0
    for order in runs.due_orders(at=at, proposed=True):
        try:
            with tenancy(order.tenant_id):
                ended = recovery_outcome.carry_over_outcome(
                    tenant_id=order.tenant_id, action_id=order.action_id, event_id=order.event_id, at=at
                )
        except (DatabaseError, Refused) as problem:
            log.exception("the end of the order %s was not carried over", order.event_id)
            ledger.record_failed_step(
                tenant_id=order.tenant_id,
                subject_id=order.action_id,
                step="carry over the end",
                problem=problem,
                at=at,
            )
            ended = False
        moved += ended
        if not ended:
            ledger_orders.postpone_order(order, at=at)
    for tenant_id, unwinding_id in run_compensation.open_compensations():
        try:
            with tenancy(tenant_id):
                moved += run_compensation.compensate_next(tenant_id=tenant_id, unwinding_id=unwinding_id, at=at)
        except (DatabaseError, Refused) as problem:
            log.exception("the run of %s was not taken back further", unwinding_id)
            ledger.record_failed_step(
                tenant_id=tenant_id, subject_id=unwinding_id, step="take the run back", problem=problem, at=at
            )
    return moved


@shared_task
def watch_changes() -> int:
    """Compare the change logs of watched systems with the record; return the number of ungated effects reported."""
    told = 0
    for tenant_id, name in ungated_effects.watched_systems():
        try:
            told += ungated_effects.compare_changes(tenant_id=tenant_id, name=name, clock=timezone.now)
        except (DatabaseError, Refused):
            log.exception("the changes of %s were not compared", name)
    return told


@shared_task
def watch_canaries() -> int:
    """Stop each canary that performs worse than the current version, and pass each that has enough results."""
    return release_gates.watch_canaries(at=timezone.now())


@shared_task
def sweep() -> None:
    """Repair the consequences of lost messages and crashes: unscheduled actions, held actions without a case."""
    at = timezone.now()
    schedules.schedule_missing(at=at)
    claims.schedule_missing(at=at)
    cases.open_missing_cases(at=at)
    observations.expire_records(at=at)
    systems.open_outage_incidents(at=at)
