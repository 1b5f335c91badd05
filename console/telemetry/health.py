"""Health in two parts: what this process needs to accept requests, and what the whole installation lacks.

A load balancer asks the first (`/readyz`): only what other processes of the same kind need not lack too, so that no
fault of the installation takes all of them out at once. The second (`/statusz`, the page Installation) is for those who
run it. A thing that nobody can see from here is told as not known, never as in order (docs/health.md).

The figures of the installation (docs/monitoring.md) come from the same look as its status: a part that cannot be looked
at has no figure, and none of them is a tenant's.
"""

from __future__ import annotations

import logging
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

import redis
from amqp.exceptions import AMQPError
from celery import current_app
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone
from kombu.exceptions import OperationalError
from psycopg.errors import DiskFull

from approvals.execution.queries import count_running_attempts, overdue_work
from console.brokers.addresses import Address, NoAnswer, read_address
from console.telemetry import versions
from ledger import keystore, processes
from ledger.actions.queries.runs import waiting_orders
from ledger.catalogue.queries import maintenance_in_force
from ledger.db import execute
from ledger.log.epochs import read_epoch, read_public_keys
from ledger.log.queries import anchors, log
from ledger.log.rules import alarms
from ledger.log.rules.epoch import EpochUnknown, check_epoch
from ledger.record.queries import events
from ledger.retention.operations import pruning
from ledger.verification.queries import fences
from reviews import queries as after

logger = logging.getLogger(__name__)
SKEW_S = 2.0
"""A clock that is further from the database's is named."""
SILENT_S = 15.0
"""A process that has not been seen for so long is missed; it shows itself every two seconds."""
BACKUP_WITHIN = timedelta(hours=26)
LEAST_FREE = 0.05
NO_ROOM_S = 300.0
SEEN_WITHIN_S = 60.0
LATE_AFTER = timedelta(minutes=1)
WRONG_FOR_S = 60.0
"""A worker's clock counts as off for so long after one has seen it; each of many gets a tick within that time."""
FRESH_S = 5.0
"""The status of the installation is looked at anew no more often."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: in order, not in order, or (None) not known from here, and a sentence."""

    code: str
    in_order: bool | None
    detail: str
    page: str = "runbooks"

    @property
    def state(self) -> Literal["in_order", "failed", "unknown"]:
        return "unknown" if self.in_order is None else "in_order" if self.in_order else "failed"

    @property
    def title(self) -> str:
        return TITLES[self.code]

    @property
    def runbook(self) -> str:
        """The address of the documentation for this check."""
        return f"docs/{self.page}.md#{self.code.lower()}"


@dataclass(frozen=True, slots=True)
class InstallationFigure:
    """One measured value of the installation; `label` is the value of its family's label, if it has one."""

    family: str
    value: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class InstallationLook:
    """One look at the installation: every check of `TITLES`, in that order, and what could be measured."""

    checks: list[Check]
    figures: list[InstallationFigure]


