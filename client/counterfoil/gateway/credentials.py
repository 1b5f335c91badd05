"""The secrets of the gateway: each host's credential in a file, and the tokens of agents as digests.

1. A credential is read from its file at each use, so that a new one holds at once; it is kept nowhere else.
2. A file that another user may read, or owns, is not used.
3. An agent's token is shown once. It is good for this gateway and for nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from counterfoil.gateway.settings import HostSettings
from counterfoil.gating.files import write_private
from counterfoil.gating.settings import BadSettings, read_secret

_TOKENS = "tokens.json"


class CredentialUnusable(Exception):
    """The credential's file cannot be used; the message has no part of it."""


def authorization(host: HostSettings) -> str:
    """The value of the header `Authorization` for a host (rules 1 and 2); empty if it needs none."""
    if not host.credential_file:
        return ""
    path = Path(host.credential_file).expanduser()
    try:
        secret = read_secret(path)
    except BadSettings as fault:
        raise CredentialUnusable(str(fault)) from fault
    if not secret or any(each < "!" or each > "~" for each in secret):
        raise CredentialUnusable(f"{path} holds no credential of printable ASCII in one line.")
    if host.scheme == "bearer":
        return f"Bearer {secret}"
    return f"Basic {base64.b64encode(secret.encode()).decode('ascii')}"


def new_token(folder: Path, agent: str) -> str:
    """Create a new token of an agent that replaces its earlier one (rule 3)."""
    token = f"cf_gate_{secrets.token_urlsafe(32)}"
    known = _read_tokens(folder) | {agent: hashlib.sha256(token.encode()).hexdigest()}
    write_private(folder / _TOKENS, json.dumps(known).encode())
    return token


def _read_tokens(folder: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((folder / _TOKENS).read_text())
    except FileNotFoundError:
        return {}
    return found


class Tokens:
    """The tokens of agents; the file is read again when it has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed: tuple[int, int] | None = None
        self._known: Mapping[str, str] = {}

    def agent(self, header: str) -> str:
        """The agent whose token an `Authorization` header carries, as bearer or as password; empty if none."""
        token = _given_token(header)
        digest = hashlib.sha256(token.encode()).hexdigest()
        found = [name for name, known in self._read().items() if hmac.compare_digest(known, digest)]
        return found[0] if token and found else ""

    def _read(self) -> Mapping[str, str]:
        try:
            about = (self._folder / _TOKENS).stat()
        except FileNotFoundError:
            return {}
        if self._changed != (about.st_mtime_ns, about.st_ino):
            self._known, self._changed = _read_tokens(self._folder), (about.st_mtime_ns, about.st_ino)
        return self._known


def _given_token(header: str) -> str:
    scheme, _, rest = header.partition(" ")
    if scheme.lower() in ("bearer", "token"):
        return rest.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(rest, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
