"""Sealing of what the gateway keeps on disk, under keys in a file that only the gateway's own user reads.

1. A body is sealed with AES-256-GCM in pieces of 64 KiB, and opened piece by piece. A piece's nonce is its number and a
   mark on the last one (STREAM: Hoang, Reyhanitabar, Rogaway and Vizár 2015), so that a piece that is missing, moved,
   doubled, changed or added is refused.
2. Each file has a key of its own, derived (HKDF-SHA256, RFC 5869) from the gateway's key, 32 random bytes and the
   file's place. A file that was moved to another place cannot be opened.
3. The first key of the key file seals; the others open what was sealed before them. Without its key a file is gone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from counterfoil.gating.files import write_private
from counterfoil.gating.settings import BadSettings, read_secret

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PIECE: Final = 1 << 16
_MAGIC: Final = b"cfheld1\n"
_ID_BYTES: Final = 8
_SALT_BYTES: Final = 32
_HEAD: Final = len(_MAGIC) + _ID_BYTES + _SALT_BYTES
_TAG: Final = 16
_KEY_BYTES: Final = 32


class SealBroken(OSError):
    """The bytes on disk are not those that were sealed there."""


class KeyLost(OSError):
    """The key under which something was sealed is not in the key file."""


class HeldKeys:
    """The keys of a file, one a line in base64; the file is read again when it has changed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._changed: tuple[int, int] | None = None
        self._known: dict[bytes, bytes] = {}

    def create(self) -> None:
        """Put a new key before the others, and keep those (rule 3)."""
        self._write([secrets.token_bytes(_KEY_BYTES), *(self._read().values() if self.file.exists() else ())])

    def forget_others(self, needed: set[bytes]) -> int:
        """Remove all keys but the first two and those whose ids are given; return how many were removed.

        The second stays for whoever read the file just before the first one was made.
        """
        known = self._read()
        kept = [key for place, (name, key) in enumerate(known.items()) if place < 2 or name in needed]
        if len(kept) < len(known):
            self._write(kept)
        return len(known) - len(kept)

    def _write(self, keys: list[bytes]) -> None:
        write_private(self.file, b"".join(base64.b64encode(key) + b"\n" for key in keys))

    def _read(self) -> dict[bytes, bytes]:
        """The keys by their ids, in order. Raises `BadSettings` if the file is missing, unsafe or not one of keys."""
        with suppress(FileNotFoundError):
            about = self.file.stat()
            if self._changed == (about.st_mtime_ns, about.st_ino):
                return self._known
            self._changed = (about.st_mtime_ns, about.st_ino)
        try:
            keys = [base64.b64decode(line, validate=True) for line in read_secret(self.file).split()]
        except (binascii.Error, ValueError):
            keys = []
        if not keys or any(len(key) != _KEY_BYTES for key in keys):
            self._changed = None
            raise BadSettings(f"{self.file} holds no keys of this gateway.")
        self._known = {hashlib.sha256(b"counterfoil held key\0" + key).digest()[:_ID_BYTES]: key for key in keys}
        return self._known

    def check(self) -> None:
        """`BadSettings` unless the keys can be read."""
        self._read()

    def seal(self, data: bytes, *, place: str, beside: bytes) -> bytes:
        """Seal a short text whole; it opens at the same place only, and beside the same bytes."""
        head, cipher = self.new_cipher(place)
        return head + cipher.encrypt(_nonce(0, last=True), data, beside)

    def open(self, sealed: bytes, *, place: str, beside: bytes) -> bytes:
        """Open what `seal` returned. Raises `KeyLost` and `SealBroken`."""
        cipher = self.find_cipher(sealed[:_HEAD], place)
        try:
            return cipher.decrypt(_nonce(0, last=True), sealed[_HEAD:], beside)
        except InvalidTag as fault:
            raise SealBroken(f"{place} was changed") from fault

    def new_cipher(self, place: str) -> tuple[bytes, AESGCM]:
        """The head of a sealed file and the cipher of its own key."""
        name, key = next(iter(self._read().items()))
        salt = secrets.token_bytes(_SALT_BYTES)
        return _MAGIC + name + salt, _derive(key, salt, place)

    def find_cipher(self, head: bytes, place: str) -> AESGCM:
        """The cipher of a sealed file with this head. Raises `KeyLost` and `SealBroken`."""
        if len(head) != _HEAD or not head.startswith(_MAGIC):
            raise SealBroken(f"{place} is not sealed")
        key = self._read().get(key_id(head))
        if key is None:
            raise KeyLost(f"the key of {place} is not in {self.file}")
        return _derive(key, head[-_SALT_BYTES:], place)


