"""Headers and response handling shared by both connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from counterfoil.canonical import parse_json
from counterfoil.problems import Unreachable, problem_from_response
from counterfoil.transport.request import Request

API = "/api/v1"


def request_headers(authorization: str, more: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request to the API."""
    return {"Authorization": authorization, "Accept": "application/json", **more}


def httpx_arguments(request: Request[Any], *, timeout_s: float) -> dict[str, Any]:
    """A request as httpx takes it; one that may be waited for at the console gets that much more time."""
    sent: dict[str, Any] = {"headers": request.headers, "timeout": timeout_s + request.patience_s}
    if request.body is not None:
        sent["json"] = request.body
    if request.params is not None:
        sent["params"] = request.params
    return sent


def parse_response(method: str, path: str, response: httpx.Response) -> Any:
    """The JSON of a success; else the problem."""
    if not response.is_success:
        raise problem_from_response(response)
    try:
        return parse_json(response.content) if response.content else None
    except ValueError as fault:
        raise Unreachable(f"{method} {path}: the answer is not JSON ({fault})") from fault


def unreachable_error(method: str, path: str, fault: Exception) -> Unreachable:
    """No answer came."""
    return Unreachable(f"{method} {path}: {type(fault).__name__} {fault}".strip())
