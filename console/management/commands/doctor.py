"""`manage.py doctor [--json]`: look at everything that an installation consists of, and say what to do.

One line for each check: `ok`, `fails` or `not known`, what was found, and where the documentation has the remedy. The
exit code is 1 if a check fails, else 3 if one is not known, else 0.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from console.installation import doctor
from console.telemetry.health import Check


class Command(BaseCommand):
    help = "Check roles, rights, fences, keys, connections, servers, clocks, folders, partitions and backups."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")

    def handle(self, *args: Any, json: bool = False, **options: Any) -> None:
        checks = doctor.examine(at=timezone.now())
        self.stdout.write(_as_json(checks) if json else "\n".join(doctor.lines(checks)))
        sys.exit(doctor.exit_code(checks))


def _as_json(checks: list[Check]) -> str:
    return json.dumps(doctor.document(checks), indent=1)
