"""The product's processes without what loading them costs: forks, as `up` makes them (console/local/forking.py).

    child = forks().spawn(programs.web_program(…))
    ended = forks().run(["manage.py", "log", "restored"], environment)

What is about starting starts, and does not come here. One process of the tests has one that forks for each set of
programs that it runs; they end when it does.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from console.local.forking import ForkedProcess, Forks

__all__ = ["ForkedProcess", "TestForks", "close_forks", "forks", "gateway_forks"]

# Modules of the product's processes that load slowly. None keeps a setting in which the tests' processes differ.
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


class TestForks(Forks):
    """Forks that also run commands to their end."""

    __test__ = False

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """`manage.py …`, or `-c TEXT …`, to its end."""
        ended = self.run_raw(words, environment)
        return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    def run_raw(
        self, words: Sequence[str], environment: Mapping[str, str], *, timeout: float | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """A command to its end, whose output need not be text."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            code = self.start(words, environment, out=out, err=err).wait(timeout)
            return subprocess.CompletedProcess(list(words), code, out.read_bytes(), err.read_bytes())


@cache
def forks() -> TestForks:
    """This process's own; it ends with this process, which is all that holds its input open."""
    return TestForks(PRELOADED_MODULES, readers=("tests.quick_hashing",))


@cache
def gateway_forks() -> TestForks:
    """Forks of the gateway's programs, which know nothing of the console."""
    bare = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return TestForks(("counterfoil.gateway.command",), environment=bare)


def close_forks() -> None:
    """End what forks; it has been started only if something asked for it."""
    for made in (forks, gateway_forks):
        if made.cache_info().currsize:
            made().close()
