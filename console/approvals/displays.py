"""The displays of approvals: recorded in the access record, and used by votes and page reports."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from approvals.voting.operations import attention
from console.accounts import queries as accounts_queries
from console.edge.auth import Caller


def record_displays(caller: Caller, approval_ids: Collection[UUID]) -> None:
    """Keep since when the caller has had these payloads before them, where the policy measures that.

    The read itself has put it on the access record, which is all that a read writes. What was never opened was not
    displayed, and what was erased is displayed to nobody.
    """
    opened = accounts_queries.first_sightings(caller.tenant_id, caller.actor.id, approval_ids)
    if opened:
        attention.record_displays(tenant_id=caller.tenant_id, actor_id=caller.actor.id, opened=opened)
