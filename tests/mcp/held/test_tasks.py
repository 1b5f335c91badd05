"""Held calls as tasks: created, asked about, answered, withdrawn, and found again by another run of the gateway."""

from __future__ import annotations

from typing import Literal

import anyio
import mcp_types as types
import pytest
from mcp.client.extension import ClientExtension, ResultClaim, advertise
from mcp.shared.exceptions import MCPError

from counterfoil.mcp.errands import PendingCall, PendingCalls
from counterfoil.mcp.settings import GatewaySettings
from counterfoil.transport.reading import read_report, read_status
from tests.client.sessions import NOT_EXECUTED, WAITING, stands
from tests.mcp import servers
from tests.mcp.conftest import word
from tests.mcp.held.calls import EXTENSION, NOTE, Answer, ask, begin, ended

UNKNOWN = "0b8e2a3e-0000-4000-8000-000000000000"


class Task(types.Result):
    model_config = types.Result.model_config | {"extra": "allow"}
    result_type: Literal["task"]


class Polling(ClientExtension):
    """The client's half of the extension: it asks until the task has ended."""

    identifier = EXTENSION

    def claims(self):
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, created, ctx):
        while (task := await ask(ctx.session, "tasks/get", created.taskId))["status"] not in ("completed", "cancelled"):
            await anyio.sleep(0.1)
        return types.CallToolResult.model_validate(task.get("result") or {"content": []})


@pytest.fixture(autouse=True)
def held(desk):
    desk.held = {"notes.keep_note"}


def speaking(bench, script, **options):
    return bench.talk(script, extensions=[advertise(EXTENSION)], **options)


def test_discovery_names_the_version_and_the_extension_without_a_session(bench):
    async def script(client):
        request = types.Request[types.RequestParams, str](method="server/discover", params=types.RequestParams())
        return (await client.session.send_request(request, Answer)).model_dump(by_alias=True)

    found = bench.talk(script)
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["capabilities"]["extensions"] == {EXTENSION: {}}
    assert found["capabilities"]["tools"] == {"listChanged": True}
    assert found["instructions"].startswith("Calls of these tools pass a gate")


def test_an_older_client_is_promised_no_tasks(bench):
    async def script(client):
        return client.server_capabilities.extensions

    assert bench.talk(script, mode="legacy") is None


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools_are_listed_in_one_order_whatever_the_order_of_the_server_is(bench, monkeypatch, mode):
    async def script(client):
        return [tool.name for tool in (await client.list_tools()).tools]

    listed = servers.tools()
    orders = []
    for order in (listed, listed[::-1]):
        monkeypatch.setattr(servers, "tools", lambda order=order: order)
        orders.append(bench.talk(script, mode=mode))
    assert orders[0] == orders[1]
    assert orders[0][:-3] == sorted(orders[0][:-3])
    assert orders[0][-3:] == ["counterfoil_status", "counterfoil_lines", "counterfoil_verify"]


def test_a_held_call_is_a_task_at_once_and_completes_with_the_answer_after_the_approval(bench, desk):
    async def script(client):
        with anyio.fail_after(5):
            created = await begin(client)
        first = await ask(client.session, "tasks/get", created["taskId"])
        desk.approve()
        return created, first, await ended(client, created["taskId"])

    created, first, last = speaking(bench, script)
    assert created["resultType"] == "task"
    assert [created["taskId"]] == list(desk.actions)
    assert (created["status"], created["ttlMs"], created["statusMessage"]) == (
        "working",
        None,
        "It waits for approval.",
    )
    assert (created["createdAt"], created["lastUpdatedAt"]) == ("2026-07-28T10:00:00.000Z", "2026-07-28T10:00:01.000Z")
    assert first["statusMessage"] == ("It waits for approval. It is decided by 2026-07-29T10:00:00Z or not executed.")
    assert (first["resultType"], first["status"]) == ("complete", "working")
    assert last["status"] == "completed"
    result = types.CallToolResult.model_validate(last["result"])
    assert result.content[0].text == "kept: Milk"
    assert word(result)["report"]["completed"] is True
    assert (len(bench.calls), desk.one.starts) == (1, 1)


def test_a_client_that_resolves_tasks_by_itself_gets_the_answer_of_a_held_call(bench, desk):
    async def script(client):
        async with anyio.create_task_group() as turn:

            async def approve():
                while not desk.actions:
                    await anyio.sleep(0.05)
                desk.approve()

            turn.start_soon(approve)
            return await client.call_tool("keep_note", NOTE)

    result = bench.talk(script, extensions=[Polling()])
    assert word(result)["report"]["completed"] is True
    assert len(bench.calls) == 1


def test_a_call_that_is_not_held_is_answered_without_a_task(bench, desk):
    desk.held = set()

    async def script(client):
        return await begin(client)

    assert speaking(bench, script)["resultType"] == "complete"


