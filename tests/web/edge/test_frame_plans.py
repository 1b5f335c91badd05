"""What the frame of every page counts: by indexes at any size, also where nobody has analysed a table."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg
import pytest

from console.edge import frame_facts as queries
from ledger.db import execute, tenancy

TENANT = UUID(int=301)
BEHIND = """
INSERT INTO reviews_incident (tenant_id, id, kind, severity, title, about, runbook, state, closing_note, opened_at)
    SELECT %(tenant)s, gen_random_uuid(), 'operations', 2, 'x', '', '',
        CASE WHEN n = %(first)s THEN 'OPEN' ELSE 'CLOSED' END, '', now()
    FROM generate_series(%(first)s::int, %(last)s::int) n;
INSERT INTO reviews_case (tenant_id, id, action_id, state, reason, discrepancy, side_effect_class, severity, tool,
        target, proposed_resolution, proposed_reason, proposed_evidence, snooze_reason, resolution, opened_at)
    SELECT %(tenant)s, gen_random_uuid(), gen_random_uuid(), CASE WHEN n = %(first)s THEN 'OPEN' ELSE 'RESOLVED' END,
        'x', '', 'x', 1, 'x', 'x', '', '', '[]', '', '', now()
    FROM generate_series(%(first)s::int, %(last)s::int) n;
INSERT INTO ledger_freeze (tenant_id, id, scope, value, reason, placed_at, lifted_at)
    SELECT %(tenant)s, gen_random_uuid(), 'target', n::text, 'x', now(), now()
    FROM generate_series(%(first)s::int, %(last)s::int) n;
INSERT INTO console_message (tenant_id, id, actor_id, kind, risk, about_kind, about_id, source_id, raised_at, read_at)
    SELECT %(tenant)s, gen_random_uuid(), %(tenant)s, 'x', 'LOW', 'x', gen_random_uuid(), gen_random_uuid(),
        now(), now()
    FROM generate_series(%(first)s::int, %(last)s::int) n;
"""


@pytest.fixture
def superuser(module_db, run):
    url = run.postgres.url("counterfoil_bootstrap", module_db.name)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("SET session_replication_role = replica")
        for table in ("reviews_incident", "reviews_case", "ledger_freeze", "console_message"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        yield connection


def test_the_frame_reads_no_more_for_more_closed_items(superuser):
    seen = []
    for first, last in ((1, 500), (501, 3000), (3001, 15_000)):
        superuser.execute(BEHIND, {"tenant": TENANT, "first": first, "last": last})
        with tenancy(TENANT):
            asked = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + queries._FRAME
            [(plan,)] = execute(asked, TENANT, uuid4(), datetime.now(UTC))
            found = queries.frame_facts(TENANT, TENANT, at=datetime.now(UTC))
        seen.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
    assert (found.incidents, found.cases, found.freezes, found.unread) == (3, 3, [], 0)
    assert max(seen) < 100, seen
