"""What files say twice, say elsewhere, or do not say: history, replay, versions, and outcomes in other lines."""

from __future__ import annotations

import json

import pytest

from counterfoil_transcripts.reading import intake
from counterfoil_transcripts.reading.records import Transcript, TranscriptFault
from tests.transcripts.test_command import audit
from tests.transcripts.written import WRITERS, otel_spans, swe_file

ONE = ("1", "bash", {"command": "rm a"})
TWO = ("2", "bash", {"command": "rm b"})
GONE = ("1", "bash", "gone", "")


def read(tmp_path, values, *, indent=None):
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join(json.dumps(one, indent=indent) for one in values) + "\n")
    return list(intake.read_conversations(file))


def calls(conversation):
    return [call for turn in conversation.turns for call in turn.calls]


def answers(conversation):
    return [(answer.call_id, answer.content, answer.failed) for turn in conversation.turns for answer in turn.answers]


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_a_file_over_many_lines_is_read_as_one_on_a_line(tmp_path, writer):
    items = [writer.heard("Remove a."), *writer.step([ONE], [GONE]), writer.said("I have removed a.")]
    whole = writer.whole(items, "s1")
    if isinstance(whole, list):
        return  # its programs write lines
    [flat] = read(tmp_path, [whole])
    [spread] = read(tmp_path, [whole], indent=2)

    assert (calls(spread), answers(spread)) == (calls(flat), answers(flat))
    assert (spread.format, spread.id, spread.faults) == (flat.format, flat.id, ())


# SWE-agent


def test_structured_calls_of_the_history_are_those_of_the_steps(tmp_path):
    writer = WRITERS["SWE-agent"]
    whole = swe_file([writer.heard("Fix it."), *writer.step([ONE, TWO], [GONE, ("2", "bash", "fine", "")])], "s1")
    made = {"id": "c9", "type": "function", "function": {"name": "remove", "arguments": '{"path": "b"}'}}
    whole["history"][-2] |= {"tool_calls": [made]}
    whole["history"][-1] |= {"role": "tool", "tool_call_ids": ["c9"]}
    [found] = read(tmp_path, [whole])

    assert [(one.tool, one.arguments, one.id) for one in calls(found)] == [
        ("bash", "rm a", ""),
        ("remove", '{"path": "b"}', "c9"),
    ]
    assert answers(found) == [("", "gone", None), ("c9", "fine", None)]


def test_a_history_alone_is_read_without_its_demonstration(tmp_path):
    writer = WRITERS["SWE-agent"]
    whole = swe_file([writer.heard("Fix it."), *writer.step([ONE], [GONE])], "s1")
    [found] = read(tmp_path, [{"instance_id": "s1", "history": whole["history"]}])

    assert [one.arguments for one in calls(found)] == ["rm a"]
    assert len(answers(found)) == 2  # the task too is an observation; it answers no call


def test_the_chosen_attempt_of_a_run_is_counted_once(tmp_path):
    writer = WRITERS["SWE-agent"]
    first, second = (swe_file([writer.heard("Fix it."), *writer.step([one], [])], "a") for one in (ONE, TWO))
    for indent in (None, 2):
        found = read(tmp_path, [{"attempts": [first, second], **second}], indent=indent)
        assert [[call.arguments for call in calls(one)] for one in found] == [["rm a"], ["rm b"]]


# ATIF, AutoGen, inspect_ai, OpenHands


def test_copied_steps_are_counted_once_and_subagents_are_conversations_of_their_own(tmp_path):
    writer = WRITERS["ATIF"]
    steps = [writer.heard("Remove a."), *writer.step([ONE], [GONE])]
    inner = writer.whole(steps, "inner")
    whole = writer.whole([*({**one, "is_copied_context": True} for one in steps), *writer.step([TWO], [])], "outer")
    for indent in (None, 2):
        found = read(tmp_path, [whole | {"subagent_trajectories": [inner]}], indent=indent)
        counted = {one.id: [call.arguments["command"] for call in calls(one)] for one in found}
        assert counted == {"outer": ["rm b"], "inner": ["rm a"]}


def test_a_result_without_content_or_subagent_is_no_outcome(tmp_path):
    writer = WRITERS["ATIF"]
    [step] = writer.step([ONE], [GONE])
    step["observation"]["results"][0]["content"] = None
    [found] = read(tmp_path, [writer.whole([writer.heard("Remove a."), step], "s1")])

    assert answers(found) == []


def test_a_summary_of_calls_and_streamed_chunks_say_nothing_new(tmp_path):
    writer = WRITERS["AutoGen"]
    summary = {"type": "ToolCallSummaryMessage", "source": "a", "content": "gone", "tool_calls": [{}], "results": [{}]}
    chunk = {"type": "ModelClientStreamingChunkEvent", "source": "a", "content": "I ha"}
    items = [writer.heard("Remove a."), *writer.step([ONE], [GONE]), summary, chunk, writer.said("I have removed a.")]
    [found] = read(tmp_path, [writer.whole(items, "s1")])

    assert (len(calls(found)), len(answers(found)), found.faults) == (1, 1, ())
    assert [turn.text for turn in found.turns if turn.text] == ["Remove a.", "I have removed a."]


