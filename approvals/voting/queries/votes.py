"""Reads of votes and of approval threads. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson
from django.db.models import (
    F,
    Q,
)

from approvals.models import (
    Approval,
    Comment,
    Delegation,
    Vote,
)
from approvals.requests.rules import threads
from approvals.voting.rules import binding
from approvals.voting.rules.quality import VoteFacts
from ledger.db import execute, fetch_one, select
from ledger.log.queries.proofs import ProvenEvent, proven_events
from ledger.record.rules.ids import lower_bound

# Each of these votes is looked up by its id, one after the other: no plan reads a whole table of approvals or actions.
_FACTS: Final = """
SELECT v.voter::text, approval.policy_row, action.agent, action.tool, v.verdict, coalesce(seen.payload_bytes, 0),
    extract(epoch FROM greatest(v.at - seen.served_at, interval '0'))::float8, seen.visible_s,
    jsonb_array_length(nullif(seen.opened, 'null')), action.state, action.contradicted
FROM (SELECT voter, approval_id, verdict, at FROM approvals_vote WHERE tenant_id = $1 AND id >= $2 AND id < $3
    ORDER BY id DESC LIMIT $4) AS v,
LATERAL (SELECT action_id, policy_row FROM approvals_approval WHERE tenant_id = $1 AND id = v.approval_id
    LIMIT 1) AS approval,
LATERAL (SELECT agent, tool, state, contradicted FROM ledger_action WHERE tenant_id = $1 AND id = approval.action_id
    LIMIT 1) AS action
LEFT JOIN LATERAL (SELECT payload_bytes, served_at, visible_s, opened FROM approvals_attention
    WHERE tenant_id = $1 AND approval_id = v.approval_id AND actor_id = v.voter LIMIT 1) AS seen ON true
"""


def vote_facts(tenant_id: UUID, *, since: datetime, until: datetime, limit: int) -> list[VoteFacts]:
    """Return the newest votes of a period, each with its circumstances."""
    rows = execute(_FACTS, tenant_id, lower_bound(since), lower_bound(until), limit)
    return [VoteFacts(*row) for row in rows]


def votes_by_approval(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, list[Vote]]:
    """The votes on several approvals, oldest first."""
    found: dict[UUID, list[Vote]] = {}
    for vote in select(Vote, "tenant_id = $1 AND approval_id = ANY($2) ORDER BY id", tenant_id, list(ids)):
        found.setdefault(vote.approval_id, []).append(vote)
    return found


def votes_of(tenant_id: UUID, approval_id: UUID) -> list[Vote]:
    return select(Vote, "tenant_id = $1 AND approval_id = $2 ORDER BY id", tenant_id, approval_id)


def thread_lines(tenant_id: UUID, approval_id: UUID) -> list[Comment]:
    """The thread of an approval, oldest first."""
    return select(Comment, "tenant_id = $1 AND approval_id = $2 ORDER BY id", tenant_id, approval_id)


def thread_line(tenant_id: UUID, line_id: UUID) -> Comment | None:
    return fetch_one(Comment, "tenant_id = $1 AND id = $2", tenant_id, line_id)


def open_questions(tenant_id: UUID, action_ids: Collection[UUID]) -> dict[UUID, list[Comment]]:
    """The questions that the agent has not answered, by the action that they are about, oldest first."""
    asked = Approval.objects.filter(tenant_id=tenant_id, action_id__in=action_ids, state__in=["PREPARING", "REQUESTED"])
    about = dict(asked.values_list("id", "action_id"))
    told: dict[UUID, list[Comment]] = {}
    for each in Comment.objects.filter(tenant_id=tenant_id, approval_id__in=list(about)).order_by("id"):
        told.setdefault(about[each.approval_id], []).append(each)
    waiting = {action_id: threads.open_questions(lines) for action_id, lines in told.items()}
    return {action_id: lines for action_id, lines in waiting.items() if lines}


def vote_times(tenant_id: UUID, voter: UUID, *, since: datetime, limit: int) -> list[datetime]:
    """The times of a person's recent votes."""
    found = Vote.objects.filter(tenant_id=tenant_id, id__gte=lower_bound(since), voter=voter)
    return list(found.order_by("-id").values_list("at", flat=True)[:limit])


def is_delegation_revoked(vote: Vote) -> bool:
    """Return whether the delegation that a vote used was revoked before it ended."""
    if vote.delegated_by is None:
        return False
    used = Delegation.objects.filter(
        tenant_id=vote.tenant_id,
        from_actor=vote.delegated_by,
        to_actor=vote.voter,
        starts_at__lte=vote.at,
        ends_at__gt=vote.at,
    )
    return used.exists() and not used.filter(Q(ended_at__isnull=True) | Q(ended_at__gte=F("ends_at"))).exists()


def votes_proof(tenant_id: UUID, approval_id: UUID) -> dict[str, Any] | None:
    """Proof of the votes for outsiders, from the signed log: each statement with its event and inclusion path.

    None where the newest signed checkpoint does not cover a vote that authorises.
    """
    statements = {
        row.statement_hash: bytes(row.statement)
        for row in votes_of(tenant_id, approval_id)
        if row.verdict in binding.AUTHORISING
    }
    checkpoint, found = proven_events(tenant_id, approval_id, "statement_hash")
    told = [(statements.pop(orjson.loads(each.detail)["statement_hash"], None), each) for each in found]
    if statements or not checkpoint:
        return None
    votes = [_vote_told(statement, each) for statement, each in told if statement is not None]
    return {"checkpoint": checkpoint.decode(), "votes": votes}


def _vote_told(statement: bytes, voucher: ProvenEvent) -> dict[str, Any]:
    return {
        "statement": statement.decode(),
        "index": voucher.index,
        "path": [each.hex() for each in voucher.path],
        "envelope": voucher.envelope.decode(),
        "detail": voucher.detail.decode(),
        "salt": voucher.salt.hex(),
    }
