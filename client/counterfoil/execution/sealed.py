"""Verify from the signed log that an action's votes were cast.

The console sends, for each vote that the grant names, the statement that was signed, the event that
put the vote on record, and the path from that event to the root of the log at a signed checkpoint
(C2SP tlog-checkpoint, RFC 9162). Here it is checked, under a key of the log that the executor was
given beforehand, that

1. the checkpoint is the log's, and not older than the one that the grant names,
2. each event stands in that log, is about the grant's approval, and commits to the vote's statement,
3. each statement approves this action and this payload, in this tenant and environment,
4. every vote that the grant names is there, and the event that decided stands where the grant says.

Whoever steals the key that signs grants does not have the log's. So they can make a grant for
nothing but what people have approved on record.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from counterfoil.canonical import parse_json
from counterfoil.execution.grants import GrantRefused

LONGEST_PATH = 63
_AUTHORISING = {"approve", "break_glass"}


@dataclass(frozen=True)
class LogPolicy:
    """The log keys that this executor trusts (`name+id+base64`), and the tools that need no votes.

    `unapproved_tools` are the tools whose actions run without anybody's vote; for every other tool
    a grant without an approval is refused.
    """

    vkeys: Collection[str]
    unapproved_tools: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SignedHead:
    """The head of a log that one of our keys has signed."""

    origin: str
    size: int
    root: bytes


def check_votes(claims: Mapping[str, Any], proof: Mapping[str, Any] | None, *, policy: LogPolicy) -> None:
    """Raise `GrantRefused` unless the votes behind a grant are in the log."""
    approval = claims["approval"]
    if approval is None:
        if claims["tool"]["name"] not in policy.unapproved_tools:
            raise GrantRefused("NOT_APPROVED", "The grant rests on no approval, and this tool needs one.")
        return
    try:
        found = _votes(claims, proof or {}, policy)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidSignature) as fault:
        raise GrantRefused("NOT_LOGGED", f"The votes are not proven: {type(fault).__name__}.") from fault
    if not approval["votes"] or not set(approval["votes"]) <= found:
        raise GrantRefused("NOT_LOGGED", "A vote that the grant names is not in the log.")


def _votes(claims: Mapping[str, Any], proof: Mapping[str, Any], policy: LogPolicy) -> set[str]:
    head = open_checkpoint(proof["checkpoint"], policy.vkeys)
    place = claims["approval"]["log"]
    if place is None or head.origin != place["origin"] or head.size < place["size"]:
        raise GrantRefused("NOT_LOGGED", "The checkpoint is not one of the log that the grant names.")
    found, decided = set(), False
    for vote in proof["votes"]:
        event = _vote_event(vote, head)
        if event["subject"] != {"kind": "approval", "id": claims["approval"]["id"]}:
            raise GrantRefused("NOT_LOGGED", "An event is about another approval.")
        decided = decided or (event["to"] == "APPROVED" and vote["index"] == place["index"])
        found.add(_statement_hash(vote, claims))
    if not decided:
        raise GrantRefused("NOT_LOGGED", "The event that decided is not where the grant says.")
    return found


def _vote_event(vote: Mapping[str, Any], head: SignedHead) -> dict[str, Any]:
    """The envelope of a vote's event, if it is in the log and commits to the disclosed content."""
    envelope = vote["envelope"].encode()
    leaf = hashlib.sha256(b"\x00" + envelope).digest()
    path = [bytes.fromhex(each) for each in vote["path"]]
    if inclusion_root(leaf, vote["index"], head.size, path) != head.root:
        raise GrantRefused("NOT_LOGGED", "An event is not in the log.")
    event: dict[str, Any] = parse_json(envelope)
    salt, detail = bytes.fromhex(vote["salt"]), vote["detail"].encode()
    sealed = b"counterfoil/commitment/1\x00detail\x00" + salt + len(detail).to_bytes(8, "big") + detail
    said = [each["digest"] for each in event["commitments"] if each["purpose"] == "detail"]
    if len(salt) != 32 or said != [hashlib.sha256(sealed).hexdigest()]:
        raise GrantRefused("NOT_LOGGED", "An event commits to another vote.")
    return event


def _statement_hash(vote: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """The hash of a vote's statement, if it approves the payload of the grant."""
    statement = vote["statement"].encode()
    name = hashlib.sha256(statement).hexdigest()
    if parse_json(vote["detail"])["statement_hash"] != name:
        raise GrantRefused("NOT_LOGGED", "A statement is not the one on record.")
    said = parse_json(statement)
    covers, meant = said["covers"], claims["payload"]
    if said["vote"]["verdict"] not in _AUTHORISING:
        raise GrantRefused("NOT_LOGGED", "A vote does not approve.")
    if (covers["action_id"], covers["tenant"]) != (claims["sub"], claims["tenant"]):
        raise GrantRefused("NOT_LOGGED", "A vote is about another action.")
    if (covers["payload_hash"], covers["payload_length"]) != (meant["hash"], meant["length"]):
        raise GrantRefused("NOT_LOGGED", "A vote is about another payload.")
    return name


def open_checkpoint(note: str, vkeys: Collection[str]) -> SignedHead:
    """The head in a signed note, if one of these keys has signed it under the log's own name."""
    text, separator, lines = note.rpartition("\n\n")
    origin, size, root = (text.split("\n") if separator else ["", "", ""])[:3]
    for vkey in vkeys:
        name, key_id, material = vkey.split("+", 2)
        raw = base64.b64decode(material, validate=True)
        if name != origin or raw[:1] != b"\x01" or _key_id(name, raw) != key_id:
            continue
        for blob in _signatures(lines, name, key_id):
            Ed25519PublicKey.from_public_bytes(raw[1:]).verify(blob, f"{text}\n".encode())
            return SignedHead(origin, int(size), base64.b64decode(root, validate=True))
    raise GrantRefused("NOT_LOGGED", "The checkpoint is not signed by a key of the log that we trust.")


def _key_id(name: str, raw: bytes) -> str:
    return hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4].hex()


def _signatures(lines: str, name: str, key_id: str) -> list[bytes]:
    found = []
    for line in lines.splitlines():
        dash, by, blob = [*line.split(" "), "", ""][:3]
        data = base64.b64decode(blob, validate=True)
        if dash == "—" and by == name and data[:4].hex() == key_id:
            found.append(data[4:])
    return found


def inclusion_root(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root computed from a leaf and its path (RFC 9162 section 2.1.3.2); None if the path is invalid."""
    if type(index) is not int or not 0 <= index < size or len(path) > LONGEST_PATH:
        return None
    here, last, reached = index, size - 1, leaf
    for each in path:
        if last == 0 or len(each) != 32:
            return None
        if here & 1 or here == last:
            reached = hashlib.sha256(b"\x01" + each + reached).digest()
            while here and not here & 1:
                here, last = here >> 1, last >> 1
        else:
            reached = hashlib.sha256(b"\x01" + reached + each).digest()
        here, last = here >> 1, last >> 1
    return reached if last == 0 else None
