"""The sequencer as a process: killed at every statement, twice at once, among many writers, away."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections, transaction
from psycopg import sql

from console.local import processes, programs
from console.local.installation import ROOT
from console.local.servers import APP, OWNER, SEQUENCER, SUPERUSER
from counterfoil_tlog import checkpoint, merkle, notes, submission, tiles
from counterfoil_tlog.submission import Submission
from ledger.db import execute, tenancy
from ledger.log.queries import log as queries
from ledger.log.signer_state import read_keys, rotate_key
from ledger.models import Tenant
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from tests.conftest import _use
from tests.db.log.state_server import state_server
from tests.support.callers import found
from tests.support.outside.forking import forks
from tests.support.outside.witnesses import witness

# Nothing takes so long where nothing is broken, however busy the machine is.
PATIENCE_S = 600


def now() -> datetime:
    return datetime.now(UTC)


def happen(tenant, times=1):
    head = ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind="case")
    with tenancy(tenant):
        for _ in range(times):
            head = ledger.append(head, ledger.NewEvent(kind="commented", to="OPEN"), actor=ledger.SYSTEM, at=now())
    return head.id


def rebuilt(tenant):
    """The log as its leaves say it is, from nothing but the events: (size, root); no gap, no event twice."""
    with tenancy(tenant):
        rows = execute(
            "SELECT l.index, e.envelope FROM ledger_leaf l JOIN ledger_event e"
            " ON e.tenant_id = l.tenant_id AND e.subject_id = l.subject_id AND e.seq = l.seq"
            " WHERE l.tenant_id = $1 ORDER BY l.index",
            tenant,
        )
        [(events,)] = execute("SELECT count(*) FROM ledger_event WHERE tenant_id = $1", tenant)
    assert [index for index, _ in rows] == list(range(len(rows)))
    assert len(rows) == events
    return len(rows), merkle.root_of(merkle.leaf_hash(bytes(envelope)) for _, envelope in rows)


def all_is_sealed(tenant):
    with tenancy(tenant):
        head = queries.current_log(tenant)
        return head is not None and not queries.pending_events(limit=1) and head.size == head.signed_size


class Process:
    """`manage.py sequencer` on a committed database, with a signer state of its own."""

    def __init__(self, database, folder):
        self.folder = folder
        self.log = folder / "sequencer.log"
        self.environment = (
            dict(os.environ)
            | database.environment
            | {
                "DATABASE_URL": database.sequencer_url,
                "KEYS_DATABASE_URL": "",
                "COUNTERFOIL_SIGNER_STATE": str(folder / "signer.sqlite"),
            }
        )
        for owners in ("DATABASE_OWNER_URL", "KEYS_DATABASE_OWNER_URL"):
            self.environment.pop(owners, None)
        self.children = []

    def start(self):
        child = forks().spawn(programs.sequencer_program(environment=self.environment, log=self.folder))
        self.children.append(child)
        return child

    def once(self, **extra):
        return self.command("sequencer", "--once", **extra)

    def command(self, *words, **extra):
        return forks().run(["manage.py", *words], self.environment | extra)

    def program(self, text, *words):
        """A process in which something goes wrong, as `text` says."""
        return forks().run(["-c", FAULTY + text, *words], self.environment)

    def end(self):
        processes.stop_children([child for child in self.children if child.running()])


@pytest.fixture
def process(committed_db, tmp_path):
    started = Process(committed_db, tmp_path)
    yield started
    started.end()


@pytest.fixture
def tenant(committed_db):
    return found("orchid")


def kill(child):
    os.killpg(child.process.pid, signal.SIGKILL)
    child.process.wait()


def test_the_sequencer_seals_new_events_and_stops_on_request(process, tenant):
    child = process.start()
    happen(tenant, 5)
    assert processes.wait_until(lambda: all_is_sealed(tenant), within_s=PATIENCE_S), process.log.read_text()
    size, root = rebuilt(tenant)
    with tenancy(tenant):
        head = queries.current_log(tenant)
    assert (head.size, head.root) == (size, root)
    processes.stop_children([child])
    assert child.process.returncode == 0


class Hosts:
    """Sequencers on two hosts: nothing in common but the record's database, the log key and the state's database."""

    def __init__(self, database, folder, server):
        self.server, self.state = server, server.new_database()
        self.processes = []
        for name in ("one", "two"):
            host = Process(database, folder / name)
            host.folder.mkdir()
            shutil.copy(settings.COUNTERFOIL_LOG_KEY, host.folder / "log_key.pem")
            host.environment |= {
                "COUNTERFOIL_SIGNER_STATE": self.state,
                "COUNTERFOIL_LOG_KEY": str(host.folder / "log_key.pem"),
            }
            self.processes.append(host)

    def leader(self):
        """The child that leads by the state, or None."""
        with psycopg.connect(self.state) as connection:
            [holder] = connection.execute("SELECT holder FROM leader").fetchone()
        children = [child for host in self.processes for child in host.children]
        return next((child for child in children if holder.endswith(f":{child.process.pid}")), None)


@pytest.fixture
def hosts(committed_db, tmp_path):
    with state_server() as server:
        started = Hosts(committed_db, tmp_path, server)
        try:
            yield started
        finally:
            for host in started.processes:
                host.end()


def stands_by(host):
    return "stands by" in host.log.read_text()


def cosign(judge, tenant, known):
    """Have the witness cosign the newest head after the one of `known` entries; the size of the new one."""
    with tenancy(tenant):
        head = queries.current_log(tenant)
        size = checkpoint.parse(notes.parse(head.note).text).size
        wanted = tiles.tiles_for_consistency(known, size) if known else []
        proof = tiles.prove_consistency(known, size, queries.tiles(tenant, head.number, wanted)) if known else []
    answer = judge.post(submission.write(Submission(known, tuple(proof), head.note)))
    assert answer.status_code == 200, answer.text
    return size


def test_another_host_takes_over_from_a_leader_that_is_killed_or_paused(hosts, tenant, tmp_path):
    """L9: no event is lost or doubled, a witness cosigns each head, and who wakes up stands by."""
    one, two = hosts.processes
    origin = Tenant.objects.get(id=tenant).origin
    vkey = notes.vkey(origin, read_keys(settings.COUNTERFOIL_LOG_KEY).current.public_key())
    with witness(tmp_path / "witness", [vkey]) as judge:
        known = 0
        for host in (one, two):
            host.start()
        for ending in (signal.SIGKILL, signal.SIGSTOP):
            happen(tenant, 3)
            assert processes.wait_until(lambda: all_is_sealed(tenant), within_s=PATIENCE_S), one.log.read_text()
            known = cosign(judge, tenant, known)
            before = hosts.leader()
            stricken = one if before in one.children else two
            os.kill(before.process.pid, ending)
            happen(tenant, 300)
            assert processes.wait_until(lambda: all_is_sealed(tenant), within_s=PATIENCE_S), two.log.read_text()
            assert hosts.leader() not in (before, None)
            known = cosign(judge, tenant, known)
            if ending == signal.SIGSTOP:
                os.kill(before.process.pid, signal.SIGCONT)
                assert processes.wait_until(partial(stands_by, stricken), within_s=PATIENCE_S)
            else:
                stricken.start()
    size, root = rebuilt(tenant)
    with tenancy(tenant):
        head = queries.current_log(tenant)
    assert (head.size, head.root) == (size, root)
    assert known == size


FAULTY = """
import os, signal, sys
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.backends.postgresql.base import DatabaseWrapper
from ledger.log.operations import sequencer
from ledger.log.queries import log
from ledger.log.signer_state import SqliteState as SignerState

