"""Costs: lines, totals and sentences from counted facts and the price list. Pure.

1. A fact is priced by the price in force at its own time. A price never applies to what was before it was set, so no
   later change re-prices anything.
2. A price for one agent goes before one for all agents. Of those for the same thing, the one that is valid from the
   latest time applies; one that has ended applies to nothing after its end, and revives none that it replaced.
3. A fact without a price is *not priced*; what nobody reported or the record does not bear out is *not stated*. Neither
   is nought, and neither is in a total.
4. Amounts are exact decimals, and two currencies are never added.
5. The time of a person is that from the claim of an approval or a case to the same person's decision, in minutes begun,
   and at most as long as a claim of an approval lasts. A decision without such a claim has no stated time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, localcontext
from enum import StrEnum
from typing import Final
from uuid import UUID, uuid5

from approvals.requests.rules import assignments
from ledger.catalogue.rules.money import decimal_places

MILLION: Final = 1_000_000
MOST_PRICES: Final = 500
_EXACT: Final = Context(prec=80, traps=[Inexact])
_LINE: Final = UUID("5c3f0d0a-4f9e-5a39-9d4b-0c6a3a1b7e52")
_VOTES: Final = frozenset({"vote_cast", "approved", "rejected", "changes_requested", "break_glass_used"})
_SETTLEMENTS: Final = frozenset({"resolution_proposed", "resolution_declined", "case_resolved", "correction_ordered"})
DECISIONS: Final = _VOTES | _SETTLEMENTS
CLAIMS: Final = frozenset({"approval_claimed", "case_claimed"})
_RELEASES: Final = frozenset({"approval_released", "case_released", "case_assigned", "case_snoozed"})
STRETCHES: Final = DECISIONS | CLAIMS | _RELEASES
"""The kinds of events that tell of the time of people."""


class CostKind(StrEnum):
    """A kind of thing that has a price."""

    READING = "reading"
    MODEL_CALL = "model_call"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"
    VOTE_MINUTE = "vote_minute"
    CASE_MINUTE = "case_minute"


@dataclass(frozen=True)
class _Words:
    """The words for one kind of cost: as a price, as a thing, one of it and several; the units that a price is for; and
    the words for one and several without a stated quantity.
    """

    price: str
    thing: str
    one: str
    many: str
    per: int = 1
    unstated: tuple[str, str] = ("", "")


WORDS: Final[Mapping[CostKind, _Words]] = {
    CostKind.READING: _Words("One reading of a system", "Readings", "reading", "readings"),
    CostKind.MODEL_CALL: _Words("One call of a model", "Model calls", "model call", "model calls"),
    CostKind.INPUT_TOKENS: _Words(
        *("A million input tokens of a model", "Input tokens", "input token", "input tokens", MILLION),
        unstated=("report of a model without its input tokens", "reports of a model without their input tokens"),
    ),
    CostKind.OUTPUT_TOKENS: _Words(
        *("A million output tokens of a model", "Output tokens", "output token", "output tokens", MILLION),
        unstated=("report of a model without its output tokens", "reports of a model without their output tokens"),
    ),
    CostKind.VOTE_MINUTE: _Words(
        *("One minute of a person at an approval", "Minutes at approvals", "minute at an approval"),
        many="minutes at approvals",
        unstated=("vote without a claim", "votes without a claim"),
    ),
    CostKind.CASE_MINUTE: _Words(
        *("One minute of a person at a case", "Minutes at cases", "minute at a case"),
        many="minutes at cases",
        unstated=("decision on a case without a claim", "decisions on cases without a claim"),
    ),
}
NAMELESS: Final = frozenset({CostKind.VOTE_MINUTE, CostKind.CASE_MINUTE})
"""Kinds that are of no system and no model."""


@dataclass(frozen=True, kw_only=True)
class CostFact:
    """Something that happened and may have a price: `quantity` of it, and `unstated` of which nobody stated how much.

    `about` is the system or the model; empty is not stated. `agent` is empty for what no agent caused.
    """

    kind: CostKind
    about: str
    agent: str
    at: datetime
    quantity: int = 0
    unstated: int = 0


@dataclass(frozen=True, kw_only=True)
class PriceTerms:
    """A price: the amount of `currency` for one unit (of tokens a million), paid by `payer`, from a time on.

    `about` is a system or a model; empty is any. `agent` is the agent that it is for; empty is every agent.
    """

    kind: CostKind
    about: str
    agent: str
    amount: Decimal
    currency: str
    payer: str
    valid_from: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class CostLine:
    """The quantity of one thing for one agent under one price; `price` is None where it is not priced."""

    id: UUID
    kind: CostKind
    about: str
    agent: str
    price: PriceTerms | None
    quantity: int
    unstated: int

    @property
    def amount(self) -> Decimal | None:
        """The exact cost; None where it is not priced, or where no quantity is stated."""
        if self.price is None or self.is_unstated:
            return None
        with localcontext(_EXACT):
            return self.price.amount * self.quantity / WORDS[self.kind].per

    @property
    def is_unstated(self) -> bool:
        """True if nothing of its quantity is stated."""
        return self.unstated > 0 and self.quantity == 0

    @property
    def payer(self) -> str:
        return self.price.payer if self.price else ""

    @property
    def currency(self) -> str:
        return self.price.currency if self.price else ""


@dataclass(frozen=True, slots=True)
class WorkEvent:
    """One event of an approval or a case, for the time of people."""

    subject: UUID
    subject_kind: str
    kind: str
    actor: UUID
    at: datetime
    agent: str


def human_minutes(events: Iterable[WorkEvent], *, since: datetime, until: datetime) -> list[CostFact]:
    """The minutes of people at the decisions in [since, until), from the events of each subject in order (rule 5)."""
    found: list[CostFact] = []
    claims: dict[UUID, tuple[UUID, datetime]] = {}
    for each in events:
        claimed = claims.get(each.subject)
        if each.kind in CLAIMS:
            # Who claims again goes on from the first time: a claim is renewed to keep it.
            claims[each.subject] = claimed if claimed and claimed[0] == each.actor else (each.actor, each.at)
        elif each.kind in _RELEASES:
            claims.pop(each.subject, None)
        elif each.kind in DECISIONS:
            own = claims.pop(each.subject)[1] if claimed and claimed[0] == each.actor else None
            if since <= each.at < until:
                found.append(_decision_fact(each, own))
    return found


def _decision_fact(event: WorkEvent, claimed_at: datetime | None) -> CostFact:
    kind = CostKind.CASE_MINUTE if event.subject_kind == "case" else CostKind.VOTE_MINUTE
    minutes = 0
    if claimed_at is not None:
        taken = min(max(event.at - claimed_at, timedelta(0)), assignments.LIFE)
        minutes = max(-(-taken // timedelta(minutes=1)), 1)
    unstated = int(claimed_at is None)
    return CostFact(kind=kind, about="", agent=event.agent, at=event.at, quantity=minutes, unstated=unstated)


def price_in_force(prices: Sequence[PriceTerms], fact: CostFact) -> PriceTerms | None:
    """The price of a fact (rules 1 and 2); a later one of the same time, as the list has them, goes before."""
    for agent in dict.fromkeys((fact.agent, "")):
        for about in dict.fromkeys((fact.about, "")):
            valid = [
                each
                for each in prices
                if (each.kind, each.about, each.agent) == (fact.kind, about, agent) and each.valid_from <= fact.at
            ]
            if valid:
                newest = max(reversed(valid), key=lambda each: each.valid_from)
                if newest.ended_at is None or newest.ended_at > fact.at:
                    return newest
    return None


def cost_lines(facts: Iterable[CostFact], prices: Sequence[PriceTerms]) -> list[CostLine]:
    """Price each fact and sum what is of one kind, thing, agent and price; what is priced first, by payer."""
    counted: dict[tuple[CostKind, str, str, PriceTerms | None], tuple[int, int]] = {}
    for fact in facts:
        key = (fact.kind, fact.about, fact.agent, price_in_force(prices, fact))
        quantity, unstated = counted.get(key, (0, 0))
        counted[key] = quantity + fact.quantity, unstated + fact.unstated
    lines = [
        CostLine(
            id=uuid5(_LINE, f"{kind}|{about}|{agent}|{price}"),
            kind=kind,
            about=about,
            agent=agent,
            price=price,
            quantity=quantity,
            unstated=unstated,
        )
        for (kind, about, agent, price), (quantity, unstated) in counted.items()
    ]
    order = {kind: number for number, kind in enumerate(CostKind)}
    return sorted(lines, key=lambda it: (it.price is None, it.payer, order[it.kind], it.about, it.agent, str(it.id)))


def totals(lines: Iterable[CostLine], by: Callable[[CostLine], str] = lambda _: "") -> dict[str, dict[str, Decimal]]:
    """The exact cost by currency, of each group of lines, both in the order of their names (rule 4)."""
    found: dict[str, dict[str, Decimal]] = {}
    with localcontext(_EXACT):
        for each in lines:
            amount = each.amount
            if amount is not None:
                group = found.setdefault(by(each), {})
                group[each.currency] = group.get(each.currency, Decimal(0)) + amount
    return {name: dict(sorted(found[name].items())) for name in sorted(found)}


@dataclass(frozen=True, kw_only=True)
class BudgetTerms:
    """The limit of a calendar month's costs in one currency; people are told at `share` percent of it and past it."""

    amount: Decimal
    currency: str
    share: int


