"""The completion guard: whether a message may go out, and what may go out in its place (R-CG-01 to R-CG-22).

1. Claims come as fields (`stated`) or from an extractor (`extra`). Each is bound to what is on record
   (`binding`), and judged by its state (`codes`): what nothing bears out is a violation.
2. One violation blocks the message. A block always carries a corrected text (C-60): it tells what the record holds in
   the place of what it does not bear out, keeps the rest, and is itself allowed.
3. The verdict follows from the message and the record alone; the model is never asked (R-CG-16). The same input gives
   the same verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from reviews.rules.guard.binding import Bound, bind
from reviews.rules.guard.claims import Claim
from reviews.rules.guard.codes import TAGS, Kind
from reviews.rules.guard.codes import Violation as Code
from reviews.rules.guard.correction import corrected
from reviews.rules.guard.records import Ground, Stated
from reviews.rules.guard.values import values


@dataclass(frozen=True)
class Violation:
    """A claim that the record does not bear out; `rule` names the rule that found it."""

    code: str
    span: tuple[int, int]
    claim: str
    action_id: str | None
    detail: str
    rule: str

    @property
    def tag(self) -> str:
        """Its part of the taxonomy of five (R-CG-20)."""
        return TAGS[Code(self.code)]


@dataclass(frozen=True)
class Found:
    """A claim that was found, violated or not; `kind` is done, ongoing, promised or failed, `code` empty where fine."""

    span: tuple[int, int]
    quote: str
    kind: str
    action_ids: tuple[str, ...] = ()
    code: str = ""
    rule: str = "extractor"


@dataclass(frozen=True)
class Verdict:
    """ALLOW or BLOCK; a block has violations and a corrected text."""

    verdict: str
    violations: tuple[Violation, ...] = ()
    corrected: str | None = None
    claims: tuple[Found, ...] = ()


def judge(message: str, ground: Ground, stated: tuple[Stated, ...] = (), *, extra: tuple[Found, ...] = ()) -> Verdict:
    """Judge one outgoing message (rules 1 to 3)."""
    judged = _judged(message, ground, stated, extra)
    found = tuple(_found(claim, bound) for claim, bound in judged)
    violated = [(claim, bound) for claim, bound in judged if bound.code is not None]
    if not violated:
        return Verdict("ALLOW", claims=found)
    return Verdict(
        "BLOCK",
        tuple(_violation(claim, bound) for claim, bound in violated),
        corrected(message, violated, ground, lambda text: _violated(text, ground)),
        found,
    )


def _judged(
    message: str, ground: Ground, stated: tuple[Stated, ...], extra: tuple[Found, ...]
) -> list[tuple[Claim, Bound]]:
    claims = [*(_extracted(each, message) for each in extra), *(_stated(each, message) for each in stated)]
    return [(claim, bind(claim, ground)) for claim in claims]


def _violated(text: str, ground: Ground) -> list[tuple[Claim, Bound]]:
    return [(claim, bound) for claim, bound in _judged(text, ground, (), ()) if bound.code is not None]


def _stated(claim: Stated, message: str) -> Claim:
    """A structured claim; one that the message does not say stands at its end."""
    start = message.find(claim.statement) if claim.statement else -1
    span = (start, start + len(claim.statement)) if start >= 0 else (len(message), len(message))
    return Claim(
        *span,
        quote=claim.statement,
        kind=Kind.DONE,
        rule="stated",
        values=values(claim.statement.lower()),
        tool=claim.tool,
        action_id=claim.action_id,
        target=claim.target,
    )


def _extracted(found: Found, message: str) -> Claim:
    start, end = max(0, found.span[0]), min(len(message), found.span[1])
    return Claim(start, end, message[start:end], Kind(found.kind), found.rule or "extractor")


def _found(claim: Claim, bound: Bound) -> Found:
    return Found(
        (claim.start, claim.end),
        claim.quote,
        str(claim.kind),
        tuple(record.action_id for record in bound.records),
        str(bound.code or ""),
        claim.rule,
    )


def _violation(claim: Claim, bound: Bound) -> Violation:
    assert bound.code is not None
    action_id = bound.records[0].action_id if bound.records else None
    detail = bound.detail or next((record.text for record in bound.records), "")
    return Violation(str(bound.code), (claim.start, claim.end), claim.quote, action_id, detail, claim.rule)
