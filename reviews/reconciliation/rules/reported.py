"""The effects that a tool reports, against the ones that were wanted (R-TC-20).

1. A tool names in `side_effects` what it did, in the words of `required_effects`; one that names nothing says nothing.
2. A wanted effect that is reported more often than once is a DUPLICATE_SIDE_EFFECT, though the source that was read
   shows one: it was asked for one, and the other may be where nobody looked. An effect that was replayed under the same
   key is one effect (`replays`).
3. A reported effect that was not wanted was not looked for either, so nobody can tell: never success.
4. What is reported never counts for an effect; it can only keep one from being believed (R-OB-03).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from reviews.reconciliation.rules.facts import RunInputs

_LONGEST = 80


@dataclass(frozen=True)
class ExtraEffects:
    """What a tool reports beyond what was wanted."""

    repeated: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


def extra_effects(inputs: RunInputs, *, replayed: Collection[str] = ()) -> ExtraEffects:
    """The effects beyond the wanted ones in the answer that tells (rules 1 to 3)."""
    wanted = inputs.facts.required_effects
    if inputs.observation is None or not wanted or not inputs.facts.mutating:
        return ExtraEffects()
    counted = Counter(_name(one) for one in inputs.observation.side_effects)
    return ExtraEffects(
        tuple(name for name in wanted if counted[name] > 1 and name not in replayed),
        tuple(sorted(name for name in counted if name not in wanted)),
    )


def _name(effect: Any) -> str:
    named = effect.get("effect") if isinstance(effect, Mapping) else effect
    text = str(named if isinstance(named, str) else effect)
    return "".join(one if one.isprintable() else "?" for one in text)[:_LONGEST]
