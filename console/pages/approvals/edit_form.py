"""The form in which a reviewer writes another payload, and what the page shows of the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms

from approvals.requests.rules.preflight import render_value
from approvals.requests.rules.revisions import FieldChange, field_changes, summarise_changes
from console.pages.actions.action_record import ActionRecord, format_json, parse_arguments, payload_of
from ledger.actions.queries import actions
from ledger.record.queries import events

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.models import Action

LONGEST_PAYLOAD = 1024 * 1024
LONGEST_REASON = 2000


class EditForm(forms.Form):
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
        error_messages={"required": "Enter a reason. The agent sees it."},
    )


def initial_form(approval: Approval, payload: object) -> EditForm:
    """The form as the page first shows it: the payload that people were asked about."""
    return EditForm(initial={"payload": format_json(payload), "payload_hash": approval.payload_hash})


def changed_fields(changes: Iterable[FieldChange]) -> list[dict[str, str]]:
    """Field by field, what was asked for and what would run instead."""
    return [
        {"label": each.label, "path": each.path, "old": _side(each.old), "new": _side(each.new)} for each in changes
    ]


def may_edit(approval: Approval, action: Action, roles: frozenset[str]) -> bool:
    """Whether this person finds the way to an edit; the rules are asked again when they go it."""
    return approval.state == "REQUESTED" and action.ordered_by is None and "reviewer" in roles


def revision(told: ActionRecord) -> dict[str, Any] | None:
    """The earlier revision that an action stands in for, and what differs from it."""
    earlier = actions.action(told.action.tenant_id, told.action.supersedes) if told.action.supersedes else None
    if earlier is None:
        return None
    before, now = parse_arguments(payload_of(earlier)), parse_arguments(told.payload)
    return {
        "href": told.page("action", earlier.id),
        "edit": edit_of(told.action, told.names),
        "rows": changed_fields(field_changes(before, now)),
    }


def edit_of(action: Action, names: Mapping[UUID, str]) -> dict[str, Any] | None:
    """Who edited a request, what and why, and which expectations of its agent that dropped; None if nobody did."""
    event, note = _proposed(action)
    earlier = actions.action(action.tenant_id, action.supersedes) if note is not None and action.supersedes else None
    if note is None or earlier is None:
        return None
    before, now = payload_of(earlier), payload_of(action)
    by = names.get(event.actor_id, "a reviewer")
    changed = "" if before is None else summarise_changes(parse_arguments(before), parse_arguments(now))
    reason = str(note.get("reason", ""))
    said = f"Edited by {by}: {changed}." if changed else f"Edited by {by}."
    return {
        "editor": str(event.actor_id),
        "reason": reason,
        "text": f"{said} Reason: {reason}" if reason else said,
        "expectations_dropped": list(note.get("expectations_dropped", ())),
    }


def sent_by_agent(action: Action) -> Any:
    """The request as its agent sent it: the action itself, or the one from which reviewers made it by editing."""
    while action.supersedes and _proposed(action)[1] is not None:
        earlier = actions.action(action.tenant_id, action.supersedes)
        if earlier is None:
            break
        action = earlier
    return action


def _proposed(action: Action) -> tuple[Any, dict[str, Any] | None]:
    """The first event of an action, and what it says of the edit that made it; None where no edit did."""
    if action.supersedes is None:
        return None, None
    event, _, detail = events.history(action.tenant_id, action.id)[0]
    return event, detail.get("edit", {}) if detail and detail.get("edited") else None


def _side(value: str | None) -> str:
    return "not there" if value is None else render_value(value)
