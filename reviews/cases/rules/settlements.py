"""The settlement statement: the case, the content of its page, the resolution, and the evidence for it.

A person signs a *statement* (`ledger.people.rules.statements`). Its `covers` names what was on the screen: the payload,
the state, what was found, every piece of evidence by the commitment that the record holds to it, and the newest event
of the action. Its `settlement` names who says what, what that means, what follows, and how they proved who they are.

1. What it covers is read again when it arrives. If anything of it has changed since the page was read, it is refused
   and says so (`CasePageChanged`): nobody settles what they have not seen.
2. Saying what is so (attest, settle as failed, close unresolved, say who did what nobody gated) and ordering a recovery
   need a fresh proof of who it is, as strong as the approval policy asks for this action. Looking again and
   acknowledging need the session alone.
3. A second person signs a statement of their own, over the hash of the first's: the same case, seen as the first saw
   it, and the same consequence. They are another human than the first, whatever their accounts are.
4. What a statement promises of a repeat is said from the event that carries it out (rule 11 of resolutions), and the
   values that a person accepts from the reading that showed them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.people.rules.confirmation import SecondPersonNeeded
from ledger.people.rules.statements import Declaration, StatementForm, coverage_digest
from ledger.record.rules.canonical import canonical
from ledger.record.rules.lifecycle import WORD_BLOCKS_FOR, RepeatBlock
from ledger.record.rules.outcomes import SESSION_ALONE, WORDS, Outcome, is_as_strong, outcome_of_step
from ledger.record.rules.refusals import ProofNeeded, Refused
from reviews.cases.rules.resolutions import (
    CLAIM,
    KINDS,
    LOOKS,
    UNGATED,
    WITHOUT_ACTION,
    HeldAction,
    Resolution,
    changes_repeat,
    needs_second,
    repeat_block_after,
)
from reviews.reconciliation.rules.shown import Shown


class Act(StrEnum):
    """The act of a statement: end the case, propose an end to a second person, or confirm a proposal."""

    SETTLE = "settle"
    PROPOSE = "propose"
    CONFIRM = "confirm"


class CasePageChanged(Refused):
    """The case has changed since you opened this page; reload it. Nothing was recorded."""

    code = "CASE_CHANGED"


class ProposalChanged(Refused):
    """What was proposed rests on less than is known now, or was not signed. Return it; it can be proposed again."""

    code = "PROPOSAL_CHANGED"


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The case as its page shows it. `evidence` are the record's commitments to its evidence, oldest first;
    `record_seq` and `record_hash` name the newest event of the action. A case without an action has neither.
    """

    installation: str
    environment: str
    tenant: str
    case_id: str
    case_reason: str
    action_id: str
    state: str
    contradicted: bool
    discrepancy: str
    payload_hash: str
    payload_commitment: str
    tool: str
    contract_digest: str
    target_resource: str
    side_effect_class: str
    reversibility: str
    evidence: tuple[str, ...]
    record_seq: int
    record_hash: str


@dataclass(frozen=True, kw_only=True)
class Settlement(Declaration):
    """One person's settlement. `by` is their account; `over` is the hash of the statement that a second person
    confirms, else "". `words_commitment` commits to the reason and the evidence that were typed.
    """

    by: str
    act: Act
    resolution: Resolution
    consequence: str
    over: str
    words_commitment: str


SETTLEMENT: Final = StatementForm[Coverage, Settlement](
    domain="counterfoil-settlement-statement",
    version=1,
    name="settlement",
    covers=Coverage,
    declares=Settlement,
)


