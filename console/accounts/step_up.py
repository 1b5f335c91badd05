"""Step-up authentication: password, one-time code or session proof for a sensitive action (D7)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.core import ratelimit
from allauth.mfa import app_settings
from django.conf import settings
from django.contrib.auth import authenticate
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from console.accounts.sign_in.queries import authenticator_app
from ledger.record.rules.canonical import digest
from ledger.record.rules.outcomes import SESSION_ALONE
from ledger.record.rules.refusals import RateExceeded

if TYPE_CHECKING:
    from console.models import User

T = TypeVar("T")


def is_recently_authenticated(request: HttpRequest) -> bool:
    """Return True if the user gave a password, a code or a passkey, or came from their provider, within the last
    minutes.

    allauth counts people without password and second factor as recently authenticated for ever. They sign in through
    their provider, so here they are sent to it again.
    """
    records = get_authentication_records(request, request.user)
    return bool(records) and time.time() - records[-1]["at"] < settings.ACCOUNT_REAUTHENTICATION_TIMEOUT


def redirect_to_reauthentication(request: HttpRequest) -> HttpResponse:
    """Redirect to the page where the user authenticates again, and back."""
    query = urlencode({"next": request.get_full_path()})
    known = bool(get_reauthentication_flows(request.user))
    return redirect(f"{reverse('account_reauthenticate' if known else 'again-outside')}?{query}")


def require_recent_authentication(view: Callable[..., Any]) -> Callable[..., Any]:
    """A page of allauth that requires recent authentication, by any sign-in method."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if (
            request.user.is_authenticated
            and not get_reauthentication_flows(request.user)
            and not is_recently_authenticated(request)
        ):
            return redirect_to_reauthentication(request)
        return view(request, *args, **kwargs)

    return checked


class LockedOut(RateExceeded):
    """Too many wrong passwords; wait a quarter of an hour."""

    code = "LOCKED_OUT"


class UncheckedProof(Exception):
    """A write needs a password or a code to be checked, outside of its transaction."""

    def __init__(self, *given: Any) -> None:
        super().__init__("A proof is asked for in a write of `run_with_proof`, and nowhere else.")
        self.given = given


def run_with_proof(request: Any, write: Callable[[], T], *, read_caller: Callable[[], None]) -> T:
    """Run `write`, which opens the transaction of this request; a proof that it needs is checked outside of it.

    A wrong password counts and a code is used up whatever becomes of the write: where the write asks, it is undone, the
    proof is checked, and the write runs again with the result. Checking takes a while, so `read_caller` reads who is
    asking once more. If we crash before the second run, the code is used up and nothing was done.
    """
    try:
        return write()
    except UncheckedProof as unchecked:
        request.checked_proof = unchecked.given, _check_proof(request, *unchecked.given)
    read_caller()
    return write()


def proof_class(request: HttpRequest, user: User, password: str | None, code: str | None = None) -> str:
    """B for a session with a fresh one-time code, C with the fresh password, D alone; "" if the given one was wrong.

    To be asked in a write of `run_with_proof`, before anything that cannot be undone. Wrong passwords count towards the
    lock of the sign-in, and wrong codes towards that of the second step.
    """
    if not password and not code:
        return SESSION_ALONE
    given, evidence_class = getattr(request, "checked_proof", (None, ""))
    if given != (user, password, code):
        raise UncheckedProof(user, password, code)
    return str(evidence_class)


def _check_proof(request: Any, user: User, password: str | None, code: str | None) -> str:
    if code:
        return "B" if _holds(request, user, code) else ""
    # Through `authenticate`, so that wrong passwords count towards a lock as they do at sign-in.
    known = authenticate(request, username=user.get_username(), password=password)
    if getattr(request, "axes_locked_out", False):
        # Ours to answer: the middleware would put a page in the place of a problem.
        request.axes_locked_out = False
        raise LockedOut(retry_after_s=900)
    return "C" if known is not None and known.pk == user.pk else ""


def is_proven(request: HttpRequest, password: str | None, code: str | None) -> bool:
    """Return whether the person has proved their identity in the last minutes, or does with this password or one-time
    code.
    """
    if is_recently_authenticated(request):
        return True
    # A machine's key brings no person whose password or code could be checked.
    return request.user.is_authenticated and proof_class(request, request.user, password, code) in ("B", "C")


def _holds(request: HttpRequest, user: User, code: str) -> bool:
    """Return whether a code of the person's authenticator app is right and unused in any process."""
    app = authenticator_app(user)
    key = f"mfa-auth-user-{user.pk}"
    if app is None:
        return False
    if not ratelimit.consume(request, action="login_failed", key=key):
        raise LockedOut("Too many wrong codes; wait five minutes.", retry_after_s=300)
    if not app.wrap().validate_code(code) or not use_code(user, code):
        return False
    ratelimit.clear(request, action="login_failed", key=key)
    return True


def use_code(user: User, code: str) -> bool:
    """Consume a valid one-time code; return False if it was used before, in any process and for anything."""
    # Longer than a code can be right: the library forgets a used code while it still is.
    life = app_settings.TOTP_PERIOD * (2 * app_settings.TOTP_TOLERANCE + 2)
    digits = "".join(each for each in code if each.isdigit())
    return bool(cache.add(f"used-code-{user.pk}-{digits}", "used", timeout=life))


def session_hash(request: HttpRequest) -> str:
    """Return an identifier of the browser session that does not reveal its key: a challenge must be answered in its own
    session.
    """
    return digest((request.session.session_key or "").encode())
