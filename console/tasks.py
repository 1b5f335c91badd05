"""Celery tasks that need the directory, or that connect the steps before an effect with those after it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError
from django.utils import timezone
from kombu.exceptions import OperationalError

from approvals import tasks as before
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
from ledger.exports.operations.stores import StorageAway
from ledger.log.queries import log as logs
from ledger.record.queries import events
from ledger.record.queries.work import Work, one_survey, survey, tenants_with
from ledger.record.rules.refusals import Refused
from ledger.tasks import share_of
from ledger.verification.queries import storage
from reviews import queries as after
from reviews import tasks as after_tasks
from reviews.cases.operations import batches
from reviews.observations.operations import webhooks
from reviews.readback.operations import readings

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
    """Run the checks that are quick and have something to look at, in one message per second; return their names.

    Which have is asked in one statement, for all of them and all tenants; a second in which nothing is due costs that.
    `number` counts the seconds of beat: each look has its own turn among them. What takes long is not done here but
    handed over, and so is what is left when the others have taken long: nothing waits for a slow neighbour.
    """
    due = [each for place, each in enumerate(QUICK) if (number + place) % each.every_s == 0]
    found = survey([kind for each in due for kind in each.kinds], at=timezone.now())
    until, looked = time.monotonic() + TICK_S, []
    took_s: dict[str, float] = {}
    for each in due:
        name, began = str(each.task.name), time.monotonic()
        if each.kinds and not each.always and not any(found[kind] for kind in each.kinds):
            # It has looked, and found nothing.
            took_s[name] = 0.0
            continue
        if began > until:
            _hand_over(each.task)
            continue
        looked.append(name)
        try:
            with one_survey(found):
                each.task()
            took_s[name] = time.monotonic() - began
        except SoftTimeLimitExceeded:
            raise
        except Exception:
            # Whatever it was, its neighbours go on.
            log.exception("%s did not end; its next tick goes on", name)
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
    at = timezone.now()
    for kind, task in LONG.items():
        if tenants_with(kind, at=at):
            _hand_over(task)
    for tenant_id, search_id in scans.resting_searches(at=at):
        _hand_over(search_for_person, str(tenant_id), str(search_id))


@shared_task
def look_for_readings() -> None:
    """Hand over requested readings, and continue with actions that waited for one."""
    if tenants_with(Work.WANTED_READINGS):
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
    """Delete ended sessions, the answers and proofs of the day before yesterday, and last week's webhook entries."""
    at = timezone.now()
    accounts_operations.prune_answers(before=at - KEPT)
    accounts_operations.prune_sign_ins(at=at)
    webhooks.prune_deliveries(before=at - DELIVERIES_KEPT)
    readings.prune_counts(at=at)
    processes.prune_task_runs(older_than_s=TASK_RUNS_KEPT_S)
    for tenant_id in tenants_with(Work.ENDED_EXPORTS, at=at):
        try:
            exports.remove_expired(tenant_id=tenant_id, at=at)
        except StorageAway:
            log.exception("the expired exports of %s were not removed; the next hour's run does", tenant_id)
            break
    for tenant_id in tenants_with(Work.OLD_NOTICES, at=at - NOTICES_KEPT):
        with tenancy(tenant_id):
            notices.prune_notices(tenant_id=tenant_id, before=at - NOTICES_KEPT)
    for tenant_id in tenants_with(Work.OLD_DISPLAYS, at=at - ATTENTION_KEPT):
        with tenancy(tenant_id):
            attention.delete_expired(tenant_id=tenant_id, before=at - ATTENTION_KEPT)


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
def retain(shard: int | None = None) -> int:
    """Under a standing policy, request the erasure of expired data, a portion an hour; return the number of actions
    named.
    """
    at = timezone.now()
    named = 0
    for tenant_id in share_of(Work.STANDING_RETENTION, retain, shard, at=at):
        with tenancy(tenant_id):
            named += erasure.propose_expired(tenant_id=tenant_id, at=at)
    return named


@shared_task
def end_expired_proposals() -> int:
    """End proposals that no second person confirmed in time; return their number."""
    at = timezone.now()
    return sum(confirmations.end_expired_proposals(tenant_id, at=at) for tenant_id in tenants_with(Work.OPEN_PROPOSALS))


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
    for tenant_id in tenants_with(Work.RUNNING_BATCHES):
        with tenancy(tenant_id):
            ids = after.running_batches(tenant_id)
        operators = frozenset(accounts_queries.operators(tenant_id)) if ids else frozenset()
        found += [(tenant_id, batch_id, operators) for batch_id in ids]
    return found


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
    for tenant_id in tenants_with(Work.RUNNING_EXPORTS):
        with tenancy(tenant_id):
            found += [(tenant_id, export_id) for export_id in exported.running_exports(tenant_id)]
    return found


