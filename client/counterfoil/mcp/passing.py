"""Pass MCP messages through between client and upstream server.

Requests go on with their own parameters; what belongs to one connection only (progress tokens, the protocol's
envelope) does not. Notifications of the server reach every client that is connected now.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio
import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter

from counterfoil.mcp.questions import QuestionUnanswered, declared_part
from counterfoil.mcp.tasks import EXTENSION, CallTasks, require_tasks
from counterfoil.mcp.upstream import DECLARED, Upstream

log = logging.getLogger("counterfoil.mcp")

Context = ServerRequestContext[Any, Any]
ShowRequest = Callable[[types.InputRequest], types.InputRequest]
_MOST_CLIENTS = 200
_NOTICE_S = 0.5
_TIMED_OUT = ("timed out", "timeout")
_INSTRUCTIONS = (
    "Calls of these tools pass a gate, and some wait for a person. The last line of an answer, after `Counterfoil:`,"
    " says what became of the call; tell users only that. While it waits or has not ended, do not repeat the call: ask"
    " with counterfoil_status. Before you report what was done, ask counterfoil_lines: copy its lines or write their"
    " cite."
)
_EVENTS: dict[str, ServerEvent] = {
    "notifications/tools/list_changed": ToolsListChanged(),
    "notifications/prompts/list_changed": PromptsListChanged(),
    "notifications/resources/list_changed": ResourcesListChanged(),
}


class ToolHandler(Protocol):
    """The handler of tools: the gate, or its shadow."""

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult: ...

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> HandlerResult: ...


class GatewayServer(Server[Any]):
    """The server that clients see; it announces changes of its lists."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(
            notification_options or changes, experimental_capabilities, extensions
        )


class ConnectedClients:
    """The connected clients, which get the server's notifications."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._known: dict[str, ServerSession] = {}
        self._cancelled: dict[tuple[str, str], str] = {}

    def note(self, ctx: Context) -> None:
        """Remember the caller; a client of the 2026 protocol has no session, and listens through the bus instead."""
        # An id is used again: what was cancelled under it before is another request.
        self._cancelled.pop((_connection(ctx), str(ctx.request_id)), None)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        self._known[_connection(ctx)] = ctx.session
        while len(self._known) > _MOST_CLIENTS:
            del self._known[next(iter(self._known))]

    async def observe(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Keep why a client cancelled a request."""
        params = ctx.params or {}
        if ctx.method == "notifications/cancelled":
            self._cancelled[_connection(ctx), str(params.get("requestId"))] = str(params.get("reason") or "")
            while len(self._cancelled) > _MOST_CLIENTS:
                del self._cancelled[next(iter(self._cancelled))]
        return await call_next(ctx)

    async def took_back(self, ctx: Context) -> bool:
        """Return whether the client itself cancelled the request, and not because its time was over.

        A client that is gone, or only closes the stream, has not cancelled.
        """
        asked = (_connection(ctx), str(ctx.request_id))
        with anyio.move_on_after(_NOTICE_S):
            # The request ends before the notice is handed on.
            while asked not in self._cancelled:
                await anyio.sleep(0.01)
        reason = self._cancelled.pop(asked, None)
        return reason is not None and not any(word in reason.lower() for word in _TIMED_OUT)

    async def tell(self, notification: types.ServerNotification) -> None:
        """Pass a notification on."""
        event = _EVENTS.get(notification.method)
        if event is not None:
            await self.bus.publish(event)
        for session in list(self._known.values()):
            await session.send_notification(notification)


def _connection(ctx: Context) -> str:
    """Return the client's session over HTTP; over stdio there is only one client."""
    headers = getattr(ctx.request, "headers", None) or {}
    return str(headers.get("mcp-session-id", ""))


def gateway_server(
    name: str,
    version: str,
    tools: ToolHandler,
    upstream: Upstream,
    clients: ConnectedClients,
    *,
    tasks: CallTasks | None = None,
    states: RequestStateBoundary | None = None,
    show: ShowRequest | None = None,
) -> GatewayServer:
    """The MCP server that replaces `upstream` for clients. `show` makes of a server's question what a client sees;
    without it none is passed on.
    """
    server = GatewayServer(
        name,
        version=version,
        instructions=_INSTRUCTIONS,
        on_list_tools=_noting(clients, tools.list_tools),
        on_call_tool=_noting(clients, tools.call_tool),
        on_subscriptions_listen=_listening(clients),
    )
    server.middleware.append(clients.observe)
    if states is not None:
        server.middleware.append(states)
    if tasks is not None:
        server.extensions[EXTENSION] = {}
        for name_of_method, task_params, handler in tasks.methods:
            server.add_request_handler(name_of_method, task_params, handler)
    for method, params, request, answer in _passed_methods(upstream.capabilities):
        read = _ASKING.get(answer) if show is not None else None
        passing = _asking(upstream, request, read, show) if read and show else _passing(upstream, request, answer)
        server.add_request_handler(method, params, _noting(clients, passing))
    return server


