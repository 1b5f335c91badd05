"""The differences between two versions of a policy: by sentences, and by places of the documents.

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
    """The differences between the bytes of two versions: by sentences, if both can be described, and by places."""
    try:
        sentences = sentence_changes(policy_topics(kind, was), policy_topics(kind, now))
    except Refused:
        sentences = []
    return {"sentences": sentences, "places": document_changes(parse(was), parse(now))}


def sentence_changes(old: Sequence[PolicyTopic], new: Sequence[PolicyTopic]) -> list[dict[str, Any]]:
    """By topic, the removed and the new sentences; both versions are of one kind."""
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
    """Every difference of two documents, and every list whose rows changed or were reordered."""
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
    """The document with the built-in rows inserted, if the other one has rows of its own."""
    built_in = document.get("table") == "built-in" and other.get("table", "built-in") != "built-in"
    return dict(document) | ({"table": recovery_table.TABLE["rows"]} if built_in else {})


def _row_name(rows: Any) -> str:
    """The member that names every row of a list uniquely; None if there is none."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        return ""
    names = (name for name in _ROW_NAMES if len({row.get(name, "") for row in rows} - {""}) == len(rows))
    return next(names, "")


def _pair_rows(was: Any, now: Any) -> tuple[Any, Any]:
    """Two values at one place, with rows paired by name if both have names."""
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
    """The names of the rows of two lists in order; None if rows have no names."""
    name = _row_name(was)
    if not name or name != _row_name(now):
        return "", ""
    return ", ".join(str(row[name]) for row in was), ", ".join(str(row[name]) for row in now)
