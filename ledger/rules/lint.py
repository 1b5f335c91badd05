"""Lint of contract documents: what makes a model call a tool wrongly, found before the first call.

Findings warn, they do not refuse. Each names what to do about it.

| code | rule |
|---|---|
| VAGUE_NAME | a tool name says what it does to what (R-MC-17) |
| NO_USE_WHEN, NO_NOT_FOR | the description says when to use the tool and when not (R-MC-18) |
| OPEN_CHOICE | a parameter that looks like a choice lists its values (R-MC-19) |
| OPEN_ARGUMENTS | unknown parameters are refused, else a renamed one passes unseen (R-MC-03) |
| ONE_SOURCE | a CRITICAL_MUTATION names a further source, or each of its actions ends with a person (R-RC-13) |
| UNCHECKED | a check that the class demands is made, or said not to apply (R-VD-07, `depth`) |
| FRACTIONAL_ARGUMENT | payloads hold no fractions: a `number` only ever takes integers |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.rules.depth import By, depth

# fmt: off
_VAGUE_VERBS = frozenset(
    (
        "action", "call", "do", "execute", "generic", "handle", "helper",
        "manage", "misc", "operate", "perform", "process", "run", "tool",
        "use", "util", "utility",
    )
)
_CHOICES = frozenset(
    (
        "action", "category", "channel", "class", "currency", "direction", "environment",
        "format", "frequency", "kind", "language", "level", "locale", "method",
        "mode", "operation", "priority", "reason_code", "region", "role", "scope",
        "severity", "stage", "state", "status", "strategy", "tier", "type",
        "unit",
    )
)
# fmt: on
_BOUNDS = frozenset({"enum", "const", "pattern", "format", "$ref", "anyOf", "oneOf"})


@dataclass(frozen=True)
class Finding:
    """One weakness of a document: where it is, what it is, and the fix."""

    code: str
    path: str
    detail: str
    fix: str


def lint(document: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings of a document that has the shape of a contract, in a fixed order."""
    schema = document["arguments_schema"]
    found = [*_name(document["name"]), *_description(document["description"]), *_openness(schema)]
    found.extend(_sources(document))
    found.extend(_depth(document))
    for name, part in sorted(schema.get("properties", {}).items()):
        found.extend(_parameter(name, part))
    return tuple(found)


def _name(name: str) -> Iterator[Finding]:
    words = [word for word in re.split(r"[_.-]|(?<=[a-z])(?=[A-Z])", name) if word]
    if len(words) < 2 or words[0].lower() in _VAGUE_VERBS:
        yield Finding(
            "VAGUE_NAME",
            "/name",
            f"`{name}` does not say what is done to what.",
            "Name it verb_object with a verb that says the effect, like issue_refund.",
        )


def _description(text: str) -> Iterator[Finding]:
    lowered = text.lower()
    if "use when" not in lowered:
        yield Finding(
            "NO_USE_WHEN",
            "/description",
            "The description does not say when to use the tool.",
            "Add a sentence that begins with `Use when:`.",
        )
    if "not for" not in lowered:
        yield Finding(
            "NO_NOT_FOR",
            "/description",
            "The description does not say what the tool is not for.",
            "Add a sentence that begins with `NOT for:` and names the tool to use instead.",
        )


def _sources(document: Mapping[str, Any]) -> Iterator[Finding]:
    verification = document.get("verification")
    if document["side_effect_class"] != "CRITICAL_MUTATION" or verification is None:
        return
    if all(isinstance(each, str) for each in verification.get("sources", ())):
        yield Finding(
            "ONE_SOURCE",
            "/verification/sources",
            "A critical mutation is read in one system only, so no action of it can end without a person.",
            "Name a second source with pattern, system, lookup and predicates.",
        )


def _depth(document: Mapping[str, Any]) -> Iterator[Finding]:
    asked = depth(document)
    for one in asked.requirements if asked.demanding else ():
        if one.by is By.NOTHING:
            yield Finding(
                "UNCHECKED",
                f"/verification/checks/{one.check}",
                f"Nothing makes the check `{one.check}`, so no action of it can end without a person. {one.note}",
                "Name a predicate that makes it, or say in verification.checks why it does not apply.",
            )


def _openness(schema: Mapping[str, Any]) -> Iterator[Finding]:
    if schema.get("additionalProperties") is not False and schema.get("unevaluatedProperties") is not False:
        yield Finding(
            "OPEN_ARGUMENTS",
            "/arguments_schema",
            "Unknown parameters are let through, so a misspelt one is not noticed.",
            'Set "additionalProperties": false.',
        )


def _parameter(name: str, part: Any) -> Iterator[Finding]:
    if not isinstance(part, dict):
        return
    path = "/arguments_schema/properties/" + name.replace("~", "~0").replace("/", "~1")
    lowered = name.lower()
    looks_bounded = lowered in _CHOICES or lowered.rpartition("_")[2] in _CHOICES
    if looks_bounded and part.get("type") == "string" and not _BOUNDS & part.keys():
        yield Finding(
            "OPEN_CHOICE",
            path,
            f"`{name}` looks like a choice, but takes any text.",
            "List the admissible values in an enum.",
        )
    if part.get("type") == "number":
        yield Finding(
            "FRACTIONAL_ARGUMENT",
            path,
            f"`{name}` is a number, but a payload holds no fractions.",
            "Use an integer of the smallest unit, or a string.",
        )
