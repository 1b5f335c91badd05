"""The product's processes without what loading them costs: forks of one that has loaded everything once.

    child = forks().spawn(programs.web_program(…))
    ended = forks().run(["manage.py", "log", "restored"], environment)

A fork is told everything by its own environment, and is a process of its own in a session of its own, as one that was
started is: it is killed alone. What is about starting starts, and does not come here. One process of the tests has one
that forks; it ends when they do.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from console.local.installation import ROOT
from console.local.processes import Child, Program

# What takes long of what the product's processes load. None keeps a setting in which the tests' processes differ.
PRELOADED_MODULES = (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.worker.consumer",
    "console.api.root",
    "console.tasks",
    "reviews.tasks",
    "uvicorn",
)
# What reads the settings when it is loaded.
MODULES_WITH_SETTINGS = ("console.settings", "tests.quick_hashing", "console.celery")


class ForkedProcess:
    """A process that another one has made: of `subprocess.Popen` what the tests ask of the product's processes."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self.forks = forks
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.forks.ask(ended=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = time.monotonic() + timeout if timeout is not None else float("inf")
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            # The end of another process's child cannot be waited for, only asked about.
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Forks:
    """The one that forks, from outside."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.outside.forking"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **order: Any) -> Any:
        orders, answers = self.process.stdin, self.process.stdout
        assert orders is not None
        assert answers is not None
        with self.lock:
            orders.write(json.dumps(order) + "\n")
            orders.flush()
            return json.loads(answers.readline())

    def close(self) -> None:
        """All that it has forked is left to those who asked for it."""
        with self.process:
            pass

    def spawn(self, program: Program) -> Child:
        """As `console.local.processes.spawn`: of Python's programs, as the user of the tests."""
        assert program.account is None
        log_began = program.log.stat().st_size if program.log.exists() else 0
        process = self.start(program.argv[1:], program.environment, out=program.log, err=program.log)
        return Child(program=program, process=process, started_at=time.monotonic(), log_began=log_began)  # type: ignore[arg-type]  # it has what a Child asks of a Popen

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """`manage.py …`, or `-c TEXT …`, to its end."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            code = self.start(words, environment, out=out, err=err).wait()
            return subprocess.CompletedProcess(list(words), code, out.read_text(), err.read_text())

    def start(self, words: Sequence[str], environment: Mapping[str, str], *, out: Path, err: Path) -> ForkedProcess:
        told = {"words": list(words), "environment": dict(environment), "out": str(out), "err": str(err)}
        return ForkedProcess(self, self.ask(**told))


@cache
def forks() -> Forks:
    """This process's own; it ends with this process, which is all that holds its input open."""
    return Forks()


# The other side


def _load() -> None:
    import django

    django.setup()
    for name in PRELOADED_MODULES:
        import_module(name)
    assert threading.active_count() == 1
    # What all have in common is looked through, and so copied, by none of them.
    gc.collect()
    gc.freeze()


def _order() -> dict[str, Any] | None:
    """In a fork what it is to be; in the one that forks nothing, when nobody can order any more."""
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in orders:
        order: dict[str, Any] = json.loads(line)
        if "ended" in order:
            pid, status = os.waitpid(order["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif (answer := os.fork()) == 0:
            os.setsid()
            orders.close()
            answers.close()
            return order
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return None


def _run_program(words: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """This process is the program from here on; no connection was opened before."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, name in ((1, out), (2, err)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    for name in MODULES_WITH_SETTINGS:
        sys.modules.pop(name, None)
    _load_settings("DATABASE_URL" in environment)
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    elif words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(str(ROOT / words[0]), run_name="__main__")


def _load_settings(ours: bool) -> None:
    """The settings of this process's own environment; the example's programs have none."""
    from django.conf import Settings, settings
    from django.core.cache import caches
    from django.db import connections
    from django.utils.functional import empty
    from django.utils.log import configure_logging

    told, settings._wrapped = vars(settings._wrapped), empty
    for handler in (connections, caches):
        vars(handler).clear()
        # As new: Django has no other way to make it forget the parent's addresses.
        handler.__init__()  # type: ignore[misc]
    if not ours:
        return
    own = Settings(os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings"))
    # Some apps add their defaults to the settings when they are loaded.
    vars(own).update({name: value for name, value in told.items() if name not in vars(own)})
    settings._wrapped = own
    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
    import_module("console.celery")


if __name__ == "__main__":
    _load()
    if (order := _order()) is not None:
        _run_program(**order)
