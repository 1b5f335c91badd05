"""The forms of signing in: allauth's own, with our texts and additional checks."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import ChangePasswordForm, LoginForm
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from fido2.utils import websafe_decode
from fido2.webauthn import CollectedClientData

from console.accounts.addresses import normal_form
from console.accounts.step_up import use_code


def require_own_origin(credential: Any) -> None:
    """Refuse a WebAuthn response that was signed on another page, or in a frame of one.

    The library accepts any origin below the RP id. A console shares its host's parent domains with others, so the
    origin is compared exactly (WebAuthn level 3, section 13.4.9).
    """
    try:
        said = CollectedClientData(websafe_decode(credential["response"]["clientDataJSON"]))
        ours = said.origin in settings.COUNTERFOIL_ORIGINS and not said.cross_origin
    except (KeyError, TypeError, ValueError):
        ours = False
    if not ours:
        raise ValidationError("The passkey's answer does not belong to this page. Try again.", code="wrong_origin")


class SignInForm(LoginForm):
    """Email and password. The field keeps the name that password managers have stored it under."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].widget = forms.TextInput(attrs={"autocomplete": "username webauthn", "autofocus": True})
        self.fields["password"].widget = forms.PasswordInput(attrs={"autocomplete": "current-password"})

    def clean_login(self) -> str:
        return normal_form(super().clean_login())

    def add_prefix(self, field_name: str) -> str:
        return "username" if field_name == "login" else field_name


class PasswordChangeForm(ChangePasswordForm):
    """The current password and a new one; a wrong current password counts towards the lock of the sign-in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs.pop("placeholder", None)

    def clean_oldpassword(self) -> str:
        given: str = self.cleaned_data["oldpassword"]
        if not get_adapter().reauthenticate(self.user, given):
            raise get_adapter().validation_error("enter_current_password")
        return given


class _CodeUsedOnce:
    def clean_code(self) -> str:
        code: str = super().clean_code()  # type: ignore[misc]
        if not use_code(self.user, code):  # type: ignore[attr-defined]
            raise ValidationError("This code is wrong or was used before.", code="incorrect_code")
        return code


class CodeSecondStepForm(_CodeUsedOnce, AuthenticateForm):
    """A code after the password."""


class CodeReauthenticationForm(_CodeUsedOnce, ReauthenticateForm):
    """A code, to show that the person at the screen is still the same."""


class AddPasskeyForm(AddWebAuthnForm):
    """A new passkey for signing in; created only on this console's own page."""

    def clean(self) -> dict[str, Any]:
        require_own_origin(self.cleaned_data.get("credential"))
        # Every passkey is one that signs in alone, so the server asks for user verification whatever the page says.
        self.cleaned_data["passwordless"] = True
        return super().clean()


class _FromOurPage:
    def clean_credential(self) -> Any:
        require_own_origin(self.cleaned_data["credential"])  # type: ignore[attr-defined]
        return super().clean_credential()  # type: ignore[misc]


class PasskeySecondStepForm(_FromOurPage, AuthenticateWebAuthnForm):
    """A passkey after the password."""


class PasskeySignInForm(_FromOurPage, LoginWebAuthnForm):
    """A passkey instead of a password."""


class PasskeyReauthenticationForm(_FromOurPage, ReauthenticateWebAuthnForm):
    """A passkey, to show that the person at the screen is still the same."""
