"""The commits of a pack, in constant memory: every other object is inflated piece by piece and dropped.

A commit that is a delta of another commit of the pack is resolved; one whose base is elsewhere is not seen, so that its
push counts as forced. Each commit is identified by its own hash, so that a pack cannot say that one is another.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

MOST_COMMITS: Final = 20_000
MOST_COMMIT: Final = 1 << 20
MOST_TEXT: Final = 16 << 20
"""Most bytes of the texts that are kept as bases of deltas."""
MOST_INFLATED: Final = 16 << 30
_COMMIT, _TREE, _BLOB, _TAG, _OFS_DELTA, _REF_DELTA = 1, 2, 3, 4, 6, 7
_PIECE: Final = 1 << 16


class PackStream(Protocol):
    """Bytes that are read once."""

    def read(self, count: int, /) -> bytes:
        """The next bytes, at least one before the end."""
        ...


class UnreadablePack(Exception):
    """The pack is broken, or larger than the limit."""


@dataclass(frozen=True)
class PackedCommit:
    """A commit with its parents and the first line of its message."""

    parents: tuple[str, ...]
    subject: str


def read_commits(file: PackStream, *, long_hash: bool) -> dict[str, PackedCommit]:
    """The commits of the pack that begins here, by their hashes. Raises `UnreadablePack`."""
    pack = _Pack(file, hashed_bytes=32 if long_hash else 20)
    found: dict[str, PackedCommit] = {}
    for _ in range(pack.objects):
        text = pack.next_commit()
        if text is not None and len(found) < MOST_COMMITS:
            data = b"commit %d\0" % len(text) + text
            name = hashlib.sha256(data).hexdigest() if long_hash else hashlib.sha1(data).hexdigest()
            found[name] = _read_commit(text)
    return found


def is_forward(commits: Mapping[str, PackedCommit], old: str, new: str) -> bool:
    """True if the pack's own commits prove that the new commit descends from the old one; False proves nothing."""
    todo, passed = [new], set[str]()
    while todo:
        name = todo.pop()
        if name == old:
            return True
        if name not in passed and name in commits:
            passed.add(name)
            todo += commits[name].parents
    return False


def boundary(commits: Mapping[str, PackedCommit], new: str) -> set[str]:
    """The commits at which the pack's own end, which the host must have already."""
    todo, passed, outside = [new], set[str](), set[str]()
    while todo:
        name = todo.pop()
        if name not in commits:
            outside.add(name)
        elif name not in passed:
            passed.add(name)
            todo += commits[name].parents
    return outside


def _read_commit(text: bytes) -> PackedCommit:
    head, _, message = text.partition(b"\n\n")
    parents = tuple(line[7:].decode("ascii", "replace") for line in head.split(b"\n") if line.startswith(b"parent "))
    subject = message.lstrip(b"\n").partition(b"\n")[0].decode("utf-8", "replace")
    return PackedCommit(parents, subject[:200])


class _Pack:
    """The objects of a pack, one after the other."""

    def __init__(self, file: PackStream, *, hashed_bytes: int) -> None:
        self._file = file
        self._hashed_bytes = hashed_bytes
        self._rest = b""
        self._came = 0
        self._inflated = 0
        self._texts: dict[int, bytes] = {}
        self._kept_text = 0
        head = self._take(12)
        if head[:4] != b"PACK":
            raise UnreadablePack("it is no pack")
        self.objects = int.from_bytes(head[8:12], "big")

    def next_commit(self) -> bytes | None:
        """The text of the next object, if it is a commit."""
        at = self._came - len(self._rest)
        part = self._take(1)[0]
        kind, size, shift = (part >> 4) & 7, part & 15, 4
        while part & 128:
            part = self._take(1)[0]
            size |= (part & 127) << shift
            shift += 7
            if shift > 60:
                raise UnreadablePack("an object is too large")
        base = None
        if kind == _OFS_DELTA:
            base = self._texts.get(at - self._take_offset())
        elif kind == _REF_DELTA:
            self._take(self._hashed_bytes)
        elif kind not in (_COMMIT, _TREE, _BLOB, _TAG):
            raise UnreadablePack("an object is of an unknown kind")
        text = self._inflate(size, keep=(kind == _COMMIT or base is not None) and size <= MOST_COMMIT)
        if text is not None and base is not None:
            text = _apply_delta(base, text)
        if text is not None and self._kept_text + len(text) <= MOST_TEXT:
            self._kept_text += len(text)
            self._texts[at] = text
        return text

    def _take_offset(self) -> int:
        part = self._take(1)[0]
        offset = part & 127
        while part & 128:
            part = self._take(1)[0]
            offset = ((offset + 1) << 7) | (part & 127)
            if offset > 1 << 60:
                raise UnreadablePack("a delta's base is too far away")
        return offset

    def _inflate(self, size: int, *, keep: bool) -> bytes | None:
        stream, kept, length = zlib.decompressobj(), bytearray(), 0
        try:
            while not stream.eof:
                piece = stream.decompress(self._some(), _PIECE)
                self._rest = stream.unconsumed_tail or stream.unused_data
                length += len(piece)
                if keep:
                    kept += piece
                if length > size:
                    raise UnreadablePack("an object is longer than it says")
        except zlib.error as fault:
            raise UnreadablePack("an object cannot be inflated") from fault
        self._inflated += length
        if length != size:
            raise UnreadablePack("an object is shorter than it says")
        if self._inflated > MOST_INFLATED:
            raise UnreadablePack(f"it inflates to more than {MOST_INFLATED} bytes")
        return bytes(kept) if keep else None

    def _some(self) -> bytes:
        some = self._rest or self._read()
        if not some:
            raise UnreadablePack("it ends early")
        return some

    def _take(self, count: int) -> bytes:
        while len(self._rest) < count:
            more = self._read()
            if not more:
                raise UnreadablePack("it ends early")
            self._rest += more
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def _read(self) -> bytes:
        piece = self._file.read(_PIECE)
        self._came += len(piece)
        return piece


def _apply_delta(base: bytes, delta: bytes) -> bytes:
    """The object that a delta makes of its base (gitformat-pack, "Deltified representation")."""
    try:
        _, at = _read_size(delta, 0)
        size, at = _read_size(delta, at)
        made = bytearray()
        while at < len(delta):
            order = delta[at]
            at += 1
            if order & 128:
                offset, at = _read_number(delta, at, order & 15)
                length, at = _read_number(delta, at, order >> 4 & 7)
                made += base[offset : offset + (length or 0x10000)]
            elif order:
                made += delta[at : at + order]
                at += order
            if not order or len(made) > min(size, MOST_COMMIT):
                raise UnreadablePack("a delta is broken")
    except IndexError:
        raise UnreadablePack("a delta is broken") from None
    if len(made) != size:
        raise UnreadablePack("a delta is broken")
    return bytes(made)


def _read_size(delta: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        part = delta[at]
        at += 1
        size |= (part & 127) << shift
        shift += 7
        if not part & 128:
            return size, at


def _read_number(delta: bytes, at: int, present: int) -> tuple[int, int]:
    """A number of which only the bytes are there that the bits of `present` name, the lowest first."""
    number = 0
    for place in range(present.bit_length()):
        if present & (1 << place):
            number |= delta[at] << (8 * place)
            at += 1
    return number, at
