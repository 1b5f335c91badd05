"""Inputs of a form from a JSON Schema: the kind of input in which a value is edited, its field, and its value.

A kind is `text`, `lines`, `integer`, `boolean`, `choice`, `names` (a list of texts, one on each line) or `json`, in
which everything else is edited.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django import forms

from approvals.requests.rules.rendering import mark_hidden
from console.web.forms import PlainSelect
from ledger.record.rules.canonical import read

_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")
_YES_OR_NO: Final = {"true": True, "false": False}


def schema_field(kind: str, described: Any, label: str, *, left_out: str | None = "Left out") -> forms.Field:
    """The field of a value: its hint is the description of its schema, and the limits in words.

    `left_out` is the choice that leaves it out, None where it may not be.
    """
    described = described if isinstance(described, Mapping) else {}
    said = " ".join(each for each in (str(described.get("description", "")), *_limits(described)) if each)
    common: dict[str, Any] = {"required": False, "label": mark_hidden(label)[0] or "(no name)", "help_text": said}
    if kind in ("choice", "boolean"):
        offered = [(each, each) for each in described.get("enum", ())]
        offered = offered if kind == "choice" else [("true", "Yes"), ("false", "No")]
        choices = [*([] if left_out is None else [("", left_out)]), *offered]
        return forms.ChoiceField(choices=choices, widget=PlainSelect, **common)
    attributes = {"autocomplete": "off", "spellcheck": "false"}
    if kind in ("lines", "names", "json"):
        rows = {"rows": 4 if kind == "json" else 3} | ({"class": "mono"} if kind == "json" else {})
        return forms.CharField(strip=False, widget=forms.Textarea(attrs=attributes | rows), **common)
    more = {"inputmode": "numeric"} if kind == "integer" else {}
    return forms.CharField(strip=False, widget=forms.TextInput(attrs=attributes | more), **common)


def label_of(name: str) -> str:
    """A member's name as a label."""
    return name.replace("_", " ").strip().capitalize() if name.isascii() else name


def input_text(kind: str, value: Any) -> str:
    """The text of a value in its input."""
    if kind == "json":
        return json.dumps(value, indent=2)
    if kind == "names":
        return "\n".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def input_value(kind: str, text: str) -> Any:
    """The value that was entered; raise `ValueError` or `NotCanonical` with what is wrong with it."""
    if kind == "json":
        return read(text)
    if kind == "boolean":
        return _YES_OR_NO[text]
    if kind == "names":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if kind == "integer":
        if not _INTEGER.fullmatch(text.strip()):
            raise ValueError("Enter a whole number.")
        return int(text)
    # A form sends each line break as two characters.
    return text.replace("\r\n", "\n")


def _limits(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield the schema's limits on a value, in words; whoever takes the value checks all of them."""
    least, most = described.get("minimum"), described.get("maximum")
    bounds = [f"{word} {each}" for word, each in (("at least", least), ("at most", most)) if each is not None]
    if bounds:
        yield f"{', '.join(bounds).capitalize()}."
    if "pattern" in described:
        yield f"Form: {described['pattern']}"
