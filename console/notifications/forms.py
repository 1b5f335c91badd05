"""The forms of notices: one person's mail, and a tenant's channels."""

from __future__ import annotations

from typing import Any

from django import forms

from console.handoffs.documents import HANDOFFS
from console.notifications.routing import (
    CHANNELS,
    PERIODS_MIN,
    RISKS,
    BadSettings,
    MailPreferences,
    NotificationSettings,
    parse_mail_preferences,
)
from console.web.forms import PlainSelect

_RISK = {"LOW": "low risk", "NORMAL": "normal risk", "HIGH": "high risk"}
_MANNER = (("now", "Immediately"), ("digest", "Digest"), ("off", "Off"))
_CHANNEL = {"email": "Mail", "push": "Phones and browsers", "slack": "Chat room", "webhook": "Webhook"}


class MailPreferencesForm(forms.Form):
    """A person's preferences for their own mail."""

    LOW = forms.ChoiceField(required=False, widget=PlainSelect, label="Low risk")
    NORMAL = forms.ChoiceField(required=False, widget=PlainSelect, label="Normal risk")
    HIGH = forms.ChoiceField(required=False, widget=PlainSelect, label="High risk")
    digest_min = forms.IntegerField(
        required=False, min_value=PERIODS_MIN[0], max_value=PERIODS_MIN[1], label="Digest every, minutes"
    )
    quiet_from = forms.TimeField(required=False, label="Quiet from", widget=forms.TimeInput(attrs={"type": "time"}))
    quiet_until = forms.TimeField(required=False, label="Quiet until", widget=forms.TimeInput(attrs={"type": "time"}))
    zone = forms.CharField(required=False, max_length=64, label="Time zone", initial="UTC")
    urgent_passes = forms.BooleanField(required=False, label="Send high risk during quiet hours")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for risk in RISKS:
            self.fields[risk].choices = [("", "Default"), *_MANNER]  # type: ignore[attr-defined]

    @classmethod
    def of(cls, wish: MailPreferences) -> MailPreferencesForm:
        """The form with a wish in it."""
        quiet = wish.quiet
        hours = {"quiet_from": quiet.begin, "quiet_until": quiet.end, "zone": quiet.zone} if quiet else {"zone": "UTC"}
        rest = {"digest_min": wish.digest_min, "urgent_passes": wish.urgent_passes}
        return cls(initial={**wish.email, **hours, **rest})

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                self._wish = _wish(cleaned)
            except BadSettings as wrong:
                raise forms.ValidationError(wrong.detail) from None
        return cleaned

    def wish(self) -> MailPreferences:
        return self._wish


def _wish(chosen: dict[str, Any]) -> MailPreferences:
    return parse_mail_preferences(
        email={risk: chosen[risk] for risk in RISKS},
        digest_min=chosen["digest_min"],
        quiet_from=chosen["quiet_from"],
        quiet_until=chosen["quiet_until"],
        zone=chosen["zone"] or "UTC",
        urgent_passes=chosen["urgent_passes"],
    )


class ChannelsForm(forms.Form):
    """The notices that a tenant sends by each channel, by risk."""

    digest_min = forms.IntegerField(min_value=PERIODS_MIN[0], max_value=PERIODS_MIN[1], label="Digest every, minutes")
    handoffs = forms.MultipleChoiceField(
        required=False,
        choices=[(name, name.capitalize()) for name in HANDOFFS],
        widget=forms.CheckboxSelectMultiple,
        label="Daily hand-offs to the webhook",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for channel in CHANNELS:
            for risk in RISKS:
                manners = [each for each in _MANNER if channel != "webhook" or each[0] != "digest"]
                label = f"{_CHANNEL[channel]}, {_RISK[risk]}"
                self.fields[f"{channel}-{risk}"] = forms.ChoiceField(choices=manners, widget=PlainSelect, label=label)

    @classmethod
    def of(cls, settings: NotificationSettings) -> ChannelsForm:
        """The form with settings in it."""
        chosen = {f"{channel}-{risk}": getattr(settings, channel)[risk] for channel in CHANNELS for risk in RISKS}
        return cls(initial={**chosen, "digest_min": settings.digest_min, "handoffs": settings.handoffs})

    def rows(self) -> list[dict[str, Any]]:
        """The choices of each channel, as the page shows them."""
        return [
            {"word": _CHANNEL[channel], "fields": [self[f"{channel}-{risk}"] for risk in RISKS]} for channel in CHANNELS
        ]

    def document(self) -> dict[str, Any]:
        """The settings as they are stored."""
        chosen = self.cleaned_data
        return {
            **{channel: {risk: chosen[f"{channel}-{risk}"] for risk in RISKS} for channel in CHANNELS},
            "digest_min": chosen["digest_min"],
            "handoffs": chosen["handoffs"],
        }
