"""The lines of a push (gitprotocol-pack, "Pushing Data To a Server"), read as they arrive.

1. No more than the part before the pack is kept, and that has limits: `MOST_BYTES`, `MOST_REFS`.
2. What is not known is refused: a capability, a line of another form, a pack of another version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

MOST_BYTES: Final = 1 << 20
MOST_REFS: Final = 100
_OBJECT: Final = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_LENGTH: Final = re.compile(rb"[0-9a-f]{4}")
_CAPABILITIES: Final = frozenset(
    {
        *("report-status", "report-status-v2", "side-band-64k", "delete-refs", "quiet", "atomic", "ofs-delta"),
        *("push-options", "agent", "object-format", "session-id"),
    }
)


class NoPush(Exception):
    """The bytes are not a push that can be read; the message says why."""


@dataclass(frozen=True)
class Update:
    """One ref that moves from an object to another; zeros represent no object."""

    ref: str
    old: str
    new: str

    @property
    def creates(self) -> bool:
        return set(self.old) == {"0"}

    @property
    def deletes(self) -> bool:
        return set(self.new) == {"0"}


@dataclass(frozen=True)
class Push:
    """A push as read from its lines; `pack_at` is the offset of its pack, None if it has none."""

    updates: tuple[Update, ...] = ()
    capabilities: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    shallow: tuple[str, ...] = ()
    signed_by: str = ""
    pack_at: int | None = None
    objects: int = 0

    @property
    def sideband(self) -> bool:
        return "side-band-64k" in self.capabilities


def read_push(file: BinaryIO) -> Push | None:
    """Read the push in a body; None for the flush with which git probes a connection. Raises `NoPush`."""
    lines, commands = _Lines(file), _Commands()
    for line in lines.until_flush():
        commands.add(line)
    if not commands.updates:
        if lines.position != 4:
            raise NoPush("it names no ref")
        return None
    has_options = "push-options" in commands.capabilities
    options = tuple(_text(each.rstrip(b"\n")) for each in lines.until_flush()) if has_options else ()
    push = Push(tuple(commands.updates), commands.capabilities, options, tuple(commands.shallow), commands.signed_by)
    return _with_pack(file, lines.position, push)


class _Commands:
    """The lines before the pack, added one by one; the updates of a signed push are in its certificate."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.capabilities: dict[str, str] = {}
        self.shallow: list[str] = []
        self.signed_by = ""
        self._in_certificate = False
        self._count = 0

    def add(self, line: bytes) -> None:
        text, nul, rest = line.partition(b"\0")
        if nul and self._count:
            raise NoPush("its capabilities stand in another place than its first line")
        if nul:
            self.capabilities = _read_capabilities(rest)
        self._count += 1
        text = text.rstrip(b"\n")
        if text == b"push-cert" and self._count == 1:
            self._in_certificate = True
        elif self._in_certificate:
            self._add_signed(text)
        elif text.startswith(b"shallow "):
            self.shallow.append(_text(text[8:]))
        elif (update := _read_update(text)) is not None:
            self._add_update(update)
        else:
            raise NoPush("it has a line that is no update of a ref")

    def _add_signed(self, text: bytes) -> None:
        if text == b"push-cert-end":
            self._in_certificate = False
        elif text.startswith(b"pusher "):
            self.signed_by = _text(text[7:])
        elif (update := _read_update(text)) is not None:
            self._add_update(update)

    def _add_update(self, update: Update) -> None:
        if any(each.ref == update.ref for each in self.updates):
            raise NoPush("it names a ref twice")
        if len(self.updates) >= MOST_REFS:
            raise NoPush("it names too many refs")
        self.updates.append(update)


def _with_pack(file: BinaryIO, position: int, push: Push) -> Push:
    if not {"report-status", "report-status-v2"} & push.capabilities.keys():
        raise NoPush("its client wants no report, so that nothing could be refused in words")
    start = file.read(12)
    if not start:
        if not all(each.deletes for each in push.updates):
            raise NoPush("it has no pack, although something is to be written")
        return push
    if len(start) < 12 or start[:4] != b"PACK" or int.from_bytes(start[4:8], "big") not in (2, 3):
        raise NoPush("no pack follows its lines")
    objects = int.from_bytes(start[8:12], "big")
    return Push(
        push.updates, push.capabilities, push.options, push.shallow, push.signed_by, pack_at=position, objects=objects
    )


