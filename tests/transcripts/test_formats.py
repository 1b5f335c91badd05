from __future__ import annotations

import gzip
import json

import pytest

from counterfoil_transcripts.reading import intake
from counterfoil_transcripts.reading.formats.detect import NAMES
from counterfoil_transcripts.reading.records import AGENT, Transcript, TranscriptFault
from tests.transcripts.written import WRITERS

ASKED = {"reservation_id": "ABC123"}
SHOWN = {"reservation_id": "ABC123", "status": "cancelled"}

OPENAI = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Cancel ABC123."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "cancel", "arguments": json.dumps(ASKED)}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "cancel", "content": json.dumps(SHOWN)},
    {"role": "assistant", "content": "It is cancelled."},
]
ANTHROPIC = [
    {"role": "user", "content": "Cancel ABC123."},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "c1", "name": "cancel", "input": ASKED},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": json.dumps(SHOWN)}]}
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "It is cancelled."}]},
]
RESPONSES = [
    {"role": "user", "content": "Cancel ABC123."},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "cancel", "arguments": json.dumps(ASKED)},
    {"type": "function_call_output", "call_id": "c1", "output": json.dumps(SHOWN)},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is cancelled."}]},
]


def dumpd(kind, **fields):
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": fields}


LC_CALL = {"name": "cancel", "args": ASKED, "id": "c1", "type": "tool_call"}
DUMPD = [
    dumpd("HumanMessage", content="Cancel ABC123.", type="human"),
    dumpd("AIMessage", content="", tool_calls=[LC_CALL], type="ai"),
    dumpd("ToolMessage", content=json.dumps(SHOWN), tool_call_id="c1", name="cancel", status="success"),
    dumpd("AIMessageChunk", content="It is cancelled."),
]
TO_DICT = [
    {"type": "human", "data": {"content": "Cancel ABC123.", "type": "human"}},
    {"type": "ai", "data": {"content": "", "tool_calls": [LC_CALL], "type": "ai"}},
    {"type": "tool", "data": {"content": json.dumps(SHOWN), "tool_call_id": "c1", "name": "cancel"}},
    {"type": "ai", "data": {"content": "It is cancelled."}},
]
DUMPED = [{"type": one["type"], **one["data"]} for one in TO_DICT]
SHAREGPT = [
    {"from": "human", "value": "Cancel ABC123."},
    {"from": "function_call", "value": json.dumps({"name": "cancel", "arguments": ASKED})},
    {"from": "observation", "value": json.dumps(SHOWN)},
    {"from": "gpt", "value": "It is cancelled."},
]
MCP = [
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}},
    {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-06-18"}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "cancel", "inputSchema": {"type": "object"}}]}},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "cancel", "arguments": ASKED}},
    {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": json.dumps(SHOWN)}]}},
]


def line(kind, message=None, **more):
    """A line of a session file of Claude Code."""
    envelope = {"type": kind, "sessionId": "s1", "uuid": "u", "parentUuid": None, "cwd": "/srv", "version": "2.0.1"}
    return {**envelope, **({"message": message} if message else {}), **more}


_PARTS = [{"role": "assistant", "type": "message", "id": "m1", "content": [one]} for one in ANTHROPIC[1]["content"]]
CLAUDE_CODE = [
    {"type": "summary", "summary": "Cancelling", "leafUuid": "u9"},
    {"type": "file-history-snapshot", "messageId": "u", "snapshot": {}},
    line("user", {"role": "user", "content": "Cancel ABC123."}),
    line("user", {"role": "user", "content": "I have refunded it."}, isMeta=True),
    *(line("assistant", part) for part in _PARTS),
    line("user", ANTHROPIC[2], toolUseResult={"stdout": "x"}),
    line("assistant", ANTHROPIC[3]),
    line(
        "assistant", {"role": "assistant", "content": [{"type": "text", "text": "API Error"}]}, isApiErrorMessage=True
    ),
    line("system", subtype="turn_duration", durationMs=5),
    {"type": "permission-mode", "permissionMode": "default", "sessionId": "s1"},
    {"type": "attachment", "uuid": "x", "attachment": {}},
    line("user", {"role": "user", "content": "Look it up."}, isSidechain=True, agentId="a1"),
    line("assistant", ANTHROPIC[3], isSidechain=True, agentId="a1"),
]
COMMANDS = [
    {"role": "user", "content": "List."},
    {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "call_id": "c1", "output": "a.txt"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "There is a.txt."}]},
]
ALL = {
    "openai-chat": [OPENAI],
    "anthropic": [ANTHROPIC],
    "openai-responses": [RESPONSES],
    "langchain": [DUMPD, TO_DICT, DUMPED],
    "sharegpt": [SHAREGPT],
    "claude-code": [CLAUDE_CODE[:-2]],
    "mcp": [MCP],
}


