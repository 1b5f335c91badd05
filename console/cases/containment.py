"""The freezes around an action or a case, the possible ones, and the work left open when one ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.urls import reverse

from approvals.agents import queries as agents_queries
from console.edge.auth import Caller
from console.web import labels
from console.web.forms import FreezeForm
from ledger.actions.queries import freezes
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations.registration import AlreadyFrozen
from ledger.catalogue.rules.targets import target_text
from ledger.record.rules.refusals import Refused
from reviews import queries as after

if TYPE_CHECKING:
    from ledger.models import Freeze, Tenant
    from reviews.models import Case

MOST_OPEN = 5
"""How many open cases of a freeze are named; more are counted only."""


class NameNotAllowed(Refused):
    """A freeze of this tenant or of everything has no name: leave it empty, or choose what the name is of."""

    code = "NAME_NOT_WANTED"
    status = 422


class NameMissing(Refused):
    """Enter the exact name of what to freeze."""

    code = "NAME_REQUIRED"
    status = 422


class NotRegistered(Refused):
    """Nothing with this name is registered here, so the freeze would have no effect now. Nothing was frozen."""

    code = "NOT_REGISTERED"


class TargetUnknown(Refused):
    """No action or case here has named this target, so the freeze may have no effect. Nothing was frozen."""

    code = "TARGET_UNKNOWN"


class NothingRestsOnSystem(Refused):
    """No contract in force is verified in a system of this name, so there is no tool to freeze. Nothing was frozen."""

    code = "NOT_REGISTERED"


def check_freeze_target(tenant_id: UUID, *, scope: str, value: str, unknown_ok: bool) -> bool:
    """Require a second confirmation before an unknown name is frozen; return True if it was given.

    An agent, a tool or a target may be frozen beforehand; most often the name is a mistake.
    """
    if scope in ("tenant", "all"):
        if value:
            raise NameNotAllowed
        return False
    if not value:
        raise NameMissing
    try:
        _check_name(tenant_id, scope, value)
    except (NotRegistered, TargetUnknown):
        if not unknown_ok:
            raise
        return True
    return False


def _check_name(tenant_id: UUID, scope: str, value: str) -> None:
    """Refuse an unknown name."""
    hint = "Check the spelling; names are exact. Send `unknown_ok` to freeze it anyway."
    if scope == "agent" and agents_queries.agent(tenant_id, value) is None:
        raise NotRegistered("No agent with this name is registered here. Nothing was frozen.", hint=hint)
    if scope == "tool" and value not in catalogue_queries.tool_names(tenant_id):
        raise NotRegistered("No tool with this name is registered here. Nothing was frozen.", hint=hint)
    if scope == "target" and not (freezes.is_known_target(tenant_id, value) or after.is_case_target(tenant_id, value)):
        raise TargetUnknown(hint=hint)


def freezes_asked_for(tenant_id: UUID, form: FreezeForm) -> list[dict[str, Any]]:
    """The freezes of a valid form; a refusal is shown at its field.

    A system is frozen as the tools whose contracts in force are verified in it, for it is tools that agents call.
    """
    chosen = form.cleaned_data
    scope, value, reason = chosen["scope"], chosen["value"], chosen["reason"]
    try:
        if scope == "system":
            return [
                {"scope": "tool", "value": tool, "reason": reason, "is_unknown": False}
                for tool in _tools_to_freeze(tenant_id, value)
            ]
        is_unknown = check_freeze_target(tenant_id, scope=scope, value=value, unknown_ok=chosen["unknown_ok"])
        return [{"scope": scope, "value": value, "reason": reason, "is_unknown": is_unknown}]
    except (NotRegistered, TargetUnknown) as refusal:
        form.add_error("unknown_ok", f"{refusal.detail} Check the spelling, or tick “Freeze anyway”.")
    except (NameMissing, NameNotAllowed, NothingRestsOnSystem) as refusal:
        form.add_error("value", refusal.detail)
    return []


def _tools_to_freeze(tenant_id: UUID, system: str) -> list[str]:
    """The tools verified in a system that are not frozen yet."""
    tools = list(dict.fromkeys(tool for tool, _ in catalogue_queries.versions_by_system(tenant_id).get(system, [])))
    if not tools:
        raise NothingRestsOnSystem
    frozen = {each.value for each in freezes.freezes_in_force(tenant_id) if each.scope == "tool"}
    left = [each for each in tools if each not in frozen]
    if not left:
        raise AlreadyFrozen(f"Every tool that is verified in {system} is already frozen.")
    return left


def freezes_placed_message(form: FreezeForm, placed: list[dict[str, Any]]) -> str:
    """The message for the person who placed freezes."""
    scope, value = form.cleaned_data["scope"], form.cleaned_data["value"]
    if scope == "system":
        tools = ", ".join(each["value"] for each in placed)
        return (
            f"Frozen: {tools}, {'the tool' if len(placed) == 1 else 'the tools'} verified in {value}."
            " New actions are blocked; running actions finish. Tools registered later are not frozen."
        )
    if not placed[0]["is_unknown"]:
        return "Frozen. New actions are blocked; running actions finish."
    if scope == "target":
        return f"Frozen. No action has named {value} yet; one that does will not be released."
    return f"Frozen. No {scope} is registered as {value} yet; actions of one that is will not be released."


MOST_OFFERED = 200


def freeze_choices(tenant_id: UUID) -> dict[str, list[tuple[str, str]]]:
    """The choices for a freeze, by kind: registered and not revoked objects, and the targets of the newest actions."""
    agents = [each.agent_id for each in agents_queries.agents(tenant_id, limit=MOST_OFFERED) if not each.revoked_at]
    systems = catalogue_queries.versions_by_system(tenant_id)
    # The target of a refused call may be the template of one.
    targets = [each for each in freezes.recent_targets(tenant_id) if "{" not in each]
    named = {
        "Agents": ("agent", agents),
        "Tools": ("tool", sorted(catalogue_queries.tool_names(tenant_id))[:MOST_OFFERED]),
        "Systems, with every tool verified in them": ("system", sorted(systems)[:MOST_OFFERED]),
        "Targets of recent actions": ("target", targets),
    }
    return {kind: [(f"{scope}:{name}", name) for name in names] for kind, (scope, names) in named.items() if names}


def open_work(tenant_id: UUID, found: Sequence[Freeze]) -> dict[UUID, dict[str, list[Any]]]:
    """By freeze the incidents that it belongs to and the cases that it covers, as far as they are open."""
    incidents = after.incidents_by_freeze(tenant_id, [each.id for each in found])
    cases = after.open_cases_under(found, limit=100)
    return {
        each.id: {
            "incidents": [row for row in incidents[each.id] if row.state == "OPEN"],
            "cases": cases[each.id],
        }
        for each in found
    }


def open_work_panels(tenant: Tenant, found: Sequence[Freeze]) -> dict[UUID, dict[str, Any]]:
    """The same for a page: links, and the number of further ones."""
    return {freeze_id: _panel(tenant.slug, work) for freeze_id, work in open_work(tenant.id, found).items()}


def _panel(slug: str, found: dict[str, list[Any]]) -> dict[str, Any]:
    incidents = [
        {"href": reverse("incident", args=[slug, row.id]), "word": f"incident “{row.title}”"}
        for row in found["incidents"]
    ]
    cases = [
        {"href": reverse("case", args=[slug, row.id]), "word": f"case “{_case_title(row)}”"}
        for row in found["cases"][:MOST_OPEN]
    ]
    return {"links": [*incidents, *cases], "more": max(0, len(found["cases"]) - MOST_OPEN)}


def open_work_message(tenant: Tenant, freeze: Freeze) -> str:
    """The sentence about unresolved work for the person who has lifted the freeze."""
    found = open_work_panels(tenant, [freeze])[freeze.id]
    if not found["links"]:
        return "No related case or incident is open."
    more = f" and {found['more']} more cases" if found["more"] else ""
    return f"Unresolved: {', '.join(each['word'] for each in found['links'])}{more}."


def _case_title(case: Case) -> str:
    return f"{labels.case_label(case)}: {case.tool} on {target_text(case.target)}"


def containment_panel(
    tenant: Tenant, caller: Caller, *, agent: str = "", tool: str = "", target: str = ""
) -> dict[str, Any]:
    """The freezes that cover these, and the ones that could be placed from here."""
    covering = freezes.freezes_on(tenant.id, agent=agent, tool=tool, target=target)
    stopped = {(each.scope, each.value) for each in covering}
    panels = open_work_panels(tenant, covering)
    named = (("target", "This target", target), ("tool", "This tool", tool), ("agent", "This agent", agent))
    return {
        "freezes": [{"freeze": each, "open": panels[each.id]} for each in covering],
        "may_freeze": bool({"operator", "administrator"} & caller.roles),
        "open": [
            {"scope": scope, "word": word, "value": value}
            for scope, word, value in named
            if value and (scope, value) not in stopped
        ],
        "place": reverse("freeze-place", args=[tenant.slug]),
    }
