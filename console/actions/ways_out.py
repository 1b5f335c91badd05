"""The way out of an action that has not ended, and until when a repeat of it is refused: for its page and the API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from django.urls import reverse

from approvals.execution import queries as execution_queries
from approvals.requests.queries import approvals
from ledger.actions.queries import actions
from ledger.record.rules.lifecycle import State
from reviews import queries as after
from reviews.cases.rules.resolutions import Resolution
from reviews.cases.rules.ways_out import Control, OpenAction, Owner, way_out
from reviews.verification.operations.verification import is_open

if TYPE_CHECKING:
    from console.edge.auth import Caller
    from ledger.models import Action

OWNERS: Final = {
    Owner.REVIEWERS: "Reviewers",
    Owner.EXECUTORS: "Executor",
    Owner.CONSOLE: "Console",
    Owner.OPERATORS: "Operators",
}
_WORDS: Final = {
    Control.DECIDE: "Open approval",
    Control.CANCEL: "Cancel action",
    Control.REPORT: "Report the result",
    Control.VERIFY: "Re-verify",
    Control.FOLLOW_RECOVERY: "Open recovery action",
    Control.OPEN_CASE: "Open a case",
    Control.SETTLE_CASE: "Settle the case",
    Control.REOPEN_CASE: "Open the settled case",
}
_KEYS: Final = {Control.CANCEL: {"agent", "oper"}, Control.VERIFY: {"oper"}, Control.REPORT: {"exec"}}
_POSTED: Final = {Control.CANCEL: "action-cancel", Control.VERIFY: "action-verify", Control.OPEN_CASE: "action-case"}


@dataclass(frozen=True, kw_only=True)
class ShownControl:
    """One control: its name, the API call behind it, and its page.

    `is_form`: the page takes it with a form of its own; else it is a link. `asks_reason`: the form wants a reason.
    """

    control: Control
    word: str
    method: str
    path: str
    page: str
    is_form: bool = False
    asks_reason: bool = False


@dataclass(frozen=True, kw_only=True)
class ShownWayOut:
    """The party that has to act, in words, and its controls."""

    owner: Owner
    owner_word: str
    text: str
    controls: tuple[ShownControl, ...]


@dataclass(frozen=True, kw_only=True)
class RepeatRefusal:
    """The end of the block on repeating an action's operation, and what ends it."""

    ends: str
    until: datetime | None
    text: str


def shown_way_out(action: Action, *, slug: str = "") -> ShownWayOut | None:
    """The way out of an action's resting state; None if it has ended and nothing is open.

    With the tenant's `slug` each control has the address of its page.
    """
    approval = _open_approval(action)
    case = after.case_of(action.tenant_id, action.id)
    facts = OpenAction(
        state=State(action.state),
        settled=action.settled,
        contradicted=action.contradicted,
        asked=approval is not None,
        is_read=is_open(action),
        case=case.state if case is not None else "",
        left=case is not None and case.resolution == Resolution.ABANDON,
    )
    way = way_out(facts)
    if way is None:
        return None
    children = _open_children(action) if Control.FOLLOW_RECOVERY in way.controls else []
    places: dict[Control, list[tuple[str, str, str]]] = {
        Control.DECIDE: [
            ("POST", f"/approvals/{action.approval_id}/votes", _page(slug, "approval", action.approval_id))
        ],
        Control.CANCEL: [("POST", f"/actions/{action.id}/cancel", _page(slug, "action-cancel", action.id))],
        Control.REPORT: [("POST", f"/actions/{action.id}/executions/{action.attempt_count}/observations", "")],
        Control.VERIFY: [("POST", f"/actions/{action.id}/verify", _page(slug, "action-verify", action.id))],
        Control.OPEN_CASE: [("POST", f"/actions/{action.id}/case", _page(slug, "action-case", action.id))],
        Control.FOLLOW_RECOVERY: [("GET", f"/actions/{each.id}", _page(slug, "action", each.id)) for each in children],
    }
    if case is not None:
        page = _page(slug, "case", case.id)
        places[Control.SETTLE_CASE] = [("POST", f"/reviews/{case.id}/resolve", page)]
        places[Control.REOPEN_CASE] = [("POST", f"/reviews/{case.id}/reopen", page)]
    controls = tuple(
        ShownControl(
            control=each,
            word=_WORDS[each],
            method=method,
            path=path,
            page=page,
            is_form=each in _POSTED,
            asks_reason=each in (Control.CANCEL, Control.OPEN_CASE),
        )
        for each in way.controls
        for method, path, page in places[each]
    )
    text = _text(action, way.controls[0], children) if way.controls else "The console is at work on it."
    return ShownWayOut(owner=way.owner, owner_word=OWNERS[way.owner], text=text, controls=controls)