TITLES = {
    "DATABASE": "Database",
    "KEYS": "Key database",
    "MIGRATIONS": "Migrations",
    "CLOCK": "Clock",
    "EPOCH": "Epoch",
    "MAINTENANCE": "Maintenance",
    "MOVES": "Moves of tenants",
    "FENCE": "Fences of the record",
    "BROKER": "Broker",
    "COUNTERS": "Counters",
    "WORKER": "Workers",
    "BEAT": "Beat",
    "SWEEPER": "Readings",
    "SEQUENCER": "Sequencer",
    "ERASER": "Eraser",
    "DISK": "Disk",
    "BACKUPS": "Backups",
    "ANCHORS": "Anchors",
    "PARTITIONS": "Partitions",
}
"""Every code, and what it is about; docs/runbooks.md has a runbook for each."""
FIGURES: Final[dict[str, tuple[str, str]]] = {
    "executions_running": ("", "Executions that were started and whose lease has not been ended"),
    "readings_overdue": ("", "Readings that are due and that no worker has claimed; at most 10,000 are counted"),
    "readings_overdue_oldest_seconds": ("", "How long the first of these readings has been due; 0 if there is none"),
    "deadlines_overdue": ("", "Leases, deadlines and reminders that are due and not carried out; at most 10,000"),
    "deadlines_overdue_oldest_seconds": ("", "How long the first of these has been due; 0 if there is none"),
    "orders_waiting": ("", "Recovery actions that were ordered and not yet proposed; at most 10,000 are counted"),
    "orders_waiting_oldest_seconds": ("", "How long the first of these orders has waited; 0 if there is none"),
    "unsealed_events": ("", "Events that wait for their place in the log; at most 4,097 are counted"),
    "unsealed_oldest_seconds": ("", "How long the first of these events has waited; 0 if there is none"),
    "unsigned_leaves": ("", "Events that have their place in a log and no signature over it yet"),
    "unsigned_oldest_seconds": ("", "How long ago the first of these events was written; 0 if there is none"),
    "queue_messages": ("queue", "Messages in a queue of the broker"),
    "task_ended_ago_seconds": ("task", "Time since a task last ended without an error, on any worker"),
    "task_duration_seconds": ("task", "How long that run of the task took"),
    "task_period_seconds": ("task", "How often beat has the task run"),
    "worker_hosts": ("", "Hosts whose workers ended a task within the last minute"),
    "worker_clocks_wrong": ("", "Hosts whose workers found their clock to be off within the last minute"),
    "beat_tick_ago_seconds": ("", "Time since a worker got a tick of beat"),
    "alarms_open": ("kind", "Alarms about the record that no person has acknowledged, in all tenants"),
    "erasures_not_begun": ("", "Erasures that were confirmed over a minute ago and that the eraser has not begun"),
    "anchors_failing": (
        "outsider",
        "Logs for which a witness or the time-stamp authority did not vouch when asked last",
    ),
    "anchors_failing_oldest_seconds": ("outsider", "For how long it has not vouched for one of these logs"),
    "last_anchor_ago_seconds": (
        "kind",
        "Time since a witness (`witness`) or the time-stamp authority (`tsa`) last vouched for any log",
    ),
    "partition_months_left": ("", "Months after this one that have a partition"),
    "backup_age_seconds": ("", "Time since the last backup, or since WAL was last archived"),
    "disk_free_ratio": ("folder", "Share of the disk under a folder of this host that is free"),
}
"""Every family of figures: the name of its label, or none, and its meaning. `counterfoil_` goes before its name."""


# This process


def readiness_faults() -> list[Check]:
    """The failed checks that make this process not ready; empty if it is ready.

    One statement in each of the two databases, well under a millisecond of theirs.
    """
    return [check for check in (*_database(), *_keys(), *_log_key()) if check.in_order is False]


def _database() -> Iterator[Check]:
    asked_at = time.time()
    try:
        [(missing, contracts, at)] = execute(
            "SELECT ARRAY(SELECT unnest($1::text[]) EXCEPT SELECT app || '.' || name FROM django_migrations),"
            " ARRAY(SELECT name::text FROM django_migrations WHERE name ~ $2),"
            " extract(epoch FROM clock_timestamp())::float8",
            _newest_migrations(),
            versions.CONTRACT,
        )
    except DatabaseError:
        yield Check("DATABASE", False, "The database does not answer.")
        return
    yield Check("DATABASE", True, "It answers.")
    answered_at = time.time()
    lowest = versions.lowest_minor(contracts)
    if missing:
        names = ", ".join(sorted(missing))
        yield Check("MIGRATIONS", False, f"The database lacks migrations up to {names}.")
    elif lowest > versions.own_minor():
        yield Check("MIGRATIONS", False, f"The database is {versions.exclusion(lowest)}")
    else:
        yield Check("MIGRATIONS", True, "All have run.")
    ahead_s = _seconds_ahead(asked_at, at, answered_at)
    if ahead_s:
        yield Check("CLOCK", False, _clock_sentence("this process", ahead_s))
    else:
        yield Check("CLOCK", True, f"The clock of this process is within {SKEW_S:.0f} s of the database's.")


def _seconds_ahead(asked_at: float, at: float, answered_at: float) -> float:
    """The seconds by which this process's clock is ahead of the database time `at`; 0 within `SKEW_S`."""
    # The answer was made some time between question and answer.
    ahead_s = (asked_at + answered_at) / 2 - at
    return ahead_s if abs(ahead_s) - (answered_at - asked_at) / 2 > SKEW_S else 0.0


def _clock_sentence(whose: str, ahead_s: float) -> str:
    way = "ahead of" if ahead_s > 0 else "behind"
    return f"The clock of {whose} is {abs(ahead_s):.0f} s {way} the database's."


@cache
def _newest_migrations() -> list[str]:
    """The last migration of each app, which has run only after all before it; a later version may have added more."""
    loader = MigrationLoader(None)
    return [f"{app}.{name}" for app, name in loader.graph.leaf_nodes()]


