"""Five accounts of one action, field by field: intended, requested, observed, authoritative, believed.

L1  Authoritative is what the newest reading says; nothing else may stand in its column.
L2  Intended is what a predicate expects of a field, and that each effect of the contract happens once; requested is the
    stored payload; observed is the tool's answer, which claims either all effects or none.
L3  Believed changes only by reconciliation: until an action is reconciled, nothing of it is believed.
L4  A field whose predicate holds does not differ, however differently it is written. Else the authority differs from
    what was intended (or requested, where nothing was intended), and an observation differs from the authority, by the
    comparison of `ledger.catalogue.rules.fields`. What that cannot tell differs where the predicate fails.
L5  Where nothing was read, a field is "not read"; where an effect was read and is not there, what the contract expects
    of it is "absent"; where a reading says nothing of a field, "not compared". A field has one row, also where accounts
    name it with and without its effect.
L6  A clean failure claims that no effect exists; it is shown as the answer that it was, "failed".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from console.actions.action_record import ActionRecord, parse_arguments
from console.web.predicate_sentences import predicate_sentence
from ledger.catalogue.rules.fields import FieldSource, compare_fields, notations
from ledger.catalogue.rules.money import format_money
from ledger.catalogue.rules.value_comparison import PLAIN, Notation, same_value
from ledger.record.rules.lifecycle import OPEN
from ledger.record.rules.outcomes import AS_REQUESTED, outcome_of

_COLUMNS: Final = (
    ("intended", "Expected", "by the contract's checks"),
    ("requested", "Requested", "stored payload"),
    ("observed", "Tool reported", "unverified"),
    ("authoritative", "System of record", ""),
    ("believed", "Confirmed", "after reconciliation"),
)
_FIELD: Final = re.compile(r"\bsa\.(?:effects\.)?([a-z_]\w*(?:\.[a-z_]\w*)?)", re.ASCII)
_MOST: Final = 40
_BY: Final = {FieldSource.READ: "the system of record", FieldSource.ANSWER: "the tool's answer, not verified"}
ONCE: Final = "once"
NEVER: Final = "not there"


def comparison_table(record: ActionRecord) -> dict[str, Any]:
    """The table of the five accounts, on the page of an action and of its case (R-OB-15)."""
    accounts = _accounts(record)
    named = _row_names(record, [field for account in accounts.values() for field in account])
    accounts = {name: {named[field]: value for field, value in said.items()} for name, said in accounts.items()}
    judged = {named.get(field, field): holds for field, holds, _ in _expected_fields(record.found)}
    written = notations(_requested_fields(record), record.contract)
    ordered = dict.fromkeys(field for account in accounts.values() for field in account)
    currency, ids = _requested_fields(record).get("currency"), _found_ids(record.found)
    rows = [
        _row(field, accounts, judged.get(field, ""), written.get(field.rpartition(".")[2], PLAIN), currency)
        | {"ids": ids.get(field, []), "silences": _silences(record, field, expected=field in accounts["intended"])}
        for field in list(ordered)[:_MOST]
    ]
    different = sum(any(cell["differs"] for cell in row["cells"]) for row in rows)
    reading = (record.found.get("readings") or [{}])[0]
    unread = "not read yet" if record.facts.may_have_started else "not read"
    source = f"{reading['source']}, {reading['consistency'].lower()}" if reading else unread
    columns = [
        {"word": word, "source": source if name == "authoritative" else said, "authority": name == "authoritative"}
        for name, word, said in _COLUMNS
    ]
    differ = "differs" if different == 1 else "differ"
    summary = f"{different} of {len(rows)} fields {differ}" if different else "no field differs"
    return {"columns": columns, "rows": rows, "summary": summary if record.found else f"system {unread}"}


def differences(record: ActionRecord) -> list[dict[str, str]]:
    """Return the fields whose value in the newest reading, or else in the tool's answer, differs from the request."""
    found = record.found.get("layers", {})
    compared = compare_fields(
        _requested_fields(record),
        contract=record.contract,
        answer=found.get("so") or None,
        reading=found.get("sa") or None,
    )
    return [
        {
            "field": each.name,
            "asked": format_value(each.asked),
            "shown": format_value(each.shown),
            "by": _BY[each.source],
        }
        for each in compared
        if each.differs and each.source
    ]


def predicate_rows(record: ActionRecord) -> list[dict[str, Any]]:
    """Each predicate of the newest verdict with both sides and its source; failures come first."""
    results = record.found.get("verdict", {}).get("predicates", [])
    order = ["FALSE", "UNDECIDABLE", "TRUE", "NOT_APPLICABLE"]
    return [
        {
            **result,
            "said": _scope_sentence(result["text"])
            if result["origin"] == "scope"
            else predicate_sentence(result["text"], record.contract),
            "expected": format_value(result["expected"]),
            "actual": format_value(result["actual"]),
        }
        for result in sorted(results, key=lambda one: order.index(one["holds"]))
    ]


def _scope_sentence(text: str) -> str:
    """`effects.refund.target is within the authorised scope`, as people read it."""
    said = text.removeprefix("effects.").replace(".", " ").replace("_", " ")
    return said[:1].upper() + said[1:]


