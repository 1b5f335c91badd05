"""The receipt: what the record holds of the changes since the agent last spoke, in the console's own lines.

1. A line is made from the record alone: the outcome's word (`outcomes`), the action, each field that is
   shown otherwise than it was asked, and its confirmation code. A contract's template tells what is completed, and that
   only; everything else is told in the report's words.
2. The last try of a tool on a target stands for the earlier ones. What is older and still open stands below.
3. After a long run the counts stand below: calls, targets, failures, what was done on a later try, what was read back.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.catalogue.rules.report_templates import DEFAULT_LANGUAGE, as_text, render
from ledger.record.rules.outcomes import WORDS, Outcome
from reviews.guarding.rules.records import Field, Ground, Record, Tool
from reviews.guarding.rules.turns import last_tries

MOST_LINES = 20
LONG_RUN = 10
"""From so many calls on the counts are told."""
LONGEST_VALUE = 80

OPEN = frozenset(
    {
        *("PROPOSED", "WAITING_FOR_APPROVAL", "READY", "APPROVED", "EXECUTING", "VERIFYING", "PARTIALLY_APPLIED"),
        *("COMPENSATING", "ROLLING_BACK", "RECOVERING", "UNKNOWN", "NEEDS_REVIEW", "CONTRADICTED", "CHANGES_REQUESTED"),
    }
)
"""The outcomes after which something is still to come, or to be found out."""
_CODE = re.compile(
    r"(?:(?:confirmation|receipt|reference|transaction|booking|reservation|tracking|charge|refund|ticket|payment|transfer|"
    r"invoice|message|event|job|request)_)?(?:id|no|ref|reference|receipt)|confirmation|pnr|"
    r"(?:confirmation|receipt|reference|transaction|booking|tracking|ticket|invoice)_(?:code|number|url)"
)
"""Names of what an answer gives as proof: not `user_id`, which says whose it is, nor `refund_status`."""
_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MARKS = re.compile(r"([\\`*_\[\]<>#|])")


@dataclass(frozen=True, slots=True)
class Difference:
    """A field whose value differs from the request."""

    name: str
    asked: str
    shown: str

    @property
    def text(self) -> str:
        """The difference as a sentence."""
        return (
            f"The {self.name} is {self.shown}; {self.asked} was asked for."
            if self.shown
            else f"The {self.name} asked for, {self.asked}, is not shown."
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One action of a receipt."""

    action_id: str
    tool: str
    target: str
    outcome: str
    word: str
    what: str
    differences: tuple[Difference, ...] = ()
    code: str = ""

    @property
    def text(self) -> str:
        """The line in plain text."""
        parts = [f"{self.word}: {_end_with_stop(self.what)}", *(each.text for each in self.differences)]
        if self.code:
            parts.append(f"Confirmation: {self.code}.")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one tool in a long run."""

    tool: str
    calls: int
    targets: int
    failed: int
    repaired: int
    verified: int

    @property
    def text(self) -> str:
        """The counts as a sentence."""
        calls, targets = _format_count(self.calls, "call"), _format_count(self.targets, "target")
        said = f"{self.tool}: {calls} on {targets}, {self.failed} failed"
        if self.failed:
            said += f" ({self.repaired} of them done on a later try)"
        return f"{said}, {self.verified} verified."


@dataclass(frozen=True, slots=True)
class Receipt:
    """The lines of a receipt; `open` are those of older actions that have not ended, `more` counts what is left out."""

    lines: tuple[Line, ...] = ()
    open: tuple[Line, ...] = ()
    counts: tuple[Counts, ...] = ()
    more: int = 0
    language: str = DEFAULT_LANGUAGE

    @property
    def text(self) -> str:
        """The receipt in plain text; empty where nothing changed."""
        return "\n".join(f"- {said}" if is_item else said for said, is_item in self._lines_with_marks())

    @property
    def markdown(self) -> str:
        """The receipt as a Markdown list."""
        escaped = ((_MARKS.sub(r"\\\1", said), is_item) for said, is_item in self._lines_with_marks())
        return "\n".join(f"- {said}" if is_item else f"\n{said}\n" for said, is_item in escaped).strip()

    @property
    def html(self) -> str:
        """The receipt as HTML without scripts or styles."""
        made: list[str] = []
        for said, is_item in self._lines_with_marks():
            made.append(f"<li>{html.escape(said)}</li>" if is_item else f"</ul><p>{html.escape(said)}</p><ul>")
        return f'<div class="receipt"><ul>{"".join(made)}</ul></div>'.replace("<ul></ul>", "") if made else ""

    def _lines_with_marks(self) -> Iterable[tuple[str, bool]]:
        if self.lines:
            yield "On record:", False
        for line in self.lines:
            yield line.text, True
        if self.more:
            yield f"and {self.more} more", True
        if self.open:
            yield "Still open from before:", False
        for line in self.open:
            yield line.text, True
        if self.counts:
            yield "In all:", False
        for each in self.counts:
            yield each.text, True


def receipt_of(ground: Ground, *, language: str = DEFAULT_LANGUAGE, only_new: bool = True) -> Receipt:
    """The receipt of what changed since the agent last spoke; of everything on record where not `only_new`."""
    changes = [record for record in ground.records if ground.changes(record)]
    tries = last_tries(changes)
    new = [record for record in tries if record.is_new or not only_new]
    older = [record for record in tries if record not in new and record.outcome in OPEN] if new else []
    lines = [status_line(record, ground.by_name.get(record.tool), language) for record in new]
    still_open = [status_line(record, ground.by_name.get(record.tool), language) for record in older]
    run = [record for record in ground.records if record.is_new or not only_new]
    return Receipt(
        tuple(lines[-MOST_LINES:]),
        tuple(still_open[-MOST_LINES:]),
        tuple(_counts_by_tool(run)) if len(run) >= LONG_RUN and new else (),
        max(0, len(lines) - MOST_LINES),
        language,
    )


def status_line(record: Record, tool: Tool | None, language: str = DEFAULT_LANGUAGE) -> Line:
    """The console's line on one action (rule 1)."""
    word = WORDS[Outcome(record.outcome)] if record.outcome in Outcome.__members__ else record.outcome or "On record"
    return Line(
        action_id=record.action_id,
        tool=record.tool,
        target=record.target,
        outcome=record.outcome,
        word=word,
        what=_done_sentence(record, tool, language) or _plain_sentence(record, word),
        differences=tuple(difference(each) for each in record.differing),
        code=confirmation_of(record.answer, record.arguments),
    )


