"""Forms of standing approvals. Bounded here, decided elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

from django import forms

from approvals.standing.operations.offers import StandingOffer
from approvals.standing.rules.standing import StandingBudget
from console.people.forms import IdentityProofForm
from console.web.forms import DayField
from ledger.catalogue.rules.money import decimal_places


class WordForm(IdentityProofForm):
    """The reason for agreeing or declining, with proof of identity."""

    reason = forms.CharField(
        max_length=4000, label="Reason", error_messages={"required": "Enter a reason. It is kept in the audit log."}
    )


class StandingAnswerForm(WordForm):
    """The second person's decision."""

    to = forms.ChoiceField(choices=[("agree", "agree"), ("decline", "decline")])


class StandingProposalForm(WordForm):
    """A budget and an end date for an offered standing approval."""

    count = forms.IntegerField(min_value=1, max_value=1000, label="Actions that may pass")
    total = forms.DecimalField(min_value=0, max_digits=15, decimal_places=4, required=False, label="Total amount")
    ends_on = DayField(label="Last day (UTC)")
    shape_digest = forms.RegexField("^[0-9a-f]{64}$", widget=forms.HiddenInput())

    field_order = ("count", "total", "ends_on", "reason", "password", "otp", "shape_digest")

    def __init__(self, *given: Any, offer: StandingOffer | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self.currency = offer.shape.scope.currency if offer else ""
        if self.currency:
            self.fields["total"].label = f"Total {self.currency}"
            self.fields["total"].required = True
        else:
            del self.fields["total"]

    def budget(self) -> StandingBudget:
        """The proposed budget; the rules decide if the policy allows it."""
        said, total = self.cleaned_data, self.cleaned_data.get("total")
        minor = int(total * Decimal(10) ** decimal_places(self.currency)) if total is not None else None
        end = datetime.combine(said["ends_on"], time.max, tzinfo=UTC).replace(microsecond=0)
        return StandingBudget(count=said["count"], sum_minor=minor, ends_at=end)
