"""Changes of tables while others write: nobody waits long for one, and it names those whom it waits for.

A change that waits for its lock has every later writer wait behind it; one that has its lock has them wait until it
commits. So it gives up after `LOCK_TIMEOUT_S`, and is cancelled once somebody has waited for it for `YIELD_AFTER_S`.
What it began is rolled back, and it is tried again a little later.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from threading import Event, Thread
from types import TracebackType

import psycopg
from django.core.management.base import CommandError
from django.db import Error as DjangoError
from psycopg import errors
from psycopg.conninfo import make_conninfo

LOCK_TIMEOUT_S = 0.5
YIELD_AFTER_S = 0.6
LOOK_EVERY_S = 0.05
GIVE_UP_AFTER_S = 300.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0
AGAIN = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected)

# Whoever wants to read or write, or waits for a row. VACUUM and a second change of tables may wait.
_WAITING_FOR = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float8 FROM pg_locks
WHERE NOT granted AND pid <> %(pid)s AND %(pid)s = ANY (pg_blocking_pids(pid))
    AND (locktype <> 'relation' OR mode IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock'))
"""
_HOLDERS = """
SELECT a.pid, a.usename::text, a.application_name, extract(epoch FROM clock_timestamp() - a.query_start)::float8,
    ARRAY(SELECT DISTINCT h.relation::regclass::text FROM pg_locks h JOIN pg_locks w ON w.relation = h.relation
        AND w.pid = %(pid)s AND NOT w.granted WHERE h.pid = a.pid AND h.granted)
FROM pg_stat_activity a WHERE a.pid = ANY (pg_blocking_pids(%(pid)s)) ORDER BY a.query_start
"""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A session that holds what a change waits for; the age of its statement is None where it is not visible."""

    pid: int
    role: str
    application: str
    statement_s: float | None
    tables: tuple[str, ...]

    def __str__(self) -> str:
        age = "its statement is not visible to this role"
        if self.statement_s is not None:
            age = f"its statement began {self.statement_s:.0f} s ago"
        held = ", ".join(self.tables) or "a lock"
        return f"process {self.pid} holds {held} (role {self.role}, application {self.application or 'unnamed'}; {age})"


class Watch(AbstractContextManager["Watch"]):
    """Looks at one session from another: whom it waits for, and whether somebody has waited for it too long."""

    def __init__(self, session: psycopg.Connection) -> None:
        self.holders: list[Holder] = []
        self.yielded = False
        self._pid = {"pid": session.info.backend_pid}
        address = make_conninfo(session.info.dsn, password=session.info.password or None)
        self._line = psycopg.connect(address, autocommit=True)
        self._ended = Event()
        self._thread = Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._line.close()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                self._look_once()
            except psycopg.Error:
                # The change still has its own bound for each lock, and its next try another watch.
                return

    def _look_once(self) -> None:
        found = self._line.execute(_HOLDERS, self._pid).fetchall()
        if found:
            self.holders = [
                Holder(pid=pid, role=role, application=application, statement_s=age_s, tables=tuple(tables))
                for pid, role, application, age_s, tables in found
            ]
        [(waited_s,)] = self._line.execute(_WAITING_FOR, self._pid).fetchall()
        if waited_s >= YIELD_AFTER_S:
            self.yielded = True
            self._line.execute("SELECT pg_cancel_backend(%(pid)s)", self._pid)


def change_in_short_waits(
    session: psycopg.Connection,
    change: Callable[[], object],
    *,
    say: Callable[[str], object],
    give_up_after_s: float = GIVE_UP_AFTER_S,
) -> None:
    """Carry out a change on this session, again and again if need be; each try of it must be whole or nothing.

    Raises CommandError after `give_up_after_s`; what earlier changes did stays done.
    """
    until = time.monotonic() + give_up_after_s
    for number in count():
        session.execute("SELECT set_config('lock_timeout', %s, false)", [f"{LOCK_TIMEOUT_S * 1000:.0f}ms"])
        with Watch(session) as watch:
            try:
                change()
            except (psycopg.Error, DjangoError) as error:
                reason = _reason(error, watch)
                if reason is None:
                    raise
            else:
                session.execute("RESET lock_timeout")
                return
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**number) * random.uniform(0.5, 1)
        if time.monotonic() + pause_s > until:
            raise CommandError(
                f"{reason} That went on for {give_up_after_s:.0f} s. Run the command again: it goes on here."
            )
        say(f"{reason} The next try is in {pause_s:.1f} s.")
        time.sleep(pause_s)


def _reason(error: Exception, watch: Watch) -> str | None:
    """The reason why a change is to be tried again; None for any other error."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if not isinstance(cause, AGAIN) or (isinstance(cause, errors.QueryCanceled) and not watch.yielded):
        return None
    if watch.yielded:
        return f"Others waited for this change for {YIELD_AFTER_S:.1f} s, so it was taken back."
    return f"This change waited for a lock: {'; '.join(map(str, watch.holders)) or 'by whom it is held was not seen'}."