def read(tmp_path, text, name="recording.json"):
    file = tmp_path / name
    if isinstance(text, bytes):
        file.write_bytes(text)
    else:
        file.write_text(text if isinstance(text, str) else json.dumps(text))
    return list(intake.read_conversations(file))


def one(read_back):
    assert len(read_back) == 1
    assert isinstance(read_back[0], Transcript), read_back
    return read_back[0]


def told(conversation):
    """Calls, answers and words of a conversation, whatever it was recorded in."""
    calls = [
        (call.tool, json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments)
        for turn in conversation.turns
        for call in turn.calls
    ]
    answers = [answer.content for turn in conversation.turns for answer in turn.answers if answer.content == SHOWN]
    words = [turn.text for turn in conversation.turns if turn.role == AGENT and turn.text]
    return calls, answers, words


def test_every_format_has_an_example_in_these_tests():
    assert set(ALL) | {writer.name for writer in WRITERS.values()} | {"magentic-one"} == set(NAMES)


@pytest.mark.parametrize(("name", "messages"), [(name, each) for name, some in ALL.items() for each in some])
def test_each_format_is_recognised_and_read_alike(tmp_path, name, messages):
    conversation = one(read(tmp_path, {"messages": messages} if name != "mcp" else messages))

    calls, answers, words = told(conversation)
    assert conversation.format == name
    assert calls == [("cancel", ASKED)]
    assert answers == [SHOWN]
    assert words[-1:] == (["It is cancelled."] if name != "mcp" else [])
    assert conversation.faults == ()


def test_an_answer_is_matched_to_its_call_by_id(tmp_path):
    for messages in (OPENAI, ANTHROPIC, RESPONSES, DUMPD, TO_DICT, DUMPED):
        conversation = one(read(tmp_path, messages))
        call = next(call for turn in conversation.turns for call in turn.calls)
        answer = next(answer for turn in conversation.turns for answer in turn.answers)
        assert call.id == answer.call_id == "c1"


WRAPPED = {
    "tau": {"task_id": 3, "trial": 1, "reward": 0.0, "info": {"task": {"actions": []}}, "traj": OPENAI},
    "messages": {"id": "x", "messages": OPENAI},
    "conversations": {"conversations": OPENAI},
    "langgraph state": {"values": {"messages": DUMPED}, "next": []},
    "checkpoint": {"checkpoint": {"channel_values": {"messages": DUMPD}}},
    "request and response": {
        "request": {"model": "m", "messages": OPENAI[:-1], "tools": []},
        "response": {"choices": [{"message": OPENAI[-1]}]},
    },
    "response of the messages api": {
        "request": {"messages": ANTHROPIC[:1]},
        "response": {**ANTHROPIC[1], "type": "message", "stop_reason": "tool_use"},
    },
    "responses": {"input": RESPONSES[:1], "output": RESPONSES[1:]},
    "response of the responses api": {"object": "response", "input": "Cancel it.", "output": RESPONSES[1:]},
    "text of json": {"id": 7, "messages": json.dumps(OPENAI)},
    "inside a result": {"data": {"state": {"messages": OPENAI}}},
}


