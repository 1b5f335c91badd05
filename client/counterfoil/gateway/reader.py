"""The interface of a protocol that the gateway reads, and the values that it passes.

A reader decides from a request's head whether it passes, is refused or is kept; from the kept body it reads the effect
that is proposed. It also words every answer, since only the protocol knows in which shape its client shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, BinaryIO, Protocol

from counterfoil.gateway.held import HeldRequest
from counterfoil.work import Result


@dataclass(frozen=True)
class Head:
    """The head of a request; `path` is raw and begins after the host's name, `headers` have lower-case names."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    def header(self, name: str) -> str:
        """Return the value of a header, empty if it is missing."""
        return self.headers.get(name, "")


class Passes:
    """The request changes nothing and is forwarded unchanged."""


@dataclass(frozen=True)
class Keeps:
    """The request may change something: its body is kept, up to a size limit."""

    most_bytes: int


@dataclass(frozen=True)
class WordedAnswer:
    """An answer of the gateway's own."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None


class StoredContent(Protocol):
    """Bytes on disk, which are read from their beginning: sealed ones, as the gateway keeps them, or a plain file."""

    def open(self, mode: Any = "rb", /) -> BinaryIO:
        """Open the content for reading."""
        ...

    def read_bytes(self) -> bytes:
        """Read the content whole."""
        ...


@dataclass(frozen=True)
class KeptBody:
    """A body on disk, whole, as it came."""

    file: StoredContent
    sha256: str
    size: int


@dataclass(frozen=True)
class Intent:
    """The effect that a kept request would have.

    `key` tells it from every other effect: the same request sent again has the same key, whatever bytes it came in.
    `shape` is what the reader must know of this client to word an answer.
    """

    tool: str
    arguments: Mapping[str, Any]
    key: str
    shape: Mapping[str, Any]


class WaitEnd(StrEnum):
    """The ways in which a client's wait ends without the host's answer."""

    WAITS = "waits"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Reader(Protocol):
    """One protocol at one host."""

    streams: bool
    """The answer begins at once, and signs of life are sent while the request waits."""

    answers_upgrades: bool
    """It refuses an upgrade in its protocol's own words; elsewhere one is refused as no plain HTTP."""

    tools: Mapping[str, Mapping[str, Any]]
    """The contracts of the tools that it proposes, by their names."""

    def admit(self, head: Head) -> Passes | Keeps | WordedAnswer:
        """Decide from the head alone."""
        ...

    def read(self, head: Head, body: KeptBody) -> Intent | Passes | WordedAnswer:
        """Read the effect from the kept body; one that changes nothing passes after all. Blocks."""
        ...

    def stale(self, held: HeldRequest) -> str:
        """The reason for which a granted request must not be sent any more; empty if there is none. Blocks."""
        ...

    def progress(self, text: str) -> bytes:
        """Format a line for a waiting client, as part of a started answer; an empty text is a keep-alive."""
        ...

    def opening(self) -> WordedAnswer:
        """The head of an answer that begins at once."""
        ...

    def ended(self, shape: Mapping[str, Any], ending: WaitEnd, text: str) -> WordedAnswer:
        """Format the end of a wait."""
        ...

    def not_kept(self, head: Head, text: str) -> WordedAnswer:
        """Format the refusal of a body that was not kept: too large, too slow, or no room."""
        ...

    def judge(self, held: HeldRequest, status: int, content_type: str, body: bytes) -> Result:
        """Judge the host's answer: done, not done, or neither."""
        ...

    def relay(self, held: HeldRequest, status: int, content_type: str, body: bytes) -> WordedAnswer:
        """Format the host's answer for the client."""
        ...
