"""A process that has loaded the product once, and forks for each command that a test wants in a process of its own.

    with forking(environment) as fork:
        ended = fork(["manage.py", "log", "restored"], environment)

A command is told everything by its own environment, as one that was started is: only what loading costs is shared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
from django.conf import Settings, settings
from django.core.cache import caches
from django.core.management import get_commands, load_command_class
from django.db import connections

import manage
from console.local.installation import ROOT

Fork = Callable[[Sequence[str], Mapping[str, str]], subprocess.CompletedProcess[str]]


@contextmanager
def forking(environment: Mapping[str, str]) -> Iterator[Fork]:
    """Runs `manage.py …`, or `-c TEXT …`, in a child that is ended with the rest at the end of the block."""
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.db.log.forking"],
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    orders, codes = parent.stdin, parent.stdout
    assert orders is not None
    assert codes is not None

    def fork(argv: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            order = {"argv": list(argv), "environment": dict(environment), "folder": folder}
            orders.write(json.dumps(order) + "\n")
            code = int(codes.readline())
            said = [(Path(folder) / name).read_text() for name in ("out", "err")]
        return subprocess.CompletedProcess(list(argv), code, *said)

    try:
        yield fork
    finally:
        orders.close()
        codes.close()
        assert parent.wait(60) == 0


def _order() -> dict[str, Any] | None:
    """In a child what it is to do; in the parent nothing, when all is done."""
    django.setup()
    for name, app in get_commands().items():
        if app == "ledger":
            load_command_class(app, name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            order: dict[str, Any] = json.loads(line)
            return order
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()
    return None


def _carry_out(argv: list[str], environment: dict[str, str], folder: str) -> None:
    """This process is the command from here on, with settings of its own; no connection was opened before."""
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    for name in ("console.settings", "tests.quick_hashing"):
        sys.modules.pop(name, None)
    settings._wrapped = Settings(os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings"))
    for handler in (connections, caches):
        vars(handler).clear()
        handler.__init__()  # type: ignore[misc]
    if argv[0] == "-c":
        sys.argv = ["-c", *argv[2:]]
        exec(compile(argv[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = argv
        manage.main()


if __name__ == "__main__":
    if (order := _order()) is not None:
        _carry_out(**order)
