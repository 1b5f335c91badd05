"""Short texts about an action: its headline, its three axes and the note over its payload.

1. Every sentence is a template over the action's facts. It carries what it claims, each claim with the numbers of the
   events that bear it out; a claim that something is not so rests on the whole attempt and names none.
2. The execution axis is what the executor said. What a reading showed stands on the effect axis alone, and a person's
   word stands there with the reading beside it (`word`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import NEVER_RAN, WORDS, Outcome
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.rules.facts import Answer, DoubtSource, Facts, Permission, RunReading, Seqs
from reviews.reporting.rules.word import WordTexts, word_texts


class OutcomeFamily(StrEnum):
    """The family of an outcome, which has one colour and one shape."""

    WAITING = "waiting"
    RUNNING = "running"
    VERIFYING = "verifying"
    TRUE = "true"
    PARTIAL = "partial"
    FALSE = "false"
    UNKNOWN = "unknown"
    REVERSED = "reversed"
    HELD = "held"
    ATTESTED = "attested"
    ENDED = "ended"


FAMILIES: dict[Outcome, OutcomeFamily] = {
    Outcome.PROPOSED: OutcomeFamily.WAITING,
    Outcome.WAITING_FOR_APPROVAL: OutcomeFamily.WAITING,
    Outcome.READY: OutcomeFamily.WAITING,
    Outcome.APPROVED: OutcomeFamily.WAITING,
    Outcome.EXECUTING: OutcomeFamily.RUNNING,
    Outcome.VERIFYING: OutcomeFamily.VERIFYING,
    Outcome.VERIFIED: OutcomeFamily.TRUE,
    Outcome.UNCHANGED: OutcomeFamily.ENDED,
    Outcome.ANSWERED: OutcomeFamily.ENDED,
    Outcome.ATTESTED: OutcomeFamily.ATTESTED,
    Outcome.ACCEPTED_AS_IT_IS: OutcomeFamily.ATTESTED,
    Outcome.ATTESTED_ABSENT: OutcomeFamily.ATTESTED,
    Outcome.PARTIALLY_APPLIED: OutcomeFamily.PARTIAL,
    Outcome.COMPENSATING: OutcomeFamily.RUNNING,
    Outcome.ROLLING_BACK: OutcomeFamily.RUNNING,
    Outcome.RECOVERING: OutcomeFamily.PARTIAL,
    Outcome.COMPENSATED: OutcomeFamily.REVERSED,
    Outcome.COMPENSATED_AS_ATTESTED: OutcomeFamily.ATTESTED,
    Outcome.ROLLED_BACK: OutcomeFamily.REVERSED,
    Outcome.UNKNOWN: OutcomeFamily.UNKNOWN,
    Outcome.NEEDS_REVIEW: OutcomeFamily.HELD,
    Outcome.CONTRADICTED: OutcomeFamily.UNKNOWN,
    Outcome.FAILED: OutcomeFamily.FALSE,
    Outcome.SETTLED_AS_FAILED: OutcomeFamily.ENDED,
    Outcome.CLOSED_UNRESOLVED: OutcomeFamily.UNKNOWN,
    **dict.fromkeys(NEVER_RAN, OutcomeFamily.ENDED),
}
"""How each outcome looks: success only where a reading showed it, red only where an execution failed."""


class Claim(StrEnum):
    """A claim that a sentence may make about an action, or about its newest attempt."""

    STARTED = "STARTED"
    NOT_STARTED = "NOT_STARTED"
    ANSWERED = "ANSWERED"
    CLAIMED_SUCCESS = "CLAIMED_SUCCESS"
    SAID_FAILURE = "SAID_FAILURE"
    SAID_UNSENT = "SAID_UNSENT"
    NO_ANSWER = "NO_ANSWER"
    FELL_SILENT = "FELL_SILENT"
    READ = "READ"
    NOT_READ = "NOT_READ"
    NOT_DECIDED = "NOT_DECIDED"
    SAW_REQUESTED = "SAW_REQUESTED"
    SAW_NOTHING = "SAW_NOTHING"
    SAW_OTHERWISE = "SAW_OTHERWISE"
    PERSON_SAID = "PERSON_SAID"
    REVERSED = "REVERSED"
    CONTRADICTED = "CONTRADICTED"
    APPROVED = "APPROVED"
    ENDED_UNSTARTED = "ENDED_UNSTARTED"


Claims = tuple[tuple[Claim, Seqs], ...]
_NOT_STARTED: Final[Claims] = ((Claim.NOT_STARTED, ()),)
_NOT_READ: Final[Claims] = ((Claim.NOT_READ, ()),)


@dataclass(frozen=True, slots=True)
class Wording:
    """A short text, the family that decides its appearance, and its claims."""

    text: str
    family: OutcomeFamily = OutcomeFamily.ENDED
    claims: Claims = ()


_F = OutcomeFamily
_AUTHORIZED: Final[Mapping[Permission, tuple[str, OutcomeFamily]]] = {
    Permission.UNCHECKED: ("Being checked by the gate", _F.WAITING),
    Permission.NOT_NEEDED: ("No approval needed", _F.TRUE),
    Permission.WAITING: ("Waiting for approval", _F.WAITING),
    Permission.APPROVED: ("Approved", _F.TRUE),
    Permission.STANDING: ("Passed under a standing approval", _F.TRUE),
    Permission.TIME_BOXED: ("Passed under a time-boxed pass", _F.TRUE),
    Permission.BLOCKED: ("Blocked by the gate", _F.FALSE),
    Permission.BLOCKED_BY_PREFLIGHT: ("Blocked by preflight", _F.FALSE),
    Permission.BLOCKED_BY_AUTONOMY: ("Blocked by the autonomy policy", _F.FALSE),
    Permission.REJECTED: ("Rejected", _F.FALSE),
    Permission.CHANGES_REQUESTED: ("Changes requested", _F.FALSE),
    Permission.EXPIRED: ("Approval expired", _F.FALSE),
    Permission.VOIDED: ("Approval void", _F.FALSE),
    Permission.REPLACED: ("Replaced by another version", _F.ENDED),
    Permission.CANCELLED: ("Cancelled", _F.ENDED),
    Permission.OUTAGE: ("Ended: its system did not answer in time", _F.FALSE),
}
_PREPARING: Final = ("Target being read first", _F.WAITING)
GRANTED: Final = frozenset({Permission.APPROVED, Permission.STANDING, Permission.TIME_BOXED})
_OPEN: Final = GRANTED | {Permission.UNCHECKED, Permission.NOT_NEEDED, Permission.WAITING}


def authorization(facts: Facts, *, preparing: bool = False) -> Wording:
    """Return the first axis; `preparing`: its approval waits for a reading of the target before people are asked."""
    given = facts.authorization
    text, family = _PREPARING if preparing and given.how is Permission.WAITING else _AUTHORIZED[given.how]
    claim = Claim.APPROVED if given.how in GRANTED else None if given.how in _OPEN else Claim.ENDED_UNSTARTED
    return Wording(text, family, ((claim, given.seqs),) if claim else ())


_ANSWERS: Final[Mapping[str, tuple[str, OutcomeFamily, Claim]]] = {
    "success": ("Reported success (unverified)", _F.TRUE, Claim.CLAIMED_SUCCESS),
    "failed": ("Reported failure", _F.FALSE, Claim.SAID_FAILURE),
    "accepted": ("Accepted by the target", _F.RUNNING, Claim.ANSWERED),
    "pending": ("Reported as unfinished", _F.RUNNING, Claim.ANSWERED),
    "partial": ("Reported as done in part (unverified)", _F.VERIFYING, Claim.ANSWERED),
    "timeout": ("Reported a timeout", _F.UNKNOWN, Claim.ANSWERED),
    "malformed": ("No usable answer", _F.UNKNOWN, Claim.ANSWERED),
}
_UNSENT: Final = ("Reported that nothing was sent", _F.FALSE, Claim.SAID_UNSENT)
_LOST: Final = "No start on record; it may have been executed before the record was set back"


def _answer(answer: Answer) -> tuple[str, OutcomeFamily, Claim]:
    return _UNSENT if answer.nothing_sent else _ANSWERS[answer.status]


def execution(facts: Facts) -> Wording:
    """Return the second axis: the executor's answer, without any reading."""
    attempt, answer = facts.attempt, facts.answer
    if attempt is None:
        lost = facts.lost_start is not None
        return Wording(_LOST if lost else "Not started", _F.UNKNOWN if lost else _F.WAITING, _NOT_STARTED)
    lead = f"Attempt {attempt.number}: " if attempt.number > 1 else ""
    started: Claims = ((Claim.STARTED, (attempt.seq,)),)
    if answer is None and attempt.silent is None:
        return Wording(f"{lead}Started; no answer yet", _F.RUNNING, (*started, (Claim.NO_ANSWER, ())))
    if answer is None:
        silence: Claims = ((Claim.NO_ANSWER, ()), (Claim.FELL_SILENT, (attempt.silent or 0,)))
        return Wording(f"{lead}Started; the executor never answered", _F.UNKNOWN, (*started, *silence))
    text, family, claim = _answer(answer)
    others = dict.fromkeys(_answer(each)[0] for each in attempt.answers if _answer(each)[0] != text)
    beside = "".join(f"; another answer: {each[0].lower()}{each[1:]}" for each in others)
    return Wording(f"{lead}{text}{beside}", family, (*started, (claim, (answer.seq,))))


