"""Who may do what with the record: every role against every way in, on roles as deploy/postgresql.sql makes them.

The application, the sequencer, the eraser and the auditor are stopped by their rights; the owner by triggers that fire
whatever a session says. A superuser can take a trigger away: that is not prevented, it is noticed, by the catalogue
(`ledger.verification.queries.fences`) and by signed checkpoints that somebody else kept.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors, sql

from console.local.installation import ROOT
from console.local.rights import APP_RIGHTS, AUDITOR_RIGHTS, ERASER_RIGHTS, SEQUENCER_RIGHTS, RoleRights
from console.local.servers import SUPERUSER, postgres_url
from ledger.verification.queries import fences
from tests.db.record.test_isolation import OUTSIDE
from tests.support.outside.forking import forks

WORD, PREFIX = "not-a-real-password", "matrix"
RIGHTS: dict[str, RoleRights] = {
    "app": APP_RIGHTS,
    "sequencer": SEQUENCER_RIGHTS,
    "eraser": ERASER_RIGHTS,
    "auditor": AUDITOR_RIGHTS,
}
RECORD = (
    *("ledger_event", "ledger_entry", "ledger_evidence", "ledger_subject", "ledger_action", "ledger_subjectkey"),
    *("ledger_leaf", "ledger_tile", "ledger_tip", "ledger_checkpoint", "ledger_log", "ledger_erased", "ledger_blank"),
)
# Ways to change rows, each with the words that a role needs to be let in.
WAYS: dict[str, tuple[str, frozenset[str]]] = {
    "update": ("UPDATE {table} SET {column} = {column}", frozenset({"UPDATE"})),
    "delete": ("DELETE FROM {table}", frozenset({"DELETE"})),
    "truncate": ("TRUNCATE {table}", frozenset({"TRUNCATE"})),
    "merge": (
        "MERGE INTO {table} t USING (SELECT 1) s ON true WHEN MATCHED THEN UPDATE SET {column} = t.{column}",
        frozenset({"UPDATE"}),
    ),
    "merge delete": (
        "MERGE INTO {table} t USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE",
        frozenset({"DELETE"}),
    ),
    "upsert": (
        "INSERT INTO {table} ({column}) SELECT {column} FROM {table}"
        " ON CONFLICT ({key}) DO UPDATE SET {column} = excluded.{column}",
        frozenset({"INSERT", "UPDATE"}),
    ),
    "writable cte": ("WITH gone AS (DELETE FROM {table} RETURNING *) SELECT count(*) FROM gone", frozenset({"DELETE"})),
    "cte update": (
        "WITH done AS (UPDATE {table} SET {column} = {column} RETURNING *) SELECT count(*) FROM done",
        frozenset({"UPDATE"}),
    ),
}
# Ways around: no role but the owner may take one, and for what only a superuser may, not even the owner.
AROUND = {
    "copy from a program": "COPY ledger_event FROM PROGRAM 'true'",
    "copy to a file": "COPY ledger_event TO '/tmp/never'",
    "disable triggers": "ALTER TABLE ledger_event DISABLE TRIGGER ALL",
    "disable one trigger": "ALTER TABLE ledger_entry DISABLE TRIGGER no_change",
    "replica": "SET session_replication_role = replica",
    "no row security": "ALTER TABLE ledger_event DISABLE ROW LEVEL SECURITY",
    "no forced security": "ALTER TABLE ledger_event NO FORCE ROW LEVEL SECURITY",
    "another policy": "CREATE POLICY everybody ON ledger_event USING (true)",
    "drop the table": "DROP TABLE ledger_event CASCADE",
    "drop the fence": "DROP FUNCTION ledger_refuse() CASCADE",
    "a tamer fence": "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN NEW; END $$",
    "take the door": "ALTER FUNCTION ledger_append OWNER TO CURRENT_USER",
    "open the door": "GRANT EXECUTE ON FUNCTION ledger_make_append_only(regclass) TO PUBLIC",
    "be the owner": "SET ROLE matrix_owner",
    "be another": "SET SESSION AUTHORIZATION matrix_owner",
    "join the owner": "GRANT matrix_owner TO CURRENT_USER",
    "bypass": "ALTER ROLE CURRENT_USER BYPASSRLS",
    "a rule": "CREATE RULE quiet AS ON INSERT TO ledger_event DO INSTEAD NOTHING",
    "detach": "ALTER TABLE ledger_event DETACH PARTITION ledger_event_other",
    "a function of the server": "SELECT pg_read_file('/etc/passwd')",
}
BY_THE_OWNER = {
    *("disable triggers", "disable one trigger", "no row security", "no forced security", "another policy"),
    *("drop the table", "drop the fence", "a tamer fence", "take the door", "open the door", "be the owner", "a rule"),
    *("detach", "be another"),
}


@dataclass(frozen=True)
class Matrix:
    """A server's roles and one database with a small record."""

    port: int
    tenant: str

    def connect(self, role: str) -> psycopg.Connection:
        connection = psycopg.connect(
            postgres_url(role=f"{PREFIX}_{role}", password=WORD, port=self.port, database=PREFIX), autocommit=True
        )
        connection.execute("SELECT set_config('app.tenant', %s, false)", [self.tenant])
        return connection


