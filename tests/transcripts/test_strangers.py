"""Recordings as other programs write them: outcomes where the format has them, and parts that nobody reads."""

from __future__ import annotations

import json

import pytest

from counterfoil_transcripts.acts import TrustRequirement, believed_state
from tests.transcripts.recordings import TOOLS, agent, asks, run, user
from tests.transcripts.test_command import audit

ID = "ABC123"
SAID = "I have cancelled your reservation ABC123."


# Outcomes


def _function_output(output, **more):
    return [
        {
            "type": "function_call",
            "name": "cancel_reservation",
            "arguments": json.dumps({"reservation_id": ID}),
            "call_id": "c1",
        },
        {"type": "function_call_output", "call_id": "c1", "output": output, **more},
    ]


def _custom_output(output, **more):
    return [
        {
            "type": "custom_tool_call",
            "name": "apply_patch",
            "input": "*** Begin Patch\n*** Delete File: a\n*** End Patch",
            "call_id": "c1",
        },
        {"type": "custom_tool_call_output", "call_id": "c1", "output": output, **more},
    ]


def _shell_output(output, **more):
    return [
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["rm a"]}},
        {"type": "shell_call_output", "call_id": "c1", "output": output, **more},
    ]


HEAD = "Chunk ID: 1\nWall time: 1 s\nProcess exited with code {}\nOriginal token count: 2\nOutput:\nerror 7 seen\n"
OUTCOMES = [
    (_function_output('{"output": "rejected", "metadata": {"exit_code": 1, "duration_seconds": 1.2}}'), "failed", True),
    (_function_output('{"output": "deleted", "metadata": {"exit_code": 0}}'), "success", True),
    (_function_output('{"output": "deleted", "metadata": {}}'), "success", False),
    (_function_output(HEAD.format(1)), "failed", True),
    (_function_output(HEAD.format(0)), "success", True),
    (_function_output(HEAD.format(-9)), "failed", True),
    (_function_output("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno such file\n"), "failed", True),
    (_function_output("Wall time: 9 s\nProcess running with session ID 4\nOutput:\nstill\n"), "pending", True),
    (_function_output("The file says:\nProcess exited with code 1\nOutput:\n"), "success", False),
    (_function_output('{"stdout": "", "exit_code": 3}'), "failed", True),
    (_function_output('{"stdout": "", "returncode": 0}'), "success", True),
    (_function_output('{"content": [], "isError": true}'), "failed", True),
    (_function_output('{"stdout": "a", "timed_out": true}'), "timeout", True),
    (_function_output('{"stdout": "a", "interrupted": true}'), "failed", True),
    (_function_output("Cancelled."), "success", False),
    (_custom_output('{"output": "Success.", "metadata": {"exit_code": 0}}'), "success", True),
    (_custom_output('{"output": "bad patch", "metadata": {"exit_code": 1}}'), "failed", True),
    (_custom_output("rejected", status="failed"), "failed", True),
    (_shell_output([{"stdout": "", "outcome": {"type": "exit", "exit_code": 1}}]), "failed", True),
    (_shell_output([{"stdout": "", "outcome": {"type": "exit", "exit_code": 0}}]), "success", True),
    (_shell_output([{"stdout": "", "outcome": {"type": "timeout"}}]), "failed", True),
]


@pytest.mark.parametrize(("items", "status", "stated"), OUTCOMES)
def test_an_outcome_is_read_where_the_format_states_it(items, status, stated):
    [act] = run(user("Cancel it."), items, tools=()).acts

    assert (str(act.told.status), act.told.typed) == (status, stated)
    assert act.verdict.accepted, act.verdict.message


def test_a_change_whose_answer_states_no_outcome_is_reported_as_such(tmp_path):
    file = tmp_path / "recording.jsonl"
    messages = [user("Cancel it."), *asks("cancel_reservation", "Fine.", reservation_id=ID), agent(SAID)]
    file.write_text(json.dumps({"messages": messages, "tools": TOOLS}) + "\n")
    code, out, _ = audit(file, "--json", tmp_path / "report.json")

    assert code == 0
    assert "answers: not stated 1" in out
    [receipt] = json.loads((tmp_path / "report.json").read_bytes())["conversations"][0]["receipts"]
    assert receipt["lines"][1].startswith("- Outcome not stated: cancel reservation ABC123.")