def difference(compared: Field) -> Difference:
    """A field that differs, as people read it."""
    return Difference(compared.name.replace("_", " ").replace(".", " "), _short(compared.asked), _short(compared.shown))


def title(record: Record) -> str:
    """The action in words: its tool and its target."""
    words = record.tool.replace("_", " ").replace(".", " ")
    kind, _, name = record.target.partition("/")
    if not name:
        return f"{words} {kind}".strip()
    return f"{words} {name}" if kind in words.split() else f"{words}, {kind} {name}"


def _done_sentence(record: Record, tool: Tool | None, language: str) -> str:
    if tool is None or not record.completed or record.contradicted or record.differing:
        return ""
    templates = dict(tool.report)
    template = templates.get(language) or templates.get(language.partition("-")[0]) or templates.get(DEFAULT_LANGUAGE)
    sources = {"sa": record.reading, "so": record.answer, "sr": record.arguments}
    return render(template, record.target, sources) if template else ""


def _plain_sentence(record: Record, word: str) -> str:
    """The attempt and its report, without the outcome's word, which comes before it."""
    parts = [_end_with_stop(title(record)), record.text.removeprefix(f"{word}. ")]
    if record.reason and record.reason.rstrip(".") not in record.text:
        parts.append(_end_with_stop(f"Reason: {_short(record.reason)}"))
    return " ".join(filter(None, parts))


def _end_with_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _short(value: object) -> str:
    text = as_text(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def confirmation_of(answer: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """The first code of a tool's answer that the request did not hold already."""
    known = {str(value) for value in arguments.values()}
    for name, value in answer.items():
        named = _INNER_CAPITAL.sub("_", name).lower()
        if not _CODE.fullmatch(named) or isinstance(value, bool) or not isinstance(value, str | int):
            continue
        text = str(value)
        is_code = any(character.isdigit() for character in text) and not re.search(r"\s", text)
        if text not in known and is_code and len(text) <= LONGEST_VALUE:
            return text
    return ""


def _counts_by_tool(run: list[Record]) -> Iterable[Counts]:
    by_tool: dict[str, list[Record]] = defaultdict(list)
    for record in run:
        by_tool[record.tool].append(record)
    for tool, records in by_tool.items():
        failed = [each for each in records if each.outcome in ("FAILED", "BLOCKED") or each.state is None]
        done = {each.target: place for place, each in enumerate(records) if each.completed}
        repaired = sum(done.get(each.target, -1) > records.index(each) for each in failed)
        verified = sum(each.outcome in ("VERIFIED", "ANSWERED") and not each.contradicted for each in records)
        yield Counts(tool, len(records), len({each.target for each in records}), len(failed), repaired, verified)


def _format_count(number: int, of: str) -> str:
    return f"{number} {of}{'' if number == 1 else 's'}"
