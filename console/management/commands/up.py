"""`manage.py up`: the whole console on one machine, until Ctrl-C.

1. One `up` per installation: a lock that the kernel lets go of when its holder dies.
2. What a killed `up` left running is ended first, then ports are looked at.
3. Servers, database, people, web, worker, beat, example, in this order; ended in the opposite one.
4. Whatever is wrong at the start is one sentence and exit code 2, with nothing left running.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand

from console.local.installation import Installation, current_installation, port_is_free
from console.local.processes import ProcessFailed, StopRequested, Supervisor, stop_leftovers
from console.local.servers import ServerFailed
from console.local.startup import Startup


class Busy(Exception):
    """Somebody else has what this needs; the message is the sentence a person reads."""


class Command(BaseCommand):
    help = "Run everything on this machine: servers, web, worker, beat and the live example."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="where the console answers (8000)")
        parser.add_argument("--no-example", action="store_true", help="an empty console, ready for real agents")

    def handle(self, *args: Any, port: int = 8000, no_example: bool = False, **options: Any) -> None:
        installation = current_installation()
        installation.make()
        try:
            with _alone(installation):
                stop_leftovers(installation.run / "children.json")
                if not port_is_free(port):
                    raise Busy(f"Port {port} is in use by another program: choose one with --port.")
                self._run(installation, port=port, example=not no_example)
        except (Busy, ServerFailed, ProcessFailed) as refusal:
            self.stderr.write(f"counterfoil: {refusal}")
            sys.exit(2)

    def _run(self, installation: Installation, *, port: int, example: bool) -> None:
        supervisor = Supervisor(record=installation.run / "children.json", say=self._say)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, supervisor.end)
        try:
            startup = Startup(installation=installation, supervisor=supervisor, port=port, example=example)
            self._say("Starting. The first start takes some seconds longer.")
            startup.begin()
            self._say(startup.welcome())
            supervisor.watch()
        except StopRequested:
            pass
        finally:
            self._say("Stopping.")
            supervisor.stop_all()
        self._say("Stopped.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


@contextmanager
def _alone(installation: Installation) -> Iterator[None]:
    with (installation.run / "up.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise Busy(
                f"Another `up` runs in this folder (process {lock.read().strip()}): end it with Ctrl-C first."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
