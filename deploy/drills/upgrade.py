"""Drill: from the last version to this one during work, and back; nothing is refused, and no writer waits long.

    python -m deploy.drills.upgrade --from v0.1.0 [--actions 100000] [--per-s 5] [--rounds 2]

Begins as an installation of the earlier version, two web processes behind a proxy, and a tenant with so many past
actions. The first round prepares the database with this version while the earlier one works, and then restarts one
process after another with this version; the second restarts them with the earlier one, and so on. The earlier version
is taken from git, with an environment of its own in `build/`. Agent and executors stay. Of the past actions some are
still to be decided, read or settled (`past.py`), and workers go on with them meanwhile.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import tarfile
import threading
import time
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType

import psycopg

from console.local import servers
from console.local.installation import ROOT
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import OURS, CannotRun, Installation, Shape, Tree
from deploy.drills.traffic import Figure, Traffic

ORDER = ("sequencer", "worker", "bulk", "beat", "web", "web1")
LONGEST_WAIT_S = 1.0
LOOK_EVERY_S = 0.02
WAITS = """
SELECT extract(epoch FROM clock_timestamp() - l.waitstart)::float8, concat_ws(' ', l.mode, 'on', l.locktype,
    l.relation::regclass, 'for', left(a.query, 80), 'behind', left(o.query, 80))
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    JOIN pg_stat_activity o ON o.pid = ANY (pg_blocking_pids(l.pid)) AND o.usename = %(owner)s
WHERE NOT l.granted AND l.waitstart IS NOT NULL AND a.usename <> %(owner)s ORDER BY 1 DESC LIMIT 1
"""

FIRST = "SELECT min(backend_start) FROM pg_stat_activity WHERE usename = %(owner)s"
APPLIED = "SELECT app || '.' || name, applied FROM django_migrations WHERE applied >= %s ORDER BY id"


class WaitWatch(AbstractContextManager["WaitWatch"]):
    """The longest time that anybody waited for a session of the tables' owner, and for which lock; `since` is when
    there first was such a session.
    """

    def __init__(self, place: Installation) -> None:
        self.longest_s, self.longest = 0.0, ""
        self.since: datetime | None = None
        self._line = psycopg.connect(place.record.primary.url(servers.SUPERUSER, "counterfoil"), autocommit=True)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> WaitWatch:
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
            if self.since is None:
                [(self.since,)] = self._line.execute(FIRST, {"owner": servers.OWNER}).fetchall()
            for waited_s, lock in self._line.execute(WAITS, {"owner": servers.OWNER}).fetchall():
                if waited_s > self.longest_s:
                    self.longest_s, self.longest = waited_s, lock


def _upgrade(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    time.sleep(options.pause)
    began = time.time()
    if number % 2:
        seen = "back"
        _exchange_all(place, traffic, place.shape.tree, tuple(reversed(ORDER)), options.pause)
    else:
        seen = f"to this version, {_prepare(place, traffic)}"
        time.sleep(options.pause)
        _exchange_all(place, traffic, OURS, ORDER, options.pause)
    traffic.measure_refusals(began)
    took = [took_s for at, took_s in list(traffic.answers) if at >= began]
    before = [took_s for at, took_s in list(traffic.answers) if at < began]
    told = [f"longest before {max(before):.2f} s"] if before and number == 0 else []
    longest_s = max(took, default=0.0)
    traffic.measure(Figure(asked="the longest answer to the agent", value=longest_s, about=told))
    return f"{seen}, {len(took)} answers, longest {longest_s:.2f} s"


def _prepare(place: Installation, traffic: Traffic) -> str:
    began = time.monotonic()
    with WaitWatch(place) as watch:
        said = place.prepare_database(OURS).splitlines()
    took_s = time.monotonic() - began
    about = [watch.longest] if watch.longest else []
    asked = "a wait of anybody for a change of a table"
    traffic.measure(Figure(asked=asked, value=watch.longest_s, most=LONGEST_WAIT_S, about=about))
    migrations = _migrations(place, watch.since) if watch.since is not None else []
    if migrations:
        slowest_s, name = max(migrations)
        traffic.measure(Figure(asked="the slowest migration", value=slowest_s, about=[name]))
    again = [line for line in said if "The next try is in" in line]
    for line in again:
        print(f"  {line}")
    for each_s, name in migrations:
        print(f"  {name}: {each_s:.2f} s")
    return f"prepared in {took_s:.1f} s ({len(again)} tries taken back), longest wait {watch.longest_s:.2f} s"


def _migrations(place: Installation, since: datetime) -> list[tuple[float, str]]:
    """The migrations since a moment, in order, with the seconds from the one before, or from that moment."""
    with psycopg.connect(place.record.primary.url(servers.SUPERUSER, "counterfoil")) as connection:
        found = connection.execute(APPLIED, [since]).fetchall()
    moments = [since, *(applied for _, applied in found)]
    return [((at - before).total_seconds(), name) for (name, at), before in zip(found, moments, strict=False)]


def _exchange_all(place: Installation, traffic: Traffic, tree: Tree, names: tuple[str, ...], pause_s: float) -> None:
    """Exchange one process after another; each must go on, whichever version it is of, and web processes be ready."""
    for name in names:
        _note_ended(place, traffic)
        place.exchange(name, tree)
        time.sleep(pause_s)
    _note_ended(place, traffic)


def _note_ended(place: Installation, traffic: Traffic) -> None:
    traffic.amiss += [f"{name} has ended" for name in ORDER if not place.children[name].running()]
    for name in place.webs:
        if not place.is_ready(name):
            traffic.amiss.append(f"{name} is not ready: {place.readiness(name).get('reasons')}")


def version_tree(reference: str | None) -> Tree:
    """The files of a tag or commit, the last tag by default, with an environment of their own, made once."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{reference or _last_tag()}^{{commit}}").decode().strip()
    folder = ROOT / "build" / f"version-{commit[:12]}"
    if not (folder / ".venv" / "product").exists():
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
            archive.extractall(folder, filter="data")
        left_out = ("MAKEFLAGS", "MAKELEVEL", "VIRTUAL_ENV", "PYTHONPATH", "DJANGO_SETTINGS_MODULE")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        made = subprocess.run(["make", ".venv/product"], cwd=folder, env=environment, capture_output=True, text=True)
        if made.returncode != 0:
            raise CannotRun(f"The environment of {commit[:12]} cannot be made: {made.stderr.strip()[-300:]}")
    return Tree(folder, str(folder / ".venv" / "bin" / "python"))


def _last_tag() -> str:
    try:
        return _git("describe", "--tags", "--abbrev=0").decode().strip()
    except CannotRun:
        raise CannotRun("There is no tag of an earlier version. Name one, or a commit, with --from.") from None


def _git(*words: str) -> bytes:
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        raise CannotRun(f"The earlier version cannot be taken from git: git {' '.join(words)} failed.") from None


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="reference", help="the tag or commit to begin with; by default the last tag")
    parser.add_argument("--actions", type=int, default=100_000, help="how many past actions there are")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between two steps")


DRILL = Drill(
    name="upgrade",
    about="Go to this version and back while work goes on.",
    rounds=2,
    one_round=_upgrade,
    shape=lambda options: Shape(webs=2, tree=version_tree(options.reference), history=options.actions),
    add_options=_add_options,
    per_s=5.0,
)

if __name__ == "__main__":
    DRILL.main()
