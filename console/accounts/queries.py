"""Reads of the directory: keys, people and memberships. Outside row-level security."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from approvals.agents import queries as agents
from approvals.requests.rules import threads
from console.accounts.addresses import normal_form
from console.models import AnsweredWrite, ApiKey, Membership, PageView, SavedView, User
from ledger import keystore
from ledger.catalogue.rules.moving import check_here
from ledger.db import columns, execute, load_models
from ledger.record.operations import SYSTEM_ACTOR
from ledger.record.rules import encryption
from ledger.record.rules.canonical import digest
from ledger.record.rules.ids import lower_bound


def active_key(tenant_id: UUID, key_hash: str, *, at: datetime) -> ApiKey | None:
    """The tenant's key with this hash, unless it is revoked or expired; refused while the tenant is not here."""
    rows = execute(_ACTIVE_KEY, tenant_id, key_hash, at)
    if not rows:
        return None
    [key], (moving, move) = load_models(rows[0], ApiKey)
    check_here(moving, move)
    found: ApiKey = key
    return found


_ACTIVE_KEY = f"""
SELECT {columns(ApiKey, "k")}, coalesce(t.moving, ''), t.move
FROM console_apikey k LEFT JOIN ledger_tenant t ON t.id = k.tenant_id
WHERE k.tenant_id = $1 AND k.hash = $2 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $3)
"""


def is_key_active(tenant_id: UUID, actor_id: UUID, *, at: datetime) -> bool:
    """Return whether the key with this pseudonym may still be used."""
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=at)
    return ApiKey.objects.filter(alive, tenant_id=tenant_id, actor_id=actor_id, revoked_at__isnull=True).exists()


def stored_password(username: str | None) -> str | None:
    """The stored hash of an account's password."""
    return User.objects.filter(username=username).values_list("password", flat=True).first()


def membership(user: User, tenant_id: UUID) -> Membership | None:
    """The membership of a person with an open account in this tenant, if any."""
    here = Membership.objects.filter(user=user, tenant_id=tenant_id, removed_at__isnull=True, user__is_active=True)
    return here.filter(joined_at__isnull=False).first()


def memberships(user: User) -> list[Membership]:
    return [each for each, _, _ in memberships_and_moves(user)]


def memberships_and_moves(user: User) -> list[tuple[Membership, str, dict[str, Any] | None]]:
    """Each membership of an account, with the state and the destination of its tenant's move, if it has one."""
    found = []
    for row in execute(_MEMBERSHIPS, user.id):
        [membership], (moving, move) = load_models(row, Membership)
        found.append((membership, moving, move))
    return found


_MEMBERSHIPS = f"""
SELECT {columns(Membership, "m")}, t.moving, t.move
FROM console_membership m JOIN ledger_tenant t ON t.id = m.tenant_id
WHERE m.user_id = $1 AND m.removed_at IS NULL AND m.joined_at IS NOT NULL ORDER BY m.tenant_id
"""


def person_with_email(email: str) -> User | None:
    """The one account that this address belongs to: by its name, or by an address that was verified as theirs."""
    address = normal_form(email)
    named = list(User.objects.filter(username=address)[:2])
    known = named or list(User.objects.filter(emailaddress__email=address, emailaddress__verified=True)[:2])
    return known[0] if len(known) == 1 else None


def members(tenant_id: UUID) -> list[Membership]:
    return list(Membership.objects.filter(tenant_id=tenant_id).select_related("user").order_by("user__username"))


def member_named(tenant_id: UUID, name: str) -> Membership | None:
    """A member by their sign-in name."""
    here = Membership.objects.filter(tenant_id=tenant_id, removed_at__isnull=True)
    return here.filter(user__username=normal_form(name)).first()


def membership_of(tenant_id: UUID, actor_id: UUID) -> Membership | None:
    """The membership with this pseudonym, unless it was removed."""
    here = Membership.objects.filter(tenant_id=tenant_id, actor_id=actor_id, removed_at__isnull=True)
    return here.filter(user__is_active=True, joined_at__isnull=False).select_related("user").first()


def name_of(row: Membership) -> str:
    """The name of a person in a tenant; of an invited person only the address is known."""
    known: str = row.user.get_full_name() if row.joined_at is not None else ""
    return known or row.user.get_username()


def operators(tenant_id: UUID) -> dict[UUID, str]:
    """The pseudonym and name of every operator."""
    return members_with(tenant_id, "operator")


def members_with(tenant_id: UUID, *roles: str) -> dict[UUID, str]:
    """The pseudonym and name of every member who can sign in and has one of these roles."""
    return {
        each.actor_id: name_of(each)
        for each in members(tenant_id)
        if each.removed_at is None
        and each.joined_at is not None
        and each.user.is_active
        and any(getattr(each, f"is_{role}") for role in roles)
    }


