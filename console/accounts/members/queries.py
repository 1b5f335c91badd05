"""Queries of the members of a tenant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount

from console.accounts.addresses import normal_form
from console.accounts.members.rules import is_digest_of
from console.models import Membership, User
from ledger.record.queries import events
from ledger.record.rules.canonical import digest


def member_by_id(tenant_id: UUID, member_id: UUID) -> Membership | None:
    """One member, invited or joined, unless removed."""
    here = Membership.objects.select_related("user")
    return here.filter(tenant_id=tenant_id, id=member_id, removed_at__isnull=True).first()


def members(tenant_id: UUID) -> list[Membership]:
    """All members and invited people, by name."""
    here = Membership.objects.filter(tenant_id=tenant_id, removed_at__isnull=True).select_related("user")
    return list(here.order_by("user__username"))


def altered_passwords(tenant_id: UUID) -> list[Membership]:
    """The members whose stored password hash differs from the one in the last event about it.

    Of one whose password was set before events told of it, nothing is known.
    """
    here = {row.id: row for row in members(tenant_id) if row.joined_at is not None}
    told: dict[UUID, Mapping[str, str]] = {}
    for subject_id, detail in events.details_of_kinds(
        tenant_id, "member", ("member_added", "member_joined", "password_changed")
    ):
        if "password" in detail:
            told[subject_id] = detail["password"]
    return [
        row
        for member_id, row in here.items()
        if (last := told.get(member_id)) is not None and not is_digest_of(last, row.user.password)
    ]


def member_by_username(tenant_id: UUID, username: str) -> Membership | None:
    """Return the member who signs in with this name."""
    here = Membership.objects.select_related("user").filter(tenant_id=tenant_id, removed_at__isnull=True)
    return here.filter(user__username=normal_form(username)).first()


def member_by_pseudonym(tenant_id: UUID, actor_id: UUID) -> Membership | None:
    """The member with this pseudonym, removed or not."""
    return Membership.objects.select_related("user").filter(tenant_id=tenant_id, actor_id=actor_id).first()


def linked_accounts(row: Membership | None) -> list[Membership]:
    """Return every account of the human behind one."""
    if row is None:
        return []
    return list(Membership.objects.filter(tenant_id=row.tenant_id, person_id=row.person_id, removed_at__isnull=True))


def invited_member(token: str, *, at: datetime) -> Membership | None:
    """The membership that an invitation is for, while it is valid."""
    found = Membership.objects.select_related("user").filter(
        invite_hash=digest(token.encode()), invite_until__gt=at, joined_at__isnull=True, removed_at__isnull=True
    )
    return found.first()


def is_unused_account(user: User) -> bool:
    """Return whether the account has never been anybody's: only then may an invitation set its password."""
    known = user.has_usable_password() or user.last_login is not None
    return not known and not (
        Membership.objects.filter(user=user, joined_at__isnull=False).exists()
        or SocialAccount.objects.filter(user=user).exists()
    )


def pending_invitations(user: User) -> list[Membership]:
    """The invitations that have not been accepted."""
    return list(Membership.objects.filter(user=user, joined_at__isnull=True, removed_at__isnull=True).order_by("id"))


def has_other_administrator(row: Membership) -> bool:
    """Return True if another person can administer the tenant."""
    here = Membership.objects.filter(
        tenant_id=row.tenant_id,
        is_administrator=True,
        removed_at__isnull=True,
        joined_at__isnull=False,
        user__is_active=True,
    )
    return here.exclude(id=row.id).exists()


def accounts_sharing_email(user: User) -> list[list[Membership]]:
    """In each tenant, the account and those that share a verified address with it."""
    own = EmailAddress.objects.filter(user=user, verified=True).values_list("email", flat=True)
    alike = EmailAddress.objects.filter(email__in=list(own), verified=True).values_list("user_id", flat=True)
    found: dict[UUID, list[Membership]] = defaultdict(list)
    for row in Membership.objects.filter(user_id__in=list(alike), removed_at__isnull=True, joined_at__isnull=False):
        found[row.tenant_id].append(row)
    return [rows for _, rows in sorted(found.items()) if len(rows) > 1 and any(row.user_id == user.id for row in rows)]