def _keys() -> Iterator[Check]:
    if keystore.is_reachable():
        yield Check("KEYS", True, "It answers.")
    else:
        yield Check("KEYS", False, "The key database does not answer: no payload can be stored or read.")


def _log_key() -> Iterator[Check]:
    """Fail where this process cannot read the log's public key; without it, it would start nothing."""
    try:
        read_public_keys(settings.COUNTERFOIL_LOG_PUBLIC_KEY)
    except EpochUnknown as unknown:
        yield Check("EPOCH", False, unknown.detail)


def _epoch() -> Iterator[Check]:
    try:
        number = check_epoch(read_epoch(execute), read_public_keys(settings.COUNTERFOIL_LOG_PUBLIC_KEY))
    except EpochUnknown as unknown:
        yield Check("EPOCH", False, unknown.detail)
    else:
        yield Check("EPOCH", True, f"Epoch {number} is signed for the database as it runs now.")


# Workers: each notes when it has ended a task, and looks at its clock with each tick that it gets


NOTED_EVERY_S = 1.0
SHARED_PERIODS_S: dict[str, float] = {}
"""The intervals of the tasks that share one message of beat (`console.tasks.QUICK`)."""
_noted: dict[str, float] = {}


def note_task_runs(took_s: Mapping[str, float]) -> None:
    """Record that this worker has just ended these tasks, each once in `NOTED_EVERY_S` at most, and what they took."""
    at = time.monotonic()
    new = {task: took for task, took in took_s.items() if at - _noted.get(task, -NOTED_EVERY_S) >= NOTED_EVERY_S}
    if not new:
        return
    try:
        processes.note_task_runs(socket.gethostname(), new)
        _noted.update(dict.fromkeys(new, at))
    except DatabaseError:
        logger.warning("when a task ended could not be noted; its next run is")


_clock_is_off = False


def look_at_worker_clock() -> None:
    """Log when this worker's clock becomes wrong and when it is right again, and keep it in the status meanwhile."""
    global _clock_is_off
    asked_at = time.time()
    [(at,)] = execute("SELECT extract(epoch FROM clock_timestamp())::float8")
    ahead_s = _seconds_ahead(asked_at, at, time.time())
    if ahead_s:
        processes.note_wrong_clock(socket.gethostname(), ahead_s)
    if ahead_s and not _clock_is_off:
        logger.warning("CLOCK: %s Have this host synchronised.", _clock_sentence("this worker", ahead_s))
    elif _clock_is_off and not ahead_s:
        logger.warning("CLOCK: The clock of this worker and the database's agree again.")
    _clock_is_off = bool(ahead_s)


# The installation


_looked: tuple[float, InstallationLook] | None = None
_looking = Lock()


def recent_look() -> InstallationLook:
    """The newest look at the installation; repeated after `FRESH_S`, by one thread at a time."""
    global _looked
    with _looking:
        if _looked is None or time.monotonic() - _looked[0] > FRESH_S:
            _looked = (time.monotonic(), look_at_installation())
        return _looked[1]


def installation_status() -> list[Check]:
    """Every check of `TITLES`, in that order, as of the newest look."""
    return recent_look().checks


def look_at_installation() -> InstallationLook:
    """Look at everything now; checks that need the database are unknown while it does not answer, and their figures
    missing.
    """
    found: list[Check | InstallationFigure] = [*_database(), *_keys(), *_broker(), *_counters()]
    answers = {each.code: each.in_order for each in found if isinstance(each, Check)}
    whole = bool(answers["DATABASE"] and answers.get("MIGRATIONS"))
    for codes, look in _LOOKS:
        unknown = [Check(code, None, "Not known while the database is not in order.") for code in codes]
        try:
            # On a page this is one part of its transaction, which a look that fails must not end.
            with transaction.atomic():
                found += list(look()) if whole else unknown
        except DatabaseError:
            logger.exception("a part of the installation could not be looked at")
            found += [Check(code, None, "Not known: the database did not answer this question.") for code in codes]
    checks = [each for each in found if isinstance(each, Check)]
    if not answers["BROKER"]:
        checks = [_unknown_without_broker(check) for check in checks]
    known = {check.code for check in checks}
    checks += [Check(code, None, "Not known.") for code in TITLES if code not in known]
    places = {code: place for place, code in enumerate(TITLES)}
    return InstallationLook(
        sorted(checks, key=lambda check: places[check.code]),
        [each for each in found if isinstance(each, InstallationFigure)],
    )


