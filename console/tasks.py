"""Celery tasks that need the directory, or that connect the steps before an effect with those after it."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError
from django.utils import timezone
from kombu.exceptions import OperationalError

from approvals import tasks as before
from approvals.execution.queries import stopped_agents
from approvals.voting.operations import attention
from console.accounts import operations as accounts_operations
from console.accounts import queries as accounts_queries
from console.break_glass import operations as break_glass_operations
from console.costs import operations as costs
from console.event_export import sending as event_sending
from console.exports import bundle_information
from console.ledger import integrity_step
from console.metrics import operations as metrics
from console.metrics.alerts import operations as alerts
from console.notifications import collect, sending
from console.notifications import operations as notices
from console.notifications import queries as notice_queries
from console.retention import erasure, scans
from console.search import operations as searching
from console.standing_approvals import pauses
from console.telemetry import exporting, health
from console.web import confirmations
from ledger import processes
from ledger import tasks as of_log
from ledger.db import tenancy
from ledger.exports import queries as exported
from ledger.exports.operations import exports
from ledger.log.queries import log as logs
from ledger.record.queries import events
from ledger.record.rules.refusals import Refused
from ledger.verification.queries import storage
from reviews import queries as after
from reviews import tasks as after_tasks
from reviews.cases.operations import batches
from reviews.observations.operations import webhooks
from reviews.readback.operations import readings, schedules

if TYPE_CHECKING:
    from ledger.models import Tenant

log = logging.getLogger(__name__)
KEPT = timedelta(days=2)
WITHIN_S = 10.0
_WORKER = uuid4()
TICK_S = 1.0
# Longer than any provider goes on sending the same webhook.
DELIVERIES_KEPT = timedelta(days=7)
NOTICES_KEPT = timedelta(days=90)
TASK_RUNS_KEPT_S = 3600.0
ATTENTION_KEPT = timedelta(days=180)


@shared_task
def tick(number: int) -> list[str]:
    """Run all checks that are quick and mostly find nothing, in one message per second; return the names of those that
    ran.

    `number` counts the seconds of beat: each look has its own turn among them. What takes long is not done here but
    handed over, and so is what is left when the others have taken long: nothing waits for a slow neighbour.
    """
    due = [task for place, (every_s, task) in enumerate(QUICK) if (number + place) % every_s == 0]
    until, looked = time.monotonic() + TICK_S, []
    took_s: dict[str, float] = {}
    for task in due:
        began = time.monotonic()
        if began > until:
            _hand_over(task)
            continue
        looked.append(str(task.name))
        try:
            task()
            took_s[str(task.name)] = time.monotonic() - began
        except SoftTimeLimitExceeded:
            raise
        except Exception:
            # Whatever it was, its neighbours go on.
            log.exception("%s did not end; its next tick goes on", task.name)
    health.note_task_runs(took_s)
    return looked


def _hand_over(task: Any, *args: str) -> None:
    try:
        task.apply_async(args=args, expires=10, retry=False)
    except (OSError, OperationalError):
        log.warning("the broker did not take %s over; a later tick does", task.name)


@shared_task
def note_tick() -> None:
    """Record that beat's ticks reach a worker, and whether its clock is right."""
    processes.take_lease(processes.TICKS, _WORKER, seconds=0)
    health.look_at_worker_clock()


@shared_task
def look_for_work() -> None:
    """Hand over long work, if there is any."""
    if _running():
        _hand_over(work_batches)
    if _exporting():
        _hand_over(work_exports)
    if _checking():
        _hand_over(check_integrity)
    if stopped_agents(at=timezone.now(), limit=1):
        _hand_over(before.end_stopped_work)
    for tenant_id, search_id in scans.resting_searches(at=timezone.now()):
        _hand_over(search_for_person, str(tenant_id), str(search_id))


@shared_task
def look_for_readings() -> None:
    """Hand over requested readings, and continue with actions that waited for one."""
    if schedules.requested_readings():
        _hand_over(read_before)
    else:
        before.prepare()


@shared_task
def lapse() -> int:
    """Expire leases and approvals; an action that waited for an unreachable system fails as such (RT-18)."""
    at = timezone.now()
    return before.lapse(
        lambda tenant_id: after.release_stops(tenant_id, at=at).keys(), break_glass_operations.raise_overdue_alarm
    )


@shared_task
def read_before() -> int:
    """Read the targets needed before an action runs, and continue with the waiting actions."""
    taken = after_tasks.take_readings()
    before.prepare()
    return taken


@shared_task
def tidy() -> None:
    """Delete the answers and proofs of the day before yesterday, and the webhook entries of last week."""
    at = timezone.now()
    accounts_operations.prune_answers(before=at - KEPT)
    webhooks.prune_deliveries(before=at - DELIVERIES_KEPT)
    readings.prune_counts(at=at)
    processes.prune_task_runs(older_than_s=TASK_RUNS_KEPT_S)
    for tenant in events.tenants():
        exports.remove_expired(tenant_id=tenant.id, at=at)
        with tenancy(tenant.id):
            notices.prune_notices(tenant_id=tenant.id, before=at - NOTICES_KEPT)
            attention.delete_expired(tenant_id=tenant.id, before=at - ATTENTION_KEPT)


