"""How often each pattern of hallucinated success was met in a period, by gate, guard and verification together."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from uuid import UUID

from approvals.gate import queries as gate_queries
from ledger.record.queries import events
from reviews import queries as after
from reviews.reporting.rules.success_patterns import WORDS, Kept, counted


def met(tenant_id: UUID, *, since: datetime, until: datetime) -> dict[str, int]:
    """Every pattern by its code (R-HS-15)."""
    refused = Counter[str]()
    for (code, _), times in gate_queries.refusals(tenant_id, since=since, until=until).items():
        refused[code] += times
    entered = events.times_entered(tenant_id, WORDS[Kept.STATE], since=since, until=until)
    found = after.signs(tenant_id, since=since, until=until)
    return counted([(Kept.REFUSAL, refused), (Kept.STATE, entered), *found.items()])