def _unknown_without_broker(check: Check) -> Check:
    """Report beat as unknown while the broker is unreachable, because it is observed through the workers."""
    if check.code == "BEAT" and check.in_order is False:
        return Check("BEAT", None, "Not known while the broker is away: its ticks reach no worker.")
    return check


def _broker() -> Iterator[Check | InstallationFigure]:
    told = "The broker does not answer; the record goes on, and readings wait for it."
    address = read_address("BROKER_URL", settings.BROKER_URL)
    check = _answering("BROKER", address, told)
    try:
        figures = list(_queues(address)) if check.in_order else []
    except (OSError, OperationalError, redis.RedisError, AMQPError):
        check, figures = Check("BROKER", False, told), []
    yield check
    yield from figures


def _counters() -> Iterator[Check]:
    told = (
        "The counters do not answer: calls are not limited by key, who has a page open is not known, and persons"
        " cannot be searched for."
    )
    yield _answering("COUNTERS", read_address("REDIS_URL", settings.REDIS_URL), told)


def _answering(code: str, address: Address, told: str) -> Check:
    try:
        address.ask(within_s=1.0)
    except NoAnswer:
        return Check(code, False, told)
    return Check(code, True, "It answers." if code == "BROKER" else "They answer.")


def _queues(address: Address) -> Iterator[InstallationFigure]:
    """The messages in each queue that Celery knows; one without any is not there for some brokers."""
    options = current_app.conf.broker_transport_options | {"socket_timeout": 1, "socket_connect_timeout": 1}
    options |= address.kombu_sentinel
    with current_app.connection_for_read(
        address.kombu_url, ssl=address.kombu_tls, connect_timeout=1, transport_options=options
    ) as broker:
        for name in sorted(current_app.amqp.queues):
            with broker.channel() as opened:
                channel: Any = opened
                try:
                    yield InstallationFigure(
                        "queue_messages", channel.queue_declare(name, passive=True).message_count, name
                    )
                except broker.channel_errors:
                    yield InstallationFigure("queue_messages", 0, name)


def _maintenance() -> Iterator[Check]:
    row = maintenance_in_force()
    if row is None:
        yield Check("MAINTENANCE", True, "None is under way.")
    else:
        since = f"{row.begun_at:%Y-%m-%d %H:%M} UTC"
        yield Check("MAINTENANCE", False, f"Under way since {since}: no execution starts. {row.reason}")


def _moves() -> Iterator[Check]:
    held = events.tenants_being_moved()
    for tenant in held:
        yield Check("MOVES", False, f"{tenant.slug} is {tenant.moving}: nothing is written for it here.")
    if not held:
        yield Check("MOVES", True, "None is under way.")


def _fences() -> Iterator[Check]:
    gaps = fences.missing_fences()
    for gap in gaps:
        yield Check("FENCE", False, gap)
    if not gaps:
        yield Check("FENCE", True, "All are in place.")


def _processes() -> Iterator[Check | InstallationFigure]:
    seen = processes.seconds_since_renewal()
    worker, beat = seen.get(processes.READINGS), seen.get(processes.TICKS)
    if beat is not None:
        yield InstallationFigure("beat_tick_ago_seconds", beat)
    works = min((age for age in (worker, beat) if age is not None), default=None)
    if works is not None and works <= SILENT_S:
        yield Check("WORKER", True, f"One was at work {works:.0f} s ago.")
    else:
        yield Check("WORKER", False, f"No worker has been at work {_duration_text(works)}.")
    if beat is not None and beat <= SILENT_S:
        yield Check("BEAT", True, f"A worker got a tick {beat:.0f} s ago.")
    elif works is None or works > SILENT_S:
        yield Check("BEAT", None, "Not known while no worker takes its ticks.")
    else:
        yield Check("BEAT", False, f"No tick has come {_duration_text(beat)}; nothing that is due by time is begun.")


def _tasks() -> Iterator[InstallationFigure]:
    for task, every_s in _task_periods().items():
        yield InstallationFigure("task_period_seconds", every_s, task)
    for run in processes.last_runs():
        yield InstallationFigure("task_ended_ago_seconds", run.ended_ago_s, run.task)
        yield InstallationFigure("task_duration_seconds", run.took_s, run.task)
    yield InstallationFigure("worker_hosts", processes.count_worker_hosts(within_s=SEEN_WITHIN_S))


def _task_periods() -> dict[str, float]:
    """The seconds after which beat has each task run again."""
    scheduled = {each["task"]: float(each["schedule"]) for each in current_app.conf.beat_schedule.values()}
    return scheduled | SHARED_PERIODS_S


