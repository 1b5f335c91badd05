"""Connection to the upstream MCP server; each call is sent once.

A call is never sent a second time, whatever comes back. Only a read goes out again: where it met a forgotten session,
so that nothing was sent (`gateway`), and with the answers to what its server asked (`questions`). A server of the 2026
protocol is told with each request which questions are answered; an older one once, if questions are relayed at all, and
it is refused those that belong to no call for sure.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.methods import parse_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter, ValidationError

from counterfoil.mcp.answers import result_text
from counterfoil.mcp.endings import EXPIRED, GONE, Ending, EndingTransport, ending_of
from counterfoil.mcp.questions import Questions, QuestionUnanswered
from counterfoil.mcp.settings import ServerSettings
from counterfoil.work import Failure, Result

log = logging.getLogger("counterfoil.mcp")

MOST_TOOLS = 2_000
_PAGES = 100
_ANSWER_S = 60.0
_A_DAY_S = 86_400.0
_RAW_BYTES = 200_000
# A server may keep the stream of an answer open for long; `call` has a limit of its own.
_HTTP = httpx2.Timeout(30.0, read=None)

DECLARED = "io.counterfoil/declared"
"""Holds, in a request to the server, the capabilities that are declared to it with that request."""
INPUT_REQUIRED = "INPUT_REQUIRED"
_CALLED: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_STATE_ONLY_S = 0.25

LIST = "tools/list"
"""Stands for the list itself among what could not be read."""

OnNotification = Callable[[types.ServerNotification], Awaitable[None]]
_Answered = TypeVar("_Answered", bound=BaseModel)


@dataclass
class Listing:
    """A server's list of tools, and the reason for each that could not be read, or for the list itself."""

    tools: list[types.Tool] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


