"""Every statement that must not touch the record, tried by those who might.

First as the application role, which the web and the workers are: whoever takes one of them over can write events
through the one door, as themselves and in order, and nothing else. Then as the owner of the tables, whom triggers stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction
from psycopg import errors, sql

from console.local.rights import APP_FUNCTIONS, ERASER_FUNCTIONS, TABLES, TENANT_FUNCTIONS
from ledger.db import tenancy
from ledger.models import Action, ContractVersion, Entry, Event, Evidence, Subject
from ledger.record import operations
from ledger.record.rules.lifecycle import MACHINES, State
from tests.db.record.records import APPEND, Record, executing, fill, forged, next_entry
from tests.db.record.rows import a_row
from tests.support.builders import make_view
from tests.support.tables import every_row

RECORD = ("ledger_event", "ledger_entry")
# Written by the one door alone.
DOOR_ONLY = (*RECORD, "ledger_subject", "ledger_action")
# Rows that are added and never changed.
ADDED_ONLY = (
    *("ledger_tenant", "ledger_evidence", "ledger_subjectkey", "ledger_contractversion"),
    *("approvals_agentversion", "approvals_call", "approvals_vote"),
    *("reviews_observation", "reviews_run", "reviews_comment", "reviews_incidentlink", "reviews_report"),
)
# Those of them that triggers keep even from their owner.
GUARDED = (*RECORD, *(table for table in ADDED_ONLY if table != "ledger_tenant"))
CHANGES = {
    "update": "UPDATE {table} SET {column} = {column}",
    "delete": "DELETE FROM {table}",
    "truncate": "TRUNCATE {table}",
    "truncate cascade": "TRUNCATE {table} CASCADE",
    "alter": "ALTER TABLE {table} ADD COLUMN more int",
    "disable triggers": "ALTER TABLE {table} DISABLE TRIGGER ALL",
    "disable isolation": "ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
    "drop": "DROP TABLE {table} CASCADE",
    "rule": "CREATE RULE quiet AS ON INSERT TO {table} DO INSTEAD NOTHING",
    "trigger": "CREATE TRIGGER mine BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION ledger_refuse()",
    "policy": "CREATE POLICY everyone ON {table} USING (true)",
    "merge": "MERGE INTO {table} t USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE",
    "take over": "ALTER TABLE {table} OWNER TO CURRENT_USER",
}


@pytest.fixture(scope="module")
def record(module_db) -> Record:
    return fill("orchid")


@pytest.fixture
def app(module_db, record, app_connection) -> Iterator[psycopg.Connection]:
    """The application role, inside the tenant whose record is tried."""
    app_connection.execute("SELECT set_config('app.tenant', %s, false)", [str(record.tenant)])
    count = "SELECT (SELECT count(*) FROM ledger_event), (SELECT sum(seq) FROM ledger_subject)"
    before = app_connection.execute(count).fetchone()
    yield app_connection
    assert app_connection.execute(count).fetchone() == before


@pytest.fixture
def owner(module_db, record, owner_connection) -> psycopg.Connection:
    owner_connection.execute("SELECT set_config('app.tenant', %s, false)", [str(record.tenant)])
    return owner_connection


def partitions(connection: psycopg.Connection) -> list[str]:
    return [
        name
        for (name,) in connection.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = ANY(%s::regclass[])", [list(RECORD)]
        ).fetchall()
    ]


def statement(change: str, table: str, connection: psycopg.Connection) -> sql.Composed:
    # Rights on one column would do: the first column is as good as any.
    column = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum = 1", [table]
    ).fetchone()
    return sql.SQL(CHANGES[change]).format(table=sql.Identifier(table), column=sql.Identifier(column[0]))


# The application role, by hand


@pytest.mark.req("R-LE-01")
@every_row("change", CHANGES)
@every_row("table", [*DOOR_ONLY, *ADDED_ONLY])
def test_the_application_cannot_change_what_was_recorded(app, table, change):
    with pytest.raises(errors.InsufficientPrivilege):
        app.execute(statement(change, table, app))


@pytest.mark.req("R-LE-01")
@every_row("change", CHANGES)
def test_the_application_cannot_reach_the_record_through_its_partitions(app, change):
    parts = partitions(app)
    assert len(parts) >= 2 * 5
    for part in parts:
        with pytest.raises(errors.InsufficientPrivilege):
            app.execute(statement(change, part, app))


@pytest.mark.req("R-LE-01", "R-LE-18")
@every_row("table", DOOR_ONLY)
def test_the_application_cannot_write_directly_to_a_table_of_the_record(app, table):
    for wrong in (
        "INSERT INTO {} DEFAULT VALUES",
        "INSERT INTO {} (tenant_id) SELECT tenant_id FROM {}",
        "COPY {} FROM STDIN",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            app.execute(sql.SQL(wrong.replace("{}", table)))


def test_the_application_cannot_read_or_write_a_partition(app):
    for part in partitions(app):
        for wrong in ("SELECT FROM {}", "INSERT INTO {} DEFAULT VALUES"):
            with pytest.raises(errors.InsufficientPrivilege):
                app.execute(sql.SQL(wrong).format(sql.Identifier(part)))


@pytest.mark.parametrize(
    "wrong",
    [
        "SET session_replication_role = replica",
        "SET ROLE counterfoil_owner",
        "SET SESSION AUTHORIZATION counterfoil_owner",
        "GRANT counterfoil_owner TO CURRENT_USER",
        "ALTER ROLE CURRENT_USER BYPASSRLS",
        "ALTER ROLE CURRENT_USER SUPERUSER",
        "CREATE ROLE mine",
        "CREATE TABLE mine (id int)",
        "CREATE TEMPORARY TABLE ledger_subject (id int)",
        "CREATE SCHEMA mine",
        "CREATE VIEW mine AS SELECT 1",
        "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE EXTENSION file_fdw",
        "ALTER FUNCTION ledger_current_tenant() SECURITY DEFINER",
        "DROP FUNCTION ledger_append(uuid, bytea, bytea, bytea, bytea, bytea, jsonb)",
        "ALTER DATABASE {database} SET row_security = off",
        "ALTER SYSTEM SET row_security = off",
        "DROP TRIGGER no_change ON ledger_event",
        "DROP POLICY one_tenant ON ledger_event",
        "ALTER POLICY one_tenant ON ledger_event USING (true)",
        "ALTER TABLE ledger_event DROP CONSTRAINT event_step_is_legal",
        "ALTER TABLE ledger_event DETACH PARTITION ledger_event_other",
        "ALTER FUNCTION ledger_is_legal_step(text, text, text) OWNER TO CURRENT_USER",
        "INSERT INTO django_migrations (app, name, applied) VALUES ('ledger', '0001_initial', now())",
        "SELECT ledger_make_append_only('ledger_event')",
        "SELECT ledger_isolate('ledger_event')",
        "SELECT ledger_ensure_partitions(12)",
        "COPY ledger_event TO PROGRAM 'cat'",
        "COPY ledger_event TO '/tmp/events'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT lo_import('/etc/passwd')",
    ],
)
def test_the_application_cannot_extend_its_own_rights(app, module_db, wrong):
    with pytest.raises(errors.InsufficientPrivilege):
        app.execute(sql.SQL(wrong.replace("{database}", module_db.name)))


@pytest.mark.parametrize("table", DOOR_ONLY)
def test_the_application_cannot_pass_on_its_rights(app, table):
    """PostgreSQL answers this with a warning, so the rights themselves are looked at."""
    held = "SELECT relacl::text FROM pg_class WHERE oid = %s::regclass"
    before = app.execute(held, [table]).fetchone()
    app.execute(sql.SQL("GRANT ALL ON {} TO PUBLIC").format(sql.Identifier(table)))
    app.execute(sql.SQL("GRANT UPDATE, DELETE ON {} TO CURRENT_USER").format(sql.Identifier(table)))
    assert app.execute(held, [table]).fetchone() == before


def test_the_application_cannot_lock_the_record_against_others(app):
    with pytest.raises(errors.InsufficientPrivilege), app.transaction():
        app.execute("LOCK TABLE ledger_event IN ACCESS EXCLUSIVE MODE")


def test_disabling_row_security_shows_no_rows(app):
    app.execute("SET row_security = off")
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        app.execute("SELECT count(*) FROM ledger_event")
    app.execute("SET row_security = on")


def test_the_applications_objects_and_rights_are_exactly_the_documented_ones(app):
    owned = """
        SELECT relname::text FROM pg_class WHERE relowner = current_user::regrole
        UNION ALL SELECT proname FROM pg_proc WHERE proowner = current_user::regrole
        UNION ALL SELECT nspname FROM pg_namespace WHERE nspowner = current_user::regrole
        UNION ALL SELECT datname FROM pg_database WHERE datdba = current_user::regrole
    """
    assert app.execute(owned).fetchall() == []
    roles = "SELECT rolname FROM pg_roles WHERE pg_has_role(current_user, oid, 'MEMBER') AND rolname <> current_user"
    # Lent to the tests alone, see tests/conftest.py.
    assert sorted(app.execute(roles).fetchall()) == [("counterfoil_eraser",), ("counterfoil_sequencer",)]
    may = "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles"
    assert app.execute(f"{may} WHERE rolname = current_user").fetchone() == (False,) * 5
    rights = """
        SELECT relname, array_agg(kind ORDER BY kind)
        FROM pg_class, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) kind
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
            AND (has_table_privilege(oid, kind)
                OR kind IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') AND has_any_column_privilege(oid, kind))
        GROUP BY relname
    """
    assert dict(app.execute(rights).fetchall()) == {table: sorted(given) for table, given in TABLES.items() if given}
    ours = """
        SELECT proname::text FROM pg_proc
        WHERE proname ~ '^(ledger|approvals|reviews|console)_' AND prorettype <> 'trigger'::regtype
            AND has_function_privilege(oid, 'EXECUTE')
    """
    assert sorted(name for (name,) in app.execute(ours).fetchall()) == sorted(APP_FUNCTIONS)


def test_no_documented_right_allows_changing_recorded_rows():
    assert {table: TABLES[table] for table in DOOR_ONLY} == dict.fromkeys(DOOR_ONLY, ("SELECT",))
    assert {table: TABLES[table] for table in ADDED_ONLY} == dict.fromkeys(ADDED_ONLY, ("SELECT", "INSERT"))


def test_security_definer_functions_have_a_fixed_search_path(app):
    elevated = app.execute("SELECT proname::text, proconfig FROM pg_proc WHERE prosecdef ORDER BY proname").fetchall()
    safe = ["search_path=pg_catalog, public, pg_temp"]
    planned_once = [*safe, "plan_cache_mode=force_generic_plan"]
    erasing = dict.fromkeys(set(ERASER_FUNCTIONS) - {*TENANT_FUNCTIONS}, safe)
    writing = {"ledger_append": planned_once, "ledger_lock": planned_once, "ledger_follow_target": safe}
    searching = {"ledger_search": [*planned_once, "enable_seqscan=off", "jit=off"], "ledger_search_fault": safe}
    counting = {"ledger_learn_sizes": safe, "ledger_count_concerns": safe}
    surveys = {f"{package}_survey": safe for package in ("ledger", "approvals", "reviews", "console")}
    assert dict(elevated) == writing | searching | erasing | surveys | counting


# The application role, through Django


@pytest.mark.req("R-LE-01", "R-LE-18")
@pytest.mark.parametrize("model", [Event, Entry, Subject, Action, Evidence, ContractVersion], ids=lambda m: m.__name__)
def test_the_models_cannot_change_what_was_recorded(record, model):
    rows = model.objects.filter(tenant_id=record.tenant)
    with tenancy(record.tenant):
        row = rows.first()
        ways = [
            lambda: rows.delete(),
            lambda: rows.update(tenant_id=record.tenant),
            lambda: row.delete(),
            lambda: row.save(force_update=True),
            lambda: rows.bulk_update([row], [model._meta.concrete_fields[-1].name]),
        ]
        for way in ways:
            with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
                way()


@pytest.mark.req("R-LE-18")
@pytest.mark.parametrize("model", [Event, Entry, Subject, Action], ids=lambda m: m.__name__)
def test_the_models_cannot_add_to_the_record(record, model):
    with tenancy(record.tenant):
        row = model.objects.filter(tenant_id=record.tenant).first()
        for way in (lambda: row.save(force_insert=True), lambda: model.objects.bulk_create([row])):
            with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
                way()


def test_django_connects_as_the_application_role(record):
    with connection.cursor() as cursor, pytest.raises(DatabaseError, match="permission denied"):
        cursor.execute("UPDATE ledger_event SET kind = 'x'")


# The one door, pushed


@pytest.mark.req("R-LE-02")
@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"origin": "console.test/counterfoil/elsewhere"}, "of another log"),
        ({"seq": 5}, "does not continue the head"),
        ({"seq": 3}, "event_is_unique|duplicate key"),
        ({"seq": 1, "prev": None, "from_state": "", "to_state": "PROPOSED"}, "duplicate key"),
        ({"seq": 1}, "event_sequence_has_no_gap|duplicate key"),
        ({"seq": 0, "prev": None}, "event_sequence_has_no_gap"),
        ({"seq": -1}, "event_sequence_has_no_gap"),
        ({"prev": None}, "event_sequence_has_no_gap"),
        ({"prev": "ab" * 32}, "does not continue the head"),
        ({"from_state": "VALIDATED", "to_state": "EXECUTING"}, "does not continue the head"),
        ({"from_state": "UNKNOWN", "to_state": "UNKNOWN"}, "does not continue the head"),
        ({"subject_kind": "session", "from_state": "OPEN", "to_state": "OPEN"}, "does not continue the head"),
        ({"subject_kind": "spaceship"}, "event_step_is_legal"),
        ({"to_state": "RECONCILED_SUCCESS"}, "event_step_is_legal"),
        ({"to_state": "PROPOSED"}, "event_step_is_legal"),
        ({"to_state": "DONE"}, "event_step_is_legal"),
        ({"subject_id": "0193f2a4-0000-7000-8000-00000000dead"}, "does not continue the head"),
        ({"actor_id": "nobody"}, "invalid input syntax"),
    ],
    ids=repr,
)
def test_a_forged_event_is_refused(app, record, changes, refusal):
    with pytest.raises(psycopg.Error, match=refusal):
        app.execute(APPEND, forged(record.action, **changes))


@pytest.mark.req("R-SM-22")
def test_every_illegal_transition_is_refused_by_the_database(app, record):
    for target in set(State) - {target for start, target in MACHINES["action"] if start == "EXECUTING"} - {"EXECUTING"}:
        with pytest.raises(errors.CheckViolation, match="event_step_is_legal"):
            app.execute(APPEND, forged(record.action, to_state=str(target)))


def test_a_subject_can_only_begin_in_an_initial_state(app, record):
    new = operations.SubjectHead(tenant_id=record.tenant, id=uuid4(), kind="action")
    with pytest.raises(errors.CheckViolation):
        app.execute(APPEND, forged(new, to_state="COMMITTED", entry=record.action.entry, view=make_view(new.id)))


def test_bytes_that_are_not_an_envelope_are_refused(app, record):
    for written in (b"", b"{}", b"null", b"[]", b"\xff", b'{"subject":{}}'):
        with pytest.raises(psycopg.Error):
            app.execute(APPEND, (record.tenant, written, None, None, None, None, "{}"))


def test_append_is_refused_without_a_tenant_and_with_a_wrong_one(app, record):
    written, other = forged(record.action), uuid4()
    for session, tenant, refusal in (
        ("", record.tenant, "is not that of this session"),
        ("", None, "is not that of this session"),
        (str(other), record.tenant, "is not that of this session"),
        (str(record.tenant), other, "is not that of this session"),
        (str(other), other, "another log"),
        ("orchid", record.tenant, "invalid input syntax"),
    ):
        app.execute("SELECT set_config('app.tenant', %s, false)", [session])
        with pytest.raises(psycopg.Error, match=refusal):
            app.execute(APPEND, (tenant, *written[1:]))
    app.execute("SELECT set_config('app.tenant', %s, false)", [str(record.tenant)])


@pytest.mark.req("R-LE-02")
def test_the_database_computes_the_entry_hash_itself(record):
    """The database takes the hash of the bytes it is given; there is no way to hand it another."""
    with tenancy(record.tenant):
        head, _ = executing(record.tenant)
        with connection.cursor() as cursor:
            cursor.execute(APPEND, forged(head, entry=next_entry(head)))
            cursor.execute(
                "SELECT entry_hash = sha256('\\x00'::bytea || envelope) FROM ledger_event"
                " WHERE subject_id = %s AND seq = 4",
                [head.id],
            )
            assert cursor.fetchone() == (True,)
        transaction.set_rollback(True)


def test_an_append_cannot_change_the_action_or_the_state_of_its_projection(record):
    with tenancy(record.tenant):
        head, _ = executing(record.tenant)
        lies = {
            "id": str(uuid4()),
            "tenant_id": str(uuid4()),
            "state": "RECONCILED_SUCCESS",
            "seq": 99,
            "tool": "other",
        }
        with connection.cursor() as cursor:
            cursor.execute(APPEND, forged(head, view=lies))
        row = Action.objects.get(tenant_id=record.tenant, id=head.id)
        assert (row.state, row.seq, row.tool) == ("EXECUTING", 4, "issue_refund")
        transaction.set_rollback(True)


# The owner, and a superuser


@pytest.fixture
def rows(module_db, record, superuser_connection) -> None:
    """One row at least in every guarded table, for a row trigger only fires on a row."""
    for table in ADDED_ONLY:
        if superuser_connection.execute(sql.SQL(f"SELECT count(*) FROM {table}")).fetchone() == (0,):
            superuser_connection.execute(a_row(superuser_connection, table, record.tenant))


@pytest.mark.req("R-LE-01")
@pytest.mark.parametrize("table", GUARDED)
def test_the_owner_is_stopped_by_triggers(owner, rows, table):
    for change in ("update", "delete", "truncate", "truncate cascade"):
        # A table that a foreign key points to is kept from TRUNCATE before any trigger is asked.
        with pytest.raises(errors.Error, match=r"append-only|referenced in a foreign key"):
            owner.execute(statement(change, table, owner))


@pytest.mark.req("R-LE-01")
def test_the_owner_is_stopped_on_every_partition(owner, record):
    month = [
        part for part in partitions(owner) if owner.execute(sql.SQL(f"SELECT count(*) FROM {part}")).fetchone() != (0,)
    ]
    assert len(month) == 2
    for part in month:
        for change in ("update", "delete"):
            with pytest.raises(errors.IntegrityConstraintViolation, match="append-only"):
                owner.execute(statement(change, part, owner))
    for part in partitions(owner):
        with pytest.raises(errors.IntegrityConstraintViolation, match="append-only"):
            owner.execute(statement("truncate", part, owner))


def test_the_owner_cannot_disable_triggers_for_a_session(owner):
    with pytest.raises(errors.InsufficientPrivilege):
        owner.execute("SET session_replication_role = replica")


@pytest.mark.req("R-LE-01")
@pytest.mark.parametrize("table", GUARDED)
def test_triggers_stop_even_a_superuser_in_replication_mode(superuser_connection, module_db, rows, table):
    superuser_connection.execute("SET session_replication_role = replica")
    for change in ("update", "delete", "truncate"):
        with pytest.raises(errors.Error, match=r"append-only|referenced in a foreign key"):
            superuser_connection.execute(statement(change, table, superuser_connection))


def test_a_partition_created_later_is_guarded_from_its_first_moment(owner):
    owner.execute("SELECT ledger_ensure_partitions(9)")
    unguarded = owner.execute(
        "SELECT c.oid::regclass::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = ANY(%s::regclass[]) AND NOT ("
        "  c.relrowsecurity AND c.relforcerowsecurity"
        "  AND (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgenabled = 'A'"
        "       AND t.tgname IN ('no_change', 'no_truncate')) = 2)",
        [list(RECORD)],
    ).fetchall()
    assert unguarded == []
