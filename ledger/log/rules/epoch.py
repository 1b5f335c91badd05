"""The signed epoch as a row of the record's database has it, and whether a key of the log has signed it for there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ledger.record.rules.refusals import Refused


class EpochUnknown(Refused):
    """No sequencer has signed the epoch for this database server as it runs now, so nothing is released."""

    code = "EPOCH_UNKNOWN"
    status = 503


class EpochRow(NamedTuple):
    """The row as read: the epoch, its signatures, and the database, server start and transaction that it is in now."""

    number: int
    signatures: tuple[bytes, ...]
    place: str

    @property
    def text(self) -> bytes:
        """The bytes that are signed."""
        return f"counterfoil/epoch/1\n{self.number}\n{self.place}\n".encode()


def signed_epoch(number: int | None, signatures: Sequence[bytes] | None, place: str | None) -> EpochRow | None:
    """The row from its columns, None where there is none."""
    if number is None or signatures is None or place is None:
        return None
    return EpochRow(number, tuple(bytes(each) for each in signatures), place)


def check_epoch(row: EpochRow | None, keys: Sequence[bytes]) -> int:
    """Return the epoch; `EpochUnknown` unless one of these keys has signed it for where the row is."""
    if row is None:
        raise EpochUnknown("No sequencer has signed the epoch in this database yet.")
    if not any(_is_signed(row, key) for key in keys):
        raise EpochUnknown(
            "Since this database server was started, no sequencer has compared its record with what was signed."
        )
    return row.number


@lru_cache(maxsize=64)
def _is_signed(row: EpochRow, key: bytes) -> bool:
    for signature in row.signatures:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, row.text)
        except InvalidSignature:
            continue
        return True
    return False
