"""The changes of a member that one administrator may make alone. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from console.models import Membership

ROLES = ("reviewer", "operator", "compliance", "administrator")
EVERYBODY = "reviewers"
LONGEST_GROUP = 40
MOST_GROUPS = 20


def password_digest(stored_hash: str, salt: bytes) -> dict[str, str]:
    """A salted digest of a stored password hash, as recorded in an event.

    The hash itself holds a random salt of 128 bits, so the digest lets nobody try passwords: it only shows whether the
    stored hash is still the one that was set.
    """
    return {"salt": salt.hex(), "digest": hmac.new(salt, stored_hash.encode(), hashlib.sha256).hexdigest()}


def is_digest_of(told: Mapping[str, str], stored_hash: str) -> bool:
    """Return whether an event's digest is of this hash."""
    try:
        return password_digest(stored_hash, bytes.fromhex(told["salt"])) == told
    except (KeyError, TypeError, ValueError):
        return False


class BadGroup(Refused):
    """A group name consists of lower-case letters, digits and hyphens; "reviewers" is reserved for the role."""

    code = "BAD_GROUP"
    status = 422


class UnknownRole(Refused):
    """Unknown role."""

    code = "UNKNOWN_ROLE"
    status = 422


@dataclass(frozen=True)
class MemberRoles:
    """A member's roles, and the groups for which their votes count."""

    roles: frozenset[str]
    groups: frozenset[str]

    @classmethod
    def of(cls, roles: Collection[str], groups: Collection[str]) -> MemberRoles:
        """Checked; only reviewers have groups that mean anything, yet others may keep theirs."""
        if unknown := sorted(set(roles) - set(ROLES)):
            raise UnknownRole(f"Unknown role: {unknown[0]}.")
        if len(set(groups)) > MOST_GROUPS or not all(_is_group(each) for each in groups):
            raise BadGroup
        return cls(frozenset(roles), frozenset(groups))

    def document(self) -> dict[str, Any]:
        return {"roles": sorted(self.roles), "groups": sorted(self.groups)}

    def gains(self, before: MemberRoles) -> bool:
        """Return True if this adds power over approvals."""
        newly = "reviewer" in self.roles and "reviewer" not in before.roles
        return newly or ("reviewer" in self.roles and bool(self.groups - before.groups))

    def empowers(self, before: MemberRoles) -> bool:
        """Return True if this gives power over approvals, or the power to give it; that requires proof of identity."""
        return self.gains(before) or "administrator" in self.roles - before.roles


NOTHING = MemberRoles(frozenset(), frozenset())
"""What somebody is who has no place yet."""


def _is_group(name: str) -> bool:
    plain = name.replace("-", "")
    fits = 0 < len(name) <= LONGEST_GROUP and plain.isascii() and plain.isalnum() and name == name.lower()
    return fits and name != EVERYBODY and name[0].isalnum()


def current_roles(row: Membership) -> MemberRoles:
    """The present roles of a member."""
    return MemberRoles(frozenset(role for role in ROLES if getattr(row, f"is_{role}")), frozenset(row.groups))


def is_self_promotion(now: MemberRoles, wanted: MemberRoles, *, person: UUID, by_person: UUID) -> bool:
    """Return True if a person would give themselves power over approvals, through whichever account (B19)."""
    return person == by_person and wanted.gains(now)