def format_value(value: object) -> str:
    """Return a value on one line; text stays unchanged."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _accounts(record: ActionRecord) -> dict[str, dict[str, Any]]:
    found = record.found.get("layers", {})
    effects = found.get("sa", {}).get("effects", {})
    authority = {**_times(effects), **_fields(found.get("sa", {}), effects)}
    reconciled = outcome_of(record.action) in AS_REQUESTED
    return {
        "intended": {**dict.fromkeys(effects, ONCE), **_wanted_values(record.found)},
        "requested": _plain(_requested_fields(record)),
        "observed": {**_claims(found.get("so", {}), effects), **_observed_fields(found.get("so", {}))},
        "authoritative": authority,
        "believed": authority if reconciled else {},
    }


def _effects(found: Mapping[str, Any]) -> Mapping[str, Any]:
    effects: Mapping[str, Any] = found.get("layers", {}).get("sa", {}).get("effects", {})
    return effects


def _row_names(record: ActionRecord, fields: list[str]) -> dict[str, str]:
    """The row name of each field: with its effect only if there are several (L5)."""
    effects = tuple(_effects(record.found)) or record.contract.required_effects
    whole: dict[str, list[str]] = {}
    for field in dict.fromkeys(fields):
        effect, _, plain = field.partition(".")
        if plain and effect in effects:
            whole.setdefault(plain, []).append(field)
    if len(effects) < 2:
        plainly = {field: plain for plain, named in whole.items() for field in named}
        return {field: plainly.get(field, field) for field in fields}
    return {field: whole[field][0] if len(whole.get(field, ())) == 1 else field for field in fields}


def _silences(record: ActionRecord, field: str, *, expected: bool) -> dict[str, str]:
    """The words for a field that an account does not contain (L3, L5)."""
    effects = _effects(record.found)
    about = [one for name, one in effects.items() if len(effects) == 1 or name == field.partition(".")[0]]
    absent = expected and bool(about) and about[0].get("count") == 0
    read = "absent" if absent else "not compared"
    return {
        "authoritative": read if record.found.get("readings") else "not read",
        "believed": "pending" if record.facts.state in OPEN else "not confirmed",
    }


def _requested_fields(record: ActionRecord) -> dict[str, Any]:
    asked = record.found.get("layers", {}).get("sr", parse_arguments(record.payload))
    return asked if isinstance(asked, dict) else {}


def _times(effects: Mapping[str, Any]) -> dict[str, str]:
    """Return the number of times that each effect exists; unknown ones are left out."""
    return {name: _times_word(one["count"]) for name, one in effects.items() if "count" in one}


def _fields(authority: Mapping[str, Any], effects: Mapping[str, Any]) -> dict[str, Any]:
    """Return the effect's fields; with several effects, each field is named after its effect."""
    if len(effects) < 2:
        return _plain(authority)
    return {f"{name}.{field}": value for name, one in effects.items() for field, value in _plain(one).items()}


def _times_word(count: int) -> str:
    return {0: NEVER, 1: ONCE}.get(count, f"{count} times")


def _claims(answer: Mapping[str, Any], effects: Mapping[str, Any]) -> dict[str, str]:
    """The tool's claims about every effect: success claims each of them, a clean failure none."""
    claim = {"success": ONCE, "failed": NEVER}.get(str(answer.get("status", "")).lower())
    return dict.fromkeys(effects, claim) if claim else {}


def _wanted_values(found: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, _, value in _expected_fields(found) if value is not None}


def _expected_fields(found: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """(field, result, expected value) of every predicate that is about exactly one field of the authority."""
    named = []
    for result in found.get("verdict", {}).get("predicates", []):
        about = set(_FIELD.findall(result["text"]))
        if len(about) == 1:
            named.append((about.pop(), result["holds"], result["expected"]))
    return named


def _observed_fields(answer: Mapping[str, Any]) -> dict[str, Any]:
    claimed = answer.get("evidence")
    return _plain(claimed) if isinstance(claimed, Mapping) else {}


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a layer with single values; the count of an effect has its own row."""
    return {
        name: value
        for name, value in document.items()
        if name not in ("exists", "count") and not isinstance(value, dict | list)
    }


def _found_ids(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """By effect, the ids of everything that the newest reading found of it, as far as the reading shows each."""
    effects = (found.get("readings") or [{}])[0].get("effects", ())
    return {
        each["name"]: [
            f"{name} {format_value(value)}"
            for instance in (each.get("instances") or [each.get("fields") or {}])[:_MOST]
            for name, value in instance.items()
            if name == "id" or (name.endswith("_id") and "id" not in instance)
        ]
        for each in effects
        if each.get("present")
    }


def _row(
    field: str, accounts: dict[str, dict[str, Any]], holds: str, notation: Notation, currency: Any
) -> dict[str, Any]:
    said = {name: account[field] for name, account in accounts.items() if field in account}
    differing = set() if holds == "TRUE" else _differing(said, notation, fails=holds == "FALSE")
    cells = [
        {
            "word": word,
            "account": name,
            "said": name in said,
            "value": "failed" if name == "observed" and said.get(name) == NEVER else format_value(said.get(name)),
            "money": format_money(said[name], currency) if field.endswith("amount") and _is_minor(said, name) else "",
            "differs": name in differing,
            "authority": name == "authoritative",
        }
        for name, word, _ in _COLUMNS
    ]
    return {"field": field, "cells": cells}


def _is_minor(said: Mapping[str, Any], name: str) -> bool:
    """Return whether a value is an amount in minor units, which is hard to read."""
    return isinstance(said.get(name), int)


def _differing(said: Mapping[str, Any], notation: Notation, *, fails: bool) -> set[str]:
    if "authoritative" not in said:
        return set()
    shown = said["authoritative"]
    same = same_value(said.get("intended", said.get("requested", shown)), shown, notation)
    found = {"authoritative"} if same is False or (same is None and fails) else set()
    return found | ({"observed"} if same_value(said.get("observed", shown), shown, notation) is False else set())
