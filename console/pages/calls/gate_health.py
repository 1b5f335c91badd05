"""Whether agents are still sending calls to the gate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from approvals.gate import queries as gate_queries

QUIET_AFTER: Final = timedelta(minutes=15)


@dataclass(frozen=True)
class GateIntake:
    """When the last call came, and whether that is recent enough to rely on what a list does not show."""

    last_call_at: datetime | None
    healthy: bool
    reason: str = ""


def gate_intake(tenant_id: UUID, *, at: datetime) -> GateIntake:
    """The intake of a tenant: healthy, quiet for long, or never used."""
    last = gate_queries.last_call(tenant_id)
    if last is None:
        return GateIntake(None, False, "no agent has called yet")
    if last.code == "GATE_FAULT":
        return GateIntake(last.at, False, "the gate could not judge the last call")
    if at - last.at > QUIET_AFTER:
        return GateIntake(last.at, False, "no call for a long time")
    return GateIntake(last.at, True)
