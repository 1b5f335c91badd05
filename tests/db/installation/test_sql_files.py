"""What runs is what the `.sql` files say: nothing else makes a function or a fence, and no migration opens one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql

from ledger.record.rules import event_kinds, lifecycle, outcomes
from ledger.record.rules.lifecycle import MACHINES, State, states
from ledger.verification.queries import fences

ROOT = Path(__file__).parents[3]
APPS = ("ledger", "approvals", "reviews", "console")


def run_by_migrations(app: str) -> list[str]:
    """The files that the migrations of an app run, in their order."""
    names = sorted(file.stem for file in (ROOT / app / "migrations").glob("0*.py"))
    files = [getattr(import_module(f"{app}.migrations.{name}"), "FILES", ()) for name in names]
    return [file for each in files for file in each]


FILES = {f"{app}/{name}": ROOT / app / "sql" / name for app in APPS for name in run_by_migrations(app)}
FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION (\w+)\(.*?AS \$\$(.*?)\$\$;", re.DOTALL)

# Everything in the catalogue that a fence is made of, one row each, by name and by content.
CATALOGUE = {
    "functions": "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid), proowner::regrole::text, proacl::text"
    " FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace"
    " AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')",
    "triggers": "SELECT tgrelid::regclass::text, tgname::text, tgenabled::text, pg_get_triggerdef(oid) FROM pg_trigger"
    " WHERE NOT tgisinternal",
    "policies": "SELECT tablename::text, policyname::text, roles::text, cmd, qual, with_check FROM pg_policies",
    "relations": "SELECT relname::text, relkind::text, relrowsecurity, relforcerowsecurity, reloptions::text,"
    " relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    "columns": "SELECT attrelid::regclass::text, attname::text, atttypid::regtype::text, attnotnull,"
    " pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
    " WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0",
    "constraints": "SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace",
    "indexes": "SELECT indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "blanks": "SELECT relation, subject, columns::text FROM ledger_blank",
}


@pytest.fixture
def owner(module_db) -> Iterator[psycopg.Connection]:
    """The owner of the tables, in a transaction that is never committed."""
    with psycopg.connect(module_db.owner_url) as connection, connection.transaction(force_rollback=True):
        yield connection


def catalogue(owner: psycopg.Connection) -> dict[str, set]:
    return {name: set(owner.execute(sql.SQL(query)).fetchall()) for name, query in CATALOGUE.items()}


def run_files(owner: psycopg.Connection) -> None:
    for file in FILES.values():
        owner.execute(file.read_bytes())


def defined() -> dict[str, str]:
    """Each function that the files define, with its text."""
    return dict(one for file in FILES.values() for one in FUNCTION.findall(file.read_text()))


# The files and the database


def test_the_functions_of_the_database_are_exactly_those_of_the_files(owner):
    stored = owner.execute(
        "SELECT proname::text, prosrc FROM pg_proc p WHERE pronamespace = 'public'::regnamespace"
        " AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')"
    ).fetchall()
    assert len(stored) == len(dict(stored)) > 20
    assert dict(stored) == defined()


def test_running_the_files_again_changes_nothing(owner):
    before = catalogue(owner)
    run_files(owner)
    after = catalogue(owner)
    for name in CATALOGUE:
        assert after[name] == before[name], name
        assert len(before[name]) > 20, name


@pytest.mark.parametrize(
    "damage",
    [
        "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "ALTER FUNCTION ledger_append SECURITY INVOKER",
        "ALTER FUNCTION ledger_append RESET search_path",
        "ALTER TABLE ledger_event DISABLE TRIGGER no_change",
        "ALTER TABLE approvals_vote DISABLE TRIGGER no_change",
        "DROP TRIGGER no_truncate ON ledger_leaf",
        "DROP TRIGGER only_grows ON ledger_tile",
        "DROP TRIGGER gate ON approvals_approverkey",
        "DROP TRIGGER contract_in_force ON ledger_action",
        "DROP POLICY one_tenant ON reviews_case",
        "ALTER POLICY one_tenant ON console_message USING (true) WITH CHECK (true)",
        "ALTER TABLE ledger_entry NO FORCE ROW LEVEL SECURITY",
        "DROP INDEX event_by_person",
    ],
)
def test_running_the_files_again_restores_what_was_removed(owner, damage):
    before = catalogue(owner)
    owner.execute(sql.SQL(damage))
    assert catalogue(owner) != before
    run_files(owner)
    assert catalogue(owner) == before


OBSERVED = """('reviews_observation', 'action_id', '{"error_code": ""}')"""


@pytest.mark.parametrize("columns", ["{}", '{"error_code": "kept"}', '{"status": ""}'])
def test_an_erasure_rule_that_would_keep_more_is_refused(owner, columns):
    text = FILES["reviews/erasure.sql"].read_text()
    assert OBSERVED in text
    changed = OBSERVED.replace('{"error_code": ""}', columns)
    with pytest.raises(errors.IntegrityConstraintViolation, match="the record is append-only"):
        owner.execute(text.replace(OBSERVED, changed).encode())


def test_an_erasure_rule_that_keeps_less_is_accepted(owner):
    text = FILES["reviews/erasure.sql"].read_text()
    changed = OBSERVED.replace('{"error_code": ""}', '{"error_code": "", "status": ""}')
    owner.execute(text.replace(OBSERVED, changed).encode())
    [(columns,)] = owner.execute("SELECT columns FROM ledger_blank WHERE relation = 'reviews_observation'").fetchall()
    assert columns == {"error_code": "", "status": ""}


@pytest.mark.parametrize("wrong", ["relation = 'elsewhere'", "subject = 'tenant_id'", "columns = 'null'"])
def test_the_table_and_subject_of_an_erasure_rule_cannot_be_changed(owner, wrong):
    with pytest.raises(psycopg.Error, match="append-only"):
        owner.execute(sql.SQL(f"UPDATE ledger_blank SET {wrong} WHERE relation = 'reviews_observation'"))


def test_the_transitions_in_the_database_are_exactly_those_of_the_rules(owner):
    stays = {(kind, state, state) for kind in MACHINES for state in states(kind)}
    moves = {(kind, start, target) for kind, pairs in MACHINES.items() for start, target in pairs}
    known = sorted({state for kind in MACHINES for state in states(kind)} | {""})
    legal = owner.execute(
        "SELECT kind, a, b FROM unnest(%s::text[]) kind, unnest(%s::text[]) a, unnest(%s::text[]) b"
        " WHERE ledger_is_legal_step(kind, a, b)",
        [[*MACHINES, "spaceship"], known, known],
    ).fetchall()
    assert set(legal) == stays | moves


def test_the_database_finds_actions_by_the_phases_of_the_rules(owner):
    phases = dict(owner.execute("SELECT s, ledger_phase(s) FROM unnest(%s::text[]) s", [sorted(State)]).fetchall())
    assert phases == {state: lifecycle.phase(state) for state in State}
    kinds = sorted(event_kinds.EVENT_KINDS)
    apart = dict(owner.execute("SELECT k, ledger_set_apart(k) FROM unnest(%s::text[]) k", [kinds]).fetchall())
    assert apart == {kind: outcomes.set_apart(kind) for kind in kinds}


def test_no_index_of_actions_contains_a_column_that_changes_at_each_step(owner):
    found = owner.execute(
        "SELECT c.relname::text, pg_get_indexdef(c.oid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = 'ledger_action'::regclass"
    ).fetchall()
    assert len(found) > 15
    assert not [name for name, made in found if re.search(r"\b(state|reached_by|seq|changed_at|settled)\b", made)]


def test_every_fence_of_the_database_is_checked_at_each_start(owner):
    """So that a table which becomes append-only cannot be forgotten in `ledger.verification.queries.fences`."""
    rows = owner.execute(
        "SELECT c.relname::text, t.tgname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE NOT t.tgisinternal AND NOT c.relispartition"
        # Every table with rows of tenants has that one, and the catalogue is asked for those that have not.
        " AND t.tgname <> 'being_moved'"
    ).fetchall()
    assert sorted(rows) == sorted(fences.TRIGGERS)


def test_a_part_of_a_table_under_another_name_is_held_to_the_rules_of_the_table(owner):
    owner.execute("CREATE TABLE tip_of_some (LIKE ledger_tip)")
    owner.execute(
        "CREATE TRIGGER only_grows BEFORE UPDATE ON tip_of_some"
        " FOR EACH ROW EXECUTE FUNCTION ledger_only_grows('ledger_tip')"
    )
    owner.execute(
        "INSERT INTO tip_of_some (tenant_id, log, size, root, integrated_at, signed_size, stopped)"
        " VALUES (gen_random_uuid(), 1, 5, 'r', now(), 5, '')"
    )
    owner.execute("UPDATE tip_of_some SET size = 6")
    with pytest.raises(errors.IntegrityConstraintViolation, match="the log only grows: UPDATE on tip_of_some"):
        owner.execute("UPDATE tip_of_some SET size = 5")


# The files and the migrations


def test_every_file_is_run_by_a_migration_or_for_the_key_database():
    there = {f"{app}/{file.name}" for app in APPS for file in (ROOT / app / "sql").iterdir()}
    assert there - FILES.keys() == {"ledger/keys.sql"}
    assert FILES.keys() <= there


STATEMENT = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|ALTER|CREATE|DROP|DO|GRANT|REVOKE|TRUNCATE|WITH)\s", re.IGNORECASE
)
OPENS = re.compile(
    r"DISABLE (TRIGGER|ROW)|NO FORCE|session_replication_role\s*(=|TO)|DROP (TRIGGER|POLICY|CONSTRAINT)|BYPASSRLS"
    r"|ENABLE (REPLICA )?TRIGGER",
    re.IGNORECASE,
)


def test_no_migration_contains_sql_of_its_own_and_no_file_disables_a_fence():
    migrations = [file for app in APPS for file in (ROOT / app / "migrations").glob("*.py")]
    assert len(migrations) >= 8
    for file in migrations:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not STATEMENT.match(node.value), (file.name, node.value)
    for name, file in FILES.items():
        assert not OPENS.search(re.sub(r"--.*", "", file.read_text())), name
