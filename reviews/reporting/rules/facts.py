"""The facts of an action: what its events support, and nothing else.

1. `fold` takes the events in order, each with its detail, and the entry that the newest one left. No column, attempt,
   answer or run beside the record is asked.
2. A fact carries the numbers of the events that bear it out (`seqs`). What no event bears out is absent, and is not
   guessed from another fact.
3. What the executor answered, what a reading showed and what a person said never share a field.
4. Answers and readings belong to an attempt: a reading before the newest start says nothing of it.
5. A run without a source has read nothing. Of a run that ended the action without effect, that is what it showed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import Ground, State, changes_outcome
from ledger.record.rules.outcomes import Outcome, outcome_of
from ledger.record.rules.target_readings import TargetReading
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.shown import NOT_READ, LastReading, Shown, describe_effects, shown_by

Seqs = tuple[int, ...]


class RecordedEvent(Protocol):
    """The fields of an event that facts follow from; `actor_id` is the actor's pseudonym."""

    seq: Any
    kind: Any
    from_state: Any
    state: Any
    actor_kind: Any
    actor_id: Any
    at: Any


class Permission(StrEnum):
    """The standing of an action's permission to run."""

    UNCHECKED = "UNCHECKED"
    NOT_NEEDED = "NOT_NEEDED"
    WAITING = "WAITING"
    APPROVED = "APPROVED"
    STANDING = "STANDING"
    TIME_BOXED = "TIME_BOXED"
    BLOCKED = "BLOCKED"
    BLOCKED_BY_PREFLIGHT = "BLOCKED_BY_PREFLIGHT"
    BLOCKED_BY_AUTONOMY = "BLOCKED_BY_AUTONOMY"
    REJECTED = "REJECTED"
    CHANGES_REQUESTED = "CHANGES_REQUESTED"
    EXPIRED = "EXPIRED"
    VOIDED = "VOIDED"
    REPLACED = "REPLACED"
    CANCELLED = "CANCELLED"
    OUTAGE = "OUTAGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """The decision about an action; `by` is the actor of the event that records it."""

    how: Permission
    seqs: Seqs
    by: Any = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of the executor; `status` is one of `ReportedStatus`."""

    seq: int
    status: str
    claims_success: bool
    nothing_sent: bool
    pointer: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A start, its answer, and the event that records that its executor stopped responding."""

    number: int
    executor: str
    seq: int
    at: datetime
    silent: int | None = None
    answers: tuple[Answer, ...] = ()

    @property
    def answer(self) -> Answer | None:
        """The answer that counts: a claim of success is not taken back by a later answer."""
        claims = [each for each in self.answers if each.claims_success]
        return next(reversed(claims or self.answers), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReading:
    """One run that judged the outcome; `run` is the pointer of its evidence, `consistency` what its source could prove.

    `difference` has the values that it showed instead of the request, where they were looked up and can be opened; else
    how often each effect was found, where that is on record.
    """

    run: str
    source: str
    consistency: str
    shown: Shown
    discrepancy: str
    seqs: Seqs
    at: datetime
    difference: str = ""

    @property
    def is_decisive(self) -> bool:
        """Return whether it showed the result of the action."""
        return self.shown in _DECIDED

    @property
    def is_as_requested(self) -> bool:
        """True if it showed the effect as requested; one that must be reversed existed first."""
        return self.shown is Shown.AS_REQUESTED or self.discrepancy == Discrepancy.COMPENSATION_REQUIRED


_DECIDED: Final = frozenset({Shown.AS_REQUESTED, Shown.NO_EFFECT, Shown.DIFFERENT})
_UNDECIDED: Final = (Shown.NOT_READ, Shown.WEAK, Shown.UNDECIDED)


class DoubtSource(StrEnum):
    """The source that contradicts a settled outcome."""

    READING = "READING"
    PERSON = "PERSON"
    REMEDY = "REMEDY"  # a recovery action that it rests on was contradicted


@dataclass(frozen=True, slots=True)
class Doubt:
    """The event that contradicts the settled outcome."""

    source: DoubtSource
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A person's word that settled the action; `second` confirmed what `by` proposed. `discrepancy` is what the reading
    that they spoke over had found, empty where it found nothing wrong.
    """

    seq: int
    discrepancy: str
    by: str
    second: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that may be reported of one action, except the values behind its evidence.

    `reached_by` is the kind of the event by which it came to stand as it does, `reached_at` its number, `discrepancy`
    the finding on record. `remedies` are
    the recoveries that were proposed for it, by relation, each with the number of the event. `target` is the reading of
    its target before it starts. `lost_start` is the event that says that it may have been started before the record was
    set back.
    """

    state: State
    reached_by: str = ""
    reached_at: int = 1
    side_effect_class: str = ""
    discrepancy: str = ""
    reversed: bool = False
    reversal: int | None = None
    authorization: Authorization = field(default=Authorization(how=Permission.UNCHECKED, seqs=(1,)))
    attempts: tuple[Attempt, ...] = ()
    readings: tuple[RunReading, ...] = ()
    target: TargetReading = field(default_factory=TargetReading)
    word: Word | None = None
    remedies: Mapping[str, int] = field(default_factory=dict)
    doubt: Doubt | None = None
    lost_start: int | None = None
    is_answer_only: bool = False
    is_unverifiable: bool = False

    @property
    def may_have_started(self) -> bool:
        """Return whether a start is on record, or was lost with a record that went back."""
        return bool(self.attempts) or self.lost_start is not None

    @property
    def contradicted(self) -> bool:
        """True if something contradicts the settled outcome."""
        return self.doubt is not None

    @property
    def approval_id(self) -> str | None:
        """The approval as the action's view names it: a constant if anybody was to be asked, otherwise None."""
        return None if self.authorization.how is Permission.NOT_NEEDED else "asked"

    @property
    def outcome(self) -> Outcome:
        """Its outcome, as a single term."""
        return outcome_of(self)

    @property
    def attempt_count(self) -> int:
        """The number of its starts."""
        return len(self.attempts)

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def answer(self) -> Answer | None:
        """The answer to the newest attempt that counts."""
        return self.attempt.answer if self.attempt else None

    @property
    def of_attempt(self) -> tuple[RunReading, ...]:
        """The runs since the newest start, in order."""
        begun = self.attempt.seq if self.attempt else 0
        return tuple(each for each in self.readings if each.seqs[0] > begun)

    @property
    def found(self) -> RunReading | None:
        """The newest decisive reading of the newest attempt."""
        return next((each for each in reversed(self.of_attempt) if each.is_decisive), None)

    @property
    def effect(self) -> RunReading | None:
        """The newest decisive reading of the newest attempt that showed an effect, whatever a later one showed."""
        seen = (each for each in reversed(self.of_attempt) if each.is_decisive and each.shown is not Shown.NO_EFFECT)
        return next(seen, None)

    @property
    def corrected(self) -> RunReading | None:
        """The reading that showed what a correction made good; None unless the newest one shows what was requested."""
        proposed = self.remedies.get(Relation.CORRECTION)
        if proposed is None or self.found is None or self.found.shown is not Shown.AS_REQUESTED:
            return None
        earlier = (
            each for each in reversed(self.of_attempt) if each.seqs[0] < proposed and each.shown is Shown.DIFFERENT
        )
        return next(earlier, None)

    @property
    def best(self) -> RunReading | None:
        """The reading to report: the newest decisive one, otherwise the strongest inconclusive one."""
        newest_first = reversed(self.of_attempt)
        return self.found or max(newest_first, key=lambda each: _UNDECIDED.index(each.shown), default=None)

    @property
    def last_reading(self) -> LastReading:
        """The same, for a report that includes a person's statement."""
        if self.best is None:
            return NOT_READ
        return LastReading(shown=self.best.shown, difference=self.best.difference, run=self.best.run)

    def with_differences(self, differences: Mapping[str, str]) -> Facts:
        """The same facts with the values that these runs showed, by the pointer of their evidence."""
        known = (replace(each, difference=differences.get(each.run) or each.difference) for each in self.readings)
        return replace(self, readings=tuple(known))


