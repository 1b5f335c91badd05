"""Readings wanted before execution: when an order must know how its target stands (R-RC-09).

A predicate or a lookup that speaks of `pre` compares with the state before the action, and so does whoever approves it.
That state is read before people are asked, and again when an executor asks for the order, shortly before the start:
targets move while people think. A reading that has grown old is taken again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.contract import Contract

FRESH_FOR = timedelta(minutes=5)
_NAMES = (*expressions.VARIABLES, "row")


def wants_baseline(contract: Contract, predicates: Iterable[str]) -> bool:
    """Whether anything that will be checked speaks of the state before, or the contract asks for it by `baseline`.

    A check may compare with it without a word of the contract: a version that must move on, who held a right.
    """
    verification = contract.verification
    if verification is not None and (verification.document.get("baseline") is True or contract.preparation.wanted):
        return True
    parts = (verification.lookup, *(source.document for source in verification.further)) if verification else ()
    texts = (text for part in parts for text in _texts(part))
    mentioning = [text for text in (*predicates, *texts) if "pre" in text]
    return any(_speaks_of_pre(text) for text in mentioning)


def is_fresh(taken_at: datetime | None, *, since: datetime | None = None, at: datetime) -> bool:
    """Whether a reading may still stand for the state before; one from before `since`, when people decided, may not."""
    return taken_at is not None and at - taken_at <= FRESH_FOR and (since is None or taken_at >= since)


def _speaks_of_pre(text: str) -> bool:
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