@shared_task
def search_for_person(tenant_id: str, search_id: str) -> None:
    """Look through the actions for those that mention a person, for a while; then hand over the rest."""
    tenant, until = UUID(tenant_id), time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        with tenancy(tenant, reads_only=True):
            if not scans.search_portion(tenant, UUID(search_id), at=timezone.now()):
                return
    _hand_over(search_for_person, tenant_id, search_id)


@shared_task
def retain() -> int:
    """Under a standing policy, request the erasure of expired data, a portion an hour; return the number of actions
    named.
    """
    at = timezone.now()
    named = 0
    for tenant in events.tenants():
        with tenancy(tenant.id):
            named += erasure.propose_expired(tenant_id=tenant.id, at=at)
    return named


@shared_task
def end_expired_proposals() -> int:
    """End proposals that no second person confirmed in time; return their number."""
    at = timezone.now()
    return sum(confirmations.end_expired_proposals(tenant.id, at=at) for tenant in events.tenants())


@shared_task
def work_batches() -> int:
    """Advance every running batch for a while, one item of each in turn; return the number of items done.

    What is left over is taken up at the next tick, by whichever worker gets it.
    """
    until, worked, running = time.monotonic() + WITHIN_S, 0, _running()
    while running and time.monotonic() < until:
        running = [each for each in running if _process_batch(*each)]
        worked += len(running)
    return worked


def _running() -> list[tuple[UUID, UUID, frozenset[UUID]]]:
    """(tenant, batch, its operators) of every running batch."""
    found = []
    for tenant in events.tenants():
        with tenancy(tenant.id):
            ids = after.running_batches(tenant.id)
        operators = frozenset(accounts_queries.operators(tenant.id)) if ids else frozenset()
        found += [(tenant.id, batch_id, operators) for batch_id in ids]
    return found


def _checking() -> bool:
    for tenant in events.tenants():
        with tenancy(tenant.id):
            if storage.running_check(tenant.id) is not None:
                return True
    return False


def _process_batch(tenant_id: UUID, batch_id: UUID, operators: frozenset[UUID]) -> bool:
    try:
        return bool(
            batches.process_next_item(tenant_id=tenant_id, batch_id=batch_id, operators=operators, clock=timezone.now)
        )
    except Refused:
        # Somebody turned it while we looked; what it is now, the next tick sees.
        return False
    except DatabaseError:
        log.exception("an item of batch %s could not be worked off", batch_id)
        batches.fail_item(tenant_id=tenant_id, batch_id=batch_id, at=timezone.now())
        return True


# The last step of an export writes everything into one file, however large; it is not cut short like other work.
@shared_task(soft_time_limit=3600, time_limit=3660)
def work_exports() -> int:
    """Advance every export for a while, one piece of each in turn; return the number of pieces made.

    A worker that dies leaves what it has made; the next one goes on from there, at the next tick.
    """
    until, made, running = time.monotonic() + WITHIN_S, 0, _exporting()
    while running and time.monotonic() < until:
        running = [each for each in running if _advance_export(*each)]
        made += len(running)
    return made


def _exporting() -> list[tuple[UUID, UUID]]:
    found = []
    for tenant in events.tenants():
        with tenancy(tenant.id):
            found += [(tenant.id, export_id) for export_id in exported.running_exports(tenant.id)]
    return found


def _advance_export(tenant_id: UUID, export_id: UUID) -> bool:
    try:
        return bundle_information.advance_export(tenant_id=tenant_id, export_id=export_id, clock=timezone.now)
    except (DatabaseError, OSError):
        log.exception("the export %s could not go on", export_id)
        return False


@shared_task
def check_integrity() -> int:
    """Advance every integrity check for a while; return the number of steps. The next tick continues."""
    until, steps = time.monotonic() + WITHIN_S, 0
    for tenant in events.tenants():
        with tenancy(tenant.id):
            check_id = storage.running_check(tenant.id)
        while (
            check_id is not None
            and time.monotonic() < until
            and integrity_step.advance_check(tenant, check_id, clock=timezone.now)
        ):
            steps += 1
    return steps


@shared_task
def count_metrics() -> int:
    """Count new events (R-MT-06); return the number read. The next tick continues."""
    until, looked_at = time.monotonic() + WITHIN_S, 0
    for tenant in events.tenants():
        found = 1
        while found and time.monotonic() < until:
            with tenancy(tenant.id):
                found = metrics.update_metrics(tenant_id=tenant.id, at=timezone.now())
            looked_at += found
    return looked_at


