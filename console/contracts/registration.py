"""A contract document before registration: its faults, and their lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django import forms

from console.contracts.contract_check import (
    check_dry_run,
    check_sources,
    current_findings,
    registered_systems,
    validate_contract,
    weakening_findings,
)
from console.contracts.document_places import line_of, line_of_each_part
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.releases import verification_changes
from ledger.record.rules.refusals import Refused
from reviews.readback.operations.dry_runs import DryRun

AROUND: Final = 1
"""So many lines before and after a place are shown with it."""

# The document of docs/api.md, which a test registers.
SKELETON: Final = """\
{
  "name": "delete_document",
  "version": "1.0.0",
  "schema_version": "1",
  "wrapper_version": "1",
  "description": "Delete a document. Use when: a person asked for exactly this one to go. NOT for: replacing it.",
  "arguments_schema": {
    "type": "object",
    "required": ["path", "reason"],
    "additionalProperties": false,
    "properties": {
      "path": {"type": "string", "pattern": "^[a-z0-9/_-]+[.](md|txt)$", "description": "Its path inside the folder."},
      "reason": {"type": "string", "minLength": 3, "maxLength": 300, "description": "Why it may go."}
    }
  },
  "side_effect_class": "MEDIUM_RISK_WRITE",
  "reversibility": "IRREVERSIBLE",
  "target_resource": "document/{path}",
  "operation_kind": "delete",
  "required_effects": ["deletion"],
  "verification": {
    "pattern": "filesystems",
    "system": "documents",
    "lookup": {"effects": {"deletion": {"path": "sr.path", "expect": "absent"}}},
    "predicates": ["sa.exists"],
    "polling": {"first_after_s": 1, "backoff": 2.0, "max_interval_s": 60, "sla_s": 3600},
    "settle_s": 2
  },
  "claims": {"done": ["deleted"], "object": ["document"]}
}
"""


class RegisterContractForm(forms.Form):
    """A contract document, typed or as a file; the file takes precedence."""

    document = forms.CharField(
        required=False,
        max_length=contracts.MAX_DOCUMENT,
        strip=False,
        label="Contract document (JSON)",
        widget=forms.Textarea(attrs={"rows": 24, "class": "mono", "spellcheck": "false"}),
    )
    file = forms.FileField(required=False, label="Or a file", widget=forms.FileInput(attrs={"accept": ".json"}))
    checked = forms.CharField(required=False, max_length=64)

    def text(self) -> str:
        """The submitted text, whether or not it can be parsed."""
        file = self.files.get("file")
        typed = (
            file.read(contracts.MAX_DOCUMENT + 1).decode(errors="replace") if file else self.data.get("document", "")
        )
        return str(typed).replace("\r\n", "\n")


@dataclass(frozen=True)
class PlaceNote:
    """A note at one place of a document; a fault prevents registration."""

    line: int
    path: str
    code: str
    text: str
    fix: str = ""
    is_fault: bool = False


@dataclass(frozen=True)
class CheckedDocument:
    """The result of checking a text; it is not stored."""

    contract: Contract | None = None
    tried: DryRun = field(default_factory=DryRun)
    notes: tuple[PlaceNote, ...] = ()
    is_weaker: bool = False
    needs_release: bool = False
    lines: Mapping[str, int] = field(default_factory=dict)


def check_document(tenant_id: UUID, text: str, *, at: datetime) -> CheckedDocument:
    """Check a text as registration would, and say of each fault and finding where it stands."""
    try:
        document = contracts.read(text)
    except Refused as refusal:
        return CheckedDocument(notes=refusal_notes(text, refusal))
    lines = line_of_each_part(text)
    try:
        contract = validate_contract(document)
        check_sources(tenant_id, contract)
        tried = check_dry_run(tenant_id, contract, at=at)
    except contracts.BadContract as refusal:
        return CheckedDocument(notes=refusal_notes(text, refusal))
    weaker = weakening_findings(tenant_id, contract)
    findings = [*weaker, *current_findings(contract, registered_systems(tenant_id))]
    before = catalogue_queries.contract_to_compare(tenant_id, contract.name)
    return CheckedDocument(
        contract=contract,
        tried=tried,
        notes=_place_notes(lines, [(each.path, each.code, each.detail, each.fix, False) for each in findings]),
        is_weaker=bool(weaker),
        needs_release=before is not None
        and bool(verification_changes(contracts.read(bytes(before.document)), contracts.read(contract.document))),
        lines=lines,
    )


def note_refusal(checked: CheckedDocument, refusal: Refused) -> CheckedDocument:
    """Return the same check including the refusal of registration, at the version that it concerns."""
    note = PlaceNote(line_of("/version", dict(checked.lines)), "/version", refusal.code, refusal.detail, is_fault=True)
    return CheckedDocument(notes=(note, *checked.notes), lines=checked.lines)


def refusal_notes(text: str, refusal: Refused) -> tuple[PlaceNote, ...]:
    """The faults of a refused text at their lines; the refusal itself where it names none."""
    try:
        contracts.read(text)
    except Refused:
        return (_unreadable(text, refusal.detail),)
    faults = [(_place_of(each), each["code"], each["detail"], "", True) for each in refusal.errors]
    return _place_notes(line_of_each_part(text), faults or [("", refusal.code, refusal.detail, "", True)])


def excerpts(text: str, notes: Iterable[PlaceNote]) -> list[dict[str, Any]]:
    """The notes by the line that they are about, each line with those around it."""
    lines, by_line = text.split("\n"), dict[int, list[PlaceNote]]()
    for note in notes:
        by_line.setdefault(note.line, []).append(note)
    return [
        {
            "line": number,
            "notes": found,
            "shown": [
                {"number": each, "text": lines[each - 1][:400], "is_it": each == number}
                for each in range(max(1, number - AROUND), min(len(lines), number + AROUND) + 1)
            ],
        }
        for number, found in sorted(by_line.items())
    ]


def _place_notes(lines: dict[str, int], told: Iterable[tuple[str, str, str, str, bool]]) -> tuple[PlaceNote, ...]:
    return tuple(PlaceNote(line_of(path, lines), path, code, text, fix, fault) for path, code, text, fix, fault in told)


def _place_of(fault: Mapping[str, Any]) -> str:
    """The position of a fault; unknown fields are reported on the enclosing object, so the first of them is used."""
    if fault["code"] != "UNKNOWN_FIELD":
        return str(fault["path"])
    name = str(fault["detail"]).removeprefix("Unknown field: ").removesuffix(".").partition(", ")[0]
    return f"{fault['path']}/{name}"


def _unreadable(text: str, detail: str) -> PlaceNote:
    """The position at which a text stops being JSON, as far as it can be determined."""
    if not text.strip():
        return PlaceNote(1, "", "REQUIRED", "Paste the contract document, or choose its file.", is_fault=True)
    try:
        json.loads(text)
    except json.JSONDecodeError as problem:
        said = f"This is not JSON from here on: {problem.msg} (column {problem.colno})."
        return PlaceNote(problem.lineno, "", "NOT_JSON", said, is_fault=True)
    except (ValueError, RecursionError):
        pass
    return PlaceNote(1, "", "NOT_CANONICAL", detail, is_fault=True)
