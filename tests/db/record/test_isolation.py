"""Tenants side by side in one database: what one cannot see, write, or move, whatever the statement says.

The tables are taken from the catalogue, so that a table that somebody adds later is in these tests before anyone
thinks of it.
"""

from __future__ import annotations

from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connection
from psycopg import errors, sql

from ledger.db import tenancy
from ledger.models import Tenant
from tests.db.record.rows import a_row, columns, lift_checks

OURS, THEIRS = uuid4(), uuid4()
OUTSIDE = {
    "console_membership": "the directory: read to find out which tenants a person belongs to",
    "console_apikey": "the directory: read before the session has a tenant",
    "console_answeredwrite": "answers to repeats: found by caller and key before the tenant's transaction begins",
    "console_spentproof": "proofs used once: spent in a transaction of their own, so that a rollback frees none",
    "approvals_due": "a queue of ids, claimed across tenants by sweepers",
    "ledger_pending": "a queue of ids, drained across tenants by the sequencer",
    "ledger_actionsearch": "closed to every role: read by one function, which looks for the current tenant alone",
    "ledger_order": "a queue of ids, claimed across tenants by tasks of both sides",
    "reviews_schedule": "a queue of ids, claimed across tenants by workers",
    "reviews_lane": "the queue's lanes: how hard each system may be asked, in numbers",
}
"""Tables with a tenant's id that stand outside row-level security, and why; none that may be read holds what an action
is about."""


@pytest.fixture(scope="module")
def tables(module_db, run) -> list[str]:
    """Every isolated table, with one row of each of two tenants in it."""
    with psycopg.connect(run.postgres.url("counterfoil_bootstrap", module_db.name), autocommit=True) as superuser:
        lift_checks(superuser)
        isolated = [name for name in with_tenant(superuser) if name not in OUTSIDE]
        for table in isolated:
            for tenant in (OURS, THEIRS):
                superuser.execute(a_row(superuser, table, tenant))
    return isolated


def with_tenant(superuser: psycopg.Connection) -> list[str]:
    """Tables (not partitions: those are reached through their parents) with a column `tenant_id`."""
    found = superuser.execute(
        "SELECT relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"
        " AND attname = 'tenant_id' AND NOT attisdropped ORDER BY relname"
    ).fetchall()
    return [name for (name,) in found]


@pytest.fixture
def app(tables, app_connection) -> psycopg.Connection:
    """The application role inside our tenant."""
    app_connection.execute("SELECT set_config('app.tenant', %s, false)", [str(OURS)])
    return app_connection


def may(app: psycopg.Connection, table: str, right: str) -> bool:
    return app.execute("SELECT has_table_privilege(%s, %s)", [table, right]).fetchone()[0]


def count(app: psycopg.Connection, table: str, tenant: UUID | None = None) -> int:
    where = sql.SQL("WHERE tenant_id = {}").format(sql.Literal(str(tenant))) if tenant else sql.SQL("")
    return app.execute(sql.SQL("SELECT count(*) FROM {} {}").format(sql.Identifier(table), where)).fetchone()[0]


# The catalogue


def test_every_table_with_a_tenant_is_isolated_or_listed_as_an_exception(tables, superuser_connection):
    known = with_tenant(superuser_connection)
    assert set(OUTSIDE) <= set(known)
    assert len(tables) == len(known) - len(OUTSIDE) > 20


def test_isolation_is_forced_and_complete(tables, superuser_connection):
    found = superuser_connection.execute(
        "SELECT c.oid::regclass::text, relrowsecurity, relforcerowsecurity,"
        " (SELECT array_agg(concat_ws(' | ', polname, polcmd, polpermissive, polroles::text,"
        "    pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) ORDER BY polname DESC) FROM pg_policy"
        "  WHERE polrelid = c.oid)"
        " FROM pg_class c WHERE c.oid::regclass::text = ANY(%s)"
        " OR relkind = 'r' AND c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent::regclass::text = ANY(%s))",
        [tables, tables],
    ).fetchall()
    own = "(tenant_id = ledger_current_tenant())"
    whole = (True, True, f"one_tenant | * | t | {{0}} | {own} | {own}")
    assert len(found) > len(tables)
    assert {table: rest for table, *rest, policies in found if (*rest, policies[0]) != whole} == {}
    # The only other policy shows ids to surveys, which run as the owner; it lets nobody write.
    [(owner,)] = superuser_connection.execute("SELECT relowner FROM pg_class WHERE relname = 'ledger_event'").fetchall()
    survey = f"all_tenants | r | t | {{{owner}}} | ( SELECT (current_setting('app.survey'::text, true) = 'on'::text))"
    more = {table: policies[1:] for table, _, _, policies in found if policies[1:]}
    assert {
        table: policies for table, policies in more.items() if [each.strip(" |") for each in policies] != [survey]
    } == {}
    assert not {"ledger_entry", "ledger_evidence", "ledger_subjectkey"} & more.keys()


