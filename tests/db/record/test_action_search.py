"""Actions found by a part of their target: by an index at every size, and nobody's but the tenant's own."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from ledger.actions.queries import actions
from ledger.db import execute, tenancy
from ledger.management.commands import verify_ledger

OURS, THEIRS = UUID(int=201), UUID(int=202)
GROWING = (UUID(int=203), UUID(int=204))
FILL = """
INSERT INTO ledger_action (tenant_id, id, state, seq, tool, tool_version, contract_digest, side_effect_class,
        reversibility, mutating, agent, agent_actor, session_id, run_id, call_id, target, operation_kind, operation_key,
        payload_hash, trace_id, relation, unwinds, discrepancy, recovery_row, recovery_decision, attempt_count,
        contradicted, reversed, settled, proposed_at, changed_at)
    SELECT %(tenant)s, ledger_uuid_from(to_timestamp(1790000000 + n)), 'PENDING', 6, 'refund', '1', '', 'READ_ONLY',
        'REVERSIBLE', false, 'agent-' || n %% 7, %(tenant)s, %(tenant)s, 'run', n::text,
        CASE WHEN n %% 500 = 3 THEN 'rare_100%%/' ELSE 'Order\\' END || md5(n::text), 'refund',
        n::text, '', '', '', false, '', '', '', 0, false, false, false, now(), now()
    FROM generate_series(%(first)s::int, %(last)s::int) n
