"""Parse server-sent events and track the last event id.

1. An event ends at an empty line; one without data is none. Lines that begin with a colon are
   comments: they only show that the other side is there.
2. `id` is the place to resume from (`Last-Event-ID`), and is kept from event to event. `retry` says
   how long to wait before coming back.
3. A console that resumes may send the last few events again; an id that was seen is not told twice.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\n|\Z)")
_REMEMBERED = 2_000


@dataclass(frozen=True)
class Event:
    """One thing that happened in a session: `action`, `approval`, `verdict`, `summary`, or what a newer console
    adds.
    """

    kind: str
    data: Any
    event_id: str


class EventParser:
    """Reads one stream over all its connections."""

    def __init__(self, last_event_id: str = "") -> None:
        self.last_event_id = last_event_id
        self.retry_s: float | None = None
        self._seen: OrderedDict[str, None] = OrderedDict()
        self.connected()

    def connected(self) -> None:
        """Start a connection: an unfinished event of the earlier one is dropped."""
        self._rest = b""
        self._begin()

    def chunk(self, received: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        # A carriage return at the end may be half of a line's end.
        *lines, self._rest = _LINE_END.split(self._rest + received)
        for line in lines:
            event = self._line(line.decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._end()
        if not line.startswith(":"):
            name, _, value = line.partition(":")
            self._take_field(name, value.removeprefix(" "))
        return None

    def _begin(self) -> None:
        self._kind = "message"
        self._id: str | None = None
        self._data: list[str] = []

    def _take_field(self, name: str, value: str) -> None:
        if name == "event":
            self._kind = value or "message"
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\x00" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_s = int(value) / 1000

    def _end(self) -> Event | None:
        kind, data, own_id = self._kind, self._data, self._id
        self._begin()
        if own_id is not None:
            self.last_event_id = own_id
        if not data or (own_id and self._is_known(own_id)):
            return None
        return Event(kind, _value("\n".join(data)), self.last_event_id)

    def _is_known(self, event_id: str) -> bool:
        if event_id in self._seen:
            return True
        self._seen[event_id] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return False


def _value(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data
