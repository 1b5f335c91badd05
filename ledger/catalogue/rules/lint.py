"""Lint of contract documents: finds, before the first call, what could make a model misuse a tool.

Findings warn, they do not refuse: what cannot stand at all (a target that no required argument names, a pivot without
approval, idempotent recovery or verification) is a fault of `contract_faults`. Each finding names what to do about it.

| code | rule |
|---|---|
| VAGUE_NAME | a tool name says what it does to what (R-MC-17) |
| NO_USE_WHEN, NO_NOT_FOR | the description says when to use the tool and when not (R-MC-18) |
| OPEN_CHOICE | a parameter that looks like a choice lists its values (R-MC-19) |
| UNBOUNDED_TEXT, UNBOUNDED_NUMBER, UNBOUNDED_LIST | any other parameter says how much it takes (R-MC-19) |
| OPEN_ARGUMENTS | unknown parameters are refused, nested ones too, else a renamed one passes unseen (R-MC-03) |
| FRACTIONAL_MONEY, FRACTIONAL_ARGUMENT | payloads hold no fractions: a `number` only ever takes integers |
| NO_OBJECT | claim words say of what they are said: `deleted` alone is said of anything |
| NO_CLAIMS | a tool that changes something names the words in which an agent would claim that it did (R-CG-02) |
| NOTHING_COMPARED | the answer of a tool that changes something shows what was asked, or `answers` says where |
| ONE_SOURCE | a CRITICAL_MUTATION names a further source, or each of its actions ends with a person (R-RC-13) |
| UNREGISTERED_SYSTEM | the systems that it is read in are registered (`find_unregistered`; needs to know which are) |
| UNCHECKED | a check that the class demands is made, or said not to apply (R-VD-07, `depth`) |

Parameters are looked at wherever the schema declares them: in nested objects, lists, branches and `$defs`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.catalogue.rules.depth import CheckEvidence, verification_depth
from ledger.catalogue.rules.money import MONEY
from ledger.catalogue.rules.value_comparison import fold_text

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
_BETWEEN = re.compile(r"[_.-]|(?<=[a-z])(?=[A-Z])")
_LIMITS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})


@dataclass(frozen=True)
class LintFinding:
    """One weakness of a document: where it is, what it is, and the fix."""

    code: str
    path: str
    detail: str
    fix: str

    @property
    def told(self) -> str:
        """The finding and its fix, as text."""
        return f"{self.detail} {self.fix}"


def lint(document: Mapping[str, Any]) -> tuple[LintFinding, ...]:
    """The findings of a document that has the shape of a contract, in a fixed order."""
    found = [*_name(document["name"]), *_description(document["description"])]
    found.extend(_claims(document))
    found.extend(_answers(document))
    found.extend(_sources(document))
    found.extend(_depth(document))
    found.extend(_schema(document["arguments_schema"], "/arguments_schema", ""))
    return tuple(found)


def find_unregistered(named: Iterable[tuple[str, str]], registered: Collection[str]) -> tuple[LintFinding, ...]:
    """A finding for each system that a contract names, as (path, name), and that is not registered.

    Only a warning: contracts and systems are registered in any order. Until the system is there, no reading of the
    contract can be made, and every action of it ends with a person.
    """
    return tuple(
        LintFinding(
            "UNREGISTERED_SYSTEM",
            path,
            f"No system `{name}` is registered, so nothing that this tool does can be read back.",
            "Register the system under this name, or name one that is registered.",
        )
        for path, name in named
        if name not in registered
    )


def _name(name: str) -> Iterator[LintFinding]:
    words = [word for word in _BETWEEN.split(name) if word]
    if len(words) < 2 or words[0].lower() in _VAGUE_VERBS:
        yield LintFinding(
            "VAGUE_NAME",
            "/name",
            f"`{name}` does not say what is done to what.",
            "Name it verb_object with a verb that says the effect, like issue_refund.",
        )


def _description(text: str) -> Iterator[LintFinding]:
    lowered = text.lower()
    if "use when" not in lowered:
        yield LintFinding(
            "NO_USE_WHEN",
            "/description",
            "The description does not say when to use the tool.",
            "Add a sentence that begins with `Use when:`.",
        )
    if "not for" not in lowered:
        yield LintFinding(
            "NO_NOT_FOR",
            "/description",
            "The description does not say what the tool is not for.",
            "Add a sentence that begins with `NOT for:` and names the tool to use instead.",
        )


def _sources(document: Mapping[str, Any]) -> Iterator[LintFinding]:
    verification = document.get("verification")
    if document["side_effect_class"] != "CRITICAL_MUTATION" or verification is None:
        return
    if all(isinstance(each, str) for each in verification.get("sources", ())):
        yield LintFinding(
            "ONE_SOURCE",
            "/verification/sources",
            "A critical mutation is read in one system only, so no action of it can end without a person.",
            "Name a second source with pattern, system, lookup and predicates.",
        )


def _depth(document: Mapping[str, Any]) -> Iterator[LintFinding]:
    asked = verification_depth(document)
    for one in asked.requirements if asked.demanding else ():
        if one.by is CheckEvidence.NOTHING:
            yield LintFinding(
                "UNCHECKED",
                f"/verification/checks/{one.check}",
                f"Nothing makes the check `{one.check}`, so no action of it can end without a person. {one.note}",
                "Name a predicate that makes it, or say in verification.checks why it does not apply.",
            )


def _claims(document: Mapping[str, Any]) -> Iterator[LintFinding]:
    if document["side_effect_class"] != "READ_ONLY" and not document.get("claims", {}).get("done"):
        yield LintFinding(
            "NO_CLAIMS",
            "/claims/done",
            "The contract does not say in which words an agent would claim that it is done.",
            "List them in claims.done, like `refunded`, so that a false claim is recognised.",
        )
    elif document.get("claims", {}).get("done") and not document["claims"].get("object"):
        yield LintFinding(
            "NO_OBJECT",
            "/claims/object",
            "The contract does not say which words name what the tool acts on, so `done` counts only beside a target.",
            "List them in claims.object, like `refund` and `charge`.",
        )


def _answers(document: Mapping[str, Any]) -> Iterator[LintFinding]:
    """Report an answer schema that shows none of the arguments, by name or by declaration."""
    described = document.get("result_schema", {}).get("properties")
    if document["side_effect_class"] == "READ_ONLY" or not isinstance(described, dict) or document.get("answers"):
        return
    inner = (part.get("properties") for part in described.values() if isinstance(part, dict))
    named = {*described, *(name for part in inner if isinstance(part, dict) for name in part)}
    asked = document["arguments_schema"].get("properties", {})
    if asked and not {fold_text(name) for name in asked} & {fold_text(name) for name in named}:
        yield LintFinding(
            "NOTHING_COMPARED",
            "/answers",
            "The answer shows no argument by its name, so what was done is never compared with what was asked.",
            'Say in answers where the answer shows each argument, like {"amount": "refund.total"}.',
        )


def _schema(part: Any, path: str, name: str) -> Iterator[LintFinding]:
    """Lint one place of the schema, then everything below it."""
    if not isinstance(part, dict):
        return
    yield from _openness(part, path)
    if name:
        yield from _parameter(name, part, path)
    for step, below, called in _subschemas(part, name):
        yield from _schema(below, path + step, called)


def _subschemas(part: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any, str]]:
    """(path step, schema, name of the parameter) of everything that a schema holds."""
    for keyword in ("properties", "$defs"):
        declared = part.get(keyword)
        for called, below in sorted(declared.items()) if isinstance(declared, dict) else ():
            yield f"/{keyword}/" + called.replace("~", "~0").replace("/", "~1"), below, called
    if isinstance(part.get("items"), dict):
        yield "/items", part["items"], name
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        branches = part.get(keyword)
        for place, below in enumerate(branches if isinstance(branches, list) else ()):
            yield f"/{keyword}/{place}", below, name


def _openness(part: Mapping[str, Any], path: str) -> Iterator[LintFinding]:
    if "object" not in _types(part):
        return
    if part.get("additionalProperties") is not False and part.get("unevaluatedProperties") is not False:
        yield LintFinding(
            "OPEN_ARGUMENTS",
            path,
            "Unknown parameters are let through, so a misspelt one is not noticed.",
            'Set "additionalProperties": false.',
        )


def _parameter(name: str, part: Mapping[str, Any], path: str) -> Iterator[LintFinding]:
    types = _types(part)
    if "string" in types and not _BOUNDS & part.keys():
        yield from _text(name, part, path)
    if "number" in types and not {"enum", "const"} & part.keys():
        yield _fraction(name, path)
    elif "integer" in types and not {"enum", "const"} & part.keys():
        yield from _number(name, part, path)
    if "array" in types and "maxItems" not in part:
        yield LintFinding(
            "UNBOUNDED_LIST",
            path,
            f"`{name}` takes a list of any length.",
            "Say in maxItems how many one call may name.",
        )


def _text(name: str, part: Mapping[str, Any], path: str) -> Iterator[LintFinding]:
    if _last_word(name) in _CHOICES or name.lower() in _CHOICES:
        yield LintFinding(
            "OPEN_CHOICE",
            path,
            f"`{name}` looks like a choice, but takes any text.",
            "List the admissible values in an enum.",
        )
    elif "maxLength" not in part:
        yield LintFinding(
            "UNBOUNDED_TEXT",
            path,
            f"`{name}` takes text of any length and form.",
            "Give it a pattern, a format or a maxLength.",
        )


def _fraction(name: str, path: str) -> LintFinding:
    if _last_word(name) in MONEY:
        return LintFinding(
            "FRACTIONAL_MONEY",
            path,
            f"`{name}` is money as a number with fractions, which no two systems round alike.",
            "Use an integer of minor units (1250 for 12.50), or a string with a pattern.",
        )
    return LintFinding(
        "FRACTIONAL_ARGUMENT",
        path,
        f"`{name}` is a number, but a payload holds no fractions.",
        "Use an integer of the smallest unit, or a string.",
    )


def _number(name: str, part: Mapping[str, Any], path: str) -> Iterator[LintFinding]:
    most = {"maximum", "exclusiveMaximum"} & part.keys()
    if _last_word(name) in MONEY and not most:
        detail = f"`{name}` is money without an upper limit."
        yield LintFinding("UNBOUNDED_NUMBER", path, detail, "Say in maximum how much one call may move at most.")
    elif not _LIMITS & part.keys():
        detail = f"`{name}` takes any number."
        yield LintFinding("UNBOUNDED_NUMBER", path, detail, "Give it a minimum and a maximum.")


def _types(part: Mapping[str, Any]) -> frozenset[str]:
    kind = part.get("type", ())
    return frozenset([kind] if isinstance(kind, str) else kind)


def _last_word(name: str) -> str:
    """The last word of a parameter's name, which says what it is."""
    words = [word for word in _BETWEEN.split(name) if word]
    return words[-1].lower() if words else ""
