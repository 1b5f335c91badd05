"""Web Push without content: the allowed push services, and the sender's signature (RFC 8292).

The address of a device comes from its browser, so whoever is signed in may name any. It is believed only where its
server is one that the installation names, over TLS: a request that is made on somebody's behalf leads nowhere else.
Nothing is encrypted for the device, because nothing is sent to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from approvals.execution.rules import jws
from console.edge.settings_files import UnusableFile

BROWSERS: Final = (
    "fcm.googleapis.com",
    "updates.push.services.mozilla.com",
    "*.push.apple.com",
    "*.notify.windows.com",
)
"""The services of Chrome and its kin, Firefox, Safari and Edge: what `browsers` stands for."""
LONGEST_ADDRESS: Final = 1000
_SIGNED_FOR: Final = timedelta(hours=12)
_NAME: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_KEPT_S: Final = 4 * 3600


@dataclass(frozen=True)
class PushSender:
    """The push services that this installation calls, and its key and contact."""

    services: tuple[str, ...]
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    contact: str

    @property
    def public_key(self) -> str:
        """The public key for browsers, so that nobody else can wake their devices."""
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return jws.encode(point)

    def accepts(self, address: str) -> bool:
        """Return whether this is an address at one of the services."""
        try:
            parts = urlsplit(address)
        except ValueError:
            return False
        plain = parts.scheme == "https" and not parts.fragment and address.isascii() and address.isprintable()
        return plain and len(address) <= LONGEST_ADDRESS and any(_is_at(parts.netloc, each) for each in self.services)

    def headers(self, address: str, *, at: datetime) -> dict[str, str]:
        """The headers of an empty message; of several that a device missed, the service keeps the last one."""
        parts = urlsplit(address)
        claims = {
            "aud": f"{parts.scheme}://{parts.netloc}",
            "exp": int((at + _SIGNED_FOR).timestamp()),
            "sub": self.contact,
        }
        token = jws.write_token(header={"typ": "JWT", "alg": "ES256"}, claims=claims, sign=self._sign)
        return {
            "Authorization": f"vapid t={token}, k={self.public_key}",
            "TTL": str(_KEPT_S),
            # The same for all, so that the service does not learn the risk either.
            "Urgency": "high",
            "Topic": "waits",
        }

    def _sign(self, text: bytes) -> bytes:
        r, s = decode_dss_signature(self.key.sign(text, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32) + s.to_bytes(32)


def load_push_sender(file: Path, services: str, contact: str) -> PushSender | None:
    """Load the installation's Web Push settings; None if they name no service."""
    named = tuple(each for word in services.lower().split() for each in (BROWSERS if word == "browsers" else (word,)))
    if not named:
        return None
    if wrong := next((each for each in named if "." not in each.removeprefix("*.") and ":" not in each), ""):
        raise UnusableFile(f"{wrong} is no server; name browsers, or servers like push.example.org or *.example.org.")
    try:
        if file.stat().st_mode & 0o077:
            raise UnusableFile(f"{file} is a key and must be closed to others: chmod 600 it.")
        key = load_pem_private_key(file.read_bytes(), password=None)
    except OSError:
        raise UnusableFile(
            f"{file} is not there. `python -m console.local.keys --push {file.parent}` makes it."
        ) from None
    except ValueError:
        raise UnusableFile(f"{file} holds no key in PEM.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise UnusableFile(f"{file} must hold a P-256 key.")
    return PushSender(named, key, contact)


def _is_at(server: str, service: str) -> bool:
    """Return whether a server is the named one, or below a name that begins with `*.`."""
    below = service.startswith("*.") and server.endswith(service[1:])
    return server == service or (below and _NAME.fullmatch(server) is not None)
