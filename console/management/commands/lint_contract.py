"""`manage.py lint_contract FILE…`: check contract documents before they are registered.

A file holds one document or a list of them. Without --tenant the database is not used; with it, the systems
that a document names are looked up there too, and each document is compared with the version in force. Errors would
refuse the registration; warnings are findings of the linter, each with its fix. Exit 1 where there is an error, with
--strict also where there is a warning.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from approvals.agents.rules import registry
from console.contracts import contract_check
from ledger.catalogue.rules.contract import Contract, read
from ledger.catalogue.rules.lint import LintFinding
from ledger.db import tenancy
from ledger.record.queries import events
from ledger.record.rules.refusals import Refused

Told = dict[str, str]


class Command(BaseCommand):
    help = "Check contract documents and print a fix for each finding; needs no database without --tenant."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="contract document or list; - for standard input")
        parser.add_argument("--json", action="store_true", help="print a list of findings as JSON")
        parser.add_argument("--tenant", metavar="SLUG", help="compare with the versions registered in this tenant")
        parser.add_argument("--strict", action="store_true", help="exit with 1 for warnings, too")

    def handle(
        self, *args: Any, files: list[str], json: bool, strict: bool, tenant: str | None = None, **options: Any
    ) -> None:
        found = list(_findings_of_files(files, _tenant_named(tenant) if tenant else None))
        self.stdout.write(_as_json(found) if json else "\n".join(map(_line, found)) or "No findings.")
        levels = {each["level"] for each in found}
        if "error" in levels or (strict and levels):
            sys.exit(1)


def _tenant_named(slug: str) -> UUID:
    found = events.tenant(slug)
    if found is None:
        raise CommandError(f"There is no tenant {slug}.")
    return found.id


def _findings_of_files(files: list[str], tenant_id: UUID | None = None) -> Iterator[Told]:
    names = []
    for file in files:
        for document in _documents(file):
            told = list(_findings_of_document(document, tenant_id))
            yield from ({"file": file, "contract": str(document.get("name", ""))[:128]} | each for each in told)
            names.append(str(document.get("name", "")))
    for each in registry.findings(names, contracts=names) if len(set(names)) > 1 else ():
        yield {"file": "", "contract": "", "level": "warning", "code": each.code, "path": "", "detail": each.told}


def _documents(file: str) -> list[dict[str, Any]]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise CommandError(f"{file} cannot be read: {problem}") from None
    if not text.lstrip().startswith("["):
        return [_document(file, text)]
    try:
        return [_document(file, json.dumps(each)) for each in json.loads(text)]
    except ValueError:
        raise CommandError(f"{file} is not JSON.") from None


def _document(file: str, text: str) -> dict[str, Any]:
    try:
        return read(text)
    except Refused as refusal:
        raise CommandError(f"{file}: {refusal.detail}") from None


def _findings_of_document(document: dict[str, Any], tenant_id: UUID | None) -> Iterator[Told]:
    try:
        contract = contract_check.validate_contract(document)
    except Refused as refusal:
        faults = refusal.errors or [{"path": "", "code": refusal.code, "detail": refusal.detail}]
        yield from ({"level": "error"} | {key: str(each[key]) for key in ("code", "path", "detail")} for each in faults)
        return
    for finding in _findings(contract, tenant_id):
        yield {"level": "warning", "code": finding.code, "path": finding.path, "detail": finding.told}


def _findings(contract: Contract, tenant_id: UUID | None) -> tuple[LintFinding, ...]:
    if tenant_id is None:
        return contract.findings
    with tenancy(tenant_id):
        weaker = contract_check.weakening_findings(tenant_id, contract)
        return (*contract_check.current_findings(contract, contract_check.registered_systems(tenant_id)), *weaker)


def _line(told: Told) -> str:
    where = " ".join(part for part in (told["file"], told["contract"], told["path"]) if part)
    return f"{told['level']}: {told['code']}{' at ' if where else ''}{where}: {told['detail']}"


def _as_json(found: list[Told]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)
