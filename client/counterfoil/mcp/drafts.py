"""Draft contracts from a server's tool list, for a person to complete.

1. The class follows the server's hints, which are its own word. Without a hint a tool counts as a change that cannot
   be undone, so that people are asked until somebody says better. A tool is a read only where its hint or the user
   says so.
2. Nothing can be read back until somebody says how: drafts have no verification. An external effect is therefore
   marked as unverifiable, and always waits for people.
3. Schemas are tightened (unknown arguments are refused) and made fit for registration; each change is noted.
4. Texts are drafted as the server wrote them, without invisible characters. What reads like an order to the model is
   noted: the person who registers it decides what models will read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool, ToolAnnotations

from counterfoil.mcp.surface import tool_digest

MOST_TEXT = 4_000
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$")
_ORDERS = re.compile(
    r"ignore (?:all|any|the|previous)|(?:do not|don't) (?:tell|mention|inform)"
    r"|before (?:using|calling) (?:any|this)|you must (?:always|first)"
    r"|<\s*(?:important|system|instructions?)\b|without (?:telling|asking) the user|system prompt",
    re.IGNORECASE,
)
# fmt: off
_FORMATS = frozenset(
    (
        "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6",
        "uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer",
        "relative-json-pointer", "regex",
    )
)
# fmt: on
_TARGETS = ("path", "file_path", "id", "uri", "url", "name", "key", "branch_name")


@dataclass(frozen=True)
class ContractDraft:
    """A contract document for one tool, and what a person should look at."""

    document: dict[str, Any]
    notes: tuple[str, ...]


def draft_contract(tool: Tool, *, server: str, reads: bool = False) -> ContractDraft:
    """The draft for a tool; `reads` is the user's word that it changes nothing."""
    notes: list[str] = []
    name = f"{server}.{tool.name}"
    if not _NAME.match(name):
        notes.append("its name cannot be a contract's: the tool cannot be registered")
    schema = _schema(tool.input_schema, notes)
    document = {
        "name": name,
        "version": "1.0.0",
        "schema_version": "1",
        "wrapper_version": tool_digest(tool),
        "description": _description(tool, notes),
        "arguments_schema": schema,
        **_effects(tool.annotations or ToolAnnotations(), reads=reads, notes=notes),
        "target_resource": _target(schema, server=server, tool=tool.name, notes=notes),
        "operation_kind": tool.name,
    }
    return ContractDraft(document, tuple(notes))


def update_contract(document: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """The next version of a contract for a tool that its server has changed: schema, text and pin are the new ones,
    what a person decided stays.
    """
    notes: list[str] = []
    return {
        **document,
        "version": _next(str(document["version"])),
        "wrapper_version": tool_digest(tool),
        "description": _description(tool, notes),
        "arguments_schema": _schema(tool.input_schema, notes),
    }


def _effects(hints: ToolAnnotations, *, reads: bool, notes: list[str]) -> dict[str, Any]:
    """Class and recovery (rules 1 and 2)."""
    if reads or hints.read_only_hint:
        notes.append("a read, as you say" if reads else "a read, as its server says")
        return {"side_effect_class": "READ_ONLY"}
    recovery = {"recovery": {"idempotent": True}} if hints.idempotent_hint else {}
    if hints.open_world_hint:
        notes.append("reaches outside; nobody can check it until you name a verification")
        return {"side_effect_class": "HIGH_RISK_EXTERNAL", "unverifiable_acknowledged": True, **recovery}
    if hints.destructive_hint is False:
        notes.append("only adds, as its server says; name a verification")
        return {"side_effect_class": "LOW_RISK_INTERNAL", **recovery}
    said = "destroys, as its server says" if hints.destructive_hint else "its server says nothing of its effect"
    notes.append(f"{said}: people are asked each time; name a verification")
    return {"side_effect_class": "MEDIUM_RISK_WRITE", "reversibility": "IRREVERSIBLE", **recovery}


def _target(schema: Mapping[str, Any], *, server: str, tool: str, notes: list[str]) -> str:
    properties = schema.get("properties", {})
    fit = [name for name in schema.get("required", []) if properties.get(name, {}).get("type") in ("string", "integer")]
    ids = [name for name in fit if name.endswith(("_id", "_name", "_key"))]
    chosen = next((name for name in _TARGETS if name in fit), ids[0] if len(ids) == 1 else None)
    if chosen is None:
        notes.append("no argument names what a call is about: all its calls have one target")
        return f"{server}/{tool}"
    if chosen.endswith("path"):
        notes.append(f"{chosen} names what a call is about: an absolute path will be refused")
    return f"{server}/{{{chosen}}}"


def _schema(given: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The input schema as a contract takes it (rule 3)."""
    schema: dict[str, Any] = _without(given, notes)
    schema["type"] = "object"
    schema.setdefault("properties", {})
    open_ended = {"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
    if not open_ended & schema.keys():
        schema["additionalProperties"] = False
        notes.append("unknown arguments are refused")
    return schema


def _without(value: Any, notes: list[str], *, names: bool = False) -> Any:
    """The same, without what registration refuses: other dialects, ids, formats that nobody checks.

    `names`: the keys of this object are argument names, not keywords.
    """
    if isinstance(value, list):
        return [_without(one, notes) for one in value]
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for key, part in value.items():
        if not names and _is_refused(key, part):
            notes.append(f"left out of the schema: {key} {part}"[:120])
        elif key in ("default", "examples", "enum", "const") and not names:
            kept[key] = part
        else:
            kept[key] = _without(part, notes, names=not names and key in ("properties", "$defs"))
    return kept


def _is_refused(key: str, part: Any) -> bool:
    if not isinstance(part, str):
        return False
    return (
        key == "$id" or (key == "$schema" and part.rstrip("#") != DIALECT) or (key == "format" and part not in _FORMATS)
    )


def _description(tool: Tool, notes: list[str]) -> str:
    text = tool.description or tool.title or tool.name
    seen = "".join(
        one for one in text if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf", "Co", "Cn", "Cs")
    )
    if seen != text:
        notes.append("INVISIBLE CHARACTERS in its description were left out")
    if _ORDERS.search(seen):
        notes.append("its description GIVES ORDERS to the model: read it before you register it")
    if len(seen) > MOST_TEXT:
        notes.append(f"its description was cut at {MOST_TEXT} characters")
    return seen[:MOST_TEXT].strip() or tool.name


def _next(version: str) -> str:
    head, _, last = version.rpartition(".")
    return f"{head}.{int(last) + 1}" if head and last.isdigit() else f"{version}.1"
