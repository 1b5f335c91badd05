"""Reads freezes, in force and lifted, and the actions that they stop. All functions run inside `tenancy`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet, UUIDField, Value

from ledger.actions.queries.actions import in_state
from ledger.catalogue.rules.targets import normal_form
from ledger.db import execute, page_in_order, select
from ledger.models import (
    Action,
    Freeze,
)
from ledger.record.rules.lifecycle import State

# Which freezes (f) stop an action (a).
COVERS = (
    "(f.scope IN ('all', 'tenant') OR (f.scope = 'agent' AND f.value = a.agent)"
    " OR (f.scope = 'tool' AND f.value = a.tool) OR (f.scope = 'target' AND f.value = a.target))"
)


def freezes_in_force(tenant_id: UUID) -> list[Freeze]:
    return list(Freeze.objects.filter(tenant_id=tenant_id, lifted_at__isnull=True).order_by("id"))


def freezes(
    tenant_id: UUID, *, lifted: bool = False, order: str = "", after: UUID | None = None, limit: int = 50
) -> list[Freeze]:
    """Freezes in force, oldest first, or lifted ones, newest first, or in a column's order; behind the row `after`."""
    found = Freeze.objects.filter(tenant_id=tenant_id, lifted_at__isnull=not lifted)
    return page_in_order(found, order or ("-id" if lifted else "id"), behind=after, limit=limit)


def freezes_by_id(tenant_id: UUID, ids: list[UUID]) -> dict[UUID, Freeze]:
    return {each.id: each for each in Freeze.objects.filter(tenant_id=tenant_id, id__in=ids)}


def is_known_target(tenant_id: UUID, target: str) -> bool:
    """Return whether any action has ever named this target."""
    return Action.objects.filter(tenant_id=tenant_id, target=normal_form(target)).exists()


def recent_targets(tenant_id: UUID, *, limit: int = 50) -> list[str]:
    """Return the targets of the newest actions, newest first; only the newest thousand actions are searched."""
    rows = execute(
        "SELECT target FROM (SELECT id, target FROM ledger_action WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1000) a"
        " GROUP BY target ORDER BY max(id::text) DESC LIMIT $2",
        tenant_id,
        limit,
    )
    return [target for (target,) in rows]


def count_frozen_actions(found: Sequence[Freeze], *, most: int = 100) -> Counter[UUID]:
    """Count the validated actions that each freeze keeps from starting, up to `most` each, in one statement."""
    kept = [
        _stopped_actions(each).annotate(by=Value(each.id, UUIDField())).values_list("by", flat=True)[:most]
        for each in found
    ]
    return Counter(kept[0].union(*kept[1:], all=True)) if kept else Counter()


def _stopped_actions(freeze: Freeze) -> QuerySet[Action]:
    column = {"agent": "agent", "tool": "tool", "target": "target"}.get(freeze.scope)
    found = Action.objects.filter(in_state(State.VALIDATED), tenant_id=freeze.tenant_id)
    return found.filter(**{column: freeze.value}) if column else found


def freezes_on(tenant_id: UUID, *, agent: str, tool: str, target: str) -> list[Freeze]:
    """The freezes in force that cover this agent, tool or target."""
    covering = (
        "tenant_id = $1 AND lifted_at IS NULL AND (scope IN ('all', 'tenant') OR (scope = 'agent' AND value = $2)"
        " OR (scope = 'tool' AND value = $3) OR (scope = 'target' AND value = $4)) ORDER BY id"
    )
    return select(Freeze, covering, tenant_id, agent, tool, target)


def freezes_since(tenant_id: UUID, *, agent: str, tool: str, target: str, since: datetime) -> list[Freeze]:
    """The freezes that have covered this agent, tool or target at any time since then, oldest first."""
    covering = (
        "tenant_id = $1 AND (lifted_at IS NULL OR lifted_at > $5) AND (scope IN ('all', 'tenant')"
        " OR (scope = 'agent' AND value = $2) OR (scope = 'tool' AND value = $3)"
        " OR (scope = 'target' AND value = $4)) ORDER BY id"
    )
    return select(Freeze, covering, tenant_id, agent, tool, target, since)


def recent_freezes(tenant_id: UUID, *, since: datetime) -> list[Freeze]:
    """The freezes in force, and those that were lifted since then."""
    lately = Q(lifted_at__isnull=True) | Q(lifted_at__gt=since)
    return list(Freeze.objects.filter(lately, tenant_id=tenant_id).order_by("id"))


def frozen_actions(freeze: Freeze, *, limit: int) -> list[UUID]:
    """The validated actions that a freeze covers, oldest first."""
    column = {"agent": "agent", "tool": "tool", "target": "target"}.get(freeze.scope)
    found = Action.objects.filter(in_state(State.VALIDATED), tenant_id=freeze.tenant_id, approval_id__isnull=False)
    found = found.filter(**{column: freeze.value}) if column else found
    return list(found.order_by("id").values_list("id", flat=True)[:limit])