@shared_task
def update_search() -> int:
    """Index new actions by amounts and codes; return the number read. The next tick continues."""
    until, looked_at = time.monotonic() + WITHIN_S, 0
    for tenant in events.tenants():
        found = 1
        while found and time.monotonic() < until:
            with tenancy(tenant.id):
                found = searching.update_search(tenant_id=tenant.id)
            looked_at += found
    return looked_at


@shared_task
def watch_alerts() -> int:
    """Judge every alert rule by its figures; return the number of alerts raised or cleared."""
    turned = 0
    for tenant in events.tenants():
        with tenancy(tenant.id):
            turned += alerts.judge_rules(tenant_id=tenant.id, at=timezone.now())
    return turned


@shared_task
def watch_budgets() -> int:
    """Notify people of budgets that are used up; return the number of notices."""
    told = 0
    for tenant in events.tenants():
        with tenancy(tenant.id):
            told += costs.judge_budgets(tenant_id=tenant.id, at=timezone.now())
    return told


@shared_task
def watch_regressions() -> int:
    """Compare each version in force with the previous one; return the number of alerts raised or cleared."""
    turned = 0
    for tenant in events.tenants():
        with tenancy(tenant.id):
            turned += alerts.compare_versions_in_force(tenant_id=tenant.id, at=timezone.now())
    return turned


@shared_task
def watch_standing_approvals() -> int:
    """Pause standing approvals that must stop and end expired ones; return the number of cases opened."""
    at, opened = timezone.now(), 0
    for tenant in events.tenants():
        try:
            opened += pauses.watch_standing_approvals(tenant.id, at=at)
        except (DatabaseError, Refused):
            log.exception("the standing approvals of a tenant were not looked after")
    return opened


@shared_task
def export_traces() -> int:
    """Send ended spans to the collector; return the number of events and reports behind them.

    What a collector does not take now is sent at a later tick.
    """
    until, sent = time.monotonic() + WITHIN_S, 0
    for tenant in events.tenants():
        found = 1
        while found and time.monotonic() < until:
            found = exporting.export_next(tenant.id, send=exporting.send_spans, at=timezone.now())
            sent += found
    return sent


@shared_task
def export_events() -> int:
    """Send signed events to the due destinations; return the number accepted.

    What a destination does not take now is sent at a later tick, from where it stands.
    """
    until, taken = time.monotonic() + WITHIN_S, 0
    for tenant in events.tenants():
        found = 1
        while found and time.monotonic() < until:
            found = event_sending.export_events(tenant, clock=timezone.now)
            taken += found
    return taken


@shared_task
def tell_alarms() -> int:
    """Send every open alarm to its recipients; return the number of messages. Failed ones are retried."""
    sent = 0
    for tenant in events.tenants():
        at = timezone.now()
        with tenancy(tenant.id):
            notices.create_alarm_notices(
                tenant_id=tenant.id, alarms=logs.alarms(tenant.id), channels=sending.alarm_channels(), at=at
            )
        sent += _send_due(tenant, "alarm")
    return sent


@shared_task
def tell_people() -> int:
    """Read new events of approvals and notify people; return the number of messages."""
    sent, until = 0, time.monotonic() + WITHIN_S
    for tenant in events.tenants():
        while collect.collect_notices(tenant, at=timezone.now()) == collect.AT_A_TIME and time.monotonic() < until:
            pass
        collect.collect_updates(tenant, at=timezone.now())
        sent += _send_due(tenant, "approval", until=until)
    return sent


@shared_task
def send_handoffs() -> int:
    """Send each tenant's handoffs to its webhook, once a day; return the number delivered. A later tick retries the
    rest.
    """
    sent, until = 0, time.monotonic() + WITHIN_S
    for tenant in events.tenants():
        with tenancy(tenant.id):
            names = notice_queries.tenant_settings(tenant.id).handoffs
            if names and "webhook" in sending.available_channels(tenant):
                notices.queue_handoffs(tenant_id=tenant.id, names=names, at=timezone.now())
        sent += _send_due(tenant, "handoff", until=until)
    return sent


def _send_due(tenant: Tenant, topic: str, *, until: float = float("inf")) -> int:
    """Send a tenant's due messages; return the number delivered."""
    sent = 0
    while time.monotonic() < until:
        notice = notices.claim_due(tenant_id=tenant.id, topic=topic, at=timezone.now())
        if notice is None:
            break
        outcome = sending.send(tenant, notice, at=timezone.now())
        notices.record_delivery(notice=notice, **asdict(outcome), at=timezone.now())
        sent += not outcome.fault
    return sent


# Each with the seconds between two looks. None of them waits for anything but the database.
QUICK: tuple[tuple[int, Any], ...] = (
    (2, note_tick),
    (1, look_for_readings),
    (1, before.propose_follow_ups),
    (1, after_tasks.recover),
    (2, lapse),
    (2, look_for_work),
    (3, watch_standing_approvals),
    (5, before.turn_clocks),
    (5, of_log.watch),
    (5, after_tasks.sweep),
)
health.SHARED_PERIODS_S.update({str(task.name): float(every_s) for every_s, task in QUICK})
