"""A line to the console that can be cut at one chosen request: before it arrives, or before its answer does."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum


class Lost(StrEnum):
    """What the cut loses."""

    REQUEST = "request"
    ANSWER = "answer"


@dataclass
class Cut:
    """One cut: `done` is set when it has happened, after `then` was called."""

    request: re.Pattern[bytes]
    loses: Lost
    then: Callable[[], None]
    begun: threading.Lock = field(default_factory=threading.Lock)
    done: threading.Event = field(default_factory=threading.Event)

    def meets(self, data: bytes) -> bool:
        return not self.done.is_set() and self.request.search(data) is not None

    def happen(self) -> None:
        if self.begun.acquire(blocking=False):
            self.then()
            self.done.set()


class Wire:
    """Passes bytes on between its own port and the console's."""

    def __init__(self, to_port: int) -> None:
        self.to_port = to_port
        self.cuts: list[Cut] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def cut(self, request: str, *, loses: Lost, then: Callable[[], None]) -> Cut:
        """Cut at the next request whose first line matches, once, and call `then` at that moment."""
        made = Cut(re.compile(request.encode()), loses, then)
        self.cuts.append(made)
        return made

    def serve(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self.to_port)) as far:
            armed: list[Cut] = []
            back = threading.Thread(target=self._back, args=(near, far, armed), daemon=True)
            back.start()
            while data := near.recv(65536):
                # One exchange at a time runs on a connection, so what is armed here is about the next answer.
                cut = next((each for each in self.cuts if each.meets(data)), None)
                if cut is not None and cut.loses is Lost.REQUEST:
                    cut.happen()
                    break
                if cut is not None:
                    armed.append(cut)
                far.sendall(data)
            _hang_up(far)
            back.join()

    def _back(self, near: socket.socket, far: socket.socket, armed: list[Cut]) -> None:
        with suppress(OSError):
            while data := far.recv(65536):
                if armed:
                    armed[0].happen()
                    break
                near.sendall(data)
        _hang_up(near)


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def wire(to_port: int) -> Iterator[Wire]:
    line = Wire(to_port)
    threading.Thread(target=line.serve, daemon=True).start()
    try:
        yield line
    finally:
        _hang_up(line.listener)
        line.listener.close()
