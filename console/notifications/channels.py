"""Where an installation's tenants reach people outside: the file that `COUNTERFOIL_CHANNELS` names.

Addresses of chat rooms and the secrets of webhooks give power to whoever holds them, so they stand in a file that only
the service can read, never in the database. It is read once, when the process starts; a wrong one stops it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from console.pages.ledger.settings_files import UnusableFile
from reviews.observations.rules import webhooks

EVERY_TENANT = "*"
_NAMES = {"slack", "webhook"}


@dataclass(frozen=True)
class TenantOutlets:
    """The addresses of one tenant; `webhook` is an address and the secret that signs for it."""

    slack: str = ""
    webhook: tuple[str, str] | None = None

    def __repr__(self) -> str:
        # What this holds must not stand in a log.
        return f"Outlets(slack={bool(self.slack)}, webhook={self.webhook is not None})"


def load_outlets(file: Path) -> dict[str, TenantOutlets]:
    """The addresses by the tenant's short name; `*` is for every tenant that has none of its own."""
    try:
        if file.stat().st_mode & 0o077:
            raise UnusableFile(f"{file} holds secrets and must be closed to others: chmod 600 it.")
        document = orjson.loads(file.read_bytes())
    except OSError as problem:
        raise UnusableFile(f"{file} cannot be read: {problem.strerror}.") from None
    except orjson.JSONDecodeError:
        raise UnusableFile(f"{file} is not JSON.") from None
    if not isinstance(document, Mapping):
        raise UnusableFile(f"{file} must be an object with a tenant's short name or * as each name.")
    return {str(slug): _outlets(file, slug, given) for slug, given in document.items()}


def outlets_for(known: Mapping[str, TenantOutlets], slug: str) -> TenantOutlets:
    """A tenant's own addresses, else those for everybody."""
    return known.get(slug) or known.get(EVERY_TENANT) or TenantOutlets()


def _outlets(file: Path, slug: str, given: Any) -> TenantOutlets:
    if not isinstance(given, Mapping) or set(given) - _NAMES:
        raise UnusableFile(f"{file}: {slug} must be an object with slack, webhook, or both.")
    slack, webhook = given.get("slack", ""), given.get("webhook")
    if slack and not _is_safe(slack):
        raise UnusableFile(f"{file}: the slack address of {slug} must be an https address.")
    if webhook is None:
        return TenantOutlets(slack)
    if not isinstance(webhook, Mapping) or set(webhook) != {"url", "secret"} or not _is_safe(webhook["url"]):
        raise UnusableFile(f"{file}: the webhook of {slug} needs an https url and a secret.")
    try:
        webhooks.decode_secret(str(webhook["secret"]))
    except webhooks.BadSecret as bad:
        raise UnusableFile(f"{file}: the webhook of {slug}: {bad.detail}") from None
    return TenantOutlets(slack, (webhook["url"], webhook["secret"]))


def _is_safe(address: Any) -> bool:
    """An address over TLS, or one on this machine."""
    try:
        parts = urlsplit(address) if isinstance(address, str) else urlsplit("")
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        return "@" not in parts.netloc and bool(parts.hostname) and (parts.scheme == "https" or local)
    except ValueError:
        return False
