"""Votes, and what was said beside them. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
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
from ledger.db import fetch_one, select
from ledger.log.queries.proofs import ProvenEvent, proven_events
from ledger.record.rules.ids import lower_bound


def votes_between(tenant_id: UUID, *, since: datetime, until: datetime, limit: int = 20_000) -> list[Vote]:
    """The votes of a period, newest first."""
    found = Vote.objects.filter(tenant_id=tenant_id, id__gte=lower_bound(since), id__lt=lower_bound(until))
    return list(found.defer("statement").order_by("-id")[:limit])


def votes_by_approval(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, list[Vote]]:
    """The votes on several approvals, oldest first."""
    found: dict[UUID, list[Vote]] = {}
    for vote in Vote.objects.filter(tenant_id=tenant_id, approval_id__in=ids).order_by("id"):
        found.setdefault(vote.approval_id, []).append(vote)
    return found


def votes_of(tenant_id: UUID, approval_id: UUID) -> list[Vote]:
    return select(Vote, "tenant_id = $1 AND approval_id = $2 ORDER BY id", tenant_id, approval_id)


def thread_lines(tenant_id: UUID, approval_id: UUID) -> list[Comment]:
    """The thread of an approval, oldest first."""
    return list(Comment.objects.filter(tenant_id=tenant_id, approval_id=approval_id).order_by("id"))


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
    """When somebody voted lately."""
    found = Vote.objects.filter(tenant_id=tenant_id, id__gte=lower_bound(since), voter=voter)
    return list(found.order_by("-id").values_list("at", flat=True)[:limit])


def is_delegation_revoked(vote: Vote) -> bool:
    """Whether the power that a vote used was taken back since, before its time was over."""
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
    """What shows an outsider that people voted so, from the signed log: each statement with its event and its path.

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
