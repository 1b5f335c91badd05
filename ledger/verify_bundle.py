#!/usr/bin/env python3
"""Checks a bundle that was exported from a Counterfoil record: offline, alone, and against the parties that *you*
trust.

    python verify_bundle.py BUNDLE --policy FILE [--checkpoint OLD] [--json OUT]

BUNDLE is untrusted input: nothing in it is believed because it is in it. The policy file is yours; it alone says which
log keys, witnesses and time-stamp authorities count. OLD is a checkpoint that you kept from an earlier day. Sizes and
roots are taken from checkpoints whose signatures hold, never from anywhere else. This file needs Python 3.11 and the
package `cryptography`; it opens no connection. Take it from where you trust it, not out of the bundle that it checks.

It shares no code with the console. docs/exports.md describes the bundle closely enough to write another one like this.

The policy file is a C2SP tlog-policy. Three lines of our own may be added to it:

    valid NAME+KEYID [from SIZE] [until SIZE]   a log key counts only for checkpoints of such sizes (rotation)
    tsa NAME BASE64                             certificate (DER) of a time-stamp authority or of the root above it
    stamp required                              without a time stamp of such an authority the tail is not anchored

Ends with:  0 verified                      10 verified, payload erased    11 verified, tail not anchored
            20 incomplete                   21 unknown version             22 key not trusted
            30 broken                       31 equivocation                40 malformed bundle    2 cannot begin
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import os
import re
import sqlite3
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID

FORMAT, VERSION = "counterfoil-bundle", 1
MAX_MEMBERS = 100_000
MAX_DIRECTORY = 32 * 1024**2
MAX_MEMBER = 4 * 1024**3
MAX_TOTAL = 512 * 1024**3
MAX_RATIO, FREE_RATIO = 200, 1024**2
MAX_LINE = 64 * 1024**2
MAX_SMALL = 1024**2
MAX_MANIFEST = 32 * 1024**2
MAX_INT = 2**53 - 1
MAX_PROOF = 64
MAX_RUN = 1024
MAX_SIGNATURES = 64
MAX_CHECKPOINTS = 64
MAX_KEPT = 50
IN_MEMORY = 200_000

STAGES = (
    "structure",
    "log signature",
    "envelopes",
    "range",
    "leaf hashes",
    "root",
    "consistency",
    "witness quorum",
    "time stamps",
    "commitments",
    "subjects",
    "signatures",
    "erasures",
)


class Verdict(Enum):
    """The final verdict: words and exit code. The first one found counts."""

    MALFORMED = ("malformed bundle", 40)
    EQUIVOCATION = ("equivocation", 31)
    BROKEN = ("broken", 30)
    UNTRUSTED = ("key not trusted", 22)
    UNKNOWN = ("unknown version", 21)
    INCOMPLETE = ("incomplete", 20)
    UNANCHORED = ("verified, tail not anchored", 11)
    ERASED = ("verified, payload erased", 10)
    VERIFIED = ("verified", 0)


class CannotBegin(Exception):
    """The policy file or the old checkpoint, both the auditor's own, cannot be used."""


class Malformed(Exception):
    """The bundle is not a bundle."""


class Bad(Exception):
    """A part is not what it must be; its position decides the consequence."""


class Unknown(Exception):
    """A part has a version that this verifier does not support."""


class Untrusted(Exception):
    """No key that the auditor trusts, and trusts for this size, signed."""


@dataclass(frozen=True)
class Finding:
    """One fault that was found."""

    stage: str
    verdict: Verdict
    text: str
    index: int | None = None

    def __str__(self) -> str:
        place = f" at index {self.index}" if self.index is not None else ""
        return f"{self.verdict.value[0]}{place}: {self.text}"


@dataclass
class Report:
    """The checks that were made and their findings."""

    findings: list[Finding] = field(default_factory=list)
    worst: Verdict = Verdict.VERIFIED
    failed: Counter[str] = field(default_factory=Counter)
    looked: dict[str, str] = field(default_factory=dict)
    heads: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def find(self, stage: str, verdict: Verdict, text: str, index: int | None = None) -> None:
        finding = Finding(stage, verdict, text, index)
        self.worst = min(self.worst, verdict, key=list(Verdict).index)
        self.failed[stage] += 1
        if self.failed[stage] <= MAX_KEPT:
            self.findings.append(finding)

    def ok(self, stage: str, text: str) -> None:
        self.looked[stage] = text

    def of(self, verdict: Verdict) -> Finding | None:
        """The finding that the verdict names: the one of the lowest index."""
        same = [each for each in self.findings if each.verdict is verdict]
        return min(same, key=lambda each: (each.index is None, each.index or 0, STAGES.index(each.stage)), default=None)

    def document(self) -> dict[str, Any]:
        words, code = self.worst.value
        stages = [
            {
                "name": name,
                "result": "failed" if self.failed[name] else "ok" if name in self.looked else "not checked",
                "findings": self.failed[name],
                "text": self.looked.get(name, ""),
            }
            for name in STAGES
        ]
        findings = [
            {"stage": each.stage, "verdict": each.verdict.value[0], "index": each.index, "text": each.text}
            for each in self.findings
        ]
        return {
            "verdict": words,
            "exit": code,
            "stages": stages,
            "findings": findings,
            "heads": self.heads,
            **self.facts,
        }


# JSON, strictly


def strict(data: bytes | str) -> Any:
    """The value of a JSON text without floats, big integers, duplicate names and lone surrogates."""
    try:
        text = data.decode() if isinstance(data, bytes) else data
        value = json.loads(
            text, object_pairs_hook=_unique, parse_int=_integer, parse_float=_refuse, parse_constant=_refuse
        )
        text.encode()
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Bad("it is not JSON of the strict kind") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name stands twice")
    return value


