"""What a figure leads to costs no more because of what is behind it, in a young database that nobody analysed, too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from console.metrics import queries
from console.metrics.rules.filters import EVERYTHING, MetricFilter
from ledger.db import execute, tenancy

TENANT = UUID(int=317)
START = datetime(2026, 1, 1, tzinfo=UTC)
# Twenty actions an hour of two tools; in each tenth hour one of them was unknown.
HOURS = """
INSERT INTO console_metricaction (tenant_id, action_id, seq, hour, tool, agent, side_effect_class, version, actions,
        executed, unknown, {others})
    SELECT %(tenant)s, ledger_uuid_from(%(start)s + make_interval(hours => n / 20, secs => n %% 20)), 5,
        %(start)s + make_interval(hours => n / 20), 'tool-' || n %% 2, 'support', 'x', '1', 1, 1,
        (n %% 200 = 7)::int, {zeros}
    FROM generate_series(%(first)s * 20, %(last)s * 20 - 1) n;
INSERT INTO console_metricrollup (tenant_id, span, start, tool, agent, side_effect_class, version, {every})
    SELECT tenant_id, 1, hour, tool, agent, side_effect_class, version, {sums}
    FROM console_metricaction WHERE tenant_id = %(tenant)s AND hour >= %(start)s + make_interval(hours => %(first)s)
    GROUP BY tenant_id, hour, tool, agent, side_effect_class, version
"""


@pytest.fixture
def superuser(module_db, run):
    url = run.postgres.url("counterfoil_bootstrap", module_db.name)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        for table in ("console_metricaction", "console_metricrollup"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        yield connection


def grow(superuser: psycopg.Connection, first: int, last: int) -> None:
    counts = queries.COUNTS
    of_actions = queries.OF_ACTIONS
    others = [name for name in of_actions if name not in ("actions", "executed", "unknown")]
    statement = HOURS.format(
        others=", ".join(others),
        zeros=", ".join("0" for _ in others),
        every=", ".join(counts),
        sums=", ".join(f"sum({name})" if name in of_actions else "0" for name in counts),
    )
    superuser.execute(statement.encode(), {"tenant": TENANT, "start": START, "first": first, "last": last})


def pages_read(monkeypatch: pytest.MonkeyPatch, name: str, about: MetricFilter) -> tuple[int, int]:
    """How many actions a page of those behind a count has, and how many pages of the database it took."""
    plans = []

    def explained(statement, *values):
        plans.append(execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) " + statement, *values)[0][0][0])
        return execute(statement, *values)

    with monkeypatch.context() as patch, tenancy(TENANT):
        patch.setattr(queries, "execute", explained)
        wanted = {"since": START, "until": START + timedelta(days=400), "about": about}
        found = queries.actions_behind(TENANT, name, **wanted, limit=21)
        further = queries.actions_behind(TENANT, name, **wanted, before=found[9], limit=21)
    assert further[:11] == found[10:]
    return len(found), max(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] for plan in plans)


@pytest.mark.parametrize("about", [EVERYTHING, MetricFilter(tool="tool-1")], ids=["everything", "one tool"])
def test_the_actions_behind_a_count_are_found_quickly_at_any_size(superuser, monkeypatch, about):
    # Nothing of the other test lies in the way, dead or alive.
    superuser.execute("TRUNCATE console_metricaction, console_metricrollup")
    seen = []
    for first, last in ((0, 300), (300, 1_500), (1_500, 6_000)):
        grow(superuser, first, last)
        for name in ("executed", "unknown"):
            found, pages = pages_read(monkeypatch, name, about)
            assert found == 21
            seen.append(pages)
    # To read all of them would be more than 5,000.
    assert max(seen) < 1_500, seen


def test_a_count_of_calls_cannot_list_actions(superuser):
    with tenancy(TENANT), pytest.raises(ValueError, match="counts no actions"):
        queries.actions_behind(TENANT, "calls", since=START, until=START, about=EVERYTHING)
