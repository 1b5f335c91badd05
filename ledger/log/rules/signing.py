"""The rules by which the log signer signs heads (docs/log.md, "The key"; C2SP tlog-checkpoint).

A log must never sign two heads of which neither continues the other. So the signer remembers, outside the database, the
last head that it signed for each origin, and signs the next one only with a proof that it continues it:

1. An origin that the signer does not know is not signed. A log is made known when it is opened, while it is empty.
2. A smaller head, or another root at the same size, is another history: the database was restored or changed.
3. A larger head needs a consistency proof from the last one (RFC 9162 section 2.1.4), whoever supplies it.
4. The same head may be signed again: a crash between the memory and the database costs one signature, never a fork.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterfoil_tlog.merkle import EMPTY_ROOT, ProofFails, verify_consistency
from ledger.record.rules.refusals import Refused


class HistoryForked(Refused):
    """The stored log does not continue what was signed before."""

    code = "HISTORY_FORKED"


class SignerStateMissing(Refused):
    """The log holds entries, and the signer state does not know it: adopt a checkpoint that you trust."""

    code = "LOG_UNGUARDED"


class LogHandedOver(Refused):
    """The log was handed over to another installation, and is signed there."""

    code = "LOG_HANDED_OVER"


class NotSigned(Refused):
    """No signed checkpoint covers this yet; try again in a moment."""

    code = "NOT_SIGNED"


@dataclass(frozen=True, slots=True)
class TreeHead:
    """A head: the number of leaves and the root over them."""

    size: int
    root: bytes


NOTHING = TreeHead(0, EMPTY_ROOT)


def check_stored_head(last: TreeHead | None, stored: TreeHead) -> None:
    """Refuse to build on a stored head below the signed one (rules 1 and 2).

    A restored database must not be given further entries: they would stand where others stood before.
    """
    if last is None:
        raise SignerStateMissing
    if stored.size < last.size:
        raise HistoryForked(
            f"The log was signed at {last.size} entries and has {stored.size} now: was the database restored?"
        )
    if stored.size == last.size and stored.root != last.root:
        raise HistoryForked(f"The {stored.size} entries of the log are others than those that were signed.")


def check_next_head(last: TreeHead | None, following: TreeHead, proof: Sequence[bytes]) -> None:
    """Refuse to sign `following` after `last` unless rules 1 to 4 allow it."""
    check_stored_head(last, following)
    assert last is not None
    try:
        verify_consistency(
            old_size=last.size,
            new_size=following.size,
            old_root=last.root,
            new_root=following.root,
            proof=proof,
        )
    except ProofFails:
        raise HistoryForked(
            f"The {following.size} entries of the log do not begin with the {last.size} that were signed."
        ) from None