def test_every_key_of_a_table_with_a_tenant_begins_with_it(superuser_connection):
    """So nobody learns from a collision that somebody else has a row, and a database can be sharded by tenant."""
    known = with_tenant(superuser_connection)
    keys = superuser_connection.execute(
        "SELECT indrelid::regclass::text, indexrelid::regclass::text, indisprimary, attname FROM pg_index"
        " LEFT JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]"
        " WHERE (indisunique OR indisexclusion) AND indrelid::regclass::text = ANY(%s)",
        [known],
    ).fetchall()
    assert {table for table, _, is_primary, _ in keys if is_primary} == set(known)
    assert {name for _, name, _, first in keys if first != "tenant_id"} == set()


def test_every_reference_to_a_table_with_a_tenant_names_the_tenant(superuser_connection):
    known = with_tenant(superuser_connection)
    references = superuser_connection.execute(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0"
        " AND confrelid::regclass::text = ANY(%s)",
        [known],
    ).fetchall()
    assert [name for name, text in references if not text.startswith("FOREIGN KEY (tenant_id,")] == []


SURVEYS = ("ledger_survey", "approvals_survey", "reviews_survey", "console_survey")
WITHOUT_TENANT = {
    "ledger_current_tenant": "the session's own",
    "ledger_ensure_partitions": "months, for all tenants",
    "ledger_gate": "makes a fence of a table",
    "ledger_hold_moving": "makes a fence of a table",
    "ledger_hold_moving_tables": "makes a fence of each table of an app",
    "ledger_imports": "from the session alone",
    "ledger_is_legal_step": "from its values alone",
    "ledger_isolate": "makes a fence of a table",
    "ledger_learn_sizes": "the sizes of tables",
    "ledger_make_append_only": "makes a fence of a table",
    "ledger_make_growing": "makes a fence of a table",
    "ledger_phase": "from its values alone",
    "ledger_rests": "from its values alone",
    "ledger_set_apart": "from its values alone",
    "ledger_uuid_from": "from its values alone",
    "ledger_count_concerns": "counts over all tenants, without an id",
    "ledger_verified_parts": "from its values alone",
    "ledger_whole_table": "the names of tables",
    "ledger_open_to_surveys": "makes a policy of a table",
    **dict.fromkeys(SURVEYS, "a survey of all tenants, which returns their ids alone"),
    "ledger_logged_events": "what surveys ask; it elevates nobody, so others see their own tenant's",
    "ledger_queued_tenants": "what surveys ask, of a queue that stands outside",
    "ledger_unanchored": "what surveys ask; it elevates nobody, so others see their own tenant's",
}
"""Functions that are about no tenant's rows."""
FUNCTIONS = (
    "SELECT oid::regprocedure::text, proname::text, coalesce(proargnames[1], ''),"
    " ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) WITH ORDINALITY a(t, n) ORDER BY n)"
    " FROM pg_proc p WHERE pronamespace = 'public'::regnamespace AND prorettype <> 'trigger'::regtype"
    " AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')"
)


def test_every_function_about_rows_of_a_tenant_takes_the_tenant_first(superuser_connection):
    found = superuser_connection.execute(FUNCTIONS).fetchall()
    assert {name for _, name, first, _ in found if first != "p_tenant"} == set(WITHOUT_TENANT)
    assert {types[0] for _, _, first, types in found if first == "p_tenant"} == {"uuid"}


def test_a_survey_returns_ids_of_tenants_and_nothing_else(superuser_connection):
    found = superuser_connection.execute(
        "SELECT proname::text, prorettype::regtype::text, proargmodes FROM pg_proc WHERE proname = ANY(%s)",
        [[*SURVEYS]],
    ).fetchall()
    assert sorted(found) == [(name, "uuid", None) for name in sorted(SURVEYS)]


def test_no_function_works_for_another_tenant_than_the_session_names(superuser_connection):
    functions = [
        (name, types)
        for _, name, first, types in superuser_connection.execute(FUNCTIONS).fetchall()
        if first == "p_tenant"
    ]
    assert len(functions) > 15
    for session, wanted in ((OURS, THEIRS), (OURS, None), ("", OURS)):
        superuser_connection.execute("SELECT set_config('app.tenant', %s, false)", [str(session)])
        for name, types in functions:
            given = sql.SQL(", ").join(sql.SQL(f"NULL::{each}") for each in types[1:])
            call = sql.SQL("SELECT * FROM {}({})").format(
                sql.Identifier(name),
                sql.SQL(", ").join([sql.SQL("{}::uuid").format(wanted), *([given] if types[1:] else [])]),
            )
            with pytest.raises(errors.InsufficientPrivilege, match="is not that of this session"):
                superuser_connection.execute(call)


