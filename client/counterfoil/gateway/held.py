"""Held requests on disk: one folder each, with a state that is true after a crash.

    held/ID/state.json    replaced whole: written, synced, renamed, and the folder synced
    held/ID/body          the bytes that are sent, and no others
    held/ID/answer        the host's answer

Body, answer and all of the state that a request's own words stand in are sealed (`counterfoil.gateway.sealing`). What
names a request and its state stands beside that in clear, and is bound to it. Where the key is lost, or the state was
changed, that clear part proves nothing: the request is unknown and is not sent.

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

Where a request ended while no client waited, the next same request gets that end, and is no request of its own; until
then it is kept for a week. `told` is written after the answer has left: a crash in between tells it once more.

One process writes: it holds a lock on the folder.
"""

from __future__ import annotations

import base64
import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from counterfoil.gateway.sealing import HeldKeys, KeyLost, SealBroken, SealedFile, key_id
from counterfoil.gating.files import sync_folder, write_private
from counterfoil.gating.settings import BadSettings

log = logging.getLogger("counterfoil.gateway")

KEPT_S: Final = 86_400.0
"""Time for which an ended request is kept, in seconds."""
UNTOLD_S: Final = 7 * KEPT_S
"""Time for which an ended request is kept whose end no client was told, in seconds."""
_CLEAR: Final = (
    *("id", "key", "state", "agent", "host", "sha256", "size", "tool", "at", "changed_at"),
    *("acknowledges", "action_id", "attempt", "failed"),
)
"""The fields that stand in clear: ids, digests and times, and no word of a request or of its answer."""


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
    sha256: str
    size: int
    tool: str
    at: float
    method: str = ""
    path: str = ""
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    shape: Mapping[str, Any] = field(default_factory=dict)
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
    session: Mapping[str, str] = field(default_factory=dict)
    """The agent's session as it arrived, in which it is proposed first: asked about again there, it is known."""
    told: bool = False
    """True once a client has had its end."""
    unreadable: bool = False
    """True if its sealed part cannot be opened, so that its state is not known either."""


