"""The epoch of the installation, as a signed row of the record's database.

The signer state has the epoch; this row tells it to web and workers. The log's key signs it for one database of one
running server, and for the transaction that wrote it. So a backup that is restored, a standby that is promoted and a
copy have a row that is not valid there, and nothing starts until a sequencer has compared every log of that database
with the signer state, and signs the row again.

Web and workers know the log's public key from a file that they only read (`log_key.pub`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, LiteralString

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ledger.log.rules.epoch import EpochRow, EpochUnknown, signed_epoch
from ledger.log.signer_state import LogKeys

_END = b"-----END PUBLIC KEY-----\n"


# What neither a dump nor a copy of the files takes along: the row's transaction, the database's id in its cluster, and
# the start of the server.
_PLACE: LiteralString = """e.xmin::text || ' ' || (SELECT oid FROM pg_database WHERE datname = current_database())
    || ' ' || extract(epoch FROM pg_postmaster_start_time())"""
EPOCH_COLUMNS: LiteralString = f"e.number, e.signatures, {_PLACE}"
"""The columns of a `EpochRow`, each null where there is no row of `EPOCH_TABLE`."""
# It has one row, and is too small to be analyzed by itself. A planner that expects a thousand makes a new plan for a
# release each time, which takes longer than reading it.
EPOCH_TABLE: LiteralString = "(SELECT number, signatures, xmin FROM ledger_epoch LIMIT 1) e"

Run = Callable[..., Sequence[tuple[Any, ...]]]


def read_epoch(run: Run) -> EpochRow | None:
    """Read the row; `run` executes a statement with its values."""
    rows = run(f"SELECT {EPOCH_COLUMNS} FROM {EPOCH_TABLE}")
    return signed_epoch(*rows[0]) if rows else None


def sign_epoch(number: int, keys: LogKeys, run: Run) -> None:
    """Write the row and sign it for where it is; in one transaction of the caller."""
    run(
        "INSERT INTO ledger_epoch (one, number, signatures) VALUES (true, $1, '{}')"
        " ON CONFLICT (one) DO UPDATE SET number = excluded.number, signatures = '{}'",
        number,
    )
    written = read_epoch(run)
    assert written is not None
    run("UPDATE ledger_epoch SET signatures = $1", [key.sign(written.text) for key in keys.all])


def read_public_keys(path: Path) -> tuple[bytes, ...]:
    """Read the public keys of the log, raw, from their file; `EpochUnknown` if they cannot be read."""
    try:
        stamp = path.stat()
        return _parse_public_keys(path, stamp.st_mtime_ns, stamp.st_ino)
    except (OSError, ValueError):
        raise EpochUnknown(f"The public key of the log cannot be read ({path}), so nothing is released.") from None


@lru_cache(maxsize=4)
def _parse_public_keys(path: Path, _written_at: int, _inode: int) -> tuple[bytes, ...]:
    blocks = [block + _END for block in path.read_bytes().split(_END) if block.strip()]
    keys = [load_pem_public_key(block) for block in blocks]
    found = tuple(key.public_bytes_raw() for key in keys if isinstance(key, Ed25519PublicKey))
    if not found or len(found) != len(keys):
        raise ValueError(f"{path} must hold Ed25519 keys")
    return found
