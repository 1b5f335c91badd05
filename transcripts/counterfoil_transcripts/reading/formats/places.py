"""A format as data (where its calls, ids, arguments, outcomes and failures stand), and the one reader of such data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from counterfoil_transcripts.reading.formats.content import MAY_CALL, kind_of, name_of, parse_answer_content, text_of
from counterfoil_transcripts.reading.formats.paths import pieces, value_at
from counterfoil_transcripts.reading.records import (
    AGENT,
    SYSTEM,
    TOOL,
    TranscriptAnswer,
    TranscriptCall,
    TranscriptTurn,
)


@dataclass(frozen=True, slots=True)
class Sign:
    """A field and what it states: one of `values`, none of them (`other`), or anything at all (no `values`)."""

    at: str
    values: tuple[Any, ...] = ()
    other: bool = False

    def holds(self, piece: Mapping[str, Any]) -> bool:
        """Return whether a piece states this. A number is no truth value, and nothing is no value."""
        found = value_at(piece, (self.at,))
        if found is None or not self.values:
            return found is not None
        if isinstance(found, dict | list):
            return self.other
        return self.other != any(type(found) is type(one) and found == one for one in self.values)


@dataclass(frozen=True, slots=True)
class Call:
    """The places of a call. A name with `=` is the format's own; `*` is the rest of the part's kind."""

    name: tuple[str, ...]
    arguments: tuple[str, ...]
    id: tuple[str, ...] = ()
    free_text: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The places of an outcome, and the signs that it states.

    `exit_code`: where the exit code of a command stands, which then stands beside the content.
    `when`: there is an outcome only if one of these holds. `open`: it is not the final one. `loose`: one that fits no
    call is no fault, always or where it names none.
    """

    content: tuple[str, ...]
    id: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    exit_code: tuple[str, ...] = ()
    failed: tuple[Sign, ...] = ()
    succeeded: tuple[Sign, ...] = ()
    open: tuple[Sign, ...] = ()
    when: tuple[Sign, ...] = ()
    loose: Literal["", "untied", "always"] = ""

    def stands(self, piece: dict[str, Any]) -> bool:
        """Return whether a part has an outcome, and that one is final."""
        if self.when and not any(sign.holds(piece) for sign in self.when):
            return False
        return not any(sign.holds(piece) for sign in self.open)


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of part: a call, an outcome, both, words, or nothing of these.

    A kind that ends in `*` is a beginning. `needs`: fields without which a part is of no known kind; a call also needs
    a name. `silent`: signs that it says nothing.
    """

    kinds: tuple[str, ...]
    call: Call | None = None
    outcome: Outcome | None = None
    words: tuple[str, ...] = ()
    silent: tuple[Sign, ...] = ()
    needs: tuple[str, ...] = ()

    def is_whole(self, piece: dict[str, Any]) -> bool:
        """Return whether a part has the fields that its kind needs."""
        return all(value_at(piece, (one,)) is not None for one in self.needs)


@dataclass(frozen=True)
class Place:
    """A list of parts in an item, or the item itself (no `at`).

    `by`: the field that names a part's kind; `{}` if a part's kinds are its fields, nothing if all are alike.
    `unless`: the place that says the same where it is filled, so that it is counted once.
    """

    at: str
    by: str
    parts: tuple[Part, ...]
    unless: str = ""
    when: tuple[Sign, ...] = ()

    def counts(self, item: dict[str, Any]) -> bool:
        """Return whether this place is read in an item."""
        if self.when and not any(sign.holds(item) for sign in self.when):
            return False
        return not self.unless or value_at(item, (self.unless,)) in (None, [], {})

    def is_words(self, where: str) -> bool:
        """Return whether a text at this place is words: as the whole content, or as an element of parts alike."""
        if where == f".{self.at}":
            return self.at in ("content", "message")
        return not self.by and self.parts[0].call is None and self.parts[0].outcome is None

    def parts_of(self, piece: Any) -> Iterator[tuple[Part, str]]:
        """The kinds of a part that the format names, each with the rest of its name."""
        if not isinstance(piece, dict):
            return
        if self.by == "{}":
            yield from ((self.table[name], "") for name in piece if name in self.table)
            return
        kind = piece.get(self.by) if self.by else ""
        if isinstance(kind, str):
            yield from self._named_part(kind)
        elif kind is None and not self.at:
            yield Part(("",)), ""

    def _named_part(self, kind: str) -> Iterator[tuple[Part, str]]:
        if kind in self.table:
            yield self.table[kind], ""
            return
        beginnings = (one for one in self.table if one.endswith("*") and kind.startswith(one[:-1]))
        for one in beginnings:
            yield self.table[one], kind[len(one) - 1 :]
            return

    def kind_of(self, piece: Any) -> str:
        """The kind of a part that is not read, as a report names it."""
        kind = piece.get(self.by) if isinstance(piece, dict) else None
        return f"{self.by} `{kind[:60]}`" if isinstance(kind, str) and self.by != "type" else kind_of(piece)

    @cached_property
    def table(self) -> dict[str, Part]:
        """The parts by their kind."""
        return {kind: part for part in self.parts for kind in part.kinds}


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of a format: a part of `at` with these fields of its own, and without those of another format."""

    at: str
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    signs: tuple[Sign, ...] = ()

    @property
    def field(self) -> str:
        """A field that an item with this mark has."""
        return (self.at or (*(sign.at for sign in self.signs), *self.has)[-1]).partition(".")[0]

    def holds(self, item: Mapping[str, Any]) -> bool:
        """Return whether an item carries this mark."""
        return any(self._fits(piece) for _, piece in pieces(item, self.at) if isinstance(piece, dict))

    def _fits(self, piece: dict[str, Any]) -> bool:
        return (
            all(value_at(piece, (one,)) is not None for one in self.has)
            and not any(one in piece for one in self.lacks)
            and all(one.holds(piece) for one in self.signs)
        )


