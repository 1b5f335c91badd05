"""The sequencer's writes: every committed event gets one place in the log, in order, and the head is signed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from counterfoil_tlog import checkpoint, merkle, notes, tiles
from ledger.db import execute, tenancy
from ledger.log.operations import sequencer
from ledger.log.operations.sequencer import LogDamaged
from ledger.log.queries import log as queries
from ledger.log.rules.signing import HistoryForked, SignerStateMissing, TreeHead
from ledger.log.signer_state import read_keys
from ledger.record import operations as ledger
from ledger.record.queries import events
from tests.support import seals
from tests.support.callers import found


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def signer_state_file(tmp_path):
    return tmp_path / "signer.sqlite"


@pytest.fixture
def tenant(db):
    return found("orchid")


def happen(tenant, times=1):
    """So many events of one new subject; the id of the subject."""
    head = ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind="case")
    with tenancy(tenant):
        for _ in range(times):
            step = ledger.NewEvent(kind="commented", to="OPEN")
            head = ledger.append(head, step, actor=ledger.SYSTEM, at=now())
    return head.id


def newest(tenant):
    with tenancy(tenant):
        return queries.current_log(tenant)


def leaf_hashes(tenant):
    """The hashes of the log's events in the order of their places."""
    with tenancy(tenant):
        rows = execute(
            "SELECT l.index, e.entry_hash FROM ledger_leaf l JOIN ledger_event e"
            " ON e.tenant_id = l.tenant_id AND e.subject_id = l.subject_id AND e.seq = l.seq"
            " WHERE l.tenant_id = $1 ORDER BY l.index",
            tenant,
        )
    assert [index for index, _ in rows] == list(range(len(rows)))
    return [bytes(each) for _, each in rows]


@pytest.mark.req("R-LE-02")
def test_every_event_has_an_index_and_the_root_covers_all_of_them(tenant, signer_state_file):
    for size in (1, 254, 2, 300):
        happen(tenant, size)
        seals.seal_up(signer_state_file)
    # The opening of the log itself was appended while it was opened, and waits for the next turn.
    seals.seal_up(signer_state_file)
    head = newest(tenant)
    assert head.size == head.signed_size == len(leaf_hashes(tenant))
    assert head.root == merkle.root_of(leaf_hashes(tenant))


def test_the_checkpoint_is_signed_by_the_key_of_the_log(tenant, signer_state_file):
    seals.seal_up(signer_state_file)
    head = newest(tenant)
    note = notes.parse(head.note)
    key = read_keys(settings.COUNTERFOIL_LOG_KEY).current.public_key()
    assert notes.verify_signatures(note, [notes.verifier(head.origin, key)])
    assert checkpoint.parse(note.text) == checkpoint.CheckpointBody(head.origin, head.size, head.root)


def test_a_signature_reads_no_more_when_many_checkpoints_are_behind_it(tenant, signer_state_file):
    seals.seal_up(signer_state_file)
    planted = (
        "INSERT INTO ledger_checkpoint (tenant_id, log, size, note, signed_at)"
        " SELECT tenant_id, log, -n, note, signed_at - make_interval(secs => n + 1)"
        " FROM ledger_tip, generate_series(1, 3000) n WHERE tenant_id = %s"
    )
    with seals.as_sequencer(), tenancy(tenant), connection.cursor() as cursor:
        cursor.execute(planted, [tenant])
    before = checkpoints_read(tenant)
    happen(tenant)
    seals.seal_up(signer_state_file)
    assert newest(tenant).signed_size == newest(tenant).size
    assert checkpoints_read(tenant) - before < 30


def checkpoints_read(tenant):
    with tenancy(tenant):
        [(rows,)] = execute(
            "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
            " WHERE relname = 'ledger_checkpoint'"
        )
    return rows


