"""The ways in which a transport ends a request, and what is known of it afterwards.

| ending | reported as |
|---|---|
| no connection, unknown host | nothing was sent |
| session forgotten (404, or 400 that says so) | nothing was sent; the session is opened anew |
| reset, closed, half a body, half a stream, 202, no answer in time | unknown |
| HTML, no JSON, an empty body, another request's answer | unknown: it is no answer to this request |
| 401, 403, 429, 5xx | the server's refusal, with its status; read back like any other failure |

The SDK has one error for most of these, and a broken connection ends its transport and with it every request. So HTTP
passes through `EndingTransport`, which turns each ending into an answer to the one request it belongs to. Its mark is
random: no server can claim an ending, least of all that nothing was sent.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError

from counterfoil.work import Failure, Result

EXPIRED = "SESSION_EXPIRED"
GONE = "SERVER_GONE"
LOST = "SERVER_LOST"
UNREADABLE = "UNREADABLE_ANSWER"
_MARK = secrets.token_hex(16)
_SESSION = "mcp-session-id"
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


@dataclass(frozen=True)
class Ending:
    """One ending of a request; `phase` as in `Failure`, and `status` the observed status of the call."""

    code: str
    text: str
    status: str = "timeout"
    phase: str = "unknown"

    @property
    def result(self) -> Result:
        """The result to report for a call with this ending."""
        return Result(self.status, error=Failure(self.code, self.text, self.phase))


def ending_of(fault: MCPError) -> Ending:
    """The ending behind an error of the SDK; an error of the server is reported as such."""
    data = fault.error.data
    if isinstance(data, dict) and data.get("mark") == _MARK:
        return Ending(data["code"], data["text"], data["status"], data["phase"])
    if fault.code == types.REQUEST_TIMEOUT:
        return Ending("TOOL_TIMEOUT", "The server did not answer in time.")
    if fault.code == types.CONNECTION_CLOSED:
        return Ending(LOST, "The connection ended before the server answered.")
    if fault.code == types.PARSE_ERROR:
        return _no_answer("what is no message")
    return Ending(f"MCP_{abs(fault.code)}", fault.message[:500], "failed", "after_send")


class EndingTransport(httpx2.AsyncBaseTransport):
    """HTTP to the server; every request gets an answer, however the connection ends."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = _message(request.content) if request.method == "POST" else None
        if asked is None:
            return await self._inner.handle_async_request(request)
        if asked.get("method") == "initialize":
            # A new session is asked for; one that the server has forgotten would be refused again.
            request.headers.pop(_SESSION, None)
        try:
            response = await self._inner.handle_async_request(request)
            if "id" not in asked or "method" not in asked:
                return response
            return await _answer_to(response, asked, in_session=_SESSION in request.headers)
        except _UNSENT as fault:
            ending = Ending(GONE, f"The server cannot be reached ({_first_line(fault)}).", "failed", "before_send")
        except httpx2.TransportError as fault:
            ending = Ending(LOST, f"The connection ended before the server had answered ({_first_line(fault)}).")
        if "id" not in asked:
            # Nobody waits for the answer to a notification.
            return httpx2.Response(202)
        return _mark_response(ending, asked)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _answer_to(response: httpx2.Response, asked: dict[str, Any], *, in_session: bool) -> httpx2.Response:
    status, kind = response.status_code, response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if 300 <= status < 400 or (status < 300 and kind == "text/event-stream"):
        return response
    if status == 202:
        return _mark_response(Ending(LOST, "The server took the request (202) and gives no answer."), asked)
    try:
        body = await response.aread()
    finally:
        await response.aclose()
    message = _message(body)
    if status >= 400:
        ending = _refusal_ending(response, message, in_session=in_session)
        return _mark_response(ending, asked) if ending else _rebuilt(message, asked, response)
    if kind != "application/json" or message is None:
        came = "what is no JSON" if body else "nothing"
        came = came if kind == "application/json" else kind or "a body of no type"
        return _mark_response(_no_answer(came), asked)
    if not _is_same(message.get("id"), asked["id"]) and not ("error" in message and message.get("id") is None):
        return _mark_response(_no_answer("to another request"), asked)
    return _rebuilt(message, asked, response)


def _refusal_ending(response: httpx2.Response, message: dict[str, Any] | None, *, in_session: bool) -> Ending | None:
    """The ending of a refusing status; None if the body is an error of the protocol itself."""
    status = response.status_code
    error = message.get("error") if message else None
    said = str(error.get("message", "")) if isinstance(error, dict) else ""
    code = error.get("code") if isinstance(error, dict) else None
    unknown_method = code == types.METHOD_NOT_FOUND
    if in_session and not unknown_method and (status == 404 or (status == 400 and "session" in said.lower())):
        text = "Nothing was sent: the server had forgotten the session. Another one is open now."
        return Ending(EXPIRED, text, "failed", "before_send")
    if isinstance(code, int) and status < 500 and status not in (401, 403, 429):
        return None
    named = {one.value: one.phrase for one in HTTPStatus}.get(status, "")
    again = response.headers.get("retry-after", "")
    parts = [f"The server answered {status} {named}".rstrip(), said[:300], f"It may be asked again after {again[:40]}"]
    text = ". ".join(part for part in parts[: 3 if again else 2] if part) + "."
    return Ending(f"HTTP_{status}", text, "failed", "after_send")


def _no_answer(came: str) -> Ending:
    return Ending(UNREADABLE, f"The server answered {came}, which is no answer to this request.", "unreadable")


def _mark_response(ending: Ending, asked: dict[str, Any]) -> httpx2.Response:
    data = {"mark": _MARK, "code": ending.code, "text": ending.text, "status": ending.status, "phase": ending.phase}
    error = {"code": types.INTERNAL_ERROR, "message": ending.text, "data": data}
    return httpx2.Response(200, json={"jsonrpc": "2.0", "id": asked["id"], "error": error})


def _rebuilt(message: dict[str, Any] | None, asked: dict[str, Any], response: httpx2.Response) -> httpx2.Response:
    """Return the same answer under the id as it was sent; the session that it names is kept."""
    kept = {_SESSION: response.headers[_SESSION]} if _SESSION in response.headers else {}
    return httpx2.Response(200, json={**(message or {}), "id": asked["id"]}, headers=kept)


def _message(body: bytes) -> dict[str, Any] | None:
    """The JSON-RPC message in a body; of a batch, the only one."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) else None


def _is_same(answered: Any, asked: Any) -> bool:
    """Return whether two ids are equal: 7, 7.0 and "7" are, true and 1 are not."""
    if isinstance(answered, float) and answered.is_integer():
        answered = int(answered)
    return not isinstance(answered, bool) and answered is not None and str(answered) == str(asked)


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [""])[0][:200] or type(fault).__name__