def _advance_export(tenant_id: UUID, export_id: UUID) -> bool:
    try:
        return bundle_information.advance_export(tenant_id=tenant_id, export_id=export_id, clock=timezone.now)
    except (DatabaseError, OSError, StorageAway):
        log.exception("the export %s could not go on", export_id)
        return False


@shared_task
def check_integrity() -> int:
    """Advance every integrity check for a while; return the number of steps. The next tick continues."""
    until, steps = time.monotonic() + WITHIN_S, 0
    for tenant in _tenants(tenants_with(Work.RUNNING_CHECKS)):
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
def count_metrics(shard: int | None = None) -> int:
    """Count new events (R-MT-06); return the number read. The next tick continues."""
    until, looked_at = time.monotonic() + WITHIN_S, 0
    for tenant_id in share_of(Work.UNCOUNTED_EVENTS, count_metrics, shard, at=timezone.now()):
        found = 1
        while found and time.monotonic() < until:
            with tenancy(tenant_id):
                found = metrics.update_metrics(tenant_id=tenant_id, at=timezone.now())
            looked_at += found
    return looked_at


@shared_task
def update_search(shard: int | None = None) -> int:
    """Index new actions by amounts and codes; return the number read. The next tick continues."""
    until, looked_at = time.monotonic() + WITHIN_S, 0
    for tenant_id in share_of(Work.UNINDEXED_EVENTS, update_search, shard, at=timezone.now()):
        found = 1
        while found and time.monotonic() < until:
            with tenancy(tenant_id):
                found = searching.update_search(tenant_id=tenant_id)
            looked_at += found
    return looked_at


@shared_task
def watch_alerts(shard: int | None = None) -> int:
    """Judge every alert rule by its figures; return the number of alerts raised or cleared."""
    turned = 0
    for tenant_id in share_of(Work.ALERT_RULES, watch_alerts, shard, at=timezone.now()):
        with tenancy(tenant_id):
            turned += alerts.judge_rules(tenant_id=tenant_id, at=timezone.now())
    return turned


@shared_task
def watch_budgets(shard: int | None = None) -> int:
    """Notify people of budgets that are used up; return the number of notices."""
    told = 0
    for tenant_id in share_of(Work.BUDGETS, watch_budgets, shard, at=timezone.now()):
        with tenancy(tenant_id):
            told += costs.judge_budgets(tenant_id=tenant_id, at=timezone.now())
    return told


@shared_task
def watch_regressions(shard: int | None = None) -> int:
    """Compare each version in force with the previous one; return the number of alerts raised or cleared."""
    turned, since = 0, timezone.now() - alerts.COMPARED_OVER - timedelta(days=1)
    for tenant_id in share_of(Work.COMPARED_VERSIONS, watch_regressions, shard, at=since):
        with tenancy(tenant_id):
            turned += alerts.compare_versions_in_force(tenant_id=tenant_id, at=timezone.now())
    return turned


@shared_task
def watch_standing_approvals() -> int:
    """Pause standing approvals that must stop and end expired ones; return the number of cases opened."""
    at, opened = timezone.now(), 0
    for tenant_id in tenants_with(Work.STANDING_APPROVALS, at=at):
        try:
            opened += pauses.watch_standing_approvals(tenant_id, at=at)
        except (DatabaseError, Refused):
            log.exception("the standing approvals of a tenant were not looked after")
    return opened


@shared_task
def export_traces(shard: int | None = None) -> int:
    """Send ended spans to the collector; return the number of events and reports behind them.

    What a collector does not take now is sent at a later tick.
    """
    until, sent = time.monotonic() + WITHIN_S, 0
    for tenant_id in share_of(Work.ENDED_SPANS, export_traces, shard, at=timezone.now()):
        found = 1
        while found and time.monotonic() < until:
            found = exporting.export_next(tenant_id, send=exporting.send_spans, at=timezone.now())
            sent += found
    return sent


