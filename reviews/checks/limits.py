"""Deadlines for readings: every reading ends in time, with a `Reading` or with `CheckFailed`.

1. A socket's own timeout starts again with each byte, and a database driver has none at all while it waits for an
   answer. A conversation therefore shows its sockets to a `ConversationDeadline`, which shuts them down when the time
   for the whole reading is over; the library then reports a broken connection.
2. An answer that no check expected (half of one, another server's, bytes that mean nothing) must not end a reading in
   an arbitrary exception: `bounded_read` makes "no answer" of it, which is waited for, and never absence. It also
   records which of the pattern's parameters the contract did not ask about.
"""

from __future__ import annotations

import functools
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, ParamSpec

from reviews.checks.interface import CheckFailed
from reviews.reconciliation.rules.reading import Reading

_WORD = re.compile(r"\.\s*([A-Za-z_]\w*)")


def unchecked_parameters(needs: Mapping[str, tuple[str, ...]], verification: Mapping[str, Any]) -> dict[str, str]:
    """The pattern's parameters that this contract does not check, each with the reason (R-CP-15).

    A parameter is checked if the lookup names what it is about, or if a predicate compares the field that shows it.
    `needs` has the words for each parameter; one that a check always looks at is not in it.
    """
    named = set(_names(verification.get("lookup", {})))
    for text in verification.get("predicates", ()):
        named |= set(_WORD.findall(str(text)))
    return {
        parameter: f"The contract neither looks for it nor compares it ({', '.join(words)})."
        for parameter, words in needs.items()
        if named.isdisjoint(words)
    }


def _names(value: Any) -> Iterator[str]:
    """Every name in a lookup, at any depth."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield str(name)
            yield from _names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _names(part)


P = ParamSpec("P")
log = logging.getLogger(__name__)


def deadline_after(timeout_s: float) -> float:
    """Return the deadline shared by all requests of one reading."""
    return time.monotonic() + timeout_s


class ConversationDeadline:
    """The deadline of one conversation, which shuts down the sockets that it watches."""

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.sockets: list[socket.socket] = []
        self.timer = threading.Timer(max(0.0, ends - time.monotonic()), self._cut)
        self.timer.daemon = True

    def __enter__(self) -> ConversationDeadline:
        self.timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.timer.cancel()

    @property
    def left_s(self) -> float:
        """Return the seconds left; raise `CheckFailed` if there are none."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise CheckFailed("The time for this reading is over.", retryable=True)
        return left

    def watch(self, talk: socket.socket) -> None:
        """Shut this socket down as well when the time is over."""
        self.sockets.append(talk)
        if time.monotonic() >= self.ends:
            self._cut()

    def _cut(self) -> None:
        for talk in list(self.sockets):
            # One that is closed already needs nothing.
            with suppress(OSError, ValueError):
                talk.shutdown(socket.SHUT_RDWR)


def bounded_read(read: Callable[P, Reading]) -> Callable[P, Reading]:
    """Make a check's `read` end in a reading or in `CheckFailed` (rule 2)."""

    @functools.wraps(read)
    def asked(*args: P.args, **kwargs: P.kwargs) -> Reading:
        try:
            reading = read(*args, **kwargs)
        except CheckFailed:
            raise
        except Exception as problem:
            log.warning("a check met an answer that it does not know", exc_info=True)
            said = type(problem).__name__
            raise CheckFailed(f"The answer could not be understood ({said}).", retryable=True) from problem
        needs, verification = getattr(args[0], "needs", {}), kwargs.get("verification")
        left_out = unchecked_parameters(needs, verification) if isinstance(verification, dict) else {}
        return replace(reading, not_applicable={**left_out, **reading.not_applicable})

    return asked


def socket_of(stream: object) -> socket.socket | None:
    """The socket under a stream of the HTTP library, once it is connected."""
    found = stream.get_extra_info("socket") if hasattr(stream, "get_extra_info") else None
    return found if isinstance(found, socket.socket) else None