class Upstream:
    """A connected server."""

    def __init__(self, client: Client, *, over_http: bool = False, asked: AskedClient | None = None) -> None:
        self._client = client
        self._over_http = over_http
        self._asked = asked or AskedClient()
        self._renewing = anyio.Lock()
        self._renewed = 0
        self.unread: dict[str, str] = {}
        self.lost = anyio.Event()
        self.closing = False

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return self._client.server_capabilities

    @property
    def info(self) -> types.Implementation | None:
        return self._client.server_info

    async def tools(self) -> Listing:
        """All tools that the server lists now; an incomplete list is returned with the reason."""
        self.unread.clear()
        found, asked, cursor = Listing(), set[str](), ""
        for _ in range(_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor or None)
            try:
                page = await self.ask(types.ListToolsRequest(params=params), types.ListToolsResult)
            except (MCPError, ValidationError) as fault:
                if not cursor:
                    raise
                found.unread[LIST] = f"a later page of the list could not be read: {_first_line(fault)}"
                break
            # Pages that overlap list a tool again; the same tool twice on one page is another matter.
            found.tools += [tool for tool in page.tools if tool not in found.tools]
            cursor = page.next_cursor or ""
            if not cursor or len(found.tools) > MOST_TOOLS:
                break
            if cursor in asked:
                found.unread[LIST] = f"the list does not go on: its cursor {cursor[:60]!r} came before"
                break
            asked.add(cursor)
        else:
            found.unread[LIST] = f"the list has more than {_PAGES} pages"
        found.tools = found.tools[:MOST_TOOLS]
        found.unread |= self.unread
        return found

    async def ask(
        self, request: types.Request[Any, Any], answer: type[_Answered] | TypeAdapter[_Answered]
    ) -> _Answered:
        """Forward one request that changes nothing; repeat it once if the session was forgotten."""
        session = self._renewed
        try:
            with self._asked.during(None):
                return await self._client.session.send_request(request, answer)
        except MCPError as fault:
            self._note(fault)
            ending = ending_of(fault)
            if ending.code != EXPIRED:
                raise MCPError(fault.code, ending.text, _own_data(fault, ending)) from fault
        await self.renew(session)
        return await self._client.session.send_request(request, answer)

    async def pass_on(self, request: types.CallToolRequest, *, progress: ProgressFnT) -> types.CallToolResult:
        """Forward a call unchanged, without any of our limits."""
        session = self._renewed
        try:
            return await self._client.session.send_request(
                request, types.CallToolResult, request_read_timeout_seconds=_A_DAY_S, progress_callback=progress
            )
        except MCPError as fault:
            self._note(fault)
            ending = ending_of(fault)
            if ending.code == EXPIRED:
                await self.renew(session)
            raise MCPError(fault.code, ending.text, _own_data(fault, ending)) from fault

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        timeout_s: float,
        progress: ProgressFnT | None = None,
        questions: Questions | None = None,
    ) -> tuple[Result, types.CallToolResult | None]:
        """Call a tool once; return its answer as an observation, and unchanged. With `questions` the server may ask.

        After a forgotten session (`EXPIRED`) another one is open, if the server gives one; nothing was sent.
        """
        if self.lost.is_set():
            text = "The connection to the server was lost before this call."
            return Ending(GONE, text, "failed", "before_send").result, None
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        session = self._renewed
        try:
            with self._asked.during(questions):
                said = await self._converse(params, timeout_s, progress, questions)
        except MCPError as fault:
            self._note(fault)
            ending = ending_of(fault)
            if questions is not None and fault.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY:
                questions.missing = fault.error
        except QuestionUnanswered as fault:
            ending = Ending(INPUT_REQUIRED, str(fault), "failed", "after_send")
        except (ValidationError, ValueError, RuntimeError) as fault:
            log.warning("%s answered what is no tool result: %s", name, _first_line(fault))
            return Result("unreadable", raw={"fault": _first_line(fault)}), None
        else:
            return _as_result(said), said
        if ending.code == EXPIRED:
            try:
                await self.renew(session)
            except (MCPError, ValidationError, RuntimeError) as fault:
                text = (
                    f"Nothing was sent: the server had forgotten the session and gives no other: {_first_line(fault)}"
                )
                ending = Ending(EXPIRED, text, "failed", "before_send")
        return ending.result, None

    async def _converse(
        self,
        params: types.CallToolRequestParams,
        timeout_s: float,
        progress: ProgressFnT | None,
        questions: Questions | None,
    ) -> types.CallToolResult:
        """Send a call, and send it again with the answers to what the server asks; all within `timeout_s`."""
        until = anyio.current_time() + timeout_s
        if questions is not None:
            params = params.model_copy(update={"meta": {DECLARED: questions.declared}})
        while True:
            left_s = max(0.1, until - anyio.current_time())
            request = types.CallToolRequest(params=params)
            said = await self._client.session.send_request(
                request, _CALLED, request_read_timeout_seconds=left_s, progress_callback=progress
            )
            if isinstance(said, types.CallToolResult):
                return said
            if questions is None:
                raise QuestionUnanswered("The server asked something instead of an answer, which is not passed on.")
            responses: dict[str, Any] = {}
            with anyio.move_on_after(until - anyio.current_time()) as asking:
                if said.input_requests:
                    responses = await questions.ask(said.input_requests)
                else:
                    await anyio.sleep(_STATE_ONLY_S)
            if asking.cancelled_caught:
                raise QuestionUnanswered("Nobody answered the server's question in time.")
            params = params.model_copy(
                update={"input_responses": responses or None, "request_state": said.request_state}
            )

    async def renew(self, known: int) -> None:
        """Reopen the session, once for all callers that met its end; the tools must be surveyed again."""
        async with self._renewing:
            if self._renewed != known:
                return
            log.warning("the server has forgotten the session; another one is opened")
            params = types.InitializeRequestParams(
                protocol_version=self._client.protocol_version,
                capabilities=self._asked.capabilities,
                client_info=types.Implementation(name="counterfoil-mcp", version=version("counterfoil-client")),
            )
            begun = await self._client.session.send_request(
                types.InitializeRequest(params=params), types.InitializeResult
            )
            self._client.session.adopt(begun)
            await self._client.session.send_notification(types.InitializedNotification())
            self._renewed += 1

    async def watch(self) -> None:
        """Listen for changes also from a server of the 2026 protocol, which notifies only listeners."""
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
        # Over HTTP the stream of one answer ends with that error, and the server is still there.
        if fault.code == types.CONNECTION_CLOSED and not self._over_http:
            self.lost.set()

    def end(self) -> None:
        """The transport has ended; unless we closed it, the server is lost."""
        if not self.closing:
            self.lost.set()


