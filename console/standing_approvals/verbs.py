"""The writes about standing approvals and time-boxed passes, but their proposal, that page and API share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from approvals.standing.operations import agreement, time_boxes
from console.accounts.step_up import proof_class
from console.edge.schemas import ReasonBody
from console.standing_approvals import schemas
from console.verbs.verb import Proof, Verb
from ledger.record.operations import Actor
from ledger.record.rules.refusals import ProofNeeded

if TYPE_CHECKING:
    from approvals.models import StandingApproval

REVIEWER: Final = ("reviewer",)
STOPPERS: Final = ("reviewer", "operator")
STOPPED: Final = "Stopped. Each call needs approval again."


def proof_of_word(request: Any, password: str | None, code: str | None) -> str:
    """The class of the proof that was given with a word; the policy decides whether it is enough."""
    evidence_class = proof_class(request, request.user, password, code)
    if not evidence_class:
        raise ProofNeeded
    return evidence_class


def _answer(
    *,
    tenant_id: UUID,
    standing_approval_id: UUID,
    agree: bool,
    reason: str,
    evidence_class: str,
    by: Actor,
    at: datetime,
) -> StandingApproval:
    return agreement.answer(
        tenant_id=tenant_id,
        standing_id=standing_approval_id,
        agrees=agree,
        reason=reason,
        evidence_class=evidence_class,
        by=by,
        at=at,
    )


def _resume(
    *, tenant_id: UUID, standing_approval_id: UUID, reason: str, evidence_class: str, by: Actor, at: datetime
) -> StandingApproval:
    return agreement.propose_resume(
        tenant_id=tenant_id,
        standing_id=standing_approval_id,
        reason=reason,
        evidence_class=evidence_class,
        by=by,
        at=at,
    )


def _stop(
    stop: Callable[..., StandingApproval],
    *,
    tenant_id: UUID,
    standing_approval_id: UUID,
    reason: str,
    by: Actor,
    at: datetime,
) -> StandingApproval:
    return stop(tenant_id=tenant_id, standing_id=standing_approval_id, reason=reason, by=by, at=at)


WORD: Final = Proof("evidence_class", proof_of_word)
ANSWER: Final = Verb(
    name="answer",
    path="/standing-approvals/{standing_approval_id}/answer",
    operation=_answer,
    body=schemas.StandingAnswerBody,
    proof=WORD,
    roles=REVIEWER,
    answer=schemas.StandingApproval,
    summary="Agree to or decline a standing approval as the second person",
    done=lambda row: "In force: matching calls pass within the budget." if row.state == "ACTIVE" else "Declined.",
)
RESUME: Final = Verb(
    name="resume",
    path="/standing-approvals/{standing_approval_id}/resume",
    operation=_resume,
    body=schemas.StandingWordBody,
    proof=WORD,
    roles=REVIEWER,
    answer=schemas.StandingApproval,
    summary="Propose resuming a paused standing approval; another person must agree",
    done="Proposed. It resumes once another person agrees.",
)
PAUSE: Final = Verb(
    name="pause",
    path="/standing-approvals/{standing_approval_id}/pause",
    operation=partial(_stop, agreement.pause),
    body=ReasonBody,
    roles=STOPPERS,
    answer=schemas.StandingApproval,
    summary="Pause a standing approval; passed actions that have not started need a vote again",
    done=STOPPED,
)
END: Final = Verb(
    name="end",
    path="/standing-approvals/{standing_approval_id}/end",
    operation=partial(_stop, agreement.end),
    body=ReasonBody,
    roles=STOPPERS,
    answer=schemas.StandingApproval,
    summary="End a standing approval, or withdraw a proposal",
    done=STOPPED,
)
GIVE: Final = Verb(
    name="give_time_boxed_pass",
    path="/approvals/{approval_id}/time-boxed-pass",
    operation=time_boxes.give,
    body=schemas.TimeBoxBody,
    proof=WORD,
    roles=REVIEWER,
    answer=schemas.StandingApproval,
    status=201,
    summary="Let calls of the shape of this request through for a while, alone; the request itself still waits",
    done="Such calls pass without a vote now. This request still waits for a decision.",
)
REVOKE: Final = Verb(
    name="revoke_time_boxed_pass",
    path="/standing-approvals/{standing_approval_id}/revoke",
    operation=partial(_stop, time_boxes.revoke),
    body=schemas.RevocationBody,
    roles=STOPPERS,
    answer=schemas.StandingApproval,
    summary="Revoke a time-boxed pass; passed actions that have not started need a vote",
    done="Revoked. Each call needs approval again.",
)
