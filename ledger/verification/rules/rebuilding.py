"""Rebuilds rows from events: the content that a table must have if it was only ever written through the record.

A `RecordTable` says of one table which events make, change and end its rows, and from which part of an event each
column follows. Verification folds the events of a subject through it, and compares.

1. A row that no event made is found, and so is one that an event made and that is gone.
2. A column holds what the last event said that speaks of it. A column of which no event speaks is listed as outside,
   with the reason; what an older event left unsaid is not compared (`UNKNOWN`).
3. Of an erased event only the envelope is left: what its detail said is unknown, and not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger.record.rules.envelope import Envelope
from ledger.record.rules.refusals import Refused

UNKNOWN: Any = object()
"""What no event says, or not any more."""
KEEP: Any = object()
"""What an event leaves as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedEvent:
    """A verified event. `detail` and `entry` are None if they were erased or never existed."""

    envelope: Envelope
    detail: Mapping[str, Any] | None
    entry: Mapping[str, Any] | None = None

    def said(self, path: str, default: object = UNKNOWN) -> Any:
        """A member of the detail, by its names joined with dots."""
        here: Any = self.detail
        for name in path.split("."):
            if not isinstance(here, Mapping) or name not in here:
                return UNKNOWN if self.detail is None else default
            here = here[name]
        return here


Source = Callable[[VerifiedEvent], Any]
Row = dict[str, Any]
ADOPTED = "evidence_adopted"
"""The event that takes evidence into the record which an earlier version had stored without one, with its rows."""


def subject_of(event: VerifiedEvent) -> Any:
    """The id of the subject."""
    return event.envelope.subject_id


def state_after(event: VerifiedEvent) -> Any:
    """The state after the event."""
    return event.envelope.to_state


def event_time(event: VerifiedEvent) -> Any:
    """The time of the event."""
    return event.envelope.at


def actor_of(event: VerifiedEvent) -> Any:
    """The pseudonym of the actor."""
    return event.envelope.actor_id


def on_first_event(source: Source) -> Source:
    """A source that takes its value from the subject's first event only."""
    return lambda event: source(event) if event.envelope.seq == 1 else KEEP


def detail_field(path: str, default: object = UNKNOWN, *, cut: int | None = None) -> Source:
    """A member of the detail, cut to the length of its column."""

    def source(event: VerifiedEvent) -> Any:
        value = event.said(path, default)
        return value[:cut] if cut is not None and isinstance(value, str) else value

    return source


def envelope_digest(digest: str) -> Source:
    """A digest that the envelope carries."""
    return lambda event: event.envelope.digests.get(digest, UNKNOWN)


def constant(value: object) -> Source:
    """A fixed value."""
    return lambda _: value


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """The change that one kind of event makes to the row with the key `key`."""

    columns: Mapping[str, Source]
    key: Source = subject_of
    creates: bool = False


def creates_row(key: Source = subject_of, **columns: Source) -> RowChange:
    """An event that makes a row."""
    return RowChange(columns=columns, key=key, creates=True)


def changes_row(key: Source = subject_of, **columns: Source) -> RowChange:
    """An event that changes a row that is there."""
    return RowChange(columns=columns, key=key)


Fold = Callable[[dict[Any, Row], VerifiedEvent], None]


