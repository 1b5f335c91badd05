"""What is stopped around an action or a case, what could be, and what a freeze leaves open when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.urls import reverse

from approvals.agents import queries as agents_queries
from console.api.auth import Caller
from console.web import labels
from console.web.forms import FreezeForm
from ledger.actions.queries import freezes
from ledger.catalogue import queries as catalogue_queries
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
    """Say what is to be frozen: its name, exactly."""

    code = "NAME_REQUIRED"
    status = 422


class NotRegistered(Refused):
    """Nothing of this name is registered here, so nothing of it can be released. Nothing was frozen."""

    code = "NOT_REGISTERED"


class TargetUnknown(Refused):
    """No action and no case here has ever named this target, so the freeze may stop nothing. Nothing was frozen."""

    code = "TARGET_UNKNOWN"


def check_freeze_target(tenant_id: UUID, *, scope: str, value: str, unknown_ok: bool) -> bool:
    """Refuse to freeze what does not exist; true where the target is unknown and was wanted all the same.

    An agent or a tool that is not registered can do nothing, so its name is a mistake. A target exists in another
    system: one that no action has named yet is asked about, and may be frozen beforehand.
    """
    if scope in ("tenant", "all"):
        if value:
            raise NameNotAllowed
        return False
    if not value:
        raise NameMissing
    if scope == "agent" and agents_queries.agent(tenant_id, value) is None:
        raise NotRegistered("No agent of this name is registered here. Nothing was frozen.")
    if scope == "tool" and value not in catalogue_queries.tool_names(tenant_id):
        raise NotRegistered("No tool of this name is registered here. Nothing was frozen.")
    if scope != "target" or freezes.is_known_target(tenant_id, value) or after.is_case_target(tenant_id, value):
        return False
    if not unknown_ok:
        raise TargetUnknown(hint="Check its spelling; names are exact. Say `unknown_ok` to freeze it all the same.")
    return True


def validate_freeze_form(tenant_id: UUID, form: FreezeForm) -> bool:
    """The same for a form: what is refused stands beside its field."""
    chosen = form.cleaned_data
    try:
        return check_freeze_target(
            tenant_id, scope=chosen["scope"], value=chosen["value"], unknown_ok=chosen["unknown_ok"]
        )
    except TargetUnknown as refusal:
        form.add_error("unknown_ok", f"{refusal.detail} Check the spelling, or tick “Freeze anyway”.")
    except (NameMissing, NameNotAllowed, NotRegistered) as refusal:
        form.add_error("value", refusal.detail)
    return False


def freeze_placed_message(form: FreezeForm, is_unknown: bool) -> str:
    """What whoever placed a freeze is told."""
    if is_unknown:
        return f"Frozen. No action has named {form.cleaned_data['value']} yet; one that does will not be released."
    return "Frozen. Nothing new starts; running actions finish."


def open_work(freeze: Freeze) -> dict[str, list[Any]]:
    """The incidents that a freeze belongs to and the cases that it covers, as far as they are open."""
    return {
        "incidents": [row for row in after.incidents_of(freeze.tenant_id, freeze.id) if row.state == "OPEN"],
        "cases": after.open_cases_under(freeze, limit=100),
    }


def open_work_panel(tenant: Tenant, freeze: Freeze) -> dict[str, Any]:
    """The same for a page: links, and how many more there are."""
    found, slug = open_work(freeze), tenant.slug
    incidents = [
        {"href": reverse("incident", args=[slug, row.id]), "word": f"incident “{row.title}”"}
        for row in found["incidents"]
    ]
    cases = [
        {"href": reverse("case", args=[slug, row.id]), "word": f"case “{_called(row)}”"}
        for row in found["cases"][:MOST_OPEN]
    ]
    return {"links": [*incidents, *cases], "more": max(0, len(found["cases"]) - MOST_OPEN)}


def open_work_message(tenant: Tenant, freeze: Freeze) -> str:
    """The sentence about it for whoever has lifted the freeze."""
    found = open_work_panel(tenant, freeze)
    if not found["links"]:
        return "No case and no incident about it is open."
    more = f" and {found['more']} more cases" if found["more"] else ""
    return f"Still open: {', '.join(each['word'] for each in found['links'])}{more}."


def _called(case: Case) -> str:
    found = labels.discrepancy_label(case.discrepancy) if case.discrepancy else labels.case_reason_label(case.reason)
    return f"{found}: {case.tool} on {case.target}"


def containment_panel(
    tenant: Tenant, caller: Caller, *, agent: str = "", tool: str = "", target: str = ""
) -> dict[str, Any]:
    """The freezes that cover these, and the ones that could be placed from here."""
    covering = freezes.freezes_on(tenant.id, agent=agent, tool=tool, target=target)
    stopped = {(each.scope, each.value) for each in covering}
    named = (("target", "This target", target), ("tool", "This tool", tool), ("agent", "This agent", agent))
    return {
        "freezes": [{"freeze": each, "open": open_work_panel(tenant, each)} for each in covering],
        "may_freeze": bool({"operator", "administrator"} & caller.roles),
        "open": [
            {"scope": scope, "word": word, "value": value}
            for scope, word, value in named
            if value and (scope, value) not in stopped
        ],
        "place": reverse("freeze-place", args=[tenant.slug]),
    }
