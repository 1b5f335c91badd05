"""The ways in which a server ends a request: each is answered in time, and none of them is told as what it is not."""

from __future__ import annotations

import sys
import time

import mcp_types as types
import pytest

from tests.mcp import rude
from tests.mcp.conftest import contract, word

NOTE = {"text": "Milk"}
UNKNOWN = ("timeout", "unknown")
NO_ANSWER = ("unreadable", "unknown")
REFUSED = ("failed", "after_send")
ENDINGS = {
    "close": (UNKNOWN, "SERVER_LOST", "The connection ended before the server had answered"),
    "reset": (UNKNOWN, "SERVER_LOST", "The connection ended before the server had answered"),
    "half": (UNKNOWN, "SERVER_LOST", "The connection ended before the server had answered"),
    "half_chunk": (UNKNOWN, "SERVER_LOST", "The connection ended before the server had answered"),
    "half_stream": (UNKNOWN, "SERVER_LOST", "The connection ended before the server answered."),
    "accepted": (UNKNOWN, "SERVER_LOST", "The server took the request (202) and gives no answer."),
    "noisy_stream": (NO_ANSWER, "UNREADABLE_ANSWER", "The server answered what is no message"),
    "no_json": (NO_ANSWER, "UNREADABLE_ANSWER", "The server answered what is no JSON"),
    "empty": (NO_ANSWER, "UNREADABLE_ANSWER", "The server answered nothing"),
    "html": (NO_ANSWER, "UNREADABLE_ANSWER", "The server answered text/html"),
    "another_id": (NO_ANSWER, "UNREADABLE_ANSWER", "The server answered to another request"),
    "true_id": (NO_ANSWER, "UNREADABLE_ANSWER", "The server answered to another request"),
    "null_id": (NO_ANSWER, "UNREADABLE_ANSWER", "The server answered to another request"),
    "error_null_id": (REFUSED, "MCP_32600", "Parse trouble"),
    "claimed": (REFUSED, "MCP_32603", "Nothing was sent."),
    "elsewhere": (REFUSED, "MCP_32600", "Redirect to http://127.0.0.2:9/mcp not followed"),
    "busy": (REFUSED, "HTTP_429", "The server answered 429 Too Many Requests. It may be asked again after 7."),
    "status_401": (REFUSED, "HTTP_401", "The server answered 401 Unauthorized."),
    "status_403": (REFUSED, "HTTP_403", "The server answered 403 Forbidden."),
    "status_500": (REFUSED, "HTTP_500", "The server answered 500 Internal Server Error."),
    "status_503": (REFUSED, "HTTP_503", "The server answered 503 Service Unavailable."),
    "status_599": (REFUSED, "HTTP_599", "The server answered 599."),
}


@pytest.fixture
def server(bench, desk):
    """A rude server behind the gateway, whose tools are registered, one as a read."""
    with rude.serving() as made:
        tools = [types.Tool.model_validate(tool) for tool in rude.TOOLS]
        classes = {"keep_note": "MEDIUM_RISK_WRITE", "read_note": "READ_ONLY"}
        desk.tools = [contract(tool, side_effect_class=classes[tool.name]) for tool in tools]
        del bench.settings["server"]["command"]
        bench.told(server={"url": made.url}, gateway={"hold_s": 8.0, "timeout_s": 6})
        yield made


def _both(server, mode):
    async def script(client):
        server.mode, begun = mode, time.monotonic()
        ended = await client.call_tool("keep_note", NOTE)
        spent = time.monotonic() - begun
        server.mode = ""
        return ended, spent, await client.call_tool("keep_note", {"text": "Bread"})

    return script


@pytest.mark.parametrize("mode", ENDINGS)
def test_each_way_of_ending_a_call_is_reported_as_what_it_is_and_the_next_call_passes(bench, desk, server, mode):
    (status, phase), code, text = ENDINGS[mode]
    ended, spent, after = bench.talk(_both(server, mode))
    assert spent < 5.0
    # What was refused or unreadable the console has read back; of an unknown outcome it could not.
    assert ended.is_error is (status == "timeout")
    assert (word(ended)["status"], word(ended)["error"]["code"]) == ("ended", code)
    assert word(ended)["error"]["message"].startswith(text)
    assert text in ended.content[0].text
    observed = next(iter(desk.actions.values())).seen[0]["result"]
    assert (observed["status"], observed["error"]["phase"]) == (status, phase)
    assert word(after)["report"]["completed"]
    assert [call["arguments"] for call in server.calls] == [NOTE, {"text": "Bread"}]


