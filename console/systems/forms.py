"""The form in which a system is registered, or changed: the settings of its pattern as fields. Bounded here, decided
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django import forms

from console.systems.context import description_of
from console.verbs.form import BodyForm
from console.web import labels
from console.web.schema_form import input_text, input_value, label_of, schema_field
from ledger.record.rules.canonical import NotCanonical, read
from ledger.record.rules.refusals import Refused
from reviews.checks import catalogue
from reviews.checks.settings import settings_schema

_KINDS: Final = {"string": "text", "integer": "integer", "boolean": "boolean"}
_JSON: Final = "settings"


def pattern_title(pattern: str) -> str:
    """The name of a pattern in words; a description with faults has none of its own."""
    described = description_of(pattern)
    return labels.sentence_case(pattern) if described is None else described.title


class PatternField(forms.ChoiceField):
    """One of the patterns whose checks are installed."""

    def __init__(self) -> None:
        super().__init__(
            label="Pattern: how it is read back",
            choices=lambda: [(name, pattern_title(name)) for name in catalogue.pattern_names()],
        )


class SettingsField(forms.CharField):
    """The settings of a system as a JSON object; none are an empty one."""

    def __init__(self) -> None:
        super().__init__(
            required=False,
            max_length=20_000,
            label="Settings as JSON",
            widget=forms.Textarea(attrs={"rows": 6, "class": "mono", "spellcheck": "false"}),
        )

    def clean(self, value: Any) -> Any:
        text = super().clean(value).strip()
        try:
            settings = read(text) if text else {}
        except Refused as fault:
            raise forms.ValidationError(fault.detail) from fault
        if not isinstance(settings, dict):
            raise forms.ValidationError('The settings must be a JSON object, such as {"root": "/srv/documents"}.')
        return settings


@dataclass(frozen=True)
class SettingGroup:
    """Fields that stand together, under what they are about; a folded group is open where it holds something."""

    title: str
    hint: str
    fields: list[forms.BoundField]
    is_open: bool


class SystemForm(BodyForm):
    """The form of a registration, with a field for each setting that the schema of its pattern names.

    The name of a field is the path of its setting, by which refusals find it. A setting stands in its field or in the
    JSON.
    """

    def __init__(self, data: Any = None, *, initial: Mapping[str, Any] | None = None, **options: Any) -> None:
        given = dict(initial or {})
        held: dict[str, Any] = dict(given.pop(_JSON, {}))
        super().__init__(data, initial=given, **options)
        self.chosen = str(self["pattern"].value() or catalogue.pattern_names()[0])
        self._kinds: dict[str, str] = {}
        self._groups: list[tuple[str, str, list[str]]] = [("", "", []), ("More settings", "", [])]
        schema = _schema_of(self.chosen)
        self.wanted = frozenset(f"{_JSON}/{name}" for name in schema["required"])
        for name, described in schema["properties"].items():
            if described.get("type") == "object" and "properties" in described:
                held_here = dict(held.pop(name, {}))
                named = [
                    self._add(f"{_JSON}/{name}/{each}", each, part, held_here)
                    for each, part in described["properties"].items()
                ]
                self._groups.append((described.get("title", name), described.get("description", ""), named))
                held |= {name: held_here} if held_here else {}
            else:
                self._groups[int("is_rare" in described)][2].append(self._add(f"{_JSON}/{name}", name, described, held))
        self.initial[_JSON] = input_text("json", held) if held else ""

    def _add(self, path: str, name: str, described: Mapping[str, Any], held: dict[str, Any]) -> str:
        kind, default = _kind(described), described.get("default")
        left_out = "Not set" if default is None else f"Not set: {input_text('boolean', default)}"
        field = schema_field(kind, described, described.get("title", label_of(name)), left_out=left_out)
        if default is not None and kind in ("text", "integer"):
            field.widget.attrs["placeholder"] = str(default)
        self.fields[path], self._kinds[path] = field, kind
        if name in held:
            self.initial[path] = input_text(kind, held.pop(name))
        return path

    @property
    def groups(self) -> list[SettingGroup]:
        """The fields of the settings; what most systems do not need is folded."""
        found = []
        for title, hint, names in self._groups:
            fields = [self[name] for name in names]
            says = any(each.errors or each.value() for each in fields)
            found += [SettingGroup(title, hint, fields, not title or says)] if fields else []
        return found

    def clean(self) -> dict[str, Any]:
        """Put the entered settings together, as the body has them."""
        settings = self.cleaned_data.get(_JSON) or {}
        for path, kind in self._kinds.items():
            text = self.cleaned_data.get(path, "").strip()
            if not text:
                continue
            *groups, name = path.split("/")[1:]
            part = settings.setdefault(groups[0], {}) if groups else settings
            if not isinstance(part, dict) or name in part:
                self.add_error(path, "This also stands in the settings as JSON. Leave one of them out.")
                continue
            try:
                part[name] = input_value(kind, text)
            except NotCanonical as fault:
                self.add_error(path, fault.detail)
            except ValueError as fault:
                self.add_error(path, str(fault))
        self.cleaned_data[_JSON] = settings
        return super().clean()

    def _field_of(self, member: object) -> str | None:
        """The field of a setting, or of what holds it."""
        path = str(member)
        while path not in self.fields and "/" in path:
            path = path.rpartition("/")[0]
        return path if path in self.fields else super()._field_of(member)


def _schema_of(pattern: str) -> Mapping[str, Any]:
    """The schema of a pattern's settings; of a pattern that is not there, or cannot be loaded, one without members."""
    try:
        return settings_schema(pattern)
    except Refused:
        return {"properties": {}, "required": []}


def _kind(described: Mapping[str, Any]) -> str:
    """The kind of input for a setting."""
    if "enum" in described:
        return "choice"
    wanted = described.get("type", "")
    if wanted == "array":
        return "names" if described["items"].get("type") == "string" else "json"
    return _KINDS.get(wanted, "json")
