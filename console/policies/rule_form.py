"""An entry of a policy as a form: a rule of an approval policy, or what lies outside an autonomy policy.

Its conditions are picked. The document is the only state: an entry is read from it, and written into it. What the form
does not show of an entry stays as it is in the document, except what only a rule that requires approval may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

from django import forms

from approvals.policy.rules.policy_document import ONLY_OF_HOLDS
from console.policies.conditions import (
    COMPARISONS,
    FIELDS,
    Comparison,
    condition_sentence,
    read_comparisons,
    type_of,
    write_condition,
)
from console.web import labels
from ledger.catalogue import queries as catalogue
from ledger.catalogue.rules import contract as contracts

MOST_PICKED: Final = 3
"""Comparisons that one rule can be given by picking; further ones are an expression."""
OUTCOMES: Final = {
    "hold": "approval is required",
    "refuse": "the call is refused",
    "auto": "later rules that require approval do not apply",
}


def argument_types(tenant_id: UUID) -> dict[str, str]:
    """The JSON type of each argument of the tools in force, as `args.name`; empty where two tools differ."""
    found: dict[str, str] = {}
    for row in catalogue.newest_contracts(tenant_id, catalogue.tool_names(tenant_id)).values():
        schema = contracts.read(bytes(row.document)).get("arguments_schema", {})
        for name, each in schema.get("properties", {}).items():
            kind = each.get("type", "") if isinstance(each, Mapping) else ""
            kind = kind if isinstance(kind, str) else ""
            if name.isidentifier() and name.isascii():
                path = f"args.{name}"
                found[path] = kind if found.setdefault(path, kind) == kind else ""
    return found


class EntryForm(forms.Form):
    """One entry of a list in a policy: its name and its conditions."""

    list_name: ClassVar[str]
    """The member of the document that holds the list."""
    rest_names: ClassVar[tuple[str, ...]]

    place = forms.IntegerField(required=False, min_value=0, max_value=199, widget=forms.HiddenInput())
    name = forms.RegexField(
        r"^[0-9A-Za-z][0-9A-Za-z ._-]{0,39}$",
        label="Name of the rule",
        error_messages={"invalid": "At most 40 letters, digits, spaces, dots, dashes and underscores."},
    )
    other = forms.CharField(
        required=False, max_length=2000, label="And this expression holds (CEL, optional)", strip=True
    )
    prefix = "rule"

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        arguments: Mapping[str, str],
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        # It stands folded in the form of the draft: a browser would refuse to send that without naming this field.
        super().__init__(data, initial=dict(initial or {}), use_required_attribute=False)
        self.arguments = arguments
        told = [(name, f"{words} ({name})") for name, words in FIELDS.items()]
        told += [(name, f"the argument {name.removeprefix('args.')}") for name in sorted(arguments)]
        for number in range(MOST_PICKED):
            first = "every call" if number == 0 else "no further condition"
            self.fields[f"field{number}"] = forms.ChoiceField(
                required=False, label="If" if number == 0 else "And", choices=[("", first), *told]
            )
            self.fields[f"comparison{number}"] = forms.ChoiceField(
                required=False, label="Comparison", choices=list(COMPARISONS.items())
            )
            self.fields[f"value{number}"] = forms.CharField(required=False, max_length=200, label="Value")

    @property
    def conditions(self) -> list[tuple[forms.BoundField, ...]]:
        """The three fields of each condition."""
        names = ("field", "comparison", "value")
        return [tuple(self[f"{name}{number}"] for name in names) for number in range(MOST_PICKED)]

    @property
    def rest(self) -> list[forms.BoundField]:
        """The other fields, in order."""
        return [self[name] for name in self.rest_names]

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or self.cleaned_data
        self.comparisons = tuple(self._read_comparisons(fields))
        return fields

    def _read_comparisons(self, fields: Mapping[str, Any]) -> Iterator[Comparison]:
        for number in range(MOST_PICKED):
            name, typed = fields.get(f"field{number}"), fields.get(f"value{number}", "")
            if not name:
                continue
            value, fault = _read_value(type_of(name, self.arguments), typed)
            comparison = fields.get(f"comparison{number}") or "=="
            if not fault and isinstance(value, bool) and comparison not in ("==", "!="):
                fault = "A yes or no can only be compared by “is” and “is not”."
            if not fault and comparison == "startsWith" and not isinstance(value, str):
                fault = "Only text begins with something."
            if fault:
                self.add_error(f"value{number}", fault)
            else:
                yield Comparison(name, comparison, value)

    def write_into(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The document with this entry in its place, or at the end if it has none."""
        entries, place = list(document.get(self.list_name, [])), self.cleaned_data["place"]
        place = place if place is not None and place < len(entries) else len(entries)
        entry = (dict(entries[place]) if place < len(entries) else {}) | {"name": self.cleaned_data["name"]}
        _put(entry, "when", write_condition(self.comparisons, self.cleaned_data["other"]))
        return {**document, self.list_name: [*entries[:place], self._complete(entry), *entries[place + 1 :]]}

    def _complete(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The entry with what else was entered."""
        raise NotImplementedError


class RuleForm(EntryForm):
    """One rule of an approval policy, with its outcome."""

    list_name = "rules"
    rest_names = ("other", "outcome", "reason", "group", "count", "step_up")
    outcome = forms.ChoiceField(label="Then", choices=list(OUTCOMES.items()))
    reason = forms.CharField(required=False, max_length=300, label="If refused: the reason that the agent reads")
    group = forms.CharField(required=False, max_length=64, label="If approval is required: from the group")
    count = forms.IntegerField(required=False, min_value=1, max_value=20, label="Number of approvals")
    step_up = forms.ChoiceField(
        required=False,
        label="Votes are signed by",
        choices=[("", "as the policy says"), *((level, labels.SIGNATURES[level]) for level in "ABC")],
    )

    def clean(self) -> dict[str, Any]:
        fields = super().clean()
        if fields.get("outcome") == "hold" and bool(fields.get("group")) != bool(fields.get("count")):
            self.add_error("count" if fields.get("group") else "group", "A group needs a number, and a number a group.")
        return fields

    def _complete(self, entry: dict[str, Any]) -> dict[str, Any]:
        fields = self.cleaned_data
        entry["outcome"] = fields["outcome"]
        _put(entry, "reason", fields["reason"] if fields["outcome"] == "refuse" else "")
        if fields["outcome"] != "hold":
            return {name: value for name, value in entry.items() if name not in ONLY_OF_HOLDS}
        _put(entry, "step_up", fields["step_up"])
        _put(entry, "thresholds", _thresholds(entry.get("thresholds", []), fields["group"], fields["count"]))
        return entry


class BoundaryForm(EntryForm):
    """One entry of what an agent may not propose under an autonomy policy.

    The agents, tools and classes to which an entry in the document is limited stay as they are there.
    """

    list_name = "outside"
    rest_names = ("other", "reason")
    reason = forms.CharField(required=False, max_length=300, label="The reason that the agent reads")

    def clean(self) -> dict[str, Any]:
        fields = super().clean()
        if not self.errors and not self.comparisons and not fields.get("other") and fields.get("place") is None:
            self.add_error("field0", "Pick at least one condition: without any, every call lies outside.")
        return fields

    def _complete(self, entry: dict[str, Any]) -> dict[str, Any]:
        _put(entry, "reason", self.cleaned_data["reason"])
        return entry


FORMS: Final[Mapping[str, type[EntryForm]]] = {"approval": RuleForm, "autonomy": BoundaryForm}
"""The kinds of policy whose entries can be picked."""


def read_entry(kind: str, document: Mapping[str, Any], place: int, *, arguments: Mapping[str, str]) -> EntryForm:
    """The form of the entry at this place of the document."""
    form = FORMS[kind]
    entry = document[form.list_name][place]
    shown: dict[str, Any] = {"place": place} | {name: entry.get(name, "") for name in ("name", "reason", "step_up")}
    shown["outcome"] = entry.get("outcome", "hold")
    first = (entry.get("thresholds") or [{}])[0]
    shown |= {"group": first.get("group", ""), "count": first.get("count")}
    comparisons = read_comparisons(entry["when"]) if "when" in entry else ()
    known = {*FIELDS, *arguments}
    if comparisons is None or len(comparisons) > MOST_PICKED or any(each.field not in known for each in comparisons):
        shown["other"] = entry["when"]
        comparisons = ()
    for number, each in enumerate(comparisons):
        value = str(each.value).lower() if isinstance(each.value, bool) else each.value
        shown |= {f"field{number}": each.field, f"comparison{number}": each.comparison, f"value{number}": value}
    return form(initial=shown, arguments=arguments)


def change_entries(kind: str, document: Mapping[str, Any], step: str, place: int) -> dict[str, Any]:
    """The document without the entry at this place (`remove`), or with it one place earlier (`earlier`)."""
    list_name = FORMS[kind].list_name
    entries = list(document[list_name])
    entry = entries.pop(place)
    if step == "earlier":
        entries.insert(max(place - 1, 0), entry)
    return {**document, list_name: entries}


def entry_lines(kind: str, document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each entry of a document with its name, its condition in words and what follows; nothing of what is no entry."""
    entries = document.get(FORMS[kind].list_name, [])
    return [
        {"name": str(entry.get("name", "")), "when": _condition_of(entry), "outcome": _outcome_of(kind, entry)}
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, Mapping)
    ]


