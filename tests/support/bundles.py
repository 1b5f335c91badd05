"""A small log and the bundles that are exported from it, made by hand: every part can be replaced by a wrong one.

The trees are made by the textbook recursion, the zip file by a few lines of our own: nothing that a test damages here
comes from what it is about to check.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil_tlog import notes
from counterfoil_tlog.checkpoint import CheckpointBody, text
from ledger.exports.rules import bundles
from ledger.record.rules import envelope
from ledger.record.rules.canonical import canonical

ORIGIN = "console.example.org/counterfoil/0190"
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
PERSON, AGENT, EXECUTOR = ("person", "p-1"), ("agent", "a-1"), ("executor", "e-1")
SYSTEM = ("system", "s-1")


def key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


LOG_KEY, OTHER_KEY, WITNESS_KEY, WITNESS_2 = key(1), key(2), key(3), key(4)


def tree(leaves: list[bytes]) -> bytes:
    """MTH, as RFC 6962 writes it down."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + tree(leaves[:half]) + tree(leaves[half:])).digest()


def growth(old: int, leaves: list[bytes], whole: bool = True) -> list[bytes]:
    """SUBPROOF, as RFC 6962 writes it down."""
    if old == len(leaves):
        return [] if whole else [tree(leaves)]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    if old <= half:
        return [*growth(old, leaves[:half], whole), tree(leaves[half:])]
    return [*growth(old - half, leaves[half:], False), tree(leaves[:half])]


@dataclass
class Event:
    """One event as the console would hold it."""

    data: bytes
    opened: list[bundles.OpenedCommitment]
    stated: bytes = b""

    @property
    def leaf(self) -> bytes:
        return hashlib.sha256(b"\x00" + self.data).digest()

    @property
    def value(self) -> dict[str, Any]:
        return dict(json.loads(self.data))

    def changed(self, **members: Any) -> Event:
        return replace(self, data=canonical({**self.value, **members}))


@dataclass
class Log:
    """Events in their order, each continuing its subject."""

    origin: str = ORIGIN
    events: list[Event] = field(default_factory=list)
    heads: dict[str, tuple[int, str, str]] = field(default_factory=dict)

    def add(
        self,
        subject: str,
        kind: str,
        to: str | None = None,
        *,
        by: tuple[str, str] = SYSTEM,
        entry: Any = None,
        detail: Any = None,
        evidence: dict[str, bytes] | None = None,
    ) -> str:
        """Append an event of the subject `kind/id`; the state stays where `to` is left out. Returns its id."""
        number = len(self.events)
        subject_kind, subject_id = subject.split("/")
        seq, state, prev = self.heads.get(subject, (0, "", ""))
        parts = [("entry", None, entry), ("detail", None, detail)]
        kept = [(purpose, pointer, canonical(value)) for purpose, pointer, value in parts if value is not None]
        kept += [(purpose, f"pointer-{number}-{purpose}", data) for purpose, data in (evidence or {}).items()]
        salts = [hashlib.sha256(f"{number}/{place}".encode()).digest() for place in range(len(kept))]
        data = envelope.write(
            envelope.Envelope(
                origin=self.origin,
                id=f"event-{number}",
                kind=kind,
                subject_kind=subject_kind,
                subject_id=subject_id,
                seq=seq + 1,
                prev=prev or None,
                from_state=state,
                to_state=state if to is None else to,
                actor_kind=by[0],
                actor_id=by[1],
                at=START + timedelta(seconds=number),
                commitments=tuple(
                    envelope.Commitment(purpose, pointer, len(value), envelope.commitment(purpose, salt, value))
                    for (purpose, pointer, value), salt in zip(kept, salts, strict=True)
                ),
            )
        )
        opened = [bundles.OpenedCommitment(salt, value) for (_, _, value), salt in zip(kept, salts, strict=True)]
        event = Event(data, opened)
        self.events.append(event)
        self.heads[subject] = (seq + 1, state if to is None else to, event.leaf.hex())
        return f"event-{number}"

    @property
    def leaves(self) -> list[bytes]:
        return [each.leaf for each in self.events]

    def checkpoint(
        self,
        size: int | None = None,
        *,
        signed_by: tuple[Ed25519PrivateKey, ...] = (LOG_KEY,),
        cosigned_by: dict[str, Ed25519PrivateKey] | None = None,
        root: bytes | None = None,
    ) -> bytes:
        """A signed checkpoint of the first `size` entries."""
        size = len(self.events) if size is None else size
        body = text(CheckpointBody(self.origin, size, tree(self.leaves[:size]) if root is None else root))
        signatures = [notes.sign(body, name=self.origin, key=each) for each in signed_by]
        for name, each in (cosigned_by or {}).items():
            at = 1_795_000_000
            by = notes.verifier(name, each.public_key(), notes.COSIGNATURE)
            signature = at.to_bytes(8, "big") + each.sign(notes.cosigned_message(body, at))
            signatures.append(notes.Signature(name, by.key_id, signature))
        return notes.write(notes.Note(body, tuple(signatures)))


