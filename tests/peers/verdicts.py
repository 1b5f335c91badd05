"""What the rules make of a reading of a peer: the last step that a check itself does not take."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from reviews.rules.reading import Reading
from reviews.rules.verification import Outcome
from tests.rules.runs import FACTS, inputs, walk


def outcome(reading: Reading, *, target: str, tenant: str, predicates: tuple[str, ...] = ("sa.exists",)) -> Outcome:
    """A run after the horizon and inside the SLA, of a tool that had claimed success; its steps are legal ones."""
    effects = tuple(effect.name for effect in reading.effects)
    given = inputs(
        reading,
        facts=replace(FACTS, required_effects=effects, predicates=predicates),
        at=reading.observed_at,
        horizon_at=reading.observed_at,
        sla_at=reading.observed_at + timedelta(hours=1),
        target_resource=target,
        scope={"tenant": tenant, "idempotency_key": "key-1"},
    )
    return walk(given)[0]