_ENDS: Final[Mapping[str, Permission]] = {
    "validation_failed": Permission.BLOCKED,
    "preflight_refused": Permission.BLOCKED_BY_PREFLIGHT,
    "outside_autonomy": Permission.BLOCKED_BY_AUTONOMY,
    "approval_voided": Permission.VOIDED,
    "rejected": Permission.REJECTED,
    "changes_requested": Permission.CHANGES_REQUESTED,
    "approval_expired": Permission.EXPIRED,
    "provider_outage": Permission.OUTAGE,
    "superseded": Permission.REPLACED,
    "cancelled": Permission.CANCELLED,
}
_WORDS: Final = frozenset(
    ["attested_present", "accepted_as_it_is", "attested_absent", "failed_by_review", "abandoned", "left_as_it_is"]
)
_REVERSALS: Final = frozenset({"compensated", "compensation_attested"})
_OF_ANSWERS: Final = frozenset(["answer_awaited", "answer_checked", "answered", "answer_refused"])
_NO_EFFECT: Final = frozenset({Ground.NO_EFFECT_NO_CLAIM, Ground.NO_EFFECT_REMAINS, Ground.LOCAL_UNCHANGED})


def fold(history: Iterable[tuple[RecordedEvent, Any, Mapping[str, Any] | None]], entry: Mapping[str, Any]) -> Facts:
    """The facts of an action, from its events in order as (event, entry, detail), and the entry of the newest."""
    folded = _Fold()
    for event, _, detail in history:
        folded.take(event, detail or {})
    return folded.facts(entry)