def saw(reading: RunReading) -> Claims:
    """Return the claims that a decisive reading supports."""
    if reading.shown is Shown.NO_EFFECT:
        return ((Claim.SAW_NOTHING, reading.seqs),)
    return ((Claim.SAW_REQUESTED if reading.is_as_requested else Claim.SAW_OTHERWISE, reading.seqs),)


def by_word(facts: Facts) -> WordTexts | None:
    """Return the texts of an action that a person's statement settled; None for any other."""
    to_reverse = facts.word is not None and facts.word.discrepancy == Discrepancy.COMPENSATION_REQUIRED
    return word_texts(facts.outcome, facts.last_reading, to_reverse=to_reverse)


def beside_word(facts: Facts) -> Claims:
    """Return the claims of a person's statement, and those of the reading reported with it."""
    word, best = facts.word, facts.best
    said: Claims = ((Claim.PERSON_SAID, (word.seq,)),) if word else ()
    if word is None and facts.reversal is not None:
        said = ((Claim.REVERSED, (facts.reversal,)),)
    if best is not None and best.is_decisive:
        return (*said, *saw(best))
    read = best is not None and best.shown is not Shown.NOT_READ
    return (*said, *(((Claim.NOT_DECIDED, ()),) if read else _NOT_READ))


_FINDINGS: Final[Mapping[str, str]] = {
    "NO_OP_SUCCESS": "no change needed",
    "NO_OP_FAILURE": "nothing changed",
    "VALUE_MISMATCH": "values differ from the request",
    "STALE_STATE": "the target changed in between",
    "PARTIAL_APPLICATION": "partially applied",
    "DUPLICATE_SIDE_EFFECT": "duplicate effect",
    "WRONG_TARGET_MODIFIED": "wrong target changed",
    "TARGET_MISSING": "the target is gone",
    "PROPAGATION_DELAY": "other systems lag behind",
    "UNVERIFIABLE_STATE": "cannot be verified",
    "COMPENSATION_REQUIRED": "it must be reversed",
}


