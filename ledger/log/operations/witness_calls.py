"""HTTP calls to witnesses and the time-stamp authority.

What comes back is untrusted until a rule has verified it. A call has a time limit, follows no redirect, takes no proxy
from the environment and reads no more than `LARGEST` bytes. It runs outside of any transaction.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import httpx

PATIENCE = httpx.Timeout(5.0, connect=3.0)
WITHIN_S = 10.0
LARGEST = 2**16
AGENT = "counterfoil"


class NoAnswer(Exception):
    """Nobody answered, or not in a way that can be used; the message is the sentence a person reads."""


class Response(NamedTuple):
    """What came back."""

    status: int
    kind: str
    content: bytes


def post(url: str, content: bytes, headers: Mapping[str, str]) -> Response:
    """The answer to one request."""
    until = time.monotonic() + WITHIN_S
    sent = {"User-Agent": AGENT, "Accept-Encoding": "identity", **headers}
    try:
        with (
            httpx.Client(trust_env=False, follow_redirects=False, timeout=PATIENCE) as client,
            client.stream("POST", url, content=content, headers=sent) as response,
        ):
            found = bytearray()
            for block in response.iter_raw():
                found += block
                if len(found) > LARGEST:
                    raise NoAnswer(f"The answer was longer than {LARGEST} bytes.")
                if time.monotonic() > until:
                    raise NoAnswer(f"The answer was not complete after {WITHIN_S:.0f} seconds.")
            if response.is_redirect:
                raise NoAnswer("The answer led somewhere else, and no redirect is followed.")
            return Response(response.status_code, response.headers.get("content-type", ""), bytes(found))
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        raise NoAnswer(f"No answer: {type(problem).__name__}.") from None