@pytest.mark.parametrize(
    "tools",
    [
        (),
        [{"type": "custom", "name": "apply_patch", "description": "Edit files.", "format": {"type": "grammar"}}],
        [{"type": "custom", "custom": {"name": "apply_patch", "description": "Edit files."}}],
        [
            {
                "type": "function",
                "function": {
                    "name": "apply_patch",
                    "parameters": {
                        "type": "object",
                        "required": ["patch"],
                        "properties": {"patch": {"type": "string"}},
                    },
                },
            }
        ],
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "c1"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "apply_patch", "input": '{"a": '}}],
        },
    ],
)
def test_a_tool_with_free_form_input_has_no_invented_argument(tools, call):
    [act] = run(user("Edit it."), call, tools=tools).acts

    assert (act.verdict.accepted, act.category) == (True, "valid")


# Ids that are used again


def _call(call_id, reservation):
    made = {"name": "cancel_reservation", "arguments": json.dumps({"reservation_id": reservation})}
    return {"id": call_id, "type": "function", "function": made}


def _made(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def _told(call_id, content):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


PAIRS = {
    "one id for two calls of a message": (
        [_made(_call("x", "A1"), _call("x", "B2")), _told("x", "Error: A1"), _told("x", '{"status": "ok"}')],
        ["failed", "success"],
    ),
    "the id again after a call that was never answered": (
        [_made(_call("x", "A1")), user("Go on."), _made(_call("x", "B2")), _told("x", "Error: B2")],
        [None, "failed"],
    ),
    "the id again in each message": (
        [_made(_call("x", "A1")), _told("x", "Error: A1"), _made(_call("x", "B2")), _told("x", '{"status": "ok"}')],
        ["failed", "success"],
    ),
    "no ids": (
        [_made(_call("", "A1"), _call("", "B2")), _told("", "Error: A1"), _told("", '{"status": "ok"}')],
        ["failed", "success"],
    ),
    "no ids, after a call that was never answered": (
        [_made(_call("", "A1")), user("Go on."), _made(_call("", "B2")), _told("", "Error: B2")],
        [None, "failed"],
    ),
    "answers in another order": (
        [_made(_call("x", "A1"), _call("y", "B2")), _told("y", "Error: B2"), _told("x", '{"status": "ok"}')],
        ["success", "failed"],
    ),
    "each call on a line of its own": (
        [
            *(
                {
                    "type": "function_call",
                    "name": "cancel_reservation",
                    "arguments": json.dumps({"reservation_id": one}),
                    "call_id": "x",
                }
                for one in ("A1", "B2")
            ),
            {"type": "function_call_output", "call_id": "x", "output": "Error: A1"},
            {"type": "function_call_output", "call_id": "x", "output": '{"status": "ok"}'},
        ],
        ["failed", "success"],
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_an_answer_is_matched_to_its_call_by_place_whatever_their_ids(name):
    messages, statuses = PAIRS[name]
    found = run(user("Cancel both."), messages)

    assert [act.told and str(act.told.status) for act in found.acts] == statuses
    assert found.faults == ()


def _rpc(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def _answered(number, **result):
    return {"jsonrpc": "2.0", "id": number, "result": result}


CANCEL = _rpc(1, "tools/call", name="cancel_reservation", arguments={"reservation_id": ID})
FAILED = _answered(1, content=[{"type": "text", "text": "too late"}], isError=True)
LOGS = {
    "a request of the server under the same id": [
        CANCEL,
        _rpc(1, "sampling/createMessage", messages=[]),
        _answered(1, role="assistant", content={"type": "text", "text": "ok"}),
        FAILED,
    ],
    "each message twice": [CANCEL, CANCEL, FAILED, FAILED],
    "other requests before it": [_rpc(1, "initialize"), _answered(1), CANCEL, _rpc(2, "ping"), _answered(2), FAILED],
    "another request that was never answered": [_rpc(1, "resources/read", uri="x"), CANCEL, FAILED],
}


@pytest.mark.parametrize("name", LOGS)
def test_the_rows_of_a_log_form_one_call_and_its_answer(name):
    found = run(user("Cancel it."), LOGS[name])

    assert [str(act.told.status) for act in found.acts] == ["failed"]


def test_a_repeated_row_of_a_session_file_counts_once(tmp_path):
    use = {"type": "tool_use", "id": "t1", "name": "cancel_reservation", "input": {"reservation_id": ID}}
    row = {"type": "assistant", "sessionId": "s", "uuid": "u1", "message": {"role": "assistant", "content": [use]}}
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join(json.dumps(one) for one in (row, row, row | {"uuid": "u2"})) + "\n")
    _, out, _ = audit(file)

    assert "2 calls" in out


# Parts that nobody reads

AI_SDK = [
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "One moment."},
            {"type": "tool-call", "toolCallId": "1", "toolName": "cancel_reservation"},
        ],
    },
    {
        "role": "tool",
        "content": [{"type": "tool-result", "toolCallId": "1", "toolName": "cancel_reservation"}],
    },
]
UNREAD = {
    "AI SDK messages of no version": (AI_SDK, [".content[1]", ".content[0]"]),
    "AI SDK invocations": (
        [
            {
                "role": "assistant",
                "content": "One moment.",
                "toolInvocations": [{"state": "result", "toolName": "cancel_reservation"}],
            }
        ],
        [".toolInvocations"],
    ),
    "AI SDK parts": (
        [
            {
                "role": "assistant",
                "content": "One moment.",
                "parts": [{"type": "text", "text": "x"}, {"type": "tool-invocation", "toolInvocation": {}}],
            }
        ],
        [".parts[1]"],
    ),
    "blocks of two formats in one message": (
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "1", "name": "get_reservation", "input": {"reservation_id": ID}},
                    {"toolUse": {"toolUseId": "1", "name": "get_reservation", "input": {"reservation_id": ID}}},
                ],
            }
        ],
        [".content[0]"],
    ),
    "blocks of Bedrock beside calls of chat": (
        [
            {
                "role": "assistant",
                "content": [
                    {"toolUse": {"toolUseId": "2", "name": "get_reservation", "input": {"reservation_id": ID}}}
                ],
                "tool_calls": [{"id": "2", "type": "function", "function": {"name": "get_reservation"}}],
            }
        ],
        [".tool_calls"],
    ),
    "blocks of Anthropic beside calls of chat": (
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "3", "name": "get_reservation", "input": {"reservation_id": ID}}
                ],
                "tool_calls": [{"id": "3", "type": "function", "function": {"name": "get_reservation"}}],
            }
        ],
        [".tool_calls"],
    ),
    "function calls of another kind": (
        [{"role": "assistant", "content": "x", "functionCalls": [{"name": "a"}]}],
        [".functionCalls"],
    ),
    "calls that are no objects": (
        [{"role": "assistant", "content": "x", "tool_calls": ["cancel_reservation"]}],
        [".tool_calls"],
    ),
    "an unknown item": ([{"type": "robot_call", "name": "x"}], [""]),
    "a number": ([7], [""]),
}


