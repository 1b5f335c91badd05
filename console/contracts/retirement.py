"""The consequences of retiring a version of a contract, and its dependants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries

if TYPE_CHECKING:
    from ledger.models import ContractVersion, Tenant

MOST_COUNTED = 100


def retirement_panel(tenant: Tenant, row: ContractVersion) -> dict[str, Any]:
    """The versions that end with this one, the actions that wait under them, and the tools with this one as their
    remedy.
    """
    in_force = catalogue_queries.contracts_in_force(tenant.id, [row.name]).get(row.name, [])
    leaving = [each for each in in_force if each.id <= row.id]
    ends_tool = len(leaving) == len(in_force)
    waiting = actions.count_ready_under(tenant.id, row.name, [each.version for each in leaving], most=MOST_COUNTED)
    listed = urlencode({"state": "VALIDATED", "tool": row.name})
    return {
        "earlier": [each.version for each in leaving if each.id != row.id],
        "ends_tool": ends_tool,
        "waiting": _count_text(waiting),
        "waiting_href": f"{reverse('actions', args=[tenant.slug])}?{listed}",
        "remedy_of": catalogue_queries.tools_remedied_by(tenant.id, row.name) if ends_tool else [],
    }


def _count_text(waiting: int) -> str:
    if waiting == 1:
        return "1 validated action"
    more = " or more" if waiting == MOST_COUNTED else ""
    return f"{waiting}{more} validated actions" if waiting else ""
