"""The content of a report on parts and recovery: the parts that took effect, the treatment of the rest, and what
follows.

1. The parts are those of the newest reading that found the action done in part: they are told from then on, also once
   it was recovered, since a part of it was true of the world for a time (R-RI-06, R-PL-12, R-HS-04).
2. A recovery that is ordered or runs is told as such, with what comes after it (R-RI-04, R-RI-16). It follows from the
   action's own record, so that the report on one state of the record is always the same (R-RI-15).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import State
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.predicates import PredicateOrigin, PredicateOutcome, mentions_effect
from reviews.reconciliation.rules.verdict import EffectStatus
from reviews.recovery.rules.remedies import NAMES
from reviews.reporting.rules.facts import Facts


class PartOutcome(StrEnum):
    """A reading's finding about one part of an action."""

    APPLIED = "APPLIED"
    APPLIED_DIFFERENTLY = "APPLIED_DIFFERENTLY"  # it is there, with other values than were asked for
    NOT_APPLIED = "NOT_APPLIED"
    INCONSISTENT = "INCONSISTENT"  # one system has it, another has not
    UNFINISHED = "UNFINISHED"
    NOT_KNOWN = "NOT_KNOWN"


PART_WORDS: dict[PartOutcome, str] = {
    PartOutcome.APPLIED: "took effect",
    PartOutcome.APPLIED_DIFFERENTLY: "took effect with other values than asked for",
    PartOutcome.NOT_APPLIED: "did not take effect",
    PartOutcome.INCONSISTENT: "took effect in one system and not in another",
    PartOutcome.UNFINISHED: "began and is not finished",
    PartOutcome.NOT_KNOWN: "could not be told",
}
_OUTCOMES = {
    EffectStatus.PRESENT: PartOutcome.APPLIED,
    EffectStatus.ABSENT: PartOutcome.NOT_APPLIED,
    EffectStatus.DIVERGENT: PartOutcome.INCONSISTENT,
    EffectStatus.PENDING: PartOutcome.UNFINISHED,
}


@dataclass(frozen=True)
class Part:
    """One wanted effect of an action that was done in part; `name` as people read it."""

    name: str
    outcome: PartOutcome

    @property
    def words(self) -> str:
        """The finding in words."""
        return PART_WORDS[self.outcome]


def parts_of(verdict: Mapping[str, Any]) -> tuple[Part, ...]:
    """The parts of a stored verdict, in the contract's order."""
    false = [
        each["text"]
        for each in verdict.get("predicates", ())
        if each["holds"] == PredicateOutcome.FALSE and each["origin"] != PredicateOrigin.SCOPE
    ]
    return tuple(Part(each["name"].replace("_", " "), _outcome(each, false)) for each in verdict.get("effects", ()))


def _outcome(effect: Mapping[str, Any], false: Sequence[str]) -> PartOutcome:
    outcome = _OUTCOMES.get(EffectStatus(effect["found"]), PartOutcome.NOT_KNOWN)
    if outcome is PartOutcome.APPLIED and any(mentions_effect(text, frozenset({effect["name"]})) for text in false):
        return PartOutcome.APPLIED_DIFFERENTLY
    return outcome


def join_parts(parts: Sequence[Part]) -> str:
    """The parts in one clause: "euros and dollars took effect; pounds did not take effect"."""
    groups = [(words, [part.name for part in parts if part.outcome is one]) for one, words in PART_WORDS.items()]
    return "; ".join(f"{_join_names(names)} {words}" for words, names in groups if names)


def _join_names(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


class RecoveryStage(StrEnum):
    """The stage of a recovery."""

    ORDERED = "ORDERED"
    RUNNING = "RUNNING"  # the recovery action was proposed: it is approved, executed and read back like any other
    VERIFIED = "VERIFIED"  # its own reading held; the action itself is read again


@dataclass(frozen=True)
class OngoingRecovery:
    """A recovery that is under way."""

    relation: Relation
    stage: RecoveryStage

    @property
    def has_begun(self) -> bool:
        """Return whether a recovery action exists already."""
        return self.stage is not RecoveryStage.ORDERED

    @property
    def text(self) -> str:
        """The recovery under way and the reading after it, as a sentence."""
        name, (doing, thing_read) = NAMES[self.relation], _WORDS[self.relation]
        if self.stage is RecoveryStage.VERIFIED:
            return f"{doing}: the {name} is settled, and {thing_read} is being read again."
        state = "is proposed as an action of its own" if self.has_begun else "is ordered and has not begun"
        return f"{doing}: the {name} {state}, and after it {thing_read} is read again."


_WORDS = {
    Relation.COMPENSATION: ("It is being reversed", "the system of record"),
    Relation.FORWARD: ("What is missing is being finished", "the whole"),
    Relation.ROLLBACK: ("It is being rolled back", "the target"),
    Relation.CORRECTION: ("The difference is to be corrected", "the system of record"),
}
RELATIONS: dict[State, Relation] = {
    State.COMPENSATING: Relation.COMPENSATION,
    State.FORWARD_RECOVERY: Relation.FORWARD,
    State.RECONCILIATION_FAILED: Relation.ROLLBACK,
}
"""Which recovery an action in a state is waiting for, where one is under way."""

RECOVERY_ACTIONS: dict[Relation, str] = {
    Relation.COMPENSATION: "compensation_action_id",
    Relation.ROLLBACK: "rollback_action_id",
    Relation.FORWARD: "recovery_action_id",
    Relation.CORRECTION: "recovery_action_id",
}
"""Where the entry names the recovery action."""

_OPEN = frozenset(
    {
        State.PARTIALLY_COMMITTED,
        State.COMPENSATING,
        State.FORWARD_RECOVERY,
        State.RECONCILIATION_FAILED,
        State.REVIEW_REQUIRED,
    }
)
_HELD = "Not settled. A person decides what follows: to reverse it, to finish it, or to leave it as it is."


def partial_report_text(facts: Facts, text: str, parts: Sequence[Part], *, settled_otherwise: bool) -> str:
    """Return the report's sentence with the parts in it, as they are in this state (rule 1).

    `settled_otherwise`: something else than the reading of the parts says what is so now: a person, or a contradiction.
    """
    state, clause = facts.state, join_parts(parts)
    tried = [NAMES[relation] for relation in Relation if relation in facts.remedies]
    is_partial = facts.found is not None and facts.found.discrepancy == Discrepancy.PARTIAL_APPLICATION
    if is_partial and not settled_otherwise and state in _OPEN:
        since = f" A {' and a '.join(tried)} did not settle it." if tried else ""
        return f"Done in part: {clause}." + (f"{since} {_HELD}" if state is State.REVIEW_REQUIRED else "")
    if settled_otherwise:
        return f"{text} A reading had found it done in part: {clause}."
    if state is State.RECONCILED_SUCCESS and facts.reversal is None:
        after = "After a forward recovery" if NAMES[Relation.FORWARD] in tried else "By now"
        return f"{text} At first it was done in part: {clause}. {after} a reading showed all of it."
    if state is State.COMPENSATED:
        return f"{text} Before that it was done in part: {clause}."
    return f"{text} A reading had found it done in part: {clause}."
