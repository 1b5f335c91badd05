"""Dirty workspaces: a target that nobody can vouch for since a local write did not end as it was wanted (R-VD-02).

1. A workspace is the target of actions of class EPHEMERAL_WRITE: a file, a draft, a cache.
2. Newest first, the first action that settles it decides: a reading, a reversal or a person's word leaves it clean; an
   end that left something else, a part, or nobody knows what, leaves it dirty.
3. What has not ended, never ran or came to nothing changes nothing: the action before it decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record.rules.outcomes import ActionView, Outcome, outcome_of

A = TypeVar("A", bound=ActionView)
_O = Outcome
_CLEAN: Final = frozenset(
    {
        _O.VERIFIED,
        _O.UNCHANGED,
        _O.ATTESTED,
        _O.ACCEPTED_AS_IT_IS,
        _O.ATTESTED_ABSENT,
        _O.COMPENSATED,
        _O.COMPENSATED_AS_ATTESTED,
        _O.ROLLED_BACK,
    }
)
_DIRTY: Final = frozenset({_O.PARTIALLY_APPLIED, _O.UNKNOWN, _O.NEEDS_REVIEW, _O.CONTRADICTED, _O.CLOSED_UNRESOLVED})


def dirtying_action(newest_first: Iterable[A]) -> A | None:
    """The action of a target that left it dirty; None where it is clean, or was never written locally."""
    for action in newest_first:
        if action.side_effect_class != SideEffectClass.EPHEMERAL_WRITE:
            continue
        outcome = outcome_of(action)
        if outcome in _DIRTY:
            return action
        if outcome in _CLEAN:
            return None
    return None
