"""The form in which a reviewer edits the payload, and the display of the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms

from approvals.requests.rules.preflight import render_value
from approvals.requests.rules.revisions import (
    FieldChange,
    as_money,
    field_changes,
    money_difference,
    summarise_changes,
)
from console.actions.action_record import ActionRecord, parse_arguments, payload_of
from console.web.labels import action_title
from ledger.actions.queries import actions
from ledger.record.queries import events

if TYPE_CHECKING:
    from approvals.models import Approval
    from approvals.requests.operations.edits import EditResult
    from ledger.models import Action

LONGEST_PAYLOAD = 1024 * 1024
LONGEST_REASON = 2000


class EditForm(forms.Form):
    """An edit beside its arguments: the reason, and the hashes of the displayed and of the last previewed payload.

    `payload` holds the arguments if they are written as JSON.
    """

    # What is only looked at, or written in the other way, needs no reason yet.
    use_required_attribute = False
    payload = forms.CharField(
        required=False,
        max_length=LONGEST_PAYLOAD,
        strip=False,
        widget=forms.Textarea(
            attrs={"rows": 14, "class": "mono", "spellcheck": "false", "aria-describedby": "payload-help"}
        ),
    )
    payload_hash = forms.RegexField(r"^[0-9a-f]{64}$", widget=forms.HiddenInput)
    previewed = forms.RegexField(r"^[0-9a-f]{64}$", required=False, widget=forms.HiddenInput)
    reason = forms.CharField(
        max_length=LONGEST_REASON,
        widget=forms.Textarea(attrs={"rows": 3, "aria-describedby": "edit-reason-help"}),
        error_messages={"required": "Enter a reason. The agent sees it."},
    )

    def __init__(self, *args: Any, wants_reason: bool = True, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["reason"].required = wants_reason


def changed_fields(changes: Iterable[FieldChange], before: object, after: object) -> list[dict[str, str]]:
    """Each changed field before and after; an amount also as money."""
    return [
        {
            "label": each.label,
            "path": each.path,
            "old": _side(each.old),
            "new": _side(each.new),
            "old_money": as_money(before, each.path) if each.old is not None else "",
            "new_money": as_money(after, each.path) if each.new is not None else "",
        }
        for each in changes
    ]


def preview_context(action: Action, seen: EditResult, names: Mapping[UUID, str]) -> dict[str, Any]:
    """Return the preview of an edit: in words, in money, by field, and the people who could approve it."""
    before, after = parse_arguments(payload_of(action)), parse_arguments(seen.payload)
    others = sorted(names.get(each.actor, "somebody") for each in seen.eligible if not each.away)
    return {
        "asked": action_title(action.operation_kind, action.target, before),
        "edited": action_title(action.operation_kind, seen.target, after),
        "money": money_difference(before, after),
        "differences": changed_fields(seen.changes, before, after),
        "dropped": seen.dropped,
        "kept": seen.kept,
        "leaves_nobody": seen.leaves_nobody,
        "eligible": others,
        "previewed": seen.payload_hash,
    }


def may_edit(approval: Approval, action: Action, roles: frozenset[str]) -> bool:
    """Return True if this person is offered an edit; the rules are checked again when they make it."""
    return approval.state == "REQUESTED" and action.ordered_by is None and "reviewer" in roles


def revision(record: ActionRecord) -> dict[str, Any] | None:
    """The earlier revision that an action supersedes, and the difference."""
    earlier = actions.action(record.action.tenant_id, record.action.supersedes) if record.action.supersedes else None
    if earlier is None:
        return None
    before, now = parse_arguments(payload_of(earlier)), parse_arguments(record.payload)
    return {
        "href": record.page("action", earlier.id),
        "edit": edit_of(record.action, record.names),
        "rows": changed_fields(field_changes(before, now), before, now),
    }


def edit_of(action: Action, names: Mapping[UUID, str]) -> dict[str, Any] | None:
    """The edit of a request: who, what and why, and the agent's dropped expectations; None if it was not edited."""
    event, note = _first_event(action)
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
    while action.supersedes and _first_event(action)[1] is not None:
        earlier = actions.action(action.tenant_id, action.supersedes)
        if earlier is None:
            break
        action = earlier
    return action


def _first_event(action: Action) -> tuple[Any, dict[str, Any] | None]:
    """The first event of an action with the edit that created it; None if there was no edit."""
    if action.supersedes is None:
        return None, None
    event, _, detail = events.history(action.tenant_id, action.id)[0]
    return event, detail.get("edit", {}) if detail and detail.get("edited") else None


def _side(value: str | None) -> str:
    return "not there" if value is None else render_value(value)
