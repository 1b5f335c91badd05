"""Child processes: start, await and stop them, and find those left behind by a dead parent.

A process is known by its id *and* the moment it started, because ids are used again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import psutil

from ledger.key_files import write_private

PLANNED_CRASH: Final = b"Planned crash"
"""How a program of the example begins its last line before it ends itself."""


@dataclass(frozen=True, kw_only=True)
class ServiceUser:
    """The operating-system user that a program runs as when it may not be root."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program to run, its user, its folder, and how to end it. A higher rank starts later and ends earlier."""

    name: str
    argv: list[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    account: ServiceUser | None = None
    folder: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    grace_s: float = 10.0
    rank: int = 0


class RunningProcess(Protocol):
    """A child as its supervisor sees it: a `subprocess.Popen`, or a fork (`console.local.forking`)."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Child:
    program: Program
    process: RunningProcess
    started_at: float
    log_began: int

    def running(self) -> bool:
        return self.process.poll() is None

    def crashed_as_planned(self) -> bool:
        """Return whether its last line announces that this crash is part of the example."""
        with self.program.log.open("rb") as log:
            log.seek(self.log_began)
            lines = log.read().splitlines()
        return bool(lines) and lines[-1].startswith(PLANNED_CRASH)


class ProcessFailed(Exception):
    """A program did not do what the others need; the message is the sentence a person reads."""


def run_as_user(account: ServiceUser | None) -> dict[str, Any]:
    """The arguments of `subprocess` that drop root and every group of root."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def spawn(program: Program) -> Child:
    """Start a program in a session of its own, so that Ctrl-C reaches only the supervisor."""
    descriptor = os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as log:
        log_began = log.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            program.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(program.environment),
            cwd=program.folder,
            start_new_session=True,
            **run_as_user(program.account),
        )
    return Child(program=program, process=process, started_at=time.monotonic(), log_began=log_began)


def stop_children(children: list[Child]) -> None:
    """Ask all of them to stop, wait for each, then kill the rest of its session."""
    for child in children:
        if child.running():
            child.process.send_signal(child.program.stop_signal)
    for child in children:
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(child.program.grace_s)
        _kill_session(child.process.pid)
        child.process.wait()


def _kill_session(pid: int) -> None:
    # The children of a child that died die with it: a pool whose master is gone takes no more work.
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def tail_log(log: Path, lines: int = 5) -> str:
    """Return the last lines of the log of a program that did not start."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def wait_until(ready: Callable[[], bool], *, within_s: float, every_s: float = 0.05) -> bool:
    """Call `ready()` until it is true or the time is over."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if ready():
            return True
        time.sleep(every_s)
    return False


# Supervision


@dataclass
class Backoff:
    """The pauses between a failure and the next start of one thing."""

    failures: int = 0

    def next_pause(self, *, ran_s: float) -> float:
        """One second, then twice as long each time, up to half a minute; a minute of good work wipes the slate."""
        self.failures = 1 if ran_s >= 60 else self.failures + 1
        return min(2.0 ** (self.failures - 1), 30.0)


class StopRequested(Exception):
    """The process was asked to stop."""


