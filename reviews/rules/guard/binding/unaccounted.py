"""Unaccounted: results that have come about, and that nothing on record accounts for (C-13, R-CG-09).

1. "Has been sent", "has gone back to your card": the present perfect tells what has come about, at no named time. Said
   to the user of an agent, it is a report of work, whether the doer is named or not; so is what was done "by us".
2. A reading accounts for no change: what only a reading on record could bear is not borne out.
3. Where a tool does what is told, it is a phantom; where none does, it is imagined if it was done "by us", and may be
   a fact that was read if not. Nothing is concluded where an action on record may be meant. A reason, a condition, a
   rule of the house and what others did are no report.
"""

from __future__ import annotations

from reviews.rules.guard.binding.fitting import FITS, fit, verb_score
from reviews.rules.guard.binding.relating import RELATED, holding, related, tool_of
from reviews.rules.guard.codes import Kind, is_settled_well
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.text.values import compare
from reviews.rules.guard.words.language import english
from reviews.rules.guard.words.vocabulary import vocabulary


def is_reported(claim: Claim) -> bool:
    """Whether it tells a result of the speaker's work (rule 1)."""
    if claim.kind is not Kind.DONE or claim.whole or claim.state or not claim.verbs:
        return False
    sets = english().sets
    if claim.verbs <= sets["looks"] | sets["inert"] or claim.words & sets["policy"]:
        return False
    return claim.perfect or claim.ours


def bears_nothing(records: tuple[Record, ...], ground: Ground) -> bool:
    """Whether these are readings only (rule 2)."""
    return all(record.tool in ground.reading for record in records)


def missing(claim: Claim, ground: Ground) -> tuple[Tool | None, bool]:
    """The tool that would have brought it about, if any, and whether an action on record may be meant (rule 3).

    Of an action without a good end much may be told: why it has none, and what came of it.
    """
    scored = [(fit(claim, tool), tool) for tool in ground.tools if tool.mutating and tool.disclosed]
    best = max((score for score, _ in scored), default=0)
    tool = next((each for score, each in scored if score == best), None) if best >= FITS else None
    changes = [each for each in ground.records if each.tool not in ground.reading]
    about = not all(map(is_settled_well, changes)) or any(_is_meant(claim, each, ground) for each in changes)
    return tool, about


def _is_meant(claim: Claim, record: Record, ground: Ground) -> bool:
    """Whether an action may be meant: it shares the verb, or a value, and something else."""
    tool = tool_of(record.tool, ground)
    same = tool is None or verb_score(claim.verbs, vocabulary(tool)) > 0
    own = holding(record)
    named = any(value.sort != "number" and compare(value, own) == 1 for value in claim.values)
    return (same or named) and related(claim, record, ground) >= RELATED
