"""When an approval was displayed to somebody: the access record says it, and votes and reports take it from there."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from approvals.requests.queries import approvals
from approvals.voting.operations import attention
from console.accounts import queries as accounts_queries
from console.api.auth import Caller
from console.pages.actions.action_record import payload_of
from ledger.actions.queries import actions


def record_displays(caller: Caller, approval_ids: Collection[UUID]) -> None:
    """Keep since when the caller has had these payloads before them, where the policy measures that.

    The read itself has put it on the access record, which is all that a read writes. What was never opened was not
    displayed, and what was erased is displayed to nobody.
    """
    opened = accounts_queries.first_sightings(caller.tenant_id, caller.actor.id, approval_ids)
    for approval in approvals.approvals_named(caller.tenant_id, opened).values():
        action = actions.action(caller.tenant_id, approval.action_id)
        payload = payload_of(action) if action is not None else None
        if payload is not None:
            attention.record_display(
                approval=approval, actor_id=caller.actor.id, payload_bytes=len(payload), at=opened[approval.id]
            )
