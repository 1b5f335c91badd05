"""Callers who may decide are sent to the console's page, and what they bring back is trusted with nothing."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError

from counterfoil.gating.settings import BadSettings
from counterfoil.mcp import caller_decision
from counterfoil.mcp.settings import load_settings
from tests.mcp.conftest import toml, word
from tests.mcp.held.calls import EXTENSION, NOTE, ask, begin, ended

PAGES = "https://console.example.org/t/attic/approvals"


@pytest.fixture(autouse=True)
def held(bench, desk):
    desk.held = {"notes.keep_note", "notes.fail_note"}
    bench.told(gateway={"decide_at": PAGES, "hold_s": 0.5})


class Person:
    """A person at the client, who is shown an address and answers."""

    def __init__(self, desk, action="accept", *, decides=True):
        self.desk, self.action, self.decides = desk, action, decides
        self.shown: list[Any] = []

    async def __call__(self, _, params):
        self.shown.append(params)
        if self.decides:
            self.desk.approve()
        return types.ElicitResult(action=self.action)


async def send(client, name="keep_note", arguments=NOTE, **more):
    """One request, without the client's own repeating."""
    params = types.CallToolRequestParams(name=name, arguments=arguments, **more)
    return (
        await client.session.call_tool(name, arguments, allow_input_required=True)
        if not more
        else (await client.session.send_request(types.CallToolRequest(params=params), types.CallToolResult))
    )


def test_a_caller_decides_on_the_page_and_gets_the_answer_of_the_call(bench, desk):
    person = Person(desk)

    async def script(client):
        return await client.call_tool("keep_note", NOTE)

    bench.told(gateway={"hold_s": 20.0})
    result = bench.talk(script, elicitation_callback=person)
    (shown,) = person.shown
    assert (shown.mode, shown.url) == ("url", f"{PAGES}/app-1")
    assert shown.message == (
        "This call waits for approval. If you may decide about it, open its page at the console and decide there."
    )
    assert result.content[0].text == "kept: Milk"
    assert word(result)["report"]["completed"] is True
    assert (len(desk.actions), len(bench.calls)) == (1, 1)


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_a_person_who_does_not_decide_leaves_the_call_with_the_others(bench, desk, action):
    person = Person(desk, action, decides=False)

    async def script(client):
        return await client.call_tool("keep_note", NOTE)

    result = bench.talk(script, elicitation_callback=person)
    assert (word(result)["status"], len(person.shown)) == ("waiting", 1)
    assert (desk.one.state, bench.calls) == ("VALIDATED", [])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_without_an_address_or_a_client_that_opens_pages_nobody_is_asked(bench, desk, mode):
    person = Person(desk)

    async def script(client):
        return await client.call_tool("keep_note", NOTE)

    if mode == "auto":
        assert word(bench.talk(script))["status"] == "waiting"
        bench.told(gateway={"decide_at": ""})
    assert word(bench.talk(script, mode=mode, elicitation_callback=person))["status"] == "waiting"
    assert person.shown == []


def test_a_task_asks_for_the_decision_until_the_client_has_answered(bench, desk):
    person = Person(desk, decides=False)

    async def script(client):
        task_id = (await begin(client))["taskId"]
        asking = await ask(client.session, "tasks/get", task_id)
        (key,) = asking["inputRequests"]
        await ask(client.session, "tasks/update", task_id, inputResponses={"another": {"action": "accept"}})
        still = await ask(client.session, "tasks/get", task_id)
        acked = await ask(client.session, "tasks/update", task_id, inputResponses={key: {"action": "accept"}})
        after = await ask(client.session, "tasks/get", task_id)
        untouched = desk.one.state, list(bench.calls)
        desk.approve()
        return asking, still, acked, after, untouched, await ended(client, task_id)

    asking, still, acked, after, untouched, last = bench.talk(
        script, elicitation_callback=person, extensions=[advertise(EXTENSION)]
    )
    ((_, request),) = asking["inputRequests"].items()
    assert (asking["status"], request["method"]) == ("input_required", "elicitation/create")
    assert (request["params"]["mode"], request["params"]["url"]) == ("url", f"{PAGES}/app-1")
    assert still["inputRequests"] == asking["inputRequests"]
    assert not {"status", "inputRequests"} & acked.keys()
    assert (after["status"], "inputRequests" in after) == ("working", False)
    # The client's word that the page was opened decided nothing.
    assert untouched == ("VALIDATED", [])
    assert last["status"] == "completed"


