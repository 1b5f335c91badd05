"""Health in two parts: what this process needs to accept requests, and what the whole installation lacks.

A load balancer asks the first (`/readyz`): only what other processes of the same kind need not lack too, so that no
fault of the installation takes all of them out at once. The second (`/statusz`, the page Installation) is for those who
run it. A thing that nobody can see from here is told as not known, never as in order (docs/health.md).
"""

from __future__ import annotations

import logging
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Literal

import redis
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone
from psycopg.errors import DiskFull

from ledger import keystore, processes
from ledger.db import execute, tenancy
from ledger.log.queries import anchors, log
from ledger.log.signer_state import EpochUnknown, read_epoch
from ledger.record.queries import events
from ledger.retention.operations import pruning
from ledger.retention.queries import count_unbegun_erasures
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

    @property
    def state(self) -> Literal["in_order", "failed", "unknown"]:
        return "unknown" if self.in_order is None else "in_order" if self.in_order else "failed"

    @property
    def title(self) -> str:
        return TITLES[self.code]

    @property
    def runbook(self) -> str:
        """The address of the documentation for this check."""
        return f"docs/health.md#{self.code.lower()}"


TITLES = {
    "DATABASE": "Database",
    "KEYS": "Key database",
    "MIGRATIONS": "Migrations",
    "CLOCK": "Clock",
    "EPOCH": "Epoch",
    "FENCE": "Fences of the record",
    "BROKER": "Broker",
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
"""Every code, and what it is about; docs/health.md has a runbook for each."""


# This process


def readiness_faults() -> list[Check]:
    """The failed checks that make this process not ready; empty if it is ready.

    One statement in each of the two databases, well under a millisecond of theirs.
    """
    return [check for check in (*_database(), *_keys(), *_epoch()) if check.in_order is False]


def _database() -> Iterator[Check]:
    asked_at = time.time()
    try:
        [(missing, at)] = execute(
            "SELECT ARRAY(SELECT unnest($1::text[]) EXCEPT SELECT app || '.' || name FROM django_migrations),"
            " extract(epoch FROM clock_timestamp())::float8",
            _newest_migrations(),
        )
    except DatabaseError:
        yield Check("DATABASE", False, "The database does not answer.")
        return
    yield Check("DATABASE", True, "It answers.")
    answered_at = time.time()
    if missing:
        names = ", ".join(sorted(missing))
        yield Check("MIGRATIONS", False, f"The database lacks migrations up to {names}.")
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
    """The last migration of each app, which has run only after all before it."""
    loader = MigrationLoader(None)
    return [f"{app}.{name}" for app, name in loader.graph.leaf_nodes()]


def _keys() -> Iterator[Check]:
    if keystore.is_reachable():
        yield Check("KEYS", True, "It answers.")
    else:
        yield Check("KEYS", False, "The key database does not answer: no payload can be stored or read.")


def _epoch() -> Iterator[Check]:
    try:
        yield Check("EPOCH", True, f"This process reads epoch {read_epoch(settings.COUNTERFOIL_EPOCH)}.")
    except EpochUnknown as unknown:
        yield Check("EPOCH", False, unknown.detail)


# The workers' clocks: one of them looks at its own with each tick that it gets


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


_looked: tuple[float, list[Check]] = (0.0, [])
_looking = Lock()


def installation_status() -> list[Check]:
    """Every check of `TITLES`, in that order; repeated after `FRESH_S`, by one thread at a time."""
    global _looked
    with _looking:
        if time.monotonic() - _looked[0] > FRESH_S or not _looked[1]:
            _looked = (time.monotonic(), look_at_installation())
        return _looked[1]


def look_at_installation() -> list[Check]:
    """Every check of `TITLES` now; checks that need the database are unknown while it does not answer."""
    found = [*_database(), *_keys(), *_epoch(), *_broker()]
    answers = {check.code: check.in_order for check in found}
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
    if not answers["BROKER"]:
        found = [_unknown_without_broker(check) for check in found]
    known = {check.code for check in found}
    found += [Check(code, None, "Not known.") for code in TITLES if code not in known]
    places = {code: place for place, code in enumerate(TITLES)}
    return sorted(found, key=lambda check: places[check.code])


def _unknown_without_broker(check: Check) -> Check:
    """Report beat as unknown while the broker is unreachable, because it is observed through the workers."""
    if check.code == "BEAT" and check.in_order is False:
        return Check("BEAT", None, "Not known while the broker is away: its ticks reach no worker.")
    return check


def _broker() -> Iterator[Check]:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as client:
            client.ping()
        yield Check("BROKER", True, "It answers.")
    except redis.RedisError:
        yield Check("BROKER", False, "The broker does not answer; the record goes on, and readings wait for it.")


def _fences() -> Iterator[Check]:
    gaps = fences.missing_fences()
    for gap in gaps:
        yield Check("FENCE", False, gap)
    if not gaps:
        yield Check("FENCE", True, "All are in place.")


def _processes() -> Iterator[Check]:
    seen = processes.seconds_since_renewal()
    worker, beat = seen.get(processes.READINGS), seen.get(processes.TICKS)
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


def _worker_clocks() -> Iterator[Check]:
    for host, ahead_s in processes.wrong_clocks(within_s=WRONG_FOR_S):
        yield Check("CLOCK", False, _clock_sentence(f"the workers on {host}", ahead_s))


def _duration_text(seconds: float | None) -> str:
    return "so far" if seconds is None else f"for {seconds:.0f} s"


def _backlogs() -> Iterator[Check]:
    late = after.count_overdue_readings(at=timezone.now() - timedelta(minutes=1))
    if late:
        yield Check("SWEEPER", False, f"{late} {'reading is' if late == 1 else 'readings are'} over a minute late.")
    else:
        yield Check("SWEEPER", True, "None is over a minute late.")
    waiting = log.backlog()
    told = f"{waiting.waiting} events wait for their place in the log, the oldest for {waiting.oldest_s or 0:.0f} s."
    yield Check("SEQUENCER", not waiting.is_late, told if waiting.waiting else "No event waits for its place.")


def _erasures() -> Iterator[Check]:
    waiting = 0
    for tenant in events.tenants():
        with tenancy(tenant.id):
            waiting += count_unbegun_erasures(tenant.id, confirmed_before=timezone.now() - timedelta(minutes=1))
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


def _disk() -> Iterator[Check]:
    if _no_room is not None and time.monotonic() - _no_room[0] < NO_ROOM_S:
        ago = time.monotonic() - _no_room[0]
        yield Check("DISK", False, f"The database refused a write {ago:.0f} s ago: {_no_room[1]}")
        return
    for folder in (settings.COUNTERFOIL_EXPORTS, settings.COUNTERFOIL_SECRETS_DIR):
        place = next((each for each in (Path(folder), *Path(folder).parents) if each.exists()), Path("/"))
        usage = shutil.disk_usage(place)
        if usage.free < LEAST_FREE * usage.total:
            told = f"The disk of {folder} has {usage.free / 2**30:.1f} of {usage.total / 2**30:.1f} GiB left."
            yield Check("DISK", False, told)
            return
    told = "This host has room, and no write failed for want of it. What the database's server has left is not visible."
    yield Check("DISK", True, told)


def _backups() -> Iterator[Check]:
    [(mode, archived_at, failed_at)] = execute(
        "SELECT current_setting('archive_mode'), last_archived_time, last_failed_time FROM pg_stat_archiver"
    )
    stamp = settings.COUNTERFOIL_BACKUP_STAMP
    if stamp is not None:
        yield _stamp_check(stamp, timezone.now())
    elif mode == "off":
        told = "Not known: the database archives no WAL, and COUNTERFOIL_BACKUP_STAMP names no file."
        yield Check("BACKUPS", None, told)
    elif failed_at is not None and (archived_at is None or failed_at > archived_at):
        yield Check("BACKUPS", False, f"Archiving of WAL fails since {failed_at:%Y-%m-%d %H:%M} UTC.")
    elif archived_at is None:
        yield Check("BACKUPS", None, "Not known: no WAL has been archived yet.")
    else:
        yield Check("BACKUPS", True, f"WAL was last archived at {archived_at:%Y-%m-%d %H:%M} UTC.")


def _stamp_check(stamp: Path, at: datetime) -> Check:
    """A backup job touches the file when it has ended well."""
    try:
        made_at = datetime.fromtimestamp(stamp.stat().st_mtime, UTC)
    except OSError:
        return Check("BACKUPS", False, f"No backup is on record: {stamp} cannot be read.")
    told = f"The last backup ended at {made_at:%Y-%m-%d %H:%M} UTC."
    return Check("BACKUPS", at - made_at <= BACKUP_WITHIN, told)


def _anchors() -> Iterator[Check]:
    if settings.COUNTERFOIL_WITNESSES is None and settings.COUNTERFOIL_TSA_URL is None:
        yield Check("ANCHORS", None, "Nobody outside is asked to vouch for the logs.")
        return
    failing: dict[str, int] = {}
    for tenant in events.tenants():
        with tenancy(tenant.id):
            for each in anchors.tenant_anchoring(tenant.id)[:1]:
                for one in each.failing:
                    failing[one.name] = failing.get(one.name, 0) + 1
    for name, count in sorted(failing.items()):
        yield Check("ANCHORS", False, f"{name} did not vouch for {count} logs when asked last.")
    if not failing:
        yield Check("ANCHORS", True, "Everybody who was asked has vouched.")


def _partitions() -> Iterator[Check]:
    names = pruning.month_names()
    left = (pruning.month_bounds(names[-1])[1] - timezone.now()).days if names else -1
    if left < 0:
        yield Check("PARTITIONS", False, "This month has no partition; its events go to the default one.")
    else:
        yield Check("PARTITIONS", left >= 7, f"There are partitions for {left} more days.")


_LOOKS: tuple[tuple[tuple[str, ...], Callable[[], Iterator[Check]]], ...] = (
    (("FENCE",), _fences),
    (("WORKER", "BEAT"), _processes),
    ((), _worker_clocks),
    (("SWEEPER", "SEQUENCER"), _backlogs),
    (("ERASER",), _erasures),
    (("DISK",), _disk),
    (("BACKUPS",), _backups),
    (("ANCHORS",), _anchors),
    (("PARTITIONS",), _partitions),
)
