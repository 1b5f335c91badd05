"""`counterfoil-transcripts audit FILE… --contracts FILE`: audit recorded conversations: gate, observation, guard.

Touches no system, and no database unless `--import --tenant SLUG` asks to load the conversations into the console for
browsing. Exit code:

- 0 when everything was read, whatever was found in it,
- 1 when a file is broken in places or was not imported; the rest was read, and each place is named,
- 2 when nothing was done: no such file, tenant or person, no contract in what was given or one that is refused, no
  conversation at all,
- 3 when parts were passed over because no reader knows them, each named with its place: calls may be missing, so that
  in those conversations nothing is held against the agent; and with `--fail-on-findings`, when a claim is not
  supported, an action contradicts itself, or a call was refused.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import orjson
from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db import Error
from django.utils import timezone

from counterfoil.coding_agents.onboarding import sorted_contracts
from counterfoil_transcripts import contracts
from counterfoil_transcripts.acts import TrustRequirement
from counterfoil_transcripts.audit import ConversationAudit, audit_conversation
from counterfoil_transcripts.contracts import ContractCatalogue
from counterfoil_transcripts.offers import OfferCache
from counterfoil_transcripts.reading import intake
from counterfoil_transcripts.reading.notes import HookNote, apply_notes, read_notes
from counterfoil_transcripts.reading.records import Transcript, TranscriptFault
from counterfoil_transcripts.reports import document, page, printed
from counterfoil_transcripts.reports.document import ReportWriter
from counterfoil_transcripts.reports.page import WorstConversations
from counterfoil_transcripts.reports.totals import AuditTotals, severity
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    # It needs an installation, which the command itself does not.
    from counterfoil_transcripts.commands.importing import IncomingFile, RecordingImporter

MOST_FAULTS = 1_000
WIDTH = 30
PAUSE_S = 0.1


@dataclass(eq=False)
class Bar:
    """A progress bar on a terminal; silent if the output goes elsewhere."""

    out: TextIO
    whole: int
    before: int = 0
    shown_at: float = 0.0
    is_on: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_on = self.out.isatty() and self.whole > 0

    def moved(self, place: int, *, counted: int = 0) -> None:
        """Report how many bytes of the current file have been read."""
        now = time.monotonic()
        if not self.is_on or now - self.shown_at < PAUSE_S:
            return
        self.shown_at = now
        share = min(1.0, (self.before + place) / self.whole)
        done = int(WIDTH * share)
        self.out.write(f"\r[{'#' * done}{'.' * (WIDTH - done)}] {share:4.0%}  {counted:,} conversations")
        self.out.flush()

    def clear(self) -> None:
        """Clear the progress line."""
        if self.is_on:
            self.out.write("\r" + " " * (WIDTH + 40) + "\r")
            self.out.flush()


@dataclass(eq=False)
class Work:
    """One run over all files."""

    offers: OfferCache
    trust: TrustRequirement
    gravest: WorstConversations
    writer: ReportWriter | None = None
    importer: RecordingImporter | None = None
    notes: dict[str, HookNote] = field(default_factory=dict)
    hook_contracts: dict[str, dict[str, Any]] = field(default_factory=dict)
    imported: list[str] = field(default_factory=list)
    unimported: list[str] = field(default_factory=list)
    totals: AuditTotals = field(default_factory=AuditTotals)
    faults: list[TranscriptFault] = field(default_factory=list)
    refused: bool = False
    passed_over: list[TranscriptFault] = field(default_factory=list)
    unread: int = 0

    def one(self, found: ConversationAudit) -> None:
        self.totals.add(found)
        unread = [one for one in found.faults if one.passed_over]
        self.unread += len(unread)
        self.passed_over += unread[: MOST_FAULTS - len(self.passed_over)]
        weight = severity(found)
        self.refused = self.refused or weight > 0
        if self.writer is not None:
            self.writer.add(found)
        if self.gravest.would_take(weight):
            self.gravest.add(document.conversation_document(found, self.trust))

    def fault(self, found: TranscriptFault) -> None:
        self.totals.faults += 1
        self.unread += found.passed_over
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(found)


class Command(BaseCommand):
    help = "Check recorded agent conversations with the gate, predicates and guard; reads no system."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files", nargs="+", type=Path, metavar="FILE", help="JSON or JSON Lines, optionally gzipped"
        )
        parser.add_argument(
            "--contracts", action="append", type=Path, default=[], metavar="FILE", help="contracts or a tool list"
        )
        parser.add_argument(
            "--trust", choices=[str(one) for one in TrustRequirement], default=str(TrustRequirement.ANSWERS)
        )
        parser.add_argument("--html", type=Path, metavar="OUT", help="write the report as one self-contained page")
        parser.add_argument("--json", type=Path, metavar="OUT", help="write all findings as JSON")
        parser.add_argument("--write-contracts", type=Path, metavar="OUT", help="write the contracts used, for editing")
        parser.add_argument("--show", type=int, default=20, metavar="N", help="print the N worst conversations (20)")
        parser.add_argument(
            "--notes",
            action="append",
            type=Path,
            default=[],
            metavar="FILE",
            help="notes written by hooks in shadow mode",
        )
        parser.add_argument("--fail-on-findings", action="store_true", help="exit with 3 if anything false was found")
        parser.add_argument("--import", action="store_true", dest="importing", help="load them into the console")
        parser.add_argument("--tenant", default="", metavar="SLUG", help="with --import: the tenant")
        parser.add_argument("--as", default="", dest="username", metavar="USERNAME", help="with --import: who imports")

    def handle(self, *args: Any, files: list[Path], **options: Any) -> None:
        missing = [file for file in files if not file.is_file()]
        if missing:
            raise CommandError(f"There is no file {missing[0]}.", returncode=2)
        try:
            given = contracts.load_catalogue(options["contracts"]) if options["contracts"] else ContractCatalogue()
            hook_notes = read_notes(options["notes"])
        except Refused as refusal:
            raise CommandError(str(refusal.detail), returncode=2) from None
        trust = TrustRequirement(options["trust"])
        work = Work(OfferCache(given), trust, WorstConversations(max(page.MOST_CONVERSATIONS, options["show"])))
        if hook_notes:
            work.notes, work.hook_contracts = hook_notes, _hook_contracts(given)
        work.importer = _importer(options, trust, given)
        with ExitStack() as stack:
            if options["json"] is not None:
                names = [str(file) for file in files]
                work.writer = stack.enter_context(ReportWriter(options["json"].open("wb"), files=names, trust=trust))
            self._read(files, work)
            if work.writer is not None:
                drafted, notes = given.drafted, given.notes
                work.writer.end(work.totals, faults=work.faults, drafted=drafted, notes=notes)
        self._write(work, given, files, options)
        self._say(work, given, options["show"])
        self._end(work, fail=options["fail_on_findings"])

    def _read(self, files: list[Path], work: Work) -> None:
        bar = Bar(sys.stderr, sum(file.stat().st_size for file in files))
        for file in files:
            try:
                with nullcontext() if work.importer is None else work.importer.incoming(file) as incoming:
                    self._audit(file, work, bar, incoming)
                    if work.importer is not None and incoming is not None:
                        self._import(work, work.importer, incoming)
            except (OSError, Error) as problem:
                bar.clear()
                if work.importer is None:
                    raise
                raise CommandError(f"{file}: nothing was imported. {problem}", returncode=1) from None
            bar.before += file.stat().st_size
        bar.clear()

    def _audit(self, file: Path, work: Work, bar: Bar, incoming: IncomingFile | None) -> None:
        for found in intake.read_conversations(
            file, moved=lambda place: bar.moved(place, counted=work.totals.conversations)
        ):
            fault = found if isinstance(found, TranscriptFault) else self._conversation(found, work, incoming)
            if fault is not None:
                work.fault(fault)
                if incoming is not None:
                    incoming.fault(fault)

    def _conversation(self, found: Transcript, work: Work, incoming: IncomingFile | None) -> TranscriptFault | None:
        try:
            found = apply_notes(found, work.notes, work.hook_contracts)
            done = audit_conversation(found, work.offers.of(found), trust=work.trust, notes=work.notes)
            if incoming is not None:
                incoming.add(done)
            work.one(done)
        except (RecursionError, ValueError, Refused) as problem:
            return TranscriptFault(
                found.file, found.id, found.path, f"It could not be audited ({type(problem).__name__})."
            )
        return None

    def _import(self, work: Work, importer: RecordingImporter, incoming: IncomingFile) -> None:
        name = printed.printable_text(str(incoming.file))
        if incoming.there is not None:
            address = importer.address(incoming.there)
            work.imported.append(f"{name} was already imported on {incoming.there.at:%Y-%m-%d %H:%M} UTC: {address}")
            return
        try:
            row = importer.keep(incoming, at=timezone.now())
        except Refused as refusal:
            work.unimported.append(f"{name} was not imported. {refusal.detail}")
            return
        work.imported.append(
            f"{name} was imported: {row.conversations} conversations, {row.messages} messages: {importer.address(row)}"
        )

    def _write(self, work: Work, catalogue: ContractCatalogue, files: list[Path], options: dict[str, Any]) -> None:
        if options["write_contracts"] is not None:
            options["write_contracts"].write_bytes(
                orjson.dumps(catalogue.documents(), option=orjson.OPT_INDENT_2) + b"\n"
            )
        if options["html"] is not None:
            gravest = work.gravest.listed()[: page.MOST_CONVERSATIONS]
            names = [str(file) for file in files]
            text = page.render_page(work.totals, gravest, names=names, trust=work.trust, faults=work.faults)
            options["html"].write_text(text, encoding="utf-8", errors="replace")

    def _say(self, work: Work, catalogue: ContractCatalogue, show: int) -> None:
        for line in printed.total_lines(work.totals, work.trust):
            self.stdout.write(line)
        for one in work.gravest.listed()[:show]:
            self.stdout.write("")
            for line in printed.conversation_lines(one):
                self.stdout.write(line)
        if work.totals.with_findings > show:
            self.stdout.write(f"\n{work.totals.with_findings - show} more conversations with findings; see --json.")
        self.stdout.writelines(f"\n{line}\n" for line in work.imported)
        notes = [printed.printable_text(note, 400) for note in catalogue.notes[:20]]
        for line in (*work.unimported, *notes, *printed.fault_lines([*work.faults, *work.passed_over])):
            self.stderr.write(line)

    def _end(self, work: Work, *, fail: bool) -> None:
        if work.totals.conversations == 0:
            raise CommandError("The files contain no conversation.", returncode=2)
        if fail and work.refused:
            raise CommandError(f"{work.totals.with_findings} conversations have findings.", returncode=3)
        if work.unimported:
            raise CommandError(f"{len(work.unimported)} files were not imported.", returncode=1)
        if work.unread:
            said = (
                f"{work.unread} parts were not read: calls may be missing, and nothing is held against the agent there."
            )
            raise CommandError(said, returncode=3)
        if work.totals.faults:
            raise CommandError(f"{work.totals.faults} places could not be read.", returncode=1)


def _hook_contracts(catalogue: ContractCatalogue) -> dict[str, dict[str, Any]]:
    """The contracts of `counterfoil-agents`, by tool, in addition to those given."""
    found = {}
    for file in sorted_contracts():
        found[file.stem] = orjson.loads(file.read_bytes())
        if file.stem not in catalogue.contracts:
            catalogue.add(found[file.stem], str(file))
    return found


def _importer(
    options: dict[str, Any], trust: TrustRequirement, catalogue: ContractCatalogue
) -> RecordingImporter | None:
    """The importer into the console, if `--import` was given."""
    if not options["importing"]:
        if options["tenant"] or options["username"]:
            raise CommandError("--tenant and --as require --import.", returncode=2)
        return None
    if not options["tenant"]:
        raise CommandError("--import needs --tenant.", returncode=2)
    if not apps.ready:
        raise CommandError("--import was abbreviated; write it in full.", returncode=2)
    from counterfoil_transcripts.commands.importing import open_importer

    try:
        return open_importer(options["tenant"], username=options["username"], trust=trust, catalogue=catalogue)
    except (Refused, Error) as problem:
        raise CommandError(str(problem), returncode=2) from None
