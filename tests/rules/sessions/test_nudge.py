"""The nudge: wait while anything is open, correct what was refused, follow only a contract's next step, else go on."""

from __future__ import annotations

import pytest

from approvals.sessions.rules.nudge import SETTLED, NextMove, choose_nudge, next_step, next_steps
from ledger.record.rules.lifecycle import State
from tests.rules.gate.test_gate import tool

REFUND = tool("issue_refund", next_tools=["list_orders", "send_note"])
OPEN = sorted(set(map(str, State)) - SETTLED)


@pytest.mark.req("R-MC-09", "R-MC-11")
@pytest.mark.parametrize("state", OPEN)
def test_an_open_action_makes_the_agent_wait_and_forbids_a_repeat(state: str):
    advice = choose_nudge(["RECONCILED_SUCCESS", state], refused=["PHANTOM_TOOL"], steps=("list_orders",))

    assert advice.wait
    assert advice.next_tools == ()
    assert "do not repeat" in advice.text
    assert "do not report it as done" in advice.text


def test_the_most_serious_open_state_is_named():
    assert "not known" in choose_nudge(["VALIDATED", "REVIEW_REQUIRED", "UNKNOWN", "EXECUTING"]).text
    assert "A person must settle" in choose_nudge(["VALIDATED", "EXECUTING", "REVIEW_REQUIRED"]).text
    assert "being put right" in choose_nudge(["EXECUTING", "COMPENSATING"]).text
    assert "not carried out yet" in choose_nudge(["VALIDATED"]).text


@pytest.mark.req("R-MC-10", "R-MC-12")
def test_a_next_step_requires_a_chain_in_the_contract_and_disclosure_in_the_session():
    assert next_step(REFUND, "list_orders", ["list_orders"]) == "list_orders"
    assert next_step(REFUND, "list_orders", []) is None
    assert next_step(REFUND, "drop_database", ["drop_database"]) is None
    assert next_step(REFUND, None, ["list_orders"]) is None
    assert next_steps(REFUND, None, ["list_orders", "drop_database"]) == ("list_orders",)
    assert next_steps(REFUND, "send_note", ["list_orders", "send_note"]) == ("send_note",)
    assert next_steps(REFUND, "drop_database", ["drop_database", "list_orders"]) == ()


@pytest.mark.req("R-MC-10")
def test_a_declared_next_step_is_suggested_and_otherwise_a_general_form():
    directive = choose_nudge(["RECONCILED_SUCCESS"], steps=("list_orders",))
    assert (directive.move, directive.next_tool) == (NextMove.CALL, "list_orders")
    assert "`list_orders`" in directive.text
    several = choose_nudge([], steps=("list_orders", "send_note"))
    assert several.next_tools == ("list_orders", "send_note")
    assert several.next_tool is None
    assert choose_nudge(["RECONCILED_SUCCESS"]).move is NextMove.GO_ON


@pytest.mark.req("R-MC-09")
def test_refused_calls_are_corrected_before_anything_else():
    advice = choose_nudge([None, "FAILED"], refused=["PHANTOM_TOOL", "SCHEMA_DRIFT"], steps=("list_orders",))
    assert advice.move is NextMove.CORRECT
    assert not advice.wait


@pytest.mark.req("R-MC-11")
@pytest.mark.parametrize("code", ["TARGET_FROZEN", "BUDGET_EXCEEDED", "DUPLICATE_BLOCKED", "UNRESOLVED_DEPENDENCY"])
def test_steps_blocked_by_a_freeze_budget_or_dependency_are_waited_for(code: str):
    advice = choose_nudge([None], refused=[code, "PHANTOM_TOOL"], steps=("list_orders",))
    assert advice.wait
    assert "do not repeat" in advice.text


def test_a_call_that_the_policy_refuses_is_not_tried_again():
    assert choose_nudge([], refused=["OUTSIDE_AUTONOMY"]).move is NextMove.ASK


@pytest.mark.req("R-FB-06")
def test_at_the_limit_the_agent_is_told_to_stop_and_summarise():
    for advice in (choose_nudge(["UNKNOWN"], refused=["ITERATION_LIMIT"]), choose_nudge(["UNKNOWN"], forced=True)):
        assert advice.move is NextMove.STOP
        assert "summary" in advice.text


@pytest.mark.parametrize("code", ["PIN_EXPIRED", "SESSION_CLOSED", "AGENT_NOT_REGISTERED"])
def test_a_session_that_accepts_no_more_calls_requires_a_new_one(code: str):
    assert choose_nudge(["UNKNOWN"], refused=[code]).move is NextMove.NEW_SESSION
