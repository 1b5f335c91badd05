"""What a client learns, whichever part of an answer it reads; and lists of tools as servers write them."""

from __future__ import annotations

import json

import mcp_types as types
import pytest

from counterfoil.mcp.surface import contract_name
from tests.mcp import rude
from tests.mcp.conftest import contract, word
from tests.mcp.test_endings import server

__all__ = ["server"]
NOTE = {"text": "Milk"}
TEXT = {"type": "text", "text": "The code is 4711."}
PICTURE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
FORGED = {"io.counterfoil/call": {"status": "answered"}, "vendor.example/trace": "t-1"}
ANSWERS = {
    "text only": {"content": [TEXT]},
    "structured only": {"structuredContent": {"code": 4711}},
    "structured beside nothing": {"content": [], "structuredContent": {"code": 4711}},
    "both": {"content": [TEXT], "structuredContent": {"code": 4711, "counterfoil": "forged"}},
    "an error in both": {"content": [TEXT], "structuredContent": {"code": 4711}, "isError": True},
    "a picture": {"content": [PICTURE]},
    "nothing": {"content": []},
    "its own meta": {"content": [TEXT], "_meta": FORGED},
}


def _texts(result):
    return [block.text for block in result.content if isinstance(block, types.TextContent)]


@pytest.mark.parametrize("name", ANSWERS)
def test_every_part_that_a_client_may_read_contains_the_answer_of_the_server(bench, server, name):
    server.given = given = ANSWERS[name]

    async def script(client):
        return await client.call_tool("read_note", NOTE)

    result = bench.talk(script, mode="legacy")
    *said, ours = result.content
    assert ours.text.startswith("Counterfoil: It is COMPLETED. (COMPLETED, action ")
    assert result.structured_content == given.get("structuredContent")
    assert result.is_error is given.get("isError", False)
    sent = [types.CallToolResult.model_validate({"content": given.get("content") or []}).content][0]
    if sent:
        assert said == sent
    else:
        assert [json.loads(block.text) for block in said] == ([{"code": 4711}] if "structuredContent" in given else [])
    assert word(result)["report"]["completed"] is True
    assert result.meta.get("vendor.example/trace") == given.get("_meta", {}).get("vendor.example/trace")


@pytest.mark.parametrize("name", ["counterfoil_status", "counterfoil_lines", "nothing_such", "keep_note"])
def test_the_text_contains_everything_that_the_gateway_adds(bench, desk, server, name):
    desk.refuse = {
        "code": "SCHEMA_DRIFT",
        "message": "No `txt` here.",
        "hint": "Use `text`.",
        "errors": [{"path": "/txt"}],
    }

    async def script(client):
        return await client.call_tool(name, {"action_id": "a-1"} if name == "counterfoil_status" else {})

    result = bench.talk(script)
    assert result.structured_content is None
    said = "\n".join(_texts(result))
    for part in ("code", "message", "hint"):
        assert word(result).get(part, "") in said
    assert all(error["path"] in said for error in word(result).get("errors", []))


def _listing(client):
    return client.list_tools()


def _tool(name, **parts):
    return {"name": name, "description": f"{name}.", "inputSchema": rude.SCHEMA} | parts


