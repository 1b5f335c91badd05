"""Whether the user has authenticated recently.

allauth counts people who have neither a password nor a second factor as "recently authenticated" for ever; such people
come by single sign-on, so here they are sent to their provider once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse


def is_recently_authenticated(request: HttpRequest) -> bool:
    """They gave a password, a code or a passkey, or came from their provider, within the last minutes."""
    records = get_authentication_records(request, request.user)
    return bool(records) and time.time() - records[-1]["at"] < settings.ACCOUNT_REAUTHENTICATION_TIMEOUT


def redirect_to_reauthentication(request: HttpRequest) -> HttpResponse:
    """To the page where they show it, and back."""
    query = urlencode({"next": request.get_full_path()})
    known = bool(get_reauthentication_flows(request.user))
    return redirect(f"{reverse('account_reauthenticate' if known else 'again-outside')}?{query}")


def require_recent_authentication(view: Callable[..., Any]) -> Callable[..., Any]:
    """A page of allauth's own that only somebody fresh may see, whatever they sign in with."""

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
