"""The key files of one installation: made once, never overwritten, readable by their owner only.

Each key is a file in `COUNTERFOIL_SECRETS_DIR`, outside the database, so that a copy of the
database is not enough to mint a grant, open a payload or forge a session.

    django_secret   text        signs sessions and forms
    grant_key.pem   Ed25519     mints grants
    registry_key    32 bytes    keys the fingerprints of registered agents, hex
    kek             32 bytes    wraps the keys of payloads and evidence, hex
    systems/        folder      one JSON file of verifier credentials per target system

    log_key.pem     Ed25519     signs the checkpoints of the log; the sequencer's alone, so it is made only when asked

`python -m console.local.keys FOLDER` makes those that are missing, and `--log` the key of the log.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def _hex_key() -> str:
    return secrets.token_hex(32)


def _signing_key() -> str:
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


KEY_FILES: dict[str, Callable[[], str]] = {
    "django_secret": lambda: secrets.token_urlsafe(64),
    "grant_key.pem": _signing_key,
    "registry_key": _hex_key,
    "kek": _hex_key,
}


LOG_KEY = "log_key.pem"


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else may read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def ensure_keys(folder: Path) -> None:
    """Make the keys that are missing; a key that exists is never touched."""
    for place in (folder, folder / "systems"):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, make in KEY_FILES.items():
        if not (folder / name).exists():
            write_private(folder / name, make())


def ensure_log_key(folder: Path) -> None:
    """Make the key of the log, on the machine of the sequencer; one that exists is never touched."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / LOG_KEY).exists():
        write_private(folder / LOG_KEY, _signing_key())


def find_missing_keys(folder: Path) -> list[str]:
    return [name for name in KEY_FILES if not (folder / name).is_file()]


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--log"]
    if len(words) != 1:
        sys.exit("usage: python -m console.local.keys [--log] FOLDER")
    (ensure_log_key if "--log" in sys.argv else ensure_keys)(Path(words[0]))
