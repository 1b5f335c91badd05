"""Reads of the directory: keys, people and their places. Outside row-level security."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import Q

from console.models import AnsweredWrite, ApiKey, Membership, User


def live_key(key_hash: str, *, at: datetime) -> ApiKey | None:
    """The key with this hash, unless it is revoked or has run out."""
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=at)
    return ApiKey.objects.filter(alive, hash=key_hash, revoked_at__isnull=True).first()


def membership(user: User, tenant_id: UUID) -> Membership | None:
    return Membership.objects.filter(user=user, tenant_id=tenant_id, removed_at__isnull=True).first()


def memberships(user: User) -> list[Membership]:
    return list(Membership.objects.filter(user=user, removed_at__isnull=True).order_by("tenant_id"))


def members(tenant_id: UUID) -> list[Membership]:
    return list(Membership.objects.filter(tenant_id=tenant_id).select_related("user").order_by("user__username"))


def names_of(tenant_id: UUID) -> dict[UUID, str]:
    """What the console calls each pseudonym of the record: people by their names, machines by their keys' names."""
    people = {each.actor_id: each.user.get_full_name() or each.user.get_username() for each in members(tenant_id)}
    machines = dict(ApiKey.objects.filter(tenant_id=tenant_id).values_list("actor_id", "name"))
    return machines | people


def keys(tenant_id: UUID) -> list[ApiKey]:
    return list(ApiKey.objects.filter(tenant_id=tenant_id).order_by("-created_at"))


def answered(tenant_id: UUID, caller: UUID, key_hash: str) -> AnsweredWrite | None:
    return AnsweredWrite.objects.filter(tenant_id=tenant_id, caller=caller, key_hash=key_hash).first()
