"""What passes between client and server without the gate, and what the console hears of the server's tools."""

from __future__ import annotations

from functools import partial

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from counterfoil.mcp import upstream
from tests.client.consoles import Answer
from tests.mcp.conftest import word

NOTE = {"text": "Milk"}
PROMPT = types.PromptReference(name="tidy")
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture
def older(monkeypatch):
    """A server that speaks the older protocol only."""
    monkeypatch.setattr(upstream, "Client", partial(Client, mode="legacy"))


@MODES
def test_reads_of_resources_and_prompts_pass_unchanged_and_are_not_proposed(bench, desk, mode):
    async def script(client):
        has = client.server_capabilities
        assert None not in (has.resources, has.prompts, has.completions)
        templates = (await client.list_resource_templates()).resource_templates
        page = await client.read_resource("notes://page")
        prompt = await client.get_prompt("tidy")
        completed = await client.complete(PROMPT, {"name": "room", "value": "ki"}, {"house": "old"})
        return templates, page, prompt, completed

    templates, page, prompt, completed = bench.talk(script, mode=mode)
    assert [each.uri_template for each in templates] == ["notes://{day}"]
    assert page.contents[0].text == "a page"
    assert prompt.messages[0].content.text == "Tidy tidy."
    assert completed.completion.values == ["ref/prompt", "room", "ki", '{"house": "old"}']
    assert (bench.calls, desk.calls) == ([], [])


@MODES
def test_an_error_of_the_server_passes_with_its_code_and_data(bench, mode):
    async def script(client):
        with pytest.raises(MCPError) as refused:
            await client.read_resource("notes://another")
        return refused.value.error

    error = bench.talk(script, mode=mode)
    assert (error.code, error.message) == (-32042, "There is no such page.")
    assert error.data == {"uri": "notes://another"}


def test_requests_about_the_connection_reach_the_server(bench, older):
    async def script(client):
        await client.set_logging_level("warning")
        await client.subscribe_resource("notes://page")

    bench.talk(script, mode="legacy")
    assert (bench.folder / "level").read_text() == "warning"
    assert (bench.folder / "subscribed").read_text() == "notes://page"


def test_the_servers_notifications_reach_the_client(bench, older):
    heard = []

    async def hear(message):
        heard.append(getattr(message, "method", ""))

    async def logged(params):
        heard.append(params.data)

    async def script(client):
        await client.call_tool("stir_all", NOTE)
        wanted = {
            "notifications/resources/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/updated",
            "stirred",
        }
        with anyio.fail_after(20):
            while not wanted <= set(heard):
                await anyio.sleep(0.05)

    bench.talk(script, mode="legacy", message_handler=hear, logging_callback=logged)


def test_the_servers_notifications_reach_the_client_in_the_newer_protocol(bench):
    async def script(client):
        heard = set()
        async with client.listen(resources_list_changed=True, prompts_list_changed=True) as changes:
            await client.call_tool("stir_all", NOTE)
            with anyio.fail_after(20):
                while len(heard) < 2:
                    heard.add(type(await changes.__anext__()).__name__)
        return heard

    assert bench.talk(script) == {"ResourcesListChanged", "PromptsListChanged"}


# A held call


def test_cancelling_a_held_call_withdraws_it_and_ends_its_progress(bench, desk, monkeypatch):
    monkeypatch.setattr("counterfoil.mcp.gateway._PROGRESS_S", 0.2)
    desk.held = {"notes.keep_note"}
    heard = []

    async def progress(done, total, message):
        heard.append((done, message))

    async def script(client):
        with anyio.move_on_after(2.0):
            await client.call_tool("keep_note", NOTE, progress_callback=progress)
        with anyio.fail_after(20):
            while desk.one.state != "FAILED":
                await anyio.sleep(0.05)
        desk.approve()
        desk.held = set()
        return await client.call_tool("keep_note", {"text": "Bread"})

    # In the newer protocol a client within the process only goes, and says no word.
    last = bench.talk(script, mode="legacy")
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert {message for _, message in heard} == {"It waits for approval."}
    assert word(last)["report"]["completed"] is True
    assert [call["arguments"]["text"] for call in bench.calls] == ["Bread"]


# A session that is over


