"""The newest signed checkpoints that an executor has seen, so that it detects a console with an older record.

A console whose database was restored, or whose standby was promoted before it had everything, forgets which orders
were carried out and offers them again. It cannot hide that: each of its answers carries the newest signed checkpoint
of the tenant's log (`Counterfoil-Checkpoint`: origin, size and root), and an older console has a smaller one.

1. The latest checkpoint of each log is kept, in a file if there is one: replaced as a whole and synced, never lowered,
   shared by the processes that name the same file.
2. A file that cannot be read or written stops the executor. It is never begun anew by itself: that would forget what
   it is for.
3. Answers may overtake each other, so an older checkpoint is only a doubt. It is settled by asking the console how its
   record stands, before anything runs: a record that is smaller then, or of the same size with another root, is behind.
4. The logs of a tenant share the beginning of their origin; one that was opened after a restore has a number behind it.
   A later log is what an operator opened, so it replaces what was seen of an earlier one.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar

from counterfoil.execution.grants import GrantRefused

log = logging.getLogger("counterfoil.executor")

HEADER = "Counterfoil-Checkpoint"
LONGEST = 8192


class RecordBehind(GrantRefused):
    """The console's record is older than this executor has seen it, so nothing starts.

    A program that ends because of it exits with `exit_code` (EX_TEMPFAIL: it may start again once an operator has
    declared the restore).
    """

    exit_code: ClassVar[int] = 75

    def __init__(self, detail: str) -> None:
        super().__init__("RECORD_BEHIND", detail)


class SeenFileUnusable(RecordBehind):
    """The file of seen checkpoints cannot be used, so nobody can tell whether the console has gone back."""


@dataclass(frozen=True)
class SeenCheckpoint:
    """A signed checkpoint that was seen; `base` and `number` are the parts of its origin."""

    base: str
    number: int
    size: int
    root: str
    note: str

    def is_behind(self, other: SeenCheckpoint) -> bool:
        """Return whether a record with this head is older than one with the other, or another
        history of the same size.
        """
        if self.number != other.number:
            return self.number < other.number
        return self.size < other.size or (self.size == other.size and self.root != other.root)


def read_checkpoint(note: str) -> SeenCheckpoint:
    """Parse a signed checkpoint (C2SP tlog-checkpoint); `ValueError` if it is malformed. The signature is not
    verified.
    """
    text, separator, signatures = note.partition("\n\n")
    lines = text.split("\n")
    if not separator or not signatures or len(note) > LONGEST or len(lines) < 3:
        raise ValueError("this is not a signed checkpoint")
    origin, size, root = lines[:3]
    if not origin or not (size.isascii() and size.isdecimal()) or len(base64.b64decode(root, validate=True)) != 32:
        raise ValueError("this is not a checkpoint")
    head, _, tail = origin.rpartition("/")
    is_later_log = head and tail.isascii() and tail.isdecimal() and tail[0] not in "0" and tail != "1"
    base, number = (head, int(tail)) if is_later_log else (origin, 1)
    return SeenCheckpoint(base, number, int(size), root, note)


class SeenCheckpoints:
    """The latest checkpoint of each log, in `file` if there is one; raise `SeenFileUnusable` if that cannot be read."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = RLock()
        self._kept = self._load() if file is not None else {}
        self._base = next(iter(self._kept)) if len(self._kept) == 1 else None
        self._doubt: SeenCheckpoint | None = None
        self._fault: SeenFileUnusable | None = None

    def check_usable(self) -> None:
        """Raise `SeenFileUnusable` where the last checkpoint could not be written down."""
        with self._lock:
            if self._fault is not None:
                self._store()
                self._fault = None

    @property
    def header(self) -> dict[str, str]:
        """The header with the latest checkpoint of the tenant; empty before anything was seen."""
        with self._lock:
            kept = self._kept.get(self._base or "")
            return {HEADER: base64.b64encode(kept.note.encode()).decode()} if kept else {}

    @property
    def doubt(self) -> str | None:
        """The reason why the console's last answer seems older than what was seen before; None if it does not."""
        with self._lock:
            now = self._doubt
            kept = self._kept.get(now.base) if now else None
            if now is None or kept is None or not now.is_behind(kept):
                return None
            return (
                f"This executor has seen {kept.base} with {kept.size} entries (log {kept.number}), and the console now"
                f" has {now.size} (log {now.number}): its record has gone back, and orders that were carried out may be"
                " offered again. Nothing starts until an operator has declared the restore (`manage.py log restored`)."
            )

    def see(self, headers: Mapping[str, str]) -> None:
        """Note the checkpoint of an answer: keep it if it is the latest, otherwise doubt the console."""
        sent = headers.get(HEADER)
        if not sent:
            return
        try:
            found = read_checkpoint(base64.b64decode(sent, validate=True).decode())
        except (binascii.Error, ValueError):
            log.warning("an answer's %s cannot be read", HEADER)
            return
        self._keep(found)

    def include(self, other: SeenCheckpoints) -> None:
        """Include the checkpoints that another connection to the same console has seen."""
        with self._lock:
            for base, each in list(other._kept.items()):
                mine = self._kept.get(base)
                if mine is None or not each.is_behind(mine):
                    self._keep(each)
            if other._doubt is not None:
                self._keep(other._doubt)

    def _keep(self, found: SeenCheckpoint) -> None:
        with self._lock:
            self._base = found.base
            kept = self._kept.get(found.base)
            if kept is not None and found.is_behind(kept):
                self._doubt = found
                return
            self._doubt = None
            if kept is None or kept.is_behind(found):
                self._kept[found.base] = found
                try:
                    self._store()
                except SeenFileUnusable as fault:
                    # What was answered still counts; the next start finds out.
                    self._fault = fault

    def _load(self) -> dict[str, SeenCheckpoint]:
        assert self._file is not None
        try:
            stored: Any = json.loads(self._file.read_bytes())
            kept = {base: read_checkpoint(note) for base, note in stored.items()}
            if any(each.base != base for base, each in kept.items()):
                raise ValueError("a checkpoint stands under another origin")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError) as fault:
            raise SeenFileUnusable(
                f"{self._file} cannot be read ({fault}). It holds what this executor has seen of the console's record,"
                " and without it nobody notices a console that has gone back. Put it back; or, if you know that the"
                " console has not gone back, remove it and start again."
            ) from fault
        return kept

    def _store(self) -> None:
        if self._file is None:
            return
        try:
            with self._file_lock():
                for base, stored in self._load().items():
                    mine = self._kept.get(base)
                    if mine is None or mine.is_behind(stored):
                        self._kept[base] = stored
                data = json.dumps({base: each.note for base, each in self._kept.items()}, indent=1).encode()
                draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
                with draft.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(self._file)
        except OSError as fault:
            raise SeenFileUnusable(
                f"{self._file} cannot be written ({fault}). It holds what this executor has seen of the console's"
                " record; name a file that can be written (`seen_file`)."
            ) from fault

    @contextmanager
    def _file_lock(self) -> Iterator[None]:
        assert self._file is not None
        with self._file.with_name(f"{self._file.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
