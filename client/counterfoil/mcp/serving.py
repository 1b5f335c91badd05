"""Run the gateway: upstream connection, client transport and background tasks."""

from __future__ import annotations

import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from anyio import to_thread
from anyio.abc import TaskGroup
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError

from counterfoil.mcp.caller_decision import state_boundary
from counterfoil.mcp.gateway import GatedTools
from counterfoil.mcp.passing import ConnectedClients, GatewayServer, gateway_server
from counterfoil.mcp.questions import shown_request
from counterfoil.mcp.settings import Settings
from counterfoil.mcp.shadow import ShadowTools
from counterfoil.mcp.upstream import Upstream, connect_upstream

log = logging.getLogger("counterfoil.mcp")

PATH = "/mcp"
_RELISTING = types.ToolListChangedNotification


class ServerLost(Exception):
    """The connection to the server was lost; the gateway ends, so that whoever started it starts it again."""


class ServerNotifications:
    """The server's notifications: a changed tool list is read again, all others go on to the clients."""

    def __init__(self, clients: ConnectedClients) -> None:
        self._clients = clients
        self._tools: GatedTools | ShadowTools | None = None
        self._send, self._receive = anyio.create_memory_object_stream[None](1)

    async def hear(self, notification: types.ServerNotification) -> None:
        if isinstance(notification, _RELISTING):
            if self._tools is not None:
                self._tools.doubt()
            # Where one look is coming anyway, it will see this change too.
            with suppress(anyio.WouldBlock):
                self._send.send_nowait(None)
        elif not isinstance(notification, types.ProgressNotification | types.CancelledNotification):
            await self._clients.tell(notification)

    async def follow(self, tools: GatedTools | ShadowTools) -> None:
        """Survey the tools whenever the list has changed, and then notify the clients."""
        self._tools = tools
        with self._send, self._receive:
            async for _ in self._receive:
                try:
                    await tools.look()
                except (MCPError, ValueError, RuntimeError) as fault:
                    log.error("the server's tools could not be listed: %s", fault)
                await self._clients.tell(_RELISTING())


@asynccontextmanager
async def open_gateway(settings: Settings) -> AsyncIterator[tuple[GatewayServer, Upstream]]:
    """A gateway that is ready for clients, and the server behind it."""
    clients = ConnectedClients()
    changes = ServerNotifications(clients)
    enforced = settings.gateway.mode == "enforce"
    asks = enforced and settings.gateway.questions
    async with connect_upstream(settings.server, notified=changes.hear, questions=asks) as upstream:
        tools = GatedTools(settings, upstream, clients) if enforced else ShadowTools(settings, upstream)
        try:
            async with anyio.create_task_group() as tasks:
                yield await _begin_serving(tools, tasks, settings, upstream, clients, changes), upstream
                with anyio.CancelScope(shield=True):
                    await tools.settle()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(tools.close)


async def _begin_serving(
    tools: GatedTools | ShadowTools,
    tasks: TaskGroup,
    settings: Settings,
    upstream: Upstream,
    clients: ConnectedClients,
    changes: ServerNotifications,
) -> GatewayServer:
    await tools.ready(tasks)
    tasks.start_soon(changes.follow, tools)
    tasks.start_soon(upstream.watch)
    name = upstream.info.name if upstream.info is not None else settings.server.name
    about = name, version("counterfoil-client")
    if isinstance(tools, ShadowTools):
        return gateway_server(*about, tools, upstream, clients)
    show = partial(shown_request, server=settings.server.name, console=settings.console_hosts)
    return gateway_server(
        *about,
        tools,
        upstream,
        clients,
        tasks=tools.tasks,
        states=state_boundary(settings),
        show=show if settings.gateway.questions else None,
    )


async def serve(settings: Settings) -> None:
    """Serve until the client leaves; raise `ServerLost` if the server ends first."""
    async with open_gateway(settings) as (server, upstream):
        await _until_lost(server, settings, upstream)
    if upstream.lost.is_set():
        raise ServerLost


async def _until_lost(server: GatewayServer, settings: Settings, upstream: Upstream) -> None:
    async with anyio.create_task_group() as serving:

        async def end() -> None:
            await upstream.lost.wait()
            # What is being answered is answered; then there is nothing left to stand in front of.
            await anyio.sleep(1.0)
            serving.cancel_scope.cancel()

        serving.start_soon(end)
        if settings.gateway.listen:
            await _http(server, settings)
        else:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        serving.cancel_scope.cancel()


Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


async def _http(server: GatewayServer, settings: Settings) -> None:
    host, _, port = settings.gateway.listen.rpartition(":")
    local = host in ("127.0.0.1", "localhost", "[::1]")
    # Beyond this machine the token is what admits, and the name that a proxy sends is not known here.
    security = None if local else TransportSecuritySettings(enable_dns_rebinding_protection=False)
    inner: Any = server.streamable_http_app(
        streamable_http_path=PATH, host="127.0.0.1" if local else host, transport_security=security
    )
    app = _require_token(inner, settings.gateway.token) if settings.gateway.token else inner
    # h11 strips the whitespace around a header's value (RFC 9110 section 5.5); httptools leaves it at the end.
    config = uvicorn.Config(app, host=host.strip("[]"), port=int(port), log_level="warning", lifespan="on", http="h11")
    await uvicorn.Server(config).serve()


def _require_token(app: App, token: str) -> App:
    """Require the token for every request."""
    wanted = f"Bearer {token}".encode()

    async def guard(
        scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        sent = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(sent, wanted):
            await app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    return guard
