"""Forms on the pages of recordings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django import forms

from console.recordings.queries import ConversationQuery, RecordingQuery
from console.web.forms import LONGEST_TEXT, DayField, PlainSelect, date_range

KINDS: Final = {
    "phantom": "tool does not exist",
    "argument_hallucination": "wrong arguments",
    "gate_rejection": "refused by a rule",
    "valid_execution_failed": "tool failed",
    "value_mismatch": "values differ",
    "predicate_false": "predicate not met",
    "silent_step": "continued after failure",
    "repeated_change": "duplicate change",
    "valid": "valid call",
}
"""What is found of calls, in few words."""


WHICH: Final = (
    ("", "All"),
    ("yes", "With findings"),
    ("blocked", "With claims unsupported"),
    ("failures", "With calls that failed"),
)


class RecordingFilter(forms.Form):
    """The filter of recordings; every field is part of the address."""

    words = forms.CharField(
        required=False,
        max_length=200,
        label="Find",
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "Words of a conversation"}),
    )
    file = forms.CharField(required=False, max_length=200, label="File name")
    which = forms.ChoiceField(
        required=False,
        label="Which",
        widget=PlainSelect,
        choices=[WHICH[0], *WHICH[2:]],
    )
    since = DayField(required=False, label="Imported from")
    until = DayField(required=False, label="To")

    def wanted(self) -> RecordingQuery:
        """The query of this filter; a day means the whole day, in UTC."""
        chosen = self.cleaned_data
        return RecordingQuery(
            file=chosen["file"].strip(),
            failures=True if chosen["which"] == "failures" else None,
            blocked=True if chosen["which"] == "blocked" else None,
            words=chosen["words"].strip(),
            **date_range({name: chosen[name] for name in ("since", "until") if chosen[name]}),
        )


class ConversationFilter(forms.Form):
    """The filter of a recording's conversations; every field is part of the address."""

    words = forms.CharField(
        required=False,
        max_length=200,
        label="Find",
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "Words of a message, or a name"}),
    )
    kind = forms.ChoiceField(
        required=False,
        label="Calls",
        widget=PlainSelect,
        choices=[("", "Any"), *((code, word.capitalize()) for code, word in KINDS.items())],
    )
    code = forms.ChoiceField(required=False, label="Code", widget=PlainSelect, choices=[("", "Any")])
    findings = forms.ChoiceField(required=False, label="Which", widget=PlainSelect, choices=WHICH)
    order = forms.ChoiceField(
        required=False,
        label="Order",
        widget=PlainSelect,
        choices=[("", "Most severe first"), ("file", "As in the file")],
    )

    def __init__(self, *args: Any, codes: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["code"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "Any"), *((code, code) for code in codes)]

    def wanted(self) -> ConversationQuery:
        """The query of this filter."""
        chosen = self.cleaned_data
        return ConversationQuery(
            kind=chosen["kind"],
            code=chosen["code"],
            findings=True if chosen["findings"] == "yes" else None,
            blocked=True if chosen["findings"] == "blocked" else None,
            failures=True if chosen["findings"] == "failures" else None,
            words=chosen["words"].strip(),
            gravest_first=chosen["order"] != "file",
        )


class EraseRecordingForm(forms.Form):
    """The legal basis and the reason for erasing a recording."""

    legal_basis = forms.CharField(max_length=300, error_messages={"required": "Name the legal basis."})
    reason = forms.CharField(
        max_length=LONGEST_TEXT,
        label="Why, in words that name nobody: it stays on record",
        error_messages={"required": "Enter a reason."},
    )