def _noting(
    clients: ConnectedClients, handler: Callable[[Context, Any], Awaitable[Any]]
) -> Callable[[Context, Any], Awaitable[Any]]:
    async def noted(ctx: Context, params: Any) -> Any:
        clients.note(ctx)
        return await handler(ctx, params)

    return noted


def _listening(
    clients: ConnectedClients,
) -> Callable[[Context, types.SubscriptionsListenRequestParams], Awaitable[types.SubscriptionsListenResult]]:
    """Streams of changed lists; of tasks nothing is pushed, so the acknowledgement names none (SEP-2663)."""
    handler = ListenHandler(clients.bus)

    async def listen(ctx: Context, params: types.SubscriptionsListenRequestParams) -> types.SubscriptionsListenResult:
        if "taskIds" in (params.notifications.model_extra or {}):
            require_tasks(ctx)
        return await handler(ctx, params)

    return listen


def _passing(
    upstream: Upstream, request: type[types.Request[Any, Any]], answer: type[BaseModel]
) -> Callable[[Context, Any], Awaitable[BaseModel]]:
    async def passed(_: Context, params: BaseModel | None) -> BaseModel:
        bare = params.model_copy(update={"meta": None}) if params is not None else None
        return await upstream.ask(request(params=bare), answer)  # type: ignore[call-arg]  # each has its method

    return passed


def _asking(
    upstream: Upstream, request: type[types.Request[Any, Any]], read: TypeAdapter[Any], show: ShowRequest
) -> Callable[[Context, Any], Awaitable[BaseModel]]:
    """Pass on a request that the server may answer with questions, of a client of 2026-07-28 which declares them."""

    async def passed(ctx: Context, params: BaseModel) -> BaseModel:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        declared = {DECLARED: declared_part(ctx.session.client_capabilities)} if modern else None
        bare = params.model_copy(update={"meta": declared})
        said: BaseModel = await upstream.ask(request(params=bare), read)  # type: ignore[call-arg]  # each has its method
        if not isinstance(said, types.InputRequiredResult):
            return said
        try:
            shown = {key: show(each) for key, each in (said.input_requests or {}).items()}
        except QuestionUnanswered as fault:
            raise MCPError(types.INTERNAL_ERROR, str(fault)) from fault
        return said.model_copy(update={"input_requests": shown or None})

    return passed


_ASKING: dict[type[BaseModel], TypeAdapter[Any]] = {
    types.GetPromptResult: TypeAdapter(types.GetPromptResult | types.InputRequiredResult),
    types.ReadResourceResult: TypeAdapter(types.ReadResourceResult | types.InputRequiredResult),
}
_Passed = tuple[str, type[BaseModel], type[types.Request[Any, Any]], type[BaseModel]]


def _passed_methods(has: types.ServerCapabilities) -> list[_Passed]:
    page = types.PaginatedRequestParams
    found: list[_Passed] = []
    if has.resources is not None:
        found += [
            ("resources/list", page, types.ListResourcesRequest, types.ListResourcesResult),
            (
                "resources/templates/list",
                page,
                types.ListResourceTemplatesRequest,
                types.ListResourceTemplatesResult,
            ),
            ("resources/read", types.ReadResourceRequestParams, types.ReadResourceRequest, types.ReadResourceResult),
        ]
        if has.resources.subscribe:
            found += [
                ("resources/subscribe", types.SubscribeRequestParams, types.SubscribeRequest, types.EmptyResult),
                ("resources/unsubscribe", types.UnsubscribeRequestParams, types.UnsubscribeRequest, types.EmptyResult),
            ]
    if has.prompts is not None:
        found += [
            ("prompts/list", page, types.ListPromptsRequest, types.ListPromptsResult),
            ("prompts/get", types.GetPromptRequestParams, types.GetPromptRequest, types.GetPromptResult),
        ]
    if has.completions is not None:
        found.append(("completion/complete", types.CompleteRequestParams, types.CompleteRequest, types.CompleteResult))
    if has.logging is not None:
        found.append(("logging/setLevel", types.SetLevelRequestParams, types.SetLevelRequest, types.EmptyResult))
    return found