class Supervisor:
    """Starts programs in order, restarts those that fail, and stops all in reverse order.

    Signals only set a mark, which is looked at between two steps, so no child can be started and then forgotten.
    """

    def __init__(self, *, record: Path, say: Callable[[str], None], spawn: Callable[[Program], Child] = spawn) -> None:
        self.record = record
        self.say = say
        self.spawn = spawn
        self.ending = False
        self.children: list[Child] = []
        self.waiting: list[tuple[float, Program]] = []
        self.backoffs: dict[str, Backoff] = defaultdict(Backoff)

    def end(self, *_: object) -> None:
        self.ending = True

    def go_on(self) -> None:
        if self.ending:
            raise StopRequested

    def start(self, program: Program) -> Child:
        self.go_on()
        child = self.spawn(program)
        self.children.append(child)
        record_processes(self.record, self.children)
        return child

    def finish(self, program: Program, *, within_s: float) -> None:
        """Run a program to its end; anything but success stops the start."""
        child = self.start(program)
        if not self.wait(lambda: not child.running(), within_s=within_s):
            raise ProcessFailed(f"{program.name} was not done after {within_s:.0f} s; see {program.log}.")
        self.children.remove(child)
        if child.process.returncode != 0:
            raise ProcessFailed(f"{program.name} failed: {tail_log(program.log, 3)}\nSee {program.log}.")

    def wait(self, ready: Callable[[], bool], *, within_s: float) -> bool:
        def asked() -> bool:
            self.go_on()
            return ready()

        return wait_until(asked, within_s=within_s)

    def watch(self) -> None:
        """Wait until a stop is requested."""
        while not self.ending:
            self.look(time.monotonic())
            time.sleep(0.2)

    def look(self, now: float) -> None:
        for child in [child for child in self.children if not child.running()]:
            self.children.remove(child)
            _kill_session(child.process.pid)
            self.waiting.append((now + self._patience(child, now), child.program))
        for due, program in [row for row in self.waiting if row[0] <= now]:
            self.waiting.remove((due, program))
            self.start(program)

    def _patience(self, child: Child, now: float) -> float:
        name = child.program.name
        pause = self.backoffs[name].next_pause(ran_s=now - child.started_at)
        if child.crashed_as_planned():
            self.say(f"{name} crashed as planned: the example shows what a crash leaves. Restarting in {pause:.0f} s.")
        else:
            self.say(
                f"{name} stopped unexpectedly ({child.process.returncode}); restarting in {pause:.0f} s."
                f" See {child.program.log}"
            )
        return pause

    def stop_all(self) -> None:
        self.waiting.clear()
        for rank in sorted({child.program.rank for child in self.children}, reverse=True):
            stop_children([child for child in self.children if child.program.rank == rank])
        self.children.clear()
        self.record.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class LeftoverProcess:
    process: psutil.Process
    stop_signal: signal.Signals
    grace_s: float
    rank: int


def record_processes(record: Path, children: list[Child]) -> None:
    """Record the running processes. A crash before this line leaves at most the newest child unknown."""
    rows = []
    for child in children:
        try:
            started = psutil.Process(child.process.pid).create_time()
        except psutil.NoSuchProcess:
            continue
        program = child.program
        row = {"name": program.name, "pid": child.process.pid, "started": started, "rank": program.rank}
        rows.append(row | {"signal": program.stop_signal.name, "grace_s": program.grace_s})
    write_private(record, json.dumps(rows, indent=1))


def find_leftovers(record: Path) -> list[LeftoverProcess]:
    """The processes of the last run that are still alive."""
    found = []
    for row in json.loads(record.read_text() or "[]") if record.exists() else []:
        for process in _same(row["pid"], row["started"]):
            stop_signal = signal.Signals[row["signal"]]
            found.append(
                LeftoverProcess(process=process, stop_signal=stop_signal, grace_s=row["grace_s"], rank=row["rank"])
            )
    return found


def _same(pid: int, started: float) -> list[psutil.Process]:
    """Return the very process, or the rest of its session if it is gone."""
    try:
        process = psutil.Process(pid)
        if not has_ended(process):
            return [process] if abs(process.create_time() - started) < 0.05 else []
    except psutil.NoSuchProcess:
        pass
    return [orphan for orphan in psutil.process_iter(["create_time"]) if _belongs(orphan, pid, started)]


def _belongs(process: psutil.Process, session: int, started: float) -> bool:
    try:
        return process.pid != session and os.getsid(process.pid) == session and process.create_time() >= started
    except (OSError, psutil.Error):
        return False


def has_ended(process: psutil.Process) -> bool:
    """Return True if a process is gone, or dead and not yet collected, as orphans stay where nothing collects them."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def stop_leftovers(record: Path) -> int:
    """End what a killed supervisor left running, in its shutdown order."""
    found = find_leftovers(record)
    for rank in sorted({leftover.rank for leftover in found}, reverse=True):
        _end([leftover for leftover in found if leftover.rank == rank])
    record.unlink(missing_ok=True)
    return len(found)


def _end(found: list[LeftoverProcess]) -> None:
    for leftover in found:
        with suppress(psutil.NoSuchProcess):
            leftover.process.send_signal(leftover.stop_signal)
    for leftover in found:
        if not wait_until(partial(has_ended, leftover.process), within_s=leftover.grace_s):
            with suppress(psutil.NoSuchProcess):
                leftover.process.kill()