@pytest.fixture(scope="module")
def matrix(cluster, run) -> Iterator[Matrix]:
    roles = ("owner", "app", "sequencer", "eraser", "auditor")
    values = {role: f"{PREFIX}_{role}" for role in roles} | {f"{role}_password": WORD for role in roles}
    values |= {"database": PREFIX, "keys_database": f"{PREFIX}_keys"}
    options = [part for name, value in values.items() for part in ("-v", f"{name}={value}")]
    admin = cluster.url(SUPERUSER, "postgres")
    psql = cluster.programs.postgres.with_name("psql")
    file = ROOT / "deploy" / "postgresql.sql"
    subprocess.run([psql, admin, "-q", "-v", "ON_ERROR_STOP=1", *options, "-f", file], check=True, cwd="/")
    try:
        told = dict(os.environ)
        for name, role in (("DATABASE_URL", "app"), ("DATABASE_OWNER_URL", "owner")):
            for prefix, database in (("", PREFIX), ("KEYS_", f"{PREFIX}_keys")):
                told[prefix + name] = postgres_url(
                    role=f"{PREFIX}_{role}", password=WORD, port=cluster.port, database=database
                )
        told |= {f"COUNTERFOIL_{role.upper()}_ROLE": f"{PREFIX}_{role}" for role in roles}
        for words in (["prepare_database"], ["bootstrap", "--tenant", "orchid", "--messages", "pass"]):
            forks().run(["manage.py", *words], told).check_returncode()
        with psycopg.connect(cluster.url(SUPERUSER, PREFIX)) as connection:
            tenant = connection.execute("SELECT id FROM ledger_tenant").fetchone()
            assert tenant is not None
        yield Matrix(cluster.port, str(tenant[0]))
    finally:
        with psycopg.connect(admin, autocommit=True) as connection:
            for database in (PREFIX, f"{PREFIX}_keys"):
                connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
            for role in roles:
                connection.execute(f"DROP OWNED BY {PREFIX}_{role}")
                connection.execute(f"DROP ROLE {PREFIX}_{role}")


def statement(connection: psycopg.Connection, way: str, table: str) -> sql.Composed:
    found = connection.execute(
        "SELECT a.attname, i.key FROM pg_attribute a, (SELECT string_agg(quote_ident(k.attname), ', ') AS key"
        " FROM pg_index x JOIN pg_attribute k ON k.attrelid = x.indrelid AND k.attnum = ANY(x.indkey)"
        " WHERE x.indrelid = %(table)s::regclass AND x.indisprimary) i"
        " WHERE a.attrelid = %(table)s::regclass AND a.attnum = 1",
        {"table": table},
    ).fetchone()
    assert found is not None
    return sql.SQL(WAYS[way][0]).format(
        table=sql.Identifier(table), column=sql.Identifier(found[0]), key=sql.SQL(found[1])
    )


