"""Celery tasks before the effect: due leases and approvals, and the remaining work of stopped agents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery import shared_task
from django.db import DatabaseError
from django.utils import timezone

from approvals.agents.operations import acceptance_watch, stops
from approvals.execution import queries as execution_queries
from approvals.execution.operations import executions
from approvals.gate.operations import follow_ups
from approvals.requests.operations import assignment, clocks, preflight, requests, target_drift
from approvals.requests.queries import approvals
from approvals.voting.operations import approvers, break_glass
from ledger.actions import operations as ledger_orders
from ledger.actions.queries import runs
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.refusals import Refused
from ledger.tasks import share_of

log = logging.getLogger(__name__)
# How many portions of one stopped agent's work a tick ends, each in a transaction of its own.
PORTIONS = 10
# How far back a lifted freeze is looked for, here and in the survey: far longer than a tick, should the worker have
# been away.
LOOK_BACK = timedelta(hours=1)


def lapse(
    unverifiable: Callable[[UUID], Collection[str]] = lambda _: (),
    alarm: Callable[[Any, datetime], None] = lambda used, at: None,
) -> int:
    """Expire what is overdue, each in its own transaction.

    `unverifiable` names a tenant's systems that are away; `alarm` is raised about a use of break-glass that nobody
    reviewed in time, in the transaction that notes it.
    """
    at = timezone.now()
    due = execution_queries.due_work(at=at)
    for tenant_id, subject_id, what in due:
        try:
            with tenancy(tenant_id):
                _come_due(tenant_id, subject_id, what, unverifiable, alarm, at=at)
        except (DatabaseError, Refused) as problem:
            log.exception("what was due for %s did not end", subject_id)
            ledger.record_failed_step(
                tenant_id=tenant_id, subject_id=subject_id, step="end what was due", problem=problem, at=at
            )
    _renew(at=at)
    return len(due)


def _come_due(
    tenant_id: UUID,
    subject_id: UUID,
    what: str,
    unverifiable: Callable[[UUID], Collection[str]],
    alarm: Callable[[Any, datetime], None],
    *,
    at: datetime,
) -> None:
    if what == "lease":
        executions.end_lease(tenant_id=tenant_id, action_id=subject_id, at=at)
    elif what == "prepare":
        preflight.resume(tenant_id=tenant_id, approval_id=subject_id, at=at)
    elif what in assignment.STEPS:
        assignment.take_step(tenant_id=tenant_id, approval_id=subject_id, step=assignment.STEPS[what], at=at)
    elif what == "review":
        unreviewed = break_glass.note_overdue_review(tenant_id=tenant_id, use_id=subject_id, at=at)
        if unreviewed is not None:
            alarm(unreviewed, at)
    elif what == approvers.LOOK:
        target_drift.recheck(tenant_id=tenant_id, subject_id=subject_id, at=at)
    else:
        away = unverifiable(tenant_id)
        requests.expire_approval(tenant_id=tenant_id, approval_id=subject_id, unverifiable=away, at=at)


def _renew(*, at: datetime) -> None:
    """Request approval again for actions that may be retried."""
    for tenant_id in tenants_with(Work.SPENT_APPROVALS, at=at):
        with tenancy(tenant_id):
            spent = approvals.actions_with_spent_approval(tenant_id)
        for action_id in spent:
            try:
                with tenancy(tenant_id):
                    requests.renew_approval(tenant_id=tenant_id, action_id=action_id, at=at)
            except (DatabaseError, Refused) as problem:
                log.exception("nobody could be asked again about %s", action_id)
                ledger.record_failed_step(
                    tenant_id=tenant_id, subject_id=action_id, step="ask again", problem=problem, at=at
                )


@shared_task
def turn_clocks() -> int:
    """Stop the clocks that a freeze covers, resume those whose freeze was lifted, and return the number of stopped
    ones.
    """
    at, standing = timezone.now(), 0
    for tenant_id in tenants_with(Work.MOVED_CLOCKS, at=at):
        with tenancy(tenant_id):
            found = approvals.approvals_with_moved_clock(tenant_id, since=at - LOOK_BACK)
        for approval_id in found:
            try:
                with tenancy(tenant_id):
                    standing += clocks.refresh_clock(tenant_id=tenant_id, approval_id=approval_id, at=at)
            except (DatabaseError, Refused) as problem:
                log.exception("the clock of %s was not turned", approval_id)
                ledger.record_failed_step(
                    tenant_id=tenant_id, subject_id=approval_id, step="turn the clock", problem=problem, at=at
                )
    return standing


@shared_task
def watch_agents(shard: int | None = None) -> int:
    """Raise and clear the flags of agents, each agent in its own transaction; return the number of changes."""
    at, changed = timezone.now(), 0
    for tenant_id in share_of(Work.WATCHED_AGENTS, watch_agents, shard, at=at):
        with tenancy(tenant_id):
            wanted = acceptance_watch.find_flag_changes(tenant_id=tenant_id, at=at)
        for agent_id, flags in wanted:
            try:
                with tenancy(tenant_id):
                    changed += acceptance_watch.update_flags(tenant_id=tenant_id, agent_id=agent_id, flags=flags, at=at)
            except (DatabaseError, Refused):
                log.exception("the flags of %s were not changed", agent_id)
    return changed


@shared_task
def end_stopped_work() -> int:
    """Continue ending the work of stopped agents (`agents.operations.stops`); return the number of portions ended."""
    at, portions = timezone.now(), 0
    for tenant_id, agent_row in execution_queries.stopped_agents(at=at):
        try:
            for _ in range(PORTIONS):
                portions += 1
                with tenancy(tenant_id):
                    more = stops.go_on(tenant_id=tenant_id, agent_row=agent_row, at=at)
                if not more:
                    break
        except (DatabaseError, Refused) as problem:
            log.exception("the work of the stopped agent %s was not ended", agent_row)
            ledger.record_failed_step(
                tenant_id=tenant_id, subject_id=agent_row, step="end stopped work", problem=problem, at=at
            )
    return portions


@shared_task
def prepare() -> int:
    """Continue with the approvals whose target was read; return the number requested or ended."""
    at, moved = timezone.now(), 0
    for tenant_id, approval_id in execution_queries.preparing_approvals():
        try:
            with tenancy(tenant_id):
                moved += preflight.resume(tenant_id=tenant_id, approval_id=approval_id, at=at)
        except (DatabaseError, Refused) as problem:
            log.exception("the approval %s was not prepared", approval_id)
            ledger.record_failed_step(
                tenant_id=tenant_id, subject_id=approval_id, step="prepare the approval", problem=problem, at=at
            )
    return moved


@shared_task
def propose_follow_ups() -> int:
    """Propose the actions that recovery ordered, and cancel unstarted ones in runs that are being rolled back."""
    at = timezone.now()
    proposed = 0
    for order in runs.due_orders(at=at, proposed=False):
        try:
            with tenancy(order.tenant_id):
                made = follow_ups.propose_order(
                    tenant_id=order.tenant_id, action_id=order.action_id, event_id=order.event_id, at=at
                )
            proposed += made is not None
        except follow_ups.OrderNotReady as wait:
            log.info("the order %s waits: %s", order.event_id, wait)
            ledger_orders.postpone_order(order, at=at)
        except (DatabaseError, Refused) as problem:
            log.exception("the order %s was not proposed", order.event_id)
            ledger.record_failed_step(
                tenant_id=order.tenant_id,
                subject_id=order.action_id,
                step="propose the order",
                problem=problem,
                at=at,
            )
            ledger_orders.postpone_order(order, at=at)
    _stop_runs(at=at)
    return proposed


def _stop_runs(*, at: datetime) -> None:
    for tenant_id in tenants_with(Work.UNSTARTED_STEPS, at=at):
        with tenancy(tenant_id):
            open_runs = [each.run_id for each in runs.open_unwindings(tenant_id, "OPEN", "STUCK")]
            waiting = runs.unstarted_steps(tenant_id, open_runs)
        for action_id, run_id in waiting:
            try:
                with tenancy(tenant_id):
                    follow_ups.cancel_step(tenant_id=tenant_id, action_id=action_id, run_id=run_id, at=at)
            except (DatabaseError, Refused) as problem:
                log.exception("the action %s of a run that is taken back was not cancelled", action_id)
                ledger.record_failed_step(
                    tenant_id=tenant_id, subject_id=action_id, step="cancel a step of its run", problem=problem, at=at
                )
