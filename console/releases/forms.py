"""Forms of releases. Bounded here, decided elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django import forms

from console.accounts.step_up import is_proven
from console.edge.http import TenantRequest, undo_if_refused
from console.people.forms import IdentityProofForm
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.policies import POLICY_KINDS
from ledger.catalogue.rules.releases import CONTRACT
from ledger.record.rules.canonical import read
from ledger.record.rules.refusals import ProofNeeded, Refused

T = TypeVar("T")
_WHY = {"required": "Enter a reason. It is kept in the audit log."}
MOST_TYPED = 1_000_000


class DraftForm(forms.Form):
    """A new version of a policy or of a tool's contract, as the text of its document."""

    kind = forms.ChoiceField(choices=[(kind, kind) for kind in (*POLICY_KINDS, CONTRACT)], widget=forms.HiddenInput())
    tool = forms.CharField(required=False, max_length=128, widget=forms.HiddenInput())
    version = forms.RegexField(
        r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$",
        label="Name of the new version",
        error_messages={"invalid": "At most 64 letters, digits, dots, plus and minus signs."},
    )
    document = forms.CharField(
        max_length=MOST_TYPED,
        label="Document",
        widget=forms.Textarea(attrs={"rows": 24, "class": "mono", "spellcheck": "false"}),
    )
    reason = forms.CharField(max_length=1000, label="Reason", error_messages=_WHY)

    def clean_document(self) -> str:
        text: str = self.cleaned_data["document"]
        try:
            typed = contracts.read(text) if self.cleaned_data.get("kind") == CONTRACT else read(text)
        except Refused as fault:
            raise forms.ValidationError(fault.detail) from fault
        if not isinstance(typed, dict):
            raise forms.ValidationError("The document must be a JSON object.")
        self._document: dict[str, Any] = typed
        return text

    def drafted(self) -> dict[str, Any]:
        """The document that was typed, under the name of its version."""
        return self._document | {"version": self.cleaned_data["version"]}


class ReleaseWordForm(IdentityProofForm):
    """One person's decision about a release, and their proof of identity."""

    reason = forms.CharField(max_length=1000, label="Reason", error_messages=_WHY)
    field_order = ("reason", "password", "otp")


def apply_word(request: TenantRequest, form: ReleaseWordForm, operation: Callable[..., T]) -> tuple[T | None, int]:
    """Carry out an operation by one person's decision.

    Returns its result; or None and the status of a refusal, which is added to the form.
    """
    if not form.is_valid():
        return None, 422
    proven = is_proven(request, *form.proof())
    try:
        with undo_if_refused(request):
            result = operation(
                tenant_id=request.tenant.id,
                reason=form.cleaned_data["reason"],
                by=request.caller.actor,
                is_proven=proven,
                at=request.as_of,
            )
    except ProofNeeded as refusal:
        form.ask_for_proof("Confirm with your password or a one-time code.")
        return None, refusal.status
    except Refused as refusal:
        form.add_error(None, refusal.detail)
        return None, refusal.status
    return result, 200
