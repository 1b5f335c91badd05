"""Session limits: a run that has reached its limit takes no more calls, in any of its sessions (R-FB-01, R-FB-06).

Only the sessions of one key share a fate: the name of a run is the caller's own choice, so it may not end somebody
else's. Recovery is not a step of the agent, and goes on.
"""

from __future__ import annotations

from datetime import datetime

from approvals.models import Session
from approvals.sessions import queries as sessions_queries
from ledger.db import execute
from ledger.record import operations as ledger

REACHED = "iteration_limit_reached"


def inherit_limit(session: Session) -> None:
    """Let a session know, as read, that its run was forced to end in another one."""
    if session.forced_at is None:
        session.forced_at = sessions_queries.limit_reached_at(session.tenant_id, session.run_id, session.key_actor)


def record_limit_reached(session: Session, *, at: datetime) -> None:
    """Put on record, once, that the session has come to the end of its run."""
    first = execute(
        "UPDATE approvals_session SET forced_at = $3 WHERE tenant_id = $1 AND id = $2 AND forced_at IS NULL"
        " RETURNING id",
        *(session.tenant_id, session.id, at),
    )
    session.forced_at = session.forced_at or at
    if not first:
        return
    ledger.append(
        ledger.lock_subject(tenant_id=session.tenant_id, subject_id=session.id, kind="session"),
        ledger.NewEvent(
            kind=REACHED,
            detail={"limit": session.iteration_limit, "calls": session.calls_accepted + session.calls_refused},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )
