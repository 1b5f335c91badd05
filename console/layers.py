"""Five accounts of one action, field by field: intended, requested, observed, authoritative, believed.

L1  Authoritative is what the newest reading says; nothing else may stand in its column.
L2  Intended is what a predicate expects of a field; requested is the stored payload; observed is the tool's answer.
L3  Believed changes only by reconciliation: until an action is reconciled, nothing of it is believed.
L4  A field whose predicate holds does not differ, however differently it is written. Else the authority differs from
    what was intended (or requested, where nothing was intended), and an observation differs from the authority.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from console import words
from console.account import Account

_COLUMNS: Final = (
    ("intended", "Intended", "what the predicates expect"),
    ("requested", "Requested", "the stored payload"),
    ("observed", "Observed", "the tool's answer"),
    ("authoritative", "Authoritative", ""),
    ("believed", "Believed", "only what is reconciled"),
)
_FIELD: Final = re.compile(r"\bsa\.([a-z_][a-z0-9_]*)\b")
_MOST: Final = 40


def layers(told: Account) -> dict[str, Any]:
    """The table of the case page."""
    accounts = _accounts(told)
    holding = {field for field, holds, _ in _expected(told.found) if holds == "TRUE"}
    ordered = dict.fromkeys(field for account in accounts.values() for field in account)
    rows = [_row(field, accounts, holding) for field in list(ordered)[:_MOST]]
    different = sum(any(cell["differs"] for cell in row["cells"]) for row in rows)
    reading = (told.found.get("readings") or [{}])[0]
    source = f"{reading['source']}, {reading['consistency'].lower()}" if reading else "not read yet"
    columns = [
        {"word": word, "source": source if name == "authoritative" else said, "authority": name == "authoritative"}
        for name, word, said in _COLUMNS
    ]
    summary = f"{different} of {len(rows)} fields differ" if different else "no field differs"
    return {"columns": columns, "rows": rows, "summary": summary if told.found else "the system has not been read yet"}


def predicates(told: Account) -> list[dict[str, Any]]:
    """Each predicate of the newest verdict with both sides and its source; what fails comes first."""
    results = told.found.get("verdict", {}).get("predicates", [])
    order = ["FALSE", "UNDECIDABLE", "TRUE", "NOT_APPLICABLE"]
    return [
        {**result, "expected": shown(result["expected"]), "actual": shown(result["actual"])}
        for result in sorted(results, key=lambda one: order.index(one["holds"]))
    ]


def shown(value: Any) -> str:
    """A value in one line; text stays as it is."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _accounts(told: Account) -> dict[str, dict[str, Any]]:
    found = told.found.get("layers", {})
    authority = _plain(found.get("sa", {}))
    reconciled = told.action.state == "RECONCILED_SUCCESS" and not told.action.contradicted
    return {
        "intended": {field: value for field, _, value in _expected(told.found) if value is not None},
        "requested": _plain(found.get("sr", {})),
        "observed": _observed(found.get("so", {})),
        "authoritative": authority,
        "believed": authority if reconciled else {},
    }


def _expected(found: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """(field, result, expected value) of every predicate that is about exactly one field of the authority."""
    named = []
    for result in found.get("verdict", {}).get("predicates", []):
        about = set(_FIELD.findall(result["text"]))
        if len(about) == 1:
            named.append((about.pop(), result["holds"], result["expected"]))
    return named


def _observed(answer: Mapping[str, Any]) -> dict[str, Any]:
    claimed = answer.get("evidence")
    claimed = _plain(claimed) if isinstance(claimed, Mapping) else {}
    return {**claimed, "answer": words.sentence(answer["status"])} if answer.get("status") else claimed


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if not isinstance(value, dict | list)}


def _row(field: str, accounts: dict[str, dict[str, Any]], holding: set[str]) -> dict[str, Any]:
    said = {name: account[field] for name, account in accounts.items() if field in account}
    differing = set() if field in holding else _differing(said)
    cells = [
        {
            "word": word,
            "said": name in said,
            "silence": "not settled" if name == "believed" else "not said",
            "value": shown(said.get(name)),
            "differs": name in differing,
            "authority": name == "authoritative",
        }
        for name, word, _ in _COLUMNS
    ]
    return {"field": field, "cells": cells}


def _differing(said: Mapping[str, Any]) -> set[str]:
    if "authoritative" not in said:
        return set()
    wanted = said.get("intended", said.get("requested", said["authoritative"]))
    found = {"authoritative"} if wanted != said["authoritative"] else set()
    return found | ({"observed"} if said.get("observed", said["authoritative"]) != said["authoritative"] else set())
