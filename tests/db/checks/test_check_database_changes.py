"""Statements that psql sends to a real PostgreSQL: proposed as rows and objects, and read back by a reader."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from console.local import servers
from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.shell import Refusal
from reviews.checks.development.database_changes import DatabaseChangeCheck
from reviews.checks.interface import CheckFailed, SystemAccess
from tests.support.outside import psql_user

CHECK = DatabaseChangeCheck()
ROWS, GONE, OBJECTS = {"reads": "rows"}, {"reads": "rows", "expect": "absent"}, {"reads": "objects"}


@pytest.fixture(scope="module")
def place(template, run):
    url = run.postgres.url(servers.SUPERUSER, "postgres")
    with psql_user.opened(url, run.postgres.programs.postgres.parent) as found:
        yield found


@pytest.fixture
def user(place, tmp_path, monkeypatch):
    """The program stands in the environment of these tests, so the project of the agent must be another folder."""
    monkeypatch.chdir(tmp_path)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    place.run("-qc", f"TRUNCATE {place.schema}.orders; INSERT INTO {place.schema}.orders"
                     " SELECT n, 'open', n * 10 FROM generate_series(1, 30) AS n")  # fmt: skip
    return place


def proposed(user, statement, *words):
    command = shlex.join(["psql", *words, "-c", statement.replace("shop.", f"{user.schema}.")])
    return read_command(command, Path())


def sent(user, effect):
    done = user.run("-v", "ON_ERROR_STOP=1", "-qc", effect.arguments["statement"])
    assert done.returncode == 0, done.stderr


def look(user, effect, part, **settings):
    return CHECK.read(
        system=SystemAccess("postgresql", "database_changes", settings, {"url": user.reader}),
        verification={"lookup": {"effects": {"change": part}}},
        bindings={"sr": effect.arguments},
        at=datetime.now(UTC),
        timeout_s=10,
    )


def shown(user, effect, part):
    found = look(user, effect, part).effects[0]
    return found.present, found.fields["as_asked"]


def test_a_delete_is_proposed_as_the_rows_that_it_removes_and_is_verified_only_after_it_ran(user):
    effect = proposed(user, "DELETE FROM shop.orders WHERE amount >= 280 AND status = 'open'")
    assert effect.tool == "psql_delete_rows"
    assert effect.arguments["table"] == f"{user.schema}.orders"
    assert (effect.arguments["key_columns"], effect.arguments["rows"]) == (["id"], [["28"], ["29"], ["30"]])
    assert shown(user, effect, GONE) == (False, 0)
    sent(user, effect)
    assert shown(user, effect, GONE) == (True, 3)
    assert look(user, effect, GONE).is_strong


def test_a_delete_that_removed_only_some_of_the_rows_shows_how_many(user):
    effect = proposed(user, "DELETE FROM shop.orders WHERE id IN (3, 4)")
    user.run("-qc", f"DELETE FROM {user.schema}.orders WHERE id = 3")
    assert shown(user, effect, GONE) == (True, 1)


def test_an_update_is_proposed_with_the_values_that_its_rows_will_hold(user):
    effect = proposed(user, "UPDATE shop.orders o SET amount = amount * 2, note = upper('late') WHERE o.id < 3")
    assert effect.tool == "psql_update_rows"
    assert effect.arguments["columns"] == ["amount", "note"]
    assert effect.arguments["rows"] == [["1", "20.00", "LATE"], ["2", "40.00", "LATE"]]
    assert shown(user, effect, ROWS) == (False, 0)
    sent(user, effect)
    assert shown(user, effect, ROWS) == (True, 2)


def test_an_insert_is_proposed_with_its_rows_as_the_columns_will_hold_them(user):
    effect = proposed(user, "INSERT INTO shop.orders (status, id, amount, note) VALUES ('new', 90, 5, NULL)")
    assert (effect.tool, effect.arguments["rows"]) == ("psql_insert_rows", [["90", "new", "5.00", None]])
    assert shown(user, effect, ROWS) == (False, 0)
    sent(user, effect)
    assert shown(user, effect, ROWS) == (True, 1)


def test_a_table_with_a_composite_key_is_read_by_both_columns(user):
    effect = proposed(user, "DELETE FROM shop.lines WHERE order_id = 1 RETURNING sku")
    assert (effect.arguments["key_columns"], effect.arguments["rows"]) == (
        ["order_id", "place"],
        [["1", "1"], ["1", "2"]],
    )
    assert shown(user, effect, GONE) == (False, 0)


def test_a_migration_file_is_proposed_as_its_objects_and_read_back_from_the_catalogue(user, tmp_path):
    (tmp_path / "1.sql").write_text(
        f"""BEGIN;  -- the first
        CREATE TABLE {user.schema}.parts (id bigint PRIMARY KEY, "Name" text);
        CREATE INDEX parts_name ON {user.schema}.parts ("Name");
        ALTER TABLE {user.schema}.lines ADD COLUMN weight numeric(8,3) DEFAULT 0, DROP COLUMN sku;
        COMMIT;"""
    )
    effect = read_command("psql -qf 1.sql", tmp_path)
    assert effect.tool == "psql_change_schema"
    named = [(each["kind"], each["name"], each["present"]) for each in effect.arguments["objects"]]
    assert named == [
        ("table", f"{user.schema}.parts", True),
        ("index", f"{user.schema}.parts_name", True),
        ("column", f"{user.schema}.lines.weight", True),
        ("column", f"{user.schema}.lines.sku", False),
    ]
    assert shown(user, effect, OBJECTS) == (False, 0)
    assert user.run("-v", "ON_ERROR_STOP=1", "-qf", str(tmp_path / "1.sql")).returncode == 0
    assert shown(user, effect, OBJECTS) == (True, 4)


def test_a_renamed_and_a_dropped_table_are_read_back_from_the_catalogue(user):
    user.run("-qc", f"CREATE TABLE {user.schema}.old (id int)")
    effect = proposed(user, "ALTER TABLE shop.old RENAME TO kept")
    assert shown(user, effect, OBJECTS) == (False, 0)
    sent(user, effect)
    assert shown(user, effect, OBJECTS) == (True, 2)
    gone = proposed(user, "DROP TABLE IF EXISTS shop.kept")
    assert shown(user, gone, OBJECTS) == (False, 0)
    sent(user, gone)
    assert shown(user, gone, OBJECTS) == (True, 1)


def test_a_column_of_another_type_does_not_count_as_the_proposed_one(user):
    effect = proposed(user, "ALTER TABLE shop.loose ADD COLUMN at timestamptz")
    user.run("-qc", f"ALTER TABLE {user.schema}.loose ADD COLUMN at text")
    assert shown(user, effect, OBJECTS) == (False, 0)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM shop.orders", "without WHERE changes every row"),
        ("DELETE FROM shop.orders WHERE id > 2", "more than 20 rows"),
        ("DELETE FROM shop.orders WHERE id = 999", "No row matches now"),
        ("DELETE FROM shop.loose WHERE word = 'x'", "not a table with a primary key"),
        ("DELETE FROM shop.nothing WHERE id = 1", "does not exist"),
        ("UPDATE shop.orders SET id = 5 WHERE id = 4", "changes the primary key"),
        ("UPDATE shop.orders SET colour = 'x' WHERE id = 4", "has no column colour"),
        ("INSERT INTO shop.orders (status) VALUES ('new')", "does not say the primary key"),
        ("INSERT INTO shop.orders (id, status) VALUES (77, DEFAULT)", "DEFAULT is what the database would make up"),
        ("DELETE FROM shop.orders WHERE shop.remove_all(id)", "remove_all is no column"),
        ("DELETE FROM shop.orders WHERE orders.remove_all", "remove_all is no column"),
        ("DELETE FROM shop.orders WHERE id = 1) OR (1 = 1", "brackets do not match"),
        ("DROP TABLE shop.nothing", "does not exist."),
        ("ALTER TABLE shop.orders ADD COLUMN note text", "exists already."),
    ],
)
def test_statements_that_cannot_be_held_and_read_back_are_refused_and_never_run(user, statement, says):
    with pytest.raises(Refusal, match=says):
        proposed(user, statement)
    assert user.run("-Atc", f"SELECT count(*) FROM {user.schema}.orders").stdout == "30\n"


def test_a_reading_of_another_database_than_the_statement_ran_in_is_refused(user):
    effect = proposed(user, "DELETE FROM shop.orders WHERE id = 1")
    effect.arguments["database"] = "elsewhere"
    with pytest.raises(
        CheckFailed, match=r"This is database postgres of cluster \d+; the statement ran in elsewhere of cluster"
    ) as failed:
        look(user, effect, GONE)
    assert not failed.value.retryable


def test_rows_hidden_by_row_level_security_do_not_count_as_removed(user):
    effect = proposed(user, "DELETE FROM shop.orders WHERE id = 1")
    user.run("-qc", f"ALTER TABLE {user.schema}.orders ENABLE ROW LEVEL SECURITY")
    try:
        with pytest.raises(CheckFailed, match="row-level security"):
            look(user, effect, GONE)
    finally:
        user.run("-qc", f"ALTER TABLE {user.schema}.orders DISABLE ROW LEVEL SECURITY")


def test_only_listed_tables_are_read(user):
    effect = proposed(user, "DELETE FROM shop.orders WHERE id = 1")
    with pytest.raises(CheckFailed, match="not among the tables that may be read"):
        look(user, effect, GONE, tables=["public.orders"])


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({}, "either rows or objects"),
        ({"reads": "rows", "expect": "maybe"}, "present or absent"),
        ({"reads": "objects", "expect": "absent"}, "each object says itself"),
        ({"reads": "rows", "table": "x"}, "unknown field `table`"),
    ],
)
def test_an_incomplete_or_overfull_lookup_is_reported(part, says):
    assert any(says in fault for fault in CHECK.validate({"lookup": {"effects": {"change": part}}}))