class AskedClient:
    """The client that an older server asks: its questions go to the one call that can have asked them, or to nobody.

    Such a server is told once, for all calls, that its questions are answered; so it is told only if they are relayed.
    """

    def __init__(self, *, relaying: bool = False) -> None:
        self._relaying = relaying
        self._running: list[Questions | None] = []

    @property
    def capabilities(self) -> types.ClientCapabilities:
        """The capabilities that are declared when a session is opened anew."""
        if not self._relaying:
            return types.ClientCapabilities()
        form, url = types.FormElicitationCapability(), types.UrlElicitationCapability()
        return types.ClientCapabilities(
            elicitation=types.ElicitationCapability(form=form, url=url),
            sampling=types.SamplingCapability(),
            roots=types.RootsCapability(),
        )

    @property
    def callbacks(self) -> dict[str, Any]:
        """The handlers of the server's requests, for the SDK's client."""
        if not self._relaying:
            return {}

        async def list_roots(_: Any) -> Any:
            return await self._answer(types.ListRootsRequest())

        async def create_message(_: Any, params: types.CreateMessageRequestParams) -> Any:
            return await self._answer(types.CreateMessageRequest(params=params))

        async def elicit(_: Any, params: types.ElicitRequestParams) -> Any:
            return await self._answer(types.ElicitRequest(params=params))

        return {
            "list_roots_callback": list_roots,
            "sampling_callback": create_message,
            "elicitation_callback": elicit,
        }

    @contextmanager
    def during(self, questions: Questions | None) -> Iterator[None]:
        """Note a request that the server works on, with the questions that it may ask."""
        self._running.append(questions)
        try:
            yield
        finally:
            self._running.remove(questions)

    async def _answer(self, request: types.InputRequest) -> Any:
        asking = self._running[0] if len(self._running) == 1 else None
        if asking is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="Nobody answers this here.")
        try:
            return (await asking.ask({request.method: request}))[request.method]
        except QuestionUnanswered as fault:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(fault))


@asynccontextmanager
async def connect_upstream(
    server: ServerSettings, *, notified: OnNotification, questions: bool = False
) -> AsyncIterator[Upstream]:
    """Start or reach the server; `notified` receives its notifications. It may ask only where `questions` are on."""

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            log.warning("the server sent what is no message: %s", _first_line(message))
        else:
            await notified(message)

    async with AsyncExitStack() as stack:
        incoming = _Incoming()
        transport = await _transport(server, stack, incoming)
        asked = AskedClient(relaying=questions)
        client = Client(transport, message_handler=hear, cache=None, read_timeout_seconds=_ANSWER_S, **asked.callbacks)
        await stack.enter_async_context(client)
        upstream = incoming.upstream = Upstream(client, over_http=bool(server.url), asked=asked)
        upstream.unread = incoming.unread
        if incoming.ended:
            upstream.end()
        try:
            yield upstream
        finally:
            upstream.closing = True


async def _transport(server: ServerSettings, stack: AsyncExitStack, incoming: _Incoming) -> Any:
    if server.command:
        program, *arguments = server.command
        cwd = str(Path(server.cwd).expanduser()) if server.cwd else None
        # Only these variables: the gateway's own keys are never the server's. A byte that is no text spoils no message
        # but its own.
        started = StdioServerParameters(
            command=program, args=arguments, env=dict(server.env), cwd=cwd, encoding_error_handler="replace"
        )
        return _check_stream(stdio_client(started), incoming)
    inner = EndingTransport(httpx2.AsyncHTTPTransport())
    http = httpx2.AsyncClient(headers=dict(server.headers), timeout=_HTTP, transport=inner)
    await stack.enter_async_context(http)
    return _check_stream(streamable_http_client(server.url, http_client=http), incoming)


