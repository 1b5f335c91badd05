"""How the work on one approval is to go: for how long, when people are reminded, what may be voted on in a batch.

An approval keeps to the policy that it was asked under: its frozen terms where they say it, else that policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from approvals.policy.rules.policy import ApprovalPolicy
from approvals.requests.rules.deadlines import ReminderPlan, make_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The pace of one approval."""

    release_within: timedelta
    patience: timedelta
    plan: ReminderPlan
    escalate_to: str
    batch_most: int
    batchable: bool


def make_schedule(policy: ApprovalPolicy, terms: Mapping[str, Any]) -> Schedule:
    """The pace under a policy and the terms of one approval."""
    return Schedule(
        release_within=timedelta(seconds=terms.get("release_within_s", policy.release_within_s)),
        patience=timedelta(seconds=policy.question_pause_s),
        plan=make_plan(remind_before_s=policy.remind_before_s, escalate_after_s=policy.escalate_after_s),
        escalate_to=policy.escalate_to,
        batch_most=policy.batch.most,
        batchable=bool(terms.get("batchable")),
    )
