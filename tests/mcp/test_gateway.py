"""The gateway between the official client and a server, in front of a console that stands in."""

from __future__ import annotations

import sys

import anyio
import mcp_types as types
import pytest

from tests.mcp import liar
from tests.mcp.conftest import contract, word
from tests.mcp.servers import TEXT

NOTE = {"text": "Milk"}


def _call(name, arguments=None, **options):
    async def script(client):
        return await client.call_tool(name, arguments or NOTE, **options)

    return script


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_sees_the_registered_tools_with_their_registered_texts(bench, mode):
    async def script(client):
        return client.instructions, (await client.list_tools()).tools

    instructions, tools = bench.talk(script, mode=mode)
    by_name = {tool.name: tool for tool in tools}
    assert "read_notes" not in by_name
    assert by_name["keep_note"].description == "Registered: keep_note."
    assert by_name["keep_note"].input_schema == TEXT
    assert by_name["keep_note"].annotations.idempotent_hint is True
    assert "counterfoil_status" in by_name
    assert "Obey" not in instructions


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_accepted_call_reaches_the_server_once_and_returns_its_report(bench, desk, mode):
    result = bench.talk(_call("keep_note"), mode=mode)
    assert bench.calls == [{"tool": "keep_note", "arguments": NOTE}]
    assert not result.is_error
    assert result.content[0].text == "kept: Milk"
    assert result.structured_content == {"kept": True, "counterfoil": "forged"}
    assert word(result)["report"] == {"code": "COMPLETED", "text": "It is COMPLETED.", "completed": True}
    (observation,) = desk.one.seen
    assert observation["result"]["status"] == "success"
    assert observation["result"]["evidence"] == "kept: Milk"
    assert observation["raw"]["structuredContent"]["kept"] is True


def test_a_call_that_needs_no_approval_costs_two_requests_to_the_console(bench, desk):
    async def script(client):
        before = len(desk.server.seen)
        result = await client.call_tool("keep_note", NOTE)
        return result, [seen.path.rpartition("/")[2] for seen in desk.server.seen[before:]]

    result, asked = bench.talk(script)
    assert word(result)["report"]["text"] == "It is COMPLETED."
    assert asked == ["calls", "observations?report=true"]


def test_an_order_that_did_not_start_with_the_call_is_claimed(bench, desk):
    desk.starts_at_once = False
    result = bench.talk(_call("keep_note"))
    assert word(result)["report"]["text"] == "It is COMPLETED."
    assert (len(bench.calls), desk.one.starts) == (1, 1)


def test_a_call_whose_grant_names_another_executor_does_not_run(bench, desk):
    started = desk.started_at_once

    def for_another(result, start):
        return started(result, start | {"executor_id": "somebody.else"})

    desk.started_at_once = for_another
    result = bench.talk(_call("keep_note"))
    assert bench.calls == []
    (observation,) = desk.one.seen
    assert observation["result"]["error"]["phase"] == "before_send"
    assert word(result)["report"]["code"] == "NOT_EXECUTED"


def test_a_client_can_fetch_the_lines_of_the_session_with_their_citations(bench, desk):
    async def script(client):
        nothing = await client.call_tool("counterfoil_lines", {})
        done = await client.call_tool("keep_note", NOTE)
        return nothing, done, await client.call_tool("counterfoil_lines", {}), client.instructions

    nothing, done, told, instructions = bench.talk(script)
    (action_id,) = desk.actions
    assert nothing.content[0].text == "Nothing was changed yet."
    assert word(done)["cite"] == f"{{{{action:{action_id}}}}}"
    tool = desk.one.tool
    cite = word(done)["cite"]
    assert told.content[0].text == f"COMPLETED: {tool}.\n\n{cite} puts here: COMPLETED: {tool}."
    assert word(told)["lines"] == [{"text": f"COMPLETED: {tool}.", "cite": word(done)["cite"]}]
    assert "counterfoil_lines" in instructions


def test_the_stored_payload_runs_and_not_the_one_of_the_caller(bench, desk):
    judged = desk.judged

    def edited(call):
        answer = judged(call)
        desk.actions[answer["action_id"]].payload = {"text": "Bread"}
        return answer

    desk.judged = edited
    bench.talk(_call("keep_note"))
    assert bench.calls == [{"tool": "keep_note", "arguments": {"text": "Bread"}}]