def _finding(facts: Facts) -> str:
    """Return the fault that the newest decisive reading found, otherwise the reason why the newest one was
    inconclusive.
    """
    read = facts.of_attempt
    reading = facts.found or (read[-1] if read else None)
    return _FINDINGS.get(reading.discrepancy, "") if reading is not None else ""


_DOUBTED: Final[Mapping[DoubtSource, tuple[str, str]]] = {
    DoubtSource.READING: (
        "Contradicted by a later reading",
        "Settled, then contradicted by a later reading: outcome unknown",
    ),
    DoubtSource.PERSON: ("Disputed by a person", "Settled, then disputed by a person: outcome unknown"),
    DoubtSource.REMEDY: (
        "Contradicted: its recovery action did not hold",
        "Settled, then its recovery action was contradicted: outcome unknown",
    ),
}
_EFFECT: Final[Mapping[State, tuple[str, OutcomeFamily]]] = {
    State.PENDING: ("Verifying", _F.VERIFYING),
    State.COMMITTED: ("Read, being compared", _F.VERIFYING),
    State.COMPENSATING: ("Being reversed", _F.RUNNING),
    State.ROLLED_BACK: ("Rolled back", _F.REVERSED),
    State.UNKNOWN: ("Not known", _F.UNKNOWN),
    State.VERIFICATION_TIMEOUT: ("Not known", _F.UNKNOWN),
}
_UNDECIDED: Final[Mapping[Shown, str]] = {
    Shown.NOT_READ: "Not read: the system did not answer",
    Shown.WEAK: "Only a weak reading",
    Shown.UNDECIDED: "Inconclusive readings",
}


