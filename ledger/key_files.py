"""Key files: one key a line, the first in use; all others are read, so that a change of keys closes nothing.

A line is a key, and behind it `next` for one that was introduced and is not used yet, or the time since when it has
been in use. A file that has never been changed is a single key. Every process reads the file again when it changes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

_WAITING: Final = "next"


class BadKeyFile(ValueError):
    """The file holds no key, or a line of it is neither a key nor a key with its time."""


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One key of a file: `is_next` waits for its use, `since` is when it came into use; the first ever has neither."""

    text: str
    is_next: bool = False
    since: datetime | None = None

    @property
    def name(self) -> str:
        """A name for the key that tells nothing of it."""
        return sha256(b"counterfoil key name\x00" + self.text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        word = _WAITING if self.is_next else self.since.isoformat() if self.since is not None else ""
        return f"{self.text} {word}".strip()


def read_lines(file: Path) -> tuple[KeyLine, ...]:
    """The keys of a file, the one in use first."""
    seen = file.stat()
    return _parse_file(file, seen.st_mtime_ns, seen.st_ino, seen.st_size)


def read_hex_keys(file: Path) -> tuple[bytes, ...]:
    """The keys of a file of hexadecimal keys, the one in use first."""
    return tuple(bytes.fromhex(each.text) for each in read_lines(file))


def waiting_key(lines: Sequence[KeyLine]) -> KeyLine | None:
    """The key that was introduced and is not used yet, or None."""
    return next((each for each in lines if each.is_next), None)


def former_keys(lines: Sequence[KeyLine]) -> list[KeyLine]:
    """The keys that were in use before the first one."""
    return [each for each in lines[1:] if not each.is_next]


def introduce(lines: Sequence[KeyLine], text: str) -> list[KeyLine]:
    """The lines with a new key, which is read and not used yet."""
    return [*lines, KeyLine(text, is_next=True)]


def use_waiting_key(lines: Sequence[KeyLine], *, at: datetime) -> list[KeyLine]:
    """The lines with the waiting key in use; those before it are read."""
    waiting = [each for each in lines if each.is_next]
    return [*(KeyLine(each.text, since=at) for each in waiting), *(each for each in lines if not each.is_next)]


def write_lines(file: Path, lines: Sequence[KeyLine]) -> None:
    """Replace a key file, completely or not at all."""
    write_private(file, "\n".join(map(str, lines)) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, completely or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@lru_cache(maxsize=16)
def _parse_file(file: Path, _changed: int, _inode: int, _size: int) -> tuple[KeyLine, ...]:
    lines = tuple(_parse_line(file, line) for line in file.read_text().splitlines() if line.strip())
    if not lines or lines[0].is_next:
        raise BadKeyFile(f"{file} has no key in use in its first line.")
    return lines


def _parse_line(file: Path, line: str) -> KeyLine:
    text, *rest = line.split()
    try:
        since = datetime.fromisoformat(rest[0]) if rest and rest[0] != _WAITING else None
    except ValueError:
        raise BadKeyFile(f"A line of {file} is no key, or no key with its time.") from None
    if len(rest) > 1 or (since is not None and since.tzinfo is None):
        raise BadKeyFile(f"A line of {file} is no key, or no key with its time.")
    return KeyLine(text, is_next=rest == [_WAITING], since=since)
