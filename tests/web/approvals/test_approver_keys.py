"""Approvers' passkeys: two people stand behind each, one stops it, and the record says who did what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from approvals.voting.operations import approver_keys
from approvals.voting.queries import approvers
from approvals.voting.rules import passkeys
from console.edge.transaction import record_refusal
from ledger.db import tenancy
from ledger.people.rules.confirmation import SecondPersonNeeded
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.refusals import NotFound, Refused
from tests.support.outside.authenticators import ORIGIN, RP_ID, Authenticator

PARTY = passkeys.RelyingParty(id=RP_ID, origins=frozenset({ORIGIN}))


def now() -> datetime:
    return datetime.now(UTC)


def who(place: Any) -> ledger.Actor:
    return ledger.Actor("person", place.actor_id)


def enrol(stage: Any, place: Any, one: Authenticator | None = None) -> Any:
    device = one or Authenticator()
    document = device.registration(b"c" * 32)
    registered = passkeys.read_registration(document, party=PARTY, wanted=b"c" * 32)
    return approver_keys.enrol(
        tenant_id=stage.tenant,
        by=who(place),
        person_id=place.actor_id,
        name="Blue key",
        registered=registered,
        registration=b"{}",
        at=now(),
    )


def step(operation: Any, stage: Any, key: Any, by: Any, **more: Any) -> None:
    """One step, with its refusal on record as the edge would put it."""
    try:
        with tenancy(stage.tenant):
            operation(tenant_id=stage.tenant, key_id=key.id, by=who(by), at=now(), **more)
    except Refused as refusal:
        record_refusal(stage.tenant, refusal.records)
        raise


def state(stage: Any, key: Any) -> tuple[str, list[str]]:
    with tenancy(stage.tenant):
        kinds = [event.kind for event, _, _ in events.history(stage.tenant, key.id)]
        row = approvers.approver_key_by_credential(stage.tenant, key.credential_id)
    assert row is not None
    return row.state, kinds


@pytest.fixture
def people(stage: Any) -> tuple[Any, Any, Any]:
    return (
        stage.person("reviewer"),
        stage.person("administrator"),
        stage.person("administrator", name=f"other@{stage.slug}"),
    )


@pytest.fixture
def key(stage: Any, people: Any) -> Any:
    with tenancy(stage.tenant):
        return enrol(stage, people[0])


def test_a_key_signs_only_after_another_person_confirmed_it(stage, people, key):
    holder, other, _ = people
    assert state(stage, key) == ("PENDING", ["key_enrolled"])
    step(approver_keys.confirm, stage, key, other, person_id=other.actor_id)
    assert state(stage, key) == ("ACTIVE", ["key_enrolled", "key_confirmed"])
    with tenancy(stage.tenant):
        told = events.history(stage.tenant, key.id)[0][2]
    assert told["holder"] == str(holder.actor_id)
    assert passkeys.unbase64url(told["public_key"]) == bytes(key.public_key)


@pytest.mark.parametrize("alias", [False, True])
def test_confirming_the_own_key_is_refused(stage, people, key, alias):
    """B23: not with the same account, and not with another account of the same human."""
    holder, other, _ = people
    with pytest.raises(SecondPersonNeeded):
        step(approver_keys.confirm, stage, key, other if alias else holder, person_id=holder.actor_id)
    assert state(stage, key) == ("PENDING", ["key_enrolled", "key_step_refused"])


def test_a_machine_cannot_enrol_a_key(stage, people):
    """B23."""
    with tenancy(stage.tenant), pytest.raises(approver_keys.NotTheHolder):
        approver_keys.enrol(
            tenant_id=stage.tenant,
            by=ledger.Actor("operator", people[0].actor_id),
            person_id=people[0].actor_id,
            name="",
            registered=passkeys.RegisteredKey(
                credential_id="x", public_key=b"", aaguid=bytes(16), sign_count=0, backup_eligible=False
            ),
            registration=b"{}",
            at=now(),
        )


def test_a_passkey_can_be_enrolled_only_once(stage, people):
    """B23: the same key under another name."""
    one = Authenticator()
    with tenancy(stage.tenant):
        enrol(stage, people[0], one)
        with pytest.raises(approver_keys.KeyTaken):
            enrol(stage, people[1], one)


def test_one_person_suspends_a_key_and_another_revokes_it(stage, people, key):
    _, first, second = people
    step(approver_keys.confirm, stage, key, first, person_id=first.actor_id)
    step(approver_keys.suspend, stage, key, first, person_id=first.actor_id, reason="Lost on a train.")
    assert state(stage, key)[0] == "SUSPENDED"
    with pytest.raises(SecondPersonNeeded):
        step(approver_keys.remove, stage, key, first, person_id=first.actor_id)
    step(approver_keys.remove, stage, key, second, person_id=second.actor_id)
    assert state(stage, key) == (
        "REMOVED",
        ["key_enrolled", "key_confirmed", "key_suspended", "key_step_refused", "key_removed"],
    )
    with pytest.raises(approver_keys.KeyNotPending):
        step(approver_keys.confirm, stage, key, second, person_id=second.actor_id)


def test_neither_holder_nor_suspender_can_reinstate_a_key(stage, people, key):
    holder, first, second = people
    step(approver_keys.confirm, stage, key, first, person_id=first.actor_id)
    step(approver_keys.suspend, stage, key, first, person_id=first.actor_id, reason="Lost?")
    for person in (holder, first):
        with pytest.raises(SecondPersonNeeded):
            step(approver_keys.restore, stage, key, person, person_id=person.actor_id)
    step(approver_keys.restore, stage, key, second, person_id=second.actor_id)
    assert state(stage, key)[0] == "ACTIVE"


def test_an_enrolment_can_be_rejected(stage, people, key):
    step(approver_keys.refuse, stage, key, people[1], reason="Not issued by us.")
    assert state(stage, key)[0] == "REFUSED"


def test_a_key_of_another_tenant_is_not_found(stage, people, key, elsewhere):
    with tenancy(elsewhere), pytest.raises(NotFound, match="Key not found"):
        approver_keys.confirm(
            tenant_id=elsewhere, key_id=key.id, by=who(people[1]), person_id=people[1].actor_id, at=now()
        )
