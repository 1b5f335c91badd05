"""Related actions: earlier attempts, near-duplicates, parents and children of an action."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from console.actions.action_record import ActionRecord, parse_arguments, payloads_of
from console.web.labels import action_title
from ledger.actions.queries import actions
from reviews.cases.rules.nearness import describe_difference

MOST = 6
_LOOKED_AT = 12


def find_related(record: ActionRecord) -> dict[str, Any]:
    """The lineage panel: each relation with its actions, newest first, each action once, in its closest relation."""
    action, seen = record.action, {record.action.id}
    groups: list[dict[str, Any]] = []
    for word, note, found in (
        ("Same request", "", actions.related_actions(action)),
        ("Possible duplicates", "same operation key", actions.same_operation(action, limit=MOST)),
        ("Similar payload", "same agent and tool", _near(record)),
        ("Other actions on the target", "", actions.same_target(action, limit=MOST)),
    ):
        rows = [_row(record, each, relation) for each, relation in found if each.id not in seen]
        seen |= {row["id"] for row in rows}
        if rows:
            groups.append({"word": word, "note": note, "rows": rows[:MOST]})
    shown = [row for group in groups for row in group["rows"]]
    payloads = payloads_of(action.tenant_id, [row["action"] for row in shown])
    for row in shown:
        row["title"] = action_title(row["action"].operation_kind, row["action"].target, payloads.get(row["id"]))
    return {"groups": groups, "count": sum(len(group["rows"]) for group in groups)}


def _near(record: ActionRecord) -> list[tuple[Any, str]]:
    """Return recent actions of the same agent and tool with nearly the same payload, with the differences."""
    mine, found = parse_arguments(record.payload), []
    others = actions.same_agent_and_tool(record.action, limit=_LOOKED_AT)
    payloads = payloads_of(record.action.tenant_id, others)
    for other in others:
        differing = describe_difference(mine, payloads.get(other.id, {}), target=record.action.target)
        if differing is not None:
            found.append((other, differing))
    return found


def _row(record: ActionRecord, other: Any, relation: str) -> dict[str, Any]:
    same = "the same payload" if other.payload_hash == record.action.payload_hash else "another payload"
    said = relation or same
    return {
        "id": UUID(str(other.id)),
        "action": other,
        "href": record.page("action", other.id),
        "sub": f"{other.tool} by {other.agent}: {said}",
        "since": other.proposed_at,
    }