class BudgetLevel(StrEnum):
    """The part of a budget that a month has used, in rising order."""

    BELOW = ""
    SHARE = "SHARE"
    PASSED = "PASSED"


def budget_level(terms: BudgetTerms, spent: Decimal) -> BudgetLevel:
    """The level of a budget: exactly used up is not past it."""
    with localcontext(_EXACT):
        if spent > terms.amount:
            return BudgetLevel.PASSED
        return BudgetLevel.SHARE if spent * 100 >= terms.amount * terms.share else BudgetLevel.BELOW


def describe_budget(terms: BudgetTerms) -> str:
    """The terms of a budget in a sentence."""
    return f"{format_amount(terms.amount, terms.currency)} a month; a notice at {terms.share} % of it and past it."


def describe_level(terms: BudgetTerms, spent: Decimal, month: datetime) -> str:
    """The sentence that people are notified with."""
    of = f"the budget of {format_amount(terms.amount, terms.currency)} for {month_name(month)}"
    used = format_amount(spent, terms.currency)
    if budget_level(terms, spent) is BudgetLevel.PASSED:
        return f"{used} of priced costs exceed {of} by {_excess(terms, spent)}."
    return f"{used} of priced costs are {terms.share} % or more of {of}."


def describe_month(
    lines: Sequence[CostLine], budgets: Sequence[BudgetTerms], *, month: datetime, is_over: bool
) -> list[str]:
    """The cost of the month, its payers, and the rest of each budget, in sentences (rule 3)."""
    when = month_name(month) + ("" if is_over else " so far")
    if not lines:
        said = [f"Nothing that could have a price is on record for {when}."]
    else:
        total = totals(lines).get("", {})
        said = [f"Priced costs of {when}: {_amounts(total)}." if total else f"No cost of {when} is priced."]
        by_payer = totals(lines, lambda each: each.payer)
        payers = [f"{payer} pays {_amounts(amounts)}" for payer, amounts in by_payer.items()]
        said += [f"{'; '.join(payers)}."] if payers else []
    spent = totals(lines).get("", {})
    said += [_budget_sentence(each, spent.get(each.currency, Decimal(0)), is_over=is_over) for each in budgets]
    without = [currency for currency in spent if all(each.currency != currency for each in budgets)]
    if without:
        said.append(f"There is no budget in {_join_words(without)}.")
    return [*said, *_gaps(lines)]