@pytest.mark.parametrize("name", WRAPPED)
def test_extra_fields_around_a_conversation_are_ignored(tmp_path, name):
    for text in (WRAPPED[name], [WRAPPED[name]], json.dumps(WRAPPED[name]) + "\n", json.dumps(WRAPPED[name], indent=1)):
        conversation = one(read(tmp_path, text))
        if name == "response of the messages api":
            assert told(conversation) == ([("cancel", ASKED)], [], ["One moment."])
            continue
        assert told(conversation) == ([("cancel", ASKED)], [SHOWN], ["It is cancelled."])


def test_ids_and_trial_numbers_are_kept(tmp_path):
    found = read(tmp_path, [WRAPPED["tau"], {**WRAPPED["tau"], "trial": 2}, OPENAI])

    assert [each.id for each in found] == ["3 (trial 1)", "3 (trial 2)", "$[2]"]
    assert [each.path for each in found] == ["$[0]", "$[1]", "$[2]"]


@pytest.mark.parametrize("member", ["simulations", "results", "anything"])
def test_an_object_with_a_list_of_conversations_is_read_one_by_one(tmp_path, member):
    whole = {"info": {"a": [1]}, "tasks": [{"id": 1}], member: [WRAPPED["messages"]] * 3, "after": 1}
    for indent in (None, 2):
        found = read(tmp_path, json.dumps(whole, indent=indent))
        assert [each.path for each in found] == [f"$.{member}[{place}]" for place in range(3)]


def test_tools_beside_the_messages_belong_to_the_conversation(tmp_path):
    tools = [{"type": "function", "function": {"name": "cancel", "parameters": {"type": "object"}}}]
    for text in (
        {"messages": OPENAI, "tools": tools},
        {"tools": tools, "messages": OPENAI},
        {"messages": OPENAI, "tools": json.dumps(tools)},
        {"request": {"messages": OPENAI, "tools": tools}, "response": {}},
    ):
        for spelled in (json.dumps(text) + "\n", json.dumps(text, indent=1), json.dumps([text])):
            assert list(one(read(tmp_path, spelled)).tools) == tools
    assert [tool["name"] for tool in one(read(tmp_path, MCP)).tools] == ["cancel"]


def lines(values):
    return "".join(json.dumps(value) + "\n" for value in values)


def test_json_lines_hold_one_conversation_each(tmp_path):
    found = read(tmp_path, lines([{"messages": OPENAI}, {"messages": ANTHROPIC}, RESPONSES]))

    assert [each.format for each in found] == ["openai-chat", "anthropic", "openai-responses"]
    assert [each.path for each in found] == ["line 1", "line 2", "line 3"]


def test_messages_on_lines_of_their_own_are_gathered_by_session(tmp_path):
    wrapped = [{"sessionId": session, "type": "x", "message": each} for each in ANTHROPIC for session in ("a", "b")]
    found = read(tmp_path, lines(wrapped))

    assert sorted(each.id for each in found) == ["a", "b"]
    assert all(told(each)[0] == [("cancel", ASKED)] for each in found)
    assert told(one(read(tmp_path, lines(OPENAI))))[0] == [("cancel", ASKED)]


@pytest.mark.parametrize("odd", [{"role": {}}, {"role": ["user"], "content": "x"}, {"type": [], "sessionId": "s"}])
def test_a_malformed_message_is_a_fault(tmp_path, odd):
    session, fault = read(tmp_path, [*OPENAI, odd])

    assert told(session)[0] == [("cancel", ASKED)]
    assert fault.path == "$[5]"