def _integer(text: str) -> int:
    if len(text) > len(str(-MAX_INT)) or abs(int(text)) > MAX_INT:
        raise ValueError("an integer is too big")
    return int(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError("not an integer")


def canonical(value: object) -> bytes:
    """Return the bytes of RFC 8785 for a value from `strict`."""
    return json.dumps(_sort_members(value), ensure_ascii=False, separators=(",", ":")).encode()


def _sort_members(value: Any) -> Any:
    if isinstance(value, dict):
        names = sorted(value) if all(map(str.isascii, value)) else sorted(value, key=lambda n: n.encode("utf-16-be"))
        return {name: _sort_members(value[name]) for name in names}
    if isinstance(value, list):
        return [_sort_members(each) for each in value]
    return value


def members(value: object, *names: str) -> dict[str, Any]:
    """An object with exactly these members."""
    if not isinstance(value, dict) or set(value) != set(names):
        raise Bad("it has missing or unexpected members")
    return value


def number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise Bad("a number is not valid")
    return value


def text_of(value: object) -> str:
    if type(value) is not str:
        raise Bad("a text is not a string")
    return value


def digest_of(value: object) -> bytes:
    """A SHA-256 in 64 lower-case hex digits."""
    if type(value) is not str or re.fullmatch("[0-9a-f]{64}", value) is None:
        raise Bad("a hash is not 64 hex digits")
    return bytes.fromhex(value)


def base64_of(value: object) -> bytes:
    """Return bytes as base64, which must be in canonical form."""
    try:
        data = base64.b64decode(text_of(value), validate=True)
    except (binascii.Error, ValueError):
        raise Bad("a text is not valid base64") from None
    if base64.b64encode(data).decode() != value:
        raise Bad("a base64 text is not in canonical form")
    return data


def base64url_of(value: object) -> bytes:
    """Bytes in base64url without padding, as WebAuthn spells them."""
    text = text_of(value)
    if re.fullmatch("[A-Za-z0-9_-]+", text) is None or len(text) % 4 == 1:
        raise Bad("a text is not valid base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def shown(text: str, most: int = 200) -> str:
    """A text from the bundle, made harmless for a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:most])


# The tree (RFC 6962, section 2.1)


def leaf_hash(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def blocks(start: int, end: int) -> list[tuple[int, int]]:
    """Return (first leaf, height) of the widest complete subtrees of the leaves from `start` to `end`."""
    found = []
    while start < end:
        height = (end - start).bit_length() - 1
        if start:
            height = min(height, (start & -start).bit_length() - 1)
        found.append((start, height))
        start += 1 << height
    return found


class Frontier:
    """The complete subtrees of the leaves so far, widest first: enough to append more leaves and to compute
    the root.
    """

    def __init__(self) -> None:
        self.size = 0
        self.nodes: list[tuple[int, bytes]] = []

    def push(self, node: bytes, height: int = 0) -> None:
        if self.size % (1 << height):
            raise Bad("a subtree does not fit at its place")
        self.size += 1 << height
        while self.nodes and self.nodes[-1][0] == height:
            node = node_hash(self.nodes.pop()[1], node)
            height += 1
        self.nodes.append((height, node))

    def root(self) -> bytes:
        if not self.nodes:
            return hashlib.sha256().digest()
        root = self.nodes[-1][1]
        for _, node in reversed(self.nodes[:-1]):
            root = node_hash(node, root)
        return root

    def copy(self) -> Frontier:
        other = Frontier()
        other.size, other.nodes = self.size, list(self.nodes)
        return other


def consistent(old_size: int, size: int, old_root: bytes, root: bytes, proof: list[bytes]) -> bool:
    """Return whether a proof shows that the tree of `size` begins with the tree of `old_size` (RFC 9162, 2.1.4.2)."""
    if old_size > size:
        return False
    if old_size in (0, size):
        return not proof and old_root == (root if old_size else hashlib.sha256().digest())
    if not proof:
        return False
    path = [old_root, *proof] if old_size & (old_size - 1) == 0 else proof
    low, high = old_size - 1, size - 1
    while low & 1:
        low, high = low >> 1, high >> 1
    before = after = path[0]
    for node in path[1:]:
        if high == 0:
            return False
        if low & 1 or low == high:
            before, after = node_hash(node, before), node_hash(node, after)
            low, high = _past_left_edges(low, high)
        else:
            after = node_hash(after, node)
        low, high = low >> 1, high >> 1
    return high == 0 and before == old_root and after == root


def _past_left_edges(low: int, high: int) -> tuple[int, int]:
    while low and not low & 1:
        low, high = low >> 1, high >> 1
    return low, high


# Keys, notes and checkpoints (C2SP signed-note, tlog-checkpoint, tlog-cosignature)

LOG, WITNESS = 0x01, 0x04


@dataclass(frozen=True)
class Key:
    """A public key that the auditor's policy names."""

    name: str
    id: bytes
    kind: int
    public: bytes

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}"

    def signed(self, message: bytes, signature: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class Head:
    """A checkpoint whose signatures hold."""

    origin: str
    size: int
    root: bytes
    note: bytes
    text: bytes
    signers: tuple[Key, ...]
    witnesses: dict[Key, int]


def read_key(vkey: str, kind: int) -> Key:
    """A key in the form NAME+ID+BASE64."""
    name, _, rest = vkey.partition("+")
    key_id, _, encoded = rest.partition("+")
    data = base64_of(encoded)
    if not name or len(data) != 33 or data[0] != kind or re.fullmatch("[0-9a-f]{8}", key_id) is None:
        raise Bad(f"{shown(vkey)} is not the kind of key required here (Ed25519, type {kind})")
    if hashlib.sha256(name.encode() + b"\n" + data).digest()[:4].hex() != key_id:
        raise Bad(f"the id of the key {shown(vkey)} is not its own")
    return Key(name, bytes.fromhex(key_id), kind, data[1:])


def read_note(note: bytes) -> tuple[bytes, list[tuple[str, bytes, bytes]]]:
    """The signed text of a note, and (name, key id, signature) of each line below it."""
    try:
        whole = note.decode()
    except UnicodeDecodeError:
        raise Bad("a note is not UTF-8") from None
    if any(ord(c) < 32 and c != "\n" for c in whole) or not whole.endswith("\n"):
        raise Bad("a note contains characters that are not allowed")
    text, gap, lines = whole.rpartition("\n\n")
    rows = lines.split("\n")[:-1]
    if not gap or not text or not 0 < len(rows) <= MAX_SIGNATURES:
        raise Bad("a note has no text, or too few or too many signatures")
    signatures = []
    for row in rows:
        match = re.fullmatch("\N{EM DASH} ([^ +]+) ([A-Za-z0-9+/=]+)", row)
        data = base64_of(match[2]) if match else b""
        if match is None or not data[4:]:
            raise Bad("a signature line is malformed")
        signatures.append((match[1], data[:4], data[4:]))
    return f"{text}\n".encode(), signatures


def read_checkpoint(text: bytes) -> tuple[str, int, bytes]:
    """Origin, size and root of a checkpoint's text."""
    lines = text.decode().split("\n")
    if len(lines) != 4 or lines[3] or not lines[0] or re.fullmatch("0|[1-9][0-9]{0,15}", lines[1]) is None:
        raise Bad("a checkpoint is not three lines: origin, size, root")
    root = base64_of(lines[2])
    if len(root) != 32 or int(lines[1]) > MAX_INT:
        raise Bad("a checkpoint has no root, or its size is too large")
    return lines[0], int(lines[1]), root


def read_head(note: bytes, policy: Policy) -> Head:
    """A checkpoint whose signatures hold under the policy; `Bad` if one does not, `Untrusted` if none is known."""
    text, signatures = read_note(note)
    origin, size, root = read_checkpoint(text)
    known = {(key.name, key.id): key for key in (*policy.logs, *policy.witnesses.values())}
    signers: list[Key] = []
    witnesses: dict[Key, int] = {}
    for name, key_id, signature in signatures:
        key = known.get((name, key_id))
        if key is None:
            continue
        if key in signers or key in witnesses:
            raise Bad(f"{key} signed the checkpoint of size {size} twice")
        if key.kind == WITNESS:
            witnesses[key] = _cosignature_time(key, text, signature, size)
            continue
        if not key.signed(text, signature):
            raise Bad(f"the signature of {key} on the checkpoint of size {size} does not hold")
        signers.append(key)
    valid = _valid_keys(policy, [key for key in signers if key.name == origin], origin, size)
    return Head(origin, size, root, note, text, valid, witnesses)


def _valid_keys(policy: Policy, signers: list[Key], origin: str, size: int) -> tuple[Key, ...]:
    if not signers:
        raise Untrusted(f"no log key of the policy signed the checkpoint of {shown(origin)}")
    valid = tuple(key for key in signers if policy.is_valid(key, size))
    if not valid:
        raise Untrusted(f"the key {signers[0]} is not valid for a checkpoint of {size} entries")
    return valid


def _cosignature_time(key: Key, text: bytes, signature: bytes, size: int) -> int:
    """The time at which a witness attests that it saw the checkpoint."""
    at = int.from_bytes(signature[:8])
    message = b"cosignature/v1\ntime %d\n" % at + text
    if len(signature) != 72 or not key.signed(message, signature[8:]):
        raise Bad(f"the cosignature of {key} on the checkpoint of size {size} does not hold")
    return at


# The auditor's policy (C2SP tlog-policy and three lines of ours)


@dataclass
class Policy:
    """The parties that the auditor trusts, and their purposes."""

    logs: list[Key] = field(default_factory=list)
    witnesses: dict[str, Key] = field(default_factory=dict)
    groups: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    quorum: str = ""
    validity: dict[str, tuple[int, int]] = field(default_factory=dict)
    authorities: list[x509.Certificate] = field(default_factory=list)
    needs_stamp: bool = False

    def is_valid(self, key: Key, size: int) -> bool:
        first, last = self.validity.get(str(key), (0, MAX_INT))
        return first <= size <= last

    def is_met(self, present: Iterable[Key], name: str = "") -> bool:
        name = name or self.quorum
        if name == "none":
            return True
        if name in self.witnesses:
            return self.witnesses[name] in present
        least, names = self.groups[name]
        return sum(self.is_met(present, each) for each in names) >= least

    def wanted(self, name: str = "") -> list[str]:
        """The witnesses that can make up the quorum."""
        name = name or self.quorum
        if name in self.groups:
            return [found for each in self.groups[name][1] for found in self.wanted(each)]
        return [name] if name in self.witnesses else []


def read_policy(data: bytes) -> Policy:
    """The policy of a file; `CannotBegin` names the line that is wrong."""
    policy = Policy()
    lines = data.decode("latin-1").split("\n")
    if any((ord(c) < 32 and c != "\t") or c == "\x7f" for line in lines for c in line):
        raise CannotBegin("The policy file holds control characters.")
    for place, line in enumerate(lines, 1):
        split = re.split("[ \t]+", line.strip(" \t"))
        words = [word.encode("latin-1").decode("utf-8", "surrogateescape") for word in split]
        if not words[0] or words[0].startswith("#"):
            continue
        try:
            _POLICY_LINES[words[0]](policy, words[1:])
        except (Bad, KeyError, IndexError, ValueError) as problem:
            raise CannotBegin(f"Line {place} of the policy file cannot be used: {problem}.") from None
    if not policy.quorum:
        raise CannotBegin("The policy file has no quorum line; write `quorum none` if you require no witness.")
    if not policy.logs:
        raise CannotBegin("The policy file names no log.")
    unknown = set(policy.validity) - set(map(str, policy.logs))
    if unknown:
        raise CannotBegin(f"The policy file limits a key that it does not name: {min(unknown)}.")
    return policy


def _log_line(policy: Policy, words: list[str]) -> None:
    if not 1 <= len(words) <= 2:
        raise Bad("log VKEY [URL]")
    key = read_key(words[0], LOG)
    if key.public in [each.public for each in policy.logs]:
        raise Bad("the same key is listed twice")
    policy.logs.append(key)


def _witness_line(policy: Policy, words: list[str]) -> None:
    if not 2 <= len(words) <= 3:
        raise Bad("witness NAME VKEY [URL]")
    _fresh(policy, words[0])
    key = read_key(words[1], WITNESS)
    if key.public in [each.public for each in policy.witnesses.values()]:
        raise Bad("the same key is listed twice")
    policy.witnesses[words[0]] = key


def _group_line(policy: Policy, words: list[str]) -> None:
    name, least, names = words[0], words[1], words[2:]
    _fresh(policy, name)
    count = {"all": len(names), "any": 1}.get(least) or _count(least)
    if not names or not 1 <= count <= len(names) or len(set(names)) != len(names):
        raise Bad("a group needs members, and a number from one to how many they are")
    for each in names:
        if each not in policy.witnesses and each not in policy.groups:
            raise Bad(f"{shown(each)} is not defined before this line")
        if each in policy.members:
            raise Bad(f"{shown(each)} is a member twice")
    policy.members |= set(names)
    policy.groups[name] = (count, names)


def _quorum_line(policy: Policy, words: list[str]) -> None:
    (name,) = words
    if policy.quorum or (name != "none" and name not in policy.witnesses and name not in policy.groups):
        raise Bad("one quorum line, naming a witness, a group or none")
    policy.quorum = name


def _valid_line(policy: Policy, words: list[str]) -> None:
    said = dict(zip(words[1::2], map(_count, words[2::2]), strict=True))
    if not said or set(said) - {"from", "until"} or len(said) * 2 != len(words) - 1 or words[0] in policy.validity:
        raise Bad("valid NAME+KEYID [from SIZE] [until SIZE], once for a key")
    policy.validity[words[0]] = (said.get("from", 0), said.get("until", MAX_INT))


def _tsa_line(policy: Policy, words: list[str]) -> None:
    _, encoded = words
    policy.authorities.append(x509.load_der_x509_certificate(base64_of(encoded)))


def _stamp_line(policy: Policy, words: list[str]) -> None:
    if words != ["required"]:
        raise Bad("stamp required")
    policy.needs_stamp = True


def _fresh(policy: Policy, name: str) -> None:
    if name == "none" or name in policy.witnesses or name in policy.groups:
        raise Bad(f"the name {shown(name)} is taken")


def _count(text: str) -> int:
    if re.fullmatch("0|[1-9][0-9]{0,15}", text) is None:
        raise Bad("a number is not valid")
    return int(text)


_POLICY_LINES = {
    "log": _log_line,
    "witness": _witness_line,
    "group": _group_line,
    "quorum": _quorum_line,
    "valid": _valid_line,
    "tsa": _tsa_line,
    "stamp": _stamp_line,
}


# Time stamps (RFC 3161, RFC 5652, RFC 5816)

_SIGNED_DATA, _TST_INFO = "1.2.840.113549.1.7.2", "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE, _MESSAGE_DIGEST = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE_V2, _SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.47", "1.2.840.113549.1.9.16.2.12"
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "2.16.840.1.101.3.4.2.1": hashes.SHA256(),
    "2.16.840.1.101.3.4.2.2": hashes.SHA384(),
    "2.16.840.1.101.3.4.2.3": hashes.SHA512(),
}
_SEQUENCE, _SET, _OCTETS, _OID, _INTEGER, _TIME = 0x30, 0x31, 0x04, 0x06, 0x02, 0x18


@dataclass(frozen=True)
class Der:
    """One element of a DER text: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes

    def parts(self, *tags: int) -> list[Der]:
        """Return the elements inside; the first ones must have these tags."""
        parts, rest = [], self.content
        while rest:
            part, rest = read_der(rest)
            parts.append(part)
        if [part.tag for part in parts[: len(tags)]] != list(tags):
            raise Bad("a time stamp has unexpected content")
        return parts

    def oid(self) -> str:
        if self.tag != _OID or not self.content:
            raise Bad("a time stamp lacks a required name")
        arcs, value = [], 0
        for byte in self.content:
            value = value << 7 | byte & 0x7F
            if not byte & 0x80:
                arcs.append(value)
                value = 0
        first = min(arcs[0] // 40, 2)
        return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))


def read_der(data: bytes) -> tuple[Der, bytes]:
    """Return the first element of a DER text, and the rest."""
    if len(data) < 2 or data[0] & 0x1F == 0x1F:
        raise Bad("a time stamp is cut off")
    length, start = data[1], 2
    if length & 0x80:
        more = length & 0x7F
        start += more
        if not 1 <= more <= 4:
            raise Bad("a time stamp has an invalid length")
        length = int.from_bytes(data[2:start])
        if length < 0x80 or length >> 8 * (more - 1) == 0:
            raise Bad("a time stamp is not DER")
    end = start + length
    if len(data) < end:
        raise Bad("a time stamp is cut off")
    return Der(data[0], data[start:end], data[:end]), data[end:]


@dataclass(frozen=True)
class Stamp:
    """The content of a time-stamp response, and the data needed to check it."""

    at: datetime
    hash: hashes.HashAlgorithm
    imprint: bytes
    attributes: dict[str, Der]
    attributes_hash: hashes.HashAlgorithm
    signed: bytes
    content: bytes
    signature: bytes
    certificates: list[x509.Certificate]


def read_stamp(response: bytes) -> Stamp:
    """The parts of a TimeStampResp, or of the token alone."""
    outer, rest = read_der(response)
    parts = outer.parts(_SEQUENCE) if outer.tag == _SEQUENCE and outer.content[:1] == b"\x30" else []
    token = outer
    if parts:
        if parts[0].parts(_INTEGER)[0].content not in (b"\x00", b"\x01") or len(parts) != 2:
            raise Bad("a time stamp was not granted")
        token = parts[1]
    name, wrapped = token.parts(_OID, 0xA0)[:2]
    if rest or name.oid() != _SIGNED_DATA:
        raise Bad("a time stamp is not signed data")
    data = wrapped.parts(_SEQUENCE)[0].parts(_INTEGER, _SET, _SEQUENCE)
    kind, content = data[2].parts(_OID, 0xA0)[:2]
    if kind.oid() != _TST_INFO or data[-1].tag != _SET:
        raise Bad("a time stamp covers something else")
    info = content.parts(_OCTETS)[0].content
    certificates = [x509.load_der_x509_certificate(c.whole) for d in data[3:-1] if d.tag == 0xA0 for c in d.parts()]
    (signer,) = data[-1].parts()
    return _stamp(info, signer, certificates)


def _stamp(info: bytes, signer: Der, certificates: list[x509.Certificate]) -> Stamp:
    fields = read_der(info)[0].parts(_INTEGER, _OID, _SEQUENCE, _INTEGER, _TIME)
    algorithm, imprint = fields[2].parts(_SEQUENCE, _OCTETS)
    rows = signer.parts(_INTEGER)
    attributes = rows[3]
    if attributes.tag != 0xA0 or rows[5].tag != _OCTETS:
        raise Bad("a time stamp has no signed attributes")
    named = [row.parts(_OID, _SET) for row in attributes.parts()]
    if len({name.oid() for name, _ in named}) != len(named):
        raise Bad("a time stamp repeats an attribute")
    return Stamp(
        at=_time(fields[4].content),
        hash=_hash(algorithm.parts(_OID)[0]),
        imprint=imprint.content,
        attributes={name.oid(): values.parts()[0] for name, values in named},
        attributes_hash=_hash(rows[2].parts(_OID)[0]),
        signed=bytes([_SET]) + attributes.whole[1:],
        content=info,
        signature=rows[5].content,
        certificates=certificates[:16],
    )


def _hash(name: Der) -> hashes.HashAlgorithm:
    if name.oid() not in _HASHES:
        raise Bad("a time stamp uses a hash that is not accepted here")
    return _HASHES[name.oid()]


def _time(content: bytes) -> datetime:
    match = re.fullmatch(rb"(\d{14})(\.\d{1,9})?Z", content)
    if match is None:
        raise Bad("a time stamp has no time")
    return datetime.strptime(match[1].decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def hashed(algorithm: hashes.HashAlgorithm, data: bytes) -> bytes:
    digest = hashes.Hash(algorithm)
    digest.update(data)
    return digest.finalize()


def check_stamp(response: bytes, text: bytes, authorities: list[x509.Certificate]) -> datetime:
    """Return the time before which a checkpoint existed; raise `Untrusted` if the auditor does not trust the
    authority.
    """
    stamp = read_stamp(response)
    signer = _signer(stamp)
    if not _leads_to(signer, stamp, authorities):
        raise Untrusted("the time stamp is from no authority in the policy")
    _check_purpose(signer)
    kind, digest = stamp.attributes.get(_CONTENT_TYPE), stamp.attributes.get(_MESSAGE_DIGEST)
    if kind is None or kind.oid() != _TST_INFO or digest is None:
        raise Bad("the time stamp does not say what it signs")
    if digest.content != hashed(stamp.attributes_hash, stamp.content):
        raise Bad("the time stamp was changed")
    if not _holds(signer, stamp):
        raise Bad("the signature of the time stamp does not hold")
    if stamp.imprint != hashed(stamp.hash, text):
        raise Bad("the time stamp is not for this checkpoint")
    return stamp.at


def _signer(stamp: Stamp) -> x509.Certificate:
    """The certificate that the signed attributes name by its hash."""
    newer, older = stamp.attributes.get(_SIGNING_CERTIFICATE_V2), stamp.attributes.get(_SIGNING_CERTIFICATE)
    attribute = newer or older
    if attribute is None:
        raise Bad("the time stamp does not name its certificate")
    first = attribute.parts(_SEQUENCE)[0].parts(_SEQUENCE)[0].parts()
    algorithm: hashes.HashAlgorithm = hashes.SHA256() if newer else hashes.SHA1()
    if newer and first[0].tag == _SEQUENCE:
        algorithm = _hash(first.pop(0).parts(_OID)[0])
    for certificate in stamp.certificates:
        if certificate.fingerprint(algorithm) == first[0].content:
            return certificate
    raise Bad("the certificate of the time stamp is missing")


def _leads_to(signer: x509.Certificate, stamp: Stamp, trusted: list[x509.Certificate]) -> bool:
    current = signer
    for _ in range(5):
        if not current.not_valid_before_utc <= stamp.at <= current.not_valid_after_utc:
            return False
        if current in trusted:
            return True
        above = [each for each in (*trusted, *stamp.certificates) if each != current and _is_issued_by(each, current)]
        if not above:
            return False
        current = above[0]
    return False


def _is_issued_by(issuer: x509.Certificate, current: x509.Certificate) -> bool:
    try:
        current.verify_directly_issued_by(issuer)
        return issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False


def _check_purpose(signer: x509.Certificate) -> None:
    try:
        usage = signer.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except x509.ExtensionNotFound:
        raise Bad("the certificate of the time stamp is not for time stamps") from None
    if list(usage.value) != [ExtendedKeyUsageOID.TIME_STAMPING] or not usage.critical:
        raise Bad("the certificate of the time stamp may be used for other purposes")


def _holds(signer: x509.Certificate, stamp: Stamp) -> bool:
    key = signer.public_key()
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(stamp.signature, stamp.signed, padding.PKCS1v15(), stamp.attributes_hash)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(stamp.signature, stamp.signed, ec.ECDSA(stamp.attributes_hash))
        elif isinstance(key, Ed25519PublicKey):
            key.verify(stamp.signature, stamp.signed)
        else:
            return False
    except InvalidSignature:
        return False
    return True


# Passkeys (WebAuthn level 3; COSE keys of RFC 9053)

_CHALLENGE_DOMAIN = b"counterfoil/approval-challenge/2\x00"
_SIGNED_PARTS = ("statement", "assertion", "proposal")
_SETTLEMENT = ("counterfoil-settlement-statement", 1, "settlement")
_ED25519, _P256_X, _P256_Y = (
    b"\xa4\x01\x01\x03\x27\x20\x06\x21\x58\x20",
    b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20",
    b"\x22\x58\x20",
)
_PRESENT, _VERIFIED, _MAY_BACK_UP, _BACKED_UP, _ATTESTED = 0x01, 0x04, 0x08, 0x10, 0x40


def check_passkey(public_key: bytes, assertion: dict[str, str], statement: bytes, rp_id: str) -> None:
    """Check that a passkey signed this statement for this site, its holder present and verified; `Bad` if not."""
    parts = [base64url_of(assertion[name]) for name in ("clientDataJSON", "authenticatorData", "signature")]
    client, data, signature = parts
    _check_client(client, statement, rp_id)
    if len(data) < 37 or data[:32] != hashlib.sha256(rp_id.encode()).digest():
        raise Bad("its passkey answered for another site")
    flags = data[32]
    if not flags & _PRESENT or not flags & _VERIFIED:
        raise Bad("its passkey did not verify who used it")
    if flags & _ATTESTED or (flags & _BACKED_UP and not flags & _MAY_BACK_UP):
        raise Bad("its passkey's response is of the wrong type")
    if not _passkey_signed(public_key, data + hashlib.sha256(client).digest(), signature):
        raise Bad("the signature of its passkey does not hold")


def _check_client(client: bytes, statement: bytes, rp_id: str) -> None:
    try:
        said = json.loads(client.decode(), object_pairs_hook=_unique)
        kind, origin, challenge = said["type"], text_of(said["origin"]), base64url_of(said["challenge"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Bad("the client data of its passkey cannot be read") from None
    if kind != "webauthn.get" or said.get("crossOrigin", False) is not False:
        raise Bad("its passkey was given another challenge")
    if challenge != hashlib.sha256(_CHALLENGE_DOMAIN + statement).digest():
        raise Bad("its passkey signed something else than its statement")
    match = re.fullmatch(r"(https?)://([^/:@?#]+)(:[0-9]{1,5})?", origin)
    is_ours = match is not None and (match[2] == rp_id or match[2].endswith(f".{rp_id}"))
    if match is None or not is_ours or (match[1] == "http" and rp_id != "localhost"):
        raise Bad("its passkey was used at another address")


def _passkey_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Verify a signature by EdDSA over Ed25519 or ES256 over P-256; the key's bytes select the algorithm, and no other
    is accepted.
    """
    try:
        if public_key.startswith(_ED25519) and len(public_key) == 42:
            Ed25519PublicKey.from_public_bytes(public_key[10:]).verify(signature, message)
        elif public_key.startswith(_P256_X) and len(public_key) == 77 and public_key[42:45] == _P256_Y:
            point = b"\x04" + public_key[10:42] + public_key[45:]
            key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        else:
            return False
    except (InvalidSignature, ValueError):
        return False
    return True


# The zip file

_NAMES = re.compile(
    r"manifest\.json|README\.txt|verify_bundle\.py|(?:keys|replay|proof)\.json|events/[0-9]{6}\.jsonl"
    r"|checkpoints/(0|[1-9][0-9]{0,15})|consistency/[1-9][0-9]{0,15}\.json"
    r"|timestamps/[1-9][0-9]{0,15}-[0-9]{1,3}\.tsr|tables/[0-9]{6}\.(?:csv|parquet)"
)


class Bundle:
    """A zip file that holds its named members, one after another, and nothing else."""

    def __init__(self, file: BinaryIO) -> None:
        end = _directory(file)
        self._zip = zipfile.ZipFile(file)
        infos = self._zip.infolist()
        self.infos = {info.filename: info for info in infos}
        if len(self.infos) != len(infos):
            raise Malformed("a member stands twice")
        place = 0
        for info in infos:
            _check_member(info)
            place = _next_member(file, info, place)
        if place != end:
            raise Malformed("there are bytes between the members and the directory")
        if sum(info.file_size for info in infos) > MAX_TOTAL:
            raise Malformed("it is larger than the limit")
        self.files = self._manifest()

    def _manifest(self) -> dict[str, tuple[int, bytes]]:
        if not self.infos or next(iter(self.infos)) != "manifest.json":
            raise Malformed("it does not begin with its manifest")
        try:
            self.manifest = Manifest(strict(self._all("manifest.json", MAX_MANIFEST)))
        except Bad as problem:
            raise Malformed(f"the manifest cannot be read: {problem}") from None
        listed, held = self.manifest.files, [name for name in self.infos if name != "manifest.json"]
        if list(listed) != held:
            raise Malformed("the manifest does not list exactly the members that are there")
        return listed

    def names(self, folder: str) -> list[str]:
        return [name for name in self.files if name.startswith(f"{folder}/")]

    def read(self, name: str) -> bytes:
        """A small member, checked against the manifest."""
        if name not in self.files:
            raise Malformed(f"{name} is missing")
        data = self._all(name, MAX_SMALL)
        self._check(name, len(data), hashlib.sha256(data))
        return data

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a member, one in memory at a time; at its end it must match the manifest."""
        size, digest = 0, hashlib.sha256()
        with self._zip.open(name) as file:
            while line := file.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE or not line.endswith(b"\n"):
                    raise Malformed(f"{name} has a line that is too long or unterminated")
                size += len(line)
                digest.update(line)
                yield line
        self._check(name, size, digest)

    def skim(self, name: str) -> None:
        """Read a member only to compare it with the manifest."""
        size, digest = 0, hashlib.sha256()
        with self._zip.open(name) as file:
            while data := file.read(1 << 20):
                size += len(data)
                digest.update(data)
        self._check(name, size, digest)

    def _all(self, name: str, most: int) -> bytes:
        with self._zip.open(name) as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise Malformed(f"{name} is too big")
        return data

    def _check(self, name: str, size: int, digest: Any) -> None:
        if self.files[name] != (size, digest.digest()):
            raise Malformed(f"{name} does not match the manifest")


def _directory(file: BinaryIO) -> int:
    """Return the offset of the directory, which must be the last thing in the file and of a readable size."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(length - 22, 0))
    tail = file.read(22)
    if len(tail) != 22 or tail[:4] != b"PK\x05\x06" or tail[4:8] != b"\0\0\0\0" or tail[20:] != b"\0\0":
        raise Malformed("it is no zip file, or something follows it")
    count, size, start = (int.from_bytes(tail[at : at + n], "little") for at, n in ((10, 2), (12, 4), (16, 4)))
    end = length - 22
    if count == 0xFFFF or 0xFFFFFFFF in (size, start):
        file.seek(max(end - 76, 0))
        record = file.read(76)
        if len(record) != 76 or record[:4] != b"PK\x06\x06" or record[56:60] != b"PK\x06\x07":
            raise Malformed("its directory cannot be found")
        end -= 76
        count, size, start = (int.from_bytes(record[at : at + 8], "little") for at in (32, 40, 48))
    if count > MAX_MEMBERS or size > MAX_DIRECTORY or start + size != end:
        raise Malformed("its directory is too big, or not where it says")
    return start


def _check_member(info: zipfile.ZipInfo) -> None:
    if _NAMES.fullmatch(info.filename) is None or info.filename != info.orig_filename:
        raise Malformed(f"a bundle cannot have a member named {shown(info.filename, 80)}")
    if info.flag_bits & ~0x0800 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Malformed(f"{info.filename} uses a compression that is not accepted here")
    if info.file_size > MAX_MEMBER:
        raise Malformed(f"{info.filename} is too big")
    if info.file_size > FREE_RATIO and info.file_size > MAX_RATIO * info.compress_size:
        raise Malformed(f"{info.filename} expands too much when unpacked")
    if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
        raise Malformed(f"{info.filename} has two sizes")


def _next_member(file: BinaryIO, info: zipfile.ZipInfo, place: int) -> int:
    """The offset at which the next member must begin; members may neither overlap nor leave gaps."""
    file.seek(place)
    header = file.read(30)
    names, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    if info.header_offset != place or len(header) != 30 or header[:4] != b"PK\x03\x04":
        raise Malformed("its members do not follow one another")
    return place + 30 + names + extra + info.compress_size


class Manifest:
    """The bundle's own table of contents, and claims that the rest must support."""

    def __init__(self, value: Any) -> None:
        if isinstance(value, dict) and value.get("format") == FORMAT:
            version = value.get("version")
            # In Python true is 1.
            if version != VERSION or version is True:
                raise Unknown(f"the bundle is of version {shown(str(version), 20)}")
        said = members(value, "format", "version", "origin", "from", "to", "withheld", "request", "files")
        if said["format"] != FORMAT:
            raise Bad("it is not a bundle of this kind")
        self.origin = text_of(said["origin"])
        self.start, self.end, self.withheld = (number(said[name]) for name in ("from", "to", "withheld"))
        if self.start >= self.end:
            raise Bad("its range is empty")
        self.request = members(
            said["request"], "id", "event", "by", "at", "from", "to", "filters", "format", "payloads"
        )
        if not isinstance(self.request["filters"], dict) or type(self.request["payloads"]) is not bool:
            raise Bad("its request has no filters")
        if not isinstance(said["files"], list):
            raise Bad("it lists no members")
        rows = [members(row, "name", "size", "sha256") for row in said["files"]]
        self.files = {text_of(row["name"]): (number(row["size"]), digest_of(row["sha256"])) for row in rows}
        if len(self.files) != len(rows):
            raise Bad("it lists a member twice")

    @property
    def is_filtered(self) -> bool:
        return bool(self.request["filters"])


# Envelopes: what is hashed

_ENVELOPE = {
    *("v", "origin", "id", "kind", "subject", "seq", "prev"),
    *("from", "to", "actor", "at", "causation", "digests", "commitments"),
}
_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")


def read_envelope(data: bytes) -> dict[str, Any]:
    """An event's envelope, every member of the form that it must have."""
    value = strict(data)
    if not isinstance(value, dict) or "v" not in value:
        raise Bad("it is not an envelope")
    if value["v"] != 1 or type(value["v"]) is not int:
        raise Unknown(f"its envelope is of version {shown(str(value['v']), 20)}")
    if value.keys() != _ENVELOPE or canonical(value) != data:
        raise Bad("its envelope is not in canonical form")
    for name in ("origin", "id", "kind", "from", "to", "at"):
        text_of(value[name])
    for name in ("subject", "actor"):
        pair = members(value[name], "kind", "id")
        text_of(pair["kind"]), text_of(pair["id"])
    _check_place(value)
    _check_promises(value)
    return value


def _check_place(value: dict[str, Any]) -> None:
    if number(value["seq"]) < 1 or (value["seq"] == 1) != (value["prev"] is None):
        raise Bad("its envelope has no place among those of its subject")
    if value["prev"] is not None:
        digest_of(value["prev"])
    if value["causation"] is not None:
        text_of(value["causation"])
    if _AT.fullmatch(value["at"]) is None:
        raise Bad("its envelope has no time")
    try:
        datetime.fromisoformat(value["at"])
    except ValueError:
        raise Bad("its envelope has no time") from None


def _check_promises(value: dict[str, Any]) -> None:
    if not isinstance(value["digests"], dict) or not isinstance(value["commitments"], list):
        raise Bad("its envelope has no commitments")
    for each in value["digests"].values():
        digest_of(each)
    for each in value["commitments"]:
        members(each, "purpose", "pointer", "length", "digest")
        text_of(each["purpose"]), number(each["length"]), digest_of(each["digest"])
        if each["pointer"] is not None:
            text_of(each["pointer"])


def keeps(promise: dict[str, Any], salt: bytes, data: bytes) -> bool:
    """Return whether these are the bytes that an envelope committed to."""
    tag = b"counterfoil/commitment/1\x00" + promise["purpose"].encode() + b"\x00"
    digest = hashlib.sha256(tag + salt + len(data).to_bytes(8) + data).hexdigest()
    return len(salt) == 32 and len(data) == promise["length"] and digest == promise["digest"]


# Subjects: which state may follow which, and on what grounds

MACHINES = {
    "action": """
        >PROPOSED PROPOSED>VALIDATED|FAILED VALIDATED>EXECUTING|FAILED|REVIEW_REQUIRED
        EXECUTING>ACCEPTED|PENDING|COMMITTED|FAILED|UNKNOWN|ROLLED_BACK ACCEPTED>PENDING|FAILED|UNKNOWN
        PENDING>COMMITTED|FAILED|VERIFICATION_TIMEOUT|UNKNOWN
        COMMITTED>PARTIALLY_COMMITTED|RECONCILED_SUCCESS|RECONCILIATION_FAILED
        PARTIALLY_COMMITTED>COMPENSATING|FORWARD_RECOVERY|REVIEW_REQUIRED
        RECONCILIATION_FAILED>FAILED|COMPENSATING|FORWARD_RECOVERY|ROLLED_BACK|REVIEW_REQUIRED
        FAILED>PROPOSED|VALIDATED
        VERIFICATION_TIMEOUT>UNKNOWN|COMPENSATING|FORWARD_RECOVERY|REVIEW_REQUIRED
        UNKNOWN>PENDING|RECONCILED_SUCCESS|RECONCILIATION_FAILED|REVIEW_REQUIRED
        COMPENSATING>COMPENSATED|COMPENSATION_FAILED|REVIEW_REQUIRED COMPENSATION_FAILED>REVIEW_REQUIRED
        FORWARD_RECOVERY>RECONCILED_SUCCESS|FAILED|REVIEW_REQUIRED
        REVIEW_REQUIRED>VALIDATED|PENDING|RECONCILED_SUCCESS|RECONCILIATION_FAILED|FAILED|COMPENSATING
        REVIEW_REQUIRED>FORWARD_RECOVERY|ABANDONED
    """,
    "tenant": ">ACTIVE",
    "member": ">ACTIVE ACTIVE>REMOVED REMOVED>ACTIVE",
    "credential": ">ISSUED ISSUED>REVOKED",
    "agent": ">REGISTERED REGISTERED>REVOKED REVOKED>REGISTERED",
    "executor": ">REGISTERED REGISTERED>REVOKED REVOKED>REGISTERED",
    "system": ">REGISTERED",
    "contract": ">REGISTERED|PENDING PENDING>REGISTERED|DECLINED REGISTERED>RETIRED|ROLLED_BACK",
    "policy": ">ACTIVE|CANARY CANARY>ACTIVE|WITHDRAWN ACTIVE>SUPERSEDED SUPERSEDED>ACTIVE",
    "release": """
        >DRAFT DRAFT>CHECKED|READY|WITHDRAWN CHECKED>DRAFT|CANARY|READY|WITHDRAWN CANARY>READY|STOPPED
        READY>DRAFT|PROMOTED|STOPPED|WITHDRAWN PROMOTED>ROLLED_BACK
    """,
    "session": ">OPEN OPEN>CLOSED",
    "approval": """
        >PREPARING|REQUESTED|APPROVED PREPARING>REQUESTED|APPROVED|EXPIRED|VOIDED
        REQUESTED>APPROVED|EXPIRED|REJECTED|VOIDED APPROVED>EXPIRED|VOIDED|CONSUMED
    """,
    "standing_approval": """
        >PROPOSED|ACTIVE PROPOSED>ACTIVE|DECLINED|ENDED ACTIVE>PAUSED|ENDED PAUSED>PROPOSED|ENDED
    """,
    "approver_key": ">PENDING PENDING>ACTIVE|REFUSED ACTIVE>SUSPENDED SUSPENDED>ACTIVE|REMOVED",
    "alert_rule": ">ACTIVE ACTIVE>ENDED",
    "alert": ">RAISED RAISED>CLEARED",
    "event_destination": ">ACTIVE ACTIVE>ENDED",
    "price": ">ACTIVE ACTIVE>ENDED",
    "cost_budget": ">ACTIVE ACTIVE>ENDED",
    "delegation": ">ACTIVE ACTIVE>ENDED",
    "absence": ">ACTIVE ACTIVE>ENDED",
    "emergency": ">USED USED>REVIEWED",
    "freeze": ">PLACED PLACED>LIFTED",
    "case": ">OPEN OPEN>AWAITING_SECOND|RESOLVED AWAITING_SECOND>OPEN|RESOLVED RESOLVED>OPEN",
    "claim": """
        >OPEN OPEN>VERIFIED|DIFFERENT|ABSENT|UNKNOWN VERIFIED>DIFFERENT|ABSENT DIFFERENT>VERIFIED|ABSENT
        ABSENT>VERIFIED|DIFFERENT UNKNOWN>VERIFIED|DIFFERENT|ABSENT
    """,
    "batch": ">RUNNING RUNNING>CANCELLED|DONE|PAUSED PAUSED>RUNNING|CANCELLED",
    "log": ">OPEN OPEN>CLOSED",
    "erasure": ">REQUESTED REQUESTED>CONFIRMED|REFUSED|WITHDRAWN CONFIRMED>WITHDRAWN|REFUSED|DONE",
    "hold": ">PLACED PLACED>LIFTED",
    "retention": ">PROPOSED PROPOSED>ACTIVE|WITHDRAWN ACTIVE>SUPERSEDED",
    "integrity": ">RUNNING RUNNING>HELD|BROKEN|PAUSED|CANCELLED PAUSED>RUNNING|CANCELLED",
    "incident": ">OPEN OPEN>CLOSED CLOSED>OPEN",
    "unwinding": ">OPEN OPEN>DONE|STUCK STUCK>OPEN",
    "export": ">REQUESTED REQUESTED>FINISHED|FAILED",
    "recording": ">IMPORTED",
}
NEEDS = {
    "VALIDATED>EXECUTING": "released",
    "EXECUTING>COMMITTED": "decisive_read",
    "EXECUTING>FAILED": "nothing_sent",
    "EXECUTING>ROLLED_BACK": "local_unchanged",
    "ACCEPTED>FAILED": "decisive_read no_effect_no_claim",
    "PENDING>COMMITTED": "decisive_read effect_or_claim",
    "PENDING>FAILED": "decisive_read no_effect_no_claim",
    "COMMITTED>RECONCILED_SUCCESS": "predicates_hold",
    "COMMITTED>PARTIALLY_COMMITTED": "split_effects",
    "UNKNOWN>RECONCILED_SUCCESS": "predicates_hold",
    "RECONCILIATION_FAILED>FAILED": "no_effect_remains",
    "RECONCILIATION_FAILED>ROLLED_BACK": "local_unchanged",
    "FORWARD_RECOVERY>RECONCILED_SUCCESS": "predicates_hold",
    "FORWARD_RECOVERY>FAILED": "no_effect_remains",
    "COMPENSATING>COMPENSATED": "compensation_verified",
    "FAILED>VALIDATED": "retry_allowed",
    "FAILED>PROPOSED": "retry_allowed",
    "REVIEW_REQUIRED>VALIDATED": "nothing_executed reason_and_evidence",
    "REVIEW_REQUIRED>PENDING": "reason_and_evidence",
    "REVIEW_REQUIRED>RECONCILED_SUCCESS": "predicates_hold reason_and_evidence",
    "REVIEW_REQUIRED>RECONCILIATION_FAILED": "reason_and_evidence",
    "REVIEW_REQUIRED>COMPENSATING": "reason_and_evidence",
    "REVIEW_REQUIRED>FORWARD_RECOVERY": "reason_and_evidence",
    "REVIEW_REQUIRED>FAILED": "no_effect_remains reason_and_evidence",
    "REVIEW_REQUIRED>ABANDONED": "discrepancy_recorded reason_and_evidence",
}
# A tool that only reads has no effect to read back: the checks of its answer stand for a reading.
STANDS_FOR = {"decisive_read": "changes_nothing"}
READS = {"side_effect_class": "READ_ONLY"}


def steps(text: str) -> frozenset[tuple[str, str]]:
    """The pairs of states that a line of `MACHINES` allows."""
    rules = (rule.split(">") for rule in text.split())
    return frozenset((start, target) for start, targets in rules for target in targets.split("|"))


_STEPS = {kind: steps(text) for kind, text in MACHINES.items()}
_STATES = {kind: frozenset(target for _, target in pairs) for kind, pairs in _STEPS.items()}


class Memory:
    """The facts to remember about subjects: the newest in memory, the rest, however many, in a temporary file."""

    def __init__(self) -> None:
        self._near: dict[str, dict[str, Any]] = {}
        self._far: sqlite3.Connection | None = None

    def get(self, key: str) -> dict[str, Any] | None:
        if key in self._near or self._far is None:
            return self._near.get(key)
        row = self._far.execute("SELECT value FROM kept WHERE key = ?", [key]).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def put(self, key: str, value: dict[str, Any]) -> None:
        self._near[key] = value
        if len(self._near) < IN_MEMORY:
            return
        if self._far is None:
            # An empty name is a file that SQLite makes for this connection alone and removes with it.
            self._far = sqlite3.connect("")
            self._far.execute("CREATE TABLE kept (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        rows = ((key, json.dumps(value)) for key, value in self._near.items())
        self._far.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", rows)
        self._near.clear()


@dataclass
class Seen:
    """One event, opened as far as the bundle opens it."""

    index: int
    envelope: dict[str, Any]
    hash: str
    opened: dict[str, bytes]
    promised: frozenset[str]

    def document(self, purpose: str) -> dict[str, Any] | None:
        """Return the event's own entry or detail; None if it is not disclosed, empty if there never was one."""
        if purpose not in self.opened:
            return None if purpose in self.promised else {}
        try:
            value = strict(self.opened[purpose])
        except Bad:
            return {}
        return value if isinstance(value, dict) else {}


def _hours_between(start: Any, end: Any) -> float | None:
    """The hours between two instants of a record; None where one of them is none."""
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() / 3600
    except (TypeError, ValueError):
        return None


def _is_before(at: Any, end: Any) -> bool:
    """Return whether an instant is before the end, where there is an end."""
    hours = _hours_between(at, end)
    return end is None or (hours is not None and hours > 0)


class Subjects:
    """The events of each subject, followed one after another."""

    def __init__(self, report: Report, start: int) -> None:
        self.report = report
        self.unseen = start
        self.is_second = False
        self.memory = Memory()
        self.seen: Counter[str] = Counter()

    def follow(self, seen: Seen) -> None:
        envelope = seen.envelope
        kind = envelope["subject"]["kind"]
        if kind not in _STEPS:
            self._find(seen, f"this verifier does not know subjects of the kind {shown(kind, 40)}", Verdict.UNKNOWN)
            return
        key = f"{kind}/{envelope['subject']['id']}"
        before = self.memory.get(key)
        gap = self._chain(seen, before)
        after = {
            **((before or {}) if gap == 0 else {}),
            "seq": envelope["seq"],
            "state": envelope["to"],
            "hash": seen.hash,
            "unseen": self.unseen,
        }
        self._step(seen, kind)
        if kind == "action":
            self._action(seen, after, is_whole=gap == 0)
        if kind == "approval":
            self._approval(seen, after)
        if kind in ("action", "case"):
            self._settlement(seen, after, is_whole=gap == 0)
        if kind in ("erasure", "retention"):
            self._decision(seen, after)
        if kind == "approver_key":
            self._signing_key(seen, after)
        if kind == "standing_approval":
            self._standing_approval(seen, after)
        if kind == "log" and envelope["kind"] == "restored":
            self.is_second = True
        self.seen["subjects"] += before is None
        self.memory.put(key, after)

    def _chain(self, seen: Seen, before: dict[str, Any] | None) -> int:
        """Count the unseen events of the subject between this one and the one seen before."""
        envelope = seen.envelope
        last = before or {"seq": 0, "unseen": 0, "hash": None, "state": ""}
        gap: int = envelope["seq"] - last["seq"] - 1
        room = self.unseen - last["unseen"]
        if gap < 0:
            self._find(seen, "its subject was already past it")
        elif gap > room and not (before is None and self.is_second):
            self._find(seen, f"event {last['seq'] + 1} of its subject is missing before it")
        elif gap == 0 and envelope["prev"] != last["hash"]:
            self._find(seen, "it does not continue the event of its subject before it")
        elif gap == 0 and envelope["from"] != last["state"]:
            self._find(seen, "it starts from a state in which its subject was not")
        return gap

    def _step(self, seen: Seen, kind: str) -> None:
        envelope = seen.envelope
        start, target = envelope["from"], envelope["to"]
        stays = start == target and start in _STATES[kind]
        if (not stays and (start, target) not in _STEPS[kind]) or (start == "") != (envelope["seq"] == 1):
            self._find(seen, f"from {shown(start) or 'nothing'} to {shown(target)} is no step of a {kind}")
        if kind != "action" or stays:
            return
        if start == "REVIEW_REQUIRED" and envelope["actor"]["kind"] != "person":
            self._find(seen, "only a person takes an action out of review")
        detail = seen.document("detail")
        if detail is None:
            return
        grounds = detail.get("grounds")
        named = set(map(str, grounds)) if isinstance(grounds, list) else set()
        if "changes_nothing" in named and (seen.document("entry") or READS).get("side_effect_class") != "READ_ONLY":
            self._find(seen, "it says that it changes nothing, but its tool can change something")
        needs = set(NEEDS.get(f"{start}>{target}", "").split())
        missing = {need for need in needs - named if STANDS_FOR.get(need) not in named}
        if missing:
            self._find(seen, f"its step needs grounds that it does not name: {', '.join(sorted(missing))}")

    def _action(self, seen: Seen, after: dict[str, Any], *, is_whole: bool) -> None:
        envelope = seen.envelope
        if envelope["seq"] == 1:
            brought = (each["digest"] for each in envelope["commitments"] if each["purpose"] == "agent_evidence")
            after |= {"attempts": 0, "minted": "", "evidence": next(brought, "")}
        if envelope["kind"] == "grant_minted":
            after["minted"] = (seen.document("detail") or {}).get("jti")
        entry = seen.document("entry")
        if entry and entry.get("action_id") != envelope["subject"]["id"]:
            self._find(seen, "its entry is about another action")
        if envelope["to"] != "EXECUTING" or envelope["from"] == "EXECUTING":
            return
        if envelope["kind"] != "execution_started" or envelope["actor"]["kind"] != "executor":
            self._find(seen, "an action begins to execute without an executor that starts it")
        self.seen["starts"] += 1
        detail = seen.document("detail")
        if detail is not None:
            self._check_grant(seen, detail, after if is_whole else {})
            after["attempts"] = detail.get("attempt")
        if entry:
            self._check_approval(seen, entry)

    def _check_grant(self, seen: Seen, detail: dict[str, Any], after: dict[str, Any]) -> None:
        """Check that each start uses a grant of its own, the last one minted for it, and is the next attempt."""
        grant, attempts = detail.get("jti"), after.get("attempts")
        if type(grant) is not str or not grant:
            self._find(seen, "it starts without a grant")
            return
        if self.memory.get(f"grant/{grant}") is not None:
            self._find(seen, "its grant was spent before")
        elif type(after.get("minted")) is str and after["minted"] != grant:
            self._find(seen, "its grant is not the one that was minted for it last")
        self.memory.put(f"grant/{grant}", {})
        if type(attempts) is int and detail.get("attempt") != attempts + 1:
            self._find(seen, f"its attempt is not number {attempts + 1}")

    def _check_approval(self, seen: Seen, entry: dict[str, Any]) -> None:
        """Check that a start that needs an approval consumed one just before, for this action and this payload."""
        said = entry.get("approval")
        if not isinstance(said, dict) or said.get("required") is not True:
            return
        key = f"approval/{said.get('approval_id')}"
        approval = self.memory.get(key)
        is_sure = self.unseen == 0 and not self.is_second
        if approval is None or approval.get("for") is None:
            if is_sure:
                self._find(seen, "it starts without an approval that was consumed for it")
            self.seen["starts whose approval is not visible"] += not is_sure
            return
        if approval["for"] != seen.envelope["subject"]["id"] or approval.get("spent"):
            self._find(seen, "its approval was consumed for something else")
        elif approval.get("payload_hash") not in (None, said.get("payload_hash")):
            self._find(seen, "its approval is of another payload")
        self.memory.put(key, {**approval, "spent": True})

    def _approval(self, seen: Seen, after: dict[str, Any]) -> None:
        envelope = seen.envelope
        kind, detail = envelope["kind"], seen.document("detail") or {}
        if kind == "approval_requested":
            after["payload_hash"] = detail.get("payload_hash")
        if kind == "approval_consumed":
            after |= {"for": detail.get("action_id"), "spent": False}
        is_vote = envelope["actor"]["kind"] == "person" and kind in ("approved", "break_glass_used")
        if envelope["to"] == "APPROVED" != envelope["from"] and kind == "standing_approval_passed":
            self._check_standing(seen, detail)
        elif envelope["to"] == "APPROVED" != envelope["from"] and not is_vote:
            self._find(seen, "only the vote of a person approves")
        if "statement" in seen.opened:
            self._check_statement(seen, detail, after)

    def _check_standing(self, seen: Seen, detail: dict[str, Any]) -> None:
        """Check that an action that passes without votes rests on a standing approval that was in force."""
        resting = self.memory.get(f"standing_approval/{detail.get('standing_approval_id')}")
        if resting is not None:
            if resting["state"] != "ACTIVE":
                self._find(seen, "it passed under a standing approval that was not in force")
            elif not _is_before(seen.envelope["at"], resting.get("until")):
                self._find(seen, "it passed under a time-boxed pass that was over")
        elif detail and self.unseen == 0 and not self.is_second:
            self._find(seen, "it passed under a standing approval that is not there")
        else:
            self.seen["passes whose standing approval is not visible"] += 1

    def _standing_approval(self, seen: Seen, after: dict[str, Any]) -> None:
        """Check that two persons agreed to a standing approval: the proposer does not put it in force.

        One that is in force from its first event is a time-boxed pass.
        """
        envelope, detail = seen.envelope, seen.document("detail") or {}
        who = (envelope["actor"]["kind"], envelope["actor"]["id"], detail.get("person"))
        if envelope["seq"] == 1 and envelope["to"] == "ACTIVE":
            self._time_box(seen, after)
        elif after.get("is_time_boxed"):
            if envelope["to"] == "PROPOSED":
                self._find(seen, "a time-boxed pass is never resumed")
            if envelope["kind"] == "standing_approval_used":
                self._check_time_box_used(seen, detail, after)
        elif envelope["to"] == "PROPOSED" != envelope["from"]:
            after["proposer"] = who
        elif envelope["to"] == "ACTIVE" != envelope["from"]:
            proposer = after.get("proposer") or ("", "", None)
            same = who[1] == proposer[1] or (who[2] is not None and who[2] == proposer[2])
            if who[0] != "person" or same:
                self._find(seen, "a standing approval takes two persons")

    def _time_box(self, seen: Seen, after: dict[str, Any]) -> None:
        """Check that a person gave a time-boxed pass, for an hour at most and a number of calls."""
        envelope, detail = seen.envelope, seen.document("detail")
        after |= {"is_time_boxed": True, "used": 0}
        if envelope["kind"] != "time_boxed_pass_given" or envelope["actor"]["kind"] != "person":
            self._find(seen, "a standing approval begins as a proposal, or as the time-boxed pass of a person")
        if detail is None:
            return
        until, most = detail.get("ends_at"), detail.get("max_count")
        hours = _hours_between(envelope["at"], until)
        if hours is None or not 0 < hours <= 1:
            self._find(seen, "a time-boxed pass lasts for an hour at most")
        if type(most) is not int or most < 1:
            self._find(seen, "a time-boxed pass is for a number of calls")
        after |= {"until": until, "most": most}

    def _check_time_box_used(self, seen: Seen, detail: dict[str, Any], after: dict[str, Any]) -> None:
        """Check that no more pass under a time-boxed pass than it allows, and none after its end."""
        after["used"] += 1
        most = after.get("most")
        if type(most) is int and after["used"] > most:
            self._find(seen, "more passed under a time-boxed pass than it allows")
        if not _is_before(seen.envelope["at"], after.get("until")):
            self._find(seen, "it passed under a time-boxed pass that was over")

    def _check_statement(self, seen: Seen, detail: dict[str, Any], after: dict[str, Any]) -> None:
        """Check that the voter's signed statement concerns this request and is by this person."""
        data = seen.opened["statement"]
        self.seen["votes"] += 1
        try:
            statement = strict(data)
            covers, vote = statement["covers"], statement["vote"]
            about = covers["approval_id"], covers["payload_hash"], vote["voter"]
        except (Bad, KeyError, TypeError):
            self._find(seen, "the statement of its vote cannot be read")
            return
        hashed = detail.get("statement_hash")
        payload = after.get("payload_hash") or about[1]
        if hashed is not None and hashed != hashlib.sha256(data).hexdigest():
            self._find(seen, "the statement of its vote is not the one it names")
        elif about != (seen.envelope["subject"]["id"], payload, seen.envelope["actor"]["id"]):
            self._find(seen, "the statement of its vote is about something else")
        elif statement.get("version") != 1:
            self._check_proof(seen, detail, statement, data)

    def _check_proof(self, seen: Seen, detail: dict[str, Any], statement: dict[str, Any], data: bytes) -> None:
        """Check the proof that the statement names, and the signature of a passkey over it."""
        try:
            if statement["version"] not in (2, 3, 4):
                raise Unknown("the statement of its vote is of a version that this verifier does not know")
            if statement["version"] >= 3:
                self._check_evidence(statement["covers"])
            vote = statement["vote"]
            if statement["version"] == 4 and type(vote["without_reading"]) is not bool:
                raise Bad("the statement of its vote does not say whether its target had been read")
            proof = text_of(vote["evidence_class"])
            if detail and detail.get("evidence_class") != proof:
                raise Bad("its vote and its statement name different proofs")
            _check_reason(detail, vote)
            self._check_head(seen, vote)
            if proof == "A":
                self._check_signature(seen, vote, text_of(vote["voter"]), data)
            else:
                self.seen["votes without a signature"] += 1
        except Unknown as problem:
            self.report.find("signatures", Verdict.UNKNOWN, str(problem), seen.index)
        except Bad as problem:
            self.report.find("signatures", Verdict.BROKEN, str(problem), seen.index)
        except (KeyError, TypeError, AttributeError):
            self.report.find("signatures", Verdict.BROKEN, "the proof of its vote cannot be read", seen.index)

    def _check_evidence(self, covers: dict[str, Any]) -> None:
        """Check that the voter was shown the evidence that the agent sent; statements from version 3 on name it."""
        named = text_of(covers["evidence_commitment"])
        action = self.memory.get(f"action/{text_of(covers['action_id'])}") or {}
        if action.get("evidence", named) != named:
            raise Bad("the statement of its vote names other evidence than its action was proposed with")

    def _settlement(self, seen: Seen, after: dict[str, Any], *, is_whole: bool) -> None:
        """Check the signed statement of a settlement: about this case and this record, by this person."""
        data, detail = seen.opened.get("statement"), seen.document("detail") or {}
        hashed = detail.get("statement_hash") if "words_salt" in detail else None
        try:
            if any(each["purpose"] == "statement" for each in seen.envelope["commitments"]):
                after["signed"] = hashed
            elif is_whole and hashed not in (None, after.get("signed")) and seen.envelope["kind"] != "case_resolved":
                # A settlement may take two events; the statement stands with the first, and a case's end names it.
                raise Bad("the statement of its settlement is missing")
            if data is not None:
                self._check_settlement(seen, data)
        except Unknown as problem:
            self.report.find("signatures", Verdict.UNKNOWN, str(problem), seen.index)
        except Bad as problem:
            self.report.find("signatures", Verdict.BROKEN, str(problem), seen.index)
        except (KeyError, TypeError, AttributeError):
            self.report.find("signatures", Verdict.BROKEN, "the statement of its settlement cannot be read", seen.index)

    def _check_settlement(self, seen: Seen, data: bytes) -> None:
        self.seen["settlements"] += 1
        detail, envelope = seen.document("detail") or {}, seen.envelope
        statement = members(strict(data), "domain", "version", "type", "covers", "settlement")
        covers, said = statement["covers"], statement["settlement"]
        if (statement["domain"], statement["version"], statement["type"]) != _SETTLEMENT:
            raise Unknown("the statement of its settlement is of a version that this verifier does not know")
        if detail and detail.get("statement_hash") != hashlib.sha256(data).hexdigest():
            raise Bad("the statement of its settlement is not the one it names")
        _check_about(envelope, detail, seen.document("entry") or {}, covers, said)
        _check_words(detail, said)
        self._check_head(seen, said)
        if "proposal" in seen.opened:
            _check_proposal(detail, covers, said, seen.opened["proposal"])
        elif detail.get("confirmed_by"):
            self.seen["settlements whose proposal is not disclosed"] += 1
        if said["evidence_class"] == "A":
            self._check_signature(seen, said, text_of(said["by"]), data)
        else:
            self.seen["settlements without a signature"] += 1

    def _check_head(self, seen: Seen, vote: dict[str, Any]) -> None:
        """Check that no statement covers more of the log than there was."""
        if number(vote["log_size"]) > seen.index and not self.is_second:
            raise Bad("its voter saw a log that was longer than it was")

    def _check_signature(self, seen: Seen, vote: dict[str, Any], signer: str, data: bytes) -> None:
        """The signature of a passkey, by the key that was enrolled for its signer and was active when it signed."""
        if "assertion" not in seen.opened:
            if not any(each["purpose"] == "assertion" for each in seen.envelope["commitments"]):
                raise Bad("a passkey is said to have signed its vote, and there is no signature")
            self.seen["passkey signatures not disclosed"] += 1
            return
        said = members(strict(seen.opened["assertion"]), "version", "assertion", "key")
        assertion = members(said["assertion"], "id", "clientDataJSON", "authenticatorData", "signature")
        key = members(said["key"], "id", "credential_id", "public_key")
        names = {text_of(assertion["id"]), text_of(key["credential_id"]), text_of(vote["credential_id"])}
        if len(names) != 1:
            raise Bad("its vote was signed by another passkey than its statement names")
        self._check_key(key, signer)
        check_passkey(base64url_of(key["public_key"]), assertion, data, text_of(vote["rp_id"]))
        self.seen["passkey signatures"] += 1

    def _check_key(self, key: dict[str, Any], voter: str) -> None:
        """Check that the key was enrolled for the voter, and was allowed to sign at that time."""
        known = self.memory.get(f"approver_key/{text_of(key['id'])}")
        if known is None or "public_key" not in known:
            if self.unseen == 0 and not self.is_second:
                raise Bad("its passkey was never enrolled")
            self.seen["passkeys whose enrolment is not visible"] += 1
            return
        if (known["public_key"], known["credential_id"]) != (key["public_key"], key["credential_id"]):
            raise Bad("its passkey is not the one that was enrolled")
        if known["holder"] != voter:
            raise Bad("its passkey is somebody else's")
        if known["state"] != "ACTIVE":
            raise Bad("its passkey was not active then")

    def _signing_key(self, seen: Seen, after: dict[str, Any]) -> None:
        """Check that a key signs only after a person other than its holder has approved it."""
        kind, detail = seen.envelope["kind"], seen.document("detail")
        if kind == "key_enrolled" and detail:
            after |= {name: detail.get(name) for name in ("holder", "person", "credential_id", "public_key")}
            if seen.envelope["actor"]["id"] != detail.get("holder"):
                self._find(seen, "a passkey was enrolled by somebody other than its holder")
        if seen.envelope["to"] != "ACTIVE" or seen.envelope["from"] == "ACTIVE" or "holder" not in after:
            return
        another = seen.envelope["actor"]["id"] != after["holder"]
        if not another or (detail and detail.get("person") == after.get("person")):
            self._find(seen, "a passkey was not confirmed by a second person")

    def _decision(self, seen: Seen, after: dict[str, Any]) -> None:
        """Check that no person alone erases, or decides what is erased automatically."""
        actor, kind = seen.envelope["actor"], seen.envelope["kind"]
        if seen.envelope["seq"] == 1:
            after["asked_by"] = actor["id"]
        elif "asked_by" not in after:
            # What came before is not in the bundle, so nothing can be said against it.
            after["agreed"] = True
        if kind not in ("erasure_confirmed", "retention_confirmed"):
            return
        if actor["kind"] == "person" and actor["id"] != after.get("asked_by"):
            after["agreed"] = True
        elif kind == "retention_confirmed" or not self._has_agreed_policy(seen):
            self._find(seen, "it was not confirmed by a second person")

    def _has_agreed_policy(self, seen: Seen) -> bool:
        """Return whether an erasure rests on a policy in force that two people agreed on, as far as
        the bundle shows.
        """
        policy = (seen.document("detail") or {}).get("retention")
        known = self.memory.get(f"retention/{policy}")
        if known is None:
            return type(policy) is str and (self.unseen > 0 or self.is_second)
        return known["state"] == "ACTIVE" and known.get("agreed") is True

    def _find(self, seen: Seen, text: str, verdict: Verdict = Verdict.BROKEN) -> None:
        self.report.find("subjects", verdict, text, seen.index)


def _check_reason(detail: dict[str, Any], vote: dict[str, Any]) -> None:
    """Check that the recorded reason is the one that the statement committed to."""
    if not all(name in detail for name in ("reason", "reason_salt")):
        return
    reason, salt = text_of(detail["reason"]).encode(), bytes.fromhex(text_of(detail["reason_salt"]))
    promise = {"purpose": "reason", "length": len(reason), "digest": text_of(vote["reason_commitment"])}
    if not keeps(promise, salt, reason):
        raise Bad("the reason of its vote differs from the one that was signed")


def _check_about(
    envelope: dict[str, Any],
    detail: dict[str, Any],
    entry: dict[str, Any],
    covers: dict[str, Any],
    said: dict[str, Any],
) -> None:
    """Check that a settlement was signed about this case and this action, as its record was just before, by the person
    who made it.
    """
    is_action = envelope["subject"]["kind"] == "action"
    named = covers["action_id" if is_action else "case_id"], detail.get("case_id", covers["case_id"]), said["by"]
    if named != (envelope["subject"]["id"], covers["case_id"], envelope["actor"]["id"]):
        raise Bad("the statement of its settlement is about something else")
    requested = entry.get("requested_operation") or {}
    if requested.get("validated_payload_hash", covers["payload_hash"]) != covers["payload_hash"]:
        raise Bad("its settlement was signed over another payload")
    if is_action and (covers["record_seq"], covers["record_hash"]) != (envelope["seq"] - 1, envelope["prev"]):
        raise Bad("its settlement was signed on another state of the record than it was made on")
    if detail and (detail["resolution"], detail["evidence_class"]) != (said["resolution"], said["evidence_class"]):
        raise Bad("its settlement differs from its statement")


def _check_words(detail: dict[str, Any], said: dict[str, Any]) -> None:
    """Check that the recorded reason and evidence are those that the statement of a settlement committed to."""
    if not all(name in detail for name in ("reason", "evidence", "words_salt")):
        return
    words = canonical({"reason": detail["reason"], "evidence": detail["evidence"]})
    promise = {"purpose": "settlement", "length": len(words), "digest": text_of(said["words_commitment"])}
    if not keeps(promise, bytes.fromhex(text_of(detail["words_salt"])), words):
        raise Bad("the reason or the evidence of its settlement differs from what was signed")


def _check_proposal(detail: dict[str, Any], covers: dict[str, Any], said: dict[str, Any], first: bytes) -> None:
    """Check that a second, different person confirmed exactly what the first had signed."""
    statement = strict(first)
    proposed = statement["settlement"]
    if said["over"] != hashlib.sha256(first).hexdigest() or detail.get("proposal_hash", said["over"]) != said["over"]:
        raise Bad("its second person confirmed another proposal")
    if (statement["covers"], proposed["resolution"], proposed["act"]) != (covers, said["resolution"], "propose"):
        raise Bad("its second person confirmed something else than was proposed")
    if said["act"] != "confirm" or proposed["by"] != detail.get("by", proposed["by"]):
        raise Bad("its proposal is somebody else's")
    if proposed["person"] == said["person"] or proposed["by"] == said["by"]:
        raise Bad("its settlement was not confirmed by a second person")


class Erasures:
    """The claimed erasures, and the events that record who ordered them and their scope."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.unproven: Counter[str] = Counter()
        self.pruned: dict[str, tuple[int, int]] = {}
        self.told_pruned: dict[str, tuple[int, int]] = {}

    def claim_pruned(self, by: str, index: int) -> None:
        """Note the claim that the event of this index was pruned under the retention policy `by`."""
        self.pruned[by] = (self.pruned.get(by, (0, 0))[0] + 1, index)
        if len(self.pruned) > IN_MEMORY:
            raise Bad("it names too many policies")

    def tell_pruned(self, seen: Seen) -> None:
        """An event of a policy: how many events went under it, and from which index on all are there."""
        by, detail = seen.envelope["subject"]["id"], seen.document("detail") or {}
        count, highest = self.told_pruned.get(by, (0, 0))
        places = detail.get("whole_from")
        found = [each.get("index") for each in places if isinstance(each, dict)] if isinstance(places, list) else []
        events = detail.get("events")
        highest = max([highest, *(each for each in found if type(each) is int)])
        self.told_pruned[by] = (count + (events if type(events) is int else 0), highest)

    def count_unproven(self) -> int:
        """Count the items claimed as erased without an event of the bundle that shows it."""
        pruned = 0
        for by, (count, last) in self.pruned.items():
            told, highest = self.told_pruned.get(by, (0, 0))
            pruned += count if count > told or last >= highest else 0
        return sum(self.unproven.values()) + pruned

    def claim(self, envelope: dict[str, Any], by: str) -> None:
        """Note the claim that a payload of this event was removed by the erasure `by`."""
        place, seq = f"{by}/{envelope['subject']['id']}", envelope["seq"]
        told = self.memory.get(f"erased/{place}")
        if told is not None and told["upto"] >= seq:
            return
        claims = self.memory.get(f"claimed/{place}") or {"upto": 0, "count": 0}
        upto = max(claims["upto"], seq)
        self.memory.put(f"claimed/{place}", {"upto": upto, "count": claims["count"] + 1})
        self.unproven[by] += 1
        if len(self.unproven) > IN_MEMORY:
            raise Bad("it names too many erasures")

    def tell(self, seen: Seen) -> None:
        """An event of an erasure: which subjects it emptied, and up to which of their events."""
        by = seen.envelope["subject"]["id"]
        said = (seen.document("detail") or {}).get("subjects")
        for each in said if isinstance(said, list) else []:
            subject, upto = (each.get("id"), each.get("events")) if isinstance(each, dict) else (None, None)
            if type(subject) is not str or type(upto) is not int:
                continue
            self.memory.put(f"erased/{by}/{subject}", {"upto": upto})
            claims = self.memory.get(f"claimed/{by}/{subject}")
            if claims is not None and claims["upto"] <= upto:
                self.memory.put(f"claimed/{by}/{subject}", {"upto": 0, "count": 0})
                self.unproven[by] -= claims["count"]


_SIGNED = (
    "passkey signatures",
    "votes without a signature",
    "settlements without a signature",
    "settlements whose proposal is not disclosed",
    "passkey signatures not disclosed",
    "passkeys whose enrolment is not visible",
)

# The events, one line after another


class Walk:
    """One pass over the events of a bundle; memory does not grow with their number."""

    def __init__(self, bundle: Bundle, report: Report, left: Frontier, marks: set[int]) -> None:
        self.bundle, self.report, self.manifest = bundle, report, bundle.manifest
        self.computed = left
        self.stated: Frontier | None = None
        self.marks = marks
        self.roots: dict[int, bytes] = {}
        self.next = self.manifest.start
        self.is_whole = True
        self.mismatches: list[tuple[int, bytes, bytes]] = []
        self.subjects = Subjects(report, self.manifest.start)
        self.seen: Counter[str] = Counter()
        self.erasures = Erasures(self.subjects.memory)
        self.log_events: list[dict[str, Any]] = []
        self.request_seen = False

    def run(self) -> None:
        self._mark()
        names = self.bundle.names("events")
        if names != [f"events/{number:06}.jsonl" for number in range(len(names))]:
            raise Malformed("its events are not numbered without gaps")
        for name in names:
            for line in self.bundle.lines(name):
                try:
                    self._line(strict(line[:-1]))
                except Bad as problem:
                    raise Malformed(f"a line of {name} cannot be read: {problem}") from None
        if self.next < self.manifest.end:
            self._skip(self.manifest.end)
        self._judge_range()

    def _line(self, line: Any) -> None:
        if not isinstance(line, dict):
            raise Bad("it is not an object")
        index = number(line.get("index"))
        if index < self.next:
            raise Bad(f"index {index} is repeated or out of order")
        if index > self.next:
            self._skip(index)
        if "leaves" in line:
            self._take_withheld(members(line, "index", "leaves")["leaves"])
        elif "lost" in line:
            self._take_lost(index, line)
        else:
            self._take_event(index, line)
        if self.next > self.manifest.end:
            raise Bad("it is outside the range")

    def _skip(self, index: int) -> None:
        what = "one entry is" if index == self.next + 1 else f"{index - self.next} entries are"
        self.report.find("range", Verdict.INCOMPLETE, f"{what} left out", self.next)
        self.subjects.unseen += index - self.next
        self.next, self.is_whole = index, False

    def _push(self, computed: bytes, stated: bytes) -> None:
        if computed != stated and self.stated is None:
            self.stated = self.computed.copy()
        if self.is_whole:
            self.computed.push(computed)
            if self.stated is not None:
                self.stated.push(stated)
        self.next += 1
        self._mark()

    def _mark(self) -> None:
        if self.is_whole and self.next in self.marks:
            self.roots[self.next] = self.computed.root()

    def _take_withheld(self, leaves: Any) -> None:
        if not isinstance(leaves, list) or not 0 < len(leaves) <= MAX_RUN:
            raise Bad("a run of withheld entries is empty or too long")
        if not self.manifest.is_filtered:
            self.report.find("range", Verdict.INCOMPLETE, "it is withheld, and no filter says so", self.next)
        self.subjects.unseen += len(leaves)
        self.seen["withheld"] += len(leaves)
        for leaf in map(digest_of, leaves):
            self._push(leaf, leaf)

    def _take_lost(self, index: int, line: dict[str, Any]) -> None:
        if line["lost"] == "pruned":
            said = members(line, "index", "leaf", "lost", "by")
            self.erasures.claim_pruned(text_of(said["by"]), index)
            self.report.find("erasures", Verdict.ERASED, "its event was pruned when its time was over", index)
            self.seen["pruned"] += 1
        else:
            said = members(line, "index", "leaf", "lost")
            text = "the event that was sealed here is gone from the record"
            self.report.find("range", Verdict.BROKEN, text, index)
            self.seen["lost"] += 1
        leaf = digest_of(said["leaf"])
        self.subjects.unseen += 1
        self._push(leaf, leaf)

    def _take_event(self, index: int, line: dict[str, Any]) -> None:
        spelling = "envelope" if "envelope" in line else "base64"
        members(line, "index", "leaf", spelling, "open")
        data = text_of(line[spelling]).encode() if spelling == "envelope" else base64_of(line[spelling])
        computed, stated = leaf_hash(data), digest_of(line["leaf"])
        if computed != stated:
            self.seen["mismatches"] += 1
            if len(self.mismatches) < MAX_KEPT:
                self.mismatches.append((index, computed, stated))
        self.seen["events"] += 1
        self._read(index, data, computed, line["open"])
        self._push(computed, stated)

    def _read(self, index: int, data: bytes, computed: bytes, opened: Any) -> None:
        try:
            envelope = read_envelope(data)
        except (Bad, Unknown) as problem:
            verdict = Verdict.UNKNOWN if isinstance(problem, Unknown) else Verdict.BROKEN
            self.report.find("envelopes", verdict, str(problem), index)
            self.subjects.unseen += 1
            return
        if envelope["origin"] != self.manifest.origin:
            self.report.find("envelopes", Verdict.BROKEN, "it belongs to another log", index)
        promises = envelope["commitments"]
        kept = self._open_commitments(index, envelope, opened)
        promised = frozenset(each["purpose"] for each in promises if each["pointer"] is None)
        seen = Seen(index, envelope, computed.hex(), kept, promised)
        self.subjects.follow(seen)
        self._note(seen)

    def _open_commitments(self, index: int, envelope: dict[str, Any], opened: Any) -> dict[str, bytes]:
        promises = envelope["commitments"]
        if not isinstance(opened, list) or len(opened) != len(promises):
            raise Bad(f"index {index} does not account for each of its commitments")
        kept: dict[str, bytes] = {}
        for promise, said in zip(promises, opened, strict=True):
            data = self._one(index, envelope, promise, said)
            if data is not None and (promise["pointer"] is None or promise["purpose"] in _SIGNED_PARTS):
                kept[promise["purpose"]] = data
        return kept

    def _one(self, index: int, envelope: dict[str, Any], promise: dict[str, Any], said: Any) -> bytes | None:
        """Return the bytes of one commitment, if they are present and match."""
        purpose = shown(promise["purpose"], 40)
        if isinstance(said, dict) and "gone" in said:
            self._take_missing(index, envelope, purpose, said)
            return None
        spelling = "text" if isinstance(said, dict) and "text" in said else "base64"
        members(said, "salt", spelling)
        data = text_of(said["text"]).encode() if spelling == "text" else base64_of(said["base64"])
        if keeps(promise, base64_of(said["salt"]), data):
            self.seen["opened"] += 1
            return data
        self.report.find("commitments", Verdict.BROKEN, f"its {purpose} is not what was committed to", index)
        return None

    def _take_missing(self, index: int, envelope: dict[str, Any], purpose: str, said: dict[str, Any]) -> None:
        why = said["gone"]
        if why == "erased":
            self.erasures.claim(envelope, text_of(members(said, "gone", "by")["by"]))
            self.seen["erased"] += 1
            self.report.find("erasures", Verdict.ERASED, f"its {purpose} was erased", index)
        elif members(said, "gone")["gone"] == "withheld":
            self.seen["not disclosed"] += 1
        elif why == "lost":
            self.report.find("commitments", Verdict.INCOMPLETE, f"its {purpose} is gone, and no erasure says so", index)
        else:
            raise Bad("it says something unknown of a commitment")

    def _note(self, seen: Seen) -> None:
        envelope = seen.envelope
        if envelope["subject"]["kind"] == "log" and len(self.log_events) < MAX_KEPT:
            self.log_events.append({"index": seen.index, "kind": shown(envelope["kind"], 40), "at": envelope["at"]})
        if envelope["subject"]["kind"] == "erasure" and envelope["kind"] == "erased":
            self.erasures.tell(seen)
        if envelope["subject"]["kind"] == "retention" and envelope["kind"] == "pruned":
            self.erasures.tell_pruned(seen)
        if envelope["id"] == self.manifest.request["event"]:
            self._check_request(seen)

    def _check_request(self, seen: Seen) -> None:
        """Check the request of this export, if its event lies in the range."""
        self.request_seen = True
        said, detail = self.manifest.request, seen.document("detail")
        names = ("from", "to", "filters", "format", "payloads")
        if seen.envelope["kind"] != "export_requested" or seen.envelope["subject"]["id"] != said["id"]:
            self.report.find(
                "range", Verdict.BROKEN, "the bundle says that it was asked for here; it was not", seen.index
            )
        elif detail and any(detail.get(name) != said[name] for name in names):
            text = "another export was asked for here than the bundle says"
            self.report.find("range", Verdict.BROKEN, text, seen.index)

    def _judge_range(self) -> None:
        withheld = self.seen["withheld"]
        if withheld != self.manifest.withheld:
            text = f"the bundle says that it withholds {self.manifest.withheld} entries; it withholds {withheld}"
            self.report.find("range", Verdict.INCOMPLETE, text)
        unproven = self.erasures.count_unproven()
        if unproven:
            text = (
                f"{unproven} payloads or events are said to be erased, and no event of this bundle says that they were"
            )
            self.report.find("erasures", Verdict.INCOMPLETE, text)
        seen, start, end = self.seen, self.manifest.start, self.manifest.end - 1
        filtered = f", {withheld} withheld by the filter" if withheld else ""
        self.report.ok("range", f"indexes {start} to {end}{filtered}")
        self.report.ok("envelopes", f"{seen['events']} events")
        hidden = f", {seen['not disclosed']} not disclosed" if seen["not disclosed"] else ""
        self.report.ok("commitments", f"{seen['opened']} opened{hidden}")
        self.report.ok("erasures", f"{seen['erased']} erased")
        counted = self.subjects.seen
        signed = {what: counted[what] for what in _SIGNED if counted[what]}
        self.report.ok("signatures", ", ".join(f"{count} {what}" for what, count in signed.items()) or "no votes")
        others = ", ".join(f"{count} {what}" for what, count in sorted(counted.items()) if count and what not in signed)
        self.report.ok("subjects", others or "none")


# The judgement


class Check:
    """All checks of one bundle, in order; `report` prints the result."""

    def __init__(self, bundle: Bundle, policy: Policy, old: Head | None, report: Report) -> None:
        self.bundle, self.policy, self.old, self.report = bundle, policy, old, report
        self.heads: dict[int, Head] = {}

    def run(self) -> None:
        bundle, report = self.bundle, self.report
        report.ok("structure", f"{len(bundle.infos)} members")
        self._read_heads()
        if not self.heads or report.failed["log signature"]:
            self._skim()
            return
        self.head = self.heads[max(self.heads)]
        manifest = bundle.manifest
        if manifest.end > self.head.size:
            raise Malformed("its range goes beyond its newest checkpoint")
        left, right, self.proofs = self._proof()
        marks = {*self.heads, manifest.start, manifest.end} | ({self.old.size} if self.old else set())
        self.walk = Walk(bundle, report, left, marks)
        self.walk.run()
        self._judge_root(right)
        self._judge_heads()
        self._judge_old()
        self._judge_quorum()
        self._judge_stamps()
        self._skim()
        self._facts()

    def _read_heads(self) -> None:
        names = self.bundle.names("checkpoints")
        if not 0 < len(names) <= MAX_CHECKPOINTS:
            raise Malformed("it holds no checkpoint, or too many")
        for name in names:
            try:
                head = read_head(self.bundle.read(name), self.policy)
            except Untrusted as problem:
                self.report.find("log signature", Verdict.UNTRUSTED, str(problem))
                continue
            except Bad as problem:
                self.report.find("log signature", Verdict.BROKEN, str(problem))
                continue
            if name != f"checkpoints/{head.size}":
                raise Malformed(f"{name} is a checkpoint of another size")
            if head.origin != self.bundle.manifest.origin:
                self.report.find("log signature", Verdict.UNTRUSTED, f"{name} is of another log")
            self.heads[head.size] = head
        if self.heads:
            head = self.heads[max(self.heads)]
            signers = ", ".join(map(str, head.signers))
            self.report.ok("log signature", f"{head.size} entries of {shown(head.origin)}, signed by {signers}")

    def _proof(self) -> tuple[Frontier, list[tuple[int, bytes]], dict[int, list[bytes]]]:
        """The subtrees before and after the range, and the consistency proofs that the bundle brings."""
        start, end, size = self.bundle.manifest.start, self.bundle.manifest.end, self.head.size
        proofs = {}
        try:
            said = members(strict(self.bundle.read("proof.json")), "left", "right")
            left, right = _hashes(said["left"]), _hashes(said["right"])
            for name in self.bundle.names("consistency"):
                old = int(name.removeprefix("consistency/").removesuffix(".json"))
                proofs[old] = _hashes(members(strict(self.bundle.read(name)), "hashes")["hashes"])
        except Bad as problem:
            raise Malformed(f"its proofs cannot be read: {problem}") from None
        before, after = blocks(0, start), blocks(end, size)
        if len(left) != len(before) or len(right) != len(after):
            raise Malformed("its proof has the wrong length for this range")
        frontier = Frontier()
        for (_, height), node in zip(before, left, strict=True):
            frontier.push(node, height)
        return frontier, [(height, node) for (_, height), node in zip(after, right, strict=True)], proofs

    def _judge_root(self, right: list[tuple[int, bytes]]) -> None:
        walk, report, size = self.walk, self.report, self.head.size
        if not walk.is_whole:
            for index, _, _ in walk.mismatches:
                report.find("leaf hashes", Verdict.BROKEN, "the event and its leaf hash differ", index)
            return
        stated = walk.stated or walk.computed
        for height, node in right:
            for frontier in {id(each): each for each in (walk.computed, stated)}.values():
                frontier.push(node, height)
        walk.roots[size] = walk.computed.root()
        holds, was = walk.roots[size] == self.head.root, stated.root() == self.head.root
        self._judge_leaves(holds, was)
        report.ok("leaf hashes", f"{walk.seen['events']} events")
        report.ok("root", f"of {size} entries")
        if not holds and not (was and walk.mismatches):
            report.find("root", Verdict.BROKEN, "the entries do not lead to the root that was signed")

    def _judge_leaves(self, holds: bool, was: bool) -> None:
        where = {stated: index for index, _, stated in self.walk.mismatches}
        for index, computed, _ in self.walk.mismatches:
            if holds:
                text = "the log's own leaf hash is wrong; the event is the one that was sealed"
            elif computed in where:
                text = f"the event that stands here was sealed at index {where[computed]}"
            elif was:
                text = "the event is not the one that was sealed here"
            else:
                text = "the event and its leaf hash differ"
            self.report.find("leaf hashes", Verdict.BROKEN, text, index)

    def _judge_heads(self) -> None:
        """Every checkpoint of the bundle must be of one history."""
        for size, head in sorted(self.heads.items()):
            if size != self.head.size:
                self._judge_head(head, f"the checkpoint of {size} entries in the bundle", Verdict.INCOMPLETE)
        self.report.ok("consistency", f"{len(self.heads)} checkpoints of the bundle")

    def _judge_old(self) -> None:
        if self.old is None:
            return
        head, mine = self.old, f"your checkpoint of {self.old.size} entries"
        if head.origin != self.head.origin:
            self.report.find("consistency", Verdict.INCOMPLETE, f"{mine} is of another log, {shown(head.origin)}")
        elif head.size > self.head.size:
            text = f"{mine} is newer than the newest of the bundle ({self.head.size}); what lies between is not there"
            self.report.find("consistency", Verdict.INCOMPLETE, text)
        else:
            self._judge_head(head, mine, Verdict.INCOMPLETE)
            known = f"{len(self.heads)} checkpoints of the bundle and {mine}"
            self.report.ok("consistency", known)

    def _judge_head(self, head: Head, name: str, unproven: Verdict) -> None:
        """Judge whether the newest checkpoint continues `head`, which the log signed too."""
        newest, roots, report = self.head, self.walk.roots, self.report
        is_proven = roots.get(newest.size) == newest.root
        same_size = head.size == newest.size
        if (same_size and head.root != newest.root) or (
            is_proven and head.size in roots and roots[head.size] != head.root
        ):
            report.find("consistency", Verdict.EQUIVOCATION, f"the log signed two histories: {name} does not fit")
            report.heads += [each.note.decode() for each in (head, newest)]
        elif same_size or (is_proven and head.size in roots):
            return
        elif head.size in self.proofs or head.size == 0:
            proof = self.proofs.get(head.size, [])
            if not consistent(head.size, newest.size, head.root, newest.root, proof):
                report.find("consistency", Verdict.BROKEN, f"the proof does not show that {name} was continued")
        elif roots.get(head.size, head.root) != head.root:
            report.find("consistency", Verdict.BROKEN, f"the entries do not lead to {name}")
        else:
            text = f"nothing here shows that {name} was continued; ask for an export since {head.size}"
            report.find("consistency", unproven, text)

    def _judge_quorum(self) -> None:
        met = [size for size, head in self.heads.items() if self.policy.is_met(head.witnesses)]
        anchored, size = max(met, default=0), self.head.size
        self.report.facts["anchored"] = anchored if self.policy.quorum != "none" else None
        if self.policy.quorum == "none":
            self.report.ok("witness quorum", "the policy demands none")
            return
        self.report.ok("witness quorum", f"{anchored} of {size} entries")
        if anchored < size:
            wanted = dict.fromkeys(self.policy.wanted())
            missing = [name for name in wanted if self.policy.witnesses[name] not in self.head.witnesses]
            text = f"these have not signed for {size} entries: {shown(', '.join(missing))}; anchored are {anchored}"
            self.report.find("witness quorum", Verdict.UNANCHORED, text)

    def _judge_stamps(self) -> None:
        names = self.bundle.names("timestamps")
        stamped: dict[int, datetime] = {}
        for name in names if self.policy.authorities else []:
            size = int(name.removeprefix("timestamps/").partition("-")[0])
            if size not in self.heads:
                raise Malformed(f"{name} is of a checkpoint that is not there")
            at = self._check_stamp_of(name, size)
            if at is not None:
                stamped[size] = min(at, stamped.get(size, at))
        newest = max(stamped, default=None)
        if newest is not None:
            self.report.ok("time stamps", f"{newest} entries existed before {stamped[newest].isoformat()}")
        elif self.policy.authorities:
            self.report.ok("time stamps", "none of an authority of the policy")
        elif names:
            self.report.ok("time stamps", f"{len(names)} not looked at: the policy names no authority")
        if self.policy.needs_stamp and newest != self.head.size:
            text = f"{self.head.size} entries bear no time stamp of an authority of the policy"
            self.report.find("time stamps", Verdict.UNANCHORED, text)

    def _check_stamp_of(self, name: str, size: int) -> datetime | None:
        try:
            return check_stamp(self.bundle.read(name), self.heads[size].text, self.policy.authorities)
        except Untrusted:
            return None
        except Exception as problem:  # noqa: BLE001 - certificates can be wrong in more ways than there are names for
            text = str(problem) if isinstance(problem, Bad) else "it cannot be read"
            self.report.find("time stamps", Verdict.BROKEN, f"{name}: {text}")
            return None

    def _skim(self) -> None:
        """Check that files which are not evidence and were not read yet match the manifest."""
        for name in self.bundle.files:
            if name in ("README.txt", "keys.json", "replay.json", "verify_bundle.py") or name.startswith("tables/"):
                self.bundle.skim(name)

    def _facts(self) -> None:
        walk, manifest = self.walk, self.bundle.manifest
        self.report.facts |= {
            "origin": self.head.origin,
            "size": self.head.size,
            "root": self.head.root.hex(),
            "range": [manifest.start, manifest.end],
            "counts": {**walk.seen, **walk.subjects.seen},
            "log_events": walk.log_events,
            "request_is_in_range": walk.request_seen,
            "witnesses": {str(key): at for key, at in self.head.witnesses.items()},
        }


def _hashes(value: Any) -> list[bytes]:
    if not isinstance(value, list) or len(value) > 2 * MAX_PROOF:
        raise Bad("a proof is too long")
    return [digest_of(each) for each in value]


def verify(bundle: BinaryIO, policy: bytes, checkpoint: bytes | None = None) -> Report:
    """Verify a bundle and report. Only `CannotBegin` (a fault of the auditor's own files) is raised."""
    trusted = read_policy(policy)
    report = Report()
    try:
        old = None if checkpoint is None else read_head(checkpoint, trusted)
    except (Bad, Untrusted) as problem:
        raise CannotBegin(f"Your own checkpoint cannot be used: {problem}.") from None
    try:
        Check(Bundle(bundle), trusted, old, report).run()
    except (Malformed, Bad) as problem:
        report.find("structure", Verdict.MALFORMED, str(problem))
    except Unknown as problem:
        report.find("structure", Verdict.UNKNOWN, str(problem))
    except Exception as problem:  # noqa: BLE001 - whatever a hostile file does to us, it gets a verdict
        report.find("structure", Verdict.MALFORMED, f"it cannot be read ({type(problem).__name__})")
    return report


def told(report: Report) -> str:
    """The report in words."""
    document = report.document()
    lines = []
    for stage in document["stages"]:
        lines.append(f"  {stage['name']:<15} {stage['result']:<12} {stage['text']}".rstrip())
        lines += [f"      {each}" for each in report.findings if each.stage == stage["name"]][:10]
    if report.heads:
        lines += ["", "Both of these were signed by the log. Keep them: together they are the proof.", ""]
        lines += [f"{'-' * 60}\n{head}{'-' * 60}" for head in report.heads]
    first = report.of(report.worst)
    lines += ["", str(first) if first is not None else report.worst.value[0]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check an exported bundle against your own policy file, offline.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--policy", type=Path, required=True, help="your tlog-policy file: the only thing trusted")
    parser.add_argument("--checkpoint", type=Path, help="a checkpoint of this log that you kept")
    parser.add_argument("--json", type=Path, help="write the report here as JSON")
    given = parser.parse_args(arguments)
    try:
        checkpoint = given.checkpoint.read_bytes() if given.checkpoint else None
        with given.bundle.open("rb") as file:
            report = verify(file, given.policy.read_bytes(), checkpoint)
        if given.json:
            given.json.write_text(json.dumps(report.document(), indent=2) + "\n")
    except (OSError, CannotBegin) as problem:
        print(f"verify_bundle: {problem}", file=sys.stderr)
        return 2
    print(told(report))
    return int(report.worst.value[1])


if __name__ == "__main__":
    sys.exit(main())