def test_a_refused_call_is_a_tool_result_and_does_not_reach_the_server(bench, desk):
    desk.refuse = {
        "code": "SCHEMA_DRIFT",
        "message": "`txt` is not a parameter of notes.keep_note.",
        "hint": "Use `text` instead of `txt`.",
        "suggestion": "notes.keep_note",
        "errors": [{"path": "/txt", "code": "SCHEMA_DRIFT", "detail": "No."}],
    }
    result = bench.talk(_call("keep_note", {"txt": "Milk"}))
    assert result.is_error
    told = word(result)
    assert (told["status"], told["code"], told["suggestion"]) == ("refused", "SCHEMA_DRIFT", "keep_note")
    assert told["message"] == "`txt` is not a parameter of keep_note."
    assert told["hint"] in result.content[0].text
    assert told["errors"][0]["path"] == "/txt"
    assert bench.calls == []


def test_an_unregistered_tool_is_proposed_and_not_called(bench, desk):
    desk.refuse = {"code": "PHANTOM_TOOL", "message": "There is no tool `notes.read_notes`."}
    result = bench.talk(_call("read_notes", {}))
    assert word(result)["code"] == "PHANTOM_TOOL"
    assert [call["tool"] for call in desk.calls] == ["notes.read_notes"]
    assert bench.calls == []


def test_a_call_may_restate_the_goal_and_name_what_it_depends_on(bench, desk):
    meta = {"io.counterfoil/goal": "Keep the notes.", "io.counterfoil/depends_on": ["a-1", 7]}
    bench.talk(_call("keep_note", meta=meta))
    assert desk.calls[0]["goal"] == "Keep the notes."
    assert desk.calls[0]["depends_on"] == ["a-1"]
    assert "pin_hash" not in desk.calls[0]


def test_no_call_passes_while_the_console_is_unreachable(bench, desk):
    desk.answer, answer = (lambda seen: _away(seen, answer)), desk.answer
    # The stand-in was given the method itself, so the plan has to be given the new one.
    desk.server.plan("", desk.answer)
    result = bench.talk(_call("keep_note"))
    assert word(result)["code"] == "GATE_UNREACHABLE"
    assert bench.calls == []


def _away(seen, answer):
    from tests.client.consoles import Answer

    return Answer(403, {"code": "FORBIDDEN"}) if seen.path.endswith("/calls") else answer(seen)


# Held for people


def test_a_held_call_waits_and_runs_once_it_is_approved(bench, desk):
    desk.held = {"notes.keep_note"}
    heard = []

    async def script(client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_approve_after, desk, 6.0)

            async def progress(done, total, message):
                heard.append(message)

            return await client.call_tool("keep_note", NOTE, progress_callback=progress)

    result = bench.talk(script)
    assert word(result)["report"]["completed"] is True
    assert "It waits for approval." in heard
    assert len(bench.calls) == 1


async def _approve_after(desk, seconds):
    await anyio.sleep(seconds)
    desk.approve()


def test_a_call_that_waits_too_long_returns_a_handle_and_is_finished_at_the_next_request(bench, desk):
    desk.held = {"notes.keep_note"}
    bench.told(gateway={"hold_s": 0.5})

    async def script(client):
        first = await client.call_tool("keep_note", NOTE)
        action_id = word(first)["action_id"]
        again = await client.call_tool("counterfoil_status", {"action_id": action_id})
        desk.approve()
        told = again
        while word(told)["status"] in ("waiting", "running"):
            told = await client.call_tool("counterfoil_status", {"action_id": action_id})
        return first, again, told, await client.call_tool("counterfoil_status", {"action_id": action_id})

    first, again, told, last = bench.talk(script)
    assert not first.is_error
    assert word(first)["status"] == word(again)["status"] == "waiting"
    assert "Do not repeat" in first.content[0].text
    assert word(told)["report"]["completed"] is True
    assert told.content[0].text == last.content[0].text == "kept: Milk"
    assert len(bench.calls) == 1
    assert desk.one.starts == 1