def _budget_sentence(terms: BudgetTerms, spent: Decimal, *, is_over: bool) -> str:
    of = f"the monthly budget of {format_amount(terms.amount, terms.currency)}"
    if budget_level(terms, spent) is BudgetLevel.PASSED:
        return f"That is {_excess(terms, spent)} more than {of}."
    with localcontext(_EXACT):
        left = format_amount(terms.amount - spent, terms.currency)
    return f"{left} of {of} {'was' if is_over else 'is'} left."


def _excess(terms: BudgetTerms, spent: Decimal) -> str:
    with localcontext(_EXACT):
        return format_amount(spent - terms.amount, terms.currency)


def _gaps(lines: Sequence[CostLine]) -> list[str]:
    """The gaps of the totals: the things without a price, and those without a stated quantity."""
    unpriced: dict[CostKind, int] = {}
    unstated: dict[CostKind, int] = {}
    for each in lines:
        unstated[each.kind] = unstated.get(each.kind, 0) + each.unstated
        if each.price is None:
            unpriced[each.kind] = unpriced.get(each.kind, 0) + each.quantity
    said = []
    if missing := [count_words(kind, count) for kind, count in unpriced.items() if count]:
        said.append(f"Not priced: {_join_words(missing)}.")
    if missing := [f"{n:,} {WORDS[kind].unstated[n != 1]}" for kind, n in unstated.items() if n]:
        said.append(f"Not stated: {_join_words(missing)}.")
    return said


def count_words(kind: CostKind, count: int) -> str:
    """A quantity in words."""
    return f"{count:,} {WORDS[kind].one if count == 1 else WORDS[kind].many}"


def _join_words(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _amounts(by_currency: Mapping[str, Decimal]) -> str:
    return _join_words([format_amount(amount, currency) for currency, amount in by_currency.items()])


def format_decimal(amount: Decimal, currency: str) -> str:
    """An exact amount: all of its digits, and at least the decimal places of its currency."""
    whole, _, part = f"{amount:f}".partition(".")
    part = part.rstrip("0").ljust(decimal_places(currency), "0")
    return f"{whole}.{part}" if part else whole


def format_amount(amount: Decimal, currency: str) -> str:
    """An exact amount as a person reads it."""
    whole, _, part = format_decimal(amount, currency).partition(".")
    return f"{int(whole):,}{'.' + part if part else ''} {currency}"


def month_start(at: datetime) -> datetime:
    """The first moment of the month of a time, in UTC."""
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(month: datetime) -> datetime:
    """The first moment of the month after one that begins then."""
    return month_start(month + timedelta(days=32))


def month_name(month: datetime) -> str:
    return f"{month:%B %Y}"
