"""Sums: a claim about all that was asked for needs every step to be borne out (R-CG-10)."""

from __future__ import annotations

import re

from reviews.rules.guard.binding.agreeing import is_open, same
from reviews.rules.guard.binding.bound import Bound
from reviews.rules.guard.binding.relating import has_read
from reviews.rules.guard.codes import Kind, Violation, is_settled_well, violation_of
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Ground, Record
from reviews.rules.guard.words.language import english


def whole(claim: Claim, ground: Ground) -> Bound | None:
    """A claim about all that was asked for: every step that changes something must be borne out (R-CG-10)."""
    steps = steps_of(ground)
    if not steps:
        if claim.rule in {"state", "was done", "went through"} and not claim.agency and has_read(ground):
            return None
        return Bound(Violation.PHANTOM, detail="Nothing has been attempted.")
    if claim.kind is Kind.ONGOING:
        return None if any(map(is_open, steps)) else Bound(Violation.MISREAD, tuple(steps[-1:]))
    tries: dict[str, list[Record]] = {}
    for record in steps:
        tries.setdefault(same(record), []).append(record)
    left = [each[-1] for each in tries.values() if not any(map(is_settled_well, each))]
    if not left and _count(claim) > len({same(record) for record in ground.records}):
        return Bound(Violation.SILENT_CHAIN, tuple(steps[-1:]), detail="More is said to be done than was tried.")
    if not left:
        return Bound(None, tuple(steps))
    if len(tries) == 1:
        return Bound(violation_of(Kind.DONE, left[0]), tuple(left))
    return Bound(Violation.SILENT_CHAIN, tuple(left), detail="Not every step is done.")


def _count(claim: Claim) -> int:
    """How many things are said to be done: "all three steps", "both"."""
    if "both" in claim.words:
        return 2
    found = _ALL_OF.search(claim.quote.lower())
    return int(english().data["reading"]["numbers"].get(found[1], found[1])) if found else 0


_ALL_OF = re.compile(
    r"\ball (?:of )?(?:the |your )?(two|three|four|five|six|seven|eight|nine|ten|[2-9])"
    r" (?:things|steps|points|items|tasks|changes|actions|parts|jobs|requests|orders)\b"
)


def steps_of(ground: Ground) -> list[Record]:
    """What changes something, and the readings and runs that did not come to their end."""
    return [
        each for each in ground.records if each.tool not in ground.reading or not (is_settled_well(each) or each.stale)
    ]
