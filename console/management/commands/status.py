"""`manage.py status [--json]`: tell what `/statusz` tells, with the figures of the same look.

The exit code is 1 if a part has failed, else 3 if one is not known, else 0. `manage.py doctor` looks at more.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from django.core.management.base import BaseCommand

from console.installation import doctor
from console.telemetry import health

LEFT_OUT: Final = "task_"
"""Figures of single tasks are many; the document has them."""


class Command(BaseCommand):
    help = "Tell the state of the installation, and how much is waiting."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")

    def handle(self, *args: Any, json: bool = False, **options: Any) -> None:
        look = health.look_at_installation()
        self.stdout.write(_as_json(look) if json else "\n".join([*doctor.lines(look.checks), *_figure_lines(look)]))
        sys.exit(doctor.exit_code(look.checks))


def _as_json(look: health.InstallationLook) -> str:
    figures = [{"figure": each.family, "of": each.label, "value": each.value} for each in look.figures]
    return json.dumps({**doctor.document(look.checks), "figures": figures}, indent=1)


def _figure_lines(look: health.InstallationLook) -> list[str]:
    """A line for each figure; what is not known has none."""
    return [
        f"{each.value:>12,.10g}  {each.family.replace('_', ' ')}{f' ({each.label})' if each.label else ''}"
        for each in look.figures
        if not each.family.startswith(LEFT_OUT)
    ]
