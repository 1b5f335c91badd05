"""The six anti-patterns of tool calling, each with what stands in its place (R-FB-13).

The summary that is forced is also in test_telling.py, the comments of a stream in test_session_stream.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient

from console.edge import stream
from tests.support.api_tenant import Workshop, contract, workshop

pytestmark = pytest.mark.req("R-FB-13")


def send(shop: Workshop, session: dict[str, Any], *tools: str) -> dict[str, Any]:
    pin = session["pin"]["hash"]
    arguments = {"path": "policies/returns.md", "reason": "It is out of date."}
    calls = [{"tool": tool, "arguments": arguments, "pin_hash": pin, "call_id": ""} for tool in tools]
    answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": calls})
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


def findings(shop: Workshop, **changes: Any) -> set[str]:
    answer = shop.operator_key.post("/contracts", contract("write_document") | {"version": "2.0.0"} | changes)
    assert answer.status_code == 201, answer.content
    return {each["code"] for each in answer.json()["lint"]}


def test_an_unknown_tool_is_an_error_as_a_result_and_no_crash(shop: Workshop):
    session = shop.session()
    refused, accepted = send(shop, session, "update_customer_profile", "delete_document")["results"]
    assert refused["result"]["error"]["code"] == "PHANTOM_TOOL"
    assert accepted["accepted"]


def test_every_answer_says_what_to_do_next(shop: Workshop):
    session = shop.session()
    for tools in (("no_such_tool",), ("delete_document",), ("delete_document", "no_such_tool")):
        answer = send(shop, session, *tools)
        assert answer["nudge"] == answer["next"]["text"] != ""
        assert answer["next"]["code"]


def test_a_run_at_its_limit_ends_with_a_summary_instead_of_going_round(shop: Workshop):
    session = shop.session(iteration_limit=1)
    for _ in range(2):
        last = send(shop, session, "no_such_tool")
    assert last["summary"]["forced"]
    assert last["next"]["code"] == "STOP"


def test_a_silent_stream_is_kept_alive(committed_db: Any, monkeypatch: pytest.MonkeyPatch):
    assert stream.KEEPALIVE_S == 10.0
    monkeypatch.setattr(stream, "KEEPALIVE_S", 0.05)
    monkeypatch.setattr(stream, "EVERY_S", 0.02)
    shop = workshop("orchid").set_up()
    path = f"/api/v1/sessions/{shop.session()['session_id']}/stream"
    connections.close_all()

    async def listen() -> bytes:
        response: Any = await AsyncClient().get(path, headers=shop.agent.headers)
        async with asyncio.timeout(10):
            async for chunk in response.streaming_content:
                if b"still here" in chunk:
                    return bytes(chunk)
        return b""

    assert asyncio.run(listen()).startswith(b":")
    asyncio.run(sync_to_async(connections.close_all)())


def test_a_vague_name_and_a_description_without_bounds_are_found(shop: Workshop):
    assert not findings(shop) & {"VAGUE_NAME", "NO_USE_WHEN", "NO_NOT_FOR", "OPEN_CHOICE"}
    assert "VAGUE_NAME" in findings(shop, name="manage_document")
    assert findings(shop, description="Writes.", version="2.0.1") >= {"NO_USE_WHEN", "NO_NOT_FOR"}


def test_an_open_field_that_is_a_mode_is_found(shop: Workshop):
    schema = contract("write_document")["arguments_schema"]
    schema["properties"]["mode"] = {"type": "string"}
    assert "OPEN_CHOICE" in findings(shop, arguments_schema=schema)
