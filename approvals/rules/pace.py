"""What a policy says about the work on its approvals: how long, when to remind and to escalate, what may be batched.

An approval keeps to the policy that it was asked under. What its frozen terms say comes before what the policy's
document says at the top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from approvals.rules.deadlines import Plan, plan

QUESTION_PAUSE_S = 3600
RELEASE_WITHIN_S = 15 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How the work on one approval is to go."""

    release_within: timedelta
    patience: timedelta
    plan: Plan
    escalate_to: str
    batch_most: int
    batch_classes: frozenset[str]


def read(document: Mapping[str, Any], terms: Mapping[str, Any]) -> Pace:
    """The pace in a policy's document, under the terms of one approval."""

    def said(name: str, otherwise: Any = None) -> Any:
        return next((held[name] for held in (terms, document) if held.get(name) is not None), otherwise)

    batch = said("batch", {})
    return Pace(
        release_within=timedelta(seconds=said("release_within_s", RELEASE_WITHIN_S)),
        patience=timedelta(seconds=said("question_pause_s", QUESTION_PAUSE_S)),
        plan=plan(remind_before_s=said("remind_before_s"), escalate_after_s=said("escalate_after_s")),
        escalate_to=said("escalate_to", ""),
        batch_most=batch.get("most", 0),
        batch_classes=frozenset(batch.get("side_effect_classes", ())),
    )
