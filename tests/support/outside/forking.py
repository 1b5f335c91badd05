"""The product's processes without what loading them costs: forks, as `up` makes them (console/local/forking.py).

    child = forks().spawn(programs.web_program(…))
    ended = forks().run(["manage.py", "log", "restored"], environment)

What is about starting starts, and does not come here. One process of the tests has one that forks; it ends when they
do.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from console.local.forking import ForkedProcess, Forks

__all__ = ["ForkedProcess", "TestForks", "forks"]

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
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            code = self.start(words, environment, out=out, err=err).wait()
            return subprocess.CompletedProcess(list(words), code, out.read_text(), err.read_text())


@cache
def forks() -> TestForks:
    """This process's own; it ends with this process, which is all that holds its input open."""
    return TestForks(PRELOADED_MODULES, readers=("tests.quick_hashing",))