class _Lines:
    """The pkt-lines of a file, with their limit (rule 1)."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.position = 0

    def until_flush(self) -> Iterator[bytes]:
        while True:
            head = self._file.read(4)
            if not _LENGTH.fullmatch(head):
                raise NoPush("it ends early" if len(head) < 4 else "it has a broken pkt-line")
            length = int(head, 16)
            self.position += max(length, 4)
            if length == 0:
                return
            if length < 4 or self.position > MOST_BYTES:
                raise NoPush("it has a broken pkt-line" if length < 4 else "it has too much before its pack")
            line = self._file.read(length - 4)
            if len(line) != length - 4:
                raise NoPush("it ends early")
            yield line


def _read_capabilities(rest: bytes) -> dict[str, str]:
    found = {}
    for word in _text(rest).split():
        name, _, value = word.partition("=")
        if name not in _CAPABILITIES:
            raise NoPush(f"it asks for {name[:40]}, which this gateway does not know")
        found[name] = value
    return found


def _read_update(text: bytes) -> Update | None:
    old, _, rest = text.partition(b" ")
    new, _, ref = rest.partition(b" ")
    if not (_OBJECT.fullmatch(old) and _OBJECT.fullmatch(new) and ref and len(old) == len(new)):
        return None
    return Update(_text(ref), old.decode(), new.decode())


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise NoPush("it has text that is not UTF-8") from None


# Words to a client, and the host's report.


def pkt_line(data: bytes) -> bytes:
    """A pkt-line."""
    return f"{len(data) + 4:04x}".encode() + data


def progress_line(text: str) -> bytes:
    """Return a line that git prints as `remote: …`; without text a keep-alive, of which it prints nothing."""
    return pkt_line(b"\x02" + text.encode()[:900] + b"\n") if text else b"0005\x01"


def refusal_report(refs: Sequence[str], reason: str, *, sideband: bool) -> bytes:
    """A report in which no ref was updated."""
    plain = " ".join(reason.split())[:900]
    lines = [pkt_line(b"unpack ok\n"), *(pkt_line(f"ng {ref} {plain}\n".encode()) for ref in refs), b"0000"]
    report = b"".join(lines)
    return pkt_line(b"\x01" + report) + b"0000" if sideband else report


def unread_report(reason: str) -> bytes:
    """A report on a push whose refs could not be read; git prints `remote unpack failed: …`, and exits with 1."""
    report = pkt_line(f"unpack {' '.join(reason.split())[:900]}\n".encode()) + b"0000"
    return pkt_line(b"\x01" + report) + b"0000"


def read_report(answer: bytes, *, sideband: bool) -> dict[str, str]:
    """The host's result for each ref: empty if it was updated, else the reason; `NoPush` if there is no report."""
    data = b"".join(line[1:] for line in _split(answer) if line[:1] == b"\x01") if sideband else answer
    lines = [_text(line.rstrip(b"\n")) for line in _split(data)]
    if not lines or not lines[0].startswith("unpack "):
        raise NoPush("the answer holds no report")
    found = {}
    for line in lines[1:]:
        word, _, rest = line.partition(" ")
        ref, _, reason = rest.partition(" ")
        if word == "ok":
            found[ref] = ""
        elif word == "ng":
            found[ref] = reason or "no reason given"
    return found


def _split(data: bytes) -> Iterator[bytes]:
    """The lines before the first flush; a truncated report is rejected."""
    at = 0
    while True:
        head = data[at : at + 4]
        if not _LENGTH.fullmatch(head):
            raise NoPush("the report is cut off")
        length = int(head, 16)
        if length == 0:
            return
        line = data[at + 4 : at + length]
        if length < 4 or len(line) != length - 4:
            raise NoPush("the report is cut off")
        at += length
        yield line