@shared_task
def export_events(shard: int | None = None) -> int:
    """Send signed events to the due destinations; return the number accepted.

    What a destination does not take now is sent at a later tick, from where it stands.
    """
    until, taken = time.monotonic() + WITHIN_S, 0
    for tenant in _tenants(share_of(Work.EVENT_DESTINATIONS, export_events, shard, at=timezone.now())):
        found = 1
        while found and time.monotonic() < until:
            found = event_sending.export_events(tenant, clock=timezone.now)
            taken += found
    return taken


@shared_task
def tell_alarms(shard: int | None = None) -> int:
    """Send every open alarm to its recipients; return the number of messages. Failed ones are retried."""
    sent = 0
    for tenant in _tenants(share_of(Work.ALARM_NOTICES, tell_alarms, shard, at=timezone.now())):
        at = timezone.now()
        with tenancy(tenant.id):
            notices.create_alarm_notices(
                tenant_id=tenant.id, alarms=logs.alarms(tenant.id), channels=sending.alarm_channels(), at=at
            )
        sent += _send_due(tenant, "alarm")
    return sent


@shared_task
def tell_people(shard: int | None = None) -> int:
    """Read new events of approvals and notify people; return the number of messages."""
    sent, until = 0, time.monotonic() + WITHIN_S
    for tenant in _tenants(share_of(Work.NOTICES, tell_people, shard, at=timezone.now())):
        while collect.collect_notices(tenant, at=timezone.now()) == collect.AT_A_TIME and time.monotonic() < until:
            pass
        collect.collect_updates(tenant, at=timezone.now())
        sent += _send_due(tenant, "approval", until=until)
    return sent


@shared_task
def send_handoffs(shard: int | None = None) -> int:
    """Send each tenant's handoffs to its webhook, once a day; return the number delivered. A later tick retries the
    rest.
    """
    sent, until = 0, time.monotonic() + WITHIN_S
    for tenant in _tenants(share_of(Work.HANDOFFS, send_handoffs, shard, at=timezone.now())):
        with tenancy(tenant.id):
            names = notice_queries.tenant_settings(tenant.id).handoffs
            if names and "webhook" in sending.available_channels(tenant):
                notices.queue_handoffs(tenant_id=tenant.id, names=names, at=timezone.now())
        sent += _send_due(tenant, "handoff", until=until)
    return sent


def _tenants(ids: list[UUID]) -> list[Tenant]:
    """These tenants, in the order of the ids; those that are gone are left out."""
    known = events.tenants_by_id(ids) if ids else {}
    return [known[each] for each in ids if each in known]


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


LONG: Mapping[Work, Any] = {
    Work.RUNNING_BATCHES: work_batches,
    Work.RUNNING_EXPORTS: work_exports,
    Work.RUNNING_CHECKS: check_integrity,
    Work.STOPPED_AGENTS: before.end_stopped_work,
}
"""The work that a tick hands over, and the task that does it."""


class QuickLook(NamedTuple):
    """A check that waits for nothing but the database: the seconds between two looks, the task, and the kinds of work
    of which one must be there for it to run, unless it `always` runs, as one without any does.
    """

    every_s: int
    task: Any
    kinds: tuple[Work, ...] = ()
    always: bool = False


QUICK: tuple[QuickLook, ...] = (
    QuickLook(2, note_tick),
    QuickLook(1, look_for_readings, (Work.WANTED_READINGS, Work.PREPARING_APPROVALS)),
    QuickLook(1, before.propose_follow_ups, (Work.UNPROPOSED_ORDERS, Work.UNSTARTED_STEPS)),
    QuickLook(1, after_tasks.recover, (Work.PROPOSED_ORDERS, Work.ROLLBACKS)),
    QuickLook(2, lapse, (Work.DEADLINES, Work.SPENT_APPROVALS)),
    QuickLook(2, look_for_work, tuple(LONG), always=True),
    QuickLook(3, watch_standing_approvals, (Work.STANDING_APPROVALS,)),
    QuickLook(5, before.turn_clocks, (Work.MOVED_CLOCKS,)),
    QuickLook(5, of_log.watch, (Work.LATE_LOGS,)),
    QuickLook(
        5,
        after_tasks.sweep,
        (
            *(Work.UNSCHEDULED_ACTIONS, Work.UNSCHEDULED_CLAIMS, Work.HELD_ACTIONS, Work.STALLED_ACTIONS),
            Work.AWAY_SYSTEMS,
        ),
    ),
)
health.SHARED_PERIODS_S.update({str(each.task.name): float(each.every_s) for each in QUICK})