def test_code_that_an_agent_runs_has_the_exit_code_that_is_stated(tmp_path):
    blocks = [{"code": "rm a", "language": "sh"}]
    items = [
        {"type": "CodeGenerationEvent", "source": "Coder", "content": "```rm a```", "code_blocks": blocks},
        {"type": "CodeExecutionEvent", "source": "Coder", "result": {"exit_code": 1, "output": "gone"}},
    ]
    [found] = read(tmp_path, [{"id": "s1", "messages": items}])

    assert [(one.tool, one.arguments) for one in calls(found)] == [("code_execution", "rm a")]
    assert answers(found) == [("", {"exit_code": 1, "output": "gone"}, None)]


def test_attachments_of_a_sample_are_back_in_their_places(tmp_path):
    writer = WRITERS["inspect_ai"]
    whole = writer.whole([writer.heard("Remove a."), *writer.step([ONE], [("1", "bash", "attachment://ab", "")])], "s1")
    whole |= {"attachments": {"ab": "a long text"}, "events": [{"event": "model", "input": whole["messages"]}]}
    log = {"version": 2, "status": "success", "eval": {}, "plan": {"steps": []}, "samples": [whole]}
    for indent in (None, 2):
        [found] = read(tmp_path, [log], indent=indent)
        assert answers(found) == [("1", "a long text", None)]


def test_a_command_that_still_runs_has_no_outcome(tmp_path):
    for name, where in (("OpenHands 0", "extras"), ("OpenHands 1", "observation")):
        writer = WRITERS[name]
        *made, told = writer.step([ONE], [("1", "bash", "still running", "succeeded")])
        inner = told[where]["metadata"] if "metadata" in told[where] else told[where]
        inner["exit_code"] = -1
        [found] = read(tmp_path, [writer.whole([writer.heard("Remove a."), *made, told], "s1")])
        assert (len(calls(found)), answers(found)) == (1, [])


def test_the_message_with_which_an_agent_finishes_is_its_words(tmp_path):
    writer = WRITERS["OpenHands 1"]
    [made] = writer.step([("1", "finish", {"message": "I have removed a."})], [])
    made["action"] = {"kind": "FinishAction", "message": "I have removed a."}
    [found] = read(tmp_path, [writer.whole([writer.heard("Remove a."), made], "s1")])

    assert [turn.text for turn in found.turns if turn.role == "agent"] == ["I have removed a."]


def test_what_a_user_runs_is_no_call_of_the_agent(tmp_path):
    writer = WRITERS["OpenHands 0"]
    [made] = writer.step([ONE], [])
    [found] = read(tmp_path, [writer.whole([writer.heard("Remove a."), {**made, "source": "user"}], "s1")])

    assert calls(found) == []
    assert "a call of `bash` that the agent did not make" in found.faults[0].reason


# Versions and logs that are not read


