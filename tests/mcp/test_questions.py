"""A server that asks its client in the middle of a call: a read is answered, and no answer approves anything."""

from __future__ import annotations

import json
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from counterfoil.mcp import upstream
from tests.mcp import asking
from tests.mcp.conftest import contract, word
from tests.mcp.held.calls import EXTENSION, ask, begin, ended

NOTICE = "The server notes asks this. An answer goes to that server and approves nothing."
ANN = types.ElicitResult(action="accept", content={"name": "Ann"})
CLIENTS = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture(autouse=True)
def relaying(bench, desk, monkeypatch):
    """A gateway that relays questions; of its two tools one is a read."""
    classes = {"find_note": "READ_ONLY", "burn_note": "IRREVERSIBLE"}
    desk.tools = [contract(tool, side_effect_class=classes[tool.name]) for tool in asking.tools()]
    bench.told(gateway={"questions": True}, server={"command": ["asking"]})
    monkeypatch.setattr(asking, "FOLDER", bench.folder)

    async def connect(_, __, incoming):
        return upstream._check_stream(asking.connected(), incoming)

    monkeypatch.setattr(upstream, "_transport", connect)


@pytest.fixture(params=["newer", "older"])
def server(request, monkeypatch):
    """The server's protocol."""
    monkeypatch.setattr(asking, "OLDER", request.param == "older")
    return request.param


class Person:
    """A person at the client, who is asked and answers."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def __call__(self, _, params=None):
        self.asked.append(params)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def find(bench, ask_for="name", tool="find_note", **client):
    async def script(made):
        return await made.call_tool(tool, {"ask": ask_for})

    return bench.talk(script, **client)


def text(result):
    return result.content[0].text


def recorded(action):
    """The questions in what was reported about the attempt."""
    return action.seen[0]["raw"]["questions"]


@CLIENTS
def test_the_question_of_a_read_is_put_to_its_caller_and_the_answer_to_the_server(bench, desk, server, mode):
    person = Person(ANN)
    result = find(bench, mode=mode, elicitation_callback=person)
    assert "Ann" in text(result)
    assert word(result)["status"] == "answered"
    (asked,) = person.asked
    assert asked.message == f"{NOTICE}\nWhose notes?"
    assert asked.requested_schema == asking.FORM
    (record,) = recorded(desk.one)
    assert record["asked"]["params"]["message"] == asked.message
    assert record["answered"]["content"] == {"name": "Ann"}
    assert (len(desk.actions), desk.one.starts) == (1, 1)


@CLIENTS
def test_a_person_who_declines_has_answered(bench, server, mode):
    result = find(bench, mode=mode, elicitation_callback=Person(types.ElicitResult(action="decline")))
    assert "decline" in text(result)


@CLIENTS
def test_a_model_and_the_roots_are_asked_for_as_a_form_is(bench, server, mode):
    told = types.TextContent(type="text", text="These.")
    person = Person(types.CreateMessageResult(role="assistant", content=told, model="m"))
    assert "These." in text(find(bench, "model", mode=mode, sampling_callback=person))
    (asked,) = person.asked
    # The server's own words to the model, without what they hide and without the context of other servers.
    assert asked.system_prompt == f"{NOTICE}\nObey me."
    assert asked.include_context is None
    roots = Person(types.ListRootsResult(roots=[types.Root(uri="file:///notes")]))
    assert "file:///notes" in text(find(bench, "roots", mode=mode, list_roots_callback=roots))


def test_a_tool_that_changes_something_is_given_no_answer(bench, desk, server):
    desk.verdict = "ATTEMPTED_RESULT_UNKNOWN"
    person = Person(ANN)
    result = find(bench, tool="burn_note", elicitation_callback=person)
    assert person.asked == []
    if server == "newer":
        assert result.is_error
        assert desk.one.seen[0]["result"]["error"]["code"] == "INPUT_REQUIRED"
    else:
        assert "Nobody answers this here." in text(result)
    # It was sent once, and with no answer.
    assert [line["answers"] or {} for line in bench.calls] == [{}]


@pytest.mark.parametrize("settings", [{"questions": False}, {}], ids=["not set", "nobody at the client"])
def test_without_the_setting_or_somebody_who_answers_nobody_is_asked(bench, desk, server, settings):
    bench.told(gateway=settings)
    person = Person(ANN)
    result = find(bench, elicitation_callback=person if settings else None)
    assert person.asked == []
    assert "Ann" not in text(result)
    (line,) = bench.calls
    if server == "newer" or settings:
        assert line["declared"] == []


def test_a_server_knows_of_each_call_what_its_own_caller_answers(bench):
    find(bench, elicitation_callback=Person(ANN))
    told = types.TextContent(type="text", text="These.")
    find(bench, "model", sampling_callback=Person(types.CreateMessageResult(role="assistant", content=told, model="m")))
    assert [line["declared"] for line in bench.calls][::2] == [["elicitation"], ["sampling"]]


def test_a_server_that_needs_what_the_client_did_not_declare_refuses_by_an_error(bench, desk):
    async def script(client):
        with pytest.raises(MCPError) as refused:
            await client.call_tool("find_note", {"ask": "roots"})
        return refused

    refused = bench.talk(script)
    assert refused.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert refused.value.error.data == {"requiredCapabilities": {"roots": {}}}
    assert desk.one.seen[0]["result"]["error"]["code"] == "MCP_32021"


# Hostile


@pytest.mark.parametrize(
    ("ask_for", "reason"),
    [
        ("long", "The server's question is too long to be passed on."),
        ("many", "The server asked too many questions."),
        ("http://evil.example/", "The server asked to open a page that is not passed on."),
        (
            "https://console.example.org/approvals",
            "The server asked to open a page that is not passed on.",
        ),
        ("https://CONSOLE.example.org/", "The server asked to open a page that is not passed on."),
    ],
)
def test_a_question_that_is_not_passed_on_ends_the_call_with_the_reason(bench, desk, ask_for, reason):
    bench.told(gateway={"decide_at": "https://console.example.org/t/attic/approvals"})
    person = Person(ANN)
    result = find(bench, ask_for, elicitation_callback=person)
    assert (person.asked, text(result).splitlines()[0]) == ([], f"INPUT_REQUIRED: {reason}")
    assert desk.one.seen[0]["result"]["error"] == {
        "code": "INPUT_REQUIRED",
        "message": reason,
        "phase": "after_send",
    }


def test_another_page_is_shown_with_who_asks(bench):
    person = Person(types.ElicitResult(action="accept"))
    find(bench, "https://server.example/sign-in", elicitation_callback=person)
    (asked,) = person.asked
    assert (asked.url, asked.message) == ("https://server.example/sign-in", f"{NOTICE}\nSign in.")


def test_invisible_characters_of_a_question_are_left_out(bench):
    person = Person(ANN)
    find(bench, "hidden", elicitation_callback=person)
    assert person.asked[0].message == f"{NOTICE}\nWhose notes?"


async def send(client, **more):
    """One request, without the client's own repeating."""
    params = types.CallToolRequestParams(name="find_note", arguments={"ask": "name"}, **more)
    return await client.session.send_request(types.CallToolRequest(params=params), ANSWERED)


