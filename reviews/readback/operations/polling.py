"""Polling: reads what is due, several systems at once, and concludes each result.

One thread, the task's own, claims, plans and concludes, and is the only one that speaks to the database. The others
read outside systems, each a batch of one system, and hold nothing but their answers. Slow systems may keep half of
them busy, so that the others always find some free.

If we crash, claims run out and their rows are read again: a reading that was made and not concluded was made in vain,
and no more than that.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import DatabaseError

from ledger import processes
from ledger.db import execute, tenancy
from ledger.record import operations as ledger
from ledger.record.queries.work import HELD_TENANTS
from ledger.record.rules.refusals import Refused
from reviews.claims import operations as claims
from reviews.claims.operations import ClaimPlan
from reviews.readback.operations import claimed_batches, readings, schedules, systems
from reviews.readback.operations.claimed_batches import ClaimedBatch, DueReading, ReadMode
from reviews.readback.operations.plans import ReadPlan, plans_for
from reviews.readback.operations.readings import SourceReadings, read_sources
from reviews.readback.rules.limits import interval_factor
from reviews.reconciliation.rules.facts import ReadFailure, ReadPacing
from reviews.recovery.operations.recovery import TenantDecisionContext
from reviews.verification.operations import rechecks, verification
from reviews.verification.rules import verification as rules

log = logging.getLogger(__name__)

READERS = 16
SLOW_READERS = 8
# More would only wait here for the one that concludes, while another worker could have them.
ROWS_AT_ONCE = 100
LANES_AT_ONCE = 4
# So many verdicts at the most are one transaction.
TOGETHER = 20
LONGEST = timedelta(seconds=20)
_BATCH_S = 5.0
_NAP_S = (0.01, 0.2)
# Whoever dies with the lease keeps slow systems unread for so long; it is renewed long before.
LEASE_S = 6.0
_RENEW_S = 1.5


PlannedReading = tuple[ReadPlan | ClaimPlan, DueReading]


@dataclass(frozen=True, kw_only=True)
class CompletedReading:
    """One reading as it was made."""

    plan: ReadPlan | ClaimPlan
    due: DueReading
    taken: SourceReadings
    began_at: datetime
    took_ms: float


@dataclass
class _Round:
    """The readings that one call has under way."""

    clock: Callable[[], datetime]
    pool: ThreadPoolExecutor
    slow: bool
    running: dict[Future[list[CompletedReading]], tuple[ClaimedBatch, list[PlannedReading]]] = field(
        default_factory=dict
    )
    read: int = 0

    @property
    def rows_running(self) -> int:
        return sum(len(work) for _, work in self.running.values())

    @property
    def slow_running(self) -> int:
        return sum(claim.slow for claim, _ in self.running.values())


@dataclass(frozen=True, kw_only=True)
class PollResult:
    """The number of readings concluded, and whether work remains."""

    read: int
    goes_on: bool


def poll_due(*, clock: Callable[[], datetime], stay: timedelta = timedelta(0)) -> PollResult:
    """Read everything that is due, then wait for what becomes due.

    Only one call at a time, of all workers, reads systems that are known to be slow, and only that one stays: the
    others help with the fast ones and return, so that no worker is kept from its other tasks.
    """
    with _only_one() as lease, ThreadPoolExecutor(READERS, thread_name_prefix="reader") as pool:
        begun = _Round(clock=clock, pool=pool, slow=lease.is_held())
        began_at = clock()
        leave_at = began_at + (stay if begun.slow else timedelta(0))
        last_at = began_at + max(LONGEST, stay)
        while True:
            at = clock()
            begun.slow = begun.slow and lease.is_held()
            is_over = at >= last_at
            is_due, nap_s = (True, 0.0) if begun.running or is_over else _look(at)
            claimed = _claim(begun, at=at) if is_due and not is_over else []
            for claim in claimed:
                _begin(begun, claim)
            if begun.running:
                _conclude_some(begun, 0.0 if claimed else _NAP_S[1] / 2)
            elif not claimed:
                if is_over or at >= leave_at:
                    return PollResult(read=begun.read, goes_on=is_over or (begun.slow and bool(stay)))
                time.sleep(nap_s)


def _claim(begun: _Round, *, at: datetime) -> list[ClaimedBatch]:
    lanes = min(LANES_AT_ONCE, READERS - len(begun.running))
    if not lanes or begun.rows_running >= ROWS_AT_ONCE:
        return []
    return claimed_batches.claim_batches(at=at, lanes=lanes, slow=begun.slow and begun.slow_running < SLOW_READERS)


class _Lease:
    """The lease of the one call that may be held up by slow systems; once lost, it is not taken again."""

    def __init__(self) -> None:
        self._holder = uuid4()
        self._held = True
        self._renew_at = 0.0

    def is_held(self) -> bool:
        """True while this call has the lease; renews it where that is due."""
        if self._held and time.monotonic() >= self._renew_at:
            self._held = processes.take_lease(processes.READINGS, self._holder, seconds=LEASE_S)
            self._renew_at = time.monotonic() + _RENEW_S
        return self._held

    def give_up(self) -> None:
        if self._held:
            processes.give_up_lease(processes.READINGS, self._holder)


@contextmanager
def _only_one() -> Iterator[_Lease]:
    """A lease that is given up in the end; that of a worker that dies runs out."""
    lease = _Lease()
    try:
        yield lease
    finally:
        lease.give_up()


def _look(at: datetime) -> tuple[bool, float]:
    """Return whether anything may be claimed, and how long the next poll can wait. This is the only cost of an idle
    moment.
    """
    [(is_due, next_at)] = execute(
        f"SELECT EXISTS (SELECT FROM reviews_schedule WHERE due_at <= $1 AND tenant_id NOT IN ({HELD_TENANTS})),"
        " (SELECT min(due_at) FROM reviews_schedule WHERE due_at > $1)",
        at,
    )
    wanted = (next_at - at).total_seconds() if next_at is not None else _NAP_S[1]
    return is_due, max(_NAP_S[0], min(_NAP_S[1], wanted))


def _begin(begun: _Round, claim: ClaimedBatch) -> None:
    """Plan a batch and pass it to a reader; conclude the part behind an open circuit without one."""
    try:
        work = _plan_batch(claim, at=begun.clock())
    except Exception:
        # Of whatever kind it is: the batches of other systems and tenants go on, and this one's claim runs out.
        log.exception("the readings of a batch could not be planned")
        return
    if claim.mode is ReadMode.HOLD:
        at = begun.clock()
        reason = "The system does not answer; it is asked again when its circuit lets one reading through."
        taken = SourceReadings(failure=ReadFailure(reason, retryable=True))
        held = [CompletedReading(plan=plan, due=due, taken=taken, began_at=at, took_ms=0) for plan, due in work]
        begun.read += _conclude_batch(claim, held, at=at)
    elif work:
        begun.running[begun.pool.submit(_read_all, work, begun.clock)] = (claim, work)


def _plan_batch(claim: ClaimedBatch, *, at: datetime) -> list[PlannedReading]:
    asked = {is_claim: [due.action_id for due in claim.due if due.is_claim is is_claim] for is_claim in (False, True)}
    with tenancy(claim.tenant_id, plans_once=True):
        found: dict[UUID, ReadPlan | ClaimPlan] = {}
        found |= plans_for(claim.tenant_id, asked[False]) if asked[False] else {}
        found |= claims.claim_plans(claim.tenant_id, asked[True]) if asked[True] else {}
        work = [(found[due.action_id], due) for due in claim.due if due.action_id in found]
        wanted = [(plan, due) for plan, due in work if _is_wanted(plan, due)]
        kept = {due.action_id for _, due in wanted}
        # In the order of their ids, as everyone locks several.
        for action_id in sorted(set(asked[False]) - found.keys()):
            verification.hold_unreadable(tenant_id=claim.tenant_id, action_id=action_id, at=at)
        for due in claim.due:
            if due.action_id not in kept:
                schedules.end_schedule(tenant_id=claim.tenant_id, action_id=due.action_id)
    return wanted


def _is_wanted(plan: ReadPlan | ClaimPlan, due: DueReading) -> bool:
    if isinstance(plan, ClaimPlan):
        return True
    action = plan.known.action
    if due.recheck is not None:
        return rechecks.can_be_rechecked(action)
    return verification.is_open(action)


def _read_all(work: list[PlannedReading], clock: Callable[[], datetime]) -> list[CompletedReading]:
    """Make the readings of a batch, one after another; leave those that would take too long to another reader."""
    made: list[CompletedReading] = []
    began = time.monotonic()
    for plan, due in work:
        if time.monotonic() - began > _BATCH_S:
            break
        made.append(_take_reading(plan, due, clock))
    return made


def _take_reading(plan: ReadPlan | ClaimPlan, due: DueReading, clock: Callable[[], datetime]) -> CompletedReading:
    at, began = clock(), time.monotonic()
    try:
        taken = read_sources(plan, at=at, clock=clock)
    except Exception as error:
        log.exception("the check of %s failed on its own account", due.action_id)
        taken = SourceReadings(
            failure=ReadFailure(f"The check itself failed ({type(error).__name__}).", retryable=True)
        )
    took_ms = (time.monotonic() - began) * 1000
    return CompletedReading(plan=plan, due=due, taken=taken, began_at=at, took_ms=took_ms)


def _conclude_some(begun: _Round, patience_s: float) -> None:
    done, _ = wait(begun.running, timeout=patience_s, return_when=FIRST_COMPLETED)
    for future in done:
        claim, work = begun.running.pop(future)
        made = future.result()
        unread = [due.action_id for _, due in work[len(made) :]]
        try:
            if unread:
                claimed_batches.release_unread(claim.tenant_id, claim.id, unread)
            begun.read += _conclude_batch(claim, made, at=begun.clock())
        except Exception:
            log.exception("a batch of readings could not be concluded")


def _conclude_batch(claim: ClaimedBatch, made: list[CompletedReading], *, at: datetime) -> int:
    """Conclude a batch: the readings without news in one statement, the rest one by one."""
    with tenancy(claim.tenant_id, plans_once=True):
        paces = _count_readings(claim, made, at=at)
        context = TenantDecisionContext(claim.tenant_id)
        paced = list(zip(made, paces, strict=True))
        again = [(each, pacing, _next_reading(each, pacing, context)) for each, pacing in paced]
        quiet = [found for _, _, found in again if found is not None]
        if quiet:
            schedules.reschedule(claim.tenant_id, *quiet)
    left = [(each, pacing) for each, pacing, found in again if found is None]
    ended = _conclude_together(claim.tenant_id, left, context)
    for each, pacing in left:
        if each.due.action_id not in ended:
            _conclude(each, pacing, context)
    return len(made)


def _conclude_together(
    tenant_id: UUID, read: list[tuple[CompletedReading, ReadPacing]], context: TenantDecisionContext
) -> set[UUID]:
    """Conclude the actions that were verified and ended, many in one transaction; leave out those that fail."""
    firsts = [
        (each, each.plan, pacing)
        for each, pacing in read
        if each.due.recheck is None and not isinstance(each.plan, ClaimPlan)
    ]
    ended: set[UUID] = set()
    for start in range(0, len(firsts), TOGETHER):
        some = [
            verification.FinishedReading(plan=plan, taken=each.taken, pacing=pacing, at=each.began_at)
            for each, plan, pacing in firsts[start : start + TOGETHER]
        ]
        if len(some) < 2:
            continue
        try:
            with tenancy(tenant_id, plans_once=True):
                done = verification.conclude_successes(tenant_id, some, context=context.now())
        except (DatabaseError, Refused):
            # One of them stands in the others' way: each is concluded alone.
            log.info("%s verifications are concluded one by one", len(some), exc_info=True)
        else:
            ended |= done
    return ended


def _count_readings(claim: ClaimedBatch, made: list[CompletedReading], *, at: datetime) -> list[ReadPacing]:
    """Count the readings against circuit and budget; return the pace for each action's next one."""
    if claim.mode is ReadMode.HOLD:
        return [ReadPacing(not_before=claim.held_until, asked=False)] * len(made)
    asked = [_as_attempt(each) for each in made]
    systems.record_attempts(tenant_id=claim.tenant_id, system_id=claim.system_id, asked=asked, at=at)
    tools = Counter((claim.system_id, each.plan.contract.name) for each in made)
    budget, spent = readings.count_readings(tenant_id=claim.tenant_id, made=tools, at=at)
    return [
        ReadPacing(stretch=interval_factor(budget, spent, rank=each.plan.contract.side_effect_class.rank))
        for each in made
    ]


