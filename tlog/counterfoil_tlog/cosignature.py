"""Cosignatures: a witness saw this head at this time and no conflicting one (C2SP tlog-cosignature, type 0x04).

The signature is a time of eight bytes, big endian, in seconds of POSIX, and an Ed25519 signature over

    cosignature/v1
    time 1679315147
    … the text of the checkpoint, with its last newline …

It says that at that time this was the largest head of the log that the witness knew, and that it continues every one
it had cosigned before. The name of the witness is not in the signed bytes: each witness needs a key of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil_tlog.notes import (
    COSIGNATURE,
    Note,
    Signature,
    UntrustedNote,
    Verifier,
    cosigned_message,
    verifier,
    verify_signatures,
)

TIME_BYTES = 8


class Cosignature(NamedTuple):
    """A verified cosignature: its signer, and the second that it names."""

    by: Verifier
    seconds: int


def cosign(text: str, *, name: str, key: Ed25519PrivateKey, seconds: int) -> Signature:
    """The cosignature of a witness on the text of a checkpoint."""
    by = verifier(name, key.public_key(), COSIGNATURE)
    signed = key.sign(cosigned_message(text, seconds))
    return Signature(by.name, by.key_id, seconds.to_bytes(TIME_BYTES, "big") + signed)


def verify_cosignatures(note: Note, witnesses: Iterable[Verifier]) -> tuple[Cosignature, ...]:
    """The cosignatures of these witnesses on a note, each witness once, with the latest time that it named.

    Other witnesses are ignored. A cosignature of one of these that is not good refuses the note.
    """
    by_key = {(each.name, each.key_id): each for each in witnesses if each.kind == COSIGNATURE}
    try:
        good = verify_signatures(note, by_key.values())
    except UntrustedNote:
        if any((each.name, each.key_id) in by_key for each in note.signatures):
            raise
        return ()
    latest: dict[Verifier, int] = {}
    for each in good:
        by = by_key[each.name, each.key_id]
        latest[by] = max(latest.get(by, 0), int.from_bytes(each.signature[:TIME_BYTES], "big"))
    return tuple(Cosignature(by, seconds) for by, seconds in latest.items())