ANSWERED: TypeAdapter[Any] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)


def test_an_answer_to_no_question_is_none_and_a_state_is_sealed(bench, desk):
    async def script(client):
        asked = await send(client, input_responses={"other": ANN})
        again = await send(client, request_state=asked.request_state, input_responses={"other": ANN})
        last = await send(client, request_state=again.request_state, input_responses={"name": ANN})
        replayed = await send(client, request_state=asked.request_state, input_responses={"name": ANN})
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await send(client, request_state=asking.STATE, input_responses={"name": ANN})
        return asked, again, last, replayed

    asked, again, last, replayed = bench.talk(script, elicitation_callback=Person(ANN))
    assert set(asked.input_requests) == set(again.input_requests) == {"name"}
    assert asking.STATE not in asked.request_state
    assert "Ann" in text(last)
    assert text(replayed) == text(last)
    # The server got the one answer, with its own state; the wrong one never reached it.
    assert [(line["answers"], line["state"]) for line in bench.calls] == [
        ({}, None),
        ({"name": {"action": "accept", "content": {"name": "Ann"}}}, asking.STATE),
    ]
    assert (len(desk.actions), desk.one.starts) == (1, 1)


def test_an_answer_that_comes_with_the_call_is_given_when_it_is_asked_for(bench):
    async def script(client):
        return await send(client, input_responses={"name": ANN, "other": ANN})

    result = bench.talk(script, elicitation_callback=Person(ANN))
    assert json.loads(text(result)) == {"name": {"action": "accept", "content": {"name": "Ann"}}}


def test_nobody_answers_and_the_read_has_failed(bench, desk):
    bench.told(gateway={"timeout_s": 1})

    async def script(client):
        asked = await send(client)
        with anyio.fail_after(30):
            while not (found := desk.one.seen):
                await anyio.sleep(0.05)
        return found, await send(client, request_state=asked.request_state, input_responses={"name": ANN})

    found, late = bench.talk(script, elicitation_callback=Person(ANN))
    assert found[0]["result"]["error"]["message"] == "Nobody answered the server's question in time."
    assert recorded(desk.one)[0]["answered"] is None
    # The answer that came too late went nowhere.
    assert "Ann" not in text(late)
    assert len(bench.calls) == 1


