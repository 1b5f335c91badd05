"""The actions of one session or run as a whole: how many in which state, and what is still open."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Count, Q

from ledger.actions.queries.actions import filter_condition
from ledger.actions.queries.conditions import IS_OPEN
from ledger.db import execute
from ledger.models import Action, Entry, Event


def count_actions(tenant_id: UUID, **filters: Any) -> int:
    """How many actions there are (see `record.actions` for the filters); for a session or a run, never a tenant."""
    found = Action.objects.filter(filter_condition(filters), tenant_id=tenant_id)
    return int(found.aggregate(made=Count("id"))["made"])


def open_actions_before(
    tenant_id: UUID, settled: Collection[str], *, before: UUID, limit: int = 200, **filters: Any
) -> list[Action]:
    """Actions below an id that are in no settled state, or were contradicted, oldest first."""
    found = Action.objects.filter(filter_condition(filters), tenant_id=tenant_id, id__lt=before)
    return list(found.filter(~Q(state__in=list(settled)) | Q(contradicted=True)).order_by("id")[:limit])


# From one state to the next: it is no matter how many actions are in it.
_OPEN_STATES = f"""
WITH RECURSIVE open AS (
    (SELECT contradicted, state FROM ledger_action WHERE tenant_id = $1 AND session_id = $2 AND {IS_OPEN}
        ORDER BY contradicted, state LIMIT 1)
    UNION ALL
    SELECT following.contradicted, following.state FROM open, LATERAL (SELECT contradicted, state FROM ledger_action
        WHERE tenant_id = $1 AND session_id = $2 AND {IS_OPEN}
            AND (contradicted, state) > (open.contradicted, open.state)
        ORDER BY contradicted, state LIMIT 1) following)
SELECT CASE WHEN contradicted THEN 'UNKNOWN' ELSE state END FROM open
"""


def open_states(tenant_id: UUID, session_id: UUID) -> set[str]:
    """The states of a session's open actions; what was contradicted counts as unknown."""
    return {state for (state,) in execute(_OPEN_STATES, tenant_id, session_id)}


def event_ids(tenant_id: UUID, places: list[tuple[UUID, int]]) -> dict[UUID, UUID]:
    """The event at each of these places (subject, seq), by subject."""
    found = execute(
        "SELECT subject_id, id FROM ledger_event WHERE tenant_id = $1"
        " AND (subject_id, seq) IN (SELECT * FROM unnest($2::uuid[], $3::integer[]))",
        *(tenant_id, [subject for subject, _ in places], [seq for _, seq in places]),
    )
    return dict(map(tuple, found))


def newest_action(tenant_id: UUID, session_id: UUID) -> Action | None:
    """The action that a session proposed last."""
    return Action.objects.filter(tenant_id=tenant_id, session_id=session_id).order_by("-id").first()


def suggested_next_tool(tenant_id: UUID, action_id: UUID) -> dict[str, Any] | None:
    """What the answers to an action named as the next tool, and whether it was taken; None where none named one."""
    observed = Event.objects.filter(tenant_id=tenant_id, subject_id=action_id, kind="observed").values_list("seq")
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id=action_id, seq__in=observed).order_by("-seq")
    for detail in kept.values_list("detail", flat=True)[:5]:
        named = orjson.loads(bytes(detail)).get("next_tool") if detail is not None else None
        if named is not None:
            return dict(named)
    return None