def _as_attempt(each: CompletedReading) -> systems.ReadAttempt:
    failure = each.taken.failure
    reason = failure.reason if failure is not None and failure.retryable else ""
    return systems.ReadAttempt(began_at=each.began_at, took_ms=each.took_ms, unanswered=reason)


def _next_reading(
    each: CompletedReading, pacing: ReadPacing, context: TenantDecisionContext
) -> schedules.NextReading | None:
    """Return the next reading, if this one adds nothing to the record; None if something follows from it.

    No lock is needed: nothing is decided. If the action has moved meanwhile, its row is gone or is due again.
    """
    plan = each.plan
    if isinstance(plan, ClaimPlan) or each.due.recheck is not None or (pacing.asked and each.due.readings == 0):
        return None
    known = plan.known
    head = ledger.SubjectHead(
        tenant_id=plan.tenant_id,
        id=plan.action_id,
        kind="action",
        state=known.action.state,
        seq=known.action.seq,
        entry=known.entry,
    )
    inputs = verification.run_inputs(
        plan,
        known.action,
        head,
        each.due,
        each.taken,
        uuid4(),
        pacing=pacing,
        context=context,
        at=each.began_at,
    )
    outcome = rules.judge_run(inputs)
    if outcome.next_read_at is None or rules.recorded_steps(inputs, outcome):
        return None
    return schedules.NextReading(
        action_id=plan.action_id,
        due_at=outcome.next_read_at,
        began_at=each.began_at,
        asked=pacing.asked,
        unlisted=int(bool(each.taken.asked)),
    )


def _conclude(each: CompletedReading, pacing: ReadPacing, context: TenantDecisionContext) -> None:
    plan, at = each.plan, each.began_at
    try:
        with tenancy(plan.tenant_id, plans_once=True):
            if isinstance(plan, ClaimPlan):
                claims.conclude_claim(plan, each.taken, each.due, pacing=pacing, at=at)
            elif each.due.recheck is not None:
                rechecks.judge_recheck(plan, each.taken, at=at)
            else:
                verification.conclude_run(plan, each.taken, pacing=pacing, context=context.now(), at=at)
    except (DatabaseError, Refused) as problem:
        # The claim runs out and the action is read again; its neighbours go on.
        log.exception("the verification of %s did not end", each.due.action_id)
        ledger.record_failed_step(
            tenant_id=plan.tenant_id,
            subject_id=each.due.action_id,
            step="conclude the reading",
            problem=problem,
            at=at,
        )
