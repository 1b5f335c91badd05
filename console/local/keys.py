"""The key files of one installation: made once, never overwritten, readable by their owner only.

Each key is a file in `COUNTERFOIL_SECRETS_DIR`, outside the database, so that a copy of the
database is not enough to mint a grant, open a payload or forge a session.

    django_secret   text        signs sessions and forms
    grant_key.pem   Ed25519     mints grants until the first `rotate_grant_key`; later keys are rows (docs/signing.md)
    registry_key    32 bytes    keys the fingerprints of registered agents, hex
    kek             32 bytes    wraps the keys of payloads and evidence, hex
    systems/        folder      one JSON file of verifier credentials per target system

    log_key.pem     Ed25519     signs the checkpoints of the log; the sequencer's alone, so it is made only when asked
    log_key.pub     public      its public half, for web and workers; made with it
    push_key.pem    P-256       tells push services who calls; only where people's devices are told, so only when asked

The first, third and fourth are key files as `ledger/key_files.py` reads them: `manage.py rotate` adds keys to them.

`python -m console.local.keys FOLDER` makes those that are missing, `--log` the key of the log, `--push` that of pushes.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ledger.key_files import write_private
from ledger.log.signer_state import write_public_keys


def _hex_key() -> str:
    return secrets.token_hex(32)


def _signing_key() -> str:
    return _as_text(Ed25519PrivateKey.generate())


def _push_key() -> str:
    return _as_text(ec.generate_private_key(ec.SECP256R1()))


def _as_text(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


KEY_FILES: dict[str, Callable[[], str]] = {
    "django_secret": lambda: secrets.token_urlsafe(64),
    "grant_key.pem": _signing_key,
    "registry_key": _hex_key,
    "kek": _hex_key,
}


LOG_KEY = "log_key.pem"
PUSH_KEY = "push_key.pem"


def ensure_keys(folder: Path) -> None:
    """Make the keys that are missing; a key that exists is never touched."""
    for place in (folder, folder / "systems"):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, make in KEY_FILES.items():
        if not (folder / name).exists():
            write_private(folder / name, make())


def ensure_log_key(folder: Path) -> None:
    """Create the key of the log, on the machine of the sequencer, and its public half; an existing one is never
    changed.
    """
    _ensure_key(folder, LOG_KEY, _signing_key)
    if not (folder / LOG_KEY).with_suffix(".pub").exists():
        write_public_keys(folder / LOG_KEY)


def ensure_push_key(folder: Path) -> None:
    """Create the key by which push services recognise this installation; an existing one is never changed."""
    _ensure_key(folder, PUSH_KEY, _push_key)


def _ensure_key(folder: Path, name: str, make: Callable[[], str]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / name).exists():
        write_private(folder / name, make())


def find_missing_keys(folder: Path) -> list[str]:
    return [name for name in KEY_FILES if not (folder / name).is_file()]


if __name__ == "__main__":
    asked = {"--log": ensure_log_key, "--push": ensure_push_key}
    words = [word for word in sys.argv[1:] if word not in asked]
    if len(words) != 1 or len(sys.argv) > 3:
        sys.exit("usage: python -m console.local.keys [--log | --push] FOLDER")
    next((asked[word] for word in sys.argv[1:] if word in asked), ensure_keys)(Path(words[0]))
