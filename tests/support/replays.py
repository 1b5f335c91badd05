"""Every run of a tenant judged again, for tests that end with it whatever they were about."""

from __future__ import annotations

from uuid import UUID

from ledger.db import tenancy
from reviews.models import VerificationRun
from reviews.replay.queries import replay_actions


def replays_alike(tenant_id: UUID) -> list[str]:
    """What is wrong with the replays of a tenant's runs; nothing where each comes out as it is recorded."""
    with tenancy(tenant_id):
        ids = list(
            VerificationRun.objects.filter(tenant_id=tenant_id)
            .order_by("action_id")
            .values_list("action_id")
            .distinct()
        )
        replays = replay_actions(tenant_id, [action_id for (action_id,) in ids])
    return [
        f"run {each.run.number} of {replay.action_id}: {each.not_replayable or each.differences}"
        for replay in replays
        for each in replay.runs
        if not each.same
    ]