class _Fold:
    """The facts so far; each event is applied once, in order."""

    def __init__(self) -> None:
        self.state, self.reached_by, self.reached_at = State.PROPOSED, "", 1
        self.authorization = Authorization(how=Permission.UNCHECKED, seqs=(1,))
        self.attempts: list[Attempt] = []
        self.runs: dict[str, RunReading] = {}
        self.target = TargetReading()
        self.word: Word | None = None
        self.ordered = ""
        self.remedies: dict[str, int] = {}
        self.doubt: Doubt | None = None
        self.reversal: int | None = None
        self.lost_start: int | None = None
        self.reversed = self.answer_only = False

    def facts(self, entry: Mapping[str, Any]) -> Facts:
        return Facts(
            state=self.state,
            reached_by=self.reached_by,
            reached_at=self.reached_at,
            side_effect_class=entry.get("side_effect_class", ""),
            discrepancy=(entry.get("reconciliation") or {}).get("discrepancy_class") or "",
            reversed=self.reversed,
            reversal=self.reversal,
            authorization=self.authorization,
            attempts=tuple(self.attempts),
            readings=tuple(self.runs.values()),
            target=self.target,
            word=self.word,
            remedies=self.remedies,
            doubt=self.doubt,
            lost_start=self.lost_start,
            is_answer_only=self.answer_only,
            is_unverifiable=(entry.get("verification") or {}).get("status") == "UNVERIFIABLE",
        )

    def take(self, event: RecordedEvent, detail: Mapping[str, Any]) -> None:
        self._take_permission(event, detail)
        self.target = self.target.after(event.kind, event.seq)
        if event.kind == "execution_started":
            self._take_start(event, detail)
        elif self.attempts:
            self._take_answer(event, detail)
        self._take_reading(event, detail)
        if changes_outcome(event.kind, event.from_state, event.state):
            self.reached_by, self.reached_at, self.word = event.kind, event.seq, None
        if event.kind in _WORDS:
            by, second = str(detail.get("by") or event.actor_id), str(detail.get("confirmed_by") or "")
            over = self._read_before(str((detail.get("reading") or {}).get("run") or ""))
            found = over.discrepancy if over is not None else ""
            self.word = Word(seq=event.seq, discrepancy=found, by=by, second=second, at=event.at)
        if event.kind == "ordered":
            self.ordered = str(detail.get("relation"))
        elif event.kind == "recovery_proposed":
            self.remedies[self.ordered] = event.seq
        elif event.kind in ("held_after_restore", "start_without_record"):
            self.lost_start = event.seq
        view = detail.get("view") or {}
        if event.kind in _REVERSALS:
            self.reversal = event.seq
        self.reversed = bool(view.get("reversed", self.reversed))
        self._take_doubt(event, detail, view.get("contradicted"))
        self.state = State(event.state)

    def _read_before(self, run: str) -> RunReading | None:
        """The reading that a person spoke over: the one that they name, else the newest decisive one of the attempt."""
        begun = self.attempts[-1].seq if self.attempts else 0
        found = (each for each in reversed(self.runs.values()) if each.is_decisive and each.seqs[0] > begun)
        return self.runs.get(run) or next(found, None)

    def _take_permission(self, event: RecordedEvent, detail: Mapping[str, Any]) -> None:
        how = None
        if event.kind == "validated":
            how = Permission.WAITING if detail.get("approval_required") else Permission.NOT_NEEDED
        elif event.kind in ("approval_asked_again", "approval_revalidated"):
            how = Permission.WAITING
        elif event.kind == "approval_granted":
            passed = Permission.TIME_BOXED if detail.get("time_box") else Permission.STANDING
            how = passed if detail.get("standing_approval_id") else Permission.APPROVED
        else:
            how = _ENDS.get(event.kind)
        if how is not None:
            self.authorization = Authorization(how=how, seqs=(event.seq,), by=event.actor_id, at=event.at)

    def _take_start(self, event: RecordedEvent, detail: Mapping[str, Any]) -> None:
        number = int(detail.get("attempt") or len(self.attempts) + 1)
        executor = str(detail.get("executor_id") or "")
        self.attempts.append(Attempt(number=number, executor=executor, seq=event.seq, at=event.at))

    def _take_answer(self, event: RecordedEvent, detail: Mapping[str, Any]) -> None:
        """Apply an answer, or its absence, with the attempt that it names, which need not be the newest."""
        told = detail.get("attempt")
        place = next((n for n, each in enumerate(self.attempts) if each.number == told), len(self.attempts) - 1)
        attempt, seen = self.attempts[place], detail.get("observation") or {}
        if event.kind == "lease_ended":
            self.attempts[place] = replace(attempt, silent=event.seq)
        elif event.kind in ("observed", "failed") and seen:
            answer = Answer(
                seq=event.seq,
                status=str(seen.get("status")),
                claims_success=bool(seen.get("claimed_success")),
                nothing_sent=Ground.NOTHING_SENT in (detail.get("grounds") or ()),
                pointer=str(seen.get("pointer") or ""),
                at=event.at,
            )
            self.attempts[place] = replace(attempt, answers=(*attempt.answers, answer))

    def _take_reading(self, event: RecordedEvent, detail: Mapping[str, Any]) -> None:
        self.answer_only = self.answer_only or event.kind in _OF_ANSWERS
        run, listed = str(detail.get("run") or ""), detail.get("listed")
        if run in self.runs:
            reading = replace(self.runs[run], seqs=(*self.runs[run].seqs, event.seq))
        elif run and listed:
            codes = {name: str(listed.get(name) or "") for name in ("source", "consistency", "result", "discrepancy")}
            # On record since the source's own word is told apart from what it could prove.
            codes["consistency"] = str(listed.get("trusted_as") or codes["consistency"])
            shown = shown_by(**codes) if codes["source"] else Shown.NOT_READ
            reading = RunReading(
                run=run,
                source=codes["source"],
                consistency=codes["consistency"],
                difference=describe_effects(listed.get("effects") or ()) if shown is Shown.DIFFERENT else "",
                shown=shown,
                discrepancy=codes["discrepancy"],
                seqs=(event.seq,),
                at=event.at,
            )
        else:
            return
        if reading.is_decisive and _NO_EFFECT & set(detail.get("grounds") or ()):
            reading = replace(reading, shown=Shown.NO_EFFECT)
        self.runs[run] = reading

    def _take_doubt(self, event: RecordedEvent, detail: Mapping[str, Any], stands: bool | None) -> None:
        if stands is False:
            self.doubt = None
        elif stands and (self.doubt is None or event.kind in ("contradicted", "doubted")):
            source = DoubtSource.READING if detail.get("run") else DoubtSource.REMEDY
            if event.actor_kind == "person":
                source = DoubtSource.PERSON
            self.doubt = Doubt(source, event.seq)