def effect(facts: Facts) -> Wording:
    """Return the third axis: the result of the readings, or the person's statement if there was no result."""
    outcome, attempt = facts.outcome, facts.attempt
    if facts.doubt is not None:
        return Wording(_DOUBTED[facts.doubt.source][0], _F.UNKNOWN, ((Claim.CONTRADICTED, (facts.doubt.seq,)),))
    if texts := by_word(facts):
        return Wording(texts.effect, FAMILIES[outcome], beside_word(facts))
    if facts.reversal is not None:
        return Wording("Reversed", _F.REVERSED, ((Claim.REVERSED, (facts.reversal,)),))
    if attempt is None:
        waits = facts.state in (State.PROPOSED, State.VALIDATED)
        if facts.lost_start is not None:
            return Wording("Not known", _F.UNKNOWN, _NOT_STARTED)
        text = ("Not read yet", _F.WAITING) if waits else ("Nothing was executed", _F.ENDED)
        return Wording(*text, _NOT_STARTED)
    if is_read_to_its_end(facts):
        done = facts.state is State.RECONCILED_SUCCESS
        read = saw(facts.found) if facts.found is not None else ()
        return Wording("Read; changes nothing" if done else "No usable answer; changes nothing", claims=read)
    if is_unsent(facts):
        answer = attempt.answer
        unsent: Claims = ((Claim.SAID_UNSENT, (answer.seq,)),) if answer else ()
        return Wording("Nothing was sent, on the executor's word", _F.FALSE, (*unsent, *_NOT_READ))
    return _read(facts, facts.found) if facts.found is not None else _unread(facts)


def _read(facts: Facts, found: RunReading) -> Wording:
    if facts.state in _EFFECT:
        return Wording(*_EFFECT[facts.state], saw(found))
    if facts.state is State.RECONCILED_SUCCESS and found.shown is Shown.AS_REQUESTED:
        if facts.outcome is Outcome.UNCHANGED:
            return Wording("As requested before it ran; changed nothing", _F.ENDED, saw(found))
        return Wording("Confirmed", _F.TRUE, saw(found))
    if found.discrepancy == Discrepancy.PARTIAL_APPLICATION:
        return Wording("In part", _F.PARTIAL, saw(found))
    if found.shown is Shown.NO_EFFECT and facts.state in (State.FAILED, State.VALIDATED):
        text = "No effect, confirmed" if facts.effect is None else "No effect any more, confirmed"
        return Wording(text, _F.FALSE, saw(found))
    if found.shown is Shown.AS_REQUESTED:
        return Wording("As requested", _F.HELD, saw(found))
    text = _finding(facts) or ("no effect" if found.shown is Shown.NO_EFFECT else "not as requested")
    return Wording(text[0].upper() + text[1:], _F.FALSE, saw(found))


def _unread(facts: Facts) -> Wording:
    read = facts.best
    claims: Claims = _NOT_READ
    if read is not None and read.shown is not Shown.NOT_READ:
        claims = ((Claim.READ, read.seqs), (Claim.NOT_DECIDED, ()))
    if facts.is_unverifiable and facts.state is not State.PENDING:
        return Wording("Cannot be checked", _F.UNKNOWN, claims)
    if facts.state in _EFFECT:
        return Wording(*_EFFECT[facts.state], claims)
    if read is not None:
        return Wording(_UNDECIDED[read.shown], _F.UNKNOWN, claims)
    waits = facts.state in (State.EXECUTING, State.ACCEPTED)
    return Wording("Not read yet" if waits else "Not read", _F.WAITING if waits else _F.UNKNOWN, claims)


def is_read_to_its_end(facts: Facts) -> bool:
    """Return whether this is a read that was answered, or that brought no usable answer."""
    if facts.state is State.FAILED:
        return facts.side_effect_class == SideEffectClass.READ_ONLY and facts.found is None
    return facts.outcome is Outcome.ANSWERED


def is_unsent(facts: Facts) -> bool:
    """Return True if the last attempt failed before anything was sent, by its executor's statement alone."""
    answer = facts.answer
    return facts.state is State.FAILED and facts.found is None and bool(answer and answer.nothing_sent)


_HEADLINES: Final[Mapping[State, str]] = {
    State.PROPOSED: "Being checked",
    State.VALIDATED: "Ready to run",
    State.EXECUTING: "Executing",
    State.ACCEPTED: "Accepted by the target, not finished",
    State.PENDING: "Verifying",
    State.COMMITTED: "Verifying",
    State.PARTIALLY_COMMITTED: "Partially applied",
    State.RECONCILED_SUCCESS: "Verified",
    State.RECONCILIATION_FAILED: "Rolling back",
    State.FAILED: "Failed",
    State.VERIFICATION_TIMEOUT: "Not verified in time",
    State.UNKNOWN: "Unknown",
    State.COMPENSATING: "Compensating",
    State.COMPENSATED: "Compensated",
    State.COMPENSATION_FAILED: "Compensation failed",
    State.FORWARD_RECOVERY: "Being recovered",
    State.ROLLED_BACK: "Rolled back, no effect is there",
    State.REVIEW_REQUIRED: "Needs review",
    State.ABANDONED: "Closed unresolved",
}
_WITHOUT_FINDING: Final = frozenset({State.COMMITTED, State.COMPENSATED, State.ROLLED_BACK})
"""Where what was found wrong is no longer so, or not judged yet."""
_TRIED: Final[Mapping[Relation, str]] = {
    Relation.COMPENSATION: "a reversal",
    Relation.ROLLBACK: "a rollback",
    Relation.FORWARD: "a forward recovery",
    Relation.CORRECTION: "a correction",
}


