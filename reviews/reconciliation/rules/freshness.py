"""Freshness: checks that a reading is at least as new as the write that the tool reported (R-VD-09, HS-07, HS-08).

A contract may name tokens in `fresh_after`: expressions over the answer (a log position, a version, an ETag, a message
id). A reading whose own mark is older, other than the ETag, or missing, is a stale one and settles nothing, whatever
its source declares. Without an answer there is no token, and the reading stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression, NoValue
from reviews.observations.rules import observe
from reviews.reconciliation.rules.facts import RunInputs
from reviews.reconciliation.rules.reading import Consistency, Reading

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_MESSAGE = re.compile(r"(\d{1,20})-(\d{1,20})")


def mark_stale(inputs: RunInputs) -> tuple[Reading, ...]:
    """Return the readings, with those older than the answer's tokens marked as stale."""
    if not any(inputs.facts.fresh_after.values()):
        return inputs.readings
    return tuple(_weaken_if_stale(inputs, reading) for reading in inputs.readings)


def _weaken_if_stale(inputs: RunInputs, reading: Reading) -> Reading:
    tokens = _tokens(inputs, inputs.facts.fresh_after.get(reading.name, {}))
    if all(_has_reached(kind, token, reading) for kind, token in tokens.items()):
        return reading
    return replace(reading, consistency=Consistency.STALE_ENDPOINT)


def _tokens(inputs: RunInputs, texts: Mapping[str, str]) -> dict[str, str | int]:
    layers: dict[str, Mapping[str, Any]] = {
        "si": inputs.si,
        "sr": inputs.sr,
        "so": observe.observation_bindings(inputs.observation),
        "scope": inputs.scope,
        "pre": {},
    }
    found = {}
    for kind, text in texts.items():
        try:
            found[kind] = expressions.evaluate_value(text, layers)
        except (NoValue, BadExpression):
            continue
    return found


def _has_reached(kind: str, token: str | int, reading: Reading) -> bool:
    seen = freshness_marks(reading).get(kind)
    if seen is None:
        return False
    if kind == "etag":
        return str(seen) == str(token)
    wanted, got = _comparable_mark(kind, token), _comparable_mark(kind, seen)
    return wanted is not None and got is not None and got >= wanted


def _comparable_mark(kind: str, mark: Any) -> tuple[int, ...] | None:
    """Return a mark in a comparable form; None if it is not of its kind."""
    text = str(mark)
    if kind == "lsn":
        match = _LSN.fullmatch(text)
        return (int(match[1], 16), int(match[2], 16)) if match else None
    if kind == "message_id":
        match = _MESSAGE.fullmatch(text)
        return (int(match[1]), int(match[2])) if match else None
    return (int(text),) if re.fullmatch(r"\d{1,20}", text) else None


def freshness_marks(reading: Reading) -> dict[str, Any]:
    """Return a reading's marks of its age, by kind: from its freshness, its target, or the first effect found."""
    first = next((effect.fields for effect in reading.effects if effect.present), {})
    target = reading.target or {}
    position = _LSN.search(reading.freshness)
    message = _MESSAGE.search(reading.freshness)
    found = {
        "lsn": position[0] if position else None,
        "message_id": first.get("message_id", message[0] if message else None),
        "version": target.get("version", first.get("version")),
        "etag": target.get("etag", first.get("etag")),
    }
    return {kind: mark for kind, mark in found.items() if mark is not None}