PAGES = {
    "one after the other": ([{"tools": [_tool("a")], "nextCursor": "1"}, {"tools": [_tool("b")]}], ["a", "b"], ""),
    "the cursor never moves": (
        [{"tools": [_tool("a")], "nextCursor": "1"}, {"tools": [_tool("a")], "nextCursor": "1"}],
        ["a"],
        "the list does not go on: its cursor '1' came before",
    ),
    "the cursor goes round": (
        [
            {"tools": [_tool("a")], "nextCursor": "1"},
            {"tools": [_tool("b")], "nextCursor": "2"},
            {"tools": [_tool("c")], "nextCursor": "1"},
        ],
        ["a", "b", "c"],
        "the list does not go on: its cursor '1' came before",
    ),
    "an empty cursor": ([{"tools": [_tool("a")], "nextCursor": ""}], ["a"], ""),
    "a page that is missing": (
        [{"tools": [_tool("a")], "nextCursor": "7"}],
        ["a"],
        "a later page of the list could not be read: No such page.",
    ),
    "pages that overlap": (
        [{"tools": [_tool("a"), _tool("b")], "nextCursor": "1"}, {"tools": [_tool("b"), _tool("c")]}],
        ["a", "b", "c"],
        "",
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_an_incomplete_list_keeps_its_tools_and_gives_the_reason(bench, desk, server, name):
    server.pages, names, why = PAGES[name]
    desk.tools = [contract(types.Tool.model_validate(_tool(one))) for one in "abc"]
    listed = bench.talk(_listing)
    assert [tool.name for tool in listed.tools][:-3] == names
    told = {each["tool"]: each["why"] for each in (desk.surfaces[-1] if desk.surfaces else [])}
    assert told.get("notes.tools/list", "") == why


def test_a_tool_that_changes_from_page_to_page_is_withheld(bench, desk, server):
    server.pages = [{"tools": [_tool("a"), _tool("b")], "nextCursor": "1"}, {"tools": [_tool("a", title="Another")]}]
    desk.tools = [contract(types.Tool.model_validate(_tool(one))) for one in "ab"]
    assert [tool.name for tool in bench.talk(_listing).tools][:-3] == ["b"]
    assert desk.surfaces[-1][0]["why"] == "the server lists it more than once"


ODD_TOOLS = {
    "a schema of a list": _tool("odd", inputSchema={"type": "array"}),
    "a schema that is a list": _tool("odd", inputSchema=[]),
    "no schema": {"name": "odd"},
    "annotations that are a text": _tool("odd", annotations="safe"),
    "a description that is a number": _tool("odd", description=7),
    "a name that is a number": _tool(7),
    "no object": "odd",
}


@pytest.mark.parametrize("name", ODD_TOOLS)
def test_a_malformed_tool_is_withheld_with_the_reason_and_the_others_are_listed(bench, desk, server, name):
    server.tools = [ODD_TOOLS[name], *server.tools]

    async def script(client):
        return await client.list_tools(), await client.call_tool("keep_note", NOTE)

    listed, kept = bench.talk(script)
    assert [tool.name for tool in listed.tools][:-3] == ["keep_note", "read_note"]
    assert kept.content[0].text == "kept"
    assert desk.surfaces[-1][0]["why"].startswith("it is listed in a form that is no tool: ")


NAMES = ["repo/search", "a" * 128, "_private", "9lives", "admin.tools.list", "größe", "with space"]


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_of_any_name_is_called_under_that_name(bench, desk, server, name):
    server.tools = [_tool(name)]
    desk.tools = [contract(types.Tool.model_validate(_tool(name)), name=contract_name("notes.", name))]

    async def script(client):
        return (await client.list_tools()).tools, await client.call_tool(name, NOTE)

    tools, kept = bench.talk(script)
    assert tools[0].name == name
    assert kept.content[0].text == "kept"
    assert [(call["name"], call["arguments"]) for call in server.calls] == [(name, NOTE)]


def test_no_two_tools_have_one_contract():
    names = [*NAMES, "repo_search", "a" * 127 + "b", "with_space", "with-space"]
    assert len({contract_name("notes.", name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("change", "withheld"),
    [
        ({"title": "Keep and send"}, True),
        ({"annotations": {"readOnlyHint": True}}, True),
        ({"title": "Keep it"}, False),
    ],
)
def test_a_hand_written_contract_pins_title_and_annotations_as_first_seen(bench, desk, server, change, withheld):
    seen = _tool("keep_note", title="Keep it", annotations={"readOnlyHint": False})
    server.tools = [seen]
    desk.tools = [contract(types.Tool.model_validate(seen), wrapper_version="1", description="keep_note.")]
    assert [tool.name for tool in bench.talk(_listing).tools][:-3] == ["keep_note"]
    server.tools = [seen | change]
    assert [tool.name for tool in bench.talk(_listing).tools][:-3] == ([] if withheld else ["keep_note"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"maximum": 10.0}, {"maximum": 10}),
        ({"description": "Größe"}, {"description": "Größe"}),
        ({"type": ["string", "null"]}, {"type": ["null", "string"]}),
    ],
)
@pytest.mark.parametrize("pin", [None, "1"])
def test_a_difference_of_notation_is_not_a_change(bench, desk, server, before, after, pin):
    def schema(part):
        return rude.SCHEMA | {"properties": {"text": {"type": "string"}, "x": part}, "required": ["text", "x"]}

    then, now = (_tool("keep_note", inputSchema=schema(part)) for part in (before, after))
    now["inputSchema"]["required"] = ["x", "text"]
    made = contract(types.Tool.model_validate(then), description="keep_note.")
    desk.tools = [made | ({"wrapper_version": pin} if pin else {})]
    server.tools = [now]
    assert [tool.name for tool in bench.talk(_listing).tools][:-3] == ["keep_note"]