def test_a_call_that_runs_longer_than_the_gateway_waits_becomes_a_task(bench):
    bench.told(gateway={"hold_s": 0.5})

    async def script(client):
        created = await begin(client, "slow_note")
        await ask(client.session, "tasks/cancel", created["taskId"])
        return created

    created = speaking(bench, script)
    assert (created["resultType"], created["statusMessage"]) == ("task", "It has not ended yet.")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_without_the_extension_keeps_the_handle_and_may_not_ask_about_tasks(bench, desk, mode):
    bench.told(gateway={"hold_s": 0.3})

    async def script(client):
        answer = await client.call_tool("keep_note", NOTE)
        with pytest.raises(MCPError) as refused:
            await ask(client.session, "tasks/get", word(answer)["action_id"])
        return answer, refused.value.error

    answer, error = bench.talk(script, mode=mode)
    assert word(answer)["status"] == "waiting"
    if mode == "legacy":
        assert error.code == types.METHOD_NOT_FOUND
    else:
        assert error.code == -32021
        assert error.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


def test_a_task_is_found_again_after_the_gateway_was_restarted(bench, desk):
    async def before(client):
        return (await begin(client))["taskId"]

    task_id = speaking(bench, before)
    desk.approve()
    assert bench.calls == []

    async def after(client):
        return await ended(client, task_id)

    last = speaking(bench, after)
    assert (last["taskId"], last["status"]) == (task_id, "completed")
    assert last["result"]["content"][0]["text"] == "kept: Milk"
    assert (len(bench.calls), desk.one.starts) == (1, 1)


def test_a_cancelled_task_is_withdrawn_and_never_runs(bench, desk):
    async def script(client):
        task_id = (await begin(client))["taskId"]
        first = await ask(client.session, "tasks/cancel", task_id)
        last = await ended(client, task_id)
        again = await ask(client.session, "tasks/cancel", task_id)
        desk.approve()
        await anyio.sleep(0.6)
        return first, last, again

    first, last, again = speaking(bench, script)
    assert {each["resultType"] for each in (first, again)} == {"complete"}
    assert not {"taskId", "status"} & first.keys()
    assert (last["status"], last["statusMessage"]) == ("cancelled", "It was withdrawn before it started.")
    assert bench.calls == []


def test_a_task_stays_working_until_the_effect_was_read_back(bench, desk, monkeypatch):
    desk.verdict = "PENDING"

    async def script(client):
        task_id = (await begin(client))["taskId"]
        desk.approve()
        with anyio.fail_after(20):
            while not desk.one.seen:
                await anyio.sleep(0.05)
        await anyio.sleep(0.3)
        unread = await ask(client.session, "tasks/get", task_id)
        desk.verdict = "COMPLETED"
        return unread, await ended(client, task_id)

    unread, last = speaking(bench, script)
    assert (unread["status"], unread["statusMessage"]) == ("working", "It is PENDING.")
    assert last["result"]["content"][0]["text"] == "kept: Milk"


def test_a_tool_that_fails_completes_its_task_with_the_error(bench, desk):
    desk.held, desk.verdict = {"notes.fail_note"}, "FAILED"

    async def script(client):
        task_id = (await begin(client, "fail_note"))["taskId"]
        desk.approve()
        return await ended(client, task_id)

    last = speaking(bench, script)
    assert (last["status"], last["result"]["isError"]) == ("completed", True)
    assert last["result"]["content"][0]["text"] == "The disk is full."


def test_an_unknown_task_is_an_error_and_asks_the_console_for_nothing_else(bench, desk):
    strange = [UNKNOWN, "", "../sessions", f"{UNKNOWN}/report", UNKNOWN.upper(), "x" * 5000]

    async def script(client):
        errors = set()
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            for task_id in strange:
                with pytest.raises(MCPError) as refused:
                    await ask(client.session, method, task_id, inputResponses={})
                errors.add((refused.value.error.code, refused.value.error.message))
        return errors

    assert speaking(bench, script) == {(types.INVALID_PARAMS, "This agent has no task with this id.")}
    asked = {seen.path for seen in desk.server.seen if "actions" in seen.path}
    assert asked == {f"/api/v1/actions/{UNKNOWN}"}


def test_methods_that_the_extension_removed_do_not_exist(bench):
    async def script(client):
        codes = []
        for method in ("tasks/result", "tasks/list"):
            with pytest.raises(MCPError) as refused:
                await ask(client.session, method, UNKNOWN)
            codes.append(refused.value.error.code)
        return codes

    assert speaking(bench, script) == [types.METHOD_NOT_FOUND] * 2


def test_a_task_that_the_console_does_not_tell_about_is_an_error_and_not_a_state(bench, desk):
    async def script(client):
        task_id = (await begin(client))["taskId"]
        desk.secret = {task_id}
        with pytest.raises(MCPError) as refused:
            await ask(client.session, "tasks/get", task_id)
        return refused.value.error

    error = speaking(bench, script)
    assert (error.code, error.message) == (types.INTERNAL_ERROR, "The console cannot be asked about this task now.")


def test_an_answer_with_a_status_of_before_the_decision_tells_the_decision():
    moved = read_report(NOT_EXECUTED | {"state": "FAILED"})
    decided = WAITING | {"decision": "REJECTED", "waiting": False, "reason": "Not this one."}
    old = read_status(stands("VALIDATED", approval=WAITING).body)
    new = read_status(stands("FAILED", approval=decided).body)

    class Desk:
        def state(self, _):
            return new

    async def told():
        return await PendingCalls(Desk(), GatewaySettings()).told(PendingCall("act-1"), moved, old)

    result = anyio.run(told)
    assert word(result)["approval"] == {"decision": "REJECTED", "reason": "Not this one."}
