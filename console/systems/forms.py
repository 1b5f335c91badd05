"""Fields of the form in which a system is registered. Bounded here, decided elsewhere."""

from __future__ import annotations

from typing import Any

from django import forms

from console.web import labels
from ledger.record.rules.canonical import read
from ledger.record.rules.refusals import Refused
from reviews.checks import catalogue


class PatternField(forms.ChoiceField):
    """One of the patterns whose checks are installed."""

    def __init__(self) -> None:
        super().__init__(
            label="Pattern: how it is read back",
            choices=lambda: [(name, labels.sentence_case(name)) for name in catalogue.pattern_names()],
        )


class SettingsField(forms.CharField):
    """The settings of a system as a JSON object; none are an empty one."""

    def __init__(self) -> None:
        super().__init__(
            required=False,
            max_length=20_000,
            label="Settings (JSON), without any secret",
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
