"""Manages the keys that sign grants: private keys in files, and a directory file that lists every key ever used.

All of them are outside the database: a copy of the database cannot mint grants, and a row that somebody adds to it
makes no key trusted (B29). Every change is recorded.

    grant_key.pem          the first key, made with the installation
    grant_keys/KID.pem     those that followed
    grant_keys.json        which key may sign from when to when, which is retired; not there for the first one

A new key signs nothing until verifiers have had time to read it from the JWKS; the key before it signs until then, and
its grants stay valid until they expire. A retired key is refused at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from django.conf import settings

from approvals.execution.rules import dpop, jws
from approvals.execution.rules.grants import GrantKey
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, Refused

FIRST_SINCE = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
JWKS_MAX_AGE_S = 300
LEAD = timedelta(seconds=2 * JWKS_MAX_AGE_S)
"""How long a key is published before it signs: twice as long as verifiers may keep the set."""


class KeyWaiting(Refused):
    """A new key is already waiting to take over; wait for it, or retire it."""

    code = "KEY_WAITING"


class LastKey(Refused):
    """This is the only signing key; introduce another first."""

    code = "LAST_KEY"


@dataclass(frozen=True, kw_only=True)
class DirectoryKey:
    """One key of the directory."""

    key: GrantKey
    file: Path
    retired_at: datetime | None = None

    @property
    def kid(self) -> str:
        """The key's name."""
        return self.key.kid

    def signs(self, at: datetime) -> bool:
        """Return whether this key may sign a grant now."""
        begun = self.key.since <= at
        return self.retired_at is None and begun and (self.key.until is None or at < self.key.until)


def key_directory() -> tuple[DirectoryKey, ...]:
    """All keys that ever existed, oldest first. The file is read again when it changes."""
    folder: Path = settings.COUNTERFOIL_SECRETS_DIR
    try:
        seen = (folder / "grant_keys.json").stat()
    except FileNotFoundError:
        return _read_directory(folder, 0, 0)
    return _read_directory(folder, seen.st_mtime_ns, seen.st_ino)


def accepted_keys() -> list[GrantKey]:
    """The keys whose grants are accepted and which the JWKS publishes: all that are not retired."""
    return [each.key for each in key_directory() if each.retired_at is None]


def signing_key(at: datetime) -> Ed25519PrivateKey:
    """Return the private half of the key that signs now."""
    able = [each for each in key_directory() if each.signs(at)]
    if not able:
        raise LastKey("No grant key may sign at this moment.")
    return _private_key_file(able[-1].file, able[-1].kid)


