"""The outside destinations of a tenant's events: the file that `COUNTERFOIL_EVENT_DESTINATIONS` names.

Whoever can set an address can have the console call any server that it reaches, and the secret that signs or authorises
a message gives power to its holder. So both are in a file that only the service can read, by names; the console decides
only whether a named destination is sent to, and from where on. The file is read once, when the process starts; a wrong
one stops it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from console.edge.settings_files import UnusableFile
from console.notifications.channels import EVERY_TENANT, is_safe_address, read_secret_document
from reviews.observations.rules import webhooks

_FIELDS: Final = {"webhook": {"kind", "url", "secrets"}, "otlp": {"kind", "url", "headers"}}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Destination:
    """One address: a webhook with the secrets that sign for it, or a collector with its headers."""

    kind: str
    url: str = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def server(self) -> str:
        """The server alone: a path may be as good as a password."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


Destinations = Mapping[str, Destination]


def load_destinations(file: Path) -> dict[str, Destinations]:
    """The destinations by the tenant's short name; those under `*` apply to every tenant without its own."""
    return {
        slug: {name: _destination(f"{file}: {name} of {slug}", name, each) for name, each in _object(file, given)}
        for slug, given in read_secret_document(file).items()
    }


def destinations_of(known: Mapping[str, Destinations], slug: str) -> Destinations:
    """Return a tenant's own destinations, otherwise those for everybody."""
    return known.get(slug) or known.get(EVERY_TENANT) or {}


def _object(file: Path, given: Any) -> list[tuple[str, Any]]:
    if not isinstance(given, Mapping):
        raise UnusableFile(f"{file} must hold, for each tenant, an object with the name of a destination as each name.")
    return [(str(name), each) for name, each in given.items()]


def _destination(where: str, name: str, given: Any) -> Destination:
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if kind not in _FIELDS or set(given) - _FIELDS[kind]:
        raise UnusableFile(f"{where} must have kind webhook with url and secrets, or kind otlp with url and headers.")
    if not _NAME.fullmatch(name):
        raise UnusableFile(f"{where}: a name is 1 to 64 letters, digits, dots, hyphens and underscores.")
    if not is_safe_address(given.get("url")):
        raise UnusableFile(f"{where} needs an https url.")
    if kind == "otlp":
        return Destination(kind, _logs_address(where, given["url"]), headers=_headers(where, given.get("headers", {})))
    secrets = given.get("secrets")
    if not isinstance(secrets, list) or not 1 <= len(secrets) <= 2:
        raise UnusableFile(f"{where} needs one secret, or two while the one replaces the other.")
    try:
        for each in secrets:
            webhooks.decode_secret(str(each))
    except webhooks.BadSecret as bad:
        raise UnusableFile(f"{where}: {bad.detail}") from None
    return Destination(kind, given["url"], secrets=tuple(secrets))


def _logs_address(where: str, url: str) -> str:
    """The address to which logs are posted; a bare server gets the path of OTLP over HTTP."""
    if find_spec("opentelemetry.proto") is None:
        raise UnusableFile(f"{where} needs the extra `telemetry`: pip install 'counterfoil[telemetry]'.")
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1/logs"


def _headers(where: str, given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(each, str) and each.isascii() for each in given.values()):
        raise UnusableFile(f"{where}: headers is an object of texts.")
    return {str(name): value for name, value in given.items()}
