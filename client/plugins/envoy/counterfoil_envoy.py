"""An HTTP service for Envoy's `ext_authz`: each request is decided on by Counterfoil before Envoy sends it on.

    counterfoil-envoy --config counterfoil.toml --port 9191

Envoy sends on the bytes that it has, so they must be what was approved: the arguments of a call are made of the method,
the path and the JSON body, and a payload that differs from them in anything is refused and reported as not sent.
What no route matches is refused; `pass` names the methods that are let through unasked.

Envoy tells nobody what the upstream answered. So no outcome is reported: after its lease the action is UNKNOWN, and the
target is read back.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from anyio import to_thread

from counterfoil.canonical import digest, parse_json
from counterfoil.gating.deciding import Decider
from counterfoil.gating.settings import BadSettings, read_document, read_part
from counterfoil.work import failed

# A client takes 202 for success, and repeats 429 and 503 by itself.
WAITS, DENIED = 409, 403


@dataclass(frozen=True)
class Route:
    """Requests of one method and path, and the tool that they call; the groups of `path` are arguments of it."""

    method: str = ""
    path: str = ""
    tool: str = ""


@dataclass(frozen=True)
class Authorization:
    """The answer to Envoy: 200 lets the request pass, anything else is the answer to its client."""

    status: int
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class Authorizer:
    """Decides on requests as Envoy passes them on."""

    def __init__(self, document: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        envoy = document.get("envoy", {})
        self._routes = [read_part(Route, each, "envoy.route") for each in envoy.get("route", [])]
        if not self._routes or not all(each.method and each.path and each.tool for each in self._routes):
            raise BadSettings("Each [[envoy.route]] has `method`, `path` and `tool`, and there is at least one.")
        self._pass = frozenset(envoy.get("pass", ()))
        self._caller = str(envoy.get("caller_header", "")).lower()
        self._decider = Decider.of(document, environment)

    def authorize(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Authorization:
        """The decision on one request; `path` is as it was sent, with its query."""
        for route in self._routes:
            match = re.fullmatch(route.path, path) if route.method == method else None
            if match is not None:
                return self._ask(route, match.groupdict(), headers, body)
        return Authorization(200) if method in self._pass else Authorization(DENIED, "No route of the gate matches.")

    def _ask(self, route: Route, groups: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Authorization:
        if headers.get("x-envoy-auth-partial-body") == "true":
            return Authorization(DENIED, "The body is larger than what Envoy shows to the gate.")
        arguments = _arguments(groups, body)
        if isinstance(arguments, str):
            return Authorization(DENIED, arguments)
        decided = self._decider.decide(route.tool, arguments, caller=headers.get(self._caller, ""))
        if decided.work is None:
            waits = decided.decision is not None and decided.decision.decision == "wait"
            return Authorization(WAITS if waits else DENIED, decided.message)
        if digest(dict(decided.work.payload)) != digest(arguments):
            other = "The approved payload is not what was sent."
            self._decider.tell_outcome(decided.work, failed("OTHER_BYTES", other, phase="before_send"))
            return Authorization(DENIED, other)
        return Authorization(200, headers={"x-counterfoil-action": decided.work.action_id})


def _arguments(groups: Mapping[str, str], body: bytes) -> dict[str, Any] | str:
    """The arguments in a request, or why it has none."""
    try:
        told = parse_json(body.decode()) if body else {}
    except ValueError as fault:
        return f"The body is not JSON that has one meaning: {fault}"
    if not isinstance(told, dict) or told.keys() & groups.keys():
        return "The body is not a JSON object beside the path."
    return told | groups


def application(authorizer: Authorizer) -> Callable[..., Awaitable[None]]:
    """The service as ASGI. A fault of its own is a 500, by which Envoy refuses the request."""

    async def answer(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        found = await to_thread.run_sync(authorizer.authorize, scope["method"], path, headers, body)
        told = [(b"content-type", b"application/json")]
        told += [(name.encode(), value.encode()) for name, value in found.headers.items()]
        await send({"type": "http.response.start", "status": found.status, "headers": told})
        content = json.dumps({"message": found.message}).encode() if found.message else b""
        await send({"type": "http.response.body", "body": content})

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(prog="counterfoil-envoy", description="Decide on Envoy's requests (ext_authz).")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--port", type=int, default=9191)
    given = parser.parse_args()
    authorizer = Authorizer(read_document(given.config), os.environ)
    uvicorn.run(application(authorizer), host="127.0.0.1", port=given.port, log_level="warning", ws="none")
