"""The differences between two versions of a policy: sentence by sentence, and in the documents place by place.

Rows that have a name are compared with the row of that name, wherever it is. Their order is compared separately,
because the first row that fits may be the one that counts. Pure: no clock, no database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from console.contracts.contract_check import diff_documents
from console.policies.policy_sentences import PolicyTopic, policy_topics
from ledger.record.rules.canonical import parse
from ledger.record.rules.refusals import Refused
from reviews.recovery.rules import recovery_table

_ROW_NAMES = ("name", "id", "group")


def compare_documents(kind: str, was: bytes, now: bytes) -> dict[str, list[Any]]:
    """The differences between the bytes of two versions: in sentences, if both can be expressed in
    them, and in places.
    """
    try:
        sentences = sentence_changes(policy_topics(kind, was), policy_topics(kind, now))
    except Refused:
        sentences = []
    return {"sentences": sentences, "places": document_changes(parse(was), parse(now))}


def sentence_changes(old: Sequence[PolicyTopic], new: Sequence[PolicyTopic]) -> list[dict[str, Any]]:
    """By topic, the sentences that hold no more and those that are new; both versions are of one kind."""
    changes = [
        {
            "heading": now.heading,
            "gone": [each for each in was.sentences if each not in now.sentences],
            "new": [each for each in now.sentences if each not in was.sentences],
        }
        for was, now in zip(old, new, strict=True)
    ]
    return [each for each in changes if each["gone"] or each["new"]]


def document_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every place where two documents differ, and every list whose rows stand in another order, or are others."""
    was, now = _with_table(old, new), _with_table(new, old)
    places = diff_documents(*_pair_rows(was, now))
    moved = [
        {"path": f"/{name}", "before": f"in the order {before}", "after": f"in the order {after}"}
        for name in sorted(was.keys() & now.keys())
        for before, after in (_orders(was[name], now[name]),)
        if before != after
    ]
    return [each for each in places if each["path"] != "/version"] + moved


def _with_table(document: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The document, with the rows that are built in where the other one brings rows of its own."""
    built_in = document.get("table") == "built-in" and other.get("table", "built-in") != "built-in"
    return dict(document) | ({"table": recovery_table.TABLE["rows"]} if built_in else {})


def _row_name(rows: Any) -> str:
    """The member by which every row of a list has a name of its own; nothing where there is none."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        return ""
    names = (name for name in _ROW_NAMES if len({row.get(name, "") for row in rows} - {""}) == len(rows))
    return next(names, "")


def _pair_rows(was: Any, now: Any) -> tuple[Any, Any]:
    """Two values of one place, with the rows under their names where they have names in both."""
    name = _row_name(was)
    if name and name == _row_name(now):
        was, now = ({row[name]: row for row in rows} for rows in (was, now))
    if not isinstance(was, Mapping) or not isinstance(now, Mapping):
        return was, now
    common = {key: _pair_rows(was[key], now[key]) for key in was.keys() & now.keys()}
    return (
        {**was, **{key: before for key, (before, _) in common.items()}},
        {**now, **{key: after for key, (_, after) in common.items()}},
    )


def _orders(was: Any, now: Any) -> tuple[str, str]:
    """The names of the rows of two lists, each in their order; nothing where rows have no names."""
    name = _row_name(was)
    if not name or name != _row_name(now):
        return "", ""
    return ", ".join(str(row[name]) for row in was), ", ".join(str(row[name]) for row in now)
