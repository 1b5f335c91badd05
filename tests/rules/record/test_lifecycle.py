"""The lifecycle: every pair of states, on every ground, and the published copy of the table that must agree with it."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.record.rules.lifecycle import (
    BLOCKS_REPEAT,
    MACHINES,
    NEEDS,
    STANDS_FOR,
    TERMINAL,
    TRANSITIONS,
    Ground,
    GroundsMissing,
    IllegalTransition,
    State,
    next_state,
    replay,
    states,
)
from tests.support.tables import every_row

TABLE = json.loads((Path(__file__).parents[2] / "vectors" / "state_machine.json").read_text())
EVERY_GROUND = frozenset(Ground)
PAIRS = list(product(State, State))
MOVES = sorted(TRANSITIONS)


def reached(kind: str) -> set[str]:
    """Every state that some run of legal steps leads to."""
    found, waiting = set(), [""]
    while waiting:
        here = waiting.pop()
        for start, target in MACHINES[kind]:
            if start == here and target not in found:
                found.add(target)
                waiting.append(target)
    return found


# The table


def test_the_states_equal_those_of_the_table():
    assert [str(state) for state in State] == [row["code"] for row in TABLE["states"]]
    assert len(State) == 19


@pytest.mark.req("R-SM-01", "R-SM-02", "R-SM-03", "R-SM-04", "R-SM-05", "R-SM-06", "R-SM-07", "R-SM-08")
@pytest.mark.req("R-SM-09", "R-SM-11", "R-SM-12", "R-SM-13", "R-SM-15", "R-SM-16")
def test_the_transitions_equal_the_recommended_ones_of_the_table():
    table = {(row["code"], target) for row in TABLE["states"] for target in row["transitions_recommended"]}
    assert {(str(start), str(target)) for start, target in TRANSITIONS} == table
    assert len(TRANSITIONS) == TABLE["recommended_edge_count"] == 54


def test_every_transition_of_the_specification_is_allowed():
    stated = {(row["code"], target) for row in TABLE["states"] for target in row["transitions_stated"]}
    assert len(stated) == TABLE["stated_edge_count"]
    assert stated <= {(str(start), str(target)) for start, target in TRANSITIONS}


@pytest.mark.req("R-SM-25")
@pytest.mark.parametrize("edge", TABLE["diagram_only_edges"], ids=lambda edge: edge["to"])
def test_a_shortcut_of_the_diagram_goes_through_committed(edge):
    assert (edge["from"], edge["to"]) not in TRANSITIONS
    assert {(edge["from"], "COMMITTED"), ("COMMITTED", edge["to"])} <= TRANSITIONS


def test_the_states_that_block_a_repeat_equal_those_of_the_table():
    assert sorted(BLOCKS_REPEAT) == sorted(TABLE["blocks_duplicate_mutation"])


@pytest.mark.parametrize(
    "edge", TABLE["edge_guards"] + TABLE["extension_edges"], ids=lambda e: f"{e['from']}-{e['to']}"
)
def test_every_guard_of_the_table_requires_grounds(edge):
    assert NEEDS[State(edge["from"]), State(edge["to"])]


def test_only_legal_transitions_require_grounds():
    assert set(NEEDS) <= TRANSITIONS


def test_the_terminal_states_equal_those_of_the_table():
    assert sorted(TERMINAL) == ["ABANDONED", "COMPENSATED", "RECONCILED_SUCCESS", "ROLLED_BACK"]
    assert {row["code"] for row in TABLE["states"] if row["terminal_kind"] == "hard"} == TERMINAL


@pytest.mark.parametrize("pair", TABLE["distinctions"], ids="-".join)
def test_states_that_must_not_be_confused_have_different_transitions(pair):
    one, other = (
        {("in", start) for start, target in TRANSITIONS if target == state}
        | {("out", target) for start, target in TRANSITIONS if start == state}
        for state in pair
    )
    assert one != other


# Steps


@pytest.mark.req("R-SM-01", "R-SM-02", "R-SM-03", "R-SM-04", "R-SM-05", "R-SM-06", "R-SM-07", "R-SM-08")
@pytest.mark.req("R-SM-09", "R-SM-11", "R-SM-12", "R-SM-13", "R-SM-15", "R-SM-16")
@every_row(("start", "target"), PAIRS)
def test_every_pair_of_states_is_a_transition_or_refused(start, target):
    if (start, target) in TRANSITIONS or start is target:
        assert next_state("action", start, target, by="person", grounds=EVERY_GROUND) == target
    else:
        with pytest.raises(IllegalTransition):
            next_state("action", start, target, by="person", grounds=EVERY_GROUND)


@pytest.mark.parametrize(("start", "target"), sorted(NEEDS), ids=lambda state: str(state))
def test_each_missing_ground_refuses_the_transition(start, target):
    needed = NEEDS[start, target]
    assert next_state("action", start, target, by="person", grounds=needed) == target
    for missing in needed:
        with pytest.raises(GroundsMissing, match=missing):
            next_state("action", start, target, by="person", grounds=EVERY_GROUND - {missing, STANDS_FOR.get(missing)})


def test_only_a_read_only_action_may_commit_without_a_decisive_reading():
    read = NEEDS[State.PENDING, State.COMMITTED] - {Ground.DECISIVE_READ} | {Ground.CHANGES_NOTHING}
    assert next_state("action", State.PENDING, State.COMMITTED, by="system", grounds=read) == State.COMMITTED
    with pytest.raises(GroundsMissing, match="effect_or_claim"):
        next_state("action", State.PENDING, State.COMMITTED, by="system", grounds=frozenset({Ground.CHANGES_NOTHING}))


STAGES = [
    ("no validation", "PROPOSED", "EXECUTING", EVERY_GROUND),
    ("no approval, freeze or hash asked about", "VALIDATED", "EXECUTING", EVERY_GROUND - {Ground.RELEASED}),
    ("no attempt on record", "VALIDATED", "PENDING", EVERY_GROUND),
    ("no answer on record", "EXECUTING", "RECONCILED_SUCCESS", EVERY_GROUND),
    (
        "no reading of the right source",
        "PENDING",
        "COMMITTED",
        EVERY_GROUND - {Ground.DECISIVE_READ, Ground.CHANGES_NOTHING},
    ),
    ("no comparison", "PENDING", "RECONCILED_SUCCESS", EVERY_GROUND),
    ("no predicate that holds", "COMMITTED", "RECONCILED_SUCCESS", EVERY_GROUND - {Ground.PREDICATES_HOLD}),
]


@pytest.mark.req("R-CX-02")
@pytest.mark.parametrize(("skipped", "start", "target", "grounds"), STAGES, ids=[each[0] for each in STAGES])
def test_no_stage_between_a_proposal_and_its_success_can_be_skipped(skipped, start, target, grounds):
    with pytest.raises((IllegalTransition, GroundsMissing)):
        next_state("action", start, target, by="person", grounds=grounds)


@pytest.mark.req("R-SM-18")
@every_row("by", ["agent", "executor", "operator", "auditor", "system", ""])
@every_row("target", [target for start, target in MOVES if start is State.REVIEW_REQUIRED])
def test_only_a_person_takes_an_action_out_of_review(target, by):
    with pytest.raises(GroundsMissing, match="person"):
        next_state("action", "REVIEW_REQUIRED", target, by=by, grounds=EVERY_GROUND)


@pytest.mark.req("R-SM-18", "R-SM-19")
@pytest.mark.parametrize("target", [target for start, target in MOVES if start is State.REVIEW_REQUIRED])
def test_a_person_must_give_reason_and_evidence_to_end_a_review(target):
    assert Ground.REASON_AND_EVIDENCE in NEEDS[State.REVIEW_REQUIRED, target]


@pytest.mark.req("R-SM-10")
@pytest.mark.parametrize("target", ["VALIDATED", "PROPOSED"])
def test_a_failed_action_is_retried_by_policy_only(target):
    with pytest.raises(GroundsMissing):
        next_state("action", "FAILED", target, by="system")
    assert next_state("action", "FAILED", target, by="system", grounds=frozenset({Ground.RETRY_ALLOWED})) == target


@pytest.mark.req("R-SM-14")
def test_only_a_verified_compensation_leads_to_compensated():
    ways = {(start, target) for start, target in TRANSITIONS if target is State.COMPENSATED}
    assert {way: NEEDS[way] for way in ways} == {
        (State.COMPENSATING, State.COMPENSATED): {Ground.COMPENSATION_VERIFIED}
    }


def test_every_success_requires_predicates_that_hold():
    ways = [way for way in TRANSITIONS if way[1] is State.RECONCILED_SUCCESS]
    assert len(ways) == 4
    assert all(Ground.PREDICATES_HOLD in NEEDS[way] for way in ways)


@every_row("kind", sorted(MACHINES))
@every_row("target", [None, "same"])
def test_an_event_without_a_transition_is_legal_in_every_state(kind, target):
    for state in states(kind):
        assert next_state(kind, state, state if target else None, by="system") == state


@every_row("kind", sorted(MACHINES))
@every_row("target", [None, ""])
def test_a_subject_must_be_created_before_it_changes(kind, target):
    with pytest.raises(IllegalTransition, match="must be created"):
        next_state(kind, "", target, by="system")


@pytest.mark.parametrize("kind", sorted(MACHINES))
def test_every_pair_of_every_state_machine_is_a_transition_or_refused(kind):
    everything = sorted(states(kind) | {"", "NO_SUCH_STATE"})
    for start, target in product(everything, everything):
        if (start, target) in MACHINES[kind] or (start == target and start in states(kind)):
            assert next_state(kind, start, target, by="person", grounds=EVERY_GROUND) == target
        else:
            with pytest.raises(IllegalTransition):
                next_state(kind, start, target, by="person", grounds=EVERY_GROUND)


def test_the_next_state_is_a_plain_string():
    assert type(next_state("action", "PROPOSED", State.VALIDATED, by="system")) is str


# What can be reached


@pytest.mark.parametrize("kind", sorted(MACHINES))
def test_every_state_is_reachable(kind):
    assert reached(kind) == states(kind)


@pytest.mark.parametrize("kind", sorted(MACHINES))
def test_each_kind_of_subject_has_its_number_of_initial_states(kind):
    """An approval is asked at once, or after its target was read, or not at all, where a standing one covers it; a
    weaker contract waits for a second person; a version of a policy is in force, or tried on some actions first; a
    standing approval is proposed, or given as a time-boxed pass.
    """
    begun = {target for start, target in MACHINES[kind] if start == ""}
    more = {"approval": {"PREPARING", "REQUESTED", "APPROVED"}, "contract": {"REGISTERED", "PENDING"}}
    more |= {"policy": {"ACTIVE", "CANARY"}, "standing_approval": {"PROPOSED", "ACTIVE"}}
    assert begun == more[kind] if kind in more else len(begun) == 1


def test_success_never_directly_follows_the_answer_of_the_tool():
    before = {start for start, target in TRANSITIONS if target is State.RECONCILED_SUCCESS}
    assert before == {State.COMMITTED, State.UNKNOWN, State.FORWARD_RECOVERY, State.REVIEW_REQUIRED}


# Replays


@st.composite
def lives(draw, kind="action"):
    """A legal run of events from the beginning, stays included."""
    run, here = [], ""
    for _ in range(draw(st.integers(1, 25))):
        ways = sorted(target for start, target in MACHINES[kind] if start == here) + ([here] if here else [])
        target = draw(st.sampled_from(ways))
        run.append((here, target))
        here = target
    return run


@given(st.sampled_from(sorted(MACHINES)).flatmap(lambda kind: st.tuples(st.just(kind), lives(kind))))
def test_a_legal_history_replays_to_its_last_state(life):
    kind, run = life
    assert replay(kind, run) == run[-1][1]


@given(lives(), st.data())
def test_a_replay_detects_a_changed_state(run, data):
    place = data.draw(st.integers(0, len(run) - 1))
    start, target = run[place]
    other = data.draw(st.sampled_from([state for state in State if state not in (target, start)]))
    damaged = [*run[:place], (start, other), *run[place + 1 :]]
    if (start, other) not in MACHINES["action"] or place + 1 < len(run):
        with pytest.raises(IllegalTransition, match="Event"):
            replay("action", damaged)
    else:
        assert replay("action", damaged) != run[-1][1]


@given(lives(), st.data())
def test_a_replay_detects_a_removed_transition(run, data):
    moves = [number for number, (start, target) in enumerate(run[:-1]) if start != target]
    place = data.draw(st.sampled_from(moves or [0]))
    if moves:
        with pytest.raises(IllegalTransition, match=f"Event {place + 1} "):
            replay("action", run[:place] + run[place + 1 :])


def test_no_events_replay_to_no_state():
    assert replay("action", []) == ""


@pytest.mark.parametrize(
    "run", [[("", "")], [("X", "X")], [("PROPOSED", "VALIDATED")], [("", "PROPOSED"), ("", "PROPOSED")]], ids=repr
)
def test_a_history_without_a_beginning_is_refused(run):
    with pytest.raises(IllegalTransition, match="Event"):
        replay("action", run)
