"""Drift: the changes of a target since people were asked about it (B31).

1. The state of a target is what a reading says of its effects, of the target itself and of what stands beside them.
   When, where and how freshly it was read is no part of it: a freshness token moves on while nothing changes.
2. Two states are compared leaf by leaf. A leaf that is not the same is a difference; so is one that came or went.
3. Every difference is material, but at the paths that the contract calls volatile. A version or an etag of the target
   is part of its state: it names a change that the other fields may not show.
4. What a source could not tell in one of the two readings cannot be compared. It is named apart and is no difference.
5. The digest of a state covers its material leaves. Equal digests mean: nothing material changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.contract import Contract
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.refusals import Refused

Path = tuple[str, ...]
Leaves = dict[Path, Any]
DECISIVE = frozenset({"PRIMARY", "STRONG"})
NOT_FRESH = "freshness_not_guaranteed"
_GONE = object()
_MAX_INT = 2**53 - 1


class PreconditionDrift(Refused):
    """The target changed since the approval was requested; approval is requested again for its current state."""

    code = "PRECONDITION_DRIFT"


@dataclass(frozen=True)
class TargetState:
    """A target's state in one reading: its leaves, and the effects that could not be determined."""

    leaves: Mapping[Path, Any]
    untold: frozenset[str]
    source: str
    observed_at: datetime
    strong: bool

    def digest(self, volatile: tuple[str, ...] = ()) -> str:
        """Names the material part of the state (rule 5)."""
        kept = sorted([list(path), value] for path, value in self.leaves.items() if not is_volatile(path, volatile))
        return digest(canonical(kept))


@dataclass(frozen=True)
class Difference:
    """One leaf that is not what it was; None stands for "not there"."""

    field: str
    then: str | None
    now: str | None
    material: bool

    def document(self) -> dict[str, Any]:
        """The form in which it is recorded and returned by the API."""
        return {"field": self.field, "then": self.then, "now": self.now, "material": self.material}


@dataclass(frozen=True)
class Drift:
    """Every difference between two states, the material ones first, and what could not be compared."""

    differences: tuple[Difference, ...] = ()
    untold: tuple[str, ...] = ()

    @property
    def material(self) -> tuple[Difference, ...]:
        """The differences that set an approval aside."""
        return tuple(each for each in self.differences if each.material)


def state_of(reading: Mapping[str, Any]) -> TargetState:
    """The state in a reading as it was stored (rule 1)."""
    effects = {each["name"]: each for each in reading.get("effects", ())}
    told = {name: _effect(each) for name, each in effects.items() if each.get("present") is not None}
    parts: dict[str, Any] = {**dict(reading.get("context") or {}), **({"effects": told} if told else {})}
    if reading.get("target") is not None:
        parts["target"] = reading["target"]
    indicators = reading.get("indicators", ())
    return TargetState(
        leaves=dict(_leaves(parts, ())),
        untold=frozenset(effects) - frozenset(told),
        source=str(reading.get("source", "")),
        observed_at=datetime.fromisoformat(reading["observed_at"]),
        strong=reading.get("consistency") in DECISIVE and NOT_FRESH not in indicators,
    )


def compare(then: TargetState, now: TargetState, *, volatile: tuple[str, ...] = ()) -> Drift:
    """Compare two states of a target (rules 2 to 4)."""
    untold = then.untold | now.untold
    differences = [
        Difference(".".join(path), _leaf_text(then, path), _leaf_text(now, path), not is_volatile(path, volatile))
        for path in sorted(set(then.leaves) | set(now.leaves))
        if not _is_untold(path, untold) and not _same(then.leaves.get(path, _GONE), now.leaves.get(path, _GONE))
    ]
    return Drift(tuple(sorted(differences, key=lambda each: not each.material)), tuple(sorted(untold)))


def is_volatile(path: Path, volatile: tuple[str, ...]) -> bool:
    """Return whether a contract calls this leaf volatile: it is at or below one of the named paths; `*` is any name."""
    return any(_covers(tuple(each.split(".")), path) for each in volatile)


def _covers(pattern: Path, path: Path) -> bool:
    if len(pattern) > len(path):
        return False
    return all(part in ("*", name) for part, name in zip(pattern, path, strict=False))


def _effect(effect: Mapping[str, Any]) -> dict[str, Any]:
    count = effect.get("count", 0)
    several = {"instances": effect["instances"]} if count > 1 and effect.get("instances") else {}
    scope = {kind: found for kind, found in (effect.get("scope") or {}).items() if found}
    return {
        **effect.get("fields", {}),
        **({"scope": scope} if scope else {}),
        **several,
        "exists": effect["present"],
        "count": count,
    }


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _leaves(item, (*path, str(name)))
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for place, item in enumerate(value):
            yield from _leaves(item, (*path, str(place)))
    elif path:
        yield path, _plain(value)


def _plain(value: Any) -> Any:
    """A leaf in a form with canonical bytes; a value that is not text, integer or boolean is converted to text."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) <= _MAX_INT):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {} if isinstance(value, Mapping) else str(value)


def _same(one: Any, other: Any) -> bool:
    # True is no 1: in Python they would be equal.
    return type(one) is type(other) and one == other


def _is_untold(path: Path, untold: frozenset[str]) -> bool:
    return len(path) > 1 and path[0] == "effects" and path[1] in untold


def _leaf_text(state: TargetState, path: Path) -> str | None:
    if path not in state.leaves:
        return None
    value = state.leaves[path]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


FRESH_FOR = timedelta(minutes=5)
_NAMES = (*expressions.VARIABLES, "row")


def wants_baseline(contract: Contract, predicates: Iterable[str]) -> bool:
    """Return whether the target must be read before execution (R-RC-09).

    That is the case if a predicate or lookup mentions `pre`, if the contract sets `baseline`, or if a check compares
    with the state before by itself (a version that must advance, a right that was held). The state is read before
    people are asked and again shortly before the start.
    """
    verification = contract.verification
    if verification is not None and (verification.document.get("baseline") is True or contract.preparation.wanted):
        return True
    parts = (verification.lookup, *(source.document for source in verification.further)) if verification else ()
    texts = (text for part in parts for text in _texts(part))
    mentioning = [text for text in (*predicates, *texts) if "pre" in text]
    return any(_speaks_of_pre(text) for text in mentioning)


def is_fresh(taken_at: datetime | None, *, since: datetime | None = None, at: datetime) -> bool:
    """Return whether a reading still counts as the state before; one from before `since`, when people decided, does
    not.
    """
    return taken_at is not None and at - taken_at <= FRESH_FOR and (since is None or taken_at >= since)


@lru_cache(maxsize=4096)
def _speaks_of_pre(text: str) -> bool:
    # Most texts that hold these letters are no expression at all, which costs more to find out than anything else.
    try:
        return bool(expressions.fields_of(text, "pre", _NAMES))
    except expressions.BadExpression:
        return False


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