def key_id(head: bytes) -> bytes:
    """The id of the key under which something was sealed, from its first bytes."""
    return head[len(_MAGIC) : len(_MAGIC) + _ID_BYTES]


def _derive(key: bytes, salt: bytes, place: str) -> AESGCM:
    derived = HKDF(SHA256(), length=_KEY_BYTES, salt=salt, info=b"counterfoil held\0" + place.encode()).derive(key)
    return AESGCM(derived)


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


@dataclass(frozen=True)
class SealedFile:
    """A file that is sealed on disk; `place` names what it is, wherever it lies."""

    path: Path
    place: str
    keys: HeldKeys

    def write(self) -> SealedWriter:
        """A new file, to be written once from its beginning."""
        return SealedWriter(self)

    def open(self, mode: Literal["rb"] = "rb", /) -> io.BufferedReader:
        """Return the content, to be read and sought in. Raises `KeyLost` and `SealBroken`, here or while it is read."""
        return io.BufferedReader(_SealedContent(self), PIECE)

    def read_bytes(self) -> bytes:
        """Return the whole content. Raises as `open` does."""
        with self.open() as file:
            return file.read()


class SealedWriter:
    """Seals what is written in pieces; `finish` must follow, without it the file cannot be opened."""

    def __init__(self, sealed: SealedFile) -> None:
        head, self._cipher = sealed.keys.new_cipher(sealed.place)
        self._file = sealed.path.open("xb")
        self._file.write(head)
        self._rest = bytearray()
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Seal and write each piece that is full; the last one is kept back, since it is marked."""
        self._rest += data
        while len(self._rest) > PIECE:
            self._seal(bytes(self._rest[:PIECE]), last=False)
            del self._rest[:PIECE]

    def finish(self) -> int:
        """Write the last piece; return the descriptor, for `fsync`."""
        self._seal(bytes(self._rest), last=True)
        self._file.flush()
        return self._file.fileno()

    def _seal(self, piece: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last=last), piece, None))
        self._number += 1


class _SealedContent(io.RawIOBase):
    """The content of a sealed file."""

    def __init__(self, sealed: SealedFile) -> None:
        self._place = sealed.place
        self._file = sealed.path.open("rb")
        try:
            self._cipher = sealed.keys.find_cipher(self._file.read(_HEAD), sealed.place)
        except BaseException:
            self._file.close()
            raise
        length = os.fstat(self._file.fileno()).st_size - _HEAD
        full, rest = divmod(length, PIECE + _TAG)
        self._pieces = full + (rest > 0)
        self._size = length - self._pieces * _TAG
        self._at = 0
        # Only a content of no bytes ends with a piece of none; else the end would be believed without its mark.
        if length < _TAG or (full and 0 < rest <= _TAG):
            self._file.close()
            raise SealBroken(f"{sealed.place} was changed")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        number, start = divmod(self._at, PIECE)
        if self._at >= self._size > 0:
            return 0
        piece = self._open(number)
        view = memoryview(buffer)
        found = piece[start : start + len(view)]
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def _open(self, number: int) -> bytes:
        self._file.seek(_HEAD + number * (PIECE + _TAG))
        try:
            return self._cipher.decrypt(
                _nonce(number, last=number == self._pieces - 1), self._file.read(PIECE + _TAG), None
            )
        except (InvalidTag, ValueError) as fault:
            raise SealBroken(f"{self._place} was changed") from fault

    def close(self) -> None:
        self._file.close()
        super().close()