def _worker_clocks() -> Iterator[Check | InstallationFigure]:
    wrong = processes.wrong_clocks(within_s=WRONG_FOR_S)
    yield InstallationFigure("worker_clocks_wrong", len(wrong))
    for host, ahead_s in wrong:
        yield Check("CLOCK", False, _clock_sentence(f"the workers on {host}", ahead_s))


def _duration_text(seconds: float | None) -> str:
    return "so far" if seconds is None else f"for {seconds:.0f} s"


def _backlogs() -> Iterator[Check | InstallationFigure]:
    at = timezone.now()
    readings = after.overdue_readings(at=at, late_after=LATE_AFTER)
    late = readings.late
    if late:
        yield Check("SWEEPER", False, f"{late} {'reading is' if late == 1 else 'readings are'} over a minute late.")
    else:
        yield Check("SWEEPER", True, "None is over a minute late.")
    waiting = log.backlog()
    told = f"{waiting.waiting} events wait for their place in the log, the oldest for {waiting.oldest_s or 0:.0f} s."
    yield Check("SEQUENCER", not waiting.is_late, told if waiting.waiting else "No event waits for its place.")
    yield InstallationFigure("executions_running", count_running_attempts()[0])
    yield InstallationFigure("readings_overdue", readings.due)
    yield InstallationFigure("readings_overdue_oldest_seconds", _seconds_since(readings.first_due_at, at))
    yield InstallationFigure("unsealed_events", waiting.waiting)
    yield InstallationFigure("unsealed_oldest_seconds", waiting.oldest_s or 0.0)
    for name, (count, since) in {"deadlines_overdue": overdue_work(at=at), "orders_waiting": waiting_orders()}.items():
        yield InstallationFigure(name, count)
        yield InstallationFigure(f"{name}_oldest_seconds", _seconds_since(since, at))


def _seconds_since(since: datetime | None, at: datetime) -> float:
    return 0.0 if since is None else max(0.0, (at - since).total_seconds())


def _alarms() -> Iterator[InstallationFigure]:
    """The open alarms by kind, one of a kind that is not listed too; and what of the logs has no signature."""
    at = timezone.now()
    concerns = processes.count_concerns(before=at)
    unsigned = next((each for each in concerns if each.what == "unsigned"), None)
    yield InstallationFigure("unsigned_leaves", unsigned.count if unsigned else 0)
    yield InstallationFigure("unsigned_oldest_seconds", _seconds_since(unsigned.since if unsigned else None, at))
    found = {each.name: each.count for each in concerns if each.what == "alarm"}
    for kind in dict.fromkeys((*alarms.TITLES, *found)):
        yield InstallationFigure("alarms_open", found.get(kind, 0), kind)


def _erasures() -> Iterator[Check | InstallationFigure]:
    late = processes.count_concerns(before=timezone.now() - LATE_AFTER)
    waiting = sum(each.count for each in late if each.what == "erasure")
    yield InstallationFigure("erasures_not_begun", waiting)
    if waiting:
        told = f"{waiting} confirmed {'erasure has' if waiting == 1 else 'erasures have'} not begun after a minute."
        yield Check("ERASER", False, told)
    else:
        yield Check("ERASER", True, "No confirmed erasure has waited for over a minute.")


_no_room: tuple[float, str] | None = None


def note_database_error(error: BaseException) -> None:
    """Record that the database refused a write for lack of space, for this process's status."""
    global _no_room
    if isinstance(error.__cause__, DiskFull):
        _no_room = time.monotonic(), str(error).strip().splitlines()[0]


def _disk() -> Iterator[Check | InstallationFigure]:
    folders = {"exports": settings.COUNTERFOIL_EXPORTS, "secrets": settings.COUNTERFOIL_SECRETS_DIR}
    usages = {name: shutil.disk_usage(_existing_folder(Path(folder))) for name, folder in folders.items()}
    for name, usage in usages.items():
        yield InstallationFigure("disk_free_ratio", usage.free / usage.total, name)
    if _no_room is not None and time.monotonic() - _no_room[0] < NO_ROOM_S:
        ago = time.monotonic() - _no_room[0]
        yield Check("DISK", False, f"The database refused a write {ago:.0f} s ago: {_no_room[1]}")
        return
    for name, usage in usages.items():
        if usage.free < LEAST_FREE * usage.total:
            told = f"The disk of {folders[name]} has {usage.free / 2**30:.1f} of {usage.total / 2**30:.1f} GiB left."
            yield Check("DISK", False, told)
            return
    told = "This host has room, and no write failed for want of it. What the database's server has left is not visible."
    yield Check("DISK", True, told)


