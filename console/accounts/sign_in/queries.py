"""Reads of allauth's data about a person: their factors, sessions, and identity providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession

if TYPE_CHECKING:
    from console.models import User


def second_factors(user: User) -> list[Authenticator]:
    """Authenticator app, recovery codes and passkeys, oldest first."""
    return list(Authenticator.objects.filter(user=user).order_by("created_at"))


def authenticator_app(user: User) -> Authenticator | None:
    """The app that makes the person's one-time codes."""
    return Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).first()


def sessions(user: User) -> list[UserSession]:
    """The sessions in which the person is signed in now."""
    listed: list[UserSession] = UserSession.objects.purge_and_list(user)
    return listed


def connected_providers(user: User) -> list[SocialAccount]:
    """The providers that have vouched for the person."""
    return list(SocialAccount.objects.filter(user=user).order_by("provider"))
