"""Untried: a result that only a tool of the session could have brought about, and that nothing on record has (C-13).

1. "Your replacement has shipped", "the card is blocked now": nobody is named who did it. Where a tool of the session
   does just that to just such a thing, and was never tried, the telling stands for an action that never was.
2. It could be a fact that was read as well: so the words must fit the tool in verb and thing, no reading on record may
   be about a thing that they name, and a condition ("is deleted") or a story ("was applied for") needs that nothing
   was read at all. Nor does it count in a message that tells of something open. A rule, a past time, a reason and a
   report in short tell of no action of the speaker's.
"""

from __future__ import annotations

from dataclasses import replace

from reviews.rules.guard.binding.agreeing import is_open
from reviews.rules.guard.binding.fitting import FITS, SURE, fit
from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.tenses import Tense
from reviews.rules.guard.records import Ground, Tool
from reviews.rules.guard.text.values import held
from reviews.rules.guard.words.vocabulary import vocabulary

CLOSE = SURE + 1
"""A fit of both: what was done, and a thing of the kind it was done to."""
BOTH = SURE + 2
"""A fit of the tool's verb, or of its sense, and of the very things it is for."""


def untried(claim: Claim, ground: Ground) -> Tool | None:
    """The tool that would have brought about what is told, and that was never tried (rules 1 and 2)."""
    enough = _enough(claim, ground)
    if enough is None:
        return None
    meant = replace(claim, verbs=claim.verbs | claim.meaning) if claim.meaning else claim
    tried = {record.tool for record in ground.records}
    scored = [(fit(meant, tool), tool) for tool in ground.tools if tool.disclosed]
    fitting = [(score, tool) for score, tool in scored if tool.mutating and tool.name not in tried]
    best = max((score for score, _ in fitting), default=0)
    if best < enough or any(score >= best for score, tool in scored if tool.name in tried):
        return None
    tool = next(tool for score, tool in fitting if score == best)
    return None if _is_read(claim, tool, ground) else tool


def _enough(claim: Claim, ground: Ground) -> int | None:
    """How well a tool must fit, by the tense in which the result is told; None: it is no such telling (rule 2)."""
    if claim.kind not in {Kind.DONE, Kind.ONGOING} or not claim.follows:
        return None
    if claim.loose or (claim.kind is Kind.ONGOING and any(map(is_open, ground.records))):
        return None
    if claim.tense is Tense.FRESH:
        return FITS if claim.kind is Kind.ONGOING else BOTH
    if claim.rule == "state" and claim.result and claim.tense is Tense.CONDITION:
        return BOTH
    if claim.rule != "was done":
        return None
    if claim.tense is Tense.CONDITION and _ADDS & claim.words:
        return SURE
    return CLOSE if claim.tense in {Tense.CONDITION, Tense.STORY} and not _has_read(ground) else None


_ADDS = frozenset({"too", "well", "also", "likewise"})
"""What is added ("is ordered as well") goes on from what the speaker did."""


def _is_read(claim: Claim, tool: Tool, ground: Ground) -> bool:
    """Whether a reading on record is about the things of the tool that the claim names, or names one that it does."""
    reads = {tool.name: vocabulary(tool) for tool in ground.tools if not tool.mutating}
    things = claim.nouns & vocabulary(tool).nouns
    return any(
        (things or claim.nouns) <= reads[record.tool].nouns
        or claim.nouns & held(record.target, record.arguments, record.evidence).words
        for record in ground.records
        if record.tool in reads
    )


def _has_read(ground: Ground) -> bool:
    return any(record.tool in ground.reading for record in ground.records)