class HeldRequests:
    """The held requests of one gateway, in memory as they are on disk."""

    def __init__(self, root: Path, keys: HeldKeys, *, most: int, most_bytes: int, least_free: int) -> None:
        self._root = root
        self._keys = keys
        self._most, self._most_bytes, self._least_free = most, most_bytes, least_free
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in ("incoming", "held"):
            (root / name).mkdir(exist_ok=True, mode=0o700)
        self._lock = (root / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise StateTaken(f"Another gateway uses {root}.") from None
        self._known: dict[str, HeldRequest] = {}
        try:
            self._recover()
        except BaseException:
            self._lock.close()
            raise

    def _recover(self) -> None:
        """Read what an earlier run has left, and bring it to what is true after a crash."""
        for rest in (self._root / "incoming").iterdir():
            # An earlier version kept folders there.
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
        _require_keys(self._root, self._keys)
        self._known = {each.id: each for each in read_held(self._root, self._keys)}
        for each in list(self._known.values()):
            if each.unreadable:
                log.error("request %s is %s: %s", each.id, each.state, each.why)
            elif each.state is HeldState.FORWARDING:
                self.write(each, HeldState.UNKNOWN, why="the gateway ended before an answer came")
        for folder in (self._root / "held").iterdir():
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
        """The request with this key that is open, or whose end no client has had; the same one later is another."""
        same = [each for each in self._known.values() if each.key == key]
        blocks = OPEN | {HeldState.UNKNOWN}
        untold = (each for each in same if each.state in ENDED and not each.told)
        return next((each for each in same if each.state in blocks), None) or max(
            untold, key=lambda each: each.at, default=None
        )

    def note_told(self, request_id: str) -> None:
        """Note that a client has had the end of a request."""
        held = self._known.get(request_id)
        if held is not None and held.state in ENDED and not held.told:
            self.write(held, held.state, told=True)

    def failed_before(self, key: str) -> tuple[str, ...]:
        """The actions that the last refusal of this key named, to be acknowledged by sending it again."""
        refused = [each for each in self.all() if each.key == key and each.state is HeldState.REFUSED]
        return refused[-1].failed if refused else ()

    def check_count(self, agent: str) -> None:
        """`NoRoom` where an agent has as many open requests as it may."""
        if sum(each.agent == agent for each in self._open_now()) >= self._most:
            raise NoRoom(f"this agent has {self._most} open requests, the most that are held")

    def check_space(self, arriving: int) -> None:
        """`NoRoom` where no more bytes can be kept, with those that are arriving."""
        if sum(each.size for each in self._open_now()) + arriving >= self._most_bytes:
            raise NoRoom(f"{self._most_bytes} bytes are held, the most that this gateway keeps")
        if shutil.disk_usage(self._root).free < self._least_free:
            raise NoRoom("the gateway's disk is nearly full")

    def _open_now(self) -> list[HeldRequest]:
        return [each for each in self._known.values() if each.state in OPEN | {HeldState.UNKNOWN}]

    def incoming(self, request_id: str) -> SealedFile:
        """A new file for a body that arrives."""
        return replace(self.body(request_id), path=self._root / "incoming" / request_id)

    def body(self, request_id: str) -> SealedFile:
        """The stored bytes of a request."""
        return stored_file(self._root, self._keys, request_id, "body")

    def answer(self, request_id: str) -> SealedFile:
        """The host's answer to a request."""
        return stored_file(self._root, self._keys, request_id, "answer")

    def add(self, held: HeldRequest) -> HeldRequest:
        """Keep a request whose body is on disk, synced."""
        body = self.body(held.id).path
        body.parent.mkdir(mode=0o700)
        self.incoming(held.id).path.replace(body)
        sync_folder(body.parent.parent)
        return self.write(held, HeldState.RECEIVED)

    def write(self, held: HeldRequest, state: HeldState, **changes: Any) -> HeldRequest:
        """Set the state of a request; it is on disk when this returns."""
        changed = replace(held, state=state, changed_at=time.time(), **changes)
        body = self.body(held.id).path
        write_private(body.with_name("state.json"), json.dumps(_seal_state(changed, self._keys)).encode())
        self._known[held.id] = changed
        if state in ENDED:
            body.unlink(missing_ok=True)
        return changed

    def keep_answer(self, request_id: str, content: bytes) -> None:
        """Put the host's answer on disk."""
        with self.answer(request_id).write() as file:
            file.write(content)
            os.fsync(file.finish())

    def erase(self, held: HeldRequest) -> None:
        """Remove a request that has ended."""
        shutil.rmtree(self.body(held.id).path.parent)
        del self._known[held.id]

    def sweep(self, now: float) -> None:
        """Remove what ended more than a day ago."""
        for each in self.all():
            over = each.state in ENDED and each.state is not HeldState.ANSWERED
            if over and now - each.changed_at > (KEPT_S if each.told else UNTOLD_S):
                self.erase(each)


def stored_file(root: Path, keys: HeldKeys, request_id: str, kind: str) -> SealedFile:
    """The `body` or the `answer` of a request below a gateway's folder."""
    return SealedFile(root / "held" / request_id / kind, f"{request_id}/{kind}", keys)


def read_held(root: Path, keys: HeldKeys) -> Iterator[HeldRequest]:
    """Read the held requests below a gateway's folder. Raises `BadSettings` for a state that is none."""
    for file in _state_files(root):
        document = _read_document(file)
        try:
            yield _open_state(document, keys)
        except (KeyLost, SealBroken) as fault:
            yield _unreadable(document["clear"], str(fault))


def needed_keys(root: Path) -> set[bytes]:
    """The ids of the keys under which something is sealed below a gateway's folder."""
    found = {key_id(base64.b64decode(_read_document(file)["sealed"])) for file in _state_files(root)}
    # A body moves from `incoming` to `held` and never back.
    for pattern in ("incoming/*", "held/*/body", "held/*/answer"):
        for file in root.glob(pattern):
            with suppress(FileNotFoundError, IsADirectoryError), file.open("rb") as sealed:
                found.add(key_id(sealed.read(64)))
    return found


def _require_keys(root: Path, keys: HeldKeys) -> None:
    """Make the first key of a folder that holds nothing; `BadSettings` where the keys of what is held are missing."""
    if keys.file.exists():
        keys.check()
    elif count := len(_state_files(root)):
        raise BadSettings(
            f"{keys.file} is missing, and {count} request{' is' if count == 1 else 's are'} sealed under its keys. Put "
            "it back. If it is lost, `counterfoil-gateway rotate-key` makes another: what was sealed under the old one "
            "is then unknown and is never sent."
        )
    else:
        keys.create()


def _state_files(root: Path) -> list[Path]:
    return sorted((root / "held").glob("*/state.json"))


def _read_document(file: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(file.read_text())
        assert set(document) == {"clear", "sealed"}
        assert set(document["clear"]) == set(_CLEAR)
    except (ValueError, AssertionError, TypeError) as fault:
        raise BadSettings(f"{file} is no state of a request: look at the host, and remove its folder.") from fault
    return document


def _seal_state(held: HeldRequest, keys: HeldKeys) -> dict[str, Any]:
    document = json.loads(json.dumps(asdict(held)))
    clear = {name: document.pop(name) for name in _CLEAR}
    sealed = keys.seal(json.dumps(document).encode(), place=f"{held.id}/state", beside=_clear_bytes(clear))
    return {"clear": clear, "sealed": base64.b64encode(sealed).decode()}


def _open_state(document: Mapping[str, Any], keys: HeldKeys) -> HeldRequest:
    clear = document["clear"]
    sealed = base64.b64decode(document["sealed"])
    rest = json.loads(keys.open(sealed, place=f"{clear['id']}/state", beside=_clear_bytes(clear)))
    # What an earlier version wrote was told, as far as it knew.
    rest.setdefault("told", True)
    rest["headers"] = tuple((name, value) for name, value in rest["headers"])
    return HeldRequest(**rest | _clear_fields(clear))


def _unreadable(clear: Mapping[str, Any], why: str) -> HeldRequest:
    """A request of which only the clear part is there: over if it was, or was not proposed yet, else unknown."""
    found = HeldRequest(**_clear_fields(clear), unreadable=True, told=True, why=f"it is not sent: {why}")
    if found.state is HeldState.RECEIVED:
        return replace(found, state=HeldState.REFUSED)
    over = found.state in ENDED and found.state is not HeldState.ANSWERED
    return found if over else replace(found, state=HeldState.UNKNOWN)


def _clear_fields(clear: Mapping[str, Any]) -> dict[str, Any]:
    lists = {name: tuple(clear[name]) for name in ("acknowledges", "failed")}
    return {**clear, **lists, "state": HeldState(clear["state"])}


def _clear_bytes(clear: Mapping[str, Any]) -> bytes:
    return json.dumps(clear, sort_keys=True).encode()
