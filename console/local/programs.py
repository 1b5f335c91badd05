"""The product's processes, as `up` and the tests start them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from console.local.installation import ROOT
from console.local.processes import Program

RANK = 1
MANAGE = ("-m", "console.local.command_line")
ONLY_RECORD = {"COUNTERFOIL_ONLY_RECORD": "1"}
# Celery would load the whole API and all pages to check them, which neither a worker nor beat ever serves.
CELERY = ("celery", "--app", "console.celery", "--quiet", "--skip-checks")


PRELOADED = (
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.worker.consumer",
    "console.beat",
    "console.edge.http_protocol",
    "console.tasks",
    "console.urls",
    "ledger.management.commands.eraser",
    "ledger.management.commands.sequencer",
    "reviews.tasks",
    "uvicorn",
)
"""The modules that load slowly, for the process from which these programs are forked."""


def web_program(*, port: int, environment: Mapping[str, str], log: Path) -> Program:
    """Pages, API and streams on one port; the only process with a pool of connections."""
    options = ["--host", "127.0.0.1", "--port", str(port), "--lifespan", "off", "--log-level", "warning"]
    options += ["--timeout-graceful-shutdown", "3", "--no-server-header", "--no-proxy-headers"]
    words = ["uvicorn", "console.asgi:application", "--http", "console.edge.http_protocol:TimedHttp", *options]
    return _module("web", words, environment=dict(environment) | {"COUNTERFOIL_POOL": "1"}, log=log, grace_s=8)


def worker_program(
    *,
    environment: Mapping[str, str],
    log: Path,
    processes: int = 2,
    name: str = "worker",
    queues: str = "due,tick,bulk",
) -> Program:
    """A worker for these queues; each worker answers under a name of its own."""
    words = [*CELERY, "worker", "--queues", queues, "--hostname", f"{name}@", "--concurrency", str(processes)]
    words += ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
    return _module(name, words, environment=environment, log=log, grace_s=20)


def beat_program(*, environment: Mapping[str, str], log: Path) -> Program:
    """The beat program; its ticks need no state, so there is no file that a crash could damage."""
    words = [*CELERY, "beat", "--scheduler", "console.beat:Ticks", "--pidfile=", "--loglevel", "WARNING"]
    return _module("beat", words, environment=dict(environment) | {"COUNTERFOIL_ONLY_TICKS": "1"}, log=log, grace_s=5)


def sequencer_program(*, environment: Mapping[str, str], log: Path) -> Program:
    """The sequencer, which seals events in the log; it has only the address of its own role."""
    return manage_program("sequencer", environment=dict(environment) | ONLY_RECORD, log=log)


def eraser_program(*, environment: Mapping[str, str], log: Path) -> Program:
    """The eraser, which destroys what two people decided to erase; it has only the addresses of its own role."""
    return manage_program("eraser", environment=dict(environment) | ONLY_RECORD, log=log)


def background_program(*, environment: Mapping[str, str], log: Path) -> Program:
    """Sequencer, eraser and beat in one process, with the addresses of the first two's roles."""
    told = dict(environment) | ONLY_RECORD | {"COUNTERFOIL_ONLY_TICKS": "1"}
    return _module("background", ["console.local.background"], environment=told, log=log, grace_s=10)


def manage_program(*words: str, environment: Mapping[str, str], log: Path) -> Program:
    """A `manage.py` command."""
    return Program(
        name=words[0],
        argv=[sys.executable, *MANAGE, *words],
        log=log / f"{words[0]}.log",
        environment=dict(environment) | {"PYTHONPATH": str(ROOT)},
        rank=RANK,
    )


def _module(name: str, words: list[str], *, environment: Mapping[str, str], log: Path, grace_s: float) -> Program:
    return Program(
        name=name,
        argv=[sys.executable, "-m", *words],
        log=log / f"{name}.log",
        environment=dict(environment) | {"PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "console.settings"},
        grace_s=grace_s,
        rank=RANK,
    )
