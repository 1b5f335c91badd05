"""The statement with which an installation hands a tenant's log over to another one (docs/moving-a-tenant.md).

It is a note that the log's key signs: the head from which the other installation goes on, and the key with which it
signs. Whoever makes it has signed its last head of that log; whoever takes the log over goes on from exactly this head.
Beside it is the signature by which the log tells of the new key, as at every rotation (`key_rotated`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from counterfoil_tlog import notes
from ledger.log.rules.signing import TreeHead
from ledger.record.rules.refusals import Refused

_KIND: Final = "counterfoil/hand-over/1"


class BadStatement(Refused):
    """This is no statement with which a log was handed over."""

    code = "BAD_STATEMENT"


@dataclass(frozen=True, slots=True)
class HandOver:
    """A log's last head at one installation, the key that signed it, and the key with which another one goes on.

    `signature` is the old key's over the new one.
    """

    origin: str
    head: TreeHead
    old: str
    new: str
    signature: str


def write_statement(origin: str, head: TreeHead, key: Ed25519PrivateKey, new: Ed25519PublicKey) -> bytes:
    """Write and sign the statement that hands a log over."""
    old_vkey, new_vkey = notes.vkey(origin, key.public_key()), notes.vkey(origin, new)
    text = f"{_KIND}\n{origin}\n{head.size}\n{head.root.hex()}\n{new_vkey}\n"
    note = notes.write(notes.Note(text, (notes.sign(text, name=origin, key=key),)))
    document = {
        "statement": note.decode(),
        "old": old_vkey,
        "signature": sign_new_key(new_vkey, key),
    }
    return json.dumps(document, indent=1).encode()


def sign_new_key(vkey: str, key: Ed25519PrivateKey) -> str:
    """The signature of a log's key over the key that follows it."""
    return key.sign(b"counterfoil/log-key/1\x00" + vkey.encode()).hex()


def read_statement(data: bytes) -> HandOver:
    """Read a statement and check that the key which it names has signed it; whose key that is, the caller asks."""
    try:
        document = json.loads(data)
        note, old, signature = notes.parse(document["statement"].encode()), document["old"], document["signature"]
        by = notes.read_vkey(old)
        kind, origin, size, root, new = note.text.splitlines()
        head = TreeHead(int(size), bytes.fromhex(root))
        bytes.fromhex(signature)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadStatement from None
    if kind != _KIND or by.name != origin:
        raise BadStatement
    notes.verify_signatures(note, [by])
    return HandOver(origin, head, old, new, signature)
