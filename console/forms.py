"""Parse and bound what people type. Nothing here decides or writes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from approvals.rules import binding
from console import words

LONGEST_TEXT = 4000


class Vote(forms.Form):
    """One person's answer. The digests say what was on the screen when it was given."""

    verdict = forms.ChoiceField(choices=[(each.value, each.value) for each in binding.Verdict])
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
        if cleaned.get("verdict") != binding.Verdict.APPROVE and not cleaned.get("reason"):
            self.add_error("reason", "Say why: a vote that does not approve needs a reason.")
        if {"payload_hash", "rendering_digest"} & self.errors.keys():
            raise forms.ValidationError("The page was not complete. Read it again before you vote.")
        return cleaned

    def said(self) -> binding.Verdict:
        """The verdict, as the rules know it."""
        return binding.Verdict(self.cleaned_data["verdict"])

    def seen(self) -> binding.Seen:
        """What the voter's page held."""
        held = self.cleaned_data
        return binding.Seen(payload_hash=held["payload_hash"], rendering_digest=held["rendering_digest"])


class Resolution(forms.Form):
    """How a person settles a case. Which resolutions are offered comes from the rules."""

    resolution = forms.ChoiceField(error_messages={"required": "Choose what should happen."})
    reason = forms.CharField(
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 3, "aria-describedby": "reason-help"}),
        error_messages={"required": "Say why."},
    )
    evidence = forms.CharField(
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 2, "aria-describedby": "evidence-help"}),
        error_messages={"required": "Name the evidence you decide on."},
    )

    def __init__(self, *args: Any, allowed: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["resolution"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(code, code) for code in allowed]

    def pieces(self) -> list[str]:
        """The evidence, one piece a line."""
        return [line.strip() for line in self.cleaned_data["evidence"].splitlines() if line.strip()]


class Confirmation(forms.Form):
    """The second person's word on what the first proposed."""

    answer = forms.ChoiceField(choices=[("confirm", "confirm"), ("decline", "decline")])

    def accepted(self) -> bool:
        return bool(self.cleaned_data["answer"] == "confirm")


class Lift(forms.Form):
    """Why a freeze may end."""

    reason = forms.CharField(max_length=1000, error_messages={"required": "Say why it may be released again."})


class TakeBack(forms.Form):
    """Why a run is taken back."""

    reason = forms.CharField(
        max_length=1000,
        label="Why",
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": "Say why it is taken back."},
    )


class SignIn(AuthenticationForm):
    """Email and password."""

    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": "This email and password do not belong together.",
    }


class Preferences(forms.Form):
    """How a person wants the pages. What is left out stays as it is."""

    theme = forms.ChoiceField(required=False, choices=[("auto", "auto"), ("light", "light"), ("dark", "dark")])
    keys = forms.ChoiceField(required=False, choices=[("on", "on"), ("off", "off")])

    def chosen(self) -> dict[str, Any]:
        keys = self.cleaned_data["keys"]
        return {"theme": self.cleaned_data["theme"] or None, "single_keys": keys == "on" if keys else None}


class Remark(forms.Form):
    text = forms.CharField(
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 2, "id": "id_text"}),
        error_messages={"required": "Write something first."},
    )


class Chooser(forms.Select):
    """A select written in Python: Django's renders a template per option, which cost half of the Actions page."""

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        options = ((code, " selected" if str(code) == str(value or "") else "", word) for code, word in self.choices)
        listed = format_html_join("", '<option value="{}"{}>{}</option>', options)
        return format_html('<select name="{}" id="{}">{}</select>', name, (attrs or {}).get("id", ""), listed)


def _chooser(named: Iterable[tuple[str, str]], nothing: str, label: str | None = None) -> forms.ChoiceField:
    return forms.ChoiceField(required=False, widget=Chooser, label=label, choices=[("", nothing), *named])


_DISCREPANCIES = [(code, label) for code, (label, _) in words.DISCREPANCIES.items()]


class ActionFilter(forms.Form):
    """What the Actions page shows. Everything is optional and lives in the address."""

    q = forms.CharField(
        required=False,
        max_length=200,
        label="Find",
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "Target or id"}),
    )
    state = _chooser(words.STATES.items(), "Any state")
    tool = forms.CharField(required=False, max_length=200)
    agent = forms.CharField(required=False, max_length=200)
    side_effect_class = _chooser(words.SIDE_EFFECT_CLASSES.items(), "Any class", "Class")
    discrepancy = _chooser(_DISCREPANCIES, "Any")
    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))

    def wanted(self) -> dict[str, Any]:
        """The filters that are set; a day means the whole day, in UTC."""
        chosen = {name: value for name, value in self.cleaned_data.items() if value}
        if "since" in chosen:
            chosen["since"] = datetime.combine(chosen["since"], time.min, UTC)
        if "until" in chosen:
            chosen["until"] = datetime.combine(chosen["until"], time.min, UTC) + timedelta(days=1)
        return chosen


class CaseFilter(forms.Form):
    """Which cases the queue shows."""

    discrepancy = _chooser(_DISCREPANCIES, "Any discrepancy")
    side_effect_class = _chooser(words.SIDE_EFFECT_CLASSES.items(), "Any class", "Class")
