"""What clients say of a call, before and after it, and what they are answered."""

from __future__ import annotations

import pytest

from counterfoil.coding_agents.hooks import HookDecision, answer_after, answer_before, read_call

CALL = {"session_id": "s", "cwd": "/", "tool_name": "Bash", "tool_input": {"command": "git push"}, "tool_use_id": "t"}
FAILED = {
    "a failed tool": {"hook_event_name": "PostToolUseFailure", "error": "Exit code 1\nfailed to push some refs"},
    "a failed tool without a reason": {"hook_event_name": "PostToolUseFailure"},
    "an answer with an error": {"hook_event_name": "PostToolUse", "tool_response": {"error": "rejected"}},
    "an error beside the answer": {
        "hook_event_name": "PostToolUse",
        "tool_response": {"stdout": ""},
        "error": "rejected",
    },
    "an exit code": {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "", "exit_code": 128}},
    "a result of a type": {"hook_event_name": "PostToolUse", "tool_response": {"resultType": "failure"}},
    "an error by a flag": {"hook_event_name": "AfterTool", "tool_response": {"isError": True}},
}
INTERRUPTED = {
    "an interrupted tool": {"hook_event_name": "PostToolUseFailure", "error": "stopped", "is_interrupt": True},
    "an interrupted answer": {"hook_event_name": "PostToolUse", "tool_response": {"interrupted": True}},
}


@pytest.mark.parametrize("said", FAILED.values(), ids=FAILED)
def test_a_failure_is_never_reported_as_success(said):
    answer = read_call("claude-code", CALL | said).answer
    assert (answer.status, answer.error.code) == ("failed", "COMMAND_FAILED")


@pytest.mark.parametrize("said", INTERRUPTED.values(), ids=INTERRUPTED)
def test_an_interrupted_command_is_no_success(said):
    answer = read_call("claude-code", CALL | said).answer
    assert (answer.status, answer.error.code) == ("failed", "INTERRUPTED")


def test_a_command_that_ended_is_claimed_as_success_and_one_that_has_not_begun_is_not():
    said = {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "", "interrupted": False, "exit_code": 0}}
    assert read_call("claude-code", CALL | said).answer.status == "success"
    assert read_call("claude-code", CALL | {"hook_event_name": "PreToolUse"}).answer is None


def test_the_report_is_returned_under_the_event_of_the_hook():
    told = answer_after("claude-code", "It failed.", "PostToolUseFailure")["hookSpecificOutput"]
    assert told == {"hookEventName": "PostToolUseFailure", "additionalContext": "It failed."}
    assert answer_after("claude-code", "", "PostToolUseFailure") == {}


def test_a_call_can_be_deferred_where_the_client_supports_it():
    decision = HookDecision(False, "Not run yet.", deferred=True)
    assert answer_before("claude-code", decision)["hookSpecificOutput"]["permissionDecision"] == "defer"
    assert answer_before("codex", decision)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert answer_before("claude-code", HookDecision(False))["hookSpecificOutput"]["permissionDecision"] == "deny"