@pytest.mark.parametrize(
    ("name", "field", "version"),
    [("ATIF", "schema_version", "ATIF-v2.0"), ("mini-swe-agent", "trajectory_format", "mini-swe-agent-1")],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_version_that_is_not_known_is_named(tmp_path, name, field, version, indent):
    writer = WRITERS[name]
    file = tmp_path / "recording.json"
    whole = writer.whole([writer.heard("Remove a."), writer.said("I have removed a.")], "s1") | {field: version}
    file.write_text(json.dumps(whole, indent=indent))
    code, out, err = audit(file)

    assert code == 3
    assert f"The version {version} of this format is not read in full." in err
    assert "of which 0 are unsupported" in out


def test_a_log_of_agents_that_tell_of_actions_in_prose_is_read_as_words(tmp_path):
    messages = [
        {"role": "human", "content": "Find a gym."},
        {"role": "Orchestrator (thought)", "content": "Updated Ledger: I have booked it."},
        {"role": "Orchestrator (-> WebSurfer)", "content": "Search for gyms."},
        {"role": "WebSurfer", "content": "I clicked 'Close'."},
        {"role": "ComputerTerminal", "content": "The script ran, then exited with Unix exit code: 0"},
        {"role": "Orchestrator (termination condition)", "content": "FINAL ANSWER: none"},
    ]
    [found] = read(tmp_path, [messages])

    assert (found.format, calls(found), answers(found)) == ("magentic-one", [], [])
    assert [turn.text for turn in found.turns if turn.role == "agent"] == ["I clicked 'Close'.", "FINAL ANSWER: none"]
    assert found.faults[0].reason == "These agents tell of their actions in words alone; no call is on record."
    assert found.unread


# Spans


def test_the_span_of_a_tool_answers_a_call_that_no_later_span_has(tmp_path):
    writer = WRITERS["OpenTelemetry"]
    items = [writer.heard("Remove a."), *writer.step([ONE], [("1", "bash", "gone", "failed")])[:-1]]
    [found] = read(tmp_path, otel_spans(items, "t1"))

    assert [(one.tool, one.id) for one in calls(found)] == [("bash", "1")]
    assert answers(found) == [("1", "gone", True)]


def test_tools_without_spans_of_a_model_are_calls_of_their_own(tmp_path):
    writer = WRITERS["OpenTelemetry"]
    spans = otel_spans(writer.step([], [("1", "bash", "gone", "failed"), ("2", "bash", "fine", "")])[:2], "t1")
    [found] = read(tmp_path, [{"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}])

    assert [(one.tool, one.id) for one in calls(found)] == [("bash", "1"), ("bash", "2")]
    assert answers(found) == [("1", "gone", True), ("2", "fine", None)]


def test_spans_in_any_order_and_of_other_libraries_give_the_same_conversation(tmp_path):
    writer = WRITERS["OpenTelemetry"]
    items = [writer.heard("Remove a."), *writer.step([ONE], [GONE]), writer.said("I have removed a.")]
    other = {"traceId": "t1", "spanId": "9", "name": "GET /", "startTimeUnixNano": "1", "attributes": []}
    spans = otel_spans(items, "t1")
    [straight] = read(tmp_path, spans)
    [turned] = read(tmp_path, [other, *reversed(spans)])

    assert turned.turns == straight.turns


def test_a_subagent_in_the_same_trace_is_a_conversation_of_its_own(tmp_path):
    writer = WRITERS["OpenTelemetry"]
    main = otel_spans([writer.heard("Remove a."), *writer.step([ONE], [])], "t1")
    inner = otel_spans([writer.heard("Look it up."), *writer.step([TWO], [])], "t1")
    found = read(tmp_path, [*main, *inner])

    assert [one.id for one in found] == ["t1", "t1 (2)"]
    assert [[call.id for call in calls(one)] for one in found] == [["1"], ["2"]]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"gen_ai.operation.name": "chat", "gen_ai.prompt.0.content": "x"}, "before 1.37"),
        ({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, "were not captured"),
    ],
)
def test_a_span_without_messages_that_are_read_is_named(tmp_path, attributes, reason):
    writer = WRITERS["OpenTelemetry"]
    [span] = otel_spans([writer.heard("Remove a."), writer.said("I have removed a.")], "t1")
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    found = read(tmp_path, [span, {**span, "attributes": listed}])
    [fault] = [one for one in found if isinstance(one, TranscriptFault)]
    [conversation] = [one for one in found if isinstance(one, Transcript)]

    assert reason in fault.reason
    assert (fault.conversation, fault.passed_over, conversation.unread) == ("t1", True, True)


# Codex and the Responses API


def test_an_event_of_codex_states_the_failure_that_the_output_does_not(tmp_path):
    writer = WRITERS["Codex"]
    items = writer.step([ONE, TWO], [("1", "", "no", ""), ("2", "", "ok", "")])
    results = [{"Ok": {"content": [], "isError": True}}, {"Ok": {"content": [], "isError": False}}]
    events = [
        {"type": "event_msg", "payload": {"type": "mcp_tool_call_end", "call_id": str(number + 1), "result": result}}
        for number, result in enumerate(results)
    ]
    [found] = read(tmp_path, [*writer.whole(items, "s1"), *events])

    assert answers(found) == [("1", "no", True), ("2", "ok", None)]


def test_a_patch_that_an_event_states_as_failed_has_failed(tmp_path):
    writer = WRITERS["Codex"]
    event = {"type": "event_msg", "payload": {"type": "patch_apply_end", "call_id": "1", "success": False}}
    [found] = read(tmp_path, [*writer.whole(writer.step([ONE], [GONE]), "s1"), event])

    assert answers(found) == [("1", "gone", True)]


HOSTED = [
    (
        {"type": "apply_patch_call", "call_id": "1", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "1", "status": "failed", "output": "no such file"},
        ("apply_patch", True),
    ),
    (
        {"type": "apply_patch_call", "call_id": "1", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "1", "status": "completed"},
        ("apply_patch", False),
    ),
    (
        {"type": "custom_tool_call", "call_id": "1", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "1", "status": "completed", "output": "no"},
        ("apply_patch", None),
    ),
    (
        {"type": "shell_call", "call_id": "1", "action": {"commands": ["rm a"]}},
        {"type": "shell_call_output", "call_id": "1", "status": "completed", "output": [{"stdout": "x"}]},
        ("shell", None),
    ),
    (
        {"type": "computer_call", "call_id": "1", "action": {"type": "click", "x": 1, "y": 2}},
        {"type": "computer_call_output", "call_id": "1", "output": {"type": "computer_screenshot"}},
        ("computer", None),
    ),
    (
        {"type": "code_interpreter_call", "id": "1", "code": "rm('a')", "outputs": None, "status": "failed"},
        None,
        ("code_interpreter", True),
    ),
]


@pytest.mark.parametrize(("call", "output", "expected"), HOSTED)
def test_hosted_tools_are_calls_and_a_completed_item_is_no_success(tmp_path, call, output, expected):
    [found] = read(tmp_path, [{"id": "s1", "input": [call, *([output] if output else [])]}])

    assert (calls(found)[0].tool, answers(found)[0][2]) == expected
    assert found.faults == ()