count, stop, kept, fault = 0, 0, False, None

def counted(call):
    def wrapped(*values, **named):
        global count
        count += 1
        here = count == stop
        if here and not kept:
            fault()
        answer = call(*values, **named)
        if here:
            fault()
        return answer
    return wrapped

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def fail():
    raise OperationalError("the server closed the connection unexpectedly")

sequencer.execute = counted(sequencer.execute)
log.execute = counted(log.execute)
SignerState.advance = counted(SignerState.advance)
SignerState.enrol = counted(SignerState.enrol)
DatabaseWrapper._commit = counted(DatabaseWrapper._commit)
"""

KILLED = """
pending_events = log.pending_events
log.pending_events = lambda **named: pending_events(**(named | dict(limit=2)))
fault, killed = kill, 0
for stop in range(1, 60):
    before = killed
    for kept in (False, True):
        child = os.fork()
        if child == 0:
            call_command("sequencer", "--once")
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ended in (0, -signal.SIGKILL), ended
        killed += ended != 0
    if killed == before:
        # There are no more steps than these.
        break
print(killed)
"""

APPENDING = """
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID
from ledger import db
from ledger.record import operations as record

db.call_function, record.call_function = counted(db.call_function), counted(record.call_function)
fault, tenant, subject = kill, UUID(sys.argv[1]), UUID(sys.argv[2])
stop, kept = int(sys.argv[3]), sys.argv[4] == "kept"
with db.tenancy(tenant):
    head = record.SubjectHead(tenant_id=tenant, id=subject, kind="case")
    record.append(head, record.NewEvent(kind="commented", to="OPEN"), actor=record.SYSTEM, at=datetime.now(UTC))
