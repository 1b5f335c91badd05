"""`manage.py maintenance on --reason WHY [--wait SECONDS] | off`: let nothing start, and wait for what runs.

With `on` no execution starts in any tenant; proposals, votes and readings go on. The command waits until everything
that was started has ended: executors report, or leases run out. Run again, it waits again. `off` lets executions start.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from approvals.execution import queries as execution
from ledger.catalogue.operations import installation
from ledger.catalogue.queries import maintenance_in_force

LOOK_EVERY_S: Final = 1.0


class Command(BaseCommand):
    help = "Let no execution start in any tenant, and wait for those that run; or end that."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("switch", choices=["on", "off"], help="begin or end the maintenance")
        parser.add_argument("--reason", default="", help="with `on`: reason, shown to everybody and kept on record")
        parser.add_argument(
            "--wait",
            type=int,
            metavar="SECONDS",
            help="with `on`: wait no longer than this for what runs; default: no end",
        )

    def handle(self, *args: Any, switch: str, reason: str = "", wait: int | None = None, **options: Any) -> None:
        if switch == "off":
            self._end()
            return
        if not reason.strip() and maintenance_in_force() is None:
            raise CommandError("Say with --reason why: everybody sees it, and it is kept on record.")
        at = timezone.now()
        row = installation.begin_maintenance(reason=reason.strip(), at=at)
        if row.begun_at != at:
            self.stdout.write("Maintenance was begun before this; its reason stays.")
        self.stdout.write(
            f"Under maintenance since {row.begun_at:%Y-%m-%d %H:%M} UTC: no execution starts. {row.reason}"
        )
        self._drain(wait)

    def _drain(self, wait: int | None) -> None:
        until, told = time.monotonic() + (wait or 0), -1
        while (running := execution.count_running_attempts())[0]:
            count, last = running
            if count != told:
                executions = "execution runs" if count == 1 else "executions run"
                self.stdout.write(f"{count} {executions}; the last lease ends at {last:%H:%M:%S} UTC.")
                self.stdout.flush()
                told = count
            if wait is not None and time.monotonic() >= until:
                raise CommandError(
                    f"{count} still run after {wait} s. The maintenance stays on; run this again to wait for them."
                )
            time.sleep(LOOK_EVERY_S if wait is None else min(LOOK_EVERY_S, max(until - time.monotonic(), 0)))
        self.stdout.write("Nothing runs. End the maintenance with `manage.py maintenance off`.")

    def _end(self) -> None:
        was_on = maintenance_in_force() is not None
        installation.end_maintenance(at=timezone.now())
        self.stdout.write(
            "The maintenance has ended; executions start again." if was_on else "No maintenance is under way."
        )
