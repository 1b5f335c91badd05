"""Reads of allauth's data about a person: their factors, sessions, and identity providers."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from uuid import UUID

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.conf import settings

if TYPE_CHECKING:
    from console.models import User


def second_factors(user: User) -> list[Authenticator]:
    """Authenticator app, recovery codes and passkeys, oldest first."""
    return list(Authenticator.objects.filter(user=user).order_by("created_at"))


def authenticator_app(user: User) -> Authenticator | None:
    """The app that makes the person's one-time codes."""
    return Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).first()


def holders_of_second_factor(users: Collection[UUID]) -> frozenset[UUID]:
    """The accounts among these that have an authenticator app or a passkey; recovery codes alone do not count."""
    kinds = [Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN]
    return frozenset(Authenticator.objects.filter(user__in=users, type__in=kinds).values_list("user_id", flat=True))


def lacks_second_factor(user: User, roles: Collection[str]) -> bool:
    """Return whether one of these roles needs a second factor in this installation and the account has none."""
    needed = settings.COUNTERFOIL_SECOND_FACTOR_ROLES & frozenset(roles)
    return bool(needed) and not holders_of_second_factor([user.pk])


def sessions(user: User) -> list[UserSession]:
    """The sessions in which the person is signed in now."""
    listed: list[UserSession] = UserSession.objects.purge_and_list(user)
    return listed


def connected_providers(user: User) -> list[SocialAccount]:
    """The providers that have vouched for the person."""
    return list(SocialAccount.objects.filter(user=user).order_by("provider"))