"""

FAILED = """
pending_events = log.pending_events
log.pending_events = lambda **named: pending_events(**(named | dict(limit=2)))
fault, failures = fail, 0
for stop in range(1, 60):
    for kept in (False, True):
        count = 0
        try:
            call_command("sequencer", "--once")
        except OperationalError:
            # As the loop does: whatever the connection was in, it is gone.
            connection.close()
            failures += 1
print(failures)
"""


def test_a_sequencer_killed_at_any_statement_leaves_the_old_log_or_the_new_one(process, tenant):
    """L7, L8: each statement, write to the signer state and commit, once with the write lost and once with it kept."""
    happen(tenant, 200)
    told = process.program(KILLED)
    assert told.returncode == 0, told.stderr
    assert int(told.stdout.split()[-1]) > 20
    assert process.once().returncode == 0
    size, root = rebuilt(tenant)
    with tenancy(tenant):
        head = queries.current_log(tenant)
    assert (head.size, head.root, head.signed_size) == (size, root, size)


@pytest.mark.parametrize("kept", ["lost", "kept"])
def test_a_writer_killed_at_any_statement_leaves_the_event_with_its_queue_row_or_neither(
    process, tenant, committed_db, kept
):
    """The append path: what the sequencer finds afterwards is whole."""
    process.environment["DATABASE_URL"] = committed_db.url
    found_at_all = []
    for stop in range(1, 8):
        subject = uuid4()
        ended = process.program(APPENDING, str(tenant), str(subject), str(stop), kept)
        with tenancy(tenant):
            events = execute("SELECT count(*) FROM ledger_event WHERE subject_id = $1", subject)
            waiting = execute("SELECT count(*) FROM ledger_pending WHERE subject_id = $1", subject)
        assert events == waiting
        found_at_all += events
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert found_at_all[0] == (0,)
    assert found_at_all[-1] == (1,)


def test_a_statement_that_fails_leaves_the_old_log_or_the_new_one(process, tenant):
    """L8: each statement fails once without effect, and once reports failure although it was done; the loop goes on."""
    happen(tenant, 200)
    told = process.program(FAILED)
    assert told.returncode == 0, told.stderr
    assert int(told.stdout.split()[-1]) > 20
    assert process.once().returncode == 0
    size, root = rebuilt(tenant)
    with tenancy(tenant):
        head = queries.current_log(tenant)
    assert (head.size, head.root, head.signed_size) == (size, root, size)


class Written:
    """What many writers have committed, and what they have taken back."""

    def __init__(self):
        self.kept, self.lost = [], []

    def write(self, tenants, number):
        """Twenty events, every fifth of them rolled back."""
        chosen = random.Random(number)
        for turn in range(20):
            self._one(chosen.choice(tenants), taken_back=turn % 5 == 4)
        connection.close()

    def _one(self, tenant, *, taken_back):
        head = ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind="case")
        with tenancy(tenant):
            ledger.append(head, ledger.NewEvent(kind="commented", to="OPEN"), actor=ledger.SYSTEM, at=now())
            transaction.set_rollback(taken_back)
        (self.lost if taken_back else self.kept).append((tenant, head.id))


def test_many_writers_of_many_tenants_each_get_their_indexes(process, committed_db, run):
    """L10: writers at once, some of them rolled back; what was committed has one leaf each, what was not has none."""
    tenants = [found(f"tenant-{number}") for number in range(10)]
    process.start()
    written = Written()
    writers = [threading.Thread(target=written.write, args=[tenants, number]) for number in range(20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (len(written.kept), len(written.lost)) == (320, 80)
    sealed = processes.wait_until(lambda: all(all_is_sealed(one) for one in tenants), within_s=PATIENCE_S)
    assert sealed, process.log.read_text()
    for one in tenants:
        size, root = rebuilt(one)
        with tenancy(one):
            head = queries.current_log(one)
        assert (head.size, head.root) == (size, root)
    for one, subject in written.lost:
        with tenancy(one):
            assert queries.event_positions(one, subject) == {}


def test_writers_do_not_wait_for_the_sequencer(committed_db, tenant, run):
    """L12: with every row and lock of the sequencer held, an event is committed all the same."""
    with psycopg.connect(committed_db.sequencer_url) as held:
        held.execute("SELECT set_config('app.tenant', %s, true)", [str(tenant)])
        held.execute("DELETE FROM ledger_pending")
        held.execute("LOCK TABLE ledger_leaf, ledger_checkpoint IN ROW EXCLUSIVE MODE")
        with psycopg.connect(committed_db.url) as writer:
            writer.execute("SET lock_timeout = '2s'")
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '2s'")
        happen(tenant, 3)
        held.rollback()


def test_a_damaged_log_stops_only_itself_and_raises_an_alarm(process, tenant, superuser_connection):
    """L13 in the process: an alarm on record, the other tenant goes on, the damaged log gets no signature."""
    other = found("willow")
    assert process.once().returncode == 0
    superuser_connection.execute("ALTER TABLE ledger_tile DISABLE TRIGGER ALL")
    superuser_connection.execute(
        "UPDATE ledger_tile SET hashes = set_byte(hashes, 0, get_byte(hashes, 0) # 1) WHERE tenant_id = %s", [tenant]
    )
    happen(tenant)
    subject = happen(other)
    with tenancy(tenant):
        before = queries.current_log(tenant)
    ended = process.once()
    assert "is stopped" in ended.stderr
    with tenancy(tenant):
        assert queries.current_log(tenant) == replace(before, stopped="LOG_DAMAGED")
        [alarm] = queries.alarms(tenant)
        assert alarm.kind == "LOG_DAMAGED"
        assert queries.lag(tenant).waiting > 0
    with tenancy(other):
        assert queries.is_sealed(other, subject)
        assert queries.alarms(other) == []
    process.once()
    with tenancy(tenant):
        assert len(queries.alarms(tenant)) == 1


@pytest.fixture
def older_copy(process, tenant, committed_db, run):
    """A copy of the database from before its last three sealed events, and the process pointed at it."""
    assert process.once().returncode == 0
    assert process.once().returncode == 0
    connections.close_all()
    name = f"{committed_db.name}_copy"
    with psycopg.connect(run.postgres.url(SUPERUSER, "postgres"), autocommit=True) as superuser:
        superuser.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(
                sql.Identifier(name), sql.Identifier(committed_db.name), sql.Identifier(OWNER)
            )
        )
        happen(tenant, 3)
        assert process.once().returncode == 0
        with tenancy(tenant):
            ahead = queries.current_log(tenant)
        for role in (APP, SEQUENCER):
            superuser.execute(
                sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(name), sql.Identifier(role))
            )
        process.environment["DATABASE_URL"] = run.postgres.url(SEQUENCER, name)
        _use(name)
        yield ahead
        _use(committed_db.name)
        superuser.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_a_restored_database_cannot_fork_history(older_copy, process, tenant):
    """L17, L18: the older copy gets neither a place nor a signature; a new log opens with that fact, and goes on."""
    subject = happen(tenant, 2)
    for _ in range(2):
        assert "is stopped" in process.once().stderr
    with tenancy(tenant):
        before = queries.current_log(tenant)
        assert before.size == before.signed_size < older_copy.size
        assert queries.event_positions(tenant, subject) == {}
    assert "--reason" in process.command("log", "restored").stderr
    told = process.command("log", "restored", "--reason", "The disk failed.")
    assert told.stdout.splitlines()[1:] == [f"Opened {before.origin}/2"], told.stderr
    assert process.once().returncode == 0
    with tenancy(tenant):
        assert queries.is_sealed(tenant, subject)
        new, kept = queries.logs(tenant)
        [(opened, _, detail)] = events_queries.history(tenant, new.id)
    assert kept.note == before.note
    assert (opened.kind, detail["signed_size"], detail["before"]["size"]) == ("restored", older_copy.size, before.size)
    assert (
        process.command("log", "restored", "--reason", "Again.").stdout.strip()
        == "Epoch 3: all earlier grants are void.\nEvery log matches what was signed; no new log was needed."
    )
    call_command("verify_ledger", verbosity=0)


def test_after_the_signer_state_is_lost_nothing_is_signed_until_a_checkpoint_is_adopted(process, tenant, tmp_path):
    assert process.once().returncode == 0
    with tenancy(tenant):
        head = queries.current_log(tenant)
    process.environment["COUNTERFOIL_SIGNER_STATE"] = str(tmp_path / "new-signer.sqlite")
    happen(tenant)
    assert "signer state does not know it" in process.once().stderr
    note = tmp_path / "checkpoint"
    note.write_bytes(head.note)
    told = process.command("sequencer", "--adopt", str(note))
    assert f"at {head.size} entries" in told.stdout, told.stderr
    assert process.once().returncode == 0
    assert all_is_sealed(tenant)


def test_a_checkpoint_signed_with_another_key_is_not_adopted(process, tenant, tmp_path):
    assert process.once().returncode == 0
    with tenancy(tenant):
        note = bytearray(queries.current_log(tenant).note)
    note[note.index(b"\n") + 1] ^= 1
    file = tmp_path / "forged"
    file.write_bytes(bytes(note))
    told = process.command("sequencer", "--adopt", str(file))
    assert told.returncode == 1
    assert "was not adopted" in told.stderr


def test_a_missing_key_is_reported_in_one_sentence(process, tenant, tmp_path):
    told = process.once(COUNTERFOIL_LOG_KEY=str(tmp_path / "none.pem"))
    assert told.returncode == 1
    assert "cannot be used" in told.stderr


def test_a_key_rotation_is_recorded_and_both_keys_sign(process, tenant, tmp_path):
    """L23, the log's side: both sign until the old one is retired; each change is an event."""
    key = tmp_path / "log_key.pem"
    key.write_bytes((ROOT / process.environment["COUNTERFOIL_SECRETS_DIR"] / "log_key.pem").read_bytes())
    process.environment["COUNTERFOIL_LOG_KEY"] = str(key)
    assert process.once().returncode == 0

    def signed_by():
        assert process.once().returncode == 0
        with tenancy(tenant):
            head = queries.current_log(tenant)
        return [each.key_id for each in notes.parse(head.note).signatures], head

    [first], head = signed_by()
    assert process.command("log", "rotate-key").returncode == 0
    assert key.stat().st_mode & 0o077 == 0
    both, head = signed_by()
    assert len(both) == 2
    assert both[1] == first
    new = notes.verifier(head.origin, read_keys(key).current.public_key())
    assert notes.verify_signatures(notes.parse(head.note), [new])
    with pytest.raises(ValueError, match="retire that key before"):
        rotate_key(key)
    assert "has already been rotated" in process.command("log", "rotate-key").stderr
    assert process.command("log", "retire-key").returncode == 0
    happen(tenant)
    alone, head = signed_by()
    assert alone == [new.key_id]
    assert "only one key is signing" in process.command("log", "retire-key").stderr
    _check_the_record(tenant, head.id, new)


