"""The `preview` part of a contract: the fields of its target shown before approval, and what will be lost.

1. `fields` are values of the target in a reading, each with a label: `read` is its path (`target.status`,
   `effects.refund.amount`), `after` what it will be: an argument (`sr.status`) or a text (`gone`).
2. `unit` is a text behind the value, or `minor`: an amount in the minor unit of the currency that the request, or the
   reading beside the value, names.
3. `lost` are sentences on what nobody gets back; `sr.loses` stands for the text of that argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledger.catalogue.rules.report_templates import at_path

_OF_REQUEST: Final = "sr."


def _argument(text: str) -> str:
    """The path of the argument that a text names, empty for any other text."""
    named = text.removeprefix(_OF_REQUEST) if text.startswith(_OF_REQUEST) else ""
    return "" if " " in named else named


@dataclass(frozen=True, slots=True)
class PreviewField:
    """One value of the target: its path, its label, its unit, and its future value."""

    read: tuple[str, ...]
    label: str
    unit: str = ""
    after: str = ""

    @property
    def argument(self) -> str:
        """The argument with the future value; empty if `after` is a text."""
        return _argument(self.after)


@dataclass(frozen=True, slots=True)
class Preview:
    """The displayed fields of the target, in order, and what will be lost."""

    fields: tuple[PreviewField, ...] = ()
    lost: tuple[str, ...] = ()

    def losses(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """The losses of a call with these arguments, each as text; "not known" where the argument is missing."""
        named = [(each, _argument(each)) for each in self.lost]
        told = [at_path(arguments, tuple(argument.split("."))) if argument else each for each, argument in named]
        return tuple("not known" if each is None else str(each) for each in told)


def read_preview(part: Mapping[str, Any]) -> Preview:
    """The `preview` of a document that has the shape of a contract."""
    fields = (
        PreviewField(tuple(each["read"].split(".")), each["label"], each.get("unit", ""), each.get("after", ""))
        for each in part.get("fields", ())
    )
    return Preview(tuple(fields), tuple(part.get("lost", ())))


def preview_faults(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(place, fault) of each field that no reading can show, or that names no argument (rule 1)."""
    preview = read_preview(document.get("preview", {}))
    known = document["arguments_schema"].get("properties", {})
    if preview.fields and not document.get("verification"):
        yield "/preview/fields", "Nothing is read back, so no field of the target can be shown."
    for place, field in enumerate(preview.fields):
        if field.argument and field.argument.split(".")[0] not in known:
            yield f"/preview/fields/{place}/after", _unknown_argument(field.argument, known)
    for place, lost in enumerate(preview.lost):
        if (argument := _argument(lost)) and argument.split(".")[0] not in known:
            yield f"/preview/lost/{place}", _unknown_argument(argument, known)


def _unknown_argument(argument: str, known: Iterable[str]) -> str:
    return f"The tool takes no argument `{argument}` (known: {', '.join(sorted(known)) or 'none'})."