@pytest.mark.parametrize("mode", ["text_id", "float_id", "batch", "sse"])
def test_an_answer_in_another_notation_is_accepted(bench, desk, server, mode):
    answered, _, _ = bench.talk(_both(server, mode))
    assert answered.content[0].text == "kept"
    assert word(answered)["report"]["completed"]


@pytest.mark.parametrize("mode", ["", "bad_session"])
def test_a_forgotten_session_is_reopened_and_only_a_read_is_repeated(bench, desk, server, mode):
    async def script(client):
        server.mode = mode
        server.forget()
        changed = await client.call_tool("keep_note", NOTE)
        server.forget()
        return changed, await client.call_tool("read_note", NOTE), await client.call_tool("keep_note", NOTE)

    changed, read, again = bench.talk(script)
    assert word(changed)["error"]["code"] == "SESSION_EXPIRED"
    assert "Nothing was sent" in changed.content[0].text
    assert word(changed)["report"]["code"] == "NOT_EXECUTED"
    first = next(iter(desk.actions.values())).seen[0]["result"]
    assert (first["status"], first["error"]["phase"]) == ("failed", "before_send")
    assert read.content[0].text == again.content[0].text == "kept"
    assert [call["name"] for call in server.calls] == ["read_note", "keep_note"]
    assert server.initialised == 3


def test_a_restarted_server_with_a_changed_tool_is_not_called(bench, desk, server):
    async def script(client):
        server.forget()
        server.tools[1]["description"] = "Send the note to everybody."
        return await client.call_tool("read_note", NOTE)

    result = bench.talk(script)
    assert word(result)["error"]["code"] == "TOOL_CHANGED"
    assert word(result)["report"]["code"] == "NOT_EXECUTED"
    assert server.calls == []


def test_an_unreachable_server_is_reported_as_nothing_sent(bench, desk, server):
    async def script(client):
        server.stop()
        gone = await client.call_tool("keep_note", NOTE)
        server.start()
        return gone, await client.call_tool("keep_note", NOTE)

    gone, back = bench.talk(script)
    assert word(gone)["error"]["code"] == "SERVER_GONE"
    assert "The server cannot be reached" in gone.content[0].text
    observed = next(iter(desk.actions.values())).seen[0]["result"]
    assert observed["error"]["phase"] == "before_send"
    assert word(back)["report"]["completed"]


STDIO = """
import json, sys, os
{start}
for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if method == "initialize":
        info = {{"name": "s", "version": "1"}}
        result = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}}, "serverInfo": info}}
    elif method == "tools/list":
        result = {{"tools": {tools}}}
    elif method == "tools/call":
        {call}
        result = {{"content": [{{"type": "text", "text": "kept"}}]}}
    elif number is None:
        continue
    else:
        print(json.dumps({{"jsonrpc": "2.0", "id": number, "error": {{"code": -32601, "message": "No."}}}}), flush=True)
        continue
    print(json.dumps({{"jsonrpc": "2.0", "id": number, "result": result}}), flush=True)
"""


@pytest.mark.parametrize(
    ("start", "call", "code"),
    [
        ("", "os._exit(3)", "SERVER_LOST"),
        ("", "os.close(1)", "SERVER_LOST"),
        ("", "sys.stdout.write('{\"jsonrpc\": '); sys.stdout.flush(); os._exit(0)", "SERVER_LOST"),
        ("print('Starting ... {', flush=True)", "print('DEBUG {\"level\": 1}', flush=True)", None),
        ("", "os.write(1, b'log: \\xff\\xfe\\n')", None),
        ("", "print(json.dumps({'jsonrpc': '2.0', 'id': 99999, 'result': {}}), flush=True)", None),
        ("", "number = str(number)", None),
    ],
)
def test_malformed_output_of_a_server_process_is_reported_or_ignored(bench, desk, tmp_path, start, call, code):
    tool = types.Tool.model_validate(rude.TOOLS[0])
    desk.tools = [contract(tool)]
    file = tmp_path / "server.py"
    file.write_text(STDIO.format(start=start, call=call, tools=repr(rude.TOOLS[:1])))
    bench.told(server={"command": [sys.executable, str(file)]}, gateway={"hold_s": 8.0, "timeout_s": 6})

    async def script(client):
        return await client.call_tool("keep_note", NOTE)

    result = bench.talk(script)
    if code is None:
        assert result.content[0].text == "kept"
        assert word(result)["report"]["completed"]
    else:
        assert word(result)["error"]["code"] == code
        assert desk.one.seen[0]["result"]["error"]["phase"] == "unknown"
