"""Single sign-on by OpenID Connect, as the environment describes it. Read once, when the settings are loaded.

COUNTERFOIL_OIDC="okta entra"             which providers there are; a word each, part of the callback's address
COUNTERFOIL_OIDC_OKTA_NAME="Okta"         what the button says (the word itself)
COUNTERFOIL_OIDC_OKTA_ISSUER=https://…    the issuer, exactly as the provider writes it
COUNTERFOIL_OIDC_OKTA_CLIENT_ID=…
COUNTERFOIL_OIDC_OKTA_CLIENT_SECRET=…     or a file `oidc_okta` beside the keys
COUNTERFOIL_OIDC_OKTA_DOMAINS="a.example" whose e-mail addresses it may vouch for (any)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

WORD = re.compile(r"[a-z][a-z0-9-]{0,30}")
# A signature by one of these, and by a key of the provider's: never `none`, never a shared secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class BadProviderSettings(Exception):
    """A provider's settings in the environment cannot be used; the text has the reason."""


def load_providers(environment: Mapping[str, str], secrets: Path) -> list[dict[str, Any]]:
    """Every provider, in the form of allauth's settings; none if none is configured."""
    words = environment.get("COUNTERFOIL_OIDC", "").replace(",", " ").split()
    if len(words) != len(set(words)):
        raise BadProviderSettings("COUNTERFOIL_OIDC names a provider twice.")
    return [_provider(word, environment, secrets) for word in words]


def _provider(word: str, environment: Mapping[str, str], secrets: Path) -> dict[str, Any]:
    if not WORD.fullmatch(word):
        raise BadProviderSettings(
            f"COUNTERFOIL_OIDC: {word!r} is no name of a provider: use lower-case letters and digits."
        )
    prefix = f"COUNTERFOIL_OIDC_{word.upper().replace('-', '_')}_"

    def told(name: str) -> str:
        value = environment.get(prefix + name, "").strip()
        if not value:
            raise BadProviderSettings(f"COUNTERFOIL_OIDC names {word}, and {prefix}{name} is not set.")
        return value

    issuer = told("ISSUER")
    parts = urlsplit(issuer)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1")):
        raise BadProviderSettings(f"{prefix}ISSUER must be an https address.")
    file = secrets / f"oidc_{word}"
    return {
        "provider_id": word,
        "name": environment.get(prefix + "NAME") or word,
        "client_id": told("CLIENT_ID"),
        "secret": file.read_text().strip() if file.is_file() else told("CLIENT_SECRET"),
        "settings": {
            "server_url": issuer.rstrip("/") + "/.well-known/openid-configuration",
            "issuer": issuer,
            "oauth_pkce_enabled": True,
            "domains": environment.get(prefix + "DOMAINS", "").lower().replace(",", " ").split(),
        },
    }
