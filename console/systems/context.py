"""A system of record as the page, the API and the first page show it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.urls import reverse

from console.systems import credentials
from ledger.catalogue import queries as catalogue_queries
from reviews import queries as after
from reviews.checks.catalogue import described_system
from reviews.readback.operations import plans, systems
from reviews.readback.rules import circuit
from reviews.readback.rules.circuit import CircuitState
from reviews.readback.rules.limits import exceeded_budget
from reviews.readback.rules.schedule import StopReason, VerificationDebt
from reviews.systems.rules.description import BadDescription, Description

if TYPE_CHECKING:
    from console.systems.forms import SystemForm
    from ledger.models import System, Tenant

OVER = {
    "hour": "This hour's read budget is used up: waiting actions are read less often, the most severe ones most often.",
    "day": "Today's read budget is used up: waiting actions are read less often, the most severe ones most often.",
}


@dataclass(frozen=True, kw_only=True)
class SystemStatus:
    """One registered system: its answers, its verification debt, and whether irreversible actions are
    released to it.
    """

    id: UUID
    name: str
    pattern: str
    settings: dict[str, Any]
    proposal: dict[str, Any] | None
    health: Any
    standing: CircuitState
    debt: VerificationDebt
    limits: dict[str, int]
    stop: StopReason | None
    tried: bool | None


def change_sender(system: System | SystemStatus) -> UUID | None:
    """The sender of a system's pending change."""
    return UUID(system.proposal["by"]) if system.proposal else None


def all_systems(tenant_id: UUID, *, at: datetime) -> list[SystemStatus]:
    """All registered systems now, by name."""
    rows, answers = catalogue_queries.systems(tenant_id), after.health_by_system(tenant_id)
    debts = after.verification_debts(tenant_id, [row.id for row in rows], at=at)
    stops = after.release_stops(tenant_id, at=at)
    health = {row.id: answers.get(row.id) or systems.initial_health(tenant_id, row.id) for row in rows}
    return [
        SystemStatus(
            id=row.id,
            name=row.name,
            pattern=row.pattern,
            settings=row.settings,
            proposal=row.proposal,
            health=health[row.id],
            standing=circuit.circuit_state(systems.circuit_of(health[row.id]), at=at),
            debt=debts[row.id],
            limits=asdict(systems.limits_in_force(row.settings)),
            stop=stops.get(row.name),
            tried=_is_tried(row),
        )
        for row in rows
    ]


def _is_tried(row: System) -> bool | None:
    """Return whether a dry run has confirmed the description of a system here; None for one that has none."""
    description = description_of(row.pattern)
    return None if description is None else row.tried == description.digest


def description_of(pattern: str) -> Description | None:
    """The description by which a pattern is read; None if there is none, or it has faults."""
    try:
        return described_system(pattern)
    except BadDescription:
        return None


def standing_sentence(seen: Sequence[SystemStatus]) -> str:
    """The systems that do not answer, and the number of actions that wait to be read back, as a sentence."""
    if not seen:
        return "No system of record is registered: nothing can be verified."
    down = [each.name for each in seen if each.standing is not CircuitState.CLOSED]
    read = sum(each.health.last_read_at is not None for each in seen)
    waiting = sum(each.debt.waiting for each in seen)
    if down:
        first = f"{' and '.join(', '.join(down).rsplit(', ', 1))} {'does' if len(down) == 1 else 'do'} not answer."
    elif read == len(seen):
        first = "Every system answers."
    else:
        of = f"{len(seen)} system{'s' if len(seen) > 1 else ''}"
        first = f"{read or 'None'} of {of} {'has' if read < 2 else 'have'} been read; no reading fails."
    rest = f" {waiting:,} action{' waits' if waiting == 1 else 's wait'} to be verified." if waiting else ""
    return first + (rest or " No action waits to be verified.")


def contracts_by_system(tenant: Tenant) -> dict[str, list[dict[str, Any]]]:
    """The tools verified in each system: the newest version in force, and the number of earlier ones."""
    found: dict[str, list[dict[str, Any]]] = {}
    for system, versions in catalogue_queries.versions_by_system(tenant.id).items():
        counted = Counter(tool for tool, _ in versions)
        found[system] = [
            {
                "tool": tool,
                "version": version,
                "earlier": counted[tool] - 1,
                "href": reverse("contract", args=[tenant.slug, tool, version]),
            }
            for tool, version in dict(versions).items()
        ]
    return found


def credential_form(tenant: Tenant, form: SystemForm) -> dict[str, str]:
    """The place and form of the credential of a system that is being registered."""
    return _credential(tenant, "NAME" if form["name"].errors else form["name"].value() or "NAME", form.chosen)


def credential_status(tenant: Tenant, system: SystemStatus) -> dict[str, str]:
    """The place and form of a system's credential, and the fault of the present one."""
    _, missing = plans.system_access(tenant.id, tenant.slug, system.name)
    return {"missing": missing, **_credential(tenant, system.name, system.pattern)}


def _credential(tenant: Tenant, name: str, pattern: str) -> dict[str, str]:
    example = credentials.example_credential(pattern)
    return {
        "path": str(plans.credential_path(tenant.slug, name)),
        "example": json.dumps(example, indent=2) if example else "",
    }


@dataclass(frozen=True, kw_only=True)
class VerificationSpending:
    """The cost of verification: readings of this hour and day, and by system and tool in the last week."""

    in_hour: int
    in_day: int
    per_hour: int | None
    per_day: int | None
    over: str
    lines: list[dict[str, Any]]


def verification_spending(tenant_id: UUID, *, at: datetime) -> VerificationSpending:
    """The tenant's readings, and whether its budget is used up."""
    budget, spent = after.reading_budget(tenant_id), after.reading_usage(tenant_id, at=at)
    window = exceeded_budget(budget, spent)
    names = {row.id: row.name for row in catalogue_queries.systems(tenant_id)}
    lines = after.usage_by_tool(tenant_id, since=(at - timedelta(days=6)).date())
    return VerificationSpending(
        in_hour=spent.in_hour,
        in_day=spent.in_day,
        per_hour=budget.readings_per_hour,
        per_day=budget.readings_per_day,
        over=OVER.get(window or "", ""),
        lines=[
            {"system": names.get(system, "no system"), "tool": tool, "readings": count} for system, tool, count in lines
        ],
    )
