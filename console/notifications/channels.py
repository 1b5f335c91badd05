"""The outside channels of an installation's tenants: the file that `COUNTERFOIL_CHANNELS` names.

Addresses of chat rooms and the secrets of webhooks give power to their holder, so they are in a file that only the
service can read, never in the database. It is read once, when the process starts; a wrong one stops it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from console.edge.settings_files import UnusableFile
from reviews.observations.rules import webhooks

EVERY_TENANT = "*"
SLACK_API = "https://slack.com/api/"
_NAMES = {"slack", "webhook"}


@dataclass(frozen=True)
class ChatRoom:
    """A channel of a workspace in which an app posts and edits its messages; the token is the app's bot token."""

    token: str = field(repr=False)
    channel: str
    api: str = SLACK_API


@dataclass(frozen=True)
class TenantOutlets:
    """The addresses of one tenant; `webhook` is an address and the secret that signs for it.

    `slack` is the address of an incoming webhook, which only takes messages, or a room.
    """

    slack: str | ChatRoom = ""
    webhook: tuple[str, str] | None = None

    def __repr__(self) -> str:
        # What this holds must not stand in a log.
        return f"Outlets(slack={bool(self.slack)}, webhook={self.webhook is not None})"


def load_outlets(file: Path) -> dict[str, TenantOutlets]:
    """The addresses by the tenant's short name; `*` applies to every tenant without its own."""
    return {slug: _outlets(file, slug, given) for slug, given in read_secret_document(file).items()}


def read_secret_document(file: Path) -> dict[str, Any]:
    """Read a file that only the service can read, with one part per tenant, by short name."""
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
    return {str(slug): given for slug, given in document.items()}


def outlets_for(known: Mapping[str, TenantOutlets], slug: str) -> TenantOutlets:
    """Return a tenant's own addresses, otherwise those for everybody."""
    return known.get(slug) or known.get(EVERY_TENANT) or TenantOutlets()


def _outlets(file: Path, slug: str, given: Any) -> TenantOutlets:
    if not isinstance(given, Mapping) or set(given) - _NAMES:
        raise UnusableFile(f"{file}: {slug} must be an object with slack, webhook, or both.")
    slack, webhook = given.get("slack", ""), given.get("webhook")
    if isinstance(slack, Mapping):
        slack = _chat_room(file, slug, slack)
    elif slack and not is_safe_address(slack):
        raise UnusableFile(f"{file}: the slack address of {slug} must be an https address.")
    if webhook is None:
        return TenantOutlets(slack)
    if not isinstance(webhook, Mapping) or set(webhook) != {"url", "secret"} or not is_safe_address(webhook["url"]):
        raise UnusableFile(f"{file}: the webhook of {slug} needs an https url and a secret.")
    try:
        webhooks.decode_secret(str(webhook["secret"]))
    except webhooks.BadSecret as bad:
        raise UnusableFile(f"{file}: the webhook of {slug}: {bad.detail}") from None
    return TenantOutlets(slack, (webhook["url"], webhook["secret"]))


def _chat_room(file: Path, slug: str, given: Mapping[str, Any]) -> ChatRoom:
    named = {"api": SLACK_API} | dict(given)
    words = all(isinstance(each, str) and each.isascii() and each.strip() == each != "" for each in named.values())
    if set(named) != {"token", "channel", "api"} or not words or not is_safe_address(named["api"]):
        raise UnusableFile(f"{file}: slack of {slug} needs an app's token and a channel; api, if any, is https.")
    return ChatRoom(named["token"], named["channel"], named["api"].rstrip("/") + "/")


def is_safe_address(address: object) -> bool:
    """An address over TLS, or one on this machine."""
    try:
        parts = urlsplit(address) if isinstance(address, str) else urlsplit("")
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        return "@" not in parts.netloc and bool(parts.hostname) and (parts.scheme == "https" or local)
    except ValueError:
        return False