"""


@pytest.fixture(scope="module")
def superuser(module_db, run):
    url = run.postgres.url("counterfoil_bootstrap", module_db.name)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("ALTER TABLE ledger_actionsearch SET (autovacuum_enabled = false)")
        yield connection


def fill(superuser, first, last, tenants=(OURS, THEIRS)):
    for tenant in tenants:
        superuser.execute(FILL, {"tenant": tenant, "first": first, "last": last})


def blocks_for(part, through=0):
    """How many blocks a search of the growing tenant goes through, asked as the application."""
    with tenancy(GROWING[0]):
        asked = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM ledger_search($1, $2, $3, 51, $4)"
        [(plan,)] = execute(asked, GROWING[0], f"%{part}%", UUID(int=2**128 - 1), through)
    top = plan[0]["Plan"]
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"]


def test_a_search_does_not_read_more_as_the_table_grows_even_without_statistics(superuser, django_db_blocker):
    seen = []
    for first, last in ((1, 1000), (1001, 5000), (5001, 20_000)):
        fill(superuser, first, last, GROWING)
        blocks_for("warm up")
        seen.append((blocks_for("no such thing"), blocks_for(f"{last:x}no")))
    assert max(max(each) for each in seen) < 200, seen


def test_a_search_that_many_match_reads_only_the_newest(superuser, django_db_blocker):
    """One target in nine has `ab`: the index alone would read all of them, wherever they are."""
    seen = []
    for first, last in ((20_001, 21_000), (21_001, 36_000)):
        fill(superuser, first, last, GROWING)
        blocks_for("ab", 5000)
        seen.append(blocks_for("ab", 5000))
    assert max(seen) < 60 < blocks_for("ab") / 3, (seen, blocks_for("ab"))


def test_a_search_that_looks_at_too_few_in_their_order_finds_the_rest_by_the_index(filled):
    asked = "SELECT action_id FROM ledger_search($1, '%abc%', $2, 40, $3)"
    with tenancy(OURS):
        by_index, first_some, all_in_order = (
            [found for (found,) in execute(asked, OURS, UUID(int=2**128 - 1), through)] for through in (0, 300, 20_000)
        )
    assert len(by_index) == 40
    assert by_index == first_some == all_in_order


@pytest.fixture(scope="module")
def filled(superuser):
    fill(superuser, 1, 20_000)
    return superuser


@pytest.mark.parametrize(
    "part", ["order", "ORDER\\", "rare_", "100%", "r_re", "abc", "0cc1", "zz", "e", "%", "_", "\\", "no such thing"]
)
@pytest.mark.parametrize("wanted", [{}, {"agent": "agent-3"}, {"agent": "nobody"}])
def test_a_search_finds_the_same_rows_as_a_full_scan(filled, monkeypatch, part, wanted):
    monkeypatch.setattr(actions, "LOOKED_THROUGH", 200)
    monkeypatch.setattr(actions, "MOST_MATCHES", 20)
    agent = wanted.get("agent", "agent-")
    with tenancy(OURS):
        rows = execute("SELECT id FROM ledger_action WHERE strpos(lower(target), $1) > 0 AND strpos(agent, $2) > 0"
            " ORDER BY id DESC", part.lower(), agent)  # fmt: skip
        expected = [row_id for (row_id,) in rows]
        found = actions.actions(OURS, q=part, limit=30, **wanted)
        assert [each.id for each in found] == expected[:30]
        if len(expected) > 30:
            older = actions.actions(OURS, q=part, limit=30, before=found[-1].id, **wanted)
            assert [each.id for each in older] == expected[30:60]


@pytest.mark.parametrize("order", list(actions.ORDERS))
def test_an_index_serves_each_order_of_the_list_at_the_start_and_in_the_middle(filled, order):
    """Shown by a plan that may not sort and may not go through the table."""
    asked = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM ledger_action WHERE "
    with tenancy(OURS):
        [(middle,)] = execute("SELECT id FROM ledger_action WHERE tenant_id = $1 ORDER BY id OFFSET 9000 LIMIT 1", OURS)
        for way in ("sort", "seqscan", "bitmapscan"):
            execute("SELECT set_config($1, 'off', true)", f"enable_{way}")
        for behind in ((), (middle,)):
            page = asked + actions.sorted_page_sql(order, is_behind=bool(behind))
            [(plan,)] = execute(page, OURS, 50, *behind)
            top = plan[0]["Plan"]
            assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 400, (order, behind)


@pytest.mark.parametrize("order", list(actions.ORDERS))
def test_paging_in_each_order_returns_every_action_once(superuser, order):
    tenant = UUID(int=205 + list(actions.ORDERS).index(order))
    fill(superuser, 1, 120, (tenant,))
    column, downwards = actions.ORDERS[order]
    with tenancy(tenant):
        seen, behind = [], None
        while page := actions.sorted_actions(tenant, order, behind=behind, limit=50):
            seen, behind = [*seen, *page], page[-1].id
    # Agents and tools are the same for many: their order is decided by the id.
    wanted = sorted(seen, key=lambda each: (getattr(each, column), each.id), reverse=downwards)
    assert [each.id for each in seen] == [each.id for each in wanted]
    assert len({each.id for each in seen}) == 120


@pytest.mark.req("R-UI-12")
def test_a_search_never_returns_actions_of_another_tenant(filled, app_connection):
    """Both have the same targets; each finds its own, another session is refused, and the table is closed."""
    asked = "SELECT action_id FROM ledger_search(%s, '%%rare%%', %s, 1000, 0)"
    newest = UUID(int=2**128 - 1)
    with pytest.raises(errors.InsufficientPrivilege, match="is not that of this session"):
        app_connection.execute(asked, [OURS, newest])
    found = {}
    for tenant in (OURS, THEIRS):
        app_connection.execute("SELECT set_config('app.tenant', %s, false)", [str(tenant)])
        found[tenant] = {row_id for (row_id,) in app_connection.execute(asked, [tenant, newest]).fetchall()}
        own = app_connection.execute("SELECT id FROM ledger_action WHERE target LIKE 'rare%'").fetchall()
        assert found[tenant] == {row_id for (row_id,) in own} != set()
    for statement in ("SELECT 1 FROM ledger_actionsearch", "DELETE FROM ledger_actionsearch"):
        with pytest.raises(errors.InsufficientPrivilege):
            app_connection.execute(statement)
    with pytest.raises(errors.InsufficientPrivilege):
        app_connection.execute("SELECT ledger_rebuild_search(%s)", [THEIRS])


def test_emptied_search_rows_are_reported_and_rebuilt(filled, owner_connection):
    with filled.transaction(force_rollback=True):
        newest = "(SELECT id FROM ledger_action WHERE target LIKE 'rare%%' AND tenant_id = %s ORDER BY id DESC LIMIT 1)"
        filled.execute(f"UPDATE ledger_action SET target = '' WHERE id = {newest} AND tenant_id = %s", [OURS, OURS])
        emptied = filled.execute("SELECT count(*) FROM ledger_actionsearch WHERE target = ''").fetchone()
        assert emptied == (1,)
    assert verify_ledger.check_search(OURS) == []
    filled.execute(
        "UPDATE ledger_actionsearch SET target = 'other' WHERE target LIKE 'rare%%' AND tenant_id = %s", [OURS]
    )
    try:
        [found] = verify_ledger.check_search(OURS)
        assert "a search would not find it by its target" in found.detail
        assert verify_ledger.check_search(THEIRS) == []
    finally:
        rebuild(owner_connection)
    assert verify_ledger.check_search(OURS) == []


def rebuild(owner_connection):
    with owner_connection.transaction():
        owner_connection.execute("SELECT set_config('app.tenant', %s, true)", [str(OURS)])
        owner_connection.execute("SELECT ledger_rebuild_search(%s)", [OURS])
