"""A narrative on paper: the same sentences as on its page, as a PDF whose bytes depend only on them."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import orjson
from django.conf import settings

from console.narratives.narrative import Narrative, NarrativeLine
from console.templatetags.console import standing

SOURCE = "templates/narrative/narrative.typ"
NOTE = (
    "From facts of the ledger only. Each paragraph is one event, with its place in the log and its hash:"
    " SHA-256 over a zero byte and the event's envelope. Times are UTC."
)
WARNING = "At least one event below does not fit its hash. Do not rely on this narrative."
NAMED = "Names and pseudonyms"


def narrative_pdf(told: Narrative) -> bytes:
    """Return the PDF of a narrative. Its text is inserted as data, so no part of it can act as markup."""
    data = orjson.dumps(
        {
            "title": told.title,
            "note": NOTE,
            "warning": WARNING,
            "named": NAMED,
            "origin": told.origin,
            "facts": told.facts,
            "broken": told.broken,
            "lines": [_line(each) for each in told.lines],
            "people": told.people,
        }
    )
    # 7 MB that most processes never use.
    import typst

    made = typst.compile(
        str(settings.FILES / SOURCE),
        format="pdf",
        ignore_system_fonts=True,
        sys_inputs={"told": data.decode()},
        timestamp=0,
    )
    assert isinstance(made, bytes)
    return made


def _line(line: NarrativeLine) -> dict[str, Any]:
    return {
        "at": line.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "text": line.text,
        "state": line.state,
        "from": f"{line.subject} {line.subject_id}, event {line.seq}; log: {standing(line.place)}; by {line.who}",
        "hash": line.hash,
        "broken": line.broken,
        "evidence": line.evidence,
    }
