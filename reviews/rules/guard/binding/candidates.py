"""Candidates: the tools that a claim may be about, by its words (rule 1 of `binding`)."""

from __future__ import annotations

from reviews.rules.guard.binding.agreeing import agreement
from reviews.rules.guard.binding.fitting import FITS, fit, verb_score
from reviews.rules.guard.binding.relating import tool_of
from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Ground, Tool
from reviews.rules.guard.words.language import english
from reviews.rules.guard.words.vocabulary import vocabulary


def candidates(claim: Claim, ground: Ground) -> list[Tool]:
    """The tools that fit a claim best; of those that only share its verb, the ones that hold a value of it."""
    if claim.tool is not None:
        tool = tool_of(claim.tool, ground)
        return [tool] if tool else []
    looks = claim.verbs <= english().sets["looks"]
    scored = [(fit(claim, tool), tool) for tool in ground.tools if tool.disclosed and (looks or _may_be(claim, tool))]
    best = max((score for score, _ in scored), default=0)
    if best < FITS and claim.kind is not Kind.PROMISED:
        return [tool for _, tool in scored if _holds(claim, tool, ground)]
    return [tool for score, tool in scored if score == best] if best >= FITS else []


def _may_be(claim: Claim, tool: Tool) -> bool:
    """A tool that only reads is meant where its own verb is said."""
    return tool.mutating or bool(claim.verbs & vocabulary(tool).verbs)


def _holds(claim: Claim, tool: Tool, ground: Ground) -> bool:
    """Whether a tool may be meant by its verb, and one of its actions holds a value that the claim names."""
    if not verb_score(claim.verbs, vocabulary(tool)):
        return False
    return any(agreement(claim, record)[0] for record in ground.records if record.tool == tool.name)
