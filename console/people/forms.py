"""Forms about people. Bounded here, decided elsewhere."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any

from django import forms

from console.accounts.members.rules import ROLES
from console.edge.schemas import CODE, PASSWORD
from console.verbs.form import proof_fault
from console.web.forms import DayField, WordsField

if TYPE_CHECKING:
    from console.models import User

TOO_LONG = 200
_ROLE_WORDS = {
    "reviewer": "Reviewer: decides approvals",
    "operator": "Operator: resolves cases, places freezes",
    "compliance": "Compliance: reads and exports the record",
    "administrator": "Administrator: people, keys, policies",
}


class IdentityProofForm(forms.Form):
    """Proof of identity for granting approval rights; empty if it was given within the last minutes."""

    password = PASSWORD.field
    otp = CODE.field

    def proof(self) -> tuple[str, str]:
        """The password and the code that were given."""
        return self.cleaned_data["password"], self.cleaned_data["otp"]

    def ask_for_proof(self, said: str) -> None:
        """Say beside the field what is missing."""
        self.add_error(*proof_fault(*self.proof(), missing=said))


class RolesForm(IdentityProofForm):
    """Roles, and the groups for which the member's votes count."""

    roles = forms.MultipleChoiceField(
        required=False, choices=[(role, _ROLE_WORDS[role]) for role in ROLES], widget=forms.CheckboxSelectMultiple
    )
    groups = WordsField(required=False, max_length=TOO_LONG, label="Groups, such as finance")


class InvitationForm(RolesForm):
    """A new member."""

    email = forms.EmailField(label="Email", error_messages={"required": "Enter their email."})
    name = forms.CharField(required=False, max_length=100, label="Name")
    field_order = ("email", "name", "roles", "groups", "password", "otp")


class NewPasswordForm(forms.Form):
    """The password of a new member."""

    password = forms.CharField(
        strip=False, label="Password", widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user

    def clean_password(self) -> str:
        from django.contrib.auth.password_validation import validate_password

        given: str = self.cleaned_data["password"]
        validate_password(given, self.user)
        return given


class DateRangeForm(forms.Form):
    """From one day to another, both included, in UTC."""

    starts = DayField(label="From")
    ends = DayField(label="Until the end of")

    def span(self, at: datetime) -> dict[str, datetime]:
        """Return the period, which starts now if it begins today."""
        begin = datetime.combine(self.cleaned_data["starts"], time(0), UTC)
        end = datetime.combine(self.cleaned_data["ends"], time(23, 59, 59), UTC)
        return {"starts_at": max(begin, at) if begin.date() == at.astimezone(UTC).date() else begin, "ends_at": end}


class DelegationForm(DateRangeForm, IdentityProofForm):
    """The recipient and the groups of a delegation."""

    to = forms.ChoiceField(label="To", error_messages={"required": "Choose who to delegate to."})
    groups = forms.MultipleChoiceField(required=False, label="For their votes in", widget=forms.CheckboxSelectMultiple)
    tools = WordsField(required=False, max_length=1000, label="Only for these tools (all)")
    reason = forms.CharField(required=False, max_length=500, label="Reason")
    field_order = ("to", "starts", "ends", "groups", "tools", "reason", "password", "otp")

    def __init__(self, *args: Any, people: list[tuple[str, str]], own: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["to"].choices = people  # type: ignore[attr-defined]
        self.fields["groups"].choices = [(each, each) for each in own]  # type: ignore[attr-defined]
        self.fields["groups"].initial = own


class EnrolmentForm(forms.Form):
    """A new passkey, as the browser hands it over."""

    name = forms.CharField(required=False, max_length=100, label="Name of this key")
    credential = forms.CharField(max_length=32_768, widget=forms.HiddenInput)

    def clean_credential(self) -> Any:
        try:
            return json.loads(self.cleaned_data["credential"])
        except ValueError:
            raise forms.ValidationError("The browser sent no passkey.") from None


class NewKeyForm(forms.Form):
    """A machine's key."""

    kind = forms.ChoiceField(
        choices=[
            ("agent", "Agent: proposes"),
            ("exec", "Executor: runs approved actions"),
            ("oper", "Operator: registers and freezes"),
            ("audit", "Auditor: reads the log"),
        ],
        label="For",
    )
    name = forms.CharField(max_length=100, label="Name", error_messages={"required": "Enter a name."})
    only_for = WordsField(required=False, max_length=1000, label="Only for these tools or agents (all)")
    days = forms.IntegerField(required=False, min_value=1, max_value=3650, label="Expires after days (never)")

    def scopes(self) -> list[str]:
        what = {"exec": "tool", "agent": "agent"}.get(self.cleaned_data["kind"], "")
        return [f"{what}:{each}" for each in self.cleaned_data["only_for"]] if what else []