def headline(facts: Facts, *, preparing: bool = False) -> Wording:
    """Return the one line that sums an action up: its outcome, and any finding against it."""
    outcome = facts.outcome
    shown = effect(facts)
    if facts.doubt is not None:
        return Wording(_DOUBTED[facts.doubt.source][1], shown.family, shown.claims)
    if outcome in NEVER_RAN:
        ended = authorization(facts)
        return Wording(f"{ended.text}: {not_executed(facts)}", _F.ENDED, ended.claims)
    texts = by_word(facts)
    if texts is not None and texts.headline:
        return Wording(texts.headline, shown.family, shown.claims)
    if outcome is Outcome.WAITING_FOR_APPROVAL:
        return Wording("Its target is read before anybody is asked" if preparing else WORDS[outcome], _F.WAITING)
    if facts.state is State.FAILED and facts.attempt is None:
        return Wording("Not executed", _F.ENDED, _NOT_STARTED)
    if is_unsent(facts):
        return Wording("Failed before anything was sent, on the executor's word", shown.family, shown.claims)
    if facts.reversal is not None:
        return Wording(_HEADLINES[State.COMPENSATED], shown.family, shown.claims)
    if is_read_to_its_end(facts):
        return Wording(_headline_of_a_read(facts))
    return Wording(_headline_of_state(facts), shown.family, shown.claims)


def not_executed(facts: Facts) -> str:
    """Return the text that an action which ended before a start was not executed, as far as the record shows."""
    if facts.attempts:
        return "not executed again"
    return "not executed" if facts.lost_start is None else "no start is on record"


def _headline_of_a_read(facts: Facts) -> str:
    if facts.state is State.RECONCILED_SUCCESS:
        return "Answered"
    read = facts.of_attempt
    unusable = bool(read and read[-1].discrepancy)
    return "Answered, and the answer cannot be used" if unusable else "Read failed"


def _headline_of_state(facts: Facts) -> str:
    text, finding = _HEADLINES[facts.state], _finding(facts)
    if facts.outcome is Outcome.UNCHANGED:
        return WORDS[Outcome.UNCHANGED]
    if facts.state is State.VALIDATED:
        return f"{text} again" if facts.attempts else text
    if facts.state is State.RECONCILED_SUCCESS and facts.corrected is not None:
        return f"{text} after a correction"
    if facts.state is State.FORWARD_RECOVERY and finding == _FINDINGS[Discrepancy.PARTIAL_APPLICATION]:
        return "Partially applied, recovering"
    said = f": {finding}" if finding and finding != text.lower() and facts.state not in _WITHOUT_FINDING else ""
    return text + said + (_tried_recoveries_clause(facts) if facts.state is State.REVIEW_REQUIRED else "")


def _tried_recoveries_clause(facts: Facts) -> str:
    """Return a clause with the recoveries tried before it was held, so that none is ordered twice by mistake."""
    tried = [word for relation, word in _TRIED.items() if relation in facts.remedies]
    return f"; {' and '.join(tried)} did not settle it" if tried else ""


@dataclass(frozen=True)
class Axes:
    """Authorization, what the executor said, and what the system of record showed."""

    decision: Wording
    execution: Wording
    effect: Wording


def axes(facts: Facts, *, preparing: bool = False) -> Axes:
    """The three axes of an action."""
    return Axes(authorization(facts, preparing=preparing), execution(facts), effect(facts))


def payload_note(facts: Facts) -> Wording:
    """Return the note over the stored payload: its origin."""
    if facts.attempt is not None:
        return Wording("as stored and as handed to the executor", claims=((Claim.STARTED, (facts.attempt.seq,)),))
    why = "nothing was executed" if facts.lost_start is None else "no start is on record"
    return Wording(f"as stored; {why}", claims=_NOT_STARTED)
