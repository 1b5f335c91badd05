"""Reads of sessions, their disclosed contracts and budgets. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import (
    Count,
)

from approvals.models import (
    Call,
    Session,
    Spending,
)
from approvals.sessions.rules import pins
from ledger.catalogue.queries import registered_contract
from ledger.db import fetch_one, select


def session(tenant_id: UUID, session_id: UUID) -> Session | None:
    return fetch_one(Session, "tenant_id = $1 AND id = $2", tenant_id, session_id)


def pin_of(session: Session, *, quiet: timedelta) -> pins.Pin:
    """The pin of a session, which has expired if the session was idle too long."""
    return pins.Pin(
        session_id=str(session.id),
        goal=session.goal,
        hash=session.pin_hash,
        pinned_at=session.pinned_at,
        expires_at=session.pin_expires_at,
        used_at=session.used_at,
        quiet=quiet,
    )


def count_refused_calls(tenant_id: UUID, session_id: UUID) -> dict[str, int]:
    """Count the calls of a session that were refused and left no action, by code."""
    found = Call.objects.filter(tenant_id=tenant_id, session_id=session_id, accepted=False, action_id__isnull=True)
    return dict(found.values_list("code").annotate(made=Count("id")).order_by("code"))


def lock_session(tenant_id: UUID, session_id: UUID) -> Session | None:
    """Lock a session, so that its calls run one at a time until the end of the transaction."""
    return fetch_one(Session, "tenant_id = $1 AND id = $2 FOR NO KEY UPDATE", tenant_id, session_id)


def lock_continued(tenant_id: UUID, first_id: UUID) -> list[Session]:
    """Lock a session and those that continue it, behind the first one, oldest first."""
    first = lock_session(tenant_id, first_id)
    rest = "tenant_id = $1 AND first_id = $2 ORDER BY id FOR NO KEY UPDATE"
    return [*([first] if first is not None else []), *select(Session, rest, tenant_id, first_id)]


def sessions_by_id(tenant_id: UUID, ids: set[UUID]) -> dict[UUID, Session]:
    return {each.id: each for each in select(Session, "tenant_id = $1 AND id = ANY($2)", tenant_id, list(ids))}


def sessions_of_key(tenant_id: UUID, key_actor: UUID) -> list[UUID]:
    """The newest sessions that an API key opened."""
    found = Session.objects.filter(tenant_id=tenant_id, key_actor=key_actor).order_by("-id")
    return list(found.values_list("id", flat=True)[:5000])


def sessions(tenant_id: UUID, *, before: UUID | None = None, limit: int = 50) -> list[Session]:
    found = Session.objects.filter(tenant_id=tenant_id)
    return list((found.filter(id__lt=before) if before else found).order_by("-id")[:limit])


def sessions_of(tenant_id: UUID, agent_id: str, *, before: UUID | None = None, limit: int = 50) -> list[Session]:
    """The sessions of an agent, newest first."""
    found = Session.objects.filter(tenant_id=tenant_id, agent_id=agent_id)
    return list((found.filter(id__lt=before) if before else found).order_by("-id")[:limit])


def open_sessions(tenant_id: UUID, agent_id: str, *, at: datetime, most: int = 100) -> int:
    """Count the sessions of an agent that still take calls, up to `most`."""
    found = Session.objects.filter(tenant_id=tenant_id, agent_id=agent_id, closed_at__isnull=True)
    return found.filter(pin_expires_at__gt=at)[:most].count()


def budget_spending(
    tenant_id: UUID, *, agent_id: str, session_ids: Collection[UUID] = (), limit: int = 100
) -> list[Spending]:
    """Budget use of an agent and of some of its sessions, newest window first."""
    holders = [f"agent:{agent_id}", *(f"session:{each}" for each in session_ids)]
    found = Spending.objects.filter(tenant_id=tenant_id, holder__in=holders)
    return list(found.order_by("-window_from", "holder", "budget", "unit")[:limit])


disclosed_contract = registered_contract
