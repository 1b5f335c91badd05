"""`manage.py export_metric_source --tenant SLUG --out FILE`: export what metrics are counted from, as JSON lines.

An auditor can count them again with a program of their own. A name that ends in `.gz` is compressed.
"""

from __future__ import annotations

import argparse
import gzip
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console.metrics import source
from ledger.db import tenancy
from ledger.record.queries import events


class Command(BaseCommand):
    help = "Export the data that the metrics are computed from, so that they can be recomputed independently."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="output file")

    def handle(self, *args: Any, tenant: str, out: Path, **options: Any) -> None:
        found = events.tenant(tenant)
        if found is None:
            raise CommandError(f"There is no tenant {tenant}.", returncode=2)
        part = out.with_name(f"{out.name}.part")
        count = 0
        with part.open("wb") as plain, ExitStack() as packing, tenancy(found.id):
            file = packing.enter_context(gzip.GzipFile("", "wb", 1, plain)) if out.suffix == ".gz" else plain
            for line in source.source_lines(found.id, at=timezone.now()):
                file.write(line)
                count += 1
        part.replace(out)
        self.stdout.write(f"{out}: {count - 1} actions and calls.")