@dataclass(frozen=True, kw_only=True)
class RecordTable:
    """The rule by which the rows of one table follow from the events of subjects of these kinds.

    `place` is the column that names the subject, `key` the columns that tell the rows of one subject apart. A table
    whose `place` is empty is one of the whole tenant: its rows follow from the events of all those subjects. `always`
    holds for every event of the subject. `fold` does what the rest cannot say. `read` is what a stored row has to
    compare in a column. A table that is not `whole` may hold rows that no event made. In an `optional` one, events say
    what a row would be, and each may have none or several. `adopted_by` is the column that names the evidence of a row,
    where an earlier version stored rows with evidence and without an event (`ADOPTED`).
    """

    model: str
    subjects: tuple[str, ...]
    events: Mapping[str, RowChange] = field(default_factory=dict)
    always: Mapping[str, Source] = field(default_factory=dict)
    fold: Fold | None = None
    folded: tuple[str, ...] = ()
    place: str = "id"
    key: tuple[str, ...] = ("id",)
    read: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True
    optional: bool = False
    adopted_by: str = ""

    @property
    def compared(self) -> frozenset[str]:
        """The columns that are held to the events."""
        spoken = {name for change in self.events.values() for name in change.columns}
        return frozenset(spoken | set(self.always) | set(self.folded))

    def take(self, rows: dict[Any, Row], event: VerifiedEvent) -> None:
        """The rows after one more event (rules 2 and 3)."""
        change = self.events.get(event.envelope.kind)
        key = change.key(event) if change is not None else KEEP
        if isinstance(key, tuple) and any(part is UNKNOWN for part in key):
            # Which row it was is not known any more, only that there was one.
            key = UNKNOWN
        if change is not None and key is not KEEP:
            if change.creates:
                rows.setdefault(key, {})
            if key in rows:
                told = {name: source(event) for name, source in change.columns.items()}
                rows[key].update({name: value for name, value in told.items() if value is not KEEP})
        if self.adopted_by and event.envelope.kind == ADOPTED:
            adopted = event.said("rows", {})
            known = {} if adopted is UNKNOWN else {self.key_of(row): dict(row) for row in adopted.get(self.model, ())}
            rows.update({UNKNOWN: {}} if adopted is UNKNOWN else known)
        elif self.fold is not None:
            self.fold(rows, event)
        if event.envelope.subject_id in rows:
            rows[event.envelope.subject_id].update({name: source(event) for name, source in self.always.items()})

    def key_of(self, row: Mapping[str, Any]) -> Any:
        """The key that distinguishes a row from the others of its subject."""
        names = tuple(as_recorded(row[name]) for name in self.key)
        return names[0] if len(names) == 1 else names

    def fault(self, expected: Mapping[Any, Row], stored: Iterable[Mapping[str, Any]]) -> str | None:
        """The first of the faults."""
        return next(self.faults(expected, stored), None)

    def faults(self, expected: Mapping[Any, Row], stored: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Describe the stored rows of one subject that differ from its events (rules 1 and 2)."""
        return self._faults(expected, list(stored))

    def _faults(self, expected: Mapping[Any, Row], stored: list[Mapping[str, Any]]) -> Iterator[str]:
        found = [(self.key_of(row), row) for row in stored]
        known = {key: row for key, row in expected.items() if key is not UNKNOWN}
        missing = known.keys() - {key for key, _ in found}
        if missing and not self.optional:
            yield from [f"its row in {self.model} is missing."] * len(missing)
        for key, row in found:
            if key not in known:
                # A row of an erased event: which it was is not known any more.
                if self.whole and UNKNOWN not in expected:
                    yield f"no event made its row {key} in {self.model}."
                continue
            for name in sorted(self._differing(known[key], row)):
                yield f"its row in {self.model} has another {name} than its events say."

    def _differing(self, expected: Row, stored: Mapping[str, Any]) -> Iterator[str]:
        for name, value in expected.items():
            if value is UNKNOWN:
                continue
            if not is_same_value(value, self._stored_value(name, stored)):
                yield name

    def _stored_value(self, name: str, stored: Mapping[str, Any]) -> Any:
        """Return the value of a stored row for comparing in a column; an unreadable one equals nothing."""
        if name not in self.read:
            return as_recorded(stored[name])
        try:
            return as_recorded(self.read[name](stored))
        except (Refused, ValueError, TypeError, KeyError):
            return UNKNOWN


def as_recorded(value: object) -> Any:
    """A stored value as events write it: ids as text, bytes as bytes."""
    if value is None or isinstance(value, str | int | float | bool | datetime | list | dict | bytes):
        return value
    return bytes(value) if isinstance(value, memoryview) else str(value)


def is_same_value(recorded: object, stored: object) -> bool:
    """Return whether a stored value is the recorded one; a time may be written as text."""
    if isinstance(stored, datetime) and isinstance(recorded, str):
        try:
            return datetime.fromisoformat(recorded) == stored
        except ValueError:
            return False
    return bool(recorded == stored)
