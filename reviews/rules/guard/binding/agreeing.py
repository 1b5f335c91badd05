"""Agreeing: which of the actions of a tool a claim means, by the values that both name (rules 2 to 4 of `binding`)."""

from __future__ import annotations

import json
from itertools import groupby
from operator import attrgetter

from reviews.rules.guard.binding.bound import Bound
from reviews.rules.guard.binding.particulars import odd
from reviews.rules.guard.binding.relating import holding
from reviews.rules.guard.codes import Kind, Violation, is_settled_well, violation_of
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.states import MENTION
from reviews.rules.guard.records import Record, Tool
from reviews.rules.guard.text.values import compare


def among(claim: Claim, records: list[Record], tool: Tool | None) -> Bound | None:
    """What a claim comes down to among actions of its tool: those that hold most of its values and contradict none."""
    scored = [(record, *agreement(claim, record)) for record in records]
    agreeing = [(record, hits) for record, hits, clashes in scored if not clashes]
    if not agreeing:
        return _elsewhere(claim, [record for record, _, _ in scored], tool)
    most = max(hits for _, hits in agreeing)
    chosen = [record for record, hits in agreeing if hits == most]
    return _settled(claim, chosen, tool)


def _elsewhere(claim: Claim, records: list[Record], tool: Tool | None) -> Bound | None:
    """Every action of the tool holds other values than the claim names."""
    if claim.kind is Kind.FAILED or (claim.rule in {"state", MENTION} and {"was", "were"} & claim.words):
        return None  # What was so before, with values of its own, is a fact.
    if claim.kind is not Kind.DONE:
        return Bound(Violation.PHANTOM, tuple(records[:1]), tool, "What is on record holds other values.")
    good = next((record for record in records if is_settled_well(record)), None)
    if good is not None:
        return Bound(Violation.WRONG_TARGET, (good,), tool, "The success on record is for something else.")
    return Bound(violation_of(claim.kind, records[0]) or Violation.WRONG_TARGET, tuple(records[:1]), tool)


def _settled(claim: Claim, records: list[Record], tool: Tool | None) -> Bound:
    faulty = [record for record in records if violation_of(claim.kind, record) is not None]
    fine = [record for record in records if record not in faulty]
    if not faulty:
        return Bound(None, tuple(records), tool)
    if fine and len({same(record) for record in records}) == 1:
        return Bound(None, tuple(fine), tool)
    if claim.kind is Kind.FAILED and fine:
        return Bound(None, tuple(fine), tool)
    detail = "Several actions on record could be meant, and not all bear it out." if fine else ""
    return Bound(violation_of(claim.kind, faulty[0]), tuple(faulty[:1]) if not fine else tuple(records), tool, detail)


def same(record: Record) -> str:
    """Tries of the same thing have the same tool, target and arguments."""
    return json.dumps([record.tool, record.target, record.arguments], sort_keys=True, default=str)


def is_open(record: Record) -> bool:
    """Whether an action has begun or may still begin."""
    return violation_of(Kind.ONGOING, record) is None and violation_of(Kind.DONE, record) not in SETTLED


SETTLED = frozenset({None, Violation.UNEVIDENCED})
"""What a done-claim about a success may be; the others are open."""


def agreement(claim: Claim, record: Record) -> tuple[int, int]:
    """(values of the claim that the record holds, values that it contradicts)."""
    own = holding(record)
    hits = clashes = 0
    shown = sum(compare(value, own) == 1 for value in claim.values)
    for sort, group in groupby(sorted((*claim.values, *claim.cited), key=attrgetter("sort")), key=attrgetter("sort")):
        compared = [compare(value, own) for value in group]
        hits += compared.count(1)
        if sort not in EITHER or 1 not in compared:
            clashes += compared.count(-1)
    hits += sum(compare(value, own) == 1 for value in claim.hints)
    clashes += odd(claim, record, own, shown)
    if claim.target is not None:
        same = claim.target.lower() in (record.target.lower(), record.target.lower().rpartition("/")[2])
        hits, clashes = hits + same, clashes + (not same)
    return hits, clashes


EITHER = frozenset({"date", "time"})
"""Of several values of these sorts one is enough: a range has an end that the action need not hold."""
