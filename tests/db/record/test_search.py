"""The record's search at size: whatever is asked for, an index finds it, and no page reads the record."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.db import connection

from ledger.actions.queries import search
from ledger.db import tenancy

TENANT, PERSON, AGENT, NOBODY = (UUID(int=number) for number in range(101, 105))
EVENTS = 60_000

# Actions of six events each, all by machines but for a person's vote on every thousandth; envelopes do not matter.
FILL = """
SET session_replication_role = replica;
INSERT INTO ledger_event (tenant_id, subject_id, seq, prev_seq, id, subject_kind, kind, from_state, state, prev,
        envelope, entry_hash, actor_kind, actor_id, at)
    SELECT %(tenant)s, ledger_uuid_from(to_timestamp(1790000000 + n / 6)), n %% 6 + 1, nullif(n %% 6, 0),
        ledger_uuid_from(to_timestamp(1790000000 + n)), 'action',
        CASE WHEN n %% 6000 = 5 THEN 'approval_granted' WHEN n = 3000 THEN 'contradicted'
            ELSE (ARRAY['proposed', 'validated', 'grant_minted', 'execution_started', 'observed', 'verified'])
                [n %% 6 + 1] END, CASE n %% 6 WHEN 0 THEN '' WHEN 1 THEN 'PROPOSED' ELSE 'PENDING' END,
        CASE WHEN n %% 6 < 2 THEN 'PROPOSED' ELSE 'PENDING' END, CASE WHEN n %% 6 > 0 THEN sha256('') END, x.data,
        sha256('\\x00'::bytea || x.data),
        CASE WHEN n %% 6000 = 5 THEN 'person' ELSE 'agent' END,
        CASE WHEN n %% 6000 = 5 THEN %(person)s::uuid ELSE %(agent)s::uuid END, to_timestamp(1790000000 + n)
    FROM generate_series(0, %(events)s - 1) n, LATERAL (SELECT convert_to(n::text, 'UTF8') AS data) x;
INSERT INTO ledger_action (tenant_id, id, state, seq, tool, tool_version, contract_digest, side_effect_class,
        reversibility, mutating, agent, agent_actor, session_id, run_id, call_id, target, operation_kind, operation_key,
        payload_hash, trace_id, relation, unwinds, discrepancy, recovery_row, recovery_decision, attempt_count,
        contradicted, reversed, settled, proposed_at, changed_at)
    SELECT %(tenant)s, ledger_uuid_from(to_timestamp(1790000000 + n)), 'PENDING', 6, 'refund', '1', '', 'READ_ONLY',
        'REVERSIBLE', false, 'agent-' || n %% 500, %(agent)s, %(agent)s, 'run', n::text, 'order/' || n, 'refund',
        n::text, '', '', '', false, '', '', '', 0, false, false, false, now(), now()
    FROM generate_series(0, %(events)s / 6 - 1) n;
SET session_replication_role = origin;
ANALYZE ledger_event, ledger_action;
"""


@pytest.fixture(scope="module")
def record(module_db, run) -> None:
    import psycopg

    told = {"tenant": TENANT, "person": PERSON, "agent": AGENT, "events": EVENTS}
    url = run.postgres.url("counterfoil_bootstrap", module_db.name)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as superuser:
        superuser.execute(FILL, told)


def plan_of(wanted: search.SearchQuery) -> tuple[int, int]:
    """How many rows a page of this search has, and how many rows were read for it."""
    asked, real = [], search.execute

    def explained(statement, *values):
        if not statement.startswith("SELECT e."):
            return real(statement, *values)
        with connection.cursor() as cursor:
            import psycopg

            raw = psycopg.RawCursor(cursor.connection)
            raw.execute("EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) " + statement, values)
            asked.append(raw.fetchone()[0][0]["Plan"])
        return []

    with pytest.MonkeyPatch.context() as patch, tenancy(TENANT):
        patch.setattr(search, "execute", explained)
        search.search_events(TENANT, wanted)
    return asked[0]["Actual Rows"], read_by(asked[0])


def read_by(plan) -> int:
    below = sum(read_by(each) for each in plan.get("Plans", []))
    if below:
        return below
    loops = plan["Actual Loops"]
    return int((plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * loops)


SUBJECT = UUID("019f0000-0000-0000-0000-000000000000")


SEARCHES = {
    "everything": search.SearchQuery(),
    "a person": search.SearchQuery(actor=PERSON, actor_kind="person"),
    "what a person did": search.SearchQuery(actor=PERSON, actor_kind="person", kind="approval_granted"),
    "a machine": search.SearchQuery(actor=AGENT),
    "a rare kind": search.SearchQuery(kind="contradicted"),
    "a usual kind": search.SearchQuery(kind="verified"),
    "an agent": search.SearchQuery(agent="agent-7"),
    "what an agent did": search.SearchQuery(agent="agent-7", kind="verified"),
    "a target": search.SearchQuery(target="order/77"),
    "part of a target": search.SearchQuery(target="rder/77"),
    "a subject": search.SearchQuery(subjects=(SUBJECT,)),
    "a person who did nothing": search.SearchQuery(actor=NOBODY, actor_kind="person"),
    "what never happened": search.SearchQuery(kind="case_opened"),
    "no such agent": search.SearchQuery(agent="nobody"),
    "no such target": search.SearchQuery(target="order/none", since=datetime(2020, 1, 1, tzinfo=UTC)),
}
PARTLY = {"part of a target", "no such target"}


@pytest.mark.req("R-UI-12")
@pytest.mark.parametrize("name", SEARCHES)
def test_no_search_reads_the_event_tables(record, name):
    rows, read = plan_of(SEARCHES[name])
    assert rows <= 50
    most = EVENTS // 6 + 1000 if name in PARTLY else 2500
    assert read <= most, f"{read} rows were read for a page of {rows}"


def test_a_search_that_takes_too_long_is_reported_as_such(record, monkeypatch):
    monkeypatch.setattr(search, "PATIENCE_MS", 1)
    monkeypatch.setattr(search, "_over_time", lambda *_: search.execute("SELECT pg_sleep(2)"))
    with tenancy(TENANT), pytest.raises(search.SearchTooWide):
        search.search_events(TENANT, search.SearchQuery())


def test_an_event_that_is_not_sealed_has_no_log_position(record):
    with tenancy(TENANT):
        assert search.log_positions(TENANT, [(SUBJECT, 1)]) == {}