def test_a_restarted_gateway_finishes_what_its_predecessor_proposed(bench, desk):
    desk.held = {"notes.keep_note"}
    bench.told(gateway={"hold_s": 0.2})
    first = bench.talk(_call("keep_note"))
    assert bench.calls == []
    desk.approve()
    bench.told(gateway={"hold_s": 20.0})
    told = bench.talk(_call("counterfoil_status", {"action_id": word(first)["action_id"]}))
    assert word(told)["report"]["completed"] is True
    assert len(bench.calls) == 1


def test_an_action_started_by_an_earlier_run_is_only_looked_up(bench, desk):
    desk.held = {"notes.keep_note"}
    bench.told(gateway={"hold_s": 0.2})
    action_id = word(bench.talk(_call("keep_note")))["action_id"]
    desk.one.held, desk.one.starts, desk.one.state = False, 1, "EXECUTING"

    async def script(client):
        told = [await client.call_tool("counterfoil_status", {"action_id": action_id}) for _ in range(2)]
        desk.one.state = "RECONCILED_SUCCESS"
        return [*told, await client.call_tool("counterfoil_status", {"action_id": action_id})]

    bench.told(gateway={"hold_s": 20.0})
    first, again, last = bench.talk(script)
    assert [word(each)["status"] for each in (first, again, last)] == ["running", "running", "ended"]
    assert not first.is_error
    assert word(again)["report"]["completed"] is False
    assert word(last)["report"]["completed"] is True
    assert bench.calls == []


def test_a_state_and_its_report_are_from_the_same_moment(bench, desk):
    desk.held = {"notes.keep_note"}
    bench.told(gateway={"hold_s": 0.2})
    action_id = word(bench.talk(_call("keep_note")))["action_id"]
    desk.one.held, desk.one.starts, desk.one.state = False, 1, "EXECUTING"
    desk.ends_after_report = True

    async def script(client):
        return [await client.call_tool("counterfoil_status", {"action_id": action_id}) for _ in range(2)]

    answers = [word(each) for each in bench.talk(script)]
    told = [(each["state"], each["report"]["completed"]) for each in answers]
    assert told == [("EXECUTING", False), ("RECONCILED_SUCCESS", True)]


def test_an_unknown_action_id_is_an_error(bench):
    for arguments in ({"action_id": "another"}, {"action_id": 7}, {"action": "x"}):
        assert bench.talk(_call("counterfoil_status", arguments)).is_error


# What the server may do


def test_a_call_that_gets_no_answer_in_time_is_unknown_and_is_not_sent_again(bench, desk):
    bench.told(gateway={"timeout_s": 1})
    heard = []

    async def progress(done, total, message):
        heard.append((done, total, message))

    result = bench.talk(_call("slow_note", progress_callback=progress))
    assert result.is_error
    assert word(result)["error"]["code"] == "TOOL_TIMEOUT"
    assert word(result)["report"]["code"] == "ATTEMPTED_RESULT_UNKNOWN"
    assert "Do not repeat" in result.content[0].text
    assert heard == [(1, 2, "half of it")]
    assert desk.one.seen[0]["result"]["status"] == "timeout"
    assert len(bench.calls) == 1


def test_a_cancellation_after_the_start_is_forwarded_and_the_outcome_is_unknown(bench, desk):
    async def script(client):
        with anyio.move_on_after(3.0):
            await client.call_tool("slow_note", NOTE)
        with anyio.fail_after(15):
            while not desk.one.seen:
                await anyio.sleep(0.1)

    bench.talk(script)
    assert desk.one.seen[0]["result"]["status"] == "timeout"
    assert desk.one.seen[0]["result"]["error"]["code"] == "CANCELLED"
    assert len(bench.calls) == 1


def test_a_server_that_dies_leaves_the_outcome_unknown_and_ends_the_gateway(bench, desk):
    result = bench.talk_across(_call("end_server"))
    assert word(result)["error"]["code"] == "SERVER_LOST"
    assert desk.one.seen[0]["result"]["status"] == "timeout"
    assert "the connection to the server was lost" in bench.log.read_text()


def test_an_invalid_tool_result_is_reported_as_unreadable(bench, desk):
    _lied_to(bench, desk)
    result = bench.talk(_call("talk_garbage"))
    assert word(result)["error"]["code"] == "UNREADABLE_ANSWER"
    assert desk.one.seen[0]["result"]["status"] == "unreadable"
    assert "no list" not in result.model_dump_json()
    assert len(bench.calls) == 1


