"""One recorded call as an action: the gate's verdict, the answer, and the believed state.

`--trust` says how far a tool's own answer goes. A recording has no system of record that could be read, so that
strictly nothing in it is verified, and every honest "it is done" would be premature. That helps nobody:

1. `answers` (the default): an answer that says success counts as done, with the answer as its evidence, unless the
   answer itself or a later read in the conversation shows other values. What is found then is wrong even by the tools'
   own words. The report says of each claim that only an answer stands behind it.
2. `reads`: an answer counts as PENDING until a later read in the same conversation shows what was asked.
3. In both, a failure is a failure, a time-out is unknown, and accepted is not done. A call that the gate would have
   refused, and that a tool carried out all the same, is believed like any other: it happened.
4. Nothing is ever called verified: a read in a recording is a read by the agent's own tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from approvals.gate.rules.gate import GateVerdict
from counterfoil_transcripts.answers import ParsedAnswer
from counterfoil_transcripts.reading.records import TranscriptCall
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.fields import Field
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import BY_STATE, Outcome
from reviews.guarding.rules.records import Record
from reviews.observations.rules.observe import ReportedStatus
from reviews.reporting.rules.report import ALLOWED

THE_THING = "(the thing itself)"
"""The field that stands for whether a deleted thing is still there."""


class TrustRequirement(StrEnum):
    """The evidence that a success needs to count as done."""

    ANSWERS = "answers"
    READS = "reads"


@dataclass(frozen=True, slots=True)
class PredicateResult:
    """One predicate of the contract evaluated on an answer or a later read, as `where` says."""

    text: str
    holds: str
    where: str
    reason: str = ""
    expected: Any = None
    actual: Any = None


@dataclass(slots=True, eq=False)
class AuditedAct:
    """One call of a conversation and its outcome; `number` counts from 1."""

    number: int
    turn: int
    call: TranscriptCall
    verdict: GateVerdict
    arguments: Mapping[str, Any]
    contract: Contract | None
    notes: list[str] = field(default_factory=list)
    told: ParsedAnswer | None = None
    answered_at: int | None = None
    answered_fields: tuple[Field, ...] = ()
    read_fields: dict[str, Field] = field(default_factory=dict)
    predicates: list[PredicateResult] = field(default_factory=list)
    seen_by: list[int] = field(default_factory=list)
    contradicted: bool = False
    repeats: int | None = None
    depends_on: tuple[int, ...] = ()
    told_as_failed: bool = False
    silent_over: list[tuple[int, str]] = field(default_factory=list)

    @property
    def mutating(self) -> bool:
        """Return whether the tool changes anything; an unknown tool is assumed to."""
        return self.contract is None or self.contract.mutating

    @property
    def fields(self) -> tuple[Field, ...]:
        """The requested fields with the shown ones: from the newest read that has them, else from the answer."""
        named = {one.name: one for one in self.answered_fields}
        return tuple({**named, **self.read_fields}.values())

    @property
    def differences(self) -> tuple[Field, ...]:
        """The fields whose shown value differs from the requested one."""
        return tuple(one for one in self.fields if one.differs)

    @property
    def category(self) -> str:
        """The measuring class (R-MC-14), with failed executions separate from successful ones."""
        failed = self.told is not None and self.told.status in {ReportedStatus.FAILED, ReportedStatus.TIMEOUT}
        return "valid_execution_failed" if self.verdict.category == "valid" and failed else self.verdict.category

    @property
    def states_outcome(self) -> bool:
        """Return whether its answer states an outcome by a mark or field, or a later read shows it."""
        return bool(self.seen_by) or (self.told is not None and self.told.typed)

    @property
    def basis(self) -> str:
        """The evidence for the outcome: `read`, `answer` or `nothing`."""
        if self.told is None or self.told.status is not ReportedStatus.SUCCESS:
            return "read" if self.seen_by else "nothing"
        return "read" if self.seen_by or not self.mutating else "answer"


_OF_STATUS = {
    ReportedStatus.FAILED: State.FAILED,
    ReportedStatus.TIMEOUT: State.UNKNOWN,
    ReportedStatus.MALFORMED: State.UNKNOWN,
    ReportedStatus.PENDING: State.PENDING,
    ReportedStatus.ACCEPTED: State.ACCEPTED,
    ReportedStatus.PARTIAL: State.PARTIALLY_COMMITTED,
}
_TEXTS = {
    State.EXECUTING: "Called; no answer is recorded by then.",
    State.FAILED: "The tool answered that it failed.",
    State.UNKNOWN: "The call timed out or gave no usable answer; what came of it is not known.",
    State.PENDING: "The tool answered; nothing in the conversation shows that it is done.",
    State.ACCEPTED: "The tool took it on; it had not said that it is done.",
    State.PARTIALLY_COMMITTED: "The tool answered that only a part was done.",
    State.RECONCILED_SUCCESS: "Said to be done by the tool.",
}


def believed_state(act: AuditedAct, trust: TrustRequirement) -> State | None:
    """The state that may be believed of a call; None if the gate refuses it and nothing happened."""
    if act.told is None:
        return State.EXECUTING if act.verdict.accepted else None
    if act.seen_by:
        return State.RECONCILED_SUCCESS
    if act.told.status is ReportedStatus.SUCCESS:
        believed = trust is TrustRequirement.ANSWERS or not act.mutating
        return State.RECONCILED_SUCCESS if believed else State.PENDING
    if act.told.status is ReportedStatus.FAILED and not act.verdict.accepted:
        return None
    return _OF_STATUS[act.told.status]


def guard_record(act: AuditedAct, trust: TrustRequirement) -> Record:
    """The call as the guard sees it."""
    state = believed_state(act, trust)
    told = act.told
    done = state is State.RECONCILED_SUCCESS
    contradicted = _is_contradicted_whole(act)
    reason = told.reason if told is not None and told.reason else act.verdict.message if state is None else ""
    return Record(
        action_id=str(act.number),
        tool=act.call.tool,
        target=act.verdict.target_resource,
        arguments=act.arguments,
        state=None if state is None else str(state),
        completed=done and not contradicted,
        code=str(ALLOWED[state][0]) if state is not None else "NOT_EXECUTED",
        text=_text(act, state),
        reason=reason,
        evidence=(*told.evidence, f"answer to call {act.number}") if told is not None and done else (),
        contradicted=contradicted,
        outcome=_outcome_of(act, state),
        call_id=act.call.id,
        answer=_answer_of(act),
        fields=tuple(one for one in act.fields if one.name != THE_THING),
    )


def _outcome_of(act: AuditedAct, state: State | None) -> str:
    """The outcome's word, or its substitute here: nothing in a recording is verified (rule 4)."""
    if state is None:
        # In a recording no gate stood in the way: a tool that answered refused it itself.
        return Outcome.BLOCKED if act.told is None else Outcome.FAILED
    if state is not State.RECONCILED_SUCCESS:
        return BY_STATE[state]
    if not act.mutating:
        return Outcome.ANSWERED
    return "Reported success (unverified)" if act.states_outcome else "Outcome not stated"


def _answer_of(act: AuditedAct) -> Mapping[str, Any]:
    """The fields of its answer; an answer that is not an object is under `answer`."""
    content = act.told.content if act.told is not None else None
    return content if isinstance(content, Mapping) else {} if content is None else {"answer": content}


def _is_contradicted_whole(act: AuditedAct) -> bool:
    """Return whether the contradiction is about the whole act and not only about single fields."""
    return act.contradicted and {one.name for one in act.differences} <= {THE_THING}


def _text(act: AuditedAct, state: State | None) -> str:
    if _is_contradicted_whole(act):
        thing = act.read_fields.get(THE_THING)
        if thing is None:
            return "A condition of its contract is not true of its answer, or of a later read."
        if thing.asked == "deleted":
            return "A later read shows that it is still there."
        return f"The system was read after it: {thing.shown}."
    if state is None:
        return "The gate would refuse this call." if act.told is None else _TEXTS[State.FAILED]
    if state is State.RECONCILED_SUCCESS and act.mutating and not act.states_outcome:
        return "The tool answered; its answer does not state how it ended."
    return _TEXTS[state]
