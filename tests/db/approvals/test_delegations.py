"""Delegations and absences on the record, and what those who count votes see of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from approvals.voting.operations import approvers as approvers_operations
from approvals.voting.operations import delegations
from approvals.voting.queries import approvers
from approvals.voting.rules.delegation import DelegationRefused
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def people(tenant: UUID) -> Any:
    with tenancy(tenant):
        found = {name: uuid4() for name in ("ada", "ben", "cyd")}
        for name, actor in found.items():
            groups = ["finance"] if name == "ada" else []
            approvers_operations.add_approver(tenant_id=tenant, actor_id=actor, person_id=actor, groups=groups, at=NOW)
        yield found


def lend(tenant: UUID, people: Any, giver: str = "ada", to: str = "ben", by: str = "", **changes: Any) -> Any:
    told: dict[str, Any] = {"groups": ["finance"], "tools": [], "starts_at": NOW, "ends_at": NOW + 7 * DAY}
    actor = people[by or giver]
    return delegations.add_delegation(
        tenant_id=tenant,
        from_actor=people[giver],
        to_actor=people[to],
        reason="Away.",
        by=ledger.Actor("person", actor),
        by_person=actor,
        at=NOW,
        is_proven=True,
        **told | changes,
    )


def lent(tenant: UUID, people: Any, voter: str = "ben", after: timedelta = DAY) -> list[UUID]:
    return [each.from_actor for each in approvers.delegations_to(tenant, people[voter], NOW + after)]


def test_a_delegation_is_recorded_and_grants_power_until_it_ends(tenant, people):
    row = lend(tenant, people)
    assert lent(tenant, people) == [people["ada"]]
    assert [each.id for each in approvers.delegations_to(tenant, people["ben"], NOW)] == [row.id]
    for after in (-DAY, 7 * DAY, 8 * DAY):
        assert lent(tenant, people, after=after) == []
    assert [event.kind for event, _, _ in events.history(tenant, row.id)] == ["delegated"]


def test_a_delegation_that_was_withdrawn_ends_at_once_on_record(tenant, people):
    row = lend(tenant, people)
    by = ledger.Actor("person", people["ada"])
    delegations.end_delegation(tenant_id=tenant, delegation_id=row.id, by=by, at=NOW + DAY)
    assert lent(tenant, people) == []
    assert [event.kind for event, _, _ in events.history(tenant, row.id)] == ["delegated", "delegation_ended"]
    with pytest.raises(delegations.EndedAlready):
        delegations.end_delegation(tenant_id=tenant, delegation_id=row.id, by=by, at=NOW + DAY)


def test_nobody_can_delegate_another_persons_power_to_themselves(tenant, people):
    with pytest.raises(delegations.NotYours):
        lend(tenant, people, by="ben")
    lend(tenant, people, by="cyd")


def test_delegated_power_cannot_be_delegated_further(tenant, people):
    lend(tenant, people)
    with pytest.raises(DelegationRefused):
        lend(tenant, people, giver="ben", to="cyd")


def test_all_delegations_of_a_removed_member_end(tenant, people):
    row, other = lend(tenant, people), lend(tenant, people, to="cyd")
    delegations.end_all_delegations(tenant_id=tenant, actor_id=people["ada"], by=ledger.SYSTEM, at=NOW)
    for each in (row, other):
        assert events.history(tenant, each.id)[-1][0].kind == "delegation_ended"


def test_an_absence_is_recorded_and_ends(tenant, people):
    by = ledger.Actor("person", people["ada"])
    row = delegations.add_absence(
        tenant_id=tenant, actor_id=people["ada"], starts_at=NOW, ends_at=NOW + DAY, by=by, at=NOW
    )
    assert approvers.is_absent(tenant, people["ada"], NOW)
    assert not approvers.is_absent(tenant, people["ada"], NOW + DAY)
    assert approvers.absent_approvers(tenant, NOW) == {people["ada"]}
    delegations.end_absence(tenant_id=tenant, absence_id=row.id, by=by, at=NOW)
    assert not approvers.is_absent(tenant, people["ada"], NOW)
    assert [event.kind for event, _, _ in events.history(tenant, row.id)] == ["absence_began", "absence_ended"]