def usable_controls(shown: ShownWayOut, caller: Caller) -> tuple[ShownControl, ...]:
    """The controls that the caller may use; people follow links, and operators use the forms."""
    if caller.kind != "person":
        return tuple(each for each in shown.controls if caller.kind in _KEYS.get(each.control, ()))
    return tuple(each for each in shown.controls if each.page and (not each.is_form or "operator" in caller.roles))


def repeat_refusal(action: Action, *, at: datetime) -> RepeatRefusal | None:
    """The reason and the end of this action's block on repeating its operation (R-EX-08); None without a block."""
    if not action.mutating:
        return None
    blocks = actions.blocking_actions(action.tenant_id, action.operation_key, at=at)
    mine = next((each for each in blocks if each.action_id == action.id), None)
    if mine is None:
        return None
    if mine.until is not None:
        is_done = action.state == State.RECONCILED_SUCCESS
        why = "a person has settled that it took effect" if is_done else "until then this one may still take effect"
        text = f"A repeat is refused until {_clock(mine.until)}: {why}."
        return RepeatRefusal(ends="AT_TIME", until=mine.until, text=text)
    if mine.waits_for_a_person:
        text = "A repeat is refused, without a time limit, until an operator settles this or closes it unresolved."
        return RepeatRefusal(ends="WHEN_SETTLED", until=None, text=text)
    text = "A repeat is refused until this has been executed, verified and, where needed, recovered."
    return RepeatRefusal(ends="WHEN_VERIFIED", until=None, text=text)


def _open_approval(action: Action) -> Any:
    if action.state != State.VALIDATED or action.approval_id is None:
        return None
    approval = approvals.approval(action.tenant_id, action.approval_id)
    return approval if approval is not None and approval.state in ("PREPARING", "REQUESTED") else None


def _open_children(action: Action) -> list[Action]:
    return [each for each in actions.children_of(action.tenant_id, action.id) if not _has_ended(each)]


def _has_ended(action: Action) -> bool:
    return action.state in ("RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK", "ABANDONED")


def _page(slug: str, name: str, key: Any) -> str:
    return reverse(name, args=[slug, key]) if slug and key is not None else ""


def _text(action: Action, control: Control, children: list[Action]) -> str:
    """The next party to act, in a sentence or two."""
    if control is Control.REPORT:
        attempts = execution_queries.attempts_of(action.tenant_id, action.id)
        until = f" until {_clock(attempts[-1].lease_expires_at)}" if attempts else ""
        return f"The executor has to report{until}. After that the outcome is unknown and is verified."
    if control is Control.VERIFY:
        planned = after.schedule_of(action.tenant_id, action.id)
        due = f" The next reading is due at {_clock(planned.due_at)}." if planned is not None else ""
        return f"The system of record is being read.{due}"
    if control is Control.FOLLOW_RECOVERY:
        if not children:
            return "A recovery action is ordered; it is proposed once nothing keeps it back."
        return f"It ends as its recovery action does ({children[-1].tool}, {children[-1].state})."
    if control is Control.CANCEL:
        return "It is ready and waits for an executor to claim it."
    return _TEXTS[control]


_TEXTS: Final = {
    Control.DECIDE: "It waits for approval.",
    Control.OPEN_CASE: (
        "No further reading is planned, so nothing more happens by itself. An operator can open a case: to verify it"
        " where a lookup has been connected since, to attest what happened, or to close it unresolved."
    ),
    Control.SETTLE_CASE: "An operator settles its case.",
    Control.REOPEN_CASE: "Its case is settled and the contradiction stands. An operator can reopen the case.",
}


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
