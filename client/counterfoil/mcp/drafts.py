"""Draft contracts from a server's tool list, for a person to complete.

1. The class follows the server's hints, which are its own word. Without a hint a tool counts as a change that cannot
   be undone, so that people are asked until somebody says better. A tool is a read only where its hint or the user
   says so.
2. Nothing can be read back until somebody says how: drafts have no verification. An external effect is therefore
   marked as unverifiable, and always waits for people.
3. Schemas are tightened (unknown arguments are refused) and made fit for registration: the keywords of drafts 4 to
   2019-09 become those of 2020-12, and what cannot be registered is left out; each change is noted.
4. Texts are drafted as the server wrote them, without invisible characters. What reads like an order to the model is
   noted: the person who registers it decides what models will read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool, ToolAnnotations

from counterfoil.canonical import MAX_INTEGER
from counterfoil.mcp.surface import contract_name, tool_digest, visible_text

MOST_TEXT = 4_000
_MOST_NAME = 128
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_NAMED = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_VALUES = frozenset({"default", "examples", "enum", "const"})
# What an engine without backtracking does not know: looking around, and references to what was matched.
_BACKTRACKS = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9]|\\k<")
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
    """A contract document for one tool, and the points that a person should check."""

    document: dict[str, Any]
    notes: tuple[str, ...]


def draft_contract(tool: Tool, *, server: str, reads: bool = False) -> ContractDraft:
    """The draft for a tool; with `reads` the user states that it changes nothing."""
    notes: list[str] = []
    name = contract_name(f"{server}.", tool.name)
    if name != f"{server}.{tool.name}":
        notes.append(f"its name cannot be a contract's: it is registered as {name}")
    own = name.removeprefix(f"{server}.")
    own = own if own[0].isalpha() else f"_{own}"[:_MOST_NAME]
    schema = _schema(tool.input_schema, notes)
    document = {
        "name": name,
        "version": "1.0.0",
        "schema_version": "1",
        "wrapper_version": tool_digest(tool),
        "description": _description(tool, notes),
        "arguments_schema": schema,
        **_effects(tool.annotations or ToolAnnotations(), reads=reads, notes=notes),
        "target_resource": _target(schema, server=server, tool=own, notes=notes),
        "operation_kind": own,
    }
    return ContractDraft(document, tuple(notes))


def update_contract(document: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """The next version of a contract for a changed tool: with the new schema, text and pin, and a person's decisions
    kept.
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
    declared = {name: part for name, part in properties.items() if isinstance(part, Mapping)}
    fit = [one for one in schema.get("required", []) if declared.get(one, {}).get("type") in ("string", "integer")]
    ids = [name for name in fit if name.endswith(("_id", "_name", "_key"))]
    chosen = next((name for name in _TARGETS if name in fit), ids[0] if len(ids) == 1 else None)
    if chosen is None:
        notes.append("no argument names what a call is about: calls with the same arguments have one target")
        return f"{server}/{tool}/{{*}}"
    if chosen.endswith("path"):
        notes.append(f"{chosen} names what a call is about: an absolute path will be refused")
    return f"{server}/{{{chosen}}}"


