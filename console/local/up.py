"""`manage.py up`: run the whole console on one machine until Ctrl-C.

1. One `up` per installation: a lock that the kernel releases when its holder dies.
2. Processes left running by a killed `up` are stopped first, then ports are checked.
3. Servers, database, people, web, worker, beat and example start in this order and stop in reverse.
4. Any failure at the start is one sentence and exit code 2, with nothing left running.

It supervises all day, so it loads neither Django nor the settings. What runs all day in Python is forked from one
process that has loaded them (`console/local/forking.py`).
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from console.local.installation import Installation, current_installation, port_is_free
from console.local.processes import ProcessFailed, StopRequested, Supervisor, stop_leftovers
from console.local.servers import ServerFailed
from console.local.startup import Startup


class Busy(Exception):
    """Somebody else has what this needs; the message is the sentence a person reads."""


def main(arguments: list[str]) -> int:
    """Run everything on this machine: servers, web, worker, beat and the live example."""
    parser = argparse.ArgumentParser(prog="manage.py up", description=main.__doc__)
    parser.add_argument("--port", type=int, default=8000, help="port of the console (8000)")
    parser.add_argument("--no-example", action="store_true", help="start an empty console, without the example shop")
    chosen = parser.parse_args(arguments)
    return run_console(port=chosen.port, example=not chosen.no_example)


def run_console(*, port: int, example: bool, tour: Callable[[Startup], None] | None = None) -> int:
    """Run the console until it is told to stop; return the exit code.

    A `tour` is called in a thread of its own once the console is ready; the example's agent, which would fill the
    lists meanwhile, is then left out.
    """
    if code := _check_settings():
        return code
    installation = current_installation()
    installation.make()
    try:
        with _alone(installation):
            stop_leftovers(installation.run / "children.json")
            if not port_is_free(port):
                raise Busy(f"Port {port} is in use by another program; choose another one with --port.")
            _run_until_ended(installation, port=port, example=example, tour=tour)
    except (Busy, ServerFailed, ProcessFailed) as refusal:
        sys.stderr.write(f"counterfoil: {refusal}\n")
        return 2
    return 0


def _check_settings() -> int:
    """Load the settings in a process of its own, whose memory goes with it; a wrong value is one sentence, before
    anything is started. Return its exit code.
    """
    pid = os.fork()
    if pid == 0:
        code: Any = 0
        try:
            importlib.import_module(os.environ["DJANGO_SETTINGS_MODULE"])
        except SystemExit as refusal:
            code = refusal.code
        except BaseException:  # noqa: BLE001 - this process ends here, whatever it is
            traceback.print_exc()
            code = 1
        sys.stderr.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run_until_ended(
    installation: Installation, *, port: int, example: bool, tour: Callable[[Startup], None] | None
) -> None:
    supervisor = Supervisor(record=installation.run / "children.json", say=_say)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, supervisor.end)
    startup = Startup(
        installation=installation, supervisor=supervisor, port=port, example=example, agent=example and tour is None
    )
    try:
        _say("Starting. The first start takes some seconds longer.")
        startup.begin()
        _say(startup.welcome())
        if tour is not None:
            threading.Thread(target=tour, args=[startup], name="tour", daemon=True).start()
        supervisor.watch()
    except StopRequested:
        pass
    finally:
        _say("Stopping.")
        startup.end()
    _say("Stopped.")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def _alone(installation: Installation) -> Iterator[None]:
    with (installation.run / "up.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise Busy(
                f"Another `up` is running in this folder (process {lock.read().strip()}); stop it with Ctrl-C first."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
