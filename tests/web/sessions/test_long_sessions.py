"""A call costs the same however much its session, its run and its target have behind them: no statement reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connection
from psycopg import sql

from ledger import db
from tests.support.api_tenant import DELETE, Workshop, workshop
from tests.support.builders import written_columns

EACH = 1_500
# More than any statement has reason to read, and far less than there is.
MOST = 100

# As often as that the same action again, with its events, its evidence and its call; ids of their own, in order.
AGAIN = """
INSERT INTO {table} ({columns}) SELECT {columns} FROM (SELECT (jsonb_populate_record(t, jsonb_build_object({key},
        ledger_uuid_from(to_timestamp(1790000000 + {start} + n))) || {more})).*
    FROM {table} t, generate_series(1, {count}) n WHERE t.{column} = {action}) made
"""
TABLES = {
    "ledger_subject": ("id", "'{}'"),
    "ledger_event": ("subject_id", "'{}'"),
    "ledger_entry": ("subject_id", "'{}'"),
    "ledger_evidence": ("subject_id", "jsonb_build_object('id', gen_random_uuid())"),
    "ledger_action": ("id", "jsonb_build_object('call_id', gen_random_uuid())"),
    "approvals_call": ("action_id", "jsonb_build_object('id', gen_random_uuid(), 'call_id', gen_random_uuid())"),
}
ELSEWHERE = "jsonb_build_object('target', 'document/' || gen_random_uuid(), 'operation_key', gen_random_uuid())"


@dataclass
class Long:
    """A session in which a great deal has happened."""

    shop: Workshop
    superuser: psycopg.Connection
    session: dict[str, Any]
    made: int = 0

    def call(self, arguments: Any = None, **changes: Any) -> dict[str, Any]:
        body = {
            "call_id": uuid4().hex,
            "tool": "delete_document",
            "arguments": {"path": f"old/{uuid4().hex}.md", "reason": "Old."} if arguments is None else arguments,
            "pin_hash": self.session["pin"]["hash"],
        }
        path = f"/sessions/{self.session['session_id']}/calls"
        result: dict[str, Any] = self.shop.agent.post(path, {"calls": [body | changes]}).json()["results"][0]
        return result

    def again(self, result: dict[str, Any], *, elsewhere: bool = False) -> None:
        """The action of a call, many times over."""
        with self.as_it_is():
            for table, (column, more) in TABLES.items():
                told = f"{more} || {ELSEWHERE}" if elsewhere and table == "ledger_action" else more
                statement = sql.SQL(AGAIN).format(
                    table=sql.Identifier(table),
                    columns=sql.SQL(", ").join(map(sql.Identifier, written_columns(self.superuser, table))),
                    key=sql.Literal(column),
                    column=sql.Identifier(column),
                    start=sql.Literal(self.made),
                    count=sql.Literal(EACH),
                    more=sql.SQL(told),
                    action=sql.Literal(result["action_id"]),
                )
                self.superuser.execute(statement)
        self.made += EACH

    def end(self, result: dict[str, Any], state: str) -> None:
        with self.as_it_is():
            told = (state, result["action_id"])
            self.superuser.execute("UPDATE ledger_subject SET state = %s WHERE id = %s", told)
            self.superuser.execute("UPDATE ledger_action SET state = %s, attempt_count = 1 WHERE id = %s", told)

    @contextmanager
    def as_it_is(self) -> Iterator[None]:
        """Without the guards that keep a record from being made up."""
        self.superuser.execute("SET session_replication_role = replica")
        yield
        self.superuser.execute("SET session_replication_role = origin")


@pytest.fixture
def long(committed_db: Any, superuser_connection: psycopg.Connection) -> Long:
    """Refused calls, deletions of one document that succeeded, and as many of others that wait for people."""
    shop = workshop("orchid").set_up()
    long = Long(shop, superuser_connection, shop.session())
    long.again(long.call({"pth": "a.md"}))
    done = long.call(DELETE)
    long.end(done, "RECONCILED_SUCCESS")
    long.again(done)
    long.again(long.call(), elsewhere=True)
    superuser_connection.execute("UPDATE approvals_session SET calls_refused = %s", [EACH])
    return long


@contextmanager
def overheard() -> Iterator[list[tuple[str, Any]]]:
    """The statements that are sent, with their values: ours, and those of Django's ORM."""
    said: list[tuple[str, Any]] = []
    real = db._encode

    def encode(conn: Any, statement: Any, values: Any) -> Any:
        said.append((statement, values))
        return real(conn, statement, values)

    def executed(execute: Any, statement: Any, values: Any, many: Any, context: Any) -> Any:
        said.append((statement, values))
        return execute(statement, values, many, context)

    with pytest.MonkeyPatch.context() as patch, connection.execute_wrapper(executed):
        patch.setattr(db, "_encode", encode)
        yield said


def rows_read(tenant: UUID, statement: str, values: Any) -> int:
    """How many rows a statement reads, by a plan that is made for any values, as the gate's connections keep it."""
    if not statement.lstrip().startswith(("SELECT", "WITH RECURSIVE")) or "ledger_append" in statement:
        return 0
    with db.tenancy(tenant), connection.cursor() as cursor:
        raw: Any = cursor.connection.cursor()
        if "$1" in statement:
            raw.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            raw.execute(f"PREPARE asked AS {statement}")
            given = sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, values))) if values else sql.SQL("")
            raw.execute(sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) EXECUTE asked{}").format(given))
        else:
            raw.execute(f"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) {statement}", values)
        found = raw.fetchone()[0][0]["Plan"]
        if "$1" in statement:
            raw.execute("DEALLOCATE asked")
    return read_by(found)


def read_by(plan: dict[str, Any]) -> int:
    here = 0
    if plan["Node Type"].endswith("Scan") and plan.get("Relation Name", plan.get("Index Name")):
        unwanted = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        here = int((plan["Actual Rows"] + unwanted) * plan["Actual Loops"])
    return here + sum(read_by(each) for each in plan.get("Plans", []))


CALLS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a tool that is not there": ({"tool": "delete_everything"}, "PHANTOM_TOOL"),
    "wrong arguments": ({"arguments": {"pth": "a.md"}}, "SCHEMA_DRIFT"),
    "a step that nobody knows": ({"depends_on": [str(UUID(int=7))]}, "UNRESOLVED_DEPENDENCY"),
    "an allowed call": ({}, None),
    "a document that was deleted often": ({"arguments": DELETE}, None),
}


@pytest.mark.req("R-TG-03", "R-PL-13")
def test_no_statement_of_the_gate_reads_the_whole_past_of_a_session(long: Long):
    # As the server does by itself once a table has grown; until then it guesses, and may guess wrong.
    long.superuser.execute("ANALYZE")
    for name, (changes, code) in CALLS.items():
        with overheard() as said:
            result = long.call(**changes)
        assert (result["result"]["error"] or {}).get("code") == code, name
        read = {statement: rows_read(long.shop.tenant, statement, values) for statement, values in said}
        assert {statement: rows for statement, rows in read.items() if rows > MOST} == {}, name
        # Its lock, what is read behind it, and what is written, at least.
        assert len(read) >= 4
