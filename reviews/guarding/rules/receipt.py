"""The receipt: the recorded changes since the agent's last message, in the console's own lines.

1. A line is made from the record alone: the outcome's word (`outcomes`), the action, each field that is
   shown otherwise than it was asked, and its confirmation code. A contract's template tells what is completed, and that
   only; everything else is told in the report's words, with its facts (`effects`): what was asked, and what the answer
   shows anew.
2. The last try of a tool on a target stands for the earlier ones. What is older and still open stands below. Where
   nothing is new, a message that names the target of a change is followed by the receipt of the session.
3. After a long run, and behind a long message, the counts stand below: calls, targets, failures, what was done on a
   later try, what was read back, and which tools were never called. A tool whose argument names the real action is
   counted by it.
4. Notes stand last (`notes`): what the message says and the record does not bear out.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ledger.catalogue.rules.report_templates import DEFAULT_LANGUAGE, as_text, render
from ledger.record.rules.outcomes import AS_REQUESTED, WORDS, Outcome
from reviews.guarding.rules.effects import Effects, Fact
from reviews.guarding.rules.folding import fold
from reviews.guarding.rules.records import Field, Ground, Note, Record, Tool
from reviews.guarding.rules.turns import last_changes, named_in

MOST_LINES = 20
LONG_RUN = 10
"""From so many calls on the counts are told."""
LONG_MESSAGE = 1_000
"""From so many characters on a message is a report, and the counts are told of the whole session."""
LONGEST_VALUE = 80
MOST_NEVER_CALLED = 12

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
_ACTION_NAMES = (
    "action",
    "action_name",
    "operation",
    "op",
    "function",
    "function_name",
    "tool",
    "tool_name",
    "command",
)
_ACTION = re.compile(r"[A-Za-z_][\w.-]{0,40}(?=\s|$)")
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
    facts: tuple[Fact, ...] = ()
    more_facts: int = 0

    @property
    def text(self) -> str:
        """The line in plain text."""
        parts = [f"{self.word}: {_end_with_stop(self.what)}", *(each.text for each in self.differences)]
        for title, shown in (("Asked", False), ("Shown", True)):
            if told := _join_facts(each for each in self.facts if each.shown is shown):
                parts.append(_end_with_stop(f"{title}: {told}"))
        if self.more_facts:
            parts.append(f"And {_format_count(self.more_facts, 'more value')}.")
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
    answered: int

    @property
    def text(self) -> str:
        """The counts as a sentence."""
        calls, targets = _format_count(self.calls, "call"), _format_count(self.targets, "target")
        said = f"{self.tool}: {calls} on {targets}, {self.failed} failed"
        if self.failed:
            said += f" ({self.repaired} of them done on a later try)"
        ends = [
            f"{count} {word}" for count, word in ((self.verified, "verified"), (self.answered, "answered")) if count
        ]
        return f"{said}, {', '.join(ends) or '0 verified'}."


@dataclass(frozen=True, slots=True)
class Receipt:
    """The lines of a receipt; `open` are those of older actions that have not ended, `more` counts what is left out."""

    lines: tuple[Line, ...] = ()
    open: tuple[Line, ...] = ()
    counts: tuple[Counts, ...] = ()
    more: int = 0
    never_called: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    language: str = DEFAULT_LANGUAGE

    @property
    def text(self) -> str:
        """Return the receipt as plain text; empty if nothing changed."""
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
        yield from self._lines_beside_message()

    def _lines_beside_message(self) -> Iterable[tuple[str, bool]]:
        if self.never_called:
            rest = len(self.never_called) - MOST_NEVER_CALLED
            named = ", ".join(self.never_called[:MOST_NEVER_CALLED]) + (f" and {rest} more" if rest > 0 else "")
            yield f"Never called: {named}.", True
        if self.notes:
            yield "Beside the message:", False
        for note in self.notes:
            yield note.text, True


def receipt_of(
    ground: Ground,
    *,
    language: str = DEFAULT_LANGUAGE,
    only_new: bool = True,
    message: str = "",
    notes: tuple[Note, ...] = (),
) -> Receipt:
    """Return the receipt of the changes since the agent's last message; of everything on record unless `only_new`.

    `message` is what it goes out with (rules 2 and 3); `notes` are those on this message.
    """
    tries = last_changes(ground)
    if tries and not any(record.is_new for record in tries) and named_in(fold(message).lower, tries):
        only_new = False
    new = [record for record in tries if record.is_new or not only_new]
    older = [record for record in tries if only_new and not record.is_new and record.outcome in OPEN] if new else []
    effects = Effects.of(ground)
    lines = [_full_line(record, ground, effects, language) for record in new[-MOST_LINES:]]
    still_open = [status_line(record, ground.by_name.get(record.tool), language) for record in older]
    is_long = len(message) >= LONG_MESSAGE
    run = [record for record in ground.records if record.is_new or not only_new or is_long]
    is_counted = len(run) >= LONG_RUN and bool(new or is_long)
    called = {record.tool for record in ground.records}
    return Receipt(
        tuple(lines),
        tuple(still_open[-MOST_LINES:]),
        tuple(_counts_by_tool(run)) if is_counted else (),
        max(0, len(new) - MOST_LINES),
        tuple(each.name for each in ground.tools if each.disclosed and each.name not in called)
        if is_counted and is_long
        else (),
        notes,
        language,
    )


def _full_line(record: Record, ground: Ground, effects: Effects, language: str) -> Line:
    """Return the line of a receipt: that of the contract's template, otherwise with the facts of the
    action (rule 1).
    """
    tool = ground.by_name.get(record.tool)
    done = _done_sentence(record, tool, language)
    return _line(record, done, *(((), 0) if done else effects.facts_of(record)))


def _join_facts(facts: Iterable[Fact]) -> str:
    """Join facts into one text; facts of the same name share it."""
    return "; ".join(
        f"{name} {', '.join(each.text for each in group)}" for name, group in groupby(facts, key=lambda each: each.name)
    )


def status_line(record: Record, tool: Tool | None, language: str = DEFAULT_LANGUAGE) -> Line:
    """The console's line on one action (rule 1)."""
    return _line(record, _done_sentence(record, tool, language))