def test_a_claude_code_session_file_is_one_conversation_plus_one_per_subagent(tmp_path):
    found = {each.id: each for each in read(tmp_path, lines(CLAUDE_CODE), "session.jsonl")}

    assert sorted(found) == ["s1", "s1 (subagent a1)"]
    session = found["s1"]
    assert (session.format, session.faults, session.tools) == ("claude-code", (), ())
    assert told(session) == ([("cancel", ASKED)], [SHOWN], ["One moment.", "It is cancelled."])
    assert [turn.text for turn in session.turns if turn.role == "user"] == ["Cancel ABC123."]


def test_claude_code_stream_json_names_the_offered_tools(tmp_path):
    first = {"type": "system", "subtype": "init", "session_id": "s1", "uuid": "u", "tools": ["Bash", "cancel"]}
    said = [{"type": each["role"], "session_id": "s1", "message": each} for each in ANTHROPIC]
    last = {"type": "result", "subtype": "success", "session_id": "s1", "result": "It is cancelled."}

    session = one(read(tmp_path, lines([first, *said, last])))

    assert [tool["name"] for tool in session.tools] == ["Bash", "cancel"]
    assert told(session) == ([("cancel", ASKED)], [SHOWN], ["One moment.", "It is cancelled."])


def test_commands_and_session_files_of_responses_items_are_read(tmp_path):
    assert told(one(read(tmp_path, COMMANDS)))[0] == [("local_shell", {"type": "exec", "command": ["ls"]})]
    rolled = [
        {"timestamp": "t", "type": "session_meta", "payload": {"id": "s1"}},
        {"timestamp": "t", "type": "event_msg", "payload": {"type": "agent_message", "message": "I have paid it."}},
        *({"timestamp": "t", "type": "response_item", "payload": each} for each in RESPONSES),
    ]

    session = one(read(tmp_path, lines(rolled)))

    assert (session.format, session.faults) == ("openai-responses", ())
    assert told(session) == ([("cancel", ASKED)], [SHOWN], ["It is cancelled."])


@pytest.mark.parametrize(
    "wrap",
    [
        json.dumps,
        lambda each: json.dumps({"ts": "2026-01-01T00:00:00Z", "direction": "in", "message": each}),
        lambda each: json.dumps({"time": 1, "payload": json.dumps(each)}),
        lambda each: f"2026-01-01T00:00:00Z [client -> server] {json.dumps(each)}",
    ],
    ids=["bare", "wrapped", "text", "prefixed"],
)
def test_mcp_session_logs_may_wrap_each_message(tmp_path, wrap):
    conversation = one(read(tmp_path, "".join(wrap(each) + "\n" for each in MCP), "session.log"))

    assert conversation.format == "mcp"
    assert told(conversation)[:2] == ([("cancel", ASKED)], [SHOWN])


