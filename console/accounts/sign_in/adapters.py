"""allauth adapters: sign-up is closed, failed passwords are limited by axes, factor secrets are encrypted.

allauth finds these classes by the settings; nothing else calls them.
"""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest

from ledger import keystore
from ledger.record.rules import encryption

if TYPE_CHECKING:
    from console.models import User

BACKEND = "console.accounts.sign_in.sessions.PasswordBackend"
PLACE = "counterfoil second factor"


def reseal(sealed: str, keys: Sequence[bytes]) -> str:
    """Return a factor's sealed secret under the first of these keys, unchanged if it is."""
    try:
        _open(keys[:1], sealed)
    except encryption.CannotOpen:
        return _seal(keys[0], _open(keys, sealed))
    return sealed


def _seal(key: bytes, secret: bytes) -> str:
    return b64encode(encryption.seal(key, secrets.token_bytes(encryption.NONCE_BYTES), secret, PLACE)).decode()


def _open(keys: Sequence[bytes], sealed: str) -> bytes:
    return keystore.open_with_any(keys, b64decode(sealed), PLACE)


class AccountAdapter(DefaultAccountAdapter):
    """Accounts are made by administrators, never by signing up."""

    error_messages: ClassVar[dict[str, Any]] = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": "Wrong email or password.",
        "incorrect_password": "This is not your password.",
        "incorrect_code": "This code is wrong or was used before.",
        "too_many_login_attempts": "Too many wrong codes. Wait five minutes, then try again.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Leave counting wrong passwords to axes, as at a vote; a second count would only lock earlier."""

    def set_password(self, user: User, password: str) -> None:
        """Set a password; that it was set is on record with it (`PasswordRecorder`)."""
        with transaction.atomic():
            super().set_password(user, password)

    def login(self, request: HttpRequest, user: User) -> None:
        user.backend = getattr(user, "backend", BACKEND)
        super().login(request, user)

    def add_message(self, request: HttpRequest, level: int, *args: Any, **kwargs: Any) -> None:
        """Show only errors: a successful sign-in is visible from the page that follows."""
        if kwargs.get("message"):
            super().add_message(request, level, *args, **kwargs)


class MfaAdapter(DefaultMFAAdapter):
    """Authenticator apps, recovery codes and passkeys; their secrets are useless in a stolen database."""

    error_messages: ClassVar[dict[str, Any]] = DefaultMFAAdapter.error_messages | {
        "incorrect_code": "This code is wrong or was used before, or this passkey is not registered here.",
    }

    def encrypt(self, text: str) -> str:
        return _seal(keystore.key_encryption_key(), text.encode())

    def decrypt(self, encrypted_text: str) -> str:
        return _open(keystore.key_encryption_keys(), encrypted_text).decode()

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return {"id": settings.COUNTERFOIL_RP_ID, "name": "Counterfoil"}

    def generate_authenticator_name(self, user: User, type: Any) -> str:
        return "Passkey"
