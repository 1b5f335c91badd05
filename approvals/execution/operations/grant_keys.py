"""Manages the keys that sign grants, as rows that every host reads. Every change is recorded in each tenant.

    approvals_grantkeychange   in the record: each key that was introduced, sealed, and each that was retired
    data_key                   in the key database: what opens the sealed keys, wrapped under the `kek`
    retired_grant_key          in the key database: which are retired, once more
    grant_key.pem              the first key, made with the installation; it counts as long as there is no row

1. A copy of the record mints no grant, nor does one of the key database. A row that somebody adds makes no key trusted,
   because a key counts only if its row opens (B29).
2. A key is retired if either database says so, so a restore of one of them brings no retired key back.
3. A new key signs nothing until verifiers have had time to read it from the JWKS; the key before it signs until then,
   and its grants stay valid until they expire. A retired key is refused at once.
4. Changes are numbered, so that of two that are made at once only one succeeds.

Earlier versions kept further keys in files (`grant_keys.json`, `grant_keys/KID.pem`). The first change takes over all
that there are; from then on no file is read.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, LiteralString
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from django.conf import settings
from django.db import IntegrityError, transaction

from approvals.execution.rules import dpop, jws
from approvals.execution.rules.grants import GrantKey
from approvals.models import GrantKeyChange
from ledger import keystore
from ledger.catalogue.rules.moving import has_come
from ledger.db import execute, insert_each, select, tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules import encryption
from ledger.record.rules.canonical import digest
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, Refused

FIRST_SINCE = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
JWKS_MAX_AGE_S = 300
LEAD = timedelta(seconds=2 * JWKS_MAX_AGE_S)
"""How long a key is published before it signs: twice as long as verifiers may keep the set."""
NO_CHANGE: Final = UUID(int=0)
NEWEST_CHANGE: LiteralString = """coalesce((SELECT y.id FROM approvals_grantkeychange y ORDER BY y.number DESC LIMIT 1),
        '00000000-0000-0000-0000-000000000000')"""
"""The id of the newest change of the keys, or `NO_CHANGE`, as a column of any statement."""
INTRODUCED, RETIRED = "introduced", "retired"
_RAW_BYTES: Final = 32


class KeyWaiting(Refused):
    """A new key is already waiting to take over; wait for it, or retire it."""

    code = "KEY_WAITING"


class LastKey(Refused):
    """This is the only signing key; introduce another first."""

    code = "LAST_KEY"


class KeysChanged(Refused):
    """Somebody else changed the grant keys at this moment, so nothing was done; look, and try again."""

    code = "KEYS_CHANGED"


class KeyFilesIncomplete(Refused):
    """The files of this host lack a grant key that is on record; run this on the host that has the newest files."""

    code = "KEY_FILES_INCOMPLETE"


class NoSigningKey(Refused):
    """No grant key may sign at this moment; introduce one with `manage.py rotate_grant_key --lead 0`."""

    code = "NO_SIGNING_KEY"
    status = 503


@dataclass(frozen=True, kw_only=True)
class DirectoryKey:
    """One key of the directory. `public` is None if its row does not open: then it is not trusted.

    `private` is None as well where a key that signs no more was taken over from files.
    """

    kid: str
    since: datetime
    public: Ed25519PublicKey | None
    private: Ed25519PrivateKey | None
    retired_at: datetime | None = None
    until: datetime | None = None

    @cached_property
    def key(self) -> GrantKey | None:
        """The public key with its time, if the row opens."""
        return GrantKey(self.public, since=self.since, until=self.until) if self.public is not None else None

    def signs(self, at: datetime) -> bool:
        """Return whether this key may sign a grant now."""
        return self.retired_at is None and self.since <= at and (self.until is None or at < self.until)


# Reading


def key_directory(change: UUID | None = None) -> tuple[DirectoryKey, ...]:
    """All keys that ever existed, oldest first; `change` is the newest one if the caller has just read it."""
    rows = _read_changes(change)
    return _directory(_keys_of_rows(rows) if rows else _keys_of_files())


def accepted_keys(change: UUID | None = None) -> list[GrantKey]:
    """The keys whose grants are accepted and which the JWKS publishes: all that are not retired."""
    return [each.key for each in key_directory(change) if each.key is not None and each.retired_at is None]


def known_keys() -> list[GrantKey]:
    """Every key whose row opens, the retired ones too."""
    return [each.key for each in key_directory() if each.key is not None]


def signing_key(at: datetime, change: UUID | None = None) -> Ed25519PrivateKey:
    """Return the private half of the key that signs now; `NoSigningKey` if there is none or it cannot be opened."""
    able = [each for each in key_directory(change) if each.signs(at)]
    if not able:
        raise NoSigningKey
    if able[-1].private is None:
        raise NoSigningKey(
            f"The grant key {able[-1].kid} cannot be opened: the key database has not got what opens it, or its row is"
            " not one of ours. Introduce another with `manage.py rotate_grant_key --lead 0`."
        )
    return able[-1].private


def directory_faults(at: datetime) -> list[str]:
    """Name the faults of the grant keys, a part of a sentence each."""
    rows = _read_changes(None)
    try:
        signing_key(at)
        faults = []
    except Refused as refusal:
        faults = [f"no grant can be signed: {refusal.detail.rstrip('.')}"]
    if rows:
        listed, retired = _keys_of_rows(rows), keystore.retired_grant_keys()
        faults += [
            f"the grant key {each.kid} is retired in one database only: run `manage.py retire_grant_key` for it again"
            for each in listed
            if (each.retired_at is None) != (each.kid not in retired)
        ]
        faults += [f"the row of the grant key {each.kid} does not open" for each in listed if each.public is None]
    return faults


def _read_changes(change: UUID | None) -> tuple[GrantKeyChange, ...]:
    if change is None:
        [(change,)] = execute(f"SELECT {NEWEST_CHANGE}")
    return () if change == NO_CHANGE else _changes_up_to(change)


@lru_cache(maxsize=4)
def _changes_up_to(_newest: UUID) -> tuple[GrantKeyChange, ...]:
    return tuple(select(GrantKeyChange, "true ORDER BY number"))


def _directory(listed: Sequence[DirectoryKey]) -> tuple[DirectoryKey, ...]:
    """These keys with what the key database says of them; each signs until the next one does."""
    retired = keystore.retired_grant_keys()
    keys = [replace(each, retired_at=each.retired_at or retired.get(each.kid)) for each in listed]
    return tuple(replace(each, until=_end(keys[place + 1 :])) for place, each in enumerate(keys))


def _end(later: Sequence[DirectoryKey]) -> datetime | None:
    """The time from which a later key signs; one that was retired before it began never did."""
    return next((each.since for each in later if each.retired_at is None or each.retired_at > each.since), None)


def _keys_of_rows(rows: Sequence[GrantKeyChange]) -> list[DirectoryKey]:
    retired = {each.kid: each.at for each in rows if each.kind == RETIRED}
    keys = []
    for each in rows:
        if each.kind == INTRODUCED and each.key_id is not None and each.sealed is not None:
            public, private = _try_to_open(each.kid, each.at, each.key_id, bytes(each.sealed))
            keys.append(
                DirectoryKey(
                    kid=each.kid, since=each.at, public=public, private=private, retired_at=retired.get(each.kid)
                )
            )
    return keys


def _try_to_open(
    kid: str, since: datetime, key_id: UUID, sealed: bytes
) -> tuple[Ed25519PublicKey | None, Ed25519PrivateKey | None]:
    try:
        return _open_row(kid, since, key_id, sealed)
    except encryption.CannotOpen:
        return None, None


# Only what opens is kept: a row that does not may open once the right backup of the key database is there.
@lru_cache(maxsize=64)
def _open_row(
    kid: str, since: datetime, key_id: UUID, sealed: bytes
) -> tuple[Ed25519PublicKey, Ed25519PrivateKey | None]:
    """Open the row of a key; `CannotOpen` if what opens it is lost, or the row was altered or added by somebody."""
    key = keystore.read_keys([key_id]).get(key_id)
    if key is None:
        raise encryption.CannotOpen
    raw = encryption.open_sealed(key, sealed, _place(kid, since))
    public = Ed25519PublicKey.from_public_bytes(raw[:_RAW_BYTES])
    return public, Ed25519PrivateKey.from_private_bytes(raw[_RAW_BYTES:]) if raw[_RAW_BYTES:] else None


def _place(kid: str, since: datetime) -> str:
    return f"grant_key/{kid}/{instant(since)}"


# Changing


def take_over_files(*, at: datetime) -> list[str]:
    """Store the keys that are in files, once for the installation, and return their names; none if it was done."""
    if _read_changes(None):
        return []
    listed = key_directory(NO_CHANGE)
    names = {digest(each.kid.encode()) for each in listed}
    for tenant in events.tenants(writable=True):
        if has_come(tenant.move):
            # Its record also tells of the keys of another installation.
            continue
        with tenancy(tenant.id):
            recorded = events.recorded_digests(tenant.id, tenant.id, "grant_key")
        if not {name for _, name in recorded} <= names:
            raise KeyFilesIncomplete
    for each in listed:
        if each.private is None and each.retired_at is None and (each.until is None or at < each.until):
            raise KeyFilesIncomplete(
                f"The private half of the grant key {each.kid} is not among the files of this host."
            )
    for each in listed:
        if each.retired_at is not None:
            keystore.retire_grant_key(each.kid, at=each.retired_at)
    _append_changes(
        (),
        [_introduction(each, at=at) for each in listed]
        + [_retirement(each.kid, each.retired_at) for each in listed if each.retired_at is not None],
    )
    return [each.kid for each in listed]


def introduce_key(*, lead: timedelta, reason: str, at: datetime) -> str:
    """Create a key that signs from `lead` on (the newest one before it signs until then), and record it.

    After a crash in between, the key exists without an event, and the next `announce_keys` records it.
    """
    take_over_files(at=at)
    rows = _read_changes(None)
    if any(each.since > at and each.retired_at is None for each in _directory(_keys_of_rows(rows))):
        raise KeyWaiting
    key = _generate_key()
    fresh = DirectoryKey(kid=_kid(key.public_key()), since=at + lead, public=key.public_key(), private=key)
    _append_changes(rows, [_introduction(fresh, at=at)])
    announce_keys(reason=reason, at=at)
    return fresh.kid


def retire_key(*, kid: str, reason: str, at: datetime) -> None:
    """Retire a key at once: its grants are refused from now on, and the JWKS no longer publishes it."""
    take_over_files(at=at)
    rows = _read_changes(None)
    listed = _directory(_keys_of_rows(rows))
    if kid not in {each.kid for each in listed}:
        raise NotFound("Grant key")
    if not any(each.signs(at) and each.private is not None for each in listed if each.kid != kid):
        raise LastKey
    keystore.retire_grant_key(kid, at=at)
    if not any((each.kid, each.kind) == (kid, RETIRED) for each in rows):
        _append_changes(rows, [_retirement(kid, at)])
    announce_keys(reason=reason, at=at)


def announce_keys(*, reason: str, at: datetime) -> None:
    """Record in every tenant each introduction and retirement of a key that is not recorded there yet.

    Before, each database is told of the retirements that only the other one knows.
    """
    _complete_retirements()
    listed = key_directory()
    for tenant in events.tenants(writable=True):
        with tenancy(tenant.id):
            head = ledger.lock_subject(tenant_id=tenant.id, subject_id=tenant.id, kind="tenant")
            recorded = events.recorded_digests(tenant.id, tenant.id, "grant_key")
            for kind, each in _key_changes(listed):
                if (kind, digest(each.kid.encode())) not in recorded:
                    head = ledger.append(head, _key_event(kind, each, reason), actor=ledger.SYSTEM, at=at)


def _complete_retirements() -> None:
    rows = _read_changes(None)
    here = {each.kid: each.at for each in rows if each.kind == RETIRED}
    for kid, retired_at in here.items():
        keystore.retire_grant_key(kid, at=retired_at)
    there = keystore.retired_grant_keys()
    missing = [each.kid for each in rows if each.kind == INTRODUCED and each.kid in there and each.kid not in here]
    if missing:
        _append_changes(rows, [_retirement(kid, there[kid]) for kid in missing])


def _append_changes(rows: Sequence[GrantKeyChange], changes: Sequence[GrantKeyChange]) -> None:
    """Append these changes behind `rows`; `KeysChanged` if somebody else has appended one meanwhile."""
    begin = rows[-1].number + 1 if rows else 1
    for number, each in enumerate(changes, start=begin):
        each.number = number
    try:
        with transaction.atomic():
            insert_each(changes)
    except IntegrityError:
        raise KeysChanged from None


def _introduction(each: DirectoryKey, *, at: datetime) -> GrantKeyChange:
    assert each.public is not None
    raw = each.public.public_bytes_raw() + (each.private.private_bytes_raw() if each.private is not None else b"")
    data_key = keystore.new_key()
    nonce = secrets.token_bytes(encryption.NONCE_BYTES)
    sealed = encryption.seal(data_key.key, nonce, raw, _place(each.kid, each.since))
    return GrantKeyChange(
        id=ledger.new_id(at), kid=each.kid, kind=INTRODUCED, at=each.since, key_id=data_key.id, sealed=sealed
    )


def _retirement(kid: str, at: datetime) -> GrantKeyChange:
    return GrantKeyChange(id=ledger.new_id(at), kid=kid, kind=RETIRED, at=at)


def _generate_key() -> Ed25519PrivateKey:
    """Generate a key whose thumbprint does not begin with a dash, which a command line would read as an option."""
    while True:
        key = Ed25519PrivateKey.generate()
        if not _kid(key.public_key()).startswith("-"):
            return key


def _kid(key: Ed25519PublicKey) -> str:
    return dpop.thumbprint(dpop.public_jwk(key))


def _key_changes(listed: Sequence[DirectoryKey]) -> list[tuple[str, DirectoryKey]]:
    # The first key came with the installation, without an introduction.
    introduced = [("grant_key_introduced", each) for each in listed[1:] if each.public is not None]
    return introduced + [("grant_key_retired", each) for each in listed if each.retired_at is not None]


def _key_event(kind: str, listed: DirectoryKey, reason: str) -> ledger.NewEvent:
    detail: dict[str, Any] = {"kid": listed.kid, "since": instant(listed.since)}
    if listed.public is not None:
        detail["x"] = dpop.public_jwk(listed.public)["x"]
    if listed.retired_at is not None:
        detail["retired_at"] = instant(listed.retired_at)
    return ledger.NewEvent(
        kind=kind, detail=detail | {"reason": reason}, digests={"grant_key": digest(listed.kid.encode())}
    )


# The files of earlier versions, and of the first key


def _keys_of_files() -> tuple[DirectoryKey, ...]:
    folder: Path = settings.COUNTERFOIL_SECRETS_DIR
    listing = folder / "grant_keys.json"
    file = listing if listing.exists() else folder / "grant_key.pem"
    seen = file.stat()
    return _read_files(file, seen.st_mtime_ns, seen.st_ino)


@lru_cache(maxsize=4)
def _read_files(file: Path, _changed: int, _inode: int) -> tuple[DirectoryKey, ...]:
    if file.suffix == ".pem":
        key = _load_private_key(file)
        public = key.public_key()
        return (DirectoryKey(kid=_kid(public), since=FIRST_SINCE, public=public, private=key),)
    return tuple(_listed_key(file.parent, each) for each in json.loads(file.read_bytes()))


def _listed_key(folder: Path, listed: dict[str, Any]) -> DirectoryKey:
    file, public = folder / listed["file"], Ed25519PublicKey.from_public_bytes(jws.decode(listed["x"]))
    private = _load_private_key(file) if file.exists() and not listed["retired_at"] else None
    if private is not None and private.public_key() != public:
        raise ValueError(f"{file} is not the key that {folder / 'grant_keys.json'} names")
    return DirectoryKey(
        kid=_kid(public),
        since=datetime.fromisoformat(listed["since"]),
        public=public,
        private=private,
        retired_at=datetime.fromisoformat(listed["retired_at"]) if listed["retired_at"] else None,
    )


def _load_private_key(file: Path) -> Ed25519PrivateKey:
    key = load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{file} must hold an Ed25519 key")
    return key
