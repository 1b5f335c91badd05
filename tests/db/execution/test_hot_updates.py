"""Which changes of an action write its row anew into the indexes of its table, by PostgreSQL's own counters.

A change of which no index knows stays in its page (a heap-only tuple, HOT). `n_tup_newpage_upd` counts those for which
the page had no room, whatever the indexes.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from tests.db.execution.test_statements import Line, Trip, line, shop
from tests.support.api_tenant import Workshop

__all__ = ["line", "shop"]

# Of the actions of one `Trip.whole`, one of which is only proposed.
STARTS, VERDICTS = 2, 1
# What changes at each step and stands in no index.
LEFT_ALONE = {"ledger_subject", "approvals_session", "approvals_grant", "approvals_attempt"}
_UPDATES = """
SELECT relname, n_tup_upd, n_tup_hot_upd, n_tup_newpage_upd FROM pg_stat_user_tables
WHERE relname LIKE 'ledger%' OR relname LIKE 'approvals%'
"""


def updates() -> dict[str, tuple[int, ...]]:
    """The updates of each table so far: all, those that left every index alone, and those to another page."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(_UPDATES)
        return {name: tuple(map(int, counts)) for name, *counts in cursor.fetchall()}


def rewritten(before: dict[str, tuple[int, ...]], after: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """The number of updates of each table that were written into its indexes, although the page had room."""
    more = {name: [new - old for new, old in zip(after[name], before[name], strict=True)] for name in after}
    return {name: every - hot - moved for name, (every, hot, moved) in more.items() if every}


@pytest.mark.unsealed
def test_an_action_is_written_into_its_indexes_anew_by_its_start_and_its_verdict_alone(line: Line, shop: Workshop):
    trip, tours = Trip(shop, line), 2
    before: Any = updates()
    for number in range(tours):
        trip.whole(number)
    found = rewritten(before, updates())
    assert found["ledger_action"] <= tours * (STARTS + VERDICTS), found
    assert {name: count for name, count in found.items() if name in LEFT_ALONE and count} == {}
    assert found.keys() >= LEFT_ALONE
