"""`manage.py eraser [--once]`: carry out confirmed erasures.

A separate process with its own database role (counterfoil_eraser, in DATABASE_URL and KEYS_DATABASE_URL): it can
destroy what a confirmed request names and nothing else, and it cannot read what it destroys. It polls every few
seconds; if it dies halfway, the next one continues. Two may run at once.
"""

from __future__ import annotations

import argparse
import logging
import signal
import threading
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from ledger.db import tenancy
from ledger.management.alive_file import renew_alive_file
from ledger.record.queries.work import Work, tenants_with
from ledger.retention import queries
from ledger.retention.operations import erasure

EVERY_S = 5.0
log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Carry out confirmed erasures; with --once, process those pending and exit."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="exit when nothing is pending")

    def handle(self, *args: Any, once: bool = False, verbosity: int = 1, **options: Any) -> None:
        if once:
            self._tell(carry_out_erasures(), verbosity)
            return
        ending = threading.Event()
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: ending.set())
        for done in erase_until(ending):
            self._tell(done, verbosity)

    def _tell(self, done: int, verbosity: int) -> None:
        if verbosity and done:
            self.stdout.write(f"Subjects erased: {done}.")


def erase_until(ending: threading.Event) -> Iterator[int]:
    """Carry out what is confirmed, at each poll, until asked to stop; a failed one is retried at the next poll."""
    while not ending.is_set():
        renew_alive_file()
        try:
            yield carry_out_erasures()
        except DatabaseError:
            log.exception("An erasure failed; it will be retried.")
        ending.wait(EVERY_S)


def carry_out_erasures() -> int:
    """Carry out the waiting erasures of all tenants; return the number of subjects erased."""
    done = 0
    close_old_connections()
    for tenant_id in tenants_with(Work.CONFIRMED_ERASURES):
        with tenancy(tenant_id):
            waiting = queries.confirmed_erasures(tenant_id)
        for erasure_id in waiting:
            done += erasure.run_erasure(tenant_id=tenant_id, erasure_id=erasure_id, clock=timezone.now)
    return done
