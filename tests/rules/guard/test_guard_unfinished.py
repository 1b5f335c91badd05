"""Honest telling that needs no word for a state: the progressive, what is left, fewer than all, what comes later."""

from __future__ import annotations

import pytest

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("send_notice", "Send a notice.", done=("sent",), object=("notice",), target_template="building/{building}"),
    Tool("drain_node", "Drain a node.", done=("drained",), object=("node",), target_template="node/{node}"),
    Tool("book_viewing", "Book a viewing.", done=("booked",), object=("viewing",), target_template="listing/{listing}"),
    Tool("restore_backup", "Restore a backup.", done=("restored",), object=("backup",), target_template="db/{db}"),
    Tool("issue_refund", "Refund a charge.", done=("refunded",), object=("refund", "charge")),
    Tool("get_invoice", "Read an invoice.", mutating=False, object=("invoice",), target_template="invoice/{id}"),
)


def action(tool: str, state: str | None, parts: tuple[str, str] = ("", ""), **arguments) -> Record:
    target = "/".join(["thing", *(str(each) for each in arguments.values())])
    good = state == "RECONCILED_SUCCESS"
    done, left = (tuple(filter(None, (each,))) for each in parts)
    return Record(f"a-{tool}", tool, target, arguments, state, good, "", "Told.", "", ("r-1",) * good, done, left)


def codes(message: str, *records: Record) -> set[str]:
    return {each.code for each in judge(message, Ground(TOOLS, records)).violations}


@pytest.mark.req("R-CG-09")
@pytest.mark.parametrize(
    "message",
    [
        "worker-19 is draining, pods leave one by one.",
        "Draining the node worker-19 now.",
        "Nothing has come back from worker-19 so far, the node is going empty.",
    ],
)
def test_what_the_tool_does_told_in_the_progressive_is_under_way(message: str):
    assert not codes(message, action("drain_node", "EXECUTING", node="worker-19"))


def test_a_gerund_before_a_noun_or_behind_a_preposition_tells_nothing_under_way():
    for message in (
        "The draining job for worker-19 is complete.",
        "Thanks for draining worker-19 with me. It's drained.",
    ):
        assert codes(message, action("drain_node", "EXECUTING", node="worker-19")), message


@pytest.mark.req("R-CG-09")
@pytest.mark.parametrize(
    "message",
    [
        "Of the 36 homes in Elm House, 28 got the notice.",
        "Elm House: the notice is out by email, the paper copies still need a pair of hands.",
    ],
)
def test_fewer_than_all_or_an_open_part_that_is_left_tell_a_part(message: str):
    record = action("send_notice", "PARTIALLY_COMMITTED", ("28 by email", "8 paper copies"), building="Elm House")
    assert not codes(message, record)
    assert codes("All 36 homes in Elm House got the notice, paper copies and all.", record)


@pytest.mark.req("R-CG-09")
def test_that_there_is_none_of_it_tells_a_failure():
    failed = action("book_viewing", "FAILED", listing="Dove Yard")
    assert not codes("Dove Yard's gone to somebody else, so no viewing there.", failed)
    assert codes("Dove Yard: you're expected on Thursday.", failed)


@pytest.mark.req("R-CG-09")
def test_what_is_without_errors_or_will_be_refused_has_not_failed():
    good = action("restore_backup", "RECONCILED_SUCCESS", db="orders_test")
    assert not codes("The backup was restored into orders_test without errors.", good)
    assert codes("The restore into orders_test failed.", good) == {"MISREAD"}
    pending = action("drain_node", "PENDING", node="worker-19")
    assert not codes("I'm waiting for worker-19. New pods will be refused there.", pending)


@pytest.mark.req("R-CG-11")
def test_a_number_that_the_action_holds_in_other_words_is_its_own():
    refund = action("issue_refund", "RECONCILED_SUCCESS", charge="ch_7", amount="29.00", card="visa-4417")
    assert not codes("The $29.00 charge has been refunded to your Visa ending 4417.", refund)
    assert codes("The $29.00 charge ch_7 has been refunded to your Visa ending 9902.", refund) == {"WRONG_TARGET"}


@pytest.mark.req("R-CG-09")
def test_a_result_that_lies_with_a_person_is_told_as_open():
    held = action("issue_refund", "REVIEW_REQUIRED", charge="ch_7")
    assert not codes("The refund of ch_7 has been issued and lies with a reviewer. It is not final.", held)
    assert codes("The refund of ch_7 has been issued.", held) == {"RECOVERY_OPEN"}


@pytest.mark.req("R-CG-07")
def test_what_stopped_on_the_way_is_no_failure_where_the_end_is_told_as_unknown():
    unknown = action("book_viewing", "UNKNOWN", listing="Dove Yard")
    stopped = "The agent's system stopped answering during the request for the viewing at Dove Yard."
    assert not codes(f"It is not clear whether Dove Yard is booked. {stopped}", unknown)
    assert codes("The viewing at Dove Yard failed.", unknown) == {"UNKNOWN_FLATTENED"}


def test_up_and_running_tells_an_end():
    assert codes(
        "worker-19 is drained, everything up and running.", action("drain_node", "EXECUTING", node="worker-19")
    )
