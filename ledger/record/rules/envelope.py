"""The envelope of an event, its hash, and the commitments it carries.

An envelope is canonical JSON (`ledger.record.rules.canonical`) without personal data. It is final: a Merkle log can
be laid
over the stored bytes without touching a row.

    v            1
    origin       origin of the tenant's log
    id           event id (UUIDv7)
    kind         what happened, past tense
    subject      {kind, id}
    seq          1, 2, 3 … per subject, no gaps
    prev         entry hash of the subject's event before, or null for the first
    from, to     state before ("" when the event creates the subject) and after
    actor        {kind, id}; the id is a pseudonym
    at           when it happened, RFC 3339 UTC with six digits
    causation    id of the event that caused it, or null
    digests      {name: SHA-256} of the contract and the policies in force
    commitments  [{purpose, pointer, length, digest}] of what is stored apart

Rules:

1. entry hash = SHA-256(0x00 ‖ envelope bytes): the leaf hash of RFC 6962 section 2.1.
2. commitment digest = SHA-256(tag ‖ salt ‖ length as 8 bytes, big endian ‖ bytes), with a 32-byte random salt of its
   own and a tag that names the purpose. Destroying bytes and salt leaves the digest meaningless and every proof whole.
3. `parse` reads exactly what `write` writes; an unknown version has a refusal of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ledger.record.rules.canonical import canonical
from ledger.record.rules.canonical import parse as parse_canonical
from ledger.record.rules.refusals import Refused

VERSION = 1
SALT_BYTES = 32
_TAG = b"counterfoil/commitment/1\x00"
_HASH = re.compile("[0-9a-f]{64}")
_NAMES = frozenset(
    [
        "v",
        "origin",
        "id",
        "kind",
        "subject",
        "seq",
        "prev",
        "from",
        "to",
        "actor",
        "at",
        "causation",
        "digests",
        "commitments",
    ]
)


class UnknownEnvelope(Refused):
    """The envelope is of a version that this reader does not know."""

    code = "UNKNOWN_VERSION"
    status = 422


class BrokenEnvelope(Refused):
    """The bytes are not an envelope."""

    code = "BROKEN_ENVELOPE"
    status = 422


@dataclass(frozen=True, slots=True)
class Commitment:
    """A salted commitment to bytes stored separately; `pointer` is a random id, or null for the event's own entry."""

    purpose: str
    pointer: str | None
    length: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One event, as hashed."""

    origin: str
    id: str
    kind: str
    subject_kind: str
    subject_id: str
    seq: int
    prev: str | None
    from_state: str
    to_state: str
    actor_kind: str
    actor_id: str
    at: datetime
    causation: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    commitments: tuple[Commitment, ...] = ()


def write(envelope: Envelope) -> bytes:
    """The canonical bytes of an envelope."""
    return canonical(
        {
            "v": VERSION,
            "origin": envelope.origin,
            "id": envelope.id,
            "kind": envelope.kind,
            "subject": {"kind": envelope.subject_kind, "id": envelope.subject_id},
            "seq": envelope.seq,
            "prev": envelope.prev,
            "from": envelope.from_state,
            "to": envelope.to_state,
            "actor": {"kind": envelope.actor_kind, "id": envelope.actor_id},
            "at": instant(envelope.at),
            "causation": envelope.causation,
            "digests": dict(envelope.digests),
            "commitments": [
                {"purpose": c.purpose, "pointer": c.pointer, "length": c.length, "digest": c.digest}
                for c in envelope.commitments
            ],
        }
    )


def parse(data: bytes) -> Envelope:
    """The envelope whose bytes are exactly `data` (rule 3)."""
    value = parse_canonical(data)
    if not isinstance(value, dict) or "v" not in value:
        raise BrokenEnvelope
    if value["v"] != VERSION:
        raise UnknownEnvelope
    if frozenset(value) != _NAMES:
        raise BrokenEnvelope
    try:
        envelope = _from(value)
        whole = _is_sound(envelope) and write(envelope) == data
    except (KeyError, TypeError, ValueError):
        raise BrokenEnvelope from None
    if not whole:
        raise BrokenEnvelope
    return envelope


def entry_hash(data: bytes) -> bytes:
    """The hash of an event's envelope bytes, 32 bytes (rule 1)."""
    return hashlib.sha256(b"\x00" + data).digest()


def commitment(purpose: str, salt: bytes, data: bytes) -> str:
    """The salted digest of `data`, in hex (rule 2)."""
    if len(salt) != SALT_BYTES:
        raise ValueError("a commitment needs 32 bytes of salt")
    tag = _TAG + purpose.encode() + b"\x00"
    return hashlib.sha256(tag + salt + len(data).to_bytes(8, "big") + data).hexdigest()


def instant(at: datetime) -> str:
    """A time as the record writes it: RFC 3339 in UTC with six fractional digits."""
    if at.tzinfo is None:
        raise ValueError("a time in the record must be aware")
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _from(value: dict[str, Any]) -> Envelope:
    return Envelope(
        origin=value["origin"],
        id=value["id"],
        kind=value["kind"],
        subject_kind=value["subject"]["kind"],
        subject_id=value["subject"]["id"],
        seq=value["seq"],
        prev=value["prev"],
        from_state=value["from"],
        to_state=value["to"],
        actor_kind=value["actor"]["kind"],
        actor_id=value["actor"]["id"],
        at=datetime.strptime(value["at"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC),
        causation=value["causation"],
        digests=value["digests"],
        commitments=tuple(Commitment(**each) for each in value["commitments"]),
    )


def _is_sound(envelope: Envelope) -> bool:
    """Return True if every member has the type and form that `write` gives it; equal bytes alone do not show that."""
    e = envelope
    texts = (e.origin, e.id, e.kind, e.subject_kind, e.subject_id, e.from_state, e.to_state, e.actor_kind, e.actor_id)
    return (
        all(type(text) is str for text in texts)
        and type(e.seq) is int
        and (e.prev is None if e.seq == 1 else e.seq > 1 and _is_hash(e.prev))
        and type(e.causation) in (str, type(None))
        and type(e.digests) is dict
        and all(_is_hash(each) for each in e.digests.values())
        and all(_is_commitment(each) for each in e.commitments)
    )


def _is_commitment(each: Commitment) -> bool:
    return (
        type(each.purpose) is str
        and type(each.pointer) in (str, type(None))
        and type(each.length) is int
        and each.length >= 0
        and _is_hash(each.digest)
    )


def _is_hash(text: object) -> bool:
    return type(text) is str and _HASH.fullmatch(text) is not None