@dataclass
class Draft:
    """A bundle before it is packed: `members` in their order, without the manifest."""

    members: dict[str, bytes]
    manifest: dict[str, Any]

    def pack(self) -> bytes:
        files = [
            {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in self.members.items()
        ]
        first = json.dumps({**self.manifest, "files": files}).encode()
        return packed({"manifest.json": first, **self.members})

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.members["events/000000.jsonl"].splitlines()]

    def put(self, lines: list[Any]) -> Draft:
        self.members["events/000000.jsonl"] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        return self


def draft(
    log: Log,
    start: int = 0,
    end: int | None = None,
    *,
    checkpoints: list[bytes] | None = None,
    withheld: frozenset[int] = frozenset(),
    request: dict[str, Any] | None = None,
) -> Draft:
    """A true bundle of the range; what is withheld makes it a filtered one."""
    checkpoints = [log.checkpoint()] if checkpoints is None else checkpoints
    sizes = [int(note.split(b"\n")[1]) for note in checkpoints]
    size, leaves = max(sizes), log.leaves[: max(sizes)]
    end = size if end is None else end
    blocks = (bundles.covering_subtrees(0, start), bundles.covering_subtrees(end, size))
    sides = [[tree(leaves[at : at + (1 << height)]) for at, height in side] for side in blocks]
    lines = []
    for index in range(start, end):
        event = log.events[index]
        if index in withheld:
            lines += list(bundles.withheld_lines(index, [event.leaf]))
        else:
            lines.append(bundles.event_line(index, event.stated or event.leaf, event.data, event.opened))
    members = {f"checkpoints/{each}": note for each, note in zip(sizes, checkpoints, strict=True)}
    outside = [each for each in sizes if 0 < each < start or end < each < size]
    members |= {f"consistency/{each}.json": bundles.consistency_line(growth(each, leaves)) for each in outside}
    members |= {"proof.json": bundles.range_proof_line(*sides), "events/000000.jsonl": b"".join(lines)}
    said = {"id": "x-1", "event": "none", "by": "person/p-1", "at": "2026-11-21T12:00:00.000000Z"}
    said |= {"from": None, "to": None, "format": "jsonl", "payloads": True}
    said |= {"filters": {"tool": "refund"} if withheld else {}, **(request or {})}
    within = {"origin": log.origin, "from": start, "to": end, "withheld": len(withheld), "request": said}
    return Draft(members, {"format": "counterfoil-bundle", "version": 1, **within})


def packed(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members.items():
            out.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def vkey(private: Ed25519PrivateKey, name: str = ORIGIN, kind: int = notes.ED25519) -> str:
    return notes.vkey(name, private.public_key(), kind)


def policy(*lines: str, quorum: str = "none") -> bytes:
    """An auditor's policy that trusts the log key, and whatever else the lines say."""
    known = [f"log {vkey(LOG_KEY)}", *lines, f"quorum {quorum}"]
    return "".join(f"{line}\n" for line in known).encode()


def witness(name: str = "w.example", private: Ed25519PrivateKey = WITNESS_KEY) -> str:
    return f"witness {name} {vkey(private, name, notes.COSIGNATURE)}"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def day() -> Log:
    """What a console writes: a tenant, an action that needs an approval and gets it, its effect, an export."""
    log = Log()
    log.add("tenant/t-1", "tenant_founded", "ACTIVE")
    log.add("log/l-1", "log_opened", "OPEN")
    gated = {"required": True, "approval_id": "ap-1", "approver_id": None, "payload_hash": "ab" * 32}
    entry = {"action_id": "ac-1", "approval": {**gated, "expires_at": None}}
    log.add("action/ac-1", "proposed", "PROPOSED", by=AGENT, entry=entry, evidence={"payload": b'{"amount":10}'})
    log.add("action/ac-1", "validated", "VALIDATED", entry=entry, detail={"approval_required": True})
    asked = {"action_id": "ac-1", "payload_hash": "ab" * 32}
    log.add("approval/ap-1", "approval_requested", "REQUESTED", detail=asked)
    statement = canonical(
        {
            "version": 1,
            "covers": {"approval_id": "ap-1", "payload_hash": "ab" * 32},
            "vote": {"voter": "p-1", "verdict": "approve"},
        }
    )
    voted = {"statement_hash": hashlib.sha256(statement).hexdigest(), "reason": ""}
    log.add("approval/ap-1", "approved", "APPROVED", by=PERSON, detail=voted, evidence={"statement": statement})
    log.add("approval/ap-1", "approval_consumed", "CONSUMED", detail={"action_id": "ac-1"})
    log.add("action/ac-1", "grant_minted", "VALIDATED", detail={"jti": "g-1"})
    started = {"attempt": 1, "jti": "g-1", "grounds": ["released"]}
    log.add("action/ac-1", "execution_started", "EXECUTING", by=EXECUTOR, entry=entry, detail=started)
    log.add("action/ac-1", "observed", "PENDING", by=EXECUTOR, entry=entry, evidence={"raw": b"\xff\x00 not text"})
    read = {"grounds": ["decisive_read", "effect_or_claim"]}
    log.add("action/ac-1", "read_back", "COMMITTED", entry=entry, detail=read)
    log.add("action/ac-1", "verified", "RECONCILED_SUCCESS", entry=entry, detail={"grounds": ["predicates_hold"]})
    return log
