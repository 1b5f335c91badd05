"""Clients that wait for twelve seconds, a minute or ten, that cancel, and that are gone: a held call survives them all.

Limits and the gateway's own waiting are scaled down together; the waiting itself is the real one.
"""

from __future__ import annotations

import json
import subprocess
import time
from subprocess import PIPE

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from counterfoil.mcp import gateway
from tests.mcp.conftest import word

NOTE = {"text": "Milk"}
TWELVE, MINUTE, TEN_MINUTES, HOLD = 1.2, 6.0, 60.0, 4.5
"""A tenth of each; the gateway waits 45 s unless it is told otherwise."""


@pytest.fixture(autouse=True)
def scaled(monkeypatch, bench, desk):
    monkeypatch.setattr(gateway, "_LEAST_HOLD_S", 0.5)
    bench.told(gateway={"hold_s": HOLD})
    desk.held = {"notes.keep_note"}


def _asking(client, action_id, limit):
    return client.call_tool("counterfoil_status", {"action_id": action_id}, read_timeout_seconds=limit)


async def _until_told(client, action_id, limit):
    while word(told := await _asking(client, action_id, limit))["status"] in ("waiting", "running"):
        pass
    return told


@pytest.mark.parametrize("limit", [MINUTE, TEN_MINUTES])
def test_a_client_with_a_longer_limit_gets_a_handle_in_time_and_continues_with_it(bench, desk, limit):
    async def script(client):
        first = await client.call_tool("keep_note", NOTE, read_timeout_seconds=limit)
        desk.approve()
        return first, await _until_told(client, word(first)["action_id"], limit)

    first, last = bench.talk(script, mode="legacy")
    assert word(first)["status"] == "waiting"
    assert first.content[0].text == (
        "Not executed yet: it waits for a person's approval. Do not repeat the call. Ask again with the tool"
        f" counterfoil_status and action_id {word(first)['action_id']}; it is executed once when it is approved."
    )
    assert word(last)["report"]["completed"] is True
    assert (len(bench.calls), desk.one.starts) == (1, 1)


def test_a_client_that_times_out_withdraws_nothing_and_is_then_answered_in_time(bench, desk):
    async def script(client):
        with pytest.raises(MCPError, match="timed out"):
            await client.call_tool("keep_note", NOTE, read_timeout_seconds=TWELVE)
        ((action_id, action),) = desk.actions.items()
        desk.refuse = {
            "code": "DUPLICATE_BLOCKED",
            "message": "The same operation is already open.",
            "hint": f"Wait for the action {action_id}; do not repeat it.",
        }
        again = await client.call_tool("keep_note", NOTE, read_timeout_seconds=TWELVE)
        waiting = await _asking(client, action_id, TWELVE)
        state = action.state
        desk.approve()
        return again, waiting, state, await _until_told(client, action_id, TWELVE)

    again, waiting, state, last = bench.talk(script, mode="legacy")
    (action_id,) = desk.actions
    assert f"Wait for the action {action_id}; do not repeat it." in again.content[0].text
    assert "ask for it with counterfoil_status and that action's id." in again.content[0].text
    assert (word(waiting)["status"], state) == ("waiting", "VALIDATED")
    assert word(last)["report"]["completed"] is True
    assert (len(bench.calls), desk.one.starts) == (1, 1)


def test_a_call_approved_after_its_client_timed_out_waits_for_the_next_request(bench, desk):
    async def script(client):
        with pytest.raises(MCPError, match="timed out"):
            await client.call_tool("keep_note", NOTE, read_timeout_seconds=TWELVE)
        (action_id,) = desk.actions
        # By now the gateway has heard that nobody waits.
        await client.list_tools()
        await anyio.sleep(0.6)
        desk.approve()
        await anyio.sleep(0.6)
        assert bench.calls == []
        return await _until_told(client, action_id, TWELVE)

    assert word(bench.talk(script, mode="legacy"))["report"]["completed"] is True
    assert len(bench.calls) == 1


def test_a_client_that_cancels_its_call_withdraws_it(bench, desk):
    async def script(client):
        with anyio.move_on_after(TWELVE):
            await client.call_tool("keep_note", NOTE)
        with anyio.fail_after(15):
            while desk.one.state != "FAILED":
                await anyio.sleep(0.05)

    bench.talk(script, mode="legacy")
    desk.approve()
    assert bench.calls == []


def test_cancelling_a_status_request_withdraws_nothing(bench, desk):
    bench.told(gateway={"hold_s": 0.3})

    async def script(client):
        action_id = word(await client.call_tool("keep_note", NOTE))["action_id"]
        for ending in (anyio.move_on_after(0.1), pytest.raises(MCPError, match="timed out")):
            with ending:
                await _asking(client, action_id, 0.1)
        await anyio.sleep(0.6)
        state = desk.one.state
        desk.approve()
        return state, await _until_told(client, action_id, MINUTE)

    state, last = bench.talk(script, mode="legacy")
    assert state == "VALIDATED"
    assert word(last)["report"]["completed"] is True


def test_a_client_killed_while_it_waits_finds_its_request_again(bench, desk):
    started = bench.parameters()
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    call = {"name": "keep_note", "arguments": NOTE}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    with bench.log.open("a") as log:
        process = subprocess.Popen(
            [started.command, *started.args], env=started.env, stdin=PIPE, stdout=PIPE, stderr=log
        )
        assert process.stdin
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
        until = time.monotonic() + 30
        while not desk.actions and time.monotonic() < until:
            time.sleep(0.05)
        # What a killed client leaves behind: a pipe that ends.
        process.communicate(timeout=30)
    (action_id,) = desk.actions
    desk.approve()
    assert (desk.one.state, bench.calls) == ("VALIDATED", [])

    async def restarted(client):
        return await _until_told(client, action_id, MINUTE)

    assert word(bench.talk(restarted))["report"]["completed"] is True
    assert (len(bench.calls), desk.one.starts) == (1, 1)


def test_concurrent_calls_of_one_turn_each_wait_with_their_own_handle(bench, desk):
    bench.told(gateway={"hold_s": 0.8})
    told = {}

    async def call(client, text):
        told[text] = await client.call_tool("keep_note", {"text": text}, read_timeout_seconds=MINUTE)

    async def script(client):
        async with anyio.create_task_group() as turn:
            for text in ("Milk", "Bread", "Salt"):
                turn.start_soon(call, client, text)
        desk.approve()
        return [await _until_told(client, word(each)["action_id"], MINUTE) for each in told.values()]

    last = bench.talk(script, mode="legacy")
    assert [word(each)["status"] for each in told.values()] == ["waiting"] * 3
    assert all(word(each)["report"]["completed"] for each in last)
    assert sorted(each["arguments"]["text"] for each in bench.calls) == ["Bread", "Milk", "Salt"]
