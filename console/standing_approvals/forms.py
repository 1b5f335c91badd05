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
from ledger.record.rules.refusals import ProofNeeded, Refused


class StandingProposalForm(IdentityProofForm):
    """A budget and an end date for what is offered."""

    reason = forms.CharField(
        max_length=4000, label="Reason", error_messages={"required": "Enter a reason. It is kept in the audit log."}
    )

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

    def show_refusal(self, refusal: Refused) -> None:
        """Put a refusal beside its field, or above the form; the typed text is kept."""
        if isinstance(refusal, ProofNeeded):
            self.ask_for_proof(refusal.detail)
            return
        places = {"/count": "count", "/ends_at": "ends_on", "/sum_minor": "total"}
        for each in refusal.errors or [{"path": "", "detail": refusal.detail}]:
            field = places.get(each["path"])
            self.add_error(field if field in self.fields else None, each["detail"])

    def budget(self) -> StandingBudget:
        """The proposed budget; the rules decide if the policy allows it."""
        said, total = self.cleaned_data, self.cleaned_data.get("total")
        minor = int(total * Decimal(10) ** decimal_places(self.currency)) if total is not None else None
        end = datetime.combine(said["ends_on"], time.max, tzinfo=UTC).replace(microsecond=0)
        return StandingBudget(count=said["count"], sum_minor=minor, ends_at=end)
