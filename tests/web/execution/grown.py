"""A record that is made larger by bulk loads, in a database that nobody analyses, and what the server reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection
from psycopg import sql

from ledger.log.queries import log
from tests.support.api_tenant import Workshop
from tests.support.builders import written_columns
from tests.support.seals import as_sequencer

SIZES = (200, 500, 1_250)
# Trees grow a level, and a table of up to four pages may be read whole, a few times a step. What reads all there is
# would read a thousand rows more, from the first size to the last.
MORE_ROWS, MORE_PAGES = 600, 150

# The rows of one action under new names, each table with what else must be unique in a row.
COPIED = """
WITH t AS MATERIALIZED (SELECT * FROM {table} t WHERE {named}), copied AS MATERIALIZED (
    SELECT jsonb_populate_record(NULL::{table}, replace(replace(to_jsonb(t)::text,
        {action}, ledger_uuid_from(to_timestamp(1790000000 + n))::text),
        {approval}, ledger_uuid_from(to_timestamp(1690000000 + n))::text)::jsonb || {own}) AS row
    FROM t, generate_series({start}, {end}) n)
INSERT INTO {table} ({columns}) SELECT {values} FROM copied
"""
NEW_ID = "jsonb_build_object('id', gen_random_uuid())"
NEW_CALL = "jsonb_build_object('id', gen_random_uuid(), 'call_id', gen_random_uuid())"
GRANTED = "jsonb_build_object('jti', md5(n::text || t.jti)::uuid)"
TABLES = {
    **dict.fromkeys(("ledger_subject", "ledger_entry", "approvals_approval"), "'{}'"),
    **dict.fromkeys(("ledger_event", "ledger_evidence", "approvals_vote"), NEW_ID),
    **dict.fromkeys(("reviews_observation", "reviews_run"), NEW_ID),
    **dict.fromkeys(("approvals_grant", "approvals_attempt"), GRANTED),
    "approvals_call": NEW_CALL,
    "ledger_action": """jsonb_build_object('call_id', gen_random_uuid(), 'operation_key', md5(n::text),
        'run_id', md5(n::text))""",
    "ledger_idempotency": "jsonb_build_object('key_hash', md5(n::text || t.key_hash))",
    "ledger_subjectkey": "jsonb_build_object('key_id', gen_random_uuid())",
    "ledger_leaf": "jsonb_build_object('index', 1000000 + n * 100 + t.index)",
}
UNSEEN = """
SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    AND NOT coalesce(reloptions::text ~ 'autovacuum_enabled', false)
"""
READ = """
SELECT t.relname::text, t.seq_tup_read + coalesce((SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i
        WHERE i.relid = t.relid), 0),
    heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0)
FROM pg_stat_user_tables t JOIN pg_statio_user_tables USING (relid)
"""


class Grown:
    """A record that is made larger, and what the server reads of it."""

    def __init__(self, shop: Workshop, superuser: psycopg.Connection) -> None:
        self.shop, self.superuser = shop, superuser
        self.made: dict[str, int] = {}
        self.read: dict[str, dict[str, tuple[int, int]]] = {}
        # Nobody but ourselves has the server look at what is in the tables.
        for (table,) in superuser.execute(UNSEEN).fetchall():
            superuser.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = off)").format(sql.SQL(table)))

    def copy(self, action: str, approval: str, *, up_to: int) -> None:
        """So many actions like this one, with all that belongs to them, each a second after the one before."""
        start = self.made.setdefault(action, 100_000 * len(self.made))
        self.superuser.execute("SET session_replication_role = replica")
        for table, own in TABLES.items():
            columns = written_columns(self.superuser, table)
            statement = sql.SQL(COPIED).format(
                table=sql.Identifier(table),
                columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
                values=sql.SQL(", ").join(sql.SQL("(row).{}").format(sql.Identifier(each)) for each in columns),
                action=sql.Literal(action),
                approval=sql.Literal(approval),
                own=sql.SQL(own),
                start=sql.Literal(start + 1),
                end=sql.Literal(start - start % 100_000 + up_to),
                named=sql.SQL(" OR ").join(
                    sql.SQL("{} IN ({}, {})").format(sql.Identifier(column), sql.Literal(action), sql.Literal(approval))
                    for column in self._columns(table)
                ),
            )
            self.superuser.execute(statement)
        self.superuser.execute("SET session_replication_role = origin")
        self.made[action] = start - start % 100_000 + up_to
        # As the sequencer does every five seconds.
        with as_sequencer():
            log.learn_sizes()
        self.superuser.execute("SELECT pg_stat_force_next_flush()")
        self._told()

    def _columns(self, table: str) -> list[str]:
        """The columns that may name an action or an approval."""
        there = self.superuser.execute(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attname = ANY(%s)",
            [table, ["id", "subject_id", "action_id", "approval_id"]],
        ).fetchall()
        return [name for (name,) in there]

    @contextmanager
    def counted(self, step: str) -> Iterator[None]:
        before = self._told()
        yield
        after = self._told()
        self.read[step] = {
            name: (rows - before[name][0], pages - before[name][1]) for name, (rows, pages) in after.items()
        }

    def _told(self) -> dict[str, tuple[int, int]]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
        return {name: (int(rows), int(pages)) for name, rows, pages in self.superuser.execute(READ).fetchall()}


def more(small: dict[str, Any], large: dict[str, Any]) -> dict[str, Any]:
    """The steps and tables of which a great deal more was read."""
    return {
        (step, table): (small[step][table], (rows, pages))
        for step, tables in large.items()
        for table, (rows, pages) in tables.items()
        if rows > small[step][table][0] + MORE_ROWS or pages > 2 * small[step][table][1] + MORE_PAGES
    }
