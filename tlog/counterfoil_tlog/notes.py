"""Signed notes: a text and its signatures (C2SP signed-note).

    text, ends with a newline and may have empty lines

    — key name base64(key id ‖ signature)

Rules:

1. Valid UTF-8 without control characters but the newline, and one way to write each note: `write(parse(data))` is
   `data`.
2. key id = first 4 bytes of SHA-256(name ‖ newline ‖ type ‖ public key). Name and id together name the key.
3. Signatures of unknown keys are ignored. One of a known key that does not verify refuses the whole note, and so
   does a note on which no known key verifies.
4. Two types are read: Ed25519 over the text (0x01), and the cosignature of a witness (0x04), which is a time of eight
   bytes and a signature over that time and the text (C2SP tlog-cosignature).
5. A verifier key is written `name+key id in hex+base64(type ‖ public key)`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from counterfoil_tlog.refusals import Refused

ED25519 = 0x01
COSIGNATURE = 0x04
LONGEST_NOTE = 2**20
MOST_SIGNATURES = 100
_ID_BYTES = 4
_TIME_BYTES = 8
_DASH = "— "
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f]")
_VKEY = re.compile(r"([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)")


class BadNote(Refused):
    """This is not a signed note."""

    code = "BAD_NOTE"
    status = 400


class UntrustedNote(Refused):
    """The note does not carry a good signature of a key that is trusted."""

    code = "UNTRUSTED_NOTE"
    status = 403


class BadVerifierKey(Refused):
    """This is not a verifier key of a type that is read here."""

    code = "BAD_VERIFIER_KEY"
    status = 422


class Signature(NamedTuple):
    """One signature line; the meaning of the bytes depends on the type of the key."""

    name: str
    key_id: bytes
    signature: bytes


class Note(NamedTuple):
    """A text with its signatures, none of them verified yet."""

    text: str
    signatures: tuple[Signature, ...]


class Verifier(NamedTuple):
    """A key that is trusted, of one type and under one name; `public_key` is its 32 bytes."""

    name: str
    key_id: bytes
    kind: int
    public_key: bytes


def parse(data: bytes) -> Note:
    """The note whose bytes are exactly `data` (rule 1)."""
    if len(data) > LONGEST_NOTE:
        raise BadNote
    try:
        content = data.decode()
    except UnicodeDecodeError:
        raise BadNote from None
    before, separator, lines = content.rpartition("\n\n")
    if not separator or not lines.endswith("\n") or _CONTROL.search(content):
        raise BadNote
    return Note(before + "\n", read_signatures(lines))


def read_signatures(lines: str) -> tuple[Signature, ...]:
    """The signatures on lines that each end with a newline, as in a note or in a witness's answer."""
    if not lines.endswith("\n") or lines.count("\n") > MOST_SIGNATURES:
        raise BadNote
    return tuple(_signature(line) for line in lines[:-1].split("\n"))


def write_signatures(signatures: Iterable[Signature]) -> str:
    """Signatures as lines, each ending with a newline."""
    return "".join(
        f"{_DASH}{each.name} {base64.b64encode(each.key_id + each.signature).decode()}\n" for each in signatures
    )


def write(note: Note) -> bytes:
    """The bytes of a note."""
    data = f"{note.text}\n{write_signatures(note.signatures)}".encode()
    if parse(data) != note:
        raise ValueError("this text or these signatures cannot be written as a note")
    return data


def sign(text: str, *, name: str, key: Ed25519PrivateKey) -> Signature:
    """The Ed25519 signature of a key over a text (rule 4, type 0x01)."""
    by = verifier(name, key.public_key())
    return Signature(by.name, by.key_id, key.sign(text.encode()))


def verify_signatures(note: Note, verifiers: Iterable[Verifier]) -> tuple[Signature, ...]:
    """The signatures that known keys made on this note (rule 3); never empty."""
    known = {(each.name, each.key_id): each for each in verifiers}
    good = [each for each in note.signatures if (each.name, each.key_id) in known]
    for each in good:
        if not _is_good(note.text, each, known[each.name, each.key_id]):
            raise UntrustedNote(f"The signature of {each.name} on this note is not good.")
    if not good:
        raise UntrustedNote
    return tuple(good)


def verifier(name: str, public_key: Ed25519PublicKey, kind: int = ED25519) -> Verifier:
    """The verifier of a key under this name (rule 2)."""
    return _verifier(name, kind, public_key.public_bytes_raw())


def vkey(name: str, public_key: Ed25519PublicKey, kind: int = ED25519) -> str:
    """A verifier key as text (rule 5)."""
    return write_vkey(verifier(name, public_key, kind))


def write_vkey(by: Verifier) -> str:
    """A verifier as the text that `read_vkey` reads (rule 5)."""
    return f"{by.name}+{by.key_id.hex()}+{base64.b64encode(bytes([by.kind]) + by.public_key).decode()}"


def read_vkey(text: str) -> Verifier:
    """Parse a verifier key (rule 5); its key id must match rule 2."""
    found = _VKEY.fullmatch(text)
    material = _decode_base64(found[3]) if found else None
    if found is None or material is None or len(material) != 33 or material[0] not in (ED25519, COSIGNATURE):
        raise BadVerifierKey
    if not is_name(found[1]) or _CONTROL.search(text):
        raise BadVerifierKey
    by = _verifier(found[1], material[0], material[1:])
    if by.key_id.hex() != found[2]:
        raise BadVerifierKey
    return by


def cosigned_message(text: str, seconds: int) -> bytes:
    """The message that a witness signs: that it saw this text at this time, in POSIX seconds (C2SP
    tlog-cosignature).
    """
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def _signature(line: str) -> Signature:
    name, separator, blob = line.removeprefix(_DASH).partition(" ")
    content = _decode_base64(blob)
    if not line.startswith(_DASH) or not separator or not is_name(name):
        raise BadNote
    if content is None or len(content) <= _ID_BYTES:
        raise BadNote
    return Signature(name, content[:_ID_BYTES], content[_ID_BYTES:])


def is_name(name: str) -> bool:
    """Return whether this can be the name of a key."""
    return name != "" and "+" not in name and not any(letter.isspace() for letter in name)


def _decode_base64(text: str) -> bytes | None:
    """Return the bytes of standard Base64, or nothing if it is not in canonical form."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return content if base64.b64encode(content).decode() == text else None


def _verifier(name: str, kind: int, public_key: bytes) -> Verifier:
    if not is_name(name) or kind not in (ED25519, COSIGNATURE):
        raise ValueError("not the name or the type of a key")
    digest = hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public_key).digest()
    return Verifier(name, digest[:_ID_BYTES], kind, public_key)


def _is_good(text: str, signature: Signature, by: Verifier) -> bool:
    message, content = text.encode(), signature.signature
    if by.kind == COSIGNATURE:
        seconds = int.from_bytes(content[:_TIME_BYTES], "big")
        message, content = cosigned_message(text, seconds), content[_TIME_BYTES:]
        if seconds >= 2**63:
            return False
    try:
        Ed25519PublicKey.from_public_bytes(by.public_key).verify(content, message)
    except InvalidSignature:
        return False
    return True
