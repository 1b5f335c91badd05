"""A provider of OpenID Connect on loopback: discovery, keys, an authorization endpoint and tokens with PKCE.

It answers honestly unless `lie` says how its next ID token is to be wrong.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "counterfoil-tests", "a shared secret"


def nothing(claims: dict[str, Any]) -> dict[str, Any]:
    return claims


@dataclass
class Identity:
    """Who is at the provider's own sign-in page."""

    sub: str = "u-1"
    email: str = "ada@corp.example"
    email_verified: Any = True


@dataclass
class OidcProvider:
    """One running provider, and what it has seen."""

    identity: Identity = field(default_factory=Identity)
    lie: Callable[[dict[str, Any]], dict[str, Any]] = nothing
    key: Any = field(default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048))
    forger: Any = None
    algorithm: str = "RS256"
    called: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    server: Any = None

    def __enter__(self) -> OidcProvider:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"provider": self}))
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def settings(self, **more: Any) -> dict[str, Any]:
        """As `console.accounts.sign_in.providers` would write it."""
        return {
            "provider_id": "corp",
            "name": "Corp",
            "client_id": CLIENT,
            "secret": SECRET,
            "settings": {
                "server_url": f"{self.url}/.well-known/openid-configuration",
                "issuer": self.url,
                "oauth_pkce_enabled": True,
                "domains": [],
            }
            | more,
        }

    def authorise(self, address: str) -> str:
        """What the person's browser does at the provider: sign in there, and go where it is sent."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        asked = self.codes.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if asked is None or asked.get("code_challenge") != challenge or form.get("client_secret") != SECRET:
            self.refused.append(form.get("code", ""))
            return None
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "exp": int(time.time()) + 300,
            "iat": int(time.time()),
            "nonce": asked.get("nonce", ""),
            **self.identity.__dict__,
        }
        signed = jwt.encode(self.lie(claims), self.forger or self.key, algorithm=self.algorithm, headers={"kid": "one"})
        return {
            "access_token": secrets.token_urlsafe(16),
            "token_type": "Bearer",
            "expires_in": 300,
            "id_token": signed,
        }

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.called or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def keys(self) -> dict[str, Any]:
        public = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [public | {"kid": "one", "use": "sig", "alg": "RS256"}]}


class _Handler(BaseHTTPRequestHandler):
    provider: OidcProvider

    def do_GET(self) -> None:
        known = {"/.well-known/openid-configuration": self.provider.configuration, "/keys": self.provider.keys}
        self._say(known[self.path]() if self.path in known else None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._say(self.provider.token({name: values[0] for name, values in parse_qs(body).items()}))

    def _say(self, said: Any) -> None:
        body = json.dumps(said if said is not None else {"error": "invalid_grant"}).encode()
        self.send_response(200 if said is not None else 400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
