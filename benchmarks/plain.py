"""The SQL of an append without Django: the cost of the server and of one more message, against bare inserts.

All sides speak through the same connection object of psycopg, statements prepared, two messages for an append: what
begins, names the tenant and locks; then the event and the commit. Events are drafted beforehand, by the product's own
operation; the peers write the same bytes.
"""

from __future__ import annotations

import os
from collections import deque
from secrets import token_bytes
from typing import Any
from uuid import UUID, uuid4

import psycopg
from django.utils import timezone
from psycopg.pq import ExecStatus

from benchmarks.writers import Write
from console.local import servers

ACTIONS, READY = 40, 1200
EVENTS_TABLE = "stored_events"
_BARE = (
    b"INSERT INTO bare_row (id, subject_id, seq, kind, state, envelope, entry, detail, at)"
    b" VALUES ($1, $2, 1, 'lease_ended', 'UNKNOWN', $3, $4, $5, now())"
)
_STATEMENTS = {
    b"tenant": b"SELECT set_config('app.tenant', $1, true)",
    b"begin": b"BEGIN",
    b"commit": b"COMMIT",
    b"lock": b"SELECT state, seq, head, entry FROM ledger_lock($1, $2, $3)",
    b"append": b"SELECT ledger_append($1, $2, $3, $4, $5, $6, $7)",
    b"bare": _BARE,
    b"chain": b"SELECT bare_chain_append($1, $2, $3)",
}
_Message = tuple[bytes, list[bytes | None], list[int]]


def ways(number: int) -> dict[str, Write]:
    """Return the operations of one writer."""
    made = _Appends()
    sides: dict[str, Write] = {"append": made, "bare": made.bare, "chain": made.chain}
    return sides | {"eventsourcing": _Recorder(made.sample)}


class _Appends:
    """Events of some actions of this writer, in rotation; `ready` drafts them."""

    def __init__(self) -> None:
        from django.conf import settings

        from benchmarks.append import pending
        from ledger.db import tenancy
        from ledger.record import operations as ledger
        from ledger.record.queries import events

        self.tenant = events.tenants()[0].id
        with tenancy(self.tenant):
            actions = [pending(self.tenant) for _ in range(ACTIONS)]
            locked = [ledger.lock_subject(tenant_id=self.tenant, subject_id=each, kind="action") for each in actions]
        self.heads = deque(locked)
        self.drafts: deque[tuple[UUID, list[bytes | None], list[int]]] = deque()
        self.ready()
        self.sample = [self.drafts[0][1][place] or b"" for place in (1, 3, 5)]
        database = settings.DATABASES["default"]
        words = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD", "dbname": "NAME"}
        self.connection = psycopg.connect(autocommit=True, **{name: database[ours] for name, ours in words.items()})
        self.server = self.connection.pgconn
        for name, statement in _STATEMENTS.items():
            _sound(self.server.prepare(name, statement))

    def ready(self) -> None:
        from benchmarks.append import STATES, moved
        from ledger.record import operations as ledger

        while len(self.drafts) < READY:
            head = self.heads.popleft()
            happening = moved(STATES[head.seq % len(STATES)])
            draft = ledger.draft_event(head, happening, actor=ledger.SYSTEM, at=timezone.now())
            sent = [value.encode() if isinstance(value, str) else value for value in draft.values]
            self.drafts.append((head.id, sent, [0 if isinstance(value, str) else 1 for value in draft.values]))
            self.heads.append(draft.head)

    def __call__(self) -> None:
        if not self.drafts:
            self.ready()
        subject, values, forms = self.drafts.popleft()
        tenant = str(self.tenant).encode()
        self._say(
            (b"begin", [], []),
            (b"tenant", [tenant], [0]),
            (b"lock", [self.tenant.bytes, subject.bytes, b"action"], [1, 1, 0]),
        )
        self._say((b"append", values, forms), (b"commit", [], []))

    def bare(self) -> None:
        _sound(self.server.exec_prepared(b"bare", [uuid4().bytes, uuid4().bytes, *self.sample], [1] * 5, 1))

    def chain(self) -> None:
        _sound(self.server.exec_prepared(b"chain", self.sample, [1] * 3, 1))

    def _say(self, *messages: _Message) -> None:
        server = self.server
        server.enter_pipeline_mode()
        for name, values, forms in messages:
            server.send_query_prepared(name, values, forms, 1)
        server.pipeline_sync()
        while (answer := server.get_result()) is None or answer.status != ExecStatus.PIPELINE_SYNC:
            if answer is not None:
                _sound(answer)
        server.exit_pipeline_mode()


