"""Exceptions for refused requests (RFC 9457 problems).

`Problem` and its subclasses are answers: the console is there and said no. `Unreachable` is the absence of an answer,
which says nothing about whether the request was carried out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from counterfoil.canonical import parse_json


@dataclass
class Problem(Exception):
    """The console refused the request."""

    status: int
    code: str
    title: str = ""
    detail: str = ""
    hint: str | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)
    retry_after_s: float | None = None

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.detail or self.title}"


class NotSignedIn(Problem):
    """The key is missing, unknown, expired or revoked (401)."""


class NotAllowed(Problem):
    """The key may not do this (403)."""


class NotFound(Problem):
    """There is no such thing for this key (404)."""


class NotNow(Problem):
    """The state of the thing does not allow this, or an Idempotency-Key was used for another body
    (409).
    """


class BodyRefused(Problem):
    """The body does not parse, is too large or breaks the schema (400, 413, 422)."""


class TooMany(Problem):
    """The key is over its rate (429); `retry_after_s` is the time to wait."""


class ConsoleFault(Problem):
    """The console failed (5xx): whether the request was carried out is not known."""


class Unreachable(Exception):
    """No answer came: the request may or may not have been carried out."""


_KINDS: dict[int, type[Problem]] = {
    400: BodyRefused,
    401: NotSignedIn,
    403: NotAllowed,
    404: NotFound,
    409: NotNow,
    413: BodyRefused,
    422: BodyRefused,
    429: TooMany,
}


def problem_from_response(response: httpx.Response) -> Problem:
    """The exception for an answer that is not a success."""
    body = _body(response)
    kind = _KINDS.get(response.status_code, ConsoleFault if response.status_code >= 500 else Problem)
    return kind(
        status=response.status_code,
        code=str(body.get("code") or f"HTTP_{response.status_code}"),
        title=str(body.get("title") or response.reason_phrase),
        detail=str(body.get("detail") or ""),
        hint=body.get("hint"),
        errors=list(body.get("errors") or []),
        retry_after_s=_seconds(response.headers.get("Retry-After")),
    )


def _body(response: httpx.Response) -> dict[str, Any]:
    if "json" not in response.headers.get("Content-Type", ""):
        return {}
    try:
        body = parse_json(response.content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None
