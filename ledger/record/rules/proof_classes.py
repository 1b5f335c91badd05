"""How strongly somebody has proved who they are when they stand for a statement (D7).

A   a passkey signed the statement itself, its holder present and verified
B   the session, and a fresh one-time code
C   the session, and the fresh password
D   the session alone
"""

from __future__ import annotations

from typing import Final

PASSKEY: Final = "A"
SESSION_ALONE: Final = "D"


def is_as_strong(given: str, wanted: str) -> bool:
    """Whether a class of proof is at least the wanted one: A above B above C, anything else below all."""
    order = "ABC"
    return len(given) == 1 and given in order and order.index(given) <= order.index(wanted)