def _existing_folder(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if each.exists()), Path("/"))


def _backups() -> Iterator[Check | InstallationFigure]:
    [(mode, archived_at, failed_at)] = execute(
        "SELECT current_setting('archive_mode'), last_archived_time, last_failed_time FROM pg_stat_archiver"
    )
    stamp = settings.COUNTERFOIL_BACKUP_STAMP
    if stamp is not None:
        yield from _stamp_check(stamp, timezone.now())
    elif mode == "off":
        told = "Not known: the database archives no WAL, and COUNTERFOIL_BACKUP_STAMP names no file."
        yield Check("BACKUPS", None, told)
    elif failed_at is not None and (archived_at is None or failed_at > archived_at):
        yield Check("BACKUPS", False, f"Archiving of WAL fails since {failed_at:%Y-%m-%d %H:%M} UTC.")
    elif archived_at is None:
        yield Check("BACKUPS", None, "Not known: no WAL has been archived yet.")
    else:
        yield Check("BACKUPS", True, f"WAL was last archived at {archived_at:%Y-%m-%d %H:%M} UTC.")
    if stamp is None and mode != "off" and archived_at is not None:
        yield InstallationFigure("backup_age_seconds", _seconds_since(archived_at, timezone.now()))


def _stamp_check(stamp: Path, at: datetime) -> Iterator[Check | InstallationFigure]:
    """A backup job touches the file when it has ended well."""
    try:
        made_at = datetime.fromtimestamp(stamp.stat().st_mtime, UTC)
    except OSError:
        yield Check("BACKUPS", False, f"No backup is on record: {stamp} cannot be read.")
        return
    told = f"The last backup ended at {made_at:%Y-%m-%d %H:%M} UTC."
    yield Check("BACKUPS", at - made_at <= BACKUP_WITHIN, told)
    yield InstallationFigure("backup_age_seconds", _seconds_since(made_at, at))


def _anchors() -> Iterator[Check | InstallationFigure]:
    asked = anchors.asked_outsiders()
    if not asked:
        yield Check("ANCHORS", None, "Nobody outside is asked to vouch for the logs.")
        return
    at = timezone.now()
    found = {(each.what, each.name): each for each in processes.count_concerns(before=at)}
    failing = [found[each] for each in sorted(asked) if each in found]
    for each in failing:
        yield Check("ANCHORS", False, f"{each.name} did not vouch for {each.count} logs when asked last.")
    if not failing:
        yield Check("ANCHORS", True, "Everybody who was asked has vouched.")
    for kind in sorted({what for what, _ in asked}):
        if last := found.get(("anchored", kind)):
            yield InstallationFigure("last_anchor_ago_seconds", _seconds_since(last.since, at), kind)
    for what, name in sorted(asked):
        one = found.get((what, name))
        yield InstallationFigure("anchors_failing", one.count if one else 0, name)
        yield InstallationFigure("anchors_failing_oldest_seconds", _seconds_since(one.since if one else None, at), name)


def _partitions() -> Iterator[Check | InstallationFigure]:
    names = pruning.month_names()
    yield InstallationFigure(
        "partition_months_left", sum(pruning.month_bounds(each)[0] > timezone.now() for each in names)
    )
    left = (pruning.month_bounds(names[-1])[1] - timezone.now()).days if names else -1
    if left < 0:
        yield Check("PARTITIONS", False, "This month has no partition; its events go to the default one.")
    else:
        yield Check("PARTITIONS", left >= 7, f"There are partitions for {left} more days.")


_LOOKS: tuple[
    tuple[
        tuple[str, ...],
        Callable[[], Iterator[Check | InstallationFigure] | Iterator[Check] | Iterator[InstallationFigure]],
    ],
    ...,
] = (
    (("EPOCH",), _epoch),
    (("MAINTENANCE",), _maintenance),
    (("MOVES",), _moves),
    (("FENCE",), _fences),
    (("WORKER", "BEAT"), _processes),
    ((), _tasks),
    ((), _worker_clocks),
    (("SWEEPER", "SEQUENCER"), _backlogs),
    ((), _alarms),
    (("ERASER",), _erasures),
    (("DISK",), _disk),
    (("BACKUPS",), _backups),
    (("ANCHORS",), _anchors),
    (("PARTITIONS",), _partitions),
)
