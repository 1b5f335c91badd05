"""Recordings as their pages show them: figures that lead somewhere, rows of conversations, and messages to be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from console.models import RecordedConversation, RecordedMessage, Recording
from console.recordings.forms import KINDS
from console.recordings.rules import BY, MOST_VALUE
from console.recordings.search_words import query_words
from console.sessions import guarded_message

ROLES: Final = {
    "agent": ("Agent", "robot-claim"),
    "user": ("User", "person"),
    "system": ("System", "contracts"),
    "tool": ("Tool", "systems"),
}
TRUSTS: Final = {
    "answers": "an answer that says success was taken at its word",
    "reads": "a change counted as done only where a later read shows it",
}
BASES: Final = {
    "read": "a later read in the conversation shows it",
    "answer": "only the tool's own answer says so",
    "nothing": "nothing stands behind it",
}
MOST_SHOWN: Final = 200
MOST_BEFORE: Final = 60
LONG: Final = 1_000
"""What is longer stands folded in a conversation."""
_FIGURES: Final = ("phantom", "argument_hallucination", "valid_execution_failed", "value_mismatch")


def import_row(slug: str, row: Recording, called: Mapping[UUID, str], *, run_out: datetime) -> dict[str, Any]:
    """An import in the list of imports; an erased one has no name. `run_out` is the expiry of earlier imports."""
    return {
        "row": row,
        "ran_out": bool(row.digest) and row.at <= run_out,
        "href": reverse("recording", args=[slug, row.id]),
        "named": called.get(row.named, "") if row.named else "",
    }


def figure_links(slug: str, row: Recording) -> list[dict[str, Any]]:
    """Return the numbers of a recording, each with a link to its conversations."""
    told = row.totals
    counted = told.get("categories", {}) | told.get("further", {})
    found = [
        _figure(slug, row, "Conversations", row.conversations),
        _figure(slug, row, "With findings", row.with_findings, findings="yes"),
    ]
    return found + [_figure(slug, row, KINDS[kind].capitalize(), counted.get(kind, 0), kind=kind) for kind in _FIGURES]


def code_counts(slug: str, row: Recording) -> list[dict[str, Any]]:
    """The refusals and false claims by code, most frequent first."""
    counted = row.totals.get("false_claims", {}) | row.totals.get("refusals", {})
    order = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return [{"code": code, "count": count, "href": _address(slug, row, code=code)} for code, count in order if count]


def conversation_rows(
    slug: str, rows: Iterable[RecordedConversation], said: Mapping[int, tuple[int, str]], sought: str = ""
) -> list[dict[str, Any]]:
    """Return conversations in the list of a recording, each with a message, cut around the searched words."""
    return [_conversation_row(slug, row, said.get(row.number), sought) for row in rows]


def cut_excerpt(text: str, sought: Iterable[str]) -> str:
    """Return a text in a line or two: from its beginning, or around the first of these words."""
    plain = " ".join(text.split())
    places = [place for place in (plain.lower().find(word) for word in sought) if place >= 0]
    start = plain.rfind(" ", 0, max(min(places, default=0) - MOST_BEFORE, 0)) + 1
    cut = plain[start : start + MOST_SHOWN]
    return f"{'…' if start else ''}{cut}{'…' if start + MOST_SHOWN < len(plain) else ''}"


def _conversation_row(
    slug: str, row: RecordedConversation, said: tuple[int, str] | None, sought: str
) -> dict[str, Any]:
    href = reverse("recorded-conversation", args=[slug, row.recording_id, row.number])
    turn, text = said or (0, "")
    return {
        "row": row,
        "href": href,
        "kinds": [KINDS[kind] for kind in row.kinds if kind in KINDS and kind != "valid"],
        "said": cut_excerpt(text, query_words(sought)),
        "said_href": message_url(href, turn) if sought else "",
        "turn": turn,
    }


def finding_links(row: RecordedConversation, address: str) -> list[dict[str, Any]]:
    """The findings of a conversation, each with a link to its message."""
    return [
        {**each, "word": KINDS.get(each["code"], each["code"]), "href": message_url(address, each["turn"])}
        for each in row.findings
    ]


def message_context(row: RecordedMessage, address: str) -> dict[str, Any]:
    """One message for reading: false claims are struck out, its calls are below it."""
    role, icon = ROLES.get(row.role, (row.role.capitalize(), "dot"))
    false = [each for each in row.claims if each["code"]]
    return {
        "row": row,
        "role": role,
        "icon": icon,
        "parts": guarded_message.split_message(row.text, [(each["span"][0], each["span"][1]) for each in false]),
        "cut": row.length - len(row.text),
        "false": false,
        "stand": [each | {"word": BASES[each["basis"]]} for each in row.claims if not each["code"]],
        "calls": [_call(each, address) for each in row.calls],
        "answers": [each | {"length": _length_text(each["content"])} for each in row.answers],
    }


def message_url(address: str, number: int) -> str:
    """The address of one message of a conversation, on its page."""
    return f"{address}?{urlencode({'from': number})}#message-{number}"


def _call(call: dict[str, Any], address: str) -> dict[str, Any]:
    bad = not call["accepted"] or call["category"] == "valid_execution_failed"
    return {
        **call,
        "word": KINDS.get(call["category"], call["category"]),
        "is_valid": call["category"] == "valid",
        "length": _length_text(call["arguments"]),
        "family": "false" if bad else "partial" if call["contradicted"] else "",
        "answer_href": "" if call["answered"] is None else message_url(address, call["answered"]),
        "differences": [each | {"by": BY[each["where"]]} for each in call["differences"]],
        "predicates": [each | {"by": BY[each["where"]]} for each in call["predicates"] if predicate_fails(each)],
    }


def _length_text(value: str) -> str:
    """The displayed length of a long value; empty for a short one."""
    first = "the first " if len(value) == MOST_VALUE else ""
    return f"{first}{len(value)} characters" if len(value) > LONG else ""


def predicate_fails(predicate: Mapping[str, Any]) -> bool:
    """Return whether a predicate does not hold; earlier imports kept only such predicates."""
    return bool(predicate.get("holds", "FALSE") == "FALSE")


def _figure(slug: str, row: Recording, word: str, count: int, **wanted: str) -> dict[str, Any]:
    return {"word": word, "count": count, "href": _address(slug, row, **wanted)}


def _address(slug: str, row: Recording, **wanted: str) -> str:
    here = reverse("recording", args=[slug, row.id])
    return f"{here}?{urlencode(wanted)}" if wanted else here