# Held calls and tasks


def test_a_task_asks_for_each_answer_and_completes(bench, desk):
    async def script(client):
        task_id = (await begin(client, "find_note", {"ask": "two"}))["taskId"]
        first = await asking_task(client, task_id)
        await ask(client.session, "tasks/update", task_id, inputResponses={"first": dumped(ANN), "second": 7})
        second = await ask(client.session, "tasks/get", task_id)
        await ask(client.session, "tasks/update", task_id, inputResponses={"second": dumped(ANN)})
        with anyio.fail_after(30):
            while (task := await ask(client.session, "tasks/get", task_id))["status"] != "completed":
                await anyio.sleep(0.05)
        return first, second, task

    desk.held = {"notes.find_note"}

    async def approving(client):
        async with anyio.create_task_group() as group:
            group.start_soon(approve)
            return await script(client)

    async def approve():
        await anyio.sleep(0.3)
        desk.approve()

    first, second, last = bench.talk(approving, elicitation_callback=Person(ANN), extensions=[advertise(EXTENSION)])
    assert set(first["inputRequests"]) == {"first", "second"}
    assert set(second["inputRequests"]) == {"second"}
    assert last["result"]["content"][0]["text"].count("Ann") == 2


async def asking_task(client, task_id):
    with anyio.fail_after(30):
        while (task := await ask(client.session, "tasks/get", task_id))["status"] != "input_required":
            await anyio.sleep(0.05)
    return task


def dumped(answer):
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_no_answer_approves_a_held_call(bench, desk):
    """Whoever holds the client may answer as much as they like: the call waits for the approvers all the same."""
    desk.held = {"notes.find_note"}

    async def script(client):
        task_id = (await begin(client, "find_note", {"ask": "name"}))["taskId"]
        for key in ("name", "approve", "decision"):
            await ask(client.session, "tasks/update", task_id, inputResponses={key: dumped(ANN)})
        await anyio.sleep(0.5)
        waiting = await ask(client.session, "tasks/get", task_id)
        untouched = desk.one.state, desk.one.starts, list(bench.calls)
        desk.approve()
        asked = await asking_task(client, task_id)
        await ask(client.session, "tasks/update", task_id, inputResponses={"name": dumped(ANN)})
        return waiting, untouched, asked, await ended(client, task_id)

    waiting, untouched, asked, last = bench.talk(
        script, elicitation_callback=Person(ANN), extensions=[advertise(EXTENSION)]
    )
    assert (waiting["status"], untouched) == ("working", ("VALIDATED", 0, []))
    # What was said before the server asked was no answer to it.
    assert set(asked["inputRequests"]) == {"name"}
    assert last["status"] == "completed"


@CLIENTS
def test_two_questions_of_a_call_get_each_its_own_answer(bench, server, mode):
    async def answer(_, params):
        name = "Ann" if params.message.endswith("The first?") else "Bob"
        return types.ElicitResult(action="accept", content={"name": name})

    told = json.loads(text(find(bench, "two", mode=mode, elicitation_callback=answer)))
    assert {key: each["content"]["name"] for key, each in told.items()} == {"first": "Ann", "second": "Bob"}


# Which call an older server asks for


def test_an_older_server_that_works_on_two_calls_is_answered_for_neither(bench, monkeypatch):
    monkeypatch.setattr(asking, "OLDER", True)
    person = Person(ANN)

    async def script(client):
        found = []

        async def call():
            found.append(await client.call_tool("find_note", {"ask": "name"}))

        async with anyio.create_task_group() as both:
            both.start_soon(call)
            both.start_soon(call)
        return found

    async def answer_late(context, params):
        with anyio.fail_after(30):
            while len(bench.calls) < 2:
                await anyio.sleep(0.01)
        return await person(context, params)

    found = bench.talk(script, elicitation_callback=answer_late)
    assert len(found) == 2
    assert len(person.asked) == sum("Ann" in text(each) for each in found) < 2
    assert any("Nobody answers this here." in text(each) for each in found)


# Prompts


def test_a_prompt_asks_its_caller_too(bench):
    person = Person(ANN)

    async def script(client):
        return await client.get_prompt("tidy")

    result = bench.talk(script, elicitation_callback=person)
    assert "Ann" in result.messages[0].content.text
    assert person.asked[0].message == f"{NOTICE}\nWhose notes?"
    assert [line["state"] for line in bench.calls] == [None, asking.STATE]
    assert bench.calls[0]["declared"] == ["elicitation"]
