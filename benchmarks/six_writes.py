"""The writes that a start ends in, in one pipeline of psycopg, and nothing else: no rule, no lock, no signature.

The grant is spent, the attempt and its lease are noted, the approval is used up, and two events are kept, with as many
bytes and indexes as the record has them.
"""

from __future__ import annotations

import os
from secrets import token_bytes
from uuid import UUID, uuid4

import psycopg

from benchmarks.writers import Write

TABLES = """
CREATE TABLE IF NOT EXISTS bare_grant (jti uuid PRIMARY KEY, consumed_at timestamptz);
CREATE TABLE IF NOT EXISTS bare_approval (id uuid PRIMARY KEY, state text NOT NULL);
CREATE TABLE IF NOT EXISTS bare_attempt (action_id uuid PRIMARY KEY, jti uuid NOT NULL UNIQUE, until timestamptz);
CREATE TABLE IF NOT EXISTS bare_due (subject_id uuid PRIMARY KEY, due_at timestamptz NOT NULL);
CREATE INDEX IF NOT EXISTS bare_due_by_time ON bare_due (due_at);
"""
READY = 2_000
EVENT = (
    "INSERT INTO bare_row (id, subject_id, seq, kind, state, envelope, entry, detail, at)"
    " VALUES (%s, %s, 1, 'execution_started', 'EXECUTING', %s, %s, %s, now())"
)


class SixWrites:
    """One start after another, of grants that `ready` has made."""

    def __init__(self) -> None:
        self.connection = psycopg.connect(os.environ["WRITES_URL"], prepare_threshold=0)
        # Whoever comes first makes them; the others wait.
        self.connection.execute("SELECT pg_advisory_xact_lock(1)")
        self.connection.execute(TABLES, prepare=False)
        self.connection.commit()
        self.left: list[UUID] = []
        self.bytes = token_bytes(900), token_bytes(1_500), token_bytes(250)

    def ready(self) -> None:
        made = [uuid4() for _ in range(READY - len(self.left))]
        with self.connection.cursor() as cursor:
            cursor.executemany("INSERT INTO bare_grant (jti) VALUES (%s)", [(each,) for each in made])
            cursor.executemany("INSERT INTO bare_approval VALUES (%s, 'APPROVED')", [(each,) for each in made])
        self.connection.commit()
        self.left += made

    def __call__(self) -> None:
        if not self.left:
            self.ready()
        this, say = self.left.pop(), self.connection.execute
        with self.connection.pipeline():
            say("UPDATE bare_grant SET consumed_at = now() WHERE jti = %s AND consumed_at IS NULL", [this])
            say("INSERT INTO bare_attempt VALUES (%s, %s, now())", [this, this])
            say("INSERT INTO bare_due VALUES (%s, now() + interval '1 h')", [this])
            say("UPDATE bare_approval SET state = 'CONSUMED' WHERE id = %s AND state = 'APPROVED'", [this])
            for _ in range(2):
                say(EVENT, [uuid4(), uuid4(), *self.bytes])
            self.connection.commit()


def ways(number: int) -> dict[str, Write]:
    """What one writer can do."""
    return {"six": SixWrites()}
