"""How often each pattern of hallucinated success was met in a period, by gate, guard and verification together."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from uuid import UUID

from approvals.queries import calls
from ledger.queries import record
from reviews import queries as after
from reviews.rules.success_patterns import WORDS, Kept, counted


def met(tenant_id: UUID, *, since: datetime, until: datetime) -> dict[str, int]:
    """Every pattern by its code (R-HS-15)."""
    refused = Counter[str]()
    for (code, _), times in calls.refusals(tenant_id, since=since, until=until).items():
        refused[code] += times
    entered = record.times_entered(tenant_id, WORDS[Kept.STATE], since=since, until=until)
    found = after.signs(tenant_id, since=since, until=until)
    return counted([(Kept.REFUSAL, refused), (Kept.STATE, entered), *found.items()])
