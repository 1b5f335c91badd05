"""Citations: `{{action:call-7}}` is the status line of an action, `{{call-7.amount}}` a value that it shows.

1. An action is cited by the id of its call or by its own id. A value is that of the read-back, else of the answer, or,
   of a completed action only, of the request: what was merely asked for is never filled in as a fact.
2. A citation of what is not on record, or of a value that nothing shows, has nothing to be filled with (`text` None).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ledger.catalogue.rules.report_templates import as_text, at_path
from reviews.guarding.rules.receipt import status_line
from reviews.guarding.rules.records import Ground, Record

_CITED = re.compile(
    r"\{\{\s*(?:action:\s*(?P<action>[\w.:-]{1,128})|(?P<of>[\w:-]{1,128})\.(?P<path>[A-Za-z_][\w.-]{0,120}))\s*\}\}"
)


@dataclass(frozen=True, slots=True)
class Citation:
    """One citation of a message: its span, the cited action, and the inserted text, if there is any."""

    span: tuple[int, int]
    record: Record | None
    text: str | None
    is_line: bool


def citations_in(message: str, ground: Ground) -> Iterator[Citation]:
    """The citations of a message, in order."""
    for found in _CITED.finditer(message) if "{{" in message else ():
        record = cited_record(found["action"] or found["of"], ground)
        if record is None:
            text = None
        elif found["action"]:
            text = status_line(record, ground.by_name.get(record.tool)).text
        else:
            text = _value(record, tuple(found["path"].split("."))) or None
        yield Citation(found.span(), record, text, found["action"] is not None)


def cited_record(name: str, ground: Ground) -> Record | None:
    """The newest action of that call id or action id."""
    return next((each for each in reversed(ground.records) if name in (each.call_id, each.action_id)), None)


def _value(record: Record, path: tuple[str, ...]) -> str:
    compared = next((each for each in record.fields if each.name == ".".join(path) and each.shown is not None), None)
    if compared is not None:
        return as_text(compared.shown)
    for source in (record.reading, record.answer, record.arguments if record.completed else {}):
        text = as_text(at_path(source, path))
        if text:
            return text
    return ""