def mention_names(tenant_id: UUID) -> dict[str, UUID]:
    """By which names the members of a tenant can be mentioned."""
    here = [each for each in members(tenant_id) if each.removed_at is None and each.user.is_active]
    return threads.mention_handles(
        (each.actor_id, each.user.get_username(), each.user.get_full_name()) for each in here
    )


def names_of(tenant_id: UUID) -> dict[UUID, str]:
    """The name of each pseudonym in the record: people by their names, machines by their keys' names."""
    return {actor_id: str(name) for actor_id, name in execute(_NAMES, tenant_id)}


def actor_names(tenant_id: UUID) -> dict[UUID, str]:
    """The names of all pseudonyms in the record: people, machines, agents and the console itself."""
    return {**names_of(tenant_id), **agents.agent_names(tenant_id), SYSTEM_ACTOR: "Counterfoil"}


# A person's name as `name_of` gives it; where a machine's key has the same pseudonym, the person counts.
_NAMES = """
SELECT actor_id, name FROM console_apikey WHERE tenant_id = $1 AND actor_id NOT IN (
    SELECT actor_id FROM console_membership WHERE tenant_id = $1)
UNION ALL SELECT m.actor_id, CASE WHEN m.joined_at IS NULL THEN u.username
        ELSE coalesce(nullif(btrim(u.first_name || ' ' || u.last_name), ''), u.username) END
    FROM console_membership m JOIN console_user u ON u.id = m.user_id WHERE m.tenant_id = $1
"""


def api_keys(tenant_id: UUID) -> list[ApiKey]:
    return list(ApiKey.objects.filter(tenant_id=tenant_id).order_by("-created_at"))


def stored_answer(tenant_id: UUID, caller: UUID, key: str, request: bytes) -> tuple[int, bytes] | None:
    """Status and body of the first answer for this idempotency key; None if it was for another request."""
    first = AnsweredWrite.objects.filter(tenant_id=tenant_id, caller=caller, key_hash=digest(key.encode())).first()
    if first is None:
        return None
    for secret in answer_encryption_keys(key):
        if hmac.compare_digest(first.request_hash, request_hash(secret, request)):
            place = answer_storage_key(tenant_id, caller, key)
            return first.status, encryption.open_sealed(secret, bytes(first.body), place)
    return None


def answer_encryption_keys(key: str) -> list[bytes]:
    """The key that seals the answer of one idempotency key, and those that may have: deriving them takes the caller's
    key and ours.
    """
    return [
        hmac.digest(each, b"counterfoil answered write\x00" + key.encode(), "sha256")
        for each in keystore.key_encryption_keys()
    ]


def answer_storage_key(tenant_id: UUID, caller: UUID, key: str) -> str:
    return f"{tenant_id}/{caller}/{digest(key.encode())}"


def request_hash(secret: bytes, request: bytes) -> str:
    """Return a keyed hash, because a request may hold a password, and a plain hash of few candidates can be guessed."""
    return hmac.digest(secret, request, "sha256").hex()


def saved_views(tenant_id: UUID, page: str, *, of: UUID) -> list[SavedView]:
    """The views of a page that a person sees: their own and shared ones, by name."""
    seen = Q(owner=of) | Q(shared=True)
    return list(SavedView.objects.filter(seen, tenant_id=tenant_id, page=page).order_by("name", "id"))


def first_sightings(tenant_id: UUID, actor_id: UUID, things: Collection[UUID]) -> dict[UUID, datetime]:
    """The time at which a person first opened each of these objects; unopened ones are left out."""
    found = execute(
        "SELECT thing_id, min(at) FROM console_sighting"
        " WHERE tenant_id = $1 AND actor_id = $2 AND thing_id = ANY($3) GROUP BY thing_id",
        *(tenant_id, actor_id, list(things)),
    )
    return dict(found)


def sightings(
    tenant_id: UUID,
    *,
    actor: UUID | None = None,
    things: Collection[UUID] = (),
    kind: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[PageView]:
    """The pages that people opened, newest first, before the row `before`; for objects also their parts."""
    wanted = Q(tenant_id=tenant_id)
    for given, asked in (
        (actor, Q(actor_id=actor)),
        (things, Q(thing_id__in=things) | Q(about_id__in=things)),
        (kind, Q(kind=kind)),
        (since, Q(id__gte=lower_bound(since) if since else None)),
        (until, Q(id__lt=lower_bound(until) if until else None)),
        (before, Q(id__lt=before)),
    ):
        if given:
            wanted &= asked
    return list(PageView.objects.filter(wanted).order_by("-id")[:limit])
