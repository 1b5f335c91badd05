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

__all__ = ["ForkedProcess", "TestForks", "agent_forks", "close_forks", "forks", "gateway_forks"]

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


AGENT_MODULES = (
    "counterfoil.coding_agents.behind_gateway",
    "counterfoil.coding_agents.hooks",
    "counterfoil.coding_agents.onboarding",
    "counterfoil.coding_agents.other_ways",
    "counterfoil.coding_agents.report",
)
# A module that reads a file as its standard input: `-c MODULE_WITH_INPUT FILE MODULE …`.
MODULE_WITH_INPUT = """
import os, runpy, sys
os.dup2(os.open(sys.argv[1], os.O_RDONLY), 0)
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class TestForks(Forks):
    """Forks that also run commands to their end."""

    __test__ = False

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """`manage.py …`, or `-c TEXT …`, to its end."""
        return _as_text(self.run_raw(words, environment))

    def run_module(
        self, module: str, words: Sequence[str], environment: Mapping[str, str], *, given: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """A module to its end, with something on its standard input."""
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(given)
            file.flush()
            told = ["-c", MODULE_WITH_INPUT, file.name, module, *words]
            return _as_text(self.run_raw(told, environment, timeout=timeout))

    def run_raw(
        self, words: Sequence[str], environment: Mapping[str, str], *, timeout: float | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """A command to its end, whose output need not be text."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            code = self.start(words, environment, out=out, err=err).wait(timeout)
            return subprocess.CompletedProcess(list(words), code, out.read_bytes(), err.read_bytes())


def _as_text(ended: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


@cache
def forks() -> TestForks:
    """This process's own; it ends with this process, which is all that holds its input open."""
    return TestForks(PRELOADED_MODULES, readers=("tests.quick_hashing",))


@cache
def gateway_forks() -> TestForks:
    """Forks of the gateway's programs, which know nothing of the console."""
    return TestForks(("counterfoil.gateway.command",), environment=_without_console())


@cache
def agent_forks() -> TestForks:
    """Forks of `counterfoil-agents` and its hooks, which know nothing of the console."""
    return TestForks(AGENT_MODULES, environment=_without_console())


def _without_console() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}


def close_forks() -> None:
    """End what forks; it has been started only if something asked for it."""
    for made in (forks, gateway_forks, agent_forks):
        if made.cache_info().currsize:
            made().close()