def _over(desk):
    """The first session of the gateway takes no more calls."""
    answer, sessions = desk.answer, []

    def ended(seen):
        if seen.path.endswith("/sessions"):
            sessions.append(seen.body)
        if seen.path.endswith("/calls") and len(sessions) == 1:
            error = {"code": "PIN_EXPIRED", "message": "The pin has run out."}
            (call,) = seen.body["calls"]
            refused = {"call_id": call["call_id"], "accepted": False, "result": {"error": error}}
            return Answer(200, {"results": [refused], "nudge": None})
        return answer(seen)

    desk.server.plan("", ended)
    return sessions


def test_calls_end_when_the_pin_expires(bench, desk):
    sessions = _over(desk)

    async def script(client):
        return await client.call_tool("keep_note", NOTE)

    assert word(bench.talk(script))["code"] == "PIN_EXPIRED"
    assert len(sessions) == 1
    assert bench.calls == []


def test_the_same_goal_is_pinned_again_if_renewal_is_allowed(bench, desk):
    sessions = _over(desk)
    bench.told(session={"renew": True})

    async def script(client):
        return await client.call_tool("keep_note", NOTE)

    result = bench.talk(script)
    assert word(result)["report"]["completed"] is True
    assert [each["goal"] for each in sessions] == [bench.settings["session"]["goal"]] * 2
    assert len(bench.calls) == 1


def test_a_renewed_session_does_not_call_a_tool_whose_contract_changed(bench, desk):
    sessions = _over(desk)
    bench.told(session={"renew": True})
    session = desk.session

    def registered_anew():
        if sessions[1:]:
            desk.tools = [tool | {"wrapper_version": "mcp1.aaaa.bbbb"} for tool in desk.tools]
        return session()

    desk.session = registered_anew

    async def script(client):
        return await client.call_tool("keep_note", NOTE)

    result = bench.talk(script)
    assert word(result)["error"]["code"] == "TOOL_CHANGED"
    assert desk.one.seen[0]["result"]["error"]["phase"] == "before_send"
    assert bench.calls == []


# What is held back


def test_tools_withheld_at_the_start_are_recorded_with_the_session(bench, desk):
    bench.become("schema")

    async def script(client):
        return None

    bench.talk(script)
    (report,) = desk.surfaces
    why = "schema differs from what was registered"
    assert report == [
        {"tool": "notes.keep_note", "fate": "changed", "why": why},
        {"tool": "notes.read_notes", "fate": "unregistered", "why": ""},
    ]


def test_tools_that_change_during_a_session_are_reported_once_more(bench, desk):
    async def script(client):
        async with client.listen(tools_list_changed=True) as changes:
            await client.call_tool("swap_tools", NOTE)
            await changes.__anext__()
        await client.call_tool("keep_note", NOTE)

    bench.talk(script)
    assert [[each["tool"] for each in report] for report in desk.surfaces] == [
        ["notes.read_notes"],
        ["notes.keep_note", "notes.read_notes"],
    ]


def test_a_withheld_tool_stays_withheld_when_the_report_is_refused(bench, desk, caplog):
    bench.become("schema")
    answer = desk.answer
    desk.server.plan("", lambda seen: Answer(403, {"code": "FORBIDDEN"}) if "/surface" in seen.path else answer(seen))

    async def script(client):
        return await client.call_tool("keep_note", NOTE)

    assert word(bench.talk(script))["code"] == "TOOL_CHANGED"
    assert "could not be put on record" in caplog.text
    assert bench.calls == []


def test_shadow_mode_withholds_no_tool_and_reports_none(bench, desk):
    bench.become("schema")
    bench.told(gateway={"mode": "shadow", "report": str(bench.folder / "shadow.jsonl")})

    async def script(client):
        return await client.call_tool("keep_note", NOTE)

    bench.talk(script)
    assert desk.surfaces == []
    assert len(bench.calls) == 1


def test_no_call_passes_when_a_changed_tool_list_cannot_be_read_again(bench, desk, monkeypatch):
    """The server says that its tools have changed and then does not list them."""
    tools, broken = upstream.Upstream.tools, []

    async def listed(self):
        if broken:
            raise MCPError(code=-32603, message="Not now.")
        return await tools(self)

    monkeypatch.setattr(upstream.Upstream, "tools", listed)

    async def script(client):
        await client.list_tools()
        async with client.listen(tools_list_changed=True) as changes:
            broken.append(True)
            await client.call_tool("swap_tools", NOTE)
            await changes.__anext__()
        return await client.call_tool("keep_note", NOTE)

    result = bench.talk(script)
    assert word(result)["error"]["code"] == "SERVER_GONE"
    assert [call["tool"] for call in bench.calls] == ["swap_tools"]
