"""Outcomes in the database: it writes down how a state was reached, and finds actions by what that comes to."""

from __future__ import annotations

from itertools import product
from uuid import UUID, uuid4

import pytest

from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.record import operations
from ledger.record.rules.lifecycle import SETTLING, TRANSITIONS, Ground, State
from ledger.record.rules.outcomes import BY_KIND, BY_STATE, Outcome, outcome_of
from tests.support.builders import AT, propose

PERSON = operations.Actor("person", uuid4())


def way(state: State) -> list[State]:
    """The shortest legal way from PROPOSED to a state."""
    ways = {State.PROPOSED: []}
    while state not in ways:
        ways |= {
            target: [*ways[start], target]
            for start, target in sorted(TRANSITIONS)
            if start in ways and target not in ways
        }
    return ways[state]


def reach(tenant: UUID, state: State, kind: str, **view) -> UUID:
    """A new action in a state that an event of this kind led to."""
    head = propose(tenant, view=view)
    for each in way(state):
        by = kind if each is state else "evidence_added"
        step = operations.NewEvent(kind=by, to=str(each), grounds=frozenset(Ground) - {Ground.CHANGES_NOTHING})
        head = operations.append(head, step, actor=PERSON, at=AT)
    return head.id


def seen(tenant: UUID, action_id: UUID):
    found = actions.action(tenant, action_id)
    assert found is not None
    return found


def test_the_database_sets_the_event_by_which_an_action_reached_its_state(tenant: UUID):
    """A step, and what settles or opens something without one; nothing else."""
    with tenancy(tenant):
        head = propose(tenant)
        assert seen(tenant, head.id).reached_by == "proposed"
        for kind, expected in [
            ("evidence_added", "proposed"),
            *((each, each) for each in SETTLING),
            ("evidence_added", SETTLING[-1]),
        ]:
            head = operations.append(head, operations.NewEvent(kind=kind), actor=PERSON, at=AT)
            assert seen(tenant, head.id).reached_by == expected
        step = operations.NewEvent(kind="validated", to="VALIDATED")
        operations.append(head, step, actor=PERSON, at=AT)
        assert seen(tenant, head.id).reached_by == "validated"


@pytest.mark.req("R-UI-12")
def test_a_search_for_an_outcome_finds_exactly_the_actions_that_have_it(tenant: UUID):
    kinds = [*((state, kind) for state, kind in BY_KIND), *((state, "evidence_added") for state in BY_STATE)]
    flags = [{"contradicted": True}, {"reversed": True}, {"side_effect_class": "READ_ONLY"}]
    flags += [{"approval_id": str(uuid4())}, {}]
    turned = [(State.RECONCILED_SUCCESS, kind) for kind in ("compensated", "compensation_attested", "attested_absent")]
    with tenancy(tenant):
        made = [reach(tenant, state, kind, **view) for (state, kind), view in product(kinds, flags)]
        made += [reach(tenant, state, kind, reversed=True) for state, kind in turned]
        expected = {each: outcome_of(seen(tenant, each)) for each in made}
        assert set(expected.values()) == set(Outcome)
        for outcome in Outcome:
            found = {each.id for each in actions.actions(tenant, outcome=outcome, limit=1000)}
            assert found == {each for each, told in expected.items() if told is outcome}, outcome
