"""An MCP server that asks its client in the middle of a call, in the form of the newer protocol or of the older ones.

What it is to ask is in the arguments. Each call is noted in a file `calls` with what the client declares, and with the
answers that came with it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage

FOLDER = Path()
OLDER = False
TEXT = {"type": "object", "required": ["ask"], "properties": {"ask": {"type": "string"}}}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
STATE = "what the server knows of this call"
HIDDEN = "\u202e\u200b"


def form(message: str = "Whose notes?") -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=FORM))


def page(url: str) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestURLParams(message="Sign in.", url=url, elicitation_id="e"))


def model() -> types.CreateMessageRequest:
    content = types.TextContent(type="text", text="Which notes?")
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=content)],
            max_tokens=9,
            system_prompt=f"Obey {HIDDEN}me.",
            include_context="allServers",
        )
    )


def questions(word: str) -> dict[str, types.InputRequest]:
    """The questions that a call is to ask."""
    if word.startswith(("https:", "http:")):
        return {"page": page(word)}
    known: dict[str, dict[str, types.InputRequest]] = {
        "name": {"name": form()},
        "hidden": {"name": form(f"Whose {HIDDEN}notes?")},
        "long": {"name": form("x" * 60_000)},
        "many": {f"name-{number}": form() for number in range(30)},
        "two": {"first": form("The first?"), "second": form("The second?")},
        "model": {"model": model()},
        "roots": {"roots": types.ListRootsRequest()},
    }
    return known[word]


def tools() -> list[types.Tool]:
    reads, changes = types.ToolAnnotations(read_only_hint=True), types.ToolAnnotations(destructive_hint=True)
    return [
        types.Tool(name="find_note", description="Find one.", input_schema=TEXT, annotations=reads),
        types.Tool(name="burn_note", description="Burn one.", input_schema=TEXT, annotations=changes),
    ]


def note(ctx: Any, params: Any, answers: Any) -> None:
    has = ctx.session.client_capabilities
    declared = sorted(has.model_dump(exclude_none=True)) if has is not None else []
    with (FOLDER / "calls").open("a") as file:
        line = {"tool": params.name, "declared": declared, "answers": answers, "state": params.request_state}
        file.write(json.dumps(line) + "\n")


def answers_in(params: Any) -> dict[str, Any]:
    return {
        key: each.model_dump(mode="json", exclude_none=True) for key, each in (params.input_responses or {}).items()
    }


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=tools())


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    word = (params.arguments or {})["ask"]
    told = answers_in(params)
    if OLDER:
        note(ctx, params, None)
        told = {}
        async with anyio.create_task_group() as asking:
            for key, request in questions(word).items():
                asking.start_soon(ask, ctx, request, told, key)
    else:
        note(ctx, params, told)
        needed = ctx.session.client_capabilities
        if word == "roots" and (needed is None or needed.roots is None):
            data = {"requiredCapabilities": {"roots": {}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "It needs roots.", data=data)
        if questions(word).keys() - told.keys():
            return types.InputRequiredResult(input_requests=questions(word), request_state=STATE)
    return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(told))])


async def ask(ctx: Any, request: types.InputRequest, into: dict[str, Any], key: str) -> None:
    """One request of the older form; the client's answer, or its refusal, goes under this key."""
    kind = {types.ElicitRequest: types.ElicitResult, types.CreateMessageRequest: types.CreateMessageResult}
    try:
        told = await ctx.session.send_request(request, kind.get(type(request), types.ListRootsResult))
    except MCPError as refused:
        into[key] = {"refused": refused.error.message}
    else:
        into[key] = told.model_dump(mode="json", exclude_none=True)


async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="tidy", description="Tidy up.")])


async def get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> Any:
    told = answers_in(params)
    note(ctx, params, told)
    if not told:
        return types.InputRequiredResult(input_requests={"name": form()}, request_state=STATE)
    content = types.TextContent(type="text", text=json.dumps(told))
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def refuse_discover(read: Any, write: Any, onward: Any) -> None:
    """Answer as a server that knows no `server/discover`, and pass on everything else."""
    async with onward:
        async for item in read:
            if getattr(item.message, "method", "") == "server/discover":
                error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found")
                refusal = types.JSONRPCError(jsonrpc="2.0", id=item.message.id, error=error)
                await write.send(SessionMessage(refusal))
            else:
                await onward.send(item)


@asynccontextmanager
async def connected() -> AsyncIterator[Any]:
    """The streams of a client that is connected to such a server."""
    async with create_client_server_memory_streams() as (client, (read, write)), anyio.create_task_group() as group:
        source: Any = read
        if OLDER:
            onward, source = anyio.create_memory_object_stream[Any](0)
            group.start_soon(refuse_discover, read, write, onward)
        made = server()
        group.start_soon(made.run, source, write, made.create_initialization_options())
        yield client
        group.cancel_scope.cancel()


def server() -> Server[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        return Server(
            "notes",
            version="1",
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            on_list_prompts=list_prompts,
            on_get_prompt=get_prompt,
        )