MEANING: Final[Mapping[Resolution, str]] = {
    Resolution.VERIFY_AGAIN: "I want the system of record read once more. I say nothing about what is so.",
    Resolution.STRONG_READ: "I want the primary system of record read once more. I say nothing about what is so.",
    Resolution.ATTEST_PRESENT: (
        "I have seen this case and its evidence. On my own word, the effect of this action is there."
    ),
    Resolution.ATTEST_ABSENT: (
        "I have seen this case and its evidence. On my own word, the effect of this action is not there."
    ),
    Resolution.ACCEPT: "I have seen this case and its evidence. I accept what is there, which is not as requested: {}.",
    Resolution.FAIL: "I have seen this case and its evidence. I settle the action as failed, without an effect.",
    Resolution.ABANDON: (
        "I have seen this case and its evidence. I close it unresolved: what was found stays as it is."
    ),
    Resolution.COMPENSATE: "I have seen this case and its evidence. I order the action that compensates for it.",
    Resolution.FORWARD_RECOVER: "I have seen this case and its evidence. I order the action that finishes it.",
    Resolution.ROLL_BACK: "I have seen this case and its evidence. I order the action that rolls it back.",
    Resolution.CORRECT: "I have seen this case and its evidence. I propose the action that corrects the difference.",
    Resolution.ACKNOWLEDGE: "I have seen how this ended. I say nothing about what is so.",
}
_ANOTHERS: Final = "Another person has proposed this and I have read what they say; I say the same. "
_UNGATED: Final = "I have found out who made this change and why, as I wrote. No agent made it through this console."
_CLAIM: Final = "I have found out why what was claimed is not what the system of record shows, as I wrote."

_READ: Final[Mapping[Shown, str]] = {
    Shown.AS_REQUESTED: " A reading showed it as requested.",
    Shown.NO_EFFECT: " A reading showed no effect.",
    Shown.DIFFERENT: " A reading showed another effect: {}.",
}
"""What stands beside a person's own word: the decisive reading, where there is one."""

_ENDS: Final[Mapping[Resolution, str]] = {
    Resolution.VERIFY_AGAIN: "The action then waits for this reading.",
    Resolution.STRONG_READ: "The action then waits for this reading of the primary.",
    Resolution.ATTEST_PRESENT: "The action ends as attested by a person, never as verified.",
    Resolution.ATTEST_ABSENT: "The action ends as failed on a person's word.",
    Resolution.ACCEPT: (
        "The action ends as it is and not as requested, accepted by a person. Agents and users are told so."
    ),
    Resolution.FAIL: "The action ends as failed.",
    Resolution.ABANDON: "The action ends unresolved. What it did stays unknown or wrong, and everybody is told so.",
    Resolution.COMPENSATE: "An action is ordered that acts on the real system, once it is allowed to.",
    Resolution.FORWARD_RECOVER: "An action is ordered that acts on the real system, once it is allowed to.",
    Resolution.ROLL_BACK: "An action is ordered that acts on the real system, once it is allowed to.",
    Resolution.CORRECT: (
        "An action is proposed to {}. It passes the gate and its own approval. This case stays open until a reading"
        " confirms that the difference is corrected."
    ),
    Resolution.ACKNOWLEDGE: "The case is closed. The action stays as it is.",
}


_REPEAT: Final = "A repeat (same tool, target and values)"
_REPEATS: Final[Mapping[RepeatBlock | None, str]] = {
    RepeatBlock.OPEN: f" {_REPEAT} is refused until the action is settled.",
    RepeatBlock.CONTRADICTED: f" {_REPEAT} is refused while the contradiction stands.",
    RepeatBlock.DEADLINE: f" {_REPEAT} is possible again as soon as no late effect can come.",
    RepeatBlock.WORD: f" {_REPEAT} is refused for {WORD_BLOCKS_FOR.days} days, from every agent and in every session.",
    None: f" {_REPEAT} is possible again at once.",
}
"""What a statement says of a repeat, by the block that the record has afterwards."""


def declaration(held: HeldAction, resolution: Resolution, act: Act) -> str:
    """The declaration that the signing person makes."""
    said = {UNGATED: _UNGATED, CLAIM: _CLAIM}.get(held, MEANING[resolution])
    if resolution in (Resolution.ATTEST_PRESENT, Resolution.ATTEST_ABSENT):
        said += _READ.get(held.reading.shown, "")
    said = said.format(held.reading.difference)
    return f"{_ANOTHERS}{said}" if act is Act.CONFIRM else said


def describe_consequence(held: HeldAction, resolution: Resolution) -> str:
    """The consequence of a settlement, in words."""
    if held in WITHOUT_ACTION:
        return "The case is closed. No action is changed by it."
    return _describe_end(held, resolution) + _describe_repeat(held, resolution)