def test_each_index_is_proven_under_the_signed_root(tenant, signer_state_file):
    subject = happen(tenant, 7)
    seals.seal_up(signer_state_file)
    head = newest(tenant)
    with tenancy(tenant):
        for seq, place in queries.event_positions(tenant, subject).items():
            read = queries.tiles(tenant, place.log, tiles.tiles_for_inclusion(place.index, head.size))
            leaf = bytes(events.event(tenant, subject, seq).entry_hash)
            proof = tiles.prove_inclusion(place.index, head.size, read)
            merkle.verify_inclusion(leaf=leaf, index=place.index, size=head.size, proof=proof, root=head.root)
            assert place.sealed


def test_events_keep_the_order_in_which_they_were_committed(tenant, signer_state_file):
    """L11: one that began after another was committed stands behind it, however the turns fall."""
    subjects = []
    for turn in range(20):
        subjects.append(happen(tenant, 2))
        if turn % 3 == 0:
            seals.seal_up(signer_state_file)
    seals.seal_up(signer_state_file)
    with tenancy(tenant):
        indexes = [
            place.index for each in subjects for _, place in sorted(queries.event_positions(tenant, each).items())
        ]
    assert indexes == sorted(indexes)


def test_a_rolled_back_event_gets_no_leaf(tenant, signer_state_file):
    """L10: no event, no row in the queue, no leaf."""
    mark = transaction.savepoint()
    happen(tenant)
    transaction.savepoint_rollback(mark)
    seals.seal_up(signer_state_file)
    before = newest(tenant).size
    kept = happen(tenant)
    seals.seal_up(signer_state_file)
    assert before < newest(tenant).size <= before + 2
    with tenancy(tenant):
        assert queries.is_sealed(tenant, kept)


def test_a_tenants_log_holds_only_its_own_events(tenant, signer_state_file):
    other = found("willow")
    happen(tenant, 3)
    happen(other, 5)
    seals.seal_up(signer_state_file)
    seals.seal_up(signer_state_file)
    assert newest(tenant).origin != newest(other).origin
    assert len(leaf_hashes(other)) == len(leaf_hashes(tenant)) + 2


def test_no_new_head_is_signed_while_nothing_happens(tenant, signer_state_file):
    seals.seal_up(signer_state_file)
    seals.seal_up(signer_state_file)
    before = newest(tenant)
    with seals.as_sequencer(), seals.signer(signer_state_file) as signer:
        assert sequencer.sign_head(tenant_id=tenant, signer=signer, at=now()) is None
    assert newest(tenant) == before


def test_an_idle_log_is_reported_as_alive_with_the_same_checkpoint(tenant, signer_state_file):
    seals.seal_up(signer_state_file)
    seals.seal_up(signer_state_file)
    before = newest(tenant)
    later = before.signed_at + sequencer.HEARTBEAT
    with seals.as_sequencer(), seals.signer(signer_state_file) as signer:
        sequencer.sign_head(tenant_id=tenant, signer=signer, at=later)
    assert newest(tenant).note == before.note
    assert newest(tenant).signed_at == later


# Damage

PARTS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'ledger_event'::regclass"


@pytest.fixture
def committed_tenant(committed_db):
    return found("orchid")


@pytest.fixture
def superuser(superuser_connection):
    return superuser_connection


def test_an_event_changed_before_it_was_sealed_stops_the_log(committed_tenant, superuser, signer_state_file):
    """L13, the Yeti case: the bytes are read back and hashed again, and nothing is signed over others."""
    tenant = committed_tenant
    seals.seal_up(signer_state_file)
    subject = happen(tenant)
    before = newest(tenant)
    superuser.execute("SET session_replication_role = replica")
    superuser.execute("ALTER TABLE ledger_event DROP CONSTRAINT event_hash_is_of_the_envelope")
    for (part,) in superuser.execute(PARTS).fetchall():
        superuser.execute(f"ALTER TABLE {part} DISABLE TRIGGER ALL")
    superuser.execute(
        "UPDATE ledger_event SET envelope = replace(convert_from(envelope, 'UTF8'), 'case', 'cast')::bytea"
        " WHERE subject_id = %s",
        [subject],
    )
    with pytest.raises(LogDamaged, match="another hash"):
        seals.seal_up(signer_state_file)
    assert newest(tenant) == before


