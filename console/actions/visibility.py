"""The actions that a caller may see, and the refusal of what was erased."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from approvals.sessions import queries as sessions_queries
from ledger.actions.queries import actions
from ledger.record.operations import Actor
from ledger.record.rules.encryption import EvidenceErased
from ledger.record.rules.refusals import NotFound
from ledger.retention import queries as retention_queries


def visible_action(tenant_id: UUID, by: Actor, action_id: UUID, *, or_erased: bool = False) -> Any:
    """The action, if the caller may see it: an agent key sees those of its own sessions.

    Of one that was erased nothing is left to answer with but its bare events.
    """
    action = actions.action(tenant_id, action_id)
    if action is None:
        raise NotFound
    if by.kind == "agent":
        session = sessions_queries.session(tenant_id, action.session_id)
        if session is None or session.key_actor != by.id:
            raise NotFound
    gone = None if or_erased else retention_queries.erased_subject(tenant_id, action_id)
    if gone is not None:
        raise erasure_refusal(gone.erasure_id)
    return action


def erasure_refusal(erasure_id: UUID) -> EvidenceErased:
    """The refusal of what an erased action could answer with."""
    return EvidenceErased(f"This was erased under request {erasure_id}; its events stay at /history.")
