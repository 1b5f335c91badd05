"""Step-up authentication: password, one-time code or session proof for a sensitive action (D7)."""

from __future__ import annotations

from typing import Any

from allauth.core import ratelimit
from allauth.mfa import app_settings
from django.contrib.auth import authenticate
from django.core.cache import cache
from django.http import HttpRequest

from console.accounts.sign_in.freshness import is_recently_authenticated
from console.accounts.sign_in.queries import authenticator_app
from console.api.rate import RateExceeded
from ledger.record.rules.canonical import digest
from ledger.record.rules.proof_classes import SESSION_ALONE


class LockedOut(RateExceeded):
    """Too many wrong passwords; wait a quarter of an hour."""

    code = "LOCKED_OUT"
    retry_after_s = 900


def proof_class(request: HttpRequest, user: Any, password: str | None, code: str | None = None) -> str:
    """B for a session with a fresh one-time code, C with the fresh password, D alone; "" where what was given is wrong.

    Wrong passwords count towards the lock of the sign-in, and wrong codes towards that of the second step.
    """
    if code:
        return "B" if _holds(request, user, code) else ""
    if not password:
        return SESSION_ALONE
    # Through `authenticate`, so that wrong passwords count towards a lock as they do at sign-in.
    known = authenticate(request, username=user.get_username(), password=password)
    if getattr(request, "axes_locked_out", False):
        # Ours to answer: the middleware would put a page in the place of a problem.
        request.axes_locked_out = False  # type: ignore[attr-defined]
        raise LockedOut
    return "C" if known is not None and known.pk == user.pk else ""


def is_proven(request: HttpRequest, password: str | None, code: str | None) -> bool:
    """Whether the person has shown who they are: in the last minutes, or with this password or one-time code."""
    return is_recently_authenticated(request) or proof_class(request, request.user, password, code) in ("B", "C")


def _holds(request: HttpRequest, user: Any, code: str) -> bool:
    """Whether a code of the person's authenticator app is right and was not used before, in any process."""
    app = authenticator_app(user)
    key = f"mfa-auth-user-{user.pk}"
    if app is None:
        return False
    if not ratelimit.consume(request, action="login_failed", key=key):
        raise LockedOut("Too many wrong codes; wait five minutes.")
    # Longer than a code can be right: the library forgets a used code while it still is.
    life = app_settings.TOTP_PERIOD * (2 * app_settings.TOTP_TOLERANCE + 2)
    digits = "".join(each for each in code if each.isdigit())
    if not app.wrap().validate_code(code) or not cache.add(f"vote-code-{user.pk}-{digits}", "used", timeout=life):
        return False
    ratelimit.clear(request, action="login_failed", key=key)
    return True


def session_hash(request: HttpRequest) -> str:
    """Names the browser session without giving its key away: a challenge is answered in the session that asked."""
    return digest((request.session.session_key or "").encode())
