"""Observations: every answer becomes evidence in one shape, and none becomes truth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.actions.predicates import OBSERVED
from ledger.record.rules.entry import amend
from ledger.record.rules.lifecycle import State
from ledger.record.rules.lifecycle import next_state as step
from reviews.observations.rules import observe
from reviews.observations.rules.observe import ReportedStatus, answer_step, next_state
from tests.support.verification_runs import LATER, entry, fits

TOOL = "issue_refund"


def seen(status="success", **parts):
    return observe.parse_result({"tool": TOOL, "status": status, **parts}, tool=TOOL)


def before_send(**parts):
    return seen("failed", error={"code": "REFUSED", "phase": "before_send"}, **parts)


@pytest.mark.req("R-OB-02")
@pytest.mark.parametrize("status", ["success", "failed", "partial", "pending", "accepted", "timeout"])
def test_the_six_statuses_are_parsed(status):
    found = seen(status)
    assert found.status == status
    assert found.claimed_success == (status == "success")


@pytest.mark.req("R-OB-02")
@pytest.mark.parametrize(
    "result",
    [
        None,
        "success",
        ["success"],
        {},
        {"status": "ok"},
        {"status": "SUCCESS"},
        {"status": None},
        {"status": ["success"]},
        {"status": "success", "tool": "another_tool"},
        {"status": "success", "error": {"code": "X"}},
        {"status": "failed", "error": "text"},
        {"status": "failed", "error": {"code": 404}},
        {"status": "success", "side_effects": "one"},
    ],
)
def test_any_other_status_is_malformed_and_not_a_success(result):
    found = observe.parse_result(result, tool=TOOL)
    assert found.status is ReportedStatus.MALFORMED
    assert found.fault
    assert not found.claimed_success


@pytest.mark.req("R-TC-12")
@pytest.mark.parametrize(
    "text",
    [
        "Error: no such file or directory, open '/srv/a.txt'",
        "error: pathspec 'x' did not match any file",
        "**Error:** the calendar is read-only",
        "MCP error -32602: Invalid arguments for tool read_file",
        "Error executing tool read_file: not found",
        "FileNotFoundError: [Errno 2] No such file or directory: 'a.txt'",
        "ENOENT: no such file or directory, open 'a.txt'",
        "fatal: not a git repository",
        'Traceback (most recent call last):\n  File "a.py", line 1',
    ],
)
def test_text_that_looks_like_an_error_is_malformed_without_a_status(text):
    answer = seen(evidence=text)
    assert (answer.status, answer.claimed_success) == (ReportedStatus.MALFORMED, False)
    quoted = " ".join(text.split())
    assert answer.fault == (
        f"The tool answered with text; it gave no sign of an error and did not state an outcome: “{quoted}”"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Refunded 24.00 EUR",
        "No errors found.",
        "Errors: 0, warnings: 2",
        "Failed: 0, passed: 12",
        "Email: sent to ada@corp.example",
        "The error log was rotated: 3 files",
        "Error budget of the month",
        "Exceptional: yes",
        "",
    ],
)
def test_prose_and_counts_are_not_errors(text):
    assert seen(evidence=text).status is ReportedStatus.SUCCESS


def test_a_failure_with_evidence_contradicts_itself():
    assert seen("failed", error={"code": "X"}, evidence={"id": 1}).status is ReportedStatus.MALFORMED
    assert seen("failed", error={"code": "X"}, evidence={}).status is ReportedStatus.FAILED


def test_sub_results_must_be_a_list():
    result = {"status": "partial"}
    assert observe.parse_result(result, tool=TOOL, sub_results="x").status is ReportedStatus.MALFORMED
    assert observe.parse_result(result, tool=TOOL, sub_results=[1]).sub_results == (1,)


@pytest.mark.req("R-EX-07", "R-EX-09", "R-EX-10", "R-SM-03")
@pytest.mark.parametrize(
    ("observation", "state"),
    [
        (seen("success"), State.PENDING),
        (seen("failed", error={"code": "X"}), State.PENDING),
        (seen("failed", error={"code": "X", "phase": "after_send"}), State.PENDING),
        (seen("partial"), State.PENDING),
        (seen("pending"), State.PENDING),
        (seen("accepted"), State.ACCEPTED),
        (seen("timeout"), State.UNKNOWN),
        (seen("nonsense"), State.PENDING),
        (before_send(), State.FAILED),
        (before_send(side_effects=["a charge"]), State.PENDING),
        (seen("success", error=None), State.PENDING),
    ],
)
def test_each_answer_leads_to_its_next_state(observation, state):
    assert next_state(observation, State.EXECUTING) is state


@pytest.mark.req("R-EX-09")
def test_a_failure_before_sending_is_read_back_where_there_is_a_system_to_read():
    assert next_state(before_send(), State.EXECUTING, readable=True) is State.PENDING
    assert next_state(before_send(), State.EXECUTING, readable=False) is State.FAILED


def test_a_timeout_never_counts_as_nothing_sent():
    odd = seen("timeout", error={"code": "X", "phase": "before_send"})
    assert next_state(odd, State.EXECUTING) is State.UNKNOWN


@pytest.mark.req("R-OB-13")
@pytest.mark.parametrize("observation", [seen("success"), before_send(), seen("timeout")])
def test_an_answer_after_the_lease_is_verified_by_a_reading(observation):
    assert next_state(observation, State.UNKNOWN) is State.PENDING


@pytest.mark.parametrize("state", sorted(set(State) - {State.EXECUTING, State.UNKNOWN, State.ACCEPTED}))
def test_a_late_answer_changes_no_state(state):
    assert next_state(seen("success"), state) is None


def test_a_result_of_accepted_work_starts_verification():
    assert next_state(seen("success"), State.ACCEPTED) is State.PENDING
    assert next_state(before_send(), State.ACCEPTED) is State.PENDING
    assert next_state(seen("accepted"), State.ACCEPTED) is None


@pytest.mark.req("R-OB-03", "R-OB-12")
@pytest.mark.parametrize("state", [State.EXECUTING, State.ACCEPTED, State.UNKNOWN, State.PENDING])
@pytest.mark.parametrize("observation", [seen(), before_send(), seen("accepted"), seen("timeout")])
def test_each_answer_becomes_a_legal_event_that_refers_to_it(state, observation):
    before = entry(state)
    event = answer_step(observation, state=state, entry=before, pointer="ob-1", at=LATER)
    target = str(event.state) if event.moves else None
    step("action", str(state), target, by="executor", grounds=event.grounds)
    after = amend(before, event.entry)
    assert after["execution"]["observation_pointer"] == "ob-1"
    assert after["reconciliation"]["status"] in {"NOT_STARTED", "UNKNOWN"}
    fits(event.state, after)


def test_a_call_that_was_never_sent_needs_no_verification_without_a_source():
    event = answer_step(before_send(), state=State.EXECUTING, entry=entry(), pointer="ob-1", at=LATER)
    after = amend(entry(State.EXECUTING), event.entry)
    assert after["verification"]["status"] == "NOT_REQUIRED"
    assert after["idempotency"]["status"] == "FAILED_RETRYABLE"
    assert (
        event.reason == "The executor says that it failed before anything was sent; that is its word, and no reading."
    )


def test_a_later_answer_does_not_withdraw_a_claim_of_success():
    claim, later = seen("success"), seen("failed")
    assert observe.deciding_observation([]) is None
    assert observe.deciding_observation([claim, later]) == claim
    assert observe.deciding_observation([seen("timeout"), later]) == later


def test_every_field_of_an_answer_can_be_used_in_a_predicate():
    seen_whole = observe.observation_bindings(
        seen("partial", error={"code": "X", "message": "m", "phase": "after"}, evidence={"id": 1})
    )

    assert set(seen_whole) == set(OBSERVED["properties"])
    assert set(seen_whole["error"]) == set(OBSERVED["properties"]["error"]["properties"])


def test_the_fields_of_an_answer_are_bound_for_expressions():
    assert observe.observation_bindings(None) == {}
    shown = observe.observation_bindings(seen("partial", error={"code": "X"}, evidence={"id": 1}))
    assert shown["status"] == "partial"
    assert shown["success"] is False
    assert shown["error"] == {"code": "X"}
    assert shown["evidence"] == {"id": 1}


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=8) | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["status", "error", "tool"]), inner),
    )
)
def test_any_answer_can_be_recorded(result):
    found = observe.parse_result(result, tool=TOOL)
    assert observe.describe_observation(found)
    assert found.status in ReportedStatus
