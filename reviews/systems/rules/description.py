"""A description of a system: where its objects are asked for, where their values stand, what their states mean.

`description.schema.json` is the published shape. Beyond it a description

1. names states once, indicators that recovery knows, each of a class that fits its occasion, and a time by which
   something can be late;
2. uses in a path only parameters that somebody gives: the lookup, or the system's settings.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Final

from jsonschema_rs import Draft202012Validator

from ledger.record.rules.refusals import Refused
from reviews.reconciliation.rules.discrepancies import INDICATORS, Discrepancy

SCHEMA: Final[dict[str, Any]] = json.loads(
    files("reviews.systems.rules").joinpath("description.schema.json").read_bytes()
)
_VALIDATOR: Final = Draft202012Validator(SCHEMA)
_PARAMETER: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_D: Final = Discrepancy
_CLASSES: Final[Mapping[str, frozenset[Discrepancy]]] = {
    "duplicate": frozenset({_D.DUPLICATE_SIDE_EFFECT}),
    "differs": frozenset({_D.VALUE_MISMATCH, _D.PARTIAL_APPLICATION, _D.WRONG_TARGET_MODIFIED}),
    "failed": frozenset({_D.NO_OP_FAILURE}),
    "undone": frozenset({_D.PARTIAL_APPLICATION, _D.VALUE_MISMATCH}),
    "late": frozenset({_D.UNKNOWN_STATE}),
    "stale": frozenset({_D.STALE_STATE}),
}
_WORDS_ONLY: Final = frozenset({"$schema", "title", "documentation", "address", "cannot_prove", "limits"})


class BadDescription(Refused):
    """The description of a system is not valid."""

    code = "BAD_DESCRIPTION"
    status = 422


@dataclass(frozen=True)
class Description:
    """A valid description."""

    document: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def title(self) -> str:
        return str(self.document["title"])

    @property
    def gets(self) -> Mapping[str, Any]:
        """The requests: `one`, and optionally `list` and `target`."""
        found: Mapping[str, Any] = self.document["gets"]
        return found

    @property
    def fields(self) -> Mapping[str, str]:
        """The JSON Pointer of each field in an object."""
        found: Mapping[str, str] = self.document["fields"]
        return found

    @property
    def indicators(self) -> Mapping[str, str]:
        """The failure indicator of each finding."""
        found: Mapping[str, str] = self.document["indicators"]
        return found

    @cached_property
    def kind_of_state(self) -> Mapping[str, str]:
        """The kind of each known state."""
        return {state: kind for kind, states in self.document["states"].items() for state in states}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all that a reading depends on; words for people are left out."""
        telling = {name: part for name, part in self.document.items() if name not in _WORDS_ONLY}
        return hashlib.sha256(json.dumps(telling, sort_keys=True).encode()).hexdigest()

    def parameters(self, get: str) -> tuple[str, ...]:
        """The parameters that a lookup must give for one of the requests, besides `id`, `since` and the settings."""
        part = self.gets.get(get, {})
        named = _PARAMETER.findall(" ".join((part.get("path", ""), *part.get("query", {}).values())))
        return tuple(dict.fromkeys(name for name in named if name not in {"id", "since", *self.settings}))

    @property
    def settings(self) -> Mapping[str, str]:
        """The parameters that the system's settings give, with their labels."""
        found: Mapping[str, str] = self.document.get("settings", {})
        return found


def parse_description(document: object) -> Description:
    """The description that a document makes; raise `BadDescription` with all its faults."""
    faults = list(description_faults(document))
    if faults:
        raise BadDescription(
            " ".join(detail for _, detail in faults[:3]),
            errors=[{"path": path, "code": "DESCRIPTION", "detail": detail} for path, detail in faults],
        )
    assert isinstance(document, dict)
    return Description(document)


def description_faults(document: object) -> Iterator[tuple[str, str]]:
    """The faults of a description, each with its place as a JSON Pointer."""
    problems = [
        ("".join(f"/{step}" for step in problem.instance_path), problem.message)
        for problem in _VALIDATOR.iter_errors(document)
    ]
    yield from ((path, f"{path or '/'}: {message}") for path, message in problems)
    if not problems and isinstance(document, dict):
        yield from ((path, f"{path}: {detail}") for path, detail in _meaning_faults(Description(document)))


def _meaning_faults(description: Description) -> Iterator[tuple[str, str]]:
    yield from _state_faults(description)
    yield from _indicator_faults(description)
    yield from _request_faults(description)


def _state_faults(description: Description) -> Iterator[tuple[str, str]]:
    listed = [state for each in description.document["states"].values() for state in each]
    for state in sorted({each for each in listed if listed.count(each) > 1}):
        yield "/states", f"`{state}` is listed more than once."


def _indicator_faults(description: Description) -> Iterator[tuple[str, str]]:
    for occasion, indicator in description.indicators.items():
        if INDICATORS.get(indicator) not in _CLASSES[occasion]:
            classes = ", ".join(sorted(_CLASSES[occasion]))
            yield f"/indicators/{occasion}", f"`{indicator}` is no indicator of {classes}."
    if description.document["states"].get("pending") and "late" not in description.indicators:
        yield "/indicators", "`late` is missing: what is pending for too long needs an indicator."
    if "late" in description.indicators and "time" not in description.fields:
        yield "/fields", "`time` is missing: nothing tells since when an object is pending."
    if "stale" in description.indicators and "version" not in description.fields:
        yield "/fields", "`version` is missing: nothing tells that an object has moved on."


def _request_faults(description: Description) -> Iterator[tuple[str, str]]:
    for name in description.settings:
        if not any(f"{{{name}}}" in text for get in description.gets.values() for text in _templates(get)):
            yield f"/settings/{name}", "No request uses it."
    if "{id}" not in description.gets["one"]["path"]:
        yield "/gets/one/path", "It does not name the object by its {id}."
    for get in ("list", "target"):
        if any("{id}" in text for text in _templates(description.gets.get(get, {}))):
            yield f"/gets/{get}", "It names the object by its id, which only `one` knows."
    by_id = {"id_at", "lags"} & description.gets.get("list", {}).keys()
    if by_id and set(description.parameters("one")) - set(description.parameters("list")):
        yield "/gets/list", "Its objects are read by their own GET, whose parameters the list does not have."


def _templates(get: Mapping[str, Any]) -> Iterator[str]:
    yield get.get("path", "")
    yield from get.get("query", {}).values()
