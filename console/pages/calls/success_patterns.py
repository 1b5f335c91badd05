"""How often each pattern of hallucinated success was met in a period, by gate, guard and verification together."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from uuid import UUID

from approvals.gate import queries as gate_queries
from ledger.record.queries import events
from reviews import queries as after
from reviews.reporting.rules.success_patterns import WORDS, FindingSource, count_patterns


def patterns_in_period(tenant_id: UUID, *, since: datetime, until: datetime) -> dict[str, int]:
    """Every pattern by its code (R-HS-15)."""
    refused = Counter[str]()
    for (code, _), times in gate_queries.count_refusals(tenant_id, since=since, until=until).items():
        refused[code] += times
    entered = events.count_state_entries(tenant_id, WORDS[FindingSource.STATE], since=since, until=until)
    found = after.count_success_patterns(tenant_id, since=since, until=until)
    return count_patterns([(FindingSource.REFUSAL, refused), (FindingSource.STATE, entered), *found.items()])