@dataclass(frozen=True)
class DeclaredFormat:
    """One format. `about`: the programs and versions that write it. `role`: where an item's role stands.

    `other_roles`: the role of every value that is not listed; an item with none of these is not of the format.
    `again`: signs of an item that was recorded before. `beside`: fields that say nothing of calls. `prose`: why calls
    are missing by design.
    """

    name: str
    about: str
    marks: tuple[Mark, ...]
    role: tuple[str, ...]
    roles: Mapping[str, str]
    places: tuple[Place, ...]
    other_roles: str = ""
    again: tuple[Sign, ...] = ()
    beside: tuple[str, ...] = ()
    tools: str = ""
    prose: str = ""
    once: str = ""

    def fits(self, item: dict[str, Any]) -> bool:
        """Return whether an item is of this format."""
        return bool(self._role(item)) and any(mark.holds(item) for mark in self.marks)

    def read(self, item: dict[str, Any], number: int) -> tuple[TranscriptTurn, list[tuple[str, str]]]:
        """The turn in an item, and the place and kind of each part of it that the format does not name."""
        if any(sign.holds(item) for sign in self.again):
            return TranscriptTurn(number, SYSTEM), []
        role, found = self._role(item), _Pieces()
        found.unread += [(f".{name}", "of an unknown kind") for name in self._unnamed_fields(item)]
        for place in self.places:
            if place.counts(item):
                found.add(place, item)
        if role != AGENT and found.calls:
            found.unread += [("", f"a call of `{call.tool[:60]}` that the agent did not make") for call in found.calls]
            found.calls.clear()
        text = "\n".join(one for one in found.words if one)
        role = TOOL if found.answers and role != AGENT and not text else role
        calls, answers = tuple(found.calls), tuple(found.answers)
        return TranscriptTurn(number, role, text, calls, answers, self._tools_of(item)), found.unread

    @cached_property
    def named(self) -> frozenset[str]:
        """The fields of an item that the table names."""
        named = {*self.beside, *(path.partition(".")[0] for path in (*self.role, self.tools))}
        for place in self.places:
            named.update((place.at.partition(".")[0], place.unless, place.by))
            for part in place.parts if not place.at else ():
                named.update(path.partition(".")[0] for path in paths_of(part))
        return frozenset(named)

    def _role(self, item: Mapping[str, Any]) -> str:
        found = value_at(item, self.role)
        return self.roles.get(found, self.other_roles) if isinstance(found, str) else ""

    def _tools_of(self, item: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        listed = value_at(item, (self.tools,)) if self.tools else None
        return tuple(one for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()

    def _unnamed_fields(self, item: Mapping[str, Any]) -> Iterator[str]:
        for name, value in item.items():
            if name not in self.named and isinstance(value, dict | list) and value and MAY_CALL.search(name):
                yield name


@dataclass
class _Pieces:
    """What was read of one item so far."""

    calls: list[TranscriptCall] = field(default_factory=list)
    answers: list[TranscriptAnswer] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)

    def add(self, place: Place, item: dict[str, Any]) -> None:
        """Read every part of a place."""
        found = value_at(item, (place.at,)) if place.at else item
        if isinstance(found, int | float):
            self.unread.append((f".{place.at}", f"a part that is {type(found).__name__}"))
        for where, piece in pieces(item, place.at):
            if isinstance(piece, str) and place.is_words(where):
                self.words.append(piece)
                continue
            kinds = [one for one in place.parts_of(piece) if one[0].is_whole(piece)]
            if not kinds or not all(self._read(part, piece, rest) for part, rest in kinds):
                self.unread.append((where, place.kind_of(piece)))

    def _read(self, part: Part, piece: dict[str, Any], rest: str) -> bool:
        """Add what a part says; whether that could be read: a call needs a name."""
        if any(sign.holds(piece) for sign in part.silent):
            return True
        call, outcome = part.call, part.outcome
        if call is not None:
            name = rest if "*" in call.name else name_of(value_at(piece, call.name))
            if not name:
                return False
            asked = value_at(piece, call.arguments)
            arguments = {} if asked is None or asked == "" else asked
            self.calls.append(TranscriptCall(name_of(value_at(piece, call.id)), name, arguments, call.free_text))
        if outcome is not None and outcome.stands(piece):
            self.answers.append(_answer(outcome, piece))
        self.words.extend(text_of(value_at(piece, (path,))) for path in part.words)
        return True


def _answer(outcome: Outcome, piece: dict[str, Any]) -> TranscriptAnswer:
    failed = True if any(sign.holds(piece) for sign in outcome.failed) else None
    if failed is None and any(sign.holds(piece) for sign in outcome.succeeded):
        failed = False
    content = _content(value_at(piece, outcome.content))
    code = value_at(piece, outcome.exit_code)
    if isinstance(code, int) and not isinstance(code, bool):
        content = {"exit_code": code, "output": content}
    call_id, tool = name_of(value_at(piece, outcome.id)), name_of(value_at(piece, outcome.tool))
    loose = outcome.loose == "always" or (outcome.loose == "untied" and not call_id)
    return TranscriptAnswer(call_id, tool, content, failed, loose)


def _content(found: Any) -> Any:
    """The content of an outcome: blocks of text as their text, one block of JSON as its value."""
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict) and found[0].keys() == {"json"}:
        return found[0]["json"]
    if isinstance(found, list) and found and all(isinstance(one, dict) and "text" in one for one in found):
        found = text_of([{"type": "text", "text": one["text"]} for one in found])
    return parse_answer_content(found)


def paths_of(part: Part) -> Iterator[str]:
    """Every path of a part."""
    yield from part.words
    if part.call is not None:
        yield from (*part.call.name, *part.call.arguments, *part.call.id)
    if part.outcome is not None:
        yield from (*part.outcome.content, *part.outcome.id, *part.outcome.tool)
