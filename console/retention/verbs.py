"""Every write about legal holds, erasures and retention policies. Destruction takes two people."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from console.edge.schemas import ReasonBody
from console.retention import schemas
from console.retention.erasure import RequestedErasure, request_erasure
from console.verbs.verb import FRESH, Ids, Verb
from ledger.people.rules.confirmation import Answer
from ledger.record.operations import Actor
from ledger.retention.operations import erasure, off_boarding, retention
from ledger.retention.rules.retention import RetentionPolicy

if TYPE_CHECKING:
    from ledger.models import Retention

COMPLIANCE: Final = ("compliance",)
NO_REASON: Final = "Nothing changed: enter a reason."


def _propose_policy(
    *, tenant_id: UUID, payload_days: int, envelope_days: int, floor_days: int, standing: bool, by: Actor, at: datetime
) -> Retention:
    policy = RetentionPolicy(
        payload_days=payload_days, envelope_days=envelope_days, floor_days=floor_days, standing=standing
    )
    return retention.propose_policy(tenant_id=tenant_id, policy=policy, by=by, at=at)


def _requested_answer(found: RequestedErasure, ids: Ids) -> schemas.ErasureAsked:
    stays = [schemas.WhatStays(kind=kind, id=each, reason=why) for kind, each, why in found.stays]
    return schemas.ErasureAsked.of(found.row, stays=stays)


def _requested_sentence(found: RequestedErasure) -> str:
    stays = f" {len(found.stays)} that belong to them stay." if found.stays else ""
    subjects = f"{found.row.subjects} subject{'' if found.row.subjects == 1 else 's'}"
    return f"Erasure of {subjects} requested. Another person with the role compliance must confirm it.{stays}"


REQUEST_ERASURE: Final = Verb(
    name="ask",
    path="/erasures",
    operation=request_erasure,
    body=schemas.ErasureBody,
    roles=COMPLIANCE,
    answer=schemas.ErasureAsked,
    told=_requested_answer,
    status=201,
    summary="Request erasure of actions with their approvals, cases and sessions",
    done=_requested_sentence,
)
CONFIRM_ERASURE: Final = Verb(
    name="confirm",
    path="/erasures/{erasure_id}/confirm",
    operation=partial(erasure.answer_erasure, answer=Answer.CONFIRM),
    body=schemas.PasswordBody,
    proof=FRESH,
    roles=COMPLIANCE,
    answer=schemas.Erasure,
    summary="Confirm an erasure as the second person, with a fresh proof of identity; it starts within seconds",
    done="Confirmed. It is erased within seconds unless a hold covers it.",
    incomplete=NO_REASON,
)
REFUSE_ERASURE: Final = Verb(
    name="refuse",
    path="/erasures/{erasure_id}/refuse",
    operation=partial(erasure.answer_erasure, answer=Answer.DECLINE),
    body=ReasonBody,
    roles=COMPLIANCE,
    answer=schemas.Erasure,
    summary="Reject an erasure as the second person",
    done="Recorded.",
    incomplete=NO_REASON,
)
WITHDRAW_ERASURE: Final = Verb(
    name="withdraw",
    path="/erasures/{erasure_id}/withdraw",
    operation=partial(erasure.answer_erasure, answer=Answer.WITHDRAW),
    body=ReasonBody,
    roles=COMPLIANCE,
    answer=schemas.Erasure,
    summary="Withdraw an erasure request before it starts",
    done="Recorded.",
    incomplete=NO_REASON,
)
ERASURE_VERBS: Final = (REQUEST_ERASURE, CONFIRM_ERASURE, REFUSE_ERASURE, WITHDRAW_ERASURE)

PLACE_HOLD: Final = Verb(
    name="place_hold",
    path="/holds",
    operation=retention.place_hold,
    body=schemas.HoldBody,
    roles=COMPLIANCE,
    answer=schemas.Hold,
    status=201,
    summary="Place a legal hold on an action, a target, an agent or everything",
    done="Hold placed.",
)
LIFT_HOLD: Final = Verb(
    name="lift_hold",
    path="/holds/{hold_id}/lift",
    operation=retention.lift_hold,
    body=ReasonBody,
    roles=COMPLIANCE,
    answer=schemas.HoldLifted,
    told=lambda _, ids: schemas.HoldLifted(hold_id=ids["hold_id"], lifted=True),
    summary="Lift a legal hold",
    done="Hold lifted.",
    incomplete=NO_REASON,
)
HOLD_VERBS: Final = (
    PLACE_HOLD,
    LIFT_HOLD,
)

CONFIRM_OFF_BOARDING: Final = Verb(
    name="confirm_off_boarding",
    path="/off-boarding/{off_boarding_id}/confirm",
    operation=partial(off_boarding.answer_off_boarding, answer=Answer.CONFIRM),
    body=schemas.PasswordBody,
    proof=FRESH,
    roles=COMPLIANCE,
    answer=schemas.OffBoarding,
    summary="Confirm the off-boarding of the tenant that an operator asked for, with a fresh proof of identity",
    done="Confirmed. The operator can go on.",
    incomplete=NO_REASON,
)
REFUSE_OFF_BOARDING: Final = Verb(
    name="refuse_off_boarding",
    path="/off-boarding/{off_boarding_id}/refuse",
    operation=partial(off_boarding.answer_off_boarding, answer=Answer.DECLINE),
    body=ReasonBody,
    roles=COMPLIANCE,
    answer=schemas.OffBoarding,
    summary="Refuse the off-boarding of the tenant, until it has begun",
    done="Recorded.",
    incomplete=NO_REASON,
)
OFF_BOARDING_VERBS: Final = (CONFIRM_OFF_BOARDING, REFUSE_OFF_BOARDING)

PROPOSE_POLICY: Final = Verb(
    name="propose_policy",
    path="/retention",
    operation=_propose_policy,
    body=schemas.RetentionBody,
    roles=COMPLIANCE,
    answer=schemas.Retention,
    status=201,
    summary="Propose a retention policy",
    done="Proposed. Takes effect after another person confirms it.",
)
CONFIRM_POLICY: Final = Verb(
    name="confirm_policy",
    path="/retention/{retention_id}/confirm",
    operation=partial(retention.answer_policy, answer=Answer.CONFIRM),
    body=schemas.PasswordBody,
    proof=FRESH,
    roles=COMPLIANCE,
    answer=schemas.Retention,
    summary="Confirm a retention policy as the second person, with a fresh proof of identity",
    done="Confirmed. The policy is in force.",
    incomplete=NO_REASON,
)
WITHDRAW_POLICY: Final = Verb(
    name="withdraw_policy",
    path="/retention/{retention_id}/withdraw",
    operation=partial(retention.answer_policy, answer=Answer.WITHDRAW),
    body=ReasonBody,
    roles=COMPLIANCE,
    answer=schemas.Retention,
    summary="Withdraw a proposed retention policy",
    done="Recorded.",
    incomplete=NO_REASON,
)
POLICY_VERBS: Final = (PROPOSE_POLICY, CONFIRM_POLICY, WITHDRAW_POLICY)