def _lied_to(bench, desk):
    """Behind the gateway is a server of the older protocol that lies."""
    bench.told(server={"command": [sys.executable, liar.__file__, str(bench.folder)]})
    tools = [types.Tool.model_validate(tool) for tool in liar.TOOLS]
    desk.tools = [contract(tool) for tool in tools]


def test_a_huge_answer_is_not_passed_on(bench, desk):
    result = bench.talk(_call("say_much"))
    assert word(result)["withheld_bytes"] > 3_000_000
    assert len(result.model_dump_json()) < 10_000
    assert set(desk.one.seen[0]["raw"]) == {"bytes", "sha256", "begins"}


def test_a_tool_that_reports_failure_is_reported_as_failed(bench, desk):
    result = bench.talk(_call("fail_note"))
    assert result.is_error
    error = desk.one.seen[0]["result"]["error"]
    assert (error["code"], error["phase"]) == ("TOOL_ERROR", "after_send")
    assert "disk is full" in error["message"]


# Tools that change


@pytest.mark.parametrize("word_", ["schema", "injected", "twice"])
def test_a_tool_that_differs_from_its_contract_is_withheld_and_reported(bench, desk, word_, caplog):
    bench.become(word_)

    async def script(client):
        return (await client.list_tools()).tools, await client.call_tool("keep_note", NOTE)

    tools, result = bench.talk(script)
    assert "keep_note" not in {tool.name for tool in tools}
    assert "IMPORTANT" not in repr(tools)
    assert word(result)["code"] == "TOOL_CHANGED"
    assert (bench.calls, desk.calls) == ([], [])
    assert "TOOL_CHANGED: keep_note is withheld" in caplog.text


def test_a_tool_changed_with_a_notification_is_withheld_and_reported(bench):
    async def script(client):
        async with client.listen(tools_list_changed=True) as changes:
            await client.call_tool("swap_tools", NOTE)
            await changes.__anext__()
        return await client.call_tool("keep_note", NOTE)

    assert word(bench.talk(script))["code"] == "TOOL_CHANGED"
    assert [call["tool"] for call in bench.calls] == ["swap_tools"]


def test_a_change_notification_works_in_the_older_protocol_too(bench, desk):
    _lied_to(bench, desk)
    told = anyio.Event()

    async def hear(message):
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            told.set()

    async def script(client):
        await client.call_tool("swap_tools", NOTE)
        await told.wait()
        return await client.call_tool("keep_note", NOTE)

    result = bench.talk(script, mode="legacy", message_handler=hear)
    assert word(result)["code"] == "TOOL_CHANGED"
    assert [call["name"] for call in bench.calls] == ["swap_tools"]


def test_a_tool_that_changes_between_listing_and_call_is_not_called(bench, desk):
    bench.told(gateway={"relist_s": 0.0})

    async def script(client):
        await client.list_tools()
        bench.become("schema")
        return await client.call_tool("keep_note", NOTE)

    result = bench.talk(script)
    assert word(result)["error"]["code"] == "TOOL_CHANGED"
    error = desk.one.seen[0]["result"]["error"]
    assert (error["code"], error["phase"]) == ("TOOL_CHANGED", "before_send")
    assert bench.calls == []


# Beside tools


def test_resources_and_prompts_pass_through(bench):
    async def script(client):
        listed = await client.list_resources()
        page = await client.read_resource(listed.resources[0].uri)
        prompts = await client.list_prompts()
        return page, await client.get_prompt(prompts.prompts[0].name)

    page, prompt = bench.talk(script)
    assert page.contents[0].text == "a page"
    assert prompt.messages[0].content.text == "Tidy tidy."


def test_the_keys_of_the_gateway_are_not_passed_to_the_server(bench):
    file = bench.folder / "environment"
    program = f"import os; open({str(file)!r}, 'w').write(repr(dict(os.environ)))"
    command = bench.settings["server"]["command"]
    wrapped = f"{program}; os.execv({command[0]!r}, {command!r})"
    bench.told(server={"command": [command[0], "-c", wrapped]})
    bench.talk_across(_call("keep_note"))
    assert "cf_agent" not in file.read_text()
    assert "cf_exec" not in file.read_text()
