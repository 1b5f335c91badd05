"""Forks of one process that has loaded the product: what they have in common is loaded once, and is in memory once.

    forks = Forks(["console.urls", …])
    child = forks.spawn(programs.web_program(…))

A fork is told everything by its own environment and is a process of its own in a session of its own, as one that was
started is: it is killed alone, and the others do not end with the one that forks. What it is to be stands in a private
file that only the fork reads, so that the one that forks never learns an address or a key of any of them.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from console.local.installation import ROOT
from console.local.processes import Child, Program

SETTINGS_READERS = ("console.settings", "console.celery")
"""The modules that read the settings when they are loaded, and are loaded again by each fork."""
_ASKED_AGAIN_AFTER_S = 0.02


class ForkerGone(Exception):
    """The process that forks has ended; its forks go on."""


class ForkedProcess:
    """A process that another one has made: of `subprocess.Popen` what a supervisor asks of its children."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self.forks = forks
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.forks.exit_code(self.pid)
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
    """The one that forks, from outside: it loads `preloaded` and ends when this process does.

    `readers` are modules that read the settings when they are loaded, beside the product's own; the files that say what
    forks are to be are put in `folder`.
    """

    def __init__(
        self,
        preloaded: Sequence[str],
        *,
        readers: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        log: Path | None = None,
    ) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.codes: dict[int, int] = {}
        self.asked_at = 0.0
        with open(log, "ab") if log is not None else open(os.dup(2), "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "console.local.forking", ",".join(preloaded), ",".join(readers)],
                cwd=ROOT,
                env=None if environment is None else dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Ctrl-C is for the one that supervises.
                start_new_session=True,
            )

    def ask(self, **order: Any) -> Any:
        orders, answers = self.process.stdin, self.process.stdout
        assert orders is not None
        assert answers is not None
        with self.lock:
            try:
                orders.write(json.dumps(order) + "\n")
                orders.flush()
                return json.loads(answers.readline())
            except (OSError, ValueError) as gone:
                raise ForkerGone from gone

    def exit_code(self, pid: int) -> int | None:
        """Return how a fork ended, or None while it runs; -1 if nobody is left who knows."""
        if pid not in self.codes and time.monotonic() - self.asked_at > _ASKED_AGAIN_AFTER_S:
            try:
                ended = self.ask(ended=True)
            except ForkerGone:
                return None if _is_there(pid) else -1
            self.codes |= {int(each): code for each, code in ended.items()}
            self.asked_at = time.monotonic()
        return self.codes.get(pid)

    def close(self) -> None:
        """End the one that forks; all that it has forked is left to those who asked for it."""
        # What could not be told to one that is gone is still to be written.
        with suppress(OSError), self.process:
            pass

    def spawn(self, program: Program) -> Child:
        """Do as `console.local.processes.spawn` for one of Python's programs."""
        assert program.account is None
        assert program.argv[0] == sys.executable
        log_began = program.log.stat().st_size if program.log.exists() else 0
        process = self.start(program.argv[1:], program.environment, out=program.log, err=program.log, name=program.name)
        return Child(program=program, process=process, started_at=time.monotonic(), log_began=log_began)

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], *, out: Path, err: Path, name: str = "python"
    ) -> ForkedProcess:
        told = {"words": list(words), "environment": dict(environment), "out": str(out), "err": str(err), "name": name}
        descriptor, path = tempfile.mkstemp(prefix="fork-", suffix=".json", dir=self.folder)
        with os.fdopen(descriptor, "w") as file:
            json.dump(told, file)
        try:
            pid = self.ask(told=path)
        except ForkerGone:
            Path(path).unlink(missing_ok=True)
            raise
        # Its number may have been that of one that has ended.
        self.codes.pop(pid, None)
        return ForkedProcess(self, pid)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# The other side


def _load(names: Sequence[str]) -> None:
    if "DJANGO_SETTINGS_MODULE" in os.environ:
        import django

        django.setup()
    for name in names:
        import_module(name)
    assert threading.active_count() == 1
    # What all have in common is looked through, and so copied, by none of them.
    gc.collect()
    gc.freeze()


def _order() -> str | None:
    """Return, in a fork, the file that says what it is to be; in the one that forks nothing, when nobody can order any
    more.
    """
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in orders:
        order: dict[str, Any] = json.loads(line)
        answer: Any
        if "ended" in order:
            answer = _exit_codes()
        elif (answer := os.fork()) == 0:
            os.setsid()
            orders.close()
            answers.close()
            return str(order["told"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return None


def _exit_codes() -> dict[int, int]:
    """Collect the forks that have ended; return their exit codes by their ids."""
    codes = {}
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            codes[found[0]] = os.waitstatus_to_exitcode(found[1])
    return codes


def _run_program(
    words: list[str], environment: dict[str, str], out: str, err: str, name: str, readers: Sequence[str]
) -> None:
    """This process is the program from here on; no connection was opened before."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), descriptor)
    with suppress(OSError):
        # What `ps` and `top` call it where there is such a file.
        Path("/proc/self/comm").write_text(name)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each not in sys.path]
    if "django" in sys.modules:
        for each in readers:
            sys.modules.pop(each, None)
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
    """Load the settings of this process's own environment; the example's programs have none."""
    from django.conf import Settings, settings
    from django.core.cache import caches
    from django.db import connections
    from django.utils.functional import empty
    from django.utils.log import configure_logging

    told, settings._wrapped = vars(settings._wrapped), empty  # type: ignore[misc]  # no other way to begin anew
    for handler in (connections, caches):
        vars(handler).clear()
        # As new: Django has no other way to make it forget the parent's addresses.
        handler.__init__()  # type: ignore[misc]
    if not ours:
        logging.root.handlers.clear()
        logging.root.setLevel(logging.WARNING)
        return
    own = Settings(os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings"))
    # Some apps add their defaults to the settings when they are loaded.
    vars(own).update({name: value for name, value in told.items() if name not in vars(own)})
    settings._wrapped = own
    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
    import_module("console.celery")


def main() -> None:
    preloaded, readers = (each.split(",") if each else [] for each in sys.argv[1:3])
    _load(preloaded)
    if (path := _order()) is not None:
        told = json.loads(Path(path).read_text())
        Path(path).unlink()
        _run_program(**told, readers=(*SETTINGS_READERS, *readers))


if __name__ == "__main__":
    main()
