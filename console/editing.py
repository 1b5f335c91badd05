"""The form in which a reviewer writes another payload, and what the page shows of the difference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms

from approvals.rules.preflight import shown
from approvals.rules.revisions import Change, changes
from console.account import Account, arguments, payload_of, pretty
from ledger.queries import acting

LONGEST_PAYLOAD = 1024 * 1024
LONGEST_REASON = 2000


class Edit(forms.Form):
    """All arguments of the call as JSON, why they should be others, and the hash of those that were shown."""

    payload = forms.CharField(
        max_length=LONGEST_PAYLOAD,
        strip=False,
        widget=forms.Textarea(
            attrs={"rows": 14, "class": "mono", "spellcheck": "false", "aria-describedby": "payload-help"}
        ),
    )
    payload_hash = forms.RegexField(r"^[0-9a-f]{64}$", widget=forms.HiddenInput)
    reason = forms.CharField(
        max_length=LONGEST_REASON,
        widget=forms.Textarea(attrs={"rows": 3, "aria-describedby": "edit-reason-help"}),
        error_messages={"required": "Say why: the agent is told in your words."},
    )


def blank(approval: Any, payload: Any) -> Edit:
    """The form as the page first shows it: the payload that people were asked about."""
    return Edit(initial={"payload": pretty(payload), "payload_hash": approval.payload_hash})


def differences(changes: Iterable[Change]) -> list[dict[str, str]]:
    """Field by field, what was asked for and what would run instead."""
    return [
        {"label": each.label, "path": each.path, "old": _side(each.old), "new": _side(each.new)} for each in changes
    ]


def may_edit(approval: Any, action: Any, roles: frozenset[str]) -> bool:
    """Whether this person finds the way to an edit; the rules are asked again when they go it."""
    return approval.state == "REQUESTED" and action.ordered_by is None and "reviewer" in roles


def revision(told: Account) -> dict[str, Any] | None:
    """The earlier revision that an action stands in for, and what differs from it."""
    earlier = acting.action(told.action.tenant_id, told.action.supersedes) if told.action.supersedes else None
    if earlier is None:
        return None
    before, now = arguments(payload_of(earlier)), arguments(told.payload)
    return {
        "href": told.page("action", earlier.id),
        "edited": told.approval is not None and told.approval.editor is not None,
        "rows": differences(changes(before, now)),
    }


def _side(value: str | None) -> str:
    return "not there" if value is None else shown(value)
