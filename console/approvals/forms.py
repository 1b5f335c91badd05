"""Parse and bound the input of reviewers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import forms
from django.http import QueryDict

from approvals.voting.operations.batch_votes import DisplayedItem
from approvals.voting.rules import batches, binding
from approvals.voting.rules.quorum import EVERYBODY
from console.web import labels
from console.web.forms import PlainSelect
from ledger.record.rules.refusals import NotFound

SORTS = (("deadline", "Deadline"), ("oldest", "Oldest first"), ("newest", "Newest first"))
_LONGEST_REASON = 4000
_AN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _chooser(named: Iterable[tuple[str, str]], nothing: str, label: str | None = None) -> forms.ChoiceField:
    return forms.ChoiceField(required=False, widget=PlainSelect, label=label, choices=[("", nothing), *named])


class QueueFilter(forms.Form):
    """The filter and order of the inbox. Every field is optional and part of the address."""

    who = _chooser((), "Any", "Assignee")
    risk = _chooser(labels.RISKS.items(), "Any risk")
    tool = _chooser((), "Any tool")
    agent = _chooser((), "Any agent")
    group = _chooser((), "Any", "Group")
    sort = _chooser(SORTS, "Highest risk first", "Order")

    def __init__(
        self,
        *args: Any,
        people: Iterable[tuple[str, str]],
        tools: Iterable[str],
        agents: Iterable[str],
        groups: Iterable[str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        whose = [("mine", "Me"), ("nobody", "Unassigned"), ("vote", "Needs my decision"), *people]
        offered = {
            "who": whose,
            "tool": [(name, name) for name in tools],
            "agent": [(name, name) for name in agents],
            "group": [(name, name) for name in (EVERYBODY, *groups)],
        }
        for name, choices in offered.items():
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            known = {code for code, _ in choices}
            # What a kept address names and is no more is a filter still: it matches nothing.
            gone = [(held, held) for held in (self.data.get(name, ""),) if held and held not in known]
            field.choices = [*field.choices, *choices, *(gone if name != "who" else _person(gone))]  # type: ignore[misc]

    def wanted(self, *, me: UUID) -> dict[str, Any]:
        """The filters that are set, as the queue understands them."""
        if not self.is_valid():
            raise NotFound(detail="There is no such filter.")
        chosen = {name: value for name, value in self.cleaned_data.items() if value}
        who = chosen.pop("who", "")
        if who == "vote":
            return chosen | {"without": me}
        if who:
            chosen["holder"] = me if who == "mine" else None if who == "nobody" else UUID(who)
        return chosen


def _person(gone: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(held, "Somebody who has left") for held, _ in gone if _AN_ID.fullmatch(held)]


class BatchVoteForm(forms.Form):
    """One answer to many requests. Each item has the digests of what was shown of it (B39)."""

    verdict = forms.ChoiceField(choices=[("approve", "approve"), ("reject", "reject")])
    reason = forms.CharField(required=False, max_length=_LONGEST_REASON, widget=forms.Textarea(attrs={"rows": 3}))
    password = forms.CharField(
        required=False, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )
    otp = forms.CharField(
        required=False,
        max_length=16,
        label="Code of your authenticator app",
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("verdict") == "reject" and not cleaned.get("reason"):
            self.add_error("reason", "Enter a reason to reject or request changes.")
        if not cleaned.get("password") and not cleaned.get("otp"):
            self.add_error("password", "Enter your password or a one-time code to approve.")
        return cleaned

    def shown(self) -> list[DisplayedItem]:
        """The items with the displayed digests of the voter's page; an item without them is refused."""
        assert isinstance(self.data, QueryDict)
        return [self._item(text) for text in dict.fromkeys(self.data.getlist("item"))]

    def _item(self, text: str) -> DisplayedItem:
        held = {name: self.data.get(f"{name}-{text}", "") for name in ("payload_hash", "rendering_digest", "covers")}
        if not all(len(each) == 64 for each in held.values()) or not _AN_ID.fullmatch(text):
            raise batches.NotForBatches("An item was not displayed. Read it before you vote.")
        is_without_reading = bool(self.data.get(f"without_reading-{text}"))
        return DisplayedItem(UUID(text), binding.DisplayedDigests(**held, without_reading=is_without_reading))


def selected_ids(data: QueryDict) -> list[UUID]:
    """The ticked items of a list; invalid ids are ignored."""
    found = []
    for text in dict.fromkeys(data.getlist("item")):
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found[: batches.MOST]
