"""Records agent behaviour that operators should see: goal drift and probing for undisclosed tools.

Both are on record with the session beside the gate's own log, so that neither can be rewritten (R-PA-09, R-TG-11).
"""

from __future__ import annotations

from datetime import datetime

from psycopg.types.json import Jsonb

from approvals.agents.rules.acceptance import UNDISCLOSED_NAMES
from approvals.gate.rules.gate import GateVerdict
from approvals.gate.rules.proposals import Proposal
from approvals.models import Session
from approvals.policy.rules import autonomy
from approvals.sessions.rules import pins
from ledger.catalogue import queries as catalogue_queries
from ledger.db import execute
from ledger.record import operations as ledger
from ledger.record.rules.canonical import NotCanonical, digest


def flag_refused_call(session: Session, call: Proposal, verdict: GateVerdict, *, at: datetime) -> None:
    """Record goal drift or probing if a refused call shows it."""
    if verdict.code in UNDISCLOSED_NAMES:
        _probing(session, call.tool, at=at)
    elif verdict.code == pins.AskDrift.code and (call.goal is not None or call.pin_hash is not None):
        record_goal_drift(session, goal=call.goal, sent_hash=call.pin_hash, call_id=call.call_id, at=at)


def record_goal_drift(
    session: Session, *, goal: str | None, sent_hash: str | None, call_id: str = "", at: datetime
) -> None:
    """Record that a restated goal differs from the pinned one: both hashes and the restated text (R-PA-09)."""
    text = (goal or "").encode("utf-8", "replace")
    evidence: tuple[ledger.SealedEvidence, ...] = ()
    if text:
        evidence = (
            ledger.store_evidence(
                tenant_id=session.tenant_id,
                subject_id=session.id,
                purpose="restated_goal",
                data=text[: pins.MAX_GOAL * 4],
                media_type="text/plain",
                source=f"agent {session.agent_id}",
                at=at,
            ),
        )
    detail = {"call_id": call_id, "pin_hash": session.pin_hash, "restated_hash": _hash(session, goal, sent_hash)}
    _append(session, ledger.NewEvent(kind="ask_drifted", detail=detail, evidence=evidence), at=at)


def _hash(session: Session, goal: str | None, sent_hash: str | None) -> str:
    """Return the hash of the restated goal, or a sent hash unchanged; None if the text cannot be hashed."""
    if goal is None:
        return (sent_hash or "")[:64].encode("ascii", "replace").decode()
    try:
        return pins.pin_hash(session_id=str(session.id), goal=goal)
    except NotCanonical:
        return ""


def _probing(session: Session, tool: str, *, at: datetime) -> None:
    """Count the name if it is new; the session is locked, so that no name is counted twice or lost."""
    name = digest(tool.encode("utf-8", "replace"))[:16]
    if session.probing_at is not None or name in session.probed:
        return
    policy = catalogue_queries.active_policies(session.tenant_id)["autonomy"]
    most = autonomy.load_stored(bytes(policy.document)).watch.probing_names
    session.probed = [*session.probed, name]
    session.probing_at = at if len(session.probed) >= most else None
    execute(
        "UPDATE approvals_session SET probed = $3, probing_at = $4 WHERE tenant_id = $1 AND id = $2",
        *(session.tenant_id, session.id, Jsonb(session.probed), session.probing_at),
    )
    if session.probing_at is not None:
        _append(session, ledger.NewEvent(kind="probing_flagged", detail={"names": len(session.probed)}), at=at)


def _append(session: Session, happening: ledger.NewEvent, *, at: datetime) -> None:
    head = ledger.lock_subject(tenant_id=session.tenant_id, subject_id=session.id, kind="session")
    ledger.append(head, happening, actor=ledger.Actor("agent", session.actor_id), at=at)