def _describe_end(held: HeldAction, resolution: Resolution) -> str:
    if held.contradicted and (resolution in KINDS or resolution is Resolution.ABANDON):
        return _of_doubt(held, resolution)
    if held.lookup and resolution in LOOKS:
        return f"The action is read by the lookup of version {held.lookup}; its own contract names none."
    if held.to_reverse and resolution is Resolution.ABANDON:
        return "This step of the run stays as it is; it is not taken back."
    return _ENDS[resolution].format(held.correction)


def _describe_repeat(held: HeldAction, resolution: Resolution) -> str:
    """Describe the effect on a repeat (rule 4); empty if the resolution does not affect it, or nothing is changed."""
    if held.side_effect_class is SideEffectClass.READ_ONLY or not changes_repeat(held, resolution):
        return ""
    return _REPEATS[repeat_block_after(held, resolution)]


def _of_doubt(held: HeldAction, resolution: Resolution) -> str:
    """Describe the effect on a contradiction, which moves no state (rule 10 of resolutions): withdrawn or upheld."""
    stands = repeat_block_after(held, resolution) is RepeatBlock.CONTRADICTED
    if stands or resolution is Resolution.ABANDON:
        return "The contradiction stands: everybody is told that the final state is not known."
    ends = Outcome.COMPENSATED_AS_ATTESTED if held.taken_back else outcome_of_step(held.state, KINDS[resolution])
    return f"The contradiction is withdrawn on a person's word. The action is told as: {WORDS[ends]}."


def act_of(held: HeldAction, resolution: Resolution) -> Act:
    """The act of the first person: end the case, or propose its end."""
    return Act.PROPOSE if needs_second(held, resolution) else Act.SETTLE


def required_proof(held: HeldAction, resolution: Resolution, *, policy: str) -> str:
    """Return the weakest class of proof that is enough (rule 2); `policy` is the approval policy's requirement for the
    action.
    """
    if held not in WITHOUT_ACTION and resolution not in _WEIGHTY:
        return SESSION_ALONE
    return policy


_WEIGHTY: Final = frozenset(Resolution) - frozenset(LOOKS) - {Resolution.ACKNOWLEDGE}


def check_settlement(now: Coverage, *, seen: str, wanted: str, given: str) -> None:
    """Refuse a settlement that does not count, given on a page that covered `seen` (rules 1 and 2).

    Where the session is enough, nothing is claimed of what was on the screen, and `seen` may be empty.
    """
    is_weighty = wanted != SESSION_ALONE
    if (seen or is_weighty) and seen != coverage_digest(now):
        raise CasePageChanged
    if is_weighty and not is_as_strong(given, wanted):
        raise ProofNeeded(_PROOFS[wanted])


_PROOFS: Final = {
    "A": "The policy asks for a passkey to settle this. Nothing was recorded.",
    "B": "The policy asks for a one-time code, or a passkey, to settle this. Nothing was recorded.",
    "C": "Settling this asks for your password, a one-time code or a passkey. Nothing was recorded.",
}


def check_second(
    first: tuple[Coverage, Settlement], now: Coverage, *, resolution: str, consequence: str, by: str, person: str
) -> None:
    """Refuse a person who may not confirm what the first one signed (rule 3)."""
    covers, said = first
    signed = (said.act, str(said.resolution), said.consequence, said.by)
    if signed != (Act.PROPOSE, resolution, consequence, by) or covers != now:
        raise ProposalChanged
    if said.person == person:
        raise SecondPersonNeeded


def statement(covers: Coverage, said: Settlement, *, held: HeldAction) -> bytes:
    """The canonical text that the person signs."""
    return SETTLEMENT.write(covers, said, meaning=declaration(held, said.resolution, said.act))


def read_statement(data: bytes) -> tuple[Coverage, Settlement]:
    """Read the statement of a settlement."""
    covers, said, _ = SETTLEMENT.read(data)
    return covers, said


def typed_words(reason: str, evidence: list[str]) -> bytes:
    """Return the reason and the evidence as typed, for the commitment in the statement."""
    return canonical({"reason": reason, "evidence": evidence})
