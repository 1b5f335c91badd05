"""The door to the record, against PostgreSQL as the application role."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.db import connection

from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.record import operations
from ledger.record.queries import events as queries
from ledger.record.queries import evidence
from ledger.record.rules import envelope
from ledger.record.rules.event_kinds import UnregisteredEvent
from ledger.record.rules.lifecycle import NOTICED, GroundsMissing, IllegalTransition, is_agent_notice
from ledger.record.rules.refusals import NotFound
from tests.support.builders import AT, propose


def validated(**extra):
    return operations.NewEvent(
        kind="validated",
        to="VALIDATED",
        changes={"timestamps": {"validated_at": "2026-11-21T12:00:00.000000Z"}},
        **extra,
    )


@pytest.mark.req("R-SM-21", "R-LE-08")
def test_a_transition_writes_one_event_together_with_the_state(tenant: UUID):
    with tenancy(tenant):
        head = propose(tenant)
        operations.append(head, validated(), actor=operations.SYSTEM, at=AT)
        history = queries.history(tenant, head.id)
        action = actions.action(tenant, head.id)
    assert [(e.kind, e.from_state, e.state) for e, _, _ in history] == [
        ("proposed", "", "PROPOSED"),
        ("validated", "PROPOSED", "VALIDATED"),
    ]
    assert (action.state, action.seq) == ("VALIDATED", 2)


@pytest.mark.req("R-LE-07")
def test_each_stored_envelope_refers_to_the_hash_of_the_one_before(tenant: UUID):
    with tenancy(tenant):
        head = propose(tenant)
        operations.append(head, validated(detail={"because": "checks passed"}), actor=operations.SYSTEM, at=AT)
        (first, _, _), (second, _, detail) = queries.history(tenant, head.id)
    parsed = envelope.parse(bytes(second.envelope))
    assert parsed.prev == envelope.entry_hash(bytes(first.envelope)).hex()
    assert [c.purpose for c in parsed.commitments] == ["entry", "detail"]
    assert detail == {"because": "checks passed"}


@pytest.mark.req("R-SM-22")
def test_an_illegal_transition_changes_nothing(tenant: UUID):
    with tenancy(tenant):
        head = propose(tenant)
        with pytest.raises(IllegalTransition):
            operations.append(
                head, operations.NewEvent(kind="reconciled", to="RECONCILED_SUCCESS"), actor=operations.SYSTEM, at=AT
            )
        assert actions.action(tenant, head.id).seq == 1


@pytest.mark.parametrize("kind", ["noted", "case_claimed"])
def test_an_unregistered_event_kind_is_not_written(tenant: UUID, kind: str):
    """The program is wrong there, not the caller: it is no refusal, and the transaction is rolled back by it."""
    with tenancy(tenant):
        head = propose(tenant)
        with pytest.raises(UnregisteredEvent, match=f"no event '{kind}' of a subject of kind 'action'"):
            operations.append(head, operations.NewEvent(kind=kind), actor=operations.SYSTEM, at=AT)
        assert actions.action(tenant, head.id).seq == 1


def test_a_transition_without_its_grounds_is_refused(tenant: UUID):
    with tenancy(tenant):
        head = operations.append(propose(tenant), validated(), actor=operations.SYSTEM, at=AT)
        with pytest.raises(GroundsMissing):
            operations.append(
                head, operations.NewEvent(kind="execution_started", to="EXECUTING"), actor=operations.SYSTEM, at=AT
            )


@pytest.mark.req("R-SM-23")
def test_a_head_can_be_continued_only_once(tenant: UUID):
    from django.db import DatabaseError, transaction

    with tenancy(tenant):
        head = propose(tenant)
        operations.append(head, validated(), actor=operations.SYSTEM, at=AT)
        with pytest.raises(DatabaseError), transaction.atomic():
            operations.append(head, validated(), actor=operations.SYSTEM, at=AT)
        assert len(queries.history(tenant, head.id)) == 2


def test_evidence_can_be_opened_and_is_not_stored_in_clear(tenant: UUID):
    with tenancy(tenant):
        head = propose(tenant)
        sealed = operations.store_evidence(
            tenant_id=tenant,
            subject_id=head.id,
            purpose="payload",
            data=b'{"amount":100}',
            media_type="application/json",
            source="agent",
            at=AT,
        )
        noted = operations.NewEvent(kind="evidence_added", evidence=(sealed,))
        operations.append(head, noted, actor=operations.SYSTEM, at=AT)
        assert evidence.open_evidence(tenant, sealed.pointer) == b'{"amount":100}'
        assert b"amount" not in bytes(evidence.evidence(tenant, sealed.pointer).sealed)


def test_without_a_tenant_no_rows_are_visible(tenant: UUID):
    with tenancy(tenant):
        head = propose(tenant)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM ledger_event WHERE subject_id = %s", [head.id])
        assert cursor.fetchone() == (0,)


def test_an_envelope_of_another_log_is_refused(tenant: UUID, other_tenant: UUID):
    from django.db import DatabaseError

    with tenancy(other_tenant), pytest.raises(DatabaseError), tenancy(other_tenant):
        propose(tenant)


def test_a_missing_subject_is_reported_as_missing(tenant: UUID):
    with tenancy(tenant), pytest.raises(NotFound):
        operations.lock_subject(tenant_id=tenant, subject_id=uuid4(), kind="action")


@pytest.mark.req("R-PL-13")
@pytest.mark.parametrize("kind", [*NOTICED, "cancelled", "approval_granted"])
@pytest.mark.parametrize("by", ["agent", "operator"])
def test_the_database_marks_an_action_as_noticed_by_its_agent_as_the_rules_do(tenant: UUID, kind: str, by: str):
    """As the rule has it that verifies the record; and what comes later takes it back no more."""
    happening = operations.NewEvent(kind=kind)
    with tenancy(tenant):
        head = propose(tenant)
        assert actions.action(tenant, head.id).noticed is False
        head = operations.append(head, happening, actor=operations.Actor(by, uuid4()), at=AT)
        assert actions.action(tenant, head.id).noticed is is_agent_notice(kind, by)
        operations.append(head, operations.NewEvent(kind="evidence_added"), actor=operations.SYSTEM, at=AT)
        assert actions.action(tenant, head.id).noticed is is_agent_notice(kind, by)
