"""The form in which a reviewer edits the arguments of a call, built from the schema of its contract.

1. A text, a whole number, a yes or no, and a choice among texts have an input of their own.
2. Everything else is edited as JSON: parts within parts, an argument that the schema does not name or whose value does
   not fit it, and a text with characters that nobody sees, which stand there as escapes.
3. What nobody touched is read back as it was: an input that could not carry a value exactly is never offered for it.
4. The name of each input says in what it was edited, so that an answer is read as its form was made.
5. An empty input leaves its argument out, but for a required text, which is then empty; the gate says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from django import forms

from approvals.requests.rules.rendering import mark_hidden
from console.web.schema_form import input_text, input_value, label_of, schema_field
from ledger.record.rules.canonical import NotCanonical

_PREFIX: Final = "argument:"
_KINDS: Final = ("text", "lines", "integer", "boolean", "choice", "json")
_ONE_LINE: Final = 100
_UNSEEN: Final = frozenset({"BIDI", "CONTROL", "HIDDEN"})


class ArgumentForm(forms.Form):
    """One field for each argument; `arguments` is the result once the form is valid."""

    def __init__(self, schema: Mapping[str, Any], *, values: Mapping[str, Any] | None = None, data: Any = None) -> None:
        super().__init__(data)
        known: Mapping[str, Any] = schema.get("properties", {})
        self._required = frozenset(schema.get("required", ()))
        self._arguments: dict[str, tuple[str, str]] = {}
        self.arguments: dict[str, Any] = {}
        for name, kind, given in _posted_inputs(data) if data is not None else _first_shown(known, values or {}):
            key = f"{_PREFIX}{kind}:{quote(name, safe='')}"
            required = name in self._required
            self._arguments[key] = (name, kind)
            left_out = None if required and given else "Left out"
            self.fields[key] = schema_field(kind, known.get(name, {}), label_of(name), left_out=left_out)
            self.initial[key] = input_text(kind, (values or {})[name]) if values and name in values else ""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each argument with its description in the schema, for the page."""
        for key, (name, kind) in self._arguments.items():
            field = self.fields[key]
            yield {
                "input": self[key],
                "name": name,
                "path": f"/{name.replace('~', '~0').replace('/', '~1')}",
                "kind": kind,
                "required": name in self._required,
                "help": field.help_text,
            }

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        for key, (name, kind) in self._arguments.items():
            text = cleaned.get(key, "")
            if not text and not (kind in ("text", "lines") and name in self._required):
                continue
            try:
                self.arguments[name] = input_value(kind, text)
            except NotCanonical as fault:
                self.add_error(key, fault.detail)
            except ValueError as fault:
                self.add_error(key, str(fault))
        return cleaned


def _first_shown(known: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Every argument in the schema or the call, its kind of input, and whether the call has it."""
    for name in dict.fromkeys((*known, *values)):
        yield name, _kind(known.get(name), values.get(name), given=name in values), name in values


def _posted_inputs(data: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Parse the posted form; each input's name gives the kind of input in which the argument was edited."""
    for key in data:
        kind, _, name = key.removeprefix(_PREFIX).partition(":")
        if key.startswith(_PREFIX) and kind in _KINDS:
            yield unquote(name), kind, True


def _kind(described: object, value: Any, *, given: bool) -> str:
    """The plainest kind of input that reproduces the argument's value exactly."""
    if not isinstance(described, Mapping) or (given and value is None):
        return "json"
    choices, wanted = described.get("enum"), described.get("type")
    if choices is not None:
        texts = isinstance(choices, list) and all(_is_plain(each) and each for each in choices)
        return "choice" if texts and (not given or value in choices) else "json"
    if wanted == "string" and (not given or (value and _is_plain(value))):
        return "lines" if given and (len(value) > _ONE_LINE or "\n" in value) else "text"
    if wanted in ("integer", "number") and (not given or type(value) is int):
        return "integer"
    return "boolean" if wanted == "boolean" and (not given or isinstance(value, bool)) else "json"


def _is_plain(value: Any) -> bool:
    """Return True if an input reproduces a text exactly, without invisible characters."""
    # A browser keeps no lone carriage return, and drops a line break that a text begins with.
    return isinstance(value, str) and not _UNSEEN & set(mark_hidden(value)[1]) and not value.startswith("\n")
