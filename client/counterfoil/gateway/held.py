"""Held requests on disk: one folder each, with a state that is true after a crash.

    held/ID/state.json    replaced whole: written, synced, renamed, and the folder synced
    held/ID/body          the bytes that are sent, and no others
    held/ID/answer        the host's answer

| state | written when | after a crash and a restart |
|---|---|---|
| (incoming) | the body arrives | removed; nothing was proposed |
| `received` | body and digest are on disk | proposed under the same call id by the next same request |
| `proposed` | the console gave an action id | goes on; the next same request finds it |
| `granted` | a claim's key is written, before the claim | the claim is repeated under its key; nothing was sent |
| `forwarding` | before the first byte leaves | becomes `unknown`: it is not sent again |
| `answered` | the host's answer is on disk | its report is sent again; the request is not |
| `reported` | the console has the report | kept for a day, then removed: the record is the console's |
| `unknown` | no answer came | stays until the console has settled it; the same request is not sent meanwhile |
| `settled` | the console has settled what was unknown | kept for a day, then removed |
| `refused` | the gate or people said no, or it ran out | kept for a day, then removed |

One process writes: it holds a lock on the folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

_KEPT_S: Final = 86_400.0


class HeldState(StrEnum):
    """The states of a held request."""

    RECEIVED = "received"
    PROPOSED = "proposed"
    GRANTED = "granted"
    FORWARDING = "forwarding"
    ANSWERED = "answered"
    REPORTED = "reported"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    SETTLED = "settled"


OPEN: Final = frozenset({HeldState.RECEIVED, HeldState.PROPOSED, HeldState.GRANTED, HeldState.FORWARDING})
"""States without an end; `unknown` blocks the same request, too."""
ENDED: Final = frozenset({HeldState.ANSWERED, HeldState.REPORTED, HeldState.REFUSED, HeldState.SETTLED})


class StateTaken(Exception):
    """Another gateway writes into this folder."""


class NoRoom(Exception):
    """A limit is reached; the message names it."""


@dataclass(frozen=True)
class HeldRequest:
    """One held request; `why` is the text for its client, `result` the report to the console."""

    id: str
    key: str
    state: HeldState
    agent: str
    host: str
    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    sha256: str
    size: int
    tool: str
    arguments: Mapping[str, Any]
    shape: Mapping[str, Any]
    at: float
    changed_at: float = 0.0
    acknowledges: tuple[str, ...] = ()
    action_id: str = ""
    approval: Mapping[str, Any] = field(default_factory=dict)
    claim_key: str = ""
    attempt: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    answer_status: int = 0
    answer_type: str = ""
    why: str = ""
    failed: tuple[str, ...] = ()
    """Actions that ended badly, which the next same request acknowledges."""


class HeldRequests:
    """The held requests of one gateway, in memory as they are on disk."""

    def __init__(self, root: Path, *, most: int, most_bytes: int, least_free: int) -> None:
        self._root = root
        self._most, self._most_bytes, self._least_free = most, most_bytes, least_free
        for name in ("incoming", "held"):
            (root / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = (root / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise StateTaken(f"Another gateway uses {root}.") from None
        for rest in (root / "incoming").iterdir():
            rest.unlink()
        self._known = {each.id: each for each in read_held(root)}
        for each in list(self._known.values()):
            if each.state is HeldState.FORWARDING:
                self.write(each, HeldState.UNKNOWN, why="the gateway ended before an answer came")
        for folder in (root / "held").iterdir():
            # A folder whose state was never written: nothing was proposed, and its client saw the connection break.
            if folder.name not in self._known:
                shutil.rmtree(folder)

    def close(self) -> None:
        """Release the folder."""
        self._lock.close()

    def all(self) -> list[HeldRequest]:
        """Every held request, the oldest first."""
        return sorted(self._known.values(), key=lambda each: each.at)

    def get(self, request_id: str) -> HeldRequest:
        """Return the present state of a held request."""
        return self._known[request_id]

    def of_action(self, action_id: str) -> HeldRequest | None:
        """The held request of an action."""
        return next((each for each in self._known.values() if each.action_id == action_id), None)

    def find(self, key: str) -> HeldRequest | None:
        """The open request with this key; a request that was answered is over, and the same one later is another."""
        blocks = OPEN | {HeldState.UNKNOWN}
        return next((each for each in self._known.values() if each.key == key and each.state in blocks), None)

    def failed_before(self, key: str) -> tuple[str, ...]:
        """The actions that the last refusal of this key named, to be acknowledged by sending it again."""
        refused = [each for each in self.all() if each.key == key and each.state is HeldState.REFUSED]
        return refused[-1].failed if refused else ()

    def check_room(self, agent: str) -> None:
        """`NoRoom` where another request cannot be kept."""
        open_now = [each for each in self._known.values() if each.state in OPEN | {HeldState.UNKNOWN}]
        if sum(each.agent == agent for each in open_now) >= self._most:
            raise NoRoom(f"this agent has {self._most} open requests, the most that are held")
        if sum(each.size for each in open_now) >= self._most_bytes:
            raise NoRoom(f"{self._most_bytes} bytes are held, the most that this gateway keeps")
        if shutil.disk_usage(self._root).free < self._least_free:
            raise NoRoom("the gateway's disk is nearly full")

    def incoming(self, name: str) -> Path:
        """A new file for a body that arrives."""
        return self._root / "incoming" / name

    def body(self, request_id: str) -> Path:
        """The stored bytes of a request."""
        return self._root / "held" / request_id / "body"

    def answer(self, request_id: str) -> Path:
        """The host's answer to a request."""
        return self._root / "held" / request_id / "answer"

    def add(self, held: HeldRequest, incoming: Path) -> HeldRequest:
        """Keep a request whose body is on disk, synced."""
        folder = self.body(held.id).parent
        folder.mkdir(mode=0o700)
        incoming.replace(folder / "body")
        _sync_folder(folder.parent)
        return self.write(held, HeldState.RECEIVED)

    def write(self, held: HeldRequest, state: HeldState, **changes: Any) -> HeldRequest:
        """Set the state of a request; it is on disk when this returns."""
        changed = replace(held, state=state, changed_at=time.time(), **changes)
        folder = self.body(held.id).parent
        fresh = folder / "state.new"
        with fresh.open("w") as file:
            json.dump(asdict(changed), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / "state.json")
        _sync_folder(folder)
        self._known[held.id] = changed
        if state in ENDED:
            self.body(held.id).unlink(missing_ok=True)
        return changed

    def keep_answer(self, request_id: str, body: bytes) -> None:
        """Put the host's answer on disk."""
        with self.answer(request_id).open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())

    def sweep(self, now: float) -> None:
        """Remove what ended more than a day ago."""
        for each in self.all():
            over = each.state in ENDED and each.state is not HeldState.ANSWERED
            if over and now - each.changed_at > _KEPT_S:
                shutil.rmtree(self.body(each.id).parent)
                del self._known[each.id]


def read_held(root: Path) -> Iterator[HeldRequest]:
    """Read the held requests below a gateway's folder."""
    for file in sorted((root / "held").glob("*/state.json")):
        raw = json.loads(file.read_text())
        raw["headers"] = tuple((name, value) for name, value in raw["headers"])
        for name in ("acknowledges", "failed"):
            raw[name] = tuple(raw[name])
        yield HeldRequest(**raw | {"state": HeldState(raw["state"])})


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
