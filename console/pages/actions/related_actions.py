"""What else was done for the same end: earlier attempts, near-duplicates, parents and children of an action."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from console.pages.actions.action_record import ActionRecord, parse_arguments, payload_of
from console.web.labels import action_title
from ledger.actions.queries import actions
from reviews.cases.rules.nearness import describe_difference

MOST = 6
_LOOKED_AT = 12


def find_related(told: ActionRecord) -> dict[str, Any]:
    """The lineage panel: each relation with its actions, newest first, each action once, in its closest relation."""
    action, seen = told.action, {told.action.id}
    groups = []
    for word, note, found in (
        ("Same request", "", actions.related_actions(action)),
        ("Possible duplicates", "same operation key", actions.same_operation(action, limit=MOST)),
        ("Similar payload", "same agent and tool", _near(told)),
        ("Same target and tool", "", actions.same_target(action, limit=MOST)),
    ):
        rows = [_row(told, each, relation) for each, relation in found if each.id not in seen]
        seen |= {row["id"] for row in rows}
        if rows:
            groups.append({"word": word, "note": note, "rows": rows[:MOST]})
    return {"groups": groups, "count": sum(len(group["rows"]) for group in groups)}


def _near(told: ActionRecord) -> list[tuple[Any, str]]:
    """Recent actions of the same agent and tool whose payload is nearly this one, with what differs."""
    mine, found = parse_arguments(told.payload), []
    for other in actions.same_agent_and_tool(told.action, limit=_LOOKED_AT):
        differing = describe_difference(mine, parse_arguments(payload_of(other)), target=told.action.target)
        if differing is not None:
            found.append((other, differing))
    return found


def _row(told: ActionRecord, other: Any, relation: str) -> dict[str, Any]:
    same = "the same payload" if other.payload_hash == told.action.payload_hash else "another payload"
    said = relation or same
    return {
        "id": UUID(str(other.id)),
        "action": other,
        "href": told.page("action", other.id),
        "title": action_title(other.operation_kind, other.target),
        "sub": f"{other.tool} by {other.agent}: {said}",
        "since": other.proposed_at,
    }