def _schema(given: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the input schema in a contract's form (rule 3)."""
    schema: dict[str, Any] = _convert_schema(given, notes)
    schema["type"] = "object"
    schema.setdefault("properties", {})
    open_ended = {"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
    if not open_ended & schema.keys():
        schema["additionalProperties"] = False
        notes.append("unknown arguments are refused")
    return schema


def _convert_schema(value: Any, notes: list[str]) -> Any:
    """Return a schema in draft 2020-12, without anything that registration refuses."""
    if isinstance(value, list):
        return [_convert_schema(one, notes) for one in value]
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for key, part in _rename_keywords(value, notes).items():
        if _is_refused(key, part):
            notes.append(f"left out of the schema: {key} {part}"[:120])
        elif key in _VALUES:
            if (carried := _exact_values(key, part, notes)) is not None or part is None:
                kept[key] = carried
        elif key in _NAMED and isinstance(part, Mapping):
            named = {name: _convert_schema(one, notes) for name, one in part.items()}
            kept[key] = {name: one for name, one in named.items() if key != "patternProperties" or _runs(name, notes)}
        else:
            kept[key] = _convert_schema(part, notes)
    return kept


def _rename_keywords(given: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The keywords of one schema as draft 2020-12 has them."""
    schema = _convert_references(_arrays_and_bounds(dict(given)))
    for name, part in (schema.pop("dependencies", None) or {}).items():
        keyword = "dependentRequired" if isinstance(part, list) else "dependentSchemas"
        schema[keyword] = {**schema.get(keyword, {}), name: part}
    for keyword in ("required", "type"):
        if isinstance(schema.get(keyword), list):
            schema[keyword] = list(dict.fromkeys(one for one in schema[keyword] if isinstance(one, str)))
    if isinstance(schema.get("required"), bool):
        notes.append("left out of the schema: required, which names no arguments")
        del schema["required"]
    return schema


def _arrays_and_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Draft 4 marks a bound as exclusive; up to draft 7 `items` is a list where each place has a schema."""
    for bound, of in _BOUNDS.items():
        if isinstance(schema.get(bound), bool) and schema.pop(bound) and of in schema:
            schema[bound] = schema.pop(of)
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if "additionalItems" in schema:
            schema["items"] = schema.pop("additionalItems")
    schema.pop("additionalItems", None)
    return schema


def _convert_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert the definitions, anchors and references of a schema."""
    if isinstance(schema.get("definitions"), Mapping):
        schema["$defs"] = {**schema.pop("definitions"), **(schema.get("$defs") or {})}
    for keyword in ("id", "$id"):
        if isinstance(schema.get(keyword), str) and schema[keyword].startswith("#"):
            schema["$anchor"] = schema.pop(keyword)[1:]
    if "$recursiveRef" in schema:
        schema["$ref"] = schema.pop("$recursiveRef")
    schema.pop("$recursiveAnchor", None)
    if isinstance(schema.get("$ref"), str):
        schema["$ref"] = re.sub(r"(?<!/properties)(?<!/\$defs)/definitions/", "/$defs/", schema["$ref"])
    return schema


def _is_refused(key: str, part: Any) -> bool:
    if isinstance(part, int | float) and not isinstance(part, bool):
        # No payload holds an integer beyond these, so that the bound says nothing.
        return not -MAX_INTEGER <= part <= MAX_INTEGER
    if not isinstance(part, str):
        return False
    return (
        key in ("$id", "id")
        or (key == "$schema" and part.rstrip("#") != DIALECT)
        or (key == "format" and part not in _FORMATS)
        or (key == "$ref" and not part.startswith("#"))
        or (key == "pattern" and _BACKTRACKS.search(part) is not None)
    )


def _runs(pattern: str, notes: list[str]) -> bool:
    if _BACKTRACKS.search(pattern) is None:
        return True
    notes.append(f"left out of the schema: patternProperties {pattern}"[:120])
    return False


def _exact_values(key: str, part: Any, notes: list[str]) -> Any:
    """A value in a schema, as far as a contract can contain it; None if it cannot."""
    parts = part if key in ("enum", "examples") and isinstance(part, list) else [part]
    carried = [one for one in parts if _is_exact(one)]
    if len(carried) < len(parts):
        notes.append(f"left out of the schema: a number of {key} that no contract carries exactly")
    if parts is part:
        return carried or None
    return carried[0] if carried else None


def _is_exact(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_exact(one) for one in value.values())
    if isinstance(value, list):
        return all(_is_exact(one) for one in value)
    return not isinstance(value, int | float) or -MAX_INTEGER <= value <= MAX_INTEGER


def _description(tool: Tool, notes: list[str]) -> str:
    text = tool.description or tool.title or tool.name
    seen = visible_text(text)
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