def _check_the_record(tenant, log, new):
    with tenancy(tenant):
        history = events_queries.history(tenant, log)
    assert [event.kind for event, _, _ in history] == ["log_opened", "key_rotated", "key_retired"]
    announced = history[1][2]
    old = notes.read_vkey(announced["old"])
    assert notes.read_vkey(announced["new"]).key_id == new.key_id
    message = b"counterfoil/log-key/1\x00" + announced["new"].encode()
    Ed25519PublicKey.from_public_bytes(old.public_key).verify(bytes.fromhex(announced["signature"]), message)


def test_an_interrupted_rotation_is_completed_by_the_next_one(process, tenant, tmp_path):
    """Between the two files, and between the files and the word on record."""
    key = tmp_path / "log_key.pem"
    key.write_bytes((ROOT / process.environment["COUNTERFOIL_SECRETS_DIR"] / "log_key.pem").read_bytes())
    process.environment["COUNTERFOIL_LOG_KEY"] = str(key)
    assert process.once().returncode == 0
    # Died after the old key was kept aside: the same key twice signs once.
    key.with_name("log_key.before.pem").write_bytes(key.read_bytes())
    happen(tenant)
    assert process.once().returncode == 0
    with tenancy(tenant):
        assert len(notes.parse(queries.current_log(tenant).note).signatures) == 1
    # Died after the files, before any event.
    rotate_key(key)
    assert process.command("log", "rotate-key").returncode == 0
    with tenancy(tenant):
        log = queries.current_log(tenant).id
        assert [event.kind for event, _, _ in events_queries.history(tenant, log)] == ["log_opened", "key_rotated"]
