"""The list of tables in docs/scale.md and deploy/citus.sql, compared with the catalogue of a prepared database.

Nothing here runs on a distributed PostgreSQL; what is shown is that no table and no function about a tenant is left
out, and that a node could check every key by itself.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

import psycopg
import pytest

from console.local.installation import ROOT
from tests.db.record.test_isolation import FUNCTIONS

DOCS = (ROOT / "docs" / "scale.md").read_text()
SCRIPT = (ROOT / "deploy" / "citus.sql").read_text()
FIRST = "ledger_subject"
"""The table beside which the others are put."""


def listed(heading: str) -> set[str]:
    """The tables of one section of the guide; none may stand there twice."""
    section = DOCS.split(f"### {heading}\n")[1].split("\n### ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    distributed = heading == "To distribute"
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[2 if distributed else 1])]
    assert len(names) == len(set(names))
    return set(names)


DISTRIBUTED, COPIED, LOCAL = map(listed, ("To distribute", "To copy to each node", "To stay on the coordinator"))


@pytest.fixture
def catalogue(django_db_setup: None, superuser_connection: psycopg.Connection) -> psycopg.Connection:
    return superuser_connection


def tables(catalogue: psycopg.Connection, *, with_tenant: bool) -> set[str]:
    found = catalogue.execute(
        "SELECT relname::text FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition AND %s = EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid"
        " AND attname = 'tenant_id' AND NOT attisdropped)",
        [with_tenant],
    )
    return {name for (name,) in found}


def test_each_table_is_listed_once_in_the_guide(catalogue: psycopg.Connection):
    assert tables(catalogue, with_tenant=True) == DISTRIBUTED
    assert tables(catalogue, with_tenant=False) == COPIED | LOCAL
    assert not COPIED & LOCAL


def test_each_key_of_a_distributed_table_holds_the_tenant(catalogue: psycopg.Connection):
    without = catalogue.execute(
        "SELECT indexrelid::regclass::text FROM pg_index WHERE indisunique AND indrelid::regclass::text = ANY(%s)"
        " AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = indrelid AND attname = 'tenant_id'"
        " AND attnum = ANY(indkey))",
        [sorted(DISTRIBUTED)],
    )
    assert without.fetchall() == []


def references(catalogue: psycopg.Connection) -> list[tuple[str, str, str]]:
    return catalogue.execute(
        "SELECT conrelid::regclass::text, confrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE contype = 'f' AND connamespace = 'public'::regnamespace AND conparentid = 0"
    ).fetchall()


def test_each_reference_leads_where_its_node_can_check_it(catalogue: psycopg.Connection):
    wrong = [
        (table, other)
        for table, other, text in references(catalogue)
        if (
            table in DISTRIBUTED
            and not (other in COPIED or (other in DISTRIBUTED and text.startswith("FOREIGN KEY (tenant_id")))
        )
        or (table in COPIED and other not in COPIED)
        or (table in LOCAL and other in DISTRIBUTED)
    ]
    assert wrong == []


def expected_statements(catalogue: psycopg.Connection) -> list[str]:
    """The statements of the script: a table comes after those that it refers to."""
    order = TopologicalSorter({name: set() for name in sorted(COPIED | DISTRIBUTED)})
    for table, other, _ in references(catalogue):
        if table != other and {table, other} <= COPIED | DISTRIBUTED:
            order.add(table, other)
    for table in DISTRIBUTED - {FIRST}:
        order.add(table, FIRST)
    for table in DISTRIBUTED:
        order.add(table, *COPIED)
    order.prepare()
    statements = []
    while order.is_active():
        ready = sorted(order.get_ready())
        statements += [statement(name) for name in ready]
        order.done(*ready)
    functions = sorted(
        signature for signature, _, first, _ in catalogue.execute(FUNCTIONS).fetchall() if first == "p_tenant"
    )
    return statements + [
        f"SELECT create_distributed_function('{signature}', 'p_tenant', colocate_with := '{FIRST}');"
        for signature in functions
    ]


def statement(table: str) -> str:
    if table in COPIED:
        return f"SELECT create_reference_table('{table}');"
    beside = "none" if table == FIRST else FIRST
    return f"SELECT create_distributed_table('{table}', 'tenant_id', colocate_with := '{beside}');"


def test_the_script_has_each_table_and_function_in_an_order_that_works(catalogue: psycopg.Connection):
    found = [line for line in SCRIPT.splitlines() if line.startswith("SELECT create_")]
    expected = expected_statements(catalogue)
    assert (sorted(set(expected) - set(found)), sorted(set(found) - set(expected))) == ([], []), "missing, too many"
    assert found == expected


def test_what_stands_in_the_way_is_told_in_full(catalogue: psycopg.Connection):
    told = DOCS.split("### What stands in the way\n")[1]
    named = {
        "constraint triggers": "SELECT tgrelid::regclass::text FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
        " WHERE tgconstraint <> 0 AND NOT tgisinternal AND NOT relispartition",
        "identities": "SELECT attrelid::regclass::text FROM pg_attribute WHERE attidentity <> ''",
        "partitions": "SELECT partrelid::regclass::text FROM pg_partitioned_table",
        "generated columns": "SELECT attrelid::regclass::text FROM pg_attribute WHERE attgenerated <> ''",
    }
    for what, query in named.items():
        found = {name for (name,) in catalogue.execute(query).fetchall()} & DISTRIBUTED
        assert found, what
        assert {name for name in found if f"`{name}`" not in told} == set(), what
    everywhere = catalogue.execute(
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
        " AND prorettype <> 'trigger'::regtype AND coalesce(proargnames[1], '') <> 'p_tenant'"
        " AND proname <> 'ledger_learn_sizes'"
    )
    assert {name for (name,) in everywhere.fetchall() if f"`{name}`" not in told} == set()
