"""Connection to the upstream MCP server; each call is sent once.

A call is never sent a second time, whatever comes back: neither after a timeout nor when the server asks for more
input. What the server asks of its client in the middle of a call (elicitation, sampling, roots) is not offered: an
answer to it would be part of an effect that nobody approved.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from counterfoil.mcp.answers import result_text
from counterfoil.mcp.settings import ServerSettings
from counterfoil.work import Failure, NothingSent, Result

log = logging.getLogger("counterfoil.mcp")

MOST_TOOLS = 2_000
_PAGES = 100
_ANSWER_S = 60.0
_A_DAY_S = 86_400.0
_RAW_BYTES = 200_000
# A server may keep the stream of an answer open for long; `call` has a limit of its own.
_HTTP = httpx2.Timeout(30.0, read=None)

OnNotification = Callable[[types.ServerNotification], Awaitable[None]]
_Answered = TypeVar("_Answered", bound=BaseModel)


class Upstream:
    """A connected server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.lost = anyio.Event()

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return self._client.server_capabilities

    @property
    def info(self) -> types.Implementation | None:
        return self._client.server_info

    async def tools(self) -> list[types.Tool]:
        """Everything that the server lists now."""
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self.ask(
                types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor)), types.ListToolsResult
            )
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) > MOST_TOOLS:
                break
        return found[:MOST_TOOLS]

    async def ask(self, request: types.Request[Any, Any], answer: type[_Answered]) -> _Answered:
        """One request that changes nothing, passed on."""
        try:
            return await self._client.session.send_request(request, answer)
        except MCPError as fault:
            self._note(fault)
            raise

    async def pass_on(self, request: types.CallToolRequest, *, progress: ProgressFnT) -> types.CallToolResult:
        """A call as it came, without any of our limits."""
        try:
            return await self._client.session.send_request(
                request, types.CallToolResult, request_read_timeout_seconds=_A_DAY_S, progress_callback=progress
            )
        except MCPError as fault:
            self._note(fault)
            raise

    async def call(
        self, name: str, arguments: dict[str, Any], *, timeout_s: float, progress: ProgressFnT | None = None
    ) -> tuple[Result, types.CallToolResult | None]:
        """Call a tool once; what it answered as an observation, and as it came."""
        if self.lost.is_set():
            raise NothingSent("SERVER_GONE", "The connection to the server was lost before this call.")
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
        try:
            said = await self._client.session.send_request(
                request, types.CallToolResult, request_read_timeout_seconds=timeout_s, progress_callback=progress
            )
        except MCPError as fault:
            self._note(fault)
            return _refusal(fault), None
        except (ValidationError, ValueError, RuntimeError) as fault:
            log.warning("%s answered what is no tool result: %s", name, _first_line(fault))
            return Result("unreadable", raw={"fault": _first_line(fault)}), None
        return _observed(said), said

    async def watch(self) -> None:
        """Hear of changes also from a server of the 2026 protocol, which tells only who listens."""
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            async with self._client.listen(
                tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            ) as changes:
                async for _ in changes:
                    pass  # each is heard as a notification too
        except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError) as fault:
            log.info("the server tells of no changes: %s", _first_line(fault))

    def _note(self, fault: MCPError) -> None:
        if fault.code == types.CONNECTION_CLOSED:
            self.lost.set()


@asynccontextmanager
async def connect_upstream(server: ServerSettings, *, notified: OnNotification) -> AsyncIterator[Upstream]:
    """Start or reach the server; `notified` hears what it says of itself."""

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            log.warning("the server sent what is no message: %s", _first_line(message))
        else:
            await notified(message)

    async with AsyncExitStack() as stack:
        transport = await _transport(server, stack)
        client = Client(transport, message_handler=hear, cache=None, read_timeout_seconds=_ANSWER_S)
        await stack.enter_async_context(client)
        yield Upstream(client)


async def _transport(server: ServerSettings, stack: AsyncExitStack) -> Any:
    if server.command:
        program, *arguments = server.command
        cwd = str(Path(server.cwd).expanduser()) if server.cwd else None
        # Only these variables: the gateway's own keys are never the server's.
        return StdioServerParameters(command=program, args=arguments, env=dict(server.env), cwd=cwd)
    http = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(server.headers), timeout=_HTTP))
    return streamable_http_client(server.url, http_client=http)


def _observed(said: types.CallToolResult) -> Result:
    raw = said.model_dump(mode="json", by_alias=True, exclude_none=True)
    text = said.model_dump_json(by_alias=True, exclude_none=True)
    if len(text) > _RAW_BYTES:
        raw = {"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest(), "begins": result_text(said)}
    if said.is_error:
        return Result("failed", error=Failure("TOOL_ERROR", result_text(said, most=500), "after_send"), raw=raw)
    return Result("success", evidence=result_text(said) or None, raw=raw)


def _refusal(fault: MCPError) -> Result:
    if fault.code == types.REQUEST_TIMEOUT:
        return _open("TOOL_TIMEOUT", "The server did not answer in time.")
    if fault.code == types.CONNECTION_CLOSED:
        return _open("SERVER_LOST", "The connection ended before the server answered.")
    # The server answered with an error of the protocol: its word, and read back like any other failure.
    return Result("failed", error=Failure(f"MCP_{abs(fault.code)}", fault.message[:500], "after_send"))


def _open(code: str, message: str) -> Result:
    """Nobody knows what came of it."""
    return Result("timeout", error=Failure(code, message, "unknown"))


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0][:300]
