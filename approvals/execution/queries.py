"""Reads of executors, grants and attempts. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from django.db.models import Count, Min, QuerySet
from django.db.models.expressions import RawSQL

from approvals.models import (
    Attempt,
    Deadline,
    Executor,
    Grant,
    StartOverride,
)
from approvals.sessions.queries import disclosed_contract
from ledger.actions.queries.actions import IS_OPEN, READY, action_columns, read_action
from ledger.catalogue.rules.effects import Reversibility
from ledger.db import columns, execute, fetch_one, load_models, select
from ledger.record.queries.work import HELD_TENANTS

if TYPE_CHECKING:
    from ledger.models import Action


def executor(tenant_id: UUID, executor_id: str) -> Executor | None:
    return fetch_one(Executor, "tenant_id = $1 AND executor_id = $2", tenant_id, executor_id)


def executors(tenant_id: UUID) -> list[Executor]:
    """The registered executors, in the order of their names."""
    return list(Executor.objects.filter(tenant_id=tenant_id).order_by("executor_id"))


def overrides_in_force(tenant_id: UUID, *, at: datetime) -> list[StartOverride]:
    """Return the overrides by which people let tools start although the record is older than a head seen before, oldest
    first.
    """
    found = StartOverride.objects.filter(tenant_id=tenant_id, ended_at__isnull=True, ends_at__gt=at)
    return list(found.order_by("id"))


def count_running_attempts() -> tuple[int, datetime | None]:
    """Count the attempts that run in all tenants, with the end of the last of their leases; needs no `tenancy`."""
    [(count, last)] = execute("SELECT count(*), max(due_at) FROM approvals_due WHERE what = 'lease'")
    return count, last


NEWEST_GRANTS = 1000
_LATEST_GRANTS = f"""
SELECT g.executor_id, max(g.minted_at), count(t.jti) FILTER (WHERE t.ended_at IS NULL)
FROM (SELECT * FROM approvals_grant WHERE tenant_id = $1 ORDER BY jti DESC LIMIT {NEWEST_GRANTS}) g
LEFT JOIN approvals_attempt t ON t.tenant_id = $1 AND t.jti = g.jti GROUP BY g.executor_id
"""


def executor_work(tenant_id: UUID) -> dict[str, tuple[datetime, int]]:
    """Each executor's last claim and its number of running attempts, from the newest thousand grants."""
    return {name: (at, running) for name, at, running in execute(_LATEST_GRANTS, tenant_id)}


def latest_attempts(tenant_id: UUID, executor_id: str, *, limit: int) -> list[Attempt]:
    """The newest attempts of an executor, among the newest thousand grants."""
    newest = Grant.objects.filter(tenant_id=tenant_id).order_by("-jti").values("jti")[:NEWEST_GRANTS]
    found = Attempt.objects.filter(
        tenant_id=tenant_id, executor_id=executor_id, jti__in=list(newest.values_list("jti", flat=True))
    )
    return list(found.order_by("-jti")[:limit])


def may_use(executor: Executor, key_actor: UUID) -> bool:
    """Return True if this API key may act as the executor: it registered it, or an operator registered it for
    any key.
    """
    return executor.key_actor in (key_actor, executor.id)


# The approved come first, and as an array: what waits for people is not looked at, however much of it there is. Nor is
# what a stopped agent has left, until it is ended (`agents.operations.stops`); the claim itself checks the registry.
STARTABLE: Final = f"""
SELECT a.id, EXISTS (SELECT FROM approvals_grant g WHERE g.tenant_id = $1 AND g.action_id = a.id
    AND g.consumed_at IS NULL AND g.voided_at IS NULL AND g.expires_at > clock_timestamp()) AS reserved
FROM ledger_action a WHERE a.tenant_id = $1 AND {READY}
    AND a.tool = ANY(ARRAY(SELECT t FROM approvals_executor x, jsonb_array_elements_text(x.tools) t
        WHERE x.tenant_id = $1 AND x.executor_id = $6 AND ($2::text[] IS NULL OR t = ANY($2::text[]))))
    AND (a.approval_id IS NULL OR a.id = ANY(ARRAY(
        SELECT p.action_id FROM approvals_approval p WHERE p.tenant_id = $1 AND p.state = 'APPROVED')))
    AND ($3::uuid IS NULL OR a.id > $3) AND ($4::uuid[] IS NULL OR a.id = ANY($4::uuid[]))
    AND EXISTS (SELECT FROM approvals_session s
        JOIN approvals_agent m ON m.tenant_id = $1 AND m.agent_id = s.agent_id
        JOIN approvals_agentversion b ON b.tenant_id = $1 AND b.agent_id = m.agent_id AND b.version = m.version
        WHERE s.tenant_id = $1 AND s.id = a.session_id
            AND m.revoked_at IS NULL AND s.agent_seq >= m.sessions_since AND b.tools ? a.tool)
ORDER BY a.id LIMIT $5
"""
"""The validated actions of an executor's tools ($6), or of these of them ($2), that wait for nobody's vote, oldest
first, behind an id ($3); of these alone ($4), if any are named. With each, whether a live grant reserves it, by the
clock of the database.
"""


