"""Records the calls of models that an agent reports for its session."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from approvals.models import ModelUsage
from approvals.sessions import queries as sessions_queries
from approvals.sessions.operations.sessions import note_use
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound


@dataclass(frozen=True, kw_only=True)
class ReportedUsage:
    """The calls of one model that an agent reports; None is not stated."""

    model: str
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    reference: str


def record_usage(
    *, tenant_id: UUID, session_id: UUID, key_actor: UUID, reported: ReportedUsage, at: datetime
) -> ModelUsage:
    """Record a report; also for a session that is closed, since its last call of a model may end after it."""
    session = sessions_queries.lock_session(tenant_id, session_id)
    if session is None or session.key_actor != key_actor:
        raise NotFound("Session")
    note_use(session=session, at=at)
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=session_id, kind="session")
    said = asdict(reported)
    happening = ledger.NewEvent(kind="model_usage_reported", detail={**said, "agent_id": session.agent_id})
    recorded = ledger.append(head, happening, actor=ledger.Actor("agent", session.actor_id), at=at)
    assert recorded.event_id is not None
    return ModelUsage.objects.create(
        tenant_id=tenant_id, id=recorded.event_id, session_id=session_id, agent_id=session.agent_id, at=at, **said
    )