def introduce_key(*, lead: timedelta, reason: str, at: datetime) -> str:
    """Create a key that signs from `lead` on (the newest one before it signs until then), and record it.

    After a crash in between, the key exists without a record, and the next `announce_keys` records it.
    """
    listed = key_directory()
    if any(each.key.since > at and each.retired_at is None for each in listed):
        raise KeyWaiting
    key = _generate_key(at)
    fresh = GrantKey(key.public_key(), since=at + lead)
    file = settings.COUNTERFOIL_SECRETS_DIR / "grant_keys" / f"{fresh.kid}.pem"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    _write_file(file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    before = [
        replace(each, key=replace(each.key, until=fresh.since)) if each.signs(at) and each.key.until is None else each
        for each in listed
    ]
    _store_directory([*before, DirectoryKey(key=fresh, file=file)])
    announce_keys(reason=reason, at=at)
    return fresh.kid


def _generate_key(at: datetime) -> Ed25519PrivateKey:
    """Generate a key whose thumbprint does not begin with a dash, which a command line would read as an option."""
    while True:
        key = Ed25519PrivateKey.generate()
        if not GrantKey(key.public_key(), since=at).kid.startswith("-"):
            return key


def retire_key(*, kid: str, reason: str, at: datetime) -> None:
    """Retire a key at once: its grants are refused from now on, and the JWKS no longer publishes it."""
    listed = key_directory()
    if kid not in {each.kid for each in listed}:
        raise NotFound("Grant key")
    if not any(each.signs(at) for each in listed if each.kid != kid):
        raise LastKey
    ended = [replace(each, retired_at=at) if each.kid == kid and each.retired_at is None else each for each in listed]
    _store_directory(ended)
    announce_keys(reason=reason, at=at)


def announce_keys(*, reason: str, at: datetime) -> None:
    """Record in every tenant each introduction and retirement of a key that is not recorded there yet."""
    listed = key_directory()
    for tenant in events.tenants():
        with tenancy(tenant.id):
            head = ledger.lock_subject(tenant_id=tenant.id, subject_id=tenant.id, kind="tenant")
            recorded = events.recorded_digests(tenant.id, tenant.id, "grant_key")
            for kind, each in _key_changes(listed):
                if (kind, digest(each.kid.encode())) not in recorded:
                    head = ledger.append(head, _key_event(kind, each, reason), actor=ledger.SYSTEM, at=at)


def _key_changes(listed: tuple[DirectoryKey, ...]) -> list[tuple[str, DirectoryKey]]:
    # The first key came with the installation, without an introduction.
    introduced = [("grant_key_introduced", each) for each in listed[1:]]
    return introduced + [("grant_key_retired", each) for each in listed if each.retired_at is not None]


def _key_event(kind: str, listed: DirectoryKey, reason: str) -> ledger.NewEvent:
    detail: dict[str, Any] = {"kid": listed.kid, "x": _public_bytes(listed.key), "since": instant(listed.key.since)}
    if listed.retired_at is not None:
        detail["retired_at"] = instant(listed.retired_at)
    return ledger.NewEvent(
        kind=kind, detail=detail | {"reason": reason}, digests={"grant_key": digest(listed.kid.encode())}
    )


@lru_cache(maxsize=4)
def _read_directory(folder: Path, changed: int, inode: int) -> tuple[DirectoryKey, ...]:
    if not changed:
        file = folder / "grant_key.pem"
        return (DirectoryKey(key=GrantKey(_load_private_key(file).public_key(), since=FIRST_SINCE), file=file),)
    return tuple(_directory_key(folder, each) for each in json.loads((folder / "grant_keys.json").read_bytes()))


def _directory_key(folder: Path, said: Mapping[str, Any]) -> DirectoryKey:
    public = Ed25519PublicKey.from_public_bytes(jws.decode(said["x"]))
    return DirectoryKey(
        key=GrantKey(
            public, since=_parse_instant(said["since"]), until=_parse_instant(said["until"]) if said["until"] else None
        ),
        file=folder / said["file"],
        retired_at=_parse_instant(said["retired_at"]) if said["retired_at"] else None,
    )


def _store_directory(listed: list[DirectoryKey]) -> None:
    folder: Path = settings.COUNTERFOIL_SECRETS_DIR
    document = [
        {
            "kid": each.kid,
            "x": _public_bytes(each.key),
            "since": instant(each.key.since),
            "until": instant(each.key.until) if each.key.until else None,
            "retired_at": instant(each.retired_at) if each.retired_at else None,
            "file": str(each.file.relative_to(folder)),
        }
        for each in listed
    ]
    _write_file(folder / "grant_keys.json", canonical(document))


def _write_file(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


@lru_cache(maxsize=16)
def _private_key_file(file: Path, kid: str) -> Ed25519PrivateKey:
    key = _load_private_key(file)
    if dpop.thumbprint(dpop.public_jwk(key.public_key())) != kid:
        raise ValueError(f"{file} is not the key that the directory names")
    return key


def _load_private_key(file: Path) -> Ed25519PrivateKey:
    key = load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{file} must hold an Ed25519 key")
    return key


def _public_bytes(key: GrantKey) -> str:
    return dpop.public_jwk(key.public)["x"]


def _parse_instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