def test_failures_keep_the_mark_of_their_format(tmp_path):
    marked = [
        [ANTHROPIC[1], {"role": "user", "content": [{**ANTHROPIC[2]["content"][0], "is_error": True}]}],
        [DUMPD[1], dumpd("ToolMessage", content="no", tool_call_id="c1", status="error")],
        [MCP[5], {"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "Unknown tool"}}],
        [MCP[5], {"jsonrpc": "2.0", "id": 2, "result": {"content": [], "isError": True}}],
        [OPENAI[2], {"role": "tool", "id": "c1", "content": "no", "error": True}],
    ]
    for messages in marked:
        conversation = one(read(tmp_path, messages))
        assert [answer.failed for turn in conversation.turns for answer in turn.answers] == [True]


def test_other_notations_of_calls_are_read(tmp_path):
    spelled = [
        {"role": "assistant", "function_call": {"name": "cancel", "arguments": json.dumps(ASKED)}},
        {"role": "assistant", "tool_calls": [{"id": "1", "name": "cancel", "arguments": ASKED, "requestor": "a"}]},
        {
            "role": "assistant",
            "content": f"Sure. <tool_call>{json.dumps({'name': 'cancel', 'arguments': ASKED})}</tool_call>",
        },
        {"from": "gpt", "value": f"<tool_call>\n{json.dumps({'name': 'cancel', 'arguments': ASKED})}\n</tool_call>"},
        {"type": "ai", "content": [{"type": "tool_use", "id": "1", "name": "cancel", "input": ASKED}]},
        {"type": "ai", "data": {"content": "", "additional_kwargs": {"tool_calls": OPENAI[2]["tool_calls"]}}},
    ]
    for message in spelled:
        assert told(one(read(tmp_path, [message])))[0] == [("cancel", ASKED)], message


def test_compressed_files_are_read_directly(tmp_path):
    packed = gzip.compress(lines([{"messages": OPENAI}] * 3).encode())

    assert len(read(tmp_path, packed, "recording.jsonl.gz")) == 3
    broken = read(tmp_path, packed[:-20], "recording.jsonl.gz")
    assert isinstance(broken[-1], TranscriptFault)
    assert "breaks in the middle" in broken[-1].reason


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ('[{"a": 1}, {"b": 2}]', "$[0]", "no message and no conversation of a known format; 1 more like it."),
        ('{"a": {"b": 1}}', "$", "no message and no conversation"),
        ('"words"', "line 1", "no message and no conversation"),
        ("not json at all\n", "line 1", "no JSON"),
        ('[{"messages": [', "$[0]", "no JSON"),
        ('[{"role": "user", "content": "x"}', "$[1]", "ends inside the list"),
        ("[1] and more", "$", "text after the end"),
    ],
)
def test_unreadable_input_is_named_with_file_and_path(tmp_path, text, path, reason):
    found = [each for each in read(tmp_path, text) if isinstance(each, TranscriptFault)]

    assert any(each.path == path and reason in each.reason for each in found), found
    assert all(str(tmp_path) in each.line for each in found)


def test_reading_continues_after_a_bad_line_and_an_unknown_message(tmp_path):
    text = (
        lines([{"messages": OPENAI}]) + "{broken\n" + lines([{"messages": [*OPENAI[:2], {"odd": 1}, 7, *OPENAI[2:]]}])
    )
    first, broken, second = read(tmp_path, text)

    assert isinstance(broken, TranscriptFault)
    assert broken.path == "line 2"
    assert told(first) == told(second)
    assert [each.path for each in second.faults] == ["line 3[2]", "line 3[3]"]
    assert "fields odd" in second.faults[0].reason


def test_at_most_fifty_broken_lines_of_a_file_are_named(tmp_path):
    found = read(tmp_path, "{broken\n" + lines([{"messages": OPENAI}]) + "{broken\n" * 500)

    assert len(found) == intake.MOST_FAULTS + 2
    assert "not listed further" in found[-1].reason


def test_empty_files_and_invalid_bytes_cause_no_error(tmp_path):
    assert read(tmp_path, "") == []
    assert read(tmp_path, "\n\n") == []
    assert read(tmp_path, "[]") == []
    found = read(tmp_path, b'\xef\xbb\xbf[{"role":"user","content":"\xff\xfe caf\xe9"}]')
    assert "caf" in one(found).turns[0].text


def test_long_elements_are_read_and_truncated_ones_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("counterfoil_transcripts.reading.scanning.CHUNK", 64)
    many = [{"id": str(place), "messages": OPENAI, "n": place * 1.5} for place in range(20)]
    for text in (json.dumps(many), json.dumps({"of": many}), json.dumps(many, indent=3), lines(many)):
        assert [each.id for each in read(tmp_path, text)] == [str(place) for place in range(20)]
    monkeypatch.setattr("counterfoil_transcripts.reading.scanning.MAX_ITEM", 2_000)
    (fault,) = [each for each in read(tmp_path, '[{"messages": "' + "x" * 9_000) if isinstance(each, TranscriptFault)]
    assert "longer than 2000" in fault.reason