def _sound(answer: Any) -> None:
    if answer.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise SystemExit(f"benchmarks: {answer.get_error_message()}")


class _Recorder:
    """The recorder of `eventsourcing`, one stored event at a time."""

    def __init__(self, sample: list[bytes]) -> None:
        from eventsourcing.persistence import StoredEvent

        self.event, self.state = StoredEvent, b"".join(sample)
        self.recorder = recorder()

    def __call__(self) -> None:
        event = self.event(originator_id=uuid4(), originator_version=1, topic="lease_ended", state=self.state)
        self.recorder.insert_events([event])


def recorder() -> Any:
    """Connect as the owner of the recorder's table."""
    import os
    from urllib.parse import unquote, urlsplit

    from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

    url = urlsplit(os.environ["OWNER_URL"])
    assert url.username == servers.OWNER
    datastore = PostgresDatastore(
        dbname=url.path[1:],
        host=url.hostname or "",
        port=url.port or 0,
        user=unquote(url.username),
        password=unquote(url.password or ""),
    )
    return PostgresApplicationRecorder(datastore, events_table_name=EVENTS_TABLE)


# A start

_TABLES = """
CREATE TABLE IF NOT EXISTS bare_grant (jti uuid PRIMARY KEY, consumed_at timestamptz);
CREATE TABLE IF NOT EXISTS bare_approval (id uuid PRIMARY KEY, state text NOT NULL);
CREATE TABLE IF NOT EXISTS bare_attempt (action_id uuid PRIMARY KEY, jti uuid NOT NULL UNIQUE, until timestamptz);
CREATE TABLE IF NOT EXISTS bare_due (subject_id uuid PRIMARY KEY, due_at timestamptz NOT NULL);
CREATE INDEX IF NOT EXISTS bare_due_by_time ON bare_due (due_at);
"""
GRANTS = 2_000
_EVENT = (
    "INSERT INTO bare_row (id, subject_id, seq, kind, state, envelope, entry, detail, at)"
    " VALUES (%s, %s, 1, 'execution_started', 'EXECUTING', %s, %s, %s, now())"
)


class SixWrites:
    """The writes that a start results in, in one pipeline, without rules, locks or signatures.

    The grant is spent, the attempt and its lease are noted, the approval is used up, and two events are kept, with as
    many bytes and indexes as the record has them. One start after another, of grants that `ready` has made.
    """

    def __init__(self) -> None:
        self.connection = psycopg.connect(os.environ["WRITES_URL"], prepare_threshold=0)
        # Whoever comes first makes them; the others wait.
        self.connection.execute("SELECT pg_advisory_xact_lock(1)")
        self.connection.execute(_TABLES, prepare=False)
        self.connection.commit()
        self.left: list[UUID] = []
        self.bytes = token_bytes(900), token_bytes(1_500), token_bytes(250)

    def ready(self) -> None:
        made = [uuid4() for _ in range(GRANTS - len(self.left))]
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
                say(_EVENT, [uuid4(), uuid4(), *self.bytes])
            self.connection.commit()


def starts(number: int) -> dict[str, Write]:
    """Return the operations of a writer of starts."""
    return {"six": SixWrites()}
