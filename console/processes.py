"""Child processes: start one, wait for it, stop it, and find those that a dead parent left behind.

A process is known by its id *and* the moment it started, because ids are used again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from console.keys import write_private


@dataclass(frozen=True, kw_only=True)
class Account:
    """The operating-system user that a program runs as when it may not be root."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run, as whom, and how to end it."""

    name: str
    argv: list[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    grace_s: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Child:
    program: Program
    process: subprocess.Popen[bytes]

    def running(self) -> bool:
        return self.process.poll() is None


def as_account(account: Account | None) -> dict[str, Any]:
    """The arguments of `subprocess` that drop root and every group of root."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def spawn(program: Program) -> Child:
    """Start a program in a session of its own: Ctrl-C reaches the supervisor alone."""
    descriptor = os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as log:
        process = subprocess.Popen(
            program.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(program.environment),
            start_new_session=True,
            **as_account(program.account),
        )
    return Child(program=program, process=process)


def stop(child: Child) -> None:
    """Ask, wait, then kill the whole session of the child."""
    if child.running():
        child.process.send_signal(child.program.stop_signal)
        try:
            child.process.wait(child.program.grace_s)
        except subprocess.TimeoutExpired:
            _kill_session(child.process.pid)
            child.process.wait()


def _kill_session(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def tail(log: Path, lines: int = 5) -> str:
    """The last words of a program that would not start."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


# What is running, written down so that the next start can clear it away.


def remember(record: Path, children: list[Child]) -> None:
    """Write down who runs. A crash before this line leaves at most the newest child unknown."""
    rows = []
    for child in children:
        try:
            started = psutil.Process(child.process.pid).create_time()
        except psutil.NoSuchProcess:
            continue
        rows.append(
            {
                "name": child.program.name,
                "pid": child.process.pid,
                "started": started,
                "signal": child.program.stop_signal.name,
                "grace_s": child.program.grace_s,
            }
        )
    write_private(record, json.dumps(rows, indent=1))


def leftovers(record: Path) -> list[tuple[psutil.Process, signal.Signals, float]]:
    """The processes of the last run that are still alive, newest first."""
    if not record.exists():
        return []
    found = []
    for row in json.loads(record.read_text() or "[]"):
        try:
            process = psutil.Process(row["pid"])
            same = abs(process.create_time() - row["started"]) < 0.05
        except psutil.NoSuchProcess:
            continue
        if same and process.status() != psutil.STATUS_ZOMBIE:
            found.append((process, signal.Signals[row["signal"]], row["grace_s"]))
    return found[::-1]


def stop_leftovers(record: Path) -> int:
    """End what a killed supervisor left running, in the order in which it would have ended it."""
    found = leftovers(record)
    for process, stop_signal, grace_s in found:
        try:
            process.send_signal(stop_signal)
            process.wait(grace_s)
        except psutil.TimeoutExpired:
            _kill_session(process.pid)
        except psutil.NoSuchProcess:
            continue
    record.unlink(missing_ok=True)
    return len(found)


def wait_until(ready: Any, *, within_s: float, every_s: float = 0.05) -> bool:
    """Ask `ready()` until it is true or the time is over."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if ready():
            return True
        time.sleep(every_s)
    return False
