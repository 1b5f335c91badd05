"""A network between us and a peer that fails as networks do: a real TCP proxy on the loopback address.

Every connection goes through one `Net`, which spoils what comes back from the peer according to its `fault`. Bytes are
counted over all connections of a reading, so that a cut can be put at any point of the conversation.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from tests.peers.support.errand import Errand

_ADDRESS = re.compile(r'127\.0\.0\.1:(\d+)|"port": (\d+)|port=(\d+)')
_DATE = re.compile(rb"(?im)^date: [^\r\n]*")
LONG_AGO = b"Date: Sun, 01 Mar 2020 09:00:00 GMT"


@dataclass(frozen=True)
class Fault:
    """How the answers of the peer are spoilt.

    `after` is how many bytes of answers still come through (None: all of them), `then` what happens next: "cut"
    (the connection is reset), "end" (closed, as if all had been said) or "silence". `says` is said instead of asking
    the peer at all. `late_s` holds every piece of an answer back.
    """

    after: int | None = None
    then: str = "cut"
    says: bytes | None = None
    late_s: float = 0.0
    refuses: bool = False


@dataclass
class Net:
    """The listeners in front of a system's addresses, with one fault for all of them."""

    fault: Fault = field(default_factory=Fault)
    passed: int = 0
    heard: dict[int, list[bytes]] = field(default_factory=dict)
    asked: list[bytes] = field(default_factory=list)
    plays_back: dict[int, list[bytes]] | None = None
    ways: dict[int, Way] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Net:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.over.set()
        for way in self.ways.values():
            way.close()

    def through(self, errand: Errand) -> Errand:
        """The same errand with every address of its system led through here."""
        given = json.dumps({"settings": dict(errand.settings), "credential": dict(errand.credential)})
        led = json.loads(_ADDRESS.sub(self._led, given))
        return replace(errand, settings=led["settings"], credential=led["credential"])

    def _led(self, found: re.Match[str]) -> str:
        port = next(one for one in found.groups() if one)
        if int(port) not in self.ways:
            self.ways[int(port)] = Way(self, int(port))
        return found.group().replace(port, str(self.ways[int(port)].port))

    def spoil(self, fault: Fault) -> None:
        """From the next byte on; counts start again, and old connections are gone."""
        with self.lock:
            self.fault, self.passed = fault, 0
        for way in self.ways.values():
            way.renew(listens=not fault.refuses)

    def record(self) -> None:
        """Keep what the peer says from now on, by address and connection."""
        self.heard = {port: [] for port in self.ways}

    def play_back(self) -> None:
        """Say what was recorded, whatever is asked; an HTTP answer says that it is from long ago, as it then would."""
        self.plays_back = {port: [_DATE.sub(LONG_AGO, one) for one in self.heard.get(port, [])] for port in self.ways}

    def mend(self) -> None:
        self.plays_back = None
        self.spoil(Fault())

    def allowed(self, count: int) -> int:
        """How many of so many bytes may pass."""
        with self.lock:
            left = count if self.fault.after is None else max(0, self.fault.after - self.passed)
            self.passed += min(count, left)
        return min(count, left)


class Way:
    """One listener in front of one port of the peer."""

    def __init__(self, net: Net, target: int) -> None:
        self.net, self.target = net, target
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        self.open: list[socket.socket] = []
        self._listen()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self.socket,), daemon=True).start()

    def renew(self, *, listens: bool) -> None:
        """Drop every connection; a way that does not listen refuses new ones."""
        self.close()
        if listens:
            self.socket = socket.create_server(("127.0.0.1", self.port))
            self._listen()

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for one in self.open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            self.open.append(near)
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        net = self.net
        with suppress(OSError), near:
            if net.plays_back is not None:
                taped = net.plays_back.get(self.target) or [b""]
                self._say(near, taped.pop(0) if len(taped) > 1 else taped[0])
            elif net.fault.says is not None:
                near.recv(65536)
                self._say(near, net.fault.says)
            else:
                self._carry(near)

    def _say(self, near: socket.socket, words: bytes) -> None:
        near.sendall(words)
        # Whoever asks further hears nothing new.
        near.settimeout(0.5)
        with suppress(TimeoutError):
            while near.recv(65536):
                pass

    def _carry(self, near: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self.target)) as far:
            self.open.append(far)
            asking = threading.Thread(target=self._ask, args=(near, far), daemon=True)
            asking.start()
            tape: list[bytes] = []
            try:
                while piece := far.recv(65536):
                    tape.append(piece)
                    if not self._answer(near, piece):
                        return
            finally:
                if self.target in self.net.heard:
                    self.net.heard[self.target].append(b"".join(tape))
                # A socket that somebody still reads from is not closed by closing it.
                with suppress(OSError):
                    near.shutdown(socket.SHUT_RD)
                asking.join(5)

    def _ask(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while piece := near.recv(65536):
                self.net.asked.append(piece)
                far.sendall(piece)
        with suppress(OSError):
            far.shutdown(socket.SHUT_WR)

    def _answer(self, near: socket.socket, piece: bytes) -> bool:
        """Pass a piece of an answer on as far as the fault lets it; whether more may follow."""
        fault = self.net.fault
        if fault.late_s:
            self.net.over.wait(fault.late_s)
        passing = self.net.allowed(len(piece))
        near.sendall(piece[:passing])
        if passing == len(piece):
            return True
        if fault.then == "silence":
            self.net.over.wait(60)
        elif fault.then == "cut":
            # Reset instead of closed: what was not read yet is lost.
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False


def http(status: str, content: bytes, kind: str = "text/html") -> bytes:
    """An HTTP answer of something between us and the peer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    return head.encode() + content


PAGE = b"<!doctype html><html><head><title>Sign in</title></head><body><form>Sign in</form></body></html>"
SAYS: dict[str, bytes] = {
    "an overload": http("500 Internal Server Error", PAGE),
    "a gateway without a peer": http("502 Bad Gateway", PAGE),
    "a sign-in page": http("200 OK", PAGE),
    "a gateway's 404": http("404 Not Found", PAGE),
    "a redirect": http("302 Found\r\nLocation: http://127.0.0.2/", b""),
    "an empty object": http("200 OK", b"{}", "application/json"),
    "an empty list": http("200 OK", b"[]", "application/json"),
    "nothing": http("200 OK", b""),
    "null": http("200 OK", b"null", "application/json"),
    "garbage": bytes(range(256)) * 8,
    "lines of garbage": b"* \xff\xfe garbage\r\n" * 50,
    "a number too many": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
}


def timed(call: Any) -> tuple[Any, float]:
    """What a call returns, and how long it took."""
    began = time.monotonic()
    return call(), time.monotonic() - began
