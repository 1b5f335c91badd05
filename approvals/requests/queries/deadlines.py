"""Reads of the policy and the deadlines of an approval. Every one runs inside `tenancy`."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from uuid import UUID

from approvals.models import (
    Approval,
)
from approvals.policy.rules import policy
from approvals.requests.rules import clocks
from approvals.voting.queries.votes import thread_lines
from ledger.actions.queries import actions, freezes
from ledger.catalogue import queries as catalogue_queries
from ledger.record.queries import events


def policy_of(approval: Approval) -> policy.ApprovalPolicy:
    """Return the policy under which an approval was requested."""
    return _policy(approval.tenant_id, approval.policy_version)


@lru_cache(maxsize=1024)
def _policy(tenant_id: UUID, version: str) -> policy.ApprovalPolicy:
    """Return a released version of a policy, cached because versions never change."""
    row = catalogue_queries.policy_version(tenant_id, "approval", version)
    assert row is not None
    return policy.load_stored(bytes(row.document))


def schedule_of(approval: Approval) -> clocks.Schedule:
    """The schedule of an approval: reminders and escalation."""
    return clocks.make_schedule(policy_of(approval), approval.terms)


def clock_of(approval: Approval, *, at: datetime) -> clocks.Clock:
    """The clock of an open approval: until it is decided, or then until it must have started."""
    deciding = approval.state != "APPROVED"
    began = approval.requested_at if deciding else approval.decided_at or approval.requested_at
    stops = _stops(approval, since=began, deciding=deciding)
    ends_at = approval.decide_by if deciding else approval.release_by or approval.decide_by
    if not stops and approval.paused_at is None:
        return clocks.compute_clock(began=began, allowed=ends_at - began, at=at)
    wanted = schedule_of(approval)
    allowed = _allowed_time(approval) if deciding else wanted.release_within
    return clocks.compute_clock(began=began, allowed=allowed, stops=stops, patience=wanted.patience, at=at)


def _allowed_time(approval: Approval) -> timedelta:
    """The time that people were given at first, by the deadline in the request's first event."""
    told = (detail for event, _, detail in events.history(approval.tenant_id, approval.id) if detail)
    first_said = next((detail["decide_by"] for detail in told if "decide_by" in detail), None)
    return (datetime.fromisoformat(first_said) if first_said else approval.decide_by) - approval.requested_at


def _stops(approval: Approval, *, since: datetime, deciding: bool) -> list[clocks.Stop]:
    action = actions.action(approval.tenant_id, approval.action_id)
    assert action is not None
    stops = [
        clocks.Stop(clocks.StopReason.FREEZE, freeze.placed_at, freeze.lifted_at)
        for freeze in freezes.freezes_since(
            approval.tenant_id, agent=action.agent, tool=action.tool, target=action.target, since=since
        )
    ]
    return stops + (_questions(approval) if deciding else [])


def _questions(approval: Approval) -> list[clocks.Stop]:
    lines = thread_lines(approval.tenant_id, approval.id)
    answered = {line.answers: line.at for line in lines if line.kind == "answer"}
    return [
        clocks.Stop(clocks.StopReason.QUESTION, line.at, answered.get(line.id))
        for line in lines
        if line.kind == "question"
    ]


def authors_of_policy(tenant_id: UUID, version: str) -> tuple[UUID, ...]:
    """Return the authors of a version of the approval policy: the person who drafted it, and the two who
    promoted it.
    """
    try:
        return _authors(tenant_id, version)
    except LookupError:
        return ()


@lru_cache(maxsize=1024)
def _authors(tenant_id: UUID, version: str) -> tuple[UUID, ...]:
    """The authors of a version, which never change: a process reads each once."""
    row = catalogue_queries.policy_version(tenant_id, "approval", version)
    if row is None:
        raise LookupError(f"no approval policy {version}")
    release = catalogue_queries.release(tenant_id, row.release_id) if row.release_id else None
    found = (release.author, release.first_by, release.promoted_by) if release else ()
    return tuple(filter(None, found or (events.creator_of(tenant_id, row.id),)))


@lru_cache(maxsize=1024)
def approval_policy(tenant_id: UUID, digest: str) -> policy.ApprovalPolicy:
    """A version of the approval policy by its digest, which its document has for good."""
    row = catalogue_queries.policy_by_digest(tenant_id, "approval", digest)
    rules = policy.load_stored(bytes(row.document)) if row is not None else None
    if rules is None or rules.digest != digest:
        raise LookupError(f"no approval policy {digest}")
    return rules