class _Incoming:
    """The server's messages, made readable for the SDK, which refuses a whole list for one bad tool.

    1. Entries of a list that are no tools are left out, and named in `unread`.
    2. A result with structured content alone is a result.
    3. The end of the stream is the end of the connection, also while nobody waits for an answer.
    """

    def __init__(self) -> None:
        self.unread: dict[str, str] = {}
        self.upstream: Upstream | None = None
        self.ended = False

    def make_readable(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """One message as the SDK can read it."""
        result = getattr(item.message, "result", None) if isinstance(item, SessionMessage) else None
        if not isinstance(result, dict):
            return item
        if isinstance(result.get("tools"), list):
            result["tools"] = [tool for tool in result["tools"] if self._is_tool(tool)]
        elif "structuredContent" in result and not isinstance(result.get("content"), list):
            result["content"] = []
        return item

    def end(self) -> None:
        """The stream has ended."""
        self.ended = True
        if self.upstream is not None:
            self.upstream.end()

    def _is_tool(self, tool: Any) -> bool:
        try:
            if isinstance(tool, dict) and isinstance(tool.get("inputSchema"), dict):
                # Arguments are an object in any case.
                tool["inputSchema"].setdefault("type", "object")
            for version_of_list in HANDSHAKE_PROTOCOL_VERSIONS:
                parse_server_result("tools/list", version_of_list, {"tools": [tool]})
        except ValidationError as fault:
            name = tool.get("name") if isinstance(tool, dict) else None
            first = fault.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"] if part not in ("tools", 0))
            self.unread[str(name or "(no name)")[:256]] = (
                f"it is listed in a form that is no tool: {where}: {first['msg']}"
            )
            return False
        return True


@asynccontextmanager
async def _check_stream(transport: Any, incoming: _Incoming) -> AsyncIterator[Any]:
    async with transport as (read, write):
        yield _CheckedStream(read, incoming), _DeclaringStream(write)


class _CheckedStream:
    """A read stream whose messages pass through `_Incoming`."""

    def __init__(self, inner: Any, incoming: _Incoming) -> None:
        self._inner = inner
        self._incoming = incoming

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def receive(self) -> SessionMessage | Exception:
        try:
            return self._incoming.make_readable(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._incoming.end()
            raise

    def __aiter__(self) -> _CheckedStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return self._incoming.make_readable(await anext(self._inner))
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._incoming.end()
            raise

    async def __aenter__(self) -> _CheckedStream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *ended: Any) -> None:
        await self._inner.__aexit__(*ended)


class _DeclaringStream:
    """A write stream whose requests declare the capabilities of who is behind each, and else none.

    The SDK declares the same ones with every request.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, item: SessionMessage) -> None:
        params = getattr(item.message, "params", None)
        meta = params.get("_meta") if isinstance(params, dict) else None
        if isinstance(meta, dict):
            declared = meta.pop(DECLARED, {})
            if types.CLIENT_CAPABILITIES_META_KEY in meta:
                meta[types.CLIENT_CAPABILITIES_META_KEY] = declared
        await self._inner.send(item)

    async def __aenter__(self) -> _DeclaringStream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *ended: Any) -> None:
        await self._inner.__aexit__(*ended)


def _as_result(said: types.CallToolResult) -> Result:
    raw = said.model_dump(mode="json", by_alias=True, exclude_none=True)
    text = said.model_dump_json(by_alias=True, exclude_none=True)
    if len(text) > _RAW_BYTES:
        raw = {"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest(), "begins": result_text(said)}
    if said.is_error:
        return Result("failed", error=Failure("TOOL_ERROR", result_text(said, most=500), "after_send"), raw=raw)
    return Result("success", evidence=result_text(said) or None, raw=raw)


def _own_data(fault: MCPError, ending: Ending) -> Any:
    """The server's own data of an error, without the gateway's."""
    return fault.error.data if ending.text == fault.message[:500] and ending.code.startswith("MCP_") else None


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0][:300]