@pytest.mark.req("R-LE-01")
@pytest.mark.parametrize("role", RIGHTS)
@pytest.mark.parametrize("way", WAYS)
def test_no_role_can_change_the_record_beyond_its_documented_rights(matrix, role, way):
    """L29: UPDATE, DELETE, TRUNCATE, MERGE, ON CONFLICT and writable CTE, table by table."""
    tried = 0
    with matrix.connect(role) as connection:
        for table in RECORD:
            if WAYS[way][1] <= set(RIGHTS[role].tables.get(table, ())):
                continue
            tried += 1
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement(connection, way, table))
    assert tried >= 10


@pytest.mark.req("R-LE-01")
@pytest.mark.parametrize("role", RIGHTS)
@pytest.mark.parametrize("way", AROUND)
def test_no_role_can_bypass_the_fences(matrix, role, way):
    """L29: COPY, triggers, replication role, row-level security, DROP, SET ROLE, function ownership."""
    with matrix.connect(role) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(sql.SQL(AROUND[way]))


@pytest.mark.parametrize("role", RIGHTS)
def test_a_session_setting_disables_no_fence(matrix, role):
    """L29: guards that a session can switch off (as pgtrigger's can) are not ours."""
    with matrix.connect(role) as connection:
        connection.execute("SET pgtrigger.ignore = '{ledger_event:no_change,no_change,no_truncate}'")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("DELETE FROM ledger_event")


@pytest.mark.parametrize("role", RIGHTS)
def test_each_role_has_exactly_its_documented_rights(matrix, role):
    given = """
        SELECT relname, array_agg(kind ORDER BY kind)
        FROM pg_class, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) kind
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
            AND (has_table_privilege(oid, kind)
                OR kind IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') AND has_any_column_privilege(oid, kind))
        GROUP BY relname
    """
    functions = """
        SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
            AND proname ~ '^(ledger|approvals|reviews|console)_' AND prorettype <> 'trigger'::regtype
            AND has_function_privilege(oid, 'EXECUTE')
    """
    expected = {
        table: sorted({word.partition(" ")[0] for word in words})
        for table, words in RIGHTS[role].tables.items()
        if words
    }
    with matrix.connect(role) as connection:
        assert dict(connection.execute(given).fetchall()) == expected
        assert {name for (name,) in connection.execute(functions)} == set(RIGHTS[role].functions)


@pytest.mark.parametrize("role", ["sequencer", "eraser", "auditor"])
def test_only_the_application_opens_evidence_and_reads_names_of_people(matrix, role):
    closed = ["console_user", "console_apikey", "ledger_idempotency", "ledger_subjectkey", "approvals_session"]
    closed += ["ledger_evidence"]
    closed += ["ledger_entry"] if role != "auditor" else []
    with matrix.connect(role) as connection:
        for table in closed:
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(table)))


@pytest.mark.req("R-CX-03")
def test_the_auditor_reads_one_tenant_at_a_time_and_none_without_naming_it(matrix):
    """L30: row-level security binds the auditor as everybody else."""
    with matrix.connect("auditor") as connection:
        count = "SELECT count(*) FROM ledger_event"
        (seen,) = connection.execute(count).fetchone()
        assert seen > 3
        for other in (str(uuid4()), ""):
            connection.execute("SELECT set_config('app.tenant', %s, false)", [other])
            assert connection.execute(count).fetchone() == (0,)