def test_a_changed_tile_stops_the_log(committed_tenant, superuser, signer_state_file):
    seals.seal_up(signer_state_file)
    superuser.execute("ALTER TABLE ledger_tile DISABLE TRIGGER ALL")
    superuser.execute("UPDATE ledger_tile SET hashes = set_byte(hashes, 0, get_byte(hashes, 0) # 1)")
    happen(committed_tenant)
    with pytest.raises(LogDamaged, match="do not lead to its root"):
        seals.seal_up(signer_state_file)


def test_a_row_of_the_queue_without_an_event_stops_the_log(committed_tenant, superuser, signer_state_file):
    seals.seal_up(signer_state_file)
    superuser.execute(
        "INSERT INTO ledger_pending (tenant_id, subject_id, seq) VALUES (%s, %s, 1)", [committed_tenant, uuid4()]
    )
    with pytest.raises(LogDamaged, match="does not exist"):
        seals.seal_up(signer_state_file)


def test_a_long_queue_of_one_tenant_does_not_hold_up_another(tenant, signer_state_file):
    seals.seal_up(signer_state_file)
    happen(tenant, times=9)
    other = found("lotus")
    happen(other, times=3)
    waiting = queries.pending_events()
    assert {each: len(positions) for each, positions in queries.pending_events(limit=4).items()} == {
        tenant: 2,
        other: 2,
    }
    assert queries.pending_events(limit=1) == {each: positions[:1] for each, positions in waiting.items()}
    assert waiting[tenant] == sorted(waiting[tenant])
    assert queries.pending_events(but=[tenant]) == {other: waiting[other]}
    assert queries.backlog().waiting == sum(map(len, waiting.values()))


def test_no_event_gets_two_indexes(committed_tenant, superuser, signer_state_file):
    subject = happen(committed_tenant)
    seals.seal_up(signer_state_file)
    superuser.execute(
        "INSERT INTO ledger_pending (tenant_id, subject_id, seq) VALUES (%s, %s, 1)", [committed_tenant, subject]
    )
    with pytest.raises(IntegrityError, match="leaf_one_per_event"):
        seals.seal_up(signer_state_file)


# The signer state


def test_a_log_whose_signer_state_is_lost_is_not_signed(tenant, signer_state_file, tmp_path):
    seals.seal_up(signer_state_file)
    happen(tenant)
    with pytest.raises(SignerStateMissing):
        seals.seal_up(tmp_path / "another.sqlite")


def test_the_signer_state_stores_a_head_before_the_database_does(tenant, signer_state_file, monkeypatch):
    """L19: if we die between the two, the same head is signed again and nothing else can be."""
    seals.seal_up(signer_state_file)
    happen(tenant)

    def died(*values, **named):
        raise RuntimeError

    with seals.as_sequencer(), seals.signer(signer_state_file) as signer:
        sequencer.integrate_events(
            tenant_id=tenant, positions=queries.pending_events()[tenant], state=signer.state, at=now()
        )
        with monkeypatch.context() as patched:
            patched.setattr(sequencer, "_publish_checkpoint", died)
            with pytest.raises(RuntimeError), transaction.atomic():
                sequencer.sign_head(tenant_id=tenant, signer=signer, at=now())
        known = signer.state.last(newest(tenant).origin)
        assert known.size > newest(tenant).signed_size
        assert sequencer.sign_head(tenant_id=tenant, signer=signer, at=now()) == known.size
    assert TreeHead(newest(tenant).signed_size, newest(tenant).root) == known


@pytest.fixture
def restored(tenant, signer_state_file):
    """The database is older than what was signed: three entries are missing."""
    seals.seal_up(signer_state_file)
    seals.seal_up(signer_state_file)
    mark = transaction.savepoint()
    happen(tenant, 3)
    seals.seal_up(signer_state_file)
    transaction.savepoint_rollback(mark)
    return tenant


def test_a_restored_database_gets_no_further_entry(restored, signer_state_file):
    """L17: neither a place nor a signature, however far it grows again."""
    before = newest(restored)
    for _ in range(3):
        happen(restored, 2)
        with pytest.raises(HistoryForked, match="was the database restored"):
            seals.seal_up(signer_state_file)
    assert newest(restored) == before


