"""Statements that people sign: canonical text, its exact inverse, and the challenge over it.

A vote, a settlement and the agreement of a second person are statements. Each is one object:

* `domain`, `version` and `type` say which statement it is, so that no signature passes for another's,
* `covers` is everything that was on the person's screen. It is read again from the record when the statement arrives,
  and a statement that covers anything else than what holds then is refused,
* a member named like the type is the declaration: who gives it, what they say, what that means in words, how they
  proved who they are, and until when it may be used.

A statement is written once and read back by `StatementForm.read`; bytes that `write` would not write are refused, and a
changed field makes another statement (B1). Its 32 random bytes make two statements about the same thing differ. A
passkey signs `challenge_bytes`; `ledger/verify_bundle.py` reads the same bytes with code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar, get_type_hints

from ledger.record.rules.canonical import NotCanonical, canonical, digest, parse
from ledger.record.rules.refusals import Refused

_CHALLENGE_DOMAIN: Final = b"counterfoil/approval-challenge/2\x00"
_CODE_DOMAIN: Final = b"counterfoil/confirmation-code/1\x00"


class NotAStatement(Refused):
    """The bytes are not a statement."""

    code = "NOT_A_STATEMENT"
    status = 422


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The fields of every declaration. `person` is the human behind the account.

    `log_*` are the newest signed head of the log when it was written, so that it cannot be backdated before that.
    """

    statement_id: str
    nonce: str
    person: str
    evidence_class: str
    credential_id: str
    rp_id: str
    issued_at: datetime
    expires_at: datetime
    log_origin: str
    log_size: int
    log_root: str

    def says(self, **meant: Any) -> bool:
        """Return whether it declares exactly these values."""
        return all(getattr(self, name) == value for name, value in meant.items())


C = TypeVar("C")
D = TypeVar("D", bound=Declaration)


@dataclass(frozen=True, kw_only=True)
class StatementForm(Generic[C, D]):
    """One kind of statement: its names, and the dataclasses of its coverage and its declarations.

    Fields are text, whole numbers, flags, lists of text, instants, and enums of text. `more` are members that are the
    same in every statement. `older` has for each earlier version the fields that it lacks, with what they are read as.
    """

    domain: str
    version: int
    name: str
    covers: type[C]
    declares: type[D]
    more: Mapping[str, Any] = field(default_factory=dict)
    older: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def write(self, covers: C, declaration: D, *, meaning: str, version: int | None = None) -> bytes:
        """The canonical text that the person signs."""
        version = version or self.version
        lacking = self.older.get(version, {})
        return canonical(
            {
                **self.more,
                "domain": self.domain,
                "version": version,
                "type": self.name,
                "covers": _without(lacking, _plain(covers)),
                self.name: {**_without(lacking, _plain(declaration)), "meaning": meaning},
            }
        )

    def read(self, data: bytes) -> tuple[C, D, str]:
        """Read a statement: its coverage, its declaration, and the meaning in words."""
        try:
            document = parse(data)
            version, said = document["version"], dict(document[self.name])
            meaning = said.pop("meaning")
            lacking = self.older.get(version, {})
            covers = self.covers(**_typed_members(self.covers, document["covers"], lacking))
            declaration = self.declares(**_typed_members(self.declares, said, lacking))
            is_exact = self.write(covers, declaration, meaning=meaning, version=version) == data
        except (NotCanonical, KeyError, TypeError, ValueError, AttributeError):
            is_exact = False
        if not is_exact or version not in (self.version, *self.older):
            raise NotAStatement(f"The bytes are not the statement of a {self.name}.")
        return covers, declaration, meaning


def coverage_digest(covers: Any) -> str:
    """Return the digest of everything covered; the page sends it back, so that every change is noticed."""
    return digest(canonical(_plain(covers)))


def statement_hash(statement: bytes) -> str:
    """The hash of a statement, by which the record and other statements name it."""
    return digest(statement)


def challenge_bytes(statement: bytes) -> bytes:
    """The challenge that a passkey signs: the hash of one statement."""
    return sha256(_CHALLENGE_DOMAIN + statement).digest()


def confirmation_code(statement: bytes) -> str:
    """Eight characters by which a person can recognise a statement (6.7): the same on the page and in the record."""
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    number = int.from_bytes(sha256(_CODE_DOMAIN + statement).digest()[:5])
    letters = "".join(alphabet[(number >> 5 * place) & 31] for place in reversed(range(8)))
    return f"{letters[:4]}-{letters[4:]}"


def _plain(stated: Any) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in vars(stated).items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


@lru_cache
def _types(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _without(lacking: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name not in lacking}


def _typed_members(kind: type, plain: Mapping[str, Any], lacking: Mapping[str, Any]) -> dict[str, Any]:
    """The members, each of exactly the type that its field has; those that its version lacks as they are read."""
    members = {name: _typed_value(_types(kind)[name], value) for name, value in plain.items()}
    return members | {name: value for name, value in lacking.items() if name in _types(kind)}


def _typed_value(kind: Any, value: Any) -> Any:
    if kind == tuple[str, ...]:
        if type(value) is not list or any(type(each) is not str for each in value):
            raise TypeError("not a list of text")
        return tuple(value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    if issubclass(kind, StrEnum):
        return kind(value)
    if type(value) is not kind:
        raise TypeError("a field has the wrong type")
    return value
