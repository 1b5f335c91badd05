"""Integrity checks that a worker takes step by step: they hold, they stop and go on, and they find what was changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.db import tenancy
from tests.support.seals import seal_up


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def stage(committed_db: Any) -> Any:
    """A tenant with a record behind it, committed and sealed."""
    from tests.support.scenes import set_up

    stage = set_up("orchid")
    stage.case()
    stage.done()
    seal_up()
    return stage


def begin(stage: Any) -> Any:
    from ledger.verification import operations as verification_operations

    by = stage.person("compliance").actor_id
    with tenancy(stage.tenant):
        from ledger.record.operations import Actor

        row = verification_operations.start_check(tenant_id=stage.tenant, by=Actor("person", by), at=now())
    seal_up()
    return row


def step(stage: Any, row: Any) -> bool:
    from console.ledger import integrity_step as verification_operations
    from ledger.record.queries import events

    return verification_operations.advance_check(events.tenant_by_id(stage.tenant), row.id, clock=now)


def result(stage: Any, row: Any) -> Any:
    from ledger.verification.queries import storage as verification_operations

    for _ in range(100):
        if not step(stage, row):
            break
    with tenancy(stage.tenant):
        return verification_operations.integrity_check(stage.tenant, row.id)


@pytest.mark.req("R-LE-02")
def test_an_intact_record_passes_and_the_result_is_recorded(stage):
    from ledger.log.queries import log
    from ledger.record.queries import events

    row = result(stage, begin(stage))
    assert (row.state, row.finding) == ("HELD", "")
    with tenancy(stage.tenant):
        size = log.current_log(stage.tenant).size
        assert row.leaves == size
        assert row.events >= size - 1
        assert row.evidence > 5
        event, _, detail = events.history(stage.tenant, row.id)[-1]
        assert log.alarms(stage.tenant) == []
    assert event.kind == "integrity_check_held"
    assert detail["leaves"] == size


def test_an_integrity_check_advances_in_small_steps_and_resumes_after_a_crash(stage, monkeypatch):
    from console.ledger import integrity_step as steps
    from ledger.verification.queries import storage as verification_operations

    monkeypatch.setattr(steps, "SUBJECTS", 3)
    row = begin(stage)
    assert step(stage, row)
    with tenancy(stage.tenant):
        first = verification_operations.integrity_check(stage.tenant, row.id)
    assert first.subjects == 3
    with monkeypatch.context() as patch:
        patch.setattr(steps, "verify_range", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            step(stage, row)
    with tenancy(stage.tenant):
        assert verification_operations.integrity_check(stage.tenant, row.id).place == first.place
    assert result(stage, row).state == "HELD"


def test_an_integrity_check_is_paused_resumed_and_cancelled(stage):
    from ledger.record.operations import SYSTEM
    from ledger.verification import operations as verification_operations

    row = begin(stage)
    turned = {"tenant_id": stage.tenant, "check_id": row.id, "by": SYSTEM, "at": now()}
    with tenancy(stage.tenant):
        verification_operations.pause_check(**turned)
    assert not step(stage, row)
    with tenancy(stage.tenant), pytest.raises(verification_operations.CheckUnderWay):
        verification_operations.start_check(tenant_id=stage.tenant, by=SYSTEM, at=now())
    with tenancy(stage.tenant):
        verification_operations.resume_check(**turned)
    assert step(stage, row)
    with tenancy(stage.tenant):
        verification_operations.cancel_check(**turned)
    assert not step(stage, row)
    with tenancy(stage.tenant):
        verification_operations.start_check(tenant_id=stage.tenant, by=SYSTEM, at=now())


DAMAGE = {
    # Somebody who may do everything changes an event and everything in its row that would give it away.
    "an event, its hash and the next one's link": (
        """
        UPDATE ledger_event SET envelope = convert_to(replace(convert_from(envelope, 'UTF8'), '"kind":"proposed"',
            '"kind":"refunded"'), 'UTF8'), kind = 'refunded' WHERE kind = 'proposed';
        UPDATE ledger_event SET entry_hash = sha256('\\x00'::bytea || envelope) WHERE kind = 'refunded';
        """,
        "",
    ),
    "a leaf's hash in its tile": (
        "UPDATE ledger_tile SET hashes = sha256('x') || substr(hashes, 33) WHERE level = 0 AND index = 0;",
        "Entry 0 of the log: tile 0 of level 0 does not hold its hash.",
    ),
    "the tip": (
        "UPDATE ledger_tip SET root = sha256('x');",
        "from here on the log is not the one that its tip names.",
    ),
    "the newest checkpoint": (
        "UPDATE ledger_tip SET note = convert_to(replace(convert_from(note, 'UTF8'), 'console.test', 'another.test'),"
        " 'UTF8');",
        "the next checkpoint is not good",
    ),
    "an event that is gone": ("DELETE FROM ledger_event WHERE kind = 'reconciled';", ""),
}


FENCES = """
SET session_replication_role = replica;
ALTER TABLE ledger_event DROP CONSTRAINT event_hash_is_of_the_envelope;
DO $$
DECLARE
    one regclass;
BEGIN
    FOR one IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'ledger_event'::regclass
        UNION SELECT unnest(ARRAY['ledger_tile', 'ledger_tip']::regclass[]) LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', one);
    END LOOP;
END $$;
"""


@pytest.mark.req("R-LE-02")
@pytest.mark.parametrize("what", DAMAGE)
def test_a_changed_row_is_found_and_raises_an_alarm(stage, superuser_connection, what):
    """L24: whoever may do everything to the database does it; the check names it and the alarm stands."""
    from ledger.log.queries import log
    from ledger.record.queries import events

    change, named = DAMAGE[what]
    superuser_connection.execute(FENCES)
    superuser_connection.execute(change)
    row = result(stage, begin_unsealed(stage))
    assert row.state == "BROKEN"
    assert named in row.finding
    with tenancy(stage.tenant):
        alarm = log.alarms(stage.tenant)[0]
        assert (alarm.kind, alarm.detail) == ("RECORD_BROKEN", row.finding)
        assert events.history(stage.tenant, row.id)[-1][0].kind == "integrity_check_failed"


def begin_unsealed(stage: Any) -> Any:
    """Begun without the sequencer, which would stop at the same damage."""
    from ledger.record.operations import SYSTEM
    from ledger.verification import operations as verification_operations

    with tenancy(stage.tenant):
        return verification_operations.start_check(tenant_id=stage.tenant, by=SYSTEM, at=now())