# Our tenant, and somebody else's rows


def test_no_row_of_another_tenant_can_be_read(app, tables):
    for table in tables:
        assert (table, count(app, table), count(app, table, THEIRS)) == (table, 1, 0)


def test_without_a_known_tenant_no_rows_are_visible(app, tables):
    for nobody in ("", str(uuid4())):
        app.execute("SELECT set_config('app.tenant', %s, false)", [nobody])
        assert {table: count(app, table) for table in tables} == dict.fromkeys(tables, 0)


def test_a_malformed_tenant_id_is_an_error(app, tables):
    app.execute("SELECT set_config('app.tenant', 'orchid', false)")
    for table in tables:
        with pytest.raises(errors.InvalidTextRepresentation):
            count(app, table)


def test_no_row_of_another_tenant_can_be_changed_or_deleted(app, tables):
    tried = []
    for table in tables:
        for right, text in (("UPDATE", "UPDATE {} SET tenant_id = tenant_id"), ("DELETE", "DELETE FROM {}")):
            if may(app, table, right):
                named = sql.SQL(f"{text} WHERE tenant_id = {{}}")
                assert app.execute(named.format(sql.Identifier(table), sql.Literal(str(THEIRS)))).rowcount == 0
                tried.append(table)
    assert len(tried) > 8


def test_no_row_can_be_written_for_another_tenant(app, tables):
    for table in tables:
        with pytest.raises(errors.InsufficientPrivilege):
            app.execute(a_row(app, table, THEIRS))


def test_no_row_can_be_moved_to_another_tenant(app, tables):
    given = [table for table in tables if may(app, table, "UPDATE")]
    for table in given:
        move = sql.SQL("UPDATE {} SET tenant_id = {}").format(sql.Identifier(table), sql.Literal(str(THEIRS)))
        with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
            app.execute(move)
    assert len(given) > 8


def test_an_upsert_reaches_no_row_of_another_tenant(app, tables):
    for table in [each for each in tables if may(app, each, "UPDATE") and may(app, each, "INSERT")]:
        upsert = sql.SQL("{} ON CONFLICT DO NOTHING").format(a_row(app, table, THEIRS))
        with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
            app.execute(upsert)


def test_a_subject_of_another_tenant_cannot_be_locked(app, superuser_connection, tables):
    subject, kind = superuser_connection.execute(
        "SELECT id, kind FROM ledger_subject WHERE tenant_id = %s", [THEIRS]
    ).fetchone()
    assert app.execute("SELECT * FROM ledger_lock(%s, %s, %s)", [OURS, subject, kind]).fetchall() == []


def test_the_rows_of_the_other_tenant_are_still_there(app, tables):
    app.execute("SELECT set_config('app.tenant', %s, false)", [str(THEIRS)])
    assert {table: count(app, table) for table in tables} == dict.fromkeys(tables, 1)


def test_the_work_queues_contain_only_ids_flags_and_times(superuser_connection, tables):
    """What stands outside isolation must not say what an action is about."""
    kinds = {"uuid", "int2", "int4", "int8", "bool", "timestamptz"}
    for table in ("approvals_due", "reviews_schedule"):
        texts = {name for name, kind in columns(superuser_connection, table).items() if kind not in kinds}
        assert texts <= {"what"}


# Tenancy in Python


def current() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('app.tenant', true)")
        return cursor.fetchone()[0] or ""


def test_a_tenancy_ends_with_its_transaction(module_db):
    with tenancy(OURS):
        assert current() == str(OURS)
    assert current() == ""


@pytest.mark.django_db
def test_a_nested_tenancy_restores_the_outer_one():
    with tenancy(OURS):
        with tenancy(THEIRS):
            assert current() == str(THEIRS)
        assert current() == str(OURS)
        with pytest.raises(KeyError), tenancy(THEIRS):
            raise KeyError
        assert current() == str(OURS)
        with tenancy(THEIRS), tenancy(OURS):
            pass
        assert current() == str(OURS)


def test_an_error_ends_the_tenancy(module_db):
    with pytest.raises(KeyError), tenancy(OURS):
        raise KeyError
    assert current() == ""
    assert Tenant.objects.count() == 0