@pytest.mark.parametrize("name", UNREAD)
def test_unread_parts_are_named_and_prevent_accusations(tmp_path, name):
    parts, places = UNREAD[name]
    file = tmp_path / "recording.jsonl"
    messages = [user("Cancel it."), *parts, agent(SAID)]
    file.write_text(json.dumps({"messages": messages, "tools": TOOLS}) + "\n")
    code, out, err = audit(file, "--json", tmp_path / "report.json", "--fail-on-findings")

    assert code == 3
    assert [line for line in err.splitlines() if "line 1[" in line] != []
    for number, place in enumerate(places):
        assert f"line 1[{number + 1}]{place}: " in err, err
    assert "calls may be missing, and nothing is held against the agent there" in err
    assert "of which 0 are unsupported" in out
    [one] = json.loads((tmp_path / "report.json").read_bytes())["conversations"]
    assert [claim for claim in one["claims"] if claim["code"]] == []
    assert one["corrected"] == []


@pytest.mark.parametrize(
    "line",
    ['{"odd": 1}', '{"type": "robot_call", "session_id": "s1"}', '{"role": "assistant", "content": [{"toolUse": {}}]}'],
)
def test_an_unread_line_prevents_accusations_in_its_session(tmp_path, line):
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join([json.dumps(user("Cancel it.")), line, json.dumps(agent(SAID))]) + "\n")
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    code, out, err = audit(file, "--contracts", tools)

    assert code == 3
    assert "line 2" in err or "[1].content[0]" in err
    assert "of which 0 are unsupported" in out


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "x"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "document", "source": {}},
        {"image": {"format": "png"}},
        {"cachePoint": {"type": "default"}},
        {"type": "input_text", "text": "x"},
        "x",
    ],
)
def test_parts_without_calls_are_ignored(tmp_path, block):
    file = tmp_path / "recording.jsonl"
    messages = [user("Cancel it."), {"role": "assistant", "content": [block, {"type": "text", "text": SAID}]}]
    file.write_text(json.dumps({"messages": messages, "tools": TOOLS}) + "\n")
    code, out, err = audit(file)

    assert (code, err) == (0, "")
    assert "of which 1 are unsupported" in out


def test_a_fully_read_conversation_reports_its_false_claims():
    found = run(user("Cancel it."), asks("cancel_reservation", "Error: too late", reservation_id=ID), agent(SAID))

    assert [claim.code for claim in found.claims] == ["MISREAD"]
    assert believed_state(found.acts[0], TrustRequirement.ANSWERS) == "FAILED"