def attempt(tenant_id: UUID, action_id: UUID, number: int) -> Attempt | None:
    return fetch_one(Attempt, "tenant_id = $1 AND action_id = $2 AND number = $3", tenant_id, action_id, number)


def has_attempt(tenant_id: UUID, action_id: UUID, number: int) -> bool:
    """Return whether this attempt of an action is on record."""
    return attempt(tenant_id, action_id, number) is not None


class ReportedAttempt(NamedTuple):
    """An attempt that its executor reports on; `erasure_id` is the request that its action was erased under."""

    contract_digest: str
    erasure_id: UUID | None
    timeout_s: int
    lease_expires_at: datetime
    executor_id: str
    tools: list[str]
    disclosed: list[str] | None


_REPORTED_ATTEMPT = """
SELECT a.contract_digest, r.erasure_id, t.timeout_s, t.lease_expires_at, x.executor_id, x.tools,
    (SELECT s.contract->'sub_tools_disclosed' FROM approvals_session s WHERE s.tenant_id = $1 AND s.id = a.session_id)
FROM ledger_action a
LEFT JOIN ledger_erased r ON r.tenant_id = $1 AND r.subject_id = a.id
LEFT JOIN approvals_attempt t ON t.tenant_id = $1 AND t.action_id = a.id AND t.number = $3
LEFT JOIN approvals_executor x ON x.tenant_id = $1 AND x.executor_id = t.executor_id AND x.key_actor IN ($4, x.id)
WHERE a.tenant_id = $1 AND a.id = $2
"""


def reported_attempt(tenant_id: UUID, action_id: UUID, number: int, *, key_actor: UUID) -> ReportedAttempt | None:
    """An attempt with its action, for a report by this API key; each part is None if it does not exist or the key may
    not use it.
    """
    rows = execute(_REPORTED_ATTEMPT, tenant_id, action_id, number, key_actor)
    return ReportedAttempt(*rows[0]) if rows else None


def attempts_of(tenant_id: UUID, action_id: UUID) -> list[Attempt]:
    return select(Attempt, "tenant_id = $1 AND action_id = $2 ORDER BY number", tenant_id, action_id)


_STARTED_WORK = f"""
SELECT {action_columns("a")}, {columns(Attempt, "t")} FROM ledger_action a
CROSS JOIN LATERAL (SELECT * FROM approvals_attempt n WHERE n.tenant_id = $1 AND n.action_id = a.id
    ORDER BY n.number DESC LIMIT 1) t
WHERE a.tenant_id = $1 AND a.agent = $2 AND {IS_OPEN} AND a.phase NOT IN ('PROPOSED', 'VALIDATED')
ORDER BY a.id DESC LIMIT $3
"""


def started_work(tenant_id: UUID, agent_id: str, *, limit: int) -> list[tuple[Action, Attempt]]:
    """Return an agent's actions that have started and not ended, newest first, each with its newest attempt."""
    found = []
    for row in execute(_STARTED_WORK, tenant_id, agent_id, limit):
        action, rest = read_action(row)
        [attempt], _ = load_models(rest, Attempt)
        found.append((action, attempt))
    return found


def due_work(*, at: datetime, limit: int = 200) -> list[tuple[UUID, UUID, str]]:
    """Return (tenant, subject, what) of leases and approvals that are due. Outside row-level security."""
    found = _due(at).exclude(what="stop").order_by("due_at")[:limit]
    return list(found.values_list("tenant_id", "subject_id", "what"))


def overdue_work(*, at: datetime, most: int = 10_000) -> tuple[int, datetime | None]:
    """Count what is due in all tenants, up to `most`, and since when the first is."""
    due = _due(at).order_by("due_at")[:most]
    found = due.aggregate(count=Count("due_at"), first=Min("due_at"))
    return found["count"], found["first"]


def stopped_agents(*, at: datetime, limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(tenant, agent) of the agents that have something left to end. Outside row-level security."""
    found = _due(at).filter(what="stop").order_by("due_at")[:limit]
    return list(found.values_list("tenant_id", "subject_id"))


def _due(at: datetime) -> QuerySet[Deadline]:
    return Deadline.objects.filter(due_at__lte=at).exclude(tenant_id__in=RawSQL(HELD_TENANTS, ()))


def preparing_approvals(*, limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(tenant, approval) of the approvals whose target is read first. Outside row-level security."""
    found = Deadline.objects.filter(what="prepare").order_by("due_at")[:limit]
    return list(found.values_list("tenant_id", "subject_id"))


def is_unverifiable(action: Action, unverifiable: Collection[str]) -> bool:
    """Return whether the action is irreversible and one of its systems is among `unverifiable`."""
    if not unverifiable or not action.mutating or action.reversibility != Reversibility.IRREVERSIBLE:
        return False
    verification = disclosed_contract(action.tenant_id, action.contract_digest).verification
    if verification is None:
        return False
    return any(system in unverifiable for system in (verification.system, *(s.system for s in verification.further)))