def test_a_different_history_of_the_same_length_is_not_signed(tenant, signer_state_file):
    """L18."""
    seals.seal_up(signer_state_file)
    seals.seal_up(signer_state_file)
    head = newest(tenant)
    with seals.leading_state(signer_state_file) as state:
        state.advance(head.origin, TreeHead(head.size, head.root), TreeHead(head.size, b"\1" * 32))
    happen(tenant)
    with pytest.raises(HistoryForked, match="are others than those"):
        seals.seal_up(signer_state_file)


def test_a_longer_but_different_history_is_not_signed(tenant, signer_state_file):
    """L18: longer than what was signed, but not a continuation of it."""
    seals.seal_up(signer_state_file)
    seals.seal_up(signer_state_file)
    head = newest(tenant)
    happen(tenant, 5)
    with seals.as_sequencer(), seals.leading_state(signer_state_file) as state:
        sequencer.integrate_events(tenant_id=tenant, positions=queries.pending_events()[tenant], state=state, at=now())
        state.advance(head.origin, TreeHead(head.size, head.root), TreeHead(head.size + 2, b"\1" * 32))
        with pytest.raises(HistoryForked, match="do not begin with"), seals.signer(signer_state_file) as signer:
            sequencer.sign_head(tenant_id=tenant, signer=signer, at=now())


def test_after_a_restore_the_new_log_begins_with_that_event(restored, signer_state_file):
    """L17: the old log keeps its last signed head, the new one begins with `restored` and takes what waits."""
    subject, old = happen(restored), newest(restored)
    with seals.as_sequencer(), seals.signer(signer_state_file) as signer:
        origin = sequencer.reopen_log(tenant_id=restored, signer=signer, reason="The disk failed.", at=now())
    assert origin == f"{old.origin}/2"
    seals.seal_up(signer_state_file)
    with tenancy(restored):
        new, kept = queries.logs(restored)
        first = execute(
            "SELECT subject_id, seq FROM ledger_leaf WHERE tenant_id = $1 AND log = 2 AND index = 0", restored
        )
        [(event, _, detail)] = events.history(restored, new.id)
        assert (event.kind, first) == ("restored", [(new.id, 1)])
        assert detail["before"] == {"origin": old.origin, "size": old.size, "root": old.root.hex()}
        assert detail["reason"] == "The disk failed."
        assert detail["signed_size"] == old.size + 3
        assert queries.is_sealed(restored, subject)
    assert (kept.size, kept.note) == (old.size, old.note)
    later = happen(restored)
    seals.seal_up(signer_state_file)
    with tenancy(restored):
        assert json.loads(bytes(events.event(restored, later, 1).envelope))["origin"] == origin
        assert queries.is_sealed(restored, later)


def test_the_record_across_both_logs_is_verified_as_one(restored, signer_state_file):
    happen(restored, 2)
    with seals.as_sequencer(), seals.signer(signer_state_file) as signer:
        sequencer.reopen_log(tenant_id=restored, signer=signer, reason="The disk failed.", at=now())
    happen(restored, 2)
    seals.seal_up(signer_state_file)
    call_command("verify_ledger", verbosity=0)


def test_a_sound_log_cannot_be_declared_restored(tenant, signer_state_file):
    seals.seal_up(signer_state_file)
    with seals.as_sequencer(), seals.signer(signer_state_file) as signer:
        assert sequencer.reopen_log(tenant_id=tenant, signer=signer, reason="Why not.", at=now()) is None


def test_a_signer_state_that_already_has_a_log_accepts_no_other_head(tenant, signer_state_file):
    seals.seal_up(signer_state_file)
    origin = newest(tenant).origin
    with seals.leading_state(signer_state_file) as state:
        with pytest.raises(HistoryForked, match="nothing to adopt"):
            state.adopt(origin, TreeHead(1, b"\1" * 32))
        with pytest.raises(HistoryForked, match="signed before"):
            state.enrol(origin)
    assert signer_state_file.stat().st_mode & 0o077 == 0
