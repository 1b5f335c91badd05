"""Outcomes in the database: it writes down how a state was reached, and finds actions by what that comes to."""

from __future__ import annotations

from itertools import product
from uuid import UUID, uuid4

import pytest

from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.record import operations
from ledger.record.rules.lifecycle import SETTLING, TRANSITIONS, Ground, State
from ledger.record.rules.outcomes import BY_KIND, BY_STATE, LOST_STARTS, UNTOLD, Outcome, is_unknown, outcome_of
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


def reach(tenant: UUID, state: State, kind: str, *, finding: str = "", attempts: int = 0, **view) -> UUID:
    """A new action in a state that an event of this kind led to, with this finding and so many starts on record."""
    told = {"reconciliation": {"discrepancy_class": finding or None}, "execution": {"attempt_count": attempts}}
    head = propose(tenant, view=view)
    for each in way(state):
        by = kind if each is state else "evidence_added"
        grounds = frozenset(Ground) - {Ground.CHANGES_NOTHING}
        step = operations.NewEvent(kind=by, to=str(each), changes=told, grounds=grounds)
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
    flags += [{"approval_id": str(uuid4())}, {"finding": "NO_OP_SUCCESS"}, {}]
    turned = [(State.RECONCILED_SUCCESS, kind) for kind in ("compensated", "compensation_attested", "attested_absent")]
    with tenancy(tenant):
        made = [reach(tenant, state, kind, **view) for (state, kind), view in product(kinds, flags)]
        made += [reach(tenant, state, kind, reversed=True) for state, kind in turned]
        expected = {each: outcome_of(seen(tenant, each)) for each in made}
        assert set(expected.values()) == set(Outcome)
        for outcome in Outcome:
            found = {each.id for each in actions.actions(tenant, outcome=outcome, limit=1000)}
            assert found == {each for each, told in expected.items() if told is outcome}, outcome


def test_a_search_for_what_is_not_known_finds_what_the_rule_calls_so_and_home_counts_it(tenant: UUID):
    findings = [*UNTOLD, "VALUE_MISMATCH", "PARTIAL_APPLICATION"]
    kinds = [(state, "evidence_added") for state in BY_STATE] + [(State.REVIEW_REQUIRED, kind) for kind in LOST_STARTS]
    views = [
        {"finding": finding, "attempts": attempts, "contradicted": contradicted}
        for finding, attempts, contradicted in product(findings, (0, 1), (False, True))
    ]
    with tenancy(tenant):
        made = [seen(tenant, reach(tenant, state, kind, **view)) for (state, kind), view in product(kinds, views)]
        unknown = {each.id for each in made if is_unknown(each)}
        assert {each.discrepancy for each in made} == set(findings)
        assert {each.attempt_count for each in made} == {0, 1}
        found = actions.actions(tenant, outcome=actions.NOT_KNOWN, limit=10_000)
        assert {each.id for each in found} == unknown
        [(count, oldest)] = actions.count_standings(tenant)
        assert (count, oldest) == (len(unknown), AT)
