"""Parse and bound what people type. Nothing here decides or writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms

from console import words

LONGEST_TEXT = 4000


class Vote(forms.Form):
    """One person's answer. The digests say what was on the screen when it was given."""

    verdict = forms.ChoiceField(choices=[("approve", "approve"), ("reject", "reject")])
    payload_hash = forms.RegexField(r"^[0-9a-f]{64}$")
    rendering_digest = forms.RegexField(r"^[0-9a-f]{64}$")
    reason = forms.CharField(
        required=False,
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 3, "aria-describedby": "reason-help"}),
    )
    password = forms.CharField(
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "aria-describedby": "password-help"}),
        error_messages={"required": "Enter your password: it signs your vote."},
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("verdict") == "reject" and not cleaned.get("reason"):
            self.add_error("reason", "Say why you reject it.")
        return cleaned


class Resolution(forms.Form):
    """How a person settles a case. Which resolutions are offered comes from the rules."""

    resolution = forms.ChoiceField(error_messages={"required": "Choose what should happen."})
    reason = forms.CharField(
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 3, "aria-describedby": "reason-help"}),
        error_messages={"required": "Say why."},
    )
    evidence = forms.CharField(
        required=False,
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 2, "aria-describedby": "evidence-help"}),
    )

    def __init__(self, *args: Any, allowed: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["resolution"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(code, code) for code in allowed]


class Remark(forms.Form):
    text = forms.CharField(
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 2, "id": "id_text"}),
        error_messages={"required": "Write something first."},
    )


def _choices(named: Iterable[tuple[str, str]], nothing: str) -> list[tuple[str, str]]:
    return [("", nothing), *named]


class ActionFilter(forms.Form):
    """What the Actions page shows. Everything is optional and lives in the address."""

    q = forms.CharField(
        required=False,
        max_length=200,
        label="Find",
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "Target, id or hash"}),
    )
    state = forms.ChoiceField(
        required=False, choices=_choices(((code, look.word) for code, look in words.STATES.items()), "Any state")
    )
    tool = forms.CharField(required=False, max_length=200)
    agent = forms.CharField(required=False, max_length=200)
    side_effect_class = forms.ChoiceField(
        required=False, label="Class", choices=_choices(words.SIDE_EFFECT_CLASSES.items(), "Any class")
    )
    discrepancy = forms.ChoiceField(
        required=False, choices=_choices(((code, words.sentence(code)) for code in words.DISCREPANCIES), "Any")
    )
    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))


class CaseFilter(forms.Form):
    """Which cases the queue shows."""

    discrepancy = forms.ChoiceField(
        required=False,
        choices=_choices(((code, words.sentence(code)) for code in words.DISCREPANCIES), "Any discrepancy"),
    )
    side_effect_class = forms.ChoiceField(
        required=False, label="Class", choices=_choices(words.SIDE_EFFECT_CLASSES.items(), "Any class")
    )