def test_the_next_run_of_the_gateway_asks_under_another_key(bench):
    keys = []

    async def script(client):
        task_id = (await begin(client))["taskId"]
        keys.extend((await ask(client.session, "tasks/get", task_id))["inputRequests"])

    for _ in range(2):
        bench.talk(script, elicitation_callback=Person(None), extensions=[advertise(EXTENSION)])
    assert len(set(keys)) == 2


# requestState


async def _begin_round_trip(client):
    asked = await send(client)
    assert isinstance(asked, types.InputRequiredResult)
    assert asked.request_state
    return asked.request_state


async def _refused(client, state, **call):
    with pytest.raises(MCPError) as refused:
        await send(client, request_state=state, **call)
    return refused.value.error.code, refused.value.error.message


REFUSED = (types.INVALID_PARAMS, "Invalid or expired requestState")


def test_a_state_shows_nothing_and_leads_to_the_same_call_also_after_a_restart(bench, desk):
    person = Person(desk)
    state = bench.talk(_begin_round_trip, elicitation_callback=person)
    (action_id,) = desk.actions
    opened = base64.urlsafe_b64decode(state.partition(".")[2] + "==")
    assert action_id.encode() not in opened
    assert action_id not in state

    async def script(client):
        waiting = await send(client, request_state=state)
        desk.approve()
        with anyio.fail_after(20):
            while word(last := await send(client, request_state=state))["status"] != "answered":
                pass
        return waiting, last, await send(client, request_state=state)

    waiting, last, replayed = bench.talk(script, elicitation_callback=person)
    assert word(waiting)["status"] == "waiting"
    assert word(last)["action_id"] == word(replayed)["action_id"] == action_id
    # However often it is sent, the call is made once.
    assert (len(desk.actions), len(bench.calls), desk.one.starts) == (1, 1, 1)


def test_a_state_that_the_gateway_did_not_give_for_this_call_is_refused(bench, desk):
    async def script(client):
        state = await _begin_round_trip(client)
        changed = state[:-6] + ("A" if state[-6] != "A" else "B") + state[-5:]
        (action_id,) = desk.actions
        rubbish = ["", "x", "v1.", "v1.AAAA", action_id, state[:-8], state + "A", "v2" + state[2:], changed, "é" * 9999]
        found = {await _refused(client, each) for each in rubbish}
        found |= {await _refused(client, state, arguments={"text": "Bread"})}
        found |= {await _refused(client, state, name="fail_note")}
        found |= {await _refused(client, state, arguments=NOTE | {"also": 1})}
        return found

    assert bench.talk(script, elicitation_callback=Person(desk)) == {REFUSED}
    assert (len(desk.actions), bench.calls) == (1, [])


@pytest.mark.parametrize(
    "change",
    [
        {"console": {"agent_id": "another"}},
        {"gateway": {"token": "another"}},
        {"console": {"executor_id": "mcp-another"}},
    ],
    ids=["another agent's", "under another token", "another gateway's"],
)
def test_anothers_state_is_refused(bench, desk, change):
    state = bench.talk(_begin_round_trip, elicitation_callback=Person(desk))
    bench.told(**change)

    async def script(client):
        return await _refused(client, state)

    assert bench.talk(script, elicitation_callback=Person(desk)) == REFUSED


def test_an_expired_state_is_refused(bench, desk, monkeypatch):
    monkeypatch.setattr(caller_decision, "STATE_S", 0.2)

    async def script(client):
        state = await _begin_round_trip(client)
        await anyio.sleep(0.3)
        return await _refused(client, state)

    assert bench.talk(script, elicitation_callback=Person(desk)) == REFUSED
    assert bench.calls == []


@pytest.mark.parametrize(
    "address", ["http://console.example.org/approvals", "javascript:alert(1)", "console", "https://"]
)
def test_an_address_that_is_not_safe_to_open_is_refused_at_the_start(bench, tmp_path, address):
    bench.told(gateway={"decide_at": address})
    (tmp_path / "gateway.toml").write_text(toml(bench.settings))
    with pytest.raises(BadSettings, match=r"gateway\.decide_at is an address with https, or one of this machine\."):
        load_settings(tmp_path / "gateway.toml", environment={})