def _line(record: Record, done: str, facts: tuple[Fact, ...] = (), more_facts: int = 0) -> Line:
    word = WORDS[Outcome(record.outcome)] if record.outcome in Outcome.__members__ else record.outcome or "On record"
    code = confirmation_of(record.answer, record.arguments) if record.answer else ""
    return Line(
        action_id=record.action_id,
        tool=record.tool,
        target=record.target,
        outcome=record.outcome,
        word=word,
        what=done or _plain_sentence(record, word),
        differences=tuple(map(difference, record.differing)),
        code=code,
        facts=tuple(each for each in facts if each.value != code),
        more_facts=more_facts,
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
    """Return the attempt and its report without the outcome, which precedes it."""
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
        by_tool[_counted_name(record)].append(record)
    for tool, records in by_tool.items():
        failed = {
            place: each
            for place, each in enumerate(records)
            if each.outcome in ("FAILED", "BLOCKED") or each.state is None
        }
        done = {each.target: place for place, each in enumerate(records) if each.completed}
        repaired = sum(done.get(each.target, -1) > place for place, each in failed.items())
        targets = len({each.target for each in records})
        standing = [each.outcome for each in records if not each.contradicted]
        verified, answered = sum(each in AS_REQUESTED for each in standing), standing.count(Outcome.ANSWERED)
        yield Counts(tool, len(records), targets, len(failed), repaired, verified, answered)


def _counted_name(record: Record) -> str:
    """The tool, and the action that an argument of it names (`execute_action: create_table`)."""
    for name in _ACTION_NAMES:
        value = record.arguments.get(name)
        if isinstance(value, str) and (found := _ACTION.match(value)):
            return f"{record.tool}: {found.group()}"
    return record.tool


def _format_count(number: int, of: str) -> str:
    return f"{number} {of}{'' if number == 1 else 's'}"
