"""`counterfoil-transcripts suggest RECORDING…`: propose sayings for contracts from recorded conversations."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from counterfoil_transcripts import contracts
from counterfoil_transcripts.acts import TrustRequirement
from counterfoil_transcripts.audit import ConversationAudit, audit_conversation
from counterfoil_transcripts.contracts import ContractCatalogue
from counterfoil_transcripts.offers import OfferCache
from counterfoil_transcripts.reading import intake
from counterfoil_transcripts.reading.records import Transcript
from counterfoil_transcripts.suggestions import suggest_sayings
from ledger.record.rules.refusals import Refused


class Command(BaseCommand):
    help = "Suggest completion phrases (sayings) for contracts from recordings; prints JSON."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files", nargs="+", type=Path, metavar="FILE", help="JSON or JSON Lines, optionally gzipped"
        )
        parser.add_argument(
            "--contracts", action="append", type=Path, default=[], metavar="FILE", help="contracts or a tool list"
        )

    def handle(self, *args: Any, files: list[Path], **options: Any) -> None:
        missing = [file for file in files if not file.is_file()]
        if missing:
            raise CommandError(f"There is no file {missing[0]}.", returncode=2)
        try:
            given = contracts.load_catalogue(options["contracts"]) if options["contracts"] else ContractCatalogue()
        except Refused as refusal:
            raise CommandError(str(refusal.detail), returncode=2) from None
        found = suggest_sayings(self._audit_files(files, OfferCache(given)))
        for each in found:
            words = ", ".join(each.words)
            self.stderr.write(
                f"{each.tool}: {words}: {each.used} times where {each.when}, never otherwise ({each.silent} calls)"
            )
        if not found:
            self.stderr.write("No suggestions: no word was used often enough with only one kind of answer.")
        grouped = groupby(found, key=lambda each: each.tool)
        document = {tool: {"claims": {"sayings": [each.document() for each in group]}} for tool, group in grouped}
        self.stdout.write(json.dumps(document, ensure_ascii=False, indent=2))

    def _audit_files(self, files: list[Path], offers: OfferCache) -> Iterator[ConversationAudit]:
        for file in files:
            for found in intake.read_conversations(file):
                if isinstance(found, Transcript):
                    yield audit_conversation(found, offers.of(found), trust=TrustRequirement.ANSWERS)
                else:
                    self.stderr.write(f"{found.file}: {found.reason}")