@pytest.mark.req("R-LE-01")
@pytest.mark.parametrize("way", [way for way in WAYS if way != "upsert"])
@pytest.mark.parametrize("table", ["ledger_event", "ledger_entry"])
def test_triggers_stop_the_owner_in_every_way_of_writing(matrix, way, table):
    with matrix.connect("owner") as connection:
        # A table that others refer to cannot even be asked.
        refusals = (errors.IntegrityConstraintViolation, errors.ForeignKeyViolation, errors.FeatureNotSupported)
        with pytest.raises(refusals):
            connection.execute(statement(connection, way, table))


@pytest.mark.parametrize("way", sorted(set(AROUND) - BY_THE_OWNER))
def test_the_owner_is_not_a_superuser(matrix, way):
    with matrix.connect("owner") as connection, pytest.raises(psycopg.Error):
        connection.execute(sql.SQL(AROUND[way]))


def looked(connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the check of the catalogue says on this connection."""

    def asked(text: str, *values):
        return psycopg.RawCursor(connection).execute(text, values).fetchall()

    monkeypatch.setattr(fences, "execute", asked)
    return fences.missing_fences()


def test_all_fences_are_present_after_the_migrations(matrix, monkeypatch):
    """L31: the catalogue that migrations leave is the one that must be there."""
    with matrix.connect("app") as connection:
        assert looked(connection, monkeypatch) == []
    assert set(OUTSIDE) == fences.NOT_ISOLATED


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("ALTER TABLE ledger_event DISABLE TRIGGER no_change", "no_change of ledger_event"),
        ("ALTER TABLE ledger_entry_other DISABLE TRIGGER no_change", "no_change of ledger_entry_other"),
        ("ALTER TABLE ledger_tile ENABLE TRIGGER only_grows", "only_grows of ledger_tile"),
        ("DROP TRIGGER no_truncate ON ledger_leaf", "no_truncate of ledger_leaf"),
        (
            "CREATE OR REPLACE TRIGGER only_grows BEFORE UPDATE OR DELETE ON ledger_tile"
            " FOR EACH ROW EXECUTE FUNCTION ledger_only_grows('ledger_tip');"
            " ALTER TABLE ledger_tile ENABLE ALWAYS TRIGGER only_grows",
            "only_grows of ledger_tile",
        ),
        ("ALTER TABLE ledger_entry NO FORCE ROW LEVEL SECURITY", "ledger_entry is not kept apart"),
        ("ALTER TABLE ledger_evidence DISABLE ROW LEVEL SECURITY", "ledger_evidence is not kept apart"),
        ("ALTER FUNCTION ledger_append RESET search_path", "ledger_append"),
        ("ALTER FUNCTION ledger_erase SECURITY INVOKER", "ledger_erase"),
        ("GRANT matrix_owner TO matrix_app", "may become the owner"),
    ],
)
def test_a_removed_fence_is_named(matrix, run, monkeypatch, damage, said):
    """L31: what an owner or a superuser can do to the fences is seen by the next look at the catalogue."""
    with psycopg.connect(run.postgres.url(SUPERUSER, PREFIX)) as admin:
        admin.execute(sql.SQL(damage))
        admin.execute("SET LOCAL ROLE matrix_app")
        found = looked(admin, monkeypatch)
        admin.rollback()
    assert [each for each in found if said in each], found


def test_a_superuser_who_disables_a_trigger_is_detected(matrix, run):
    """L29: even with the replication role the triggers fire; without them the row goes, and the chain has a gap."""
    with psycopg.connect(run.postgres.url(SUPERUSER, PREFIX), autocommit=True) as admin:
        admin.execute("SET session_replication_role = replica")
        with pytest.raises(errors.IntegrityConstraintViolation):
            admin.execute("DELETE FROM ledger_event")
        with admin.transaction() as undone:
            admin.execute("ALTER TABLE ledger_event DISABLE TRIGGER no_change")
            deleted = admin.execute("DELETE FROM ledger_event WHERE seq = 1")
            assert deleted.rowcount > 0
            raise psycopg.Rollback(undone)
