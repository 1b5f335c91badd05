"""`manage.py lint_contract FILE…`: what is wrong with contract documents, before anything is registered.

A file holds one document or a list of them. Nothing is asked of the database or of any system. Errors would refuse the
registration; warnings are findings of the linter, each with its fix. Exit 1 where there is an error, with --strict
also where there is a warning.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.rules import registry
from console import contracts
from ledger.rules.contract import read
from ledger.rules.refusals import Refused

Told = dict[str, str]


class Command(BaseCommand):
    help = "Check contract documents and name the fix of each finding; needs no database."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="a contract document, or a list; - is the input")
        parser.add_argument("--json", action="store_true", help="print a list of findings as JSON")
        parser.add_argument("--strict", action="store_true", help="exit 1 for warnings too")

    def handle(self, *args: Any, files: list[str], json: bool, strict: bool, **options: Any) -> None:
        found = list(_found(files))
        self.stdout.write(_as_json(found) if json else "\n".join(map(_line, found)) or "No findings.")
        levels = {each["level"] for each in found}
        if "error" in levels or (strict and levels):
            sys.exit(1)


def _found(files: list[str]) -> Iterator[Told]:
    names = []
    for file in files:
        for document in _documents(file):
            told = list(_of(document))
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


def _of(document: dict[str, Any]) -> Iterator[Told]:
    try:
        contract = contracts.validated(document)
    except Refused as refusal:
        faults = refusal.errors or [{"path": "", "code": refusal.code, "detail": refusal.detail}]
        yield from ({"level": "error"} | {key: str(each[key]) for key in ("code", "path", "detail")} for each in faults)
        return
    for finding in contract.findings:
        yield {"level": "warning", "code": finding.code, "path": finding.path, "detail": finding.told}


def _line(told: Told) -> str:
    where = " ".join(part for part in (told["file"], told["contract"], told["path"]) if part)
    return f"{told['level']}: {told['code']}{' at ' if where else ''}{where}: {told['detail']}"


def _as_json(found: list[Told]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)
