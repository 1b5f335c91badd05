"""Beyond the manifest: what fits no tool is about all that was done, or about something that no tool here can do."""

from __future__ import annotations

from reviews.rules.guard.binding.agreeing import among, is_open
from reviews.rules.guard.binding.bound import Bound, no_tool
from reviews.rules.guard.binding.fitting import kin_of
from reviews.rules.guard.binding.imagined import is_no_act, is_said_by_the_speaker, meant_by
from reviews.rules.guard.binding.relating import has_read, holding, tool_of
from reviews.rules.guard.binding.sums import whole
from reviews.rules.guard.binding.weak import weak
from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Ground, Tool
from reviews.rules.guard.words.language import english
from reviews.rules.guard.words.vocabulary import vocabulary


def unknown(claim: Claim, ground: Ground) -> Bound | None:
    """No tool does what the claim says: it is about all that was done, or about something that nothing here can do."""
    language = english()
    if claim.kind is Kind.ONGOING and any(map(is_open, ground.records)):
        return None
    if claim.verbs <= language.sets["generic"]:
        if claim.kind is Kind.PROMISED:
            return imagined(claim, ground)
        if claim.kind is Kind.DONE and claim.agency and _is_of_strange_things(claim, ground):
            return no_tool()
        summed = is_said_by_the_speaker(claim, has_read(ground))
        return weak(claim, ground) or (whole(claim, ground) if summed else None)
    if claim.verbs <= language.sets["requests"] and any(map(is_open, ground.records)):
        return None
    if not is_said_by_the_speaker(claim, has_read(ground)):
        return None
    if claim.verbs <= language.sets["looks"] and has_read(ground) and not language.sets["teams"] & claim.words:
        return None
    return _imagined_or_meant(claim, ground)


def _is_of_strange_things(claim: Claim, ground: Ground) -> bool:
    """ "I set a reminder": a thing that no tool here is for, and no action on record holds."""
    language = english()
    known = {noun for noun in claim.nouns if noun in language.kin}
    if not known:
        return False
    own = [vocabulary(tool) for tool in ground.tools if tool.disclosed]
    if any(known & (each.nouns | each.loose | each.verbs) or kin_of(known, language) & each.kin for each in own):
        return False
    return not any(known & holding(record).words for record in ground.records)


def _imagined_or_meant(claim: Claim, ground: Ground) -> Bound | None:
    """What fits no tool: an action that it names in other words, if any, else something that no tool can do."""
    named = meant_by(claim, ground) if claim.kind is not Kind.PROMISED else []
    if named and claim.kind is Kind.ONGOING:
        return None
    if named:
        return among(claim, named, tool_of(named[0].tool, ground))
    return None if is_no_act(claim) else no_tool()


def is_about(claim: Claim, tools: list[Tool]) -> bool:
    """Whether a claim names a thing, or a kind of thing, that one of these tools is for."""
    own = [vocabulary(tool) for tool in tools]
    return any(claim.nouns & (each.nouns | each.verbs) or kin_of(claim.nouns, english()) & each.kin for each in own)


def imagined(claim: Claim, ground: Ground) -> Bound | None:
    """A promise in general words ("get you a table") is about the things that it names."""
    language = english()
    if claim.verbs <= language.sets["arranges"]:
        named = [vocabulary(tool) for tool in ground.tools if tool.disclosed]
        return None if any(claim.nouns & (own.nouns | own.loose) for own in named) else no_tool()
    known = {noun for noun in claim.nouns if noun in language.kin or language.lemmas(noun) == {noun}}
    if not known or any(kin_of(known, language) & vocabulary(tool).kin for tool in ground.tools if tool.disclosed):
        return None
    return no_tool()