def _condition_of(entry: Mapping[str, Any]) -> str:
    scope = [
        f"{word} {', '.join(map(str, entry[name]))}"
        for name, word in (("agents", "by"), ("tools", "of"), ("classes", "of class"))
        if isinstance(entry.get(name), list)
    ]
    said = " ".join(["for calls", *scope]) if scope else "for every call"
    when = f"if {condition_sentence(entry['when'])}" if isinstance(entry.get("when"), str) else ""
    return when if when and not scope else f"{said} {when}".strip()


def _outcome_of(kind: str, entry: Mapping[str, Any]) -> str:
    if kind == "autonomy":
        return OUTCOMES["refuse"]
    return OUTCOMES.get(entry.get("outcome", ""), "no outcome that is known")


def _thresholds(before: list[Any], group: str, count: int | None) -> list[Any]:
    """The thresholds with the first one as entered, which is gone if it was emptied."""
    if not group:
        return before[1:]
    first = before[0] if before and before[0].get("group") == group else {}
    return [{**first, "group": group, "count": count}, *before[1:]]


def _put(rule: dict[str, Any], name: str, value: Any) -> None:
    if value:
        rule[name] = value
    else:
        rule.pop(name, None)


def _read_value(kind: str, typed: str) -> tuple[str | int | bool, str]:
    """Return the typed value in the type of its field, and what is wrong with it."""
    if kind == "boolean":
        said = typed.strip().casefold()
        fault = "" if said in ("true", "false", "yes", "no") else "Enter true or false."
        return said in ("true", "yes"), fault
    number = typed.strip().replace(",", "")
    is_whole = number.removeprefix("-").isdecimal() and number.isascii() and len(number) < 16
    if kind == "integer":
        return (int(number), "") if is_whole else (0, "Enter a whole number.")
    if kind in ("", "number") and is_whole:
        return int(number), ""
    if kind == "number":
        return 0, "Enter a whole number; for fractions use the expression."
    return typed, "" if typed else "Enter a value."
