"""Plain HTTP: reject every request that two programs could frame or read differently, whatever the parser accepted.

Of what a client sent, only the method, the path, the query, some headers and the body's bytes go on: the request to
the host is a new one, with framing of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from counterfoil.gateway.reader import Head

MOST_HEAD: Final = 32_768
_ONCE: Final = (
    *("content-length", "transfer-encoding", "content-type", "content-encoding"),
    *("authorization", "host", "expect"),
)
_FORWARDED: Final = (
    *("accept", "accept-encoding", "accept-language", "content-type", "content-encoding", "git-protocol"),
    *("user-agent", "if-match", "if-none-match", "x-github-api-version"),
)
_HIDDEN: Final = re.compile(r"%(?:2e|5c|25|00)", re.I)


class NotPlain(Exception):
    """The request is ambiguous; `status` is the status of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def read_head(
    method: str, target: str, version: tuple[int, int], raw: Sequence[tuple[bytes, bytes]]
) -> tuple[str, Head]:
    """The host's name in the path, and the rest of the head; `NotPlain` if anything is ambiguous.

    `Upgrade` is left to the reader, which refuses it in its own protocol's words.
    """
    names = [name.lower().decode("latin-1") for name, _ in raw]
    if sum(len(name) + len(value) for name, value in raw) + len(target) > MOST_HEAD:
        raise NotPlain(431, "the head of the request is too large")
    if any(names.count(name) > 1 for name in _ONCE) or "host" not in names:
        raise NotPlain(400, "headers that can be read in two ways")
    headers = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in raw}
    if "content-length" in headers and "transfer-encoding" in headers:
        raise NotPlain(400, "headers that can be read in two ways")
    coding = headers.get("transfer-encoding", "chunked")
    if version != (1, 1) or coding.lower() != "chunked":
        raise NotPlain(400, "not plain HTTP/1.1")
    path, mark, query = target.partition("?")
    # A slash that is written as %2F stands inside a name; read as a slash it must not lead elsewhere either.
    read = re.sub("%2f", "/", path, flags=re.I)
    odd = "//" in read or "/." in read or "\\" in path or "#" in target or _HIDDEN.search(path)
    if odd or not path.startswith("/") or not target.isascii() or not target.isprintable() or (mark and not query):
        raise NotPlain(400, "a path that can be read in two ways")
    name, _, rest = path[1:].partition("/")
    return name, Head(method=method, path=rest, query=query, headers=headers)


def forwarded_headers(head: Head) -> tuple[tuple[str, str], ...]:
    """The forwarded headers: never a credential, a cookie, framing, or information about the sender."""
    return tuple((name, head.headers[name]) for name in _FORWARDED if name in head.headers)
