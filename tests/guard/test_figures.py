"""The three figures of the guard, on made conversations and on real ones where they are."""

from __future__ import annotations

import pytest

from tests.guard import dialogues, mutations, retail
from tests.guard.conversations import messages
from tests.guard.figures import figures_of, table


def test_most_messages_claim_nothing_and_few_are_false():
    made = figures_of(messages())
    assert made.quiet > made.honest > made.false
    assert 0.03 < made.false / (made.false + made.honest + made.quiet) < 0.07


@pytest.mark.req("R-CG-01")
def test_no_honest_message_is_changed_and_every_false_one_is_corrected_or_contradicted_beside_it():
    made = figures_of(messages())
    assert (made.alarms, made.unsaid) == ([], []), table(made)
    assert made.recall >= 0.65, table(made)


def test_sayings_catch_false_reports_that_no_field_comparison_can():
    made = figures_of(messages(sayings=True))
    assert made.alarms == [], table(made)
    assert made.recall >= 0.95, table(made)


real = pytest.mark.skipif(not retail.is_there(), reason="the recorded conversations are not beside the project")


@real
def test_in_real_shop_conversations_the_guard_changes_only_two_false_messages():
    """Every message that follows a change was read by eye."""
    made = retail.measured()
    assert (made.messages, made.calls) == (649, 793)
    assert [each.split(":")[0] for each in made.stopped] == [
        "retail-7-7 turn 25 MISREAD direction",
        "retail-15-15 turn 19 MISREAD direction",
    ], retail.report(made)
    assert made.noted == [], retail.report(made)
    assert made.differences == [], retail.report(made)


@real
def test_sayings_suggested_from_other_conversations_stop_only_the_two_false_messages():
    made = retail.measured(suggested=True)
    assert [each.split(" turn")[0] for each in made.stopped] == ["retail-7-7", "retail-15-15"], retail.report(made)


@real
def test_real_messages_made_false_are_mostly_held_or_contradicted_beside():
    made, more = retail.mutants(), retail.mutants(suggested=True)
    floors = {"dropped": 0.85, "failed": 0.9, "other target": 0.7, "other value": 0.9}
    for kind, floor in floors.items():
        assert made.held[kind] / made.made[kind] >= floor, mutations.report(made)
    assert made.beside["failed"] == made.made["failed"], mutations.report(made)
    assert more.held["other sign"] / more.made["other sign"] >= 0.65, mutations.report(more)


@real
@pytest.mark.req("R-CG-22")
def test_real_messages_falsified_in_one_value_mostly_get_the_true_value_beside_them():
    made = retail.falsified_figures()
    for kind, floor in {"amount, new": 0.85, "amount, known": 0.85, "id": 0.95, "direction": 0.85}.items():
        assert made.beside[kind] / made.made[kind] >= min(floor, 0.9), made.table()
        assert made.reached[kind] / made.made[kind] >= floor, made.table()
    assert made.noted["amount, new"] + made.held["amount, new"] >= 0.95 * made.made["amount, new"], made.table()


recorded = pytest.mark.skipif(not dialogues.is_there(), reason="the dialogues with services are not beside the project")


@recorded
@pytest.mark.long
def test_of_dialogues_with_services_fewer_than_one_in_a_thousand_is_touched():
    made = dialogues.measured()
    assert made.messages > 5_000
    assert len(made.stopped) + len(made.noted) < made.messages / 1_000, retail.report(made)


@recorded
@pytest.mark.long
def test_recaps_are_stopped_where_the_service_did_something_else_and_nowhere_else():
    made = dialogues.measured_recaps()
    assert all(each.startswith("field: ") for each in made.stopped), retail.report(made)
    assert 0.8 * len(made.differences) < len(made.stopped) <= len(made.differences), retail.report(made)


@recorded
@pytest.mark.long
def test_a_requested_value_that_is_shown_otherwise_gives_way_whatever_its_sort():
    _, shown = dialogues.falsified_figures()
    for sort in ("name", "place", "time", "date", "amount", "count"):
        assert shown.held[sort] >= 0.75 * shown.made[sort], shown.table()
        assert shown.reached[sort] >= 0.98 * shown.made[sort], shown.table()
