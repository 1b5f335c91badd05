"""The autonomy policy: what an agent may propose, and how much of it (R-TC-16; the gate's rules 11 and 13).

| field | means |
|---|---|
| boundary | `disclosed_tools`: nothing beyond the session's contract, the one there is |
| outside | what lies outside: each entry names agents, tools or classes, and a condition (CEL over the facts) |
| budgets | what there is of calls, money and readings, per agent and hour or day, or per session |
| session | after how many seconds without a call a session's pin is over (`quiet_s`; 600) |
| watch | from when on an agent's calls are worth a look (`acceptance`), a session's tries of what it lacks among them |

1. A call lies outside when an entry covers it and its condition holds. A condition that cannot be told (a missing
   argument, an error) counts as one that holds: what cannot be checked does not pass.
2. A budget covers the calls of its agents, tools and classes; what is left out covers all. It is charged when a call is
   accepted, and given back by nothing: a proposal that people then reject has still been made.
3. `calls` counts calls. `readings` counts what verification costs at least: each source once, again for each later
   re-verification, and once before people are asked where the contract wants that. Polling adds to it; what a tenant's
   readings may cost altogether is the verification policy's.
4. `money` adds up an argument, found by its path (`/amount`, `/lines/*/amount`), by currency. An integer counts the
   smallest unit, a decimal text is read exactly. What cannot be read exactly, is negative, or is in a currency that
   has no sum of its own, is refused: there is no budget for it.
5. Hours and days are those of UTC. A budget keeps its name over versions, and with it what was used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from approvals.agents.rules import acceptance
from approvals.agents.rules.acceptance import FlagThresholds
from approvals.gate.rules.malformed import Malformed
from approvals.policy.rules import autonomy_document, policy_facts
from approvals.policy.rules.policy_facts import Facts
from approvals.sessions.rules.pins import QUIET
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.expressions import Expression, Truth, evaluate, view
from ledger.catalogue.rules.policies import BadPolicy
from ledger.record.rules.canonical import parse as read

OUTSIDE = "OUTSIDE_AUTONOMY"
EXCEEDED = "BUDGET_EXCEEDED"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The calls that an entry covers; an empty list covers all."""

    agents: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()

    def covers(self, contract: Contract, agent: str) -> bool:
        """Return whether a call of this tool by this agent is covered."""
        wanted = ((self.agents, agent), (self.tools, contract.name), (self.classes, str(contract.side_effect_class)))
        return all(not chosen or one in chosen for chosen, one in wanted)


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """One entry of the policy's `outside` list."""

    name: str
    scope: Scope
    when: Expression | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class MoneyBudget:
    """The path of an amount in the arguments, its currency, and the limit of each."""

    amount: str
    currency: str
    fixed: str
    most: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A limit for the calls that it covers; `within` is empty if it lasts as long as the session."""

    name: str
    per: str
    within: str
    scope: Scope
    calls: int | None
    readings: int | None
    money: MoneyBudget | None


@dataclass(frozen=True, kw_only=True)
class AutonomyPolicy:
    """A version of the autonomy policy."""

    version: str
    outside: tuple[Exclusion, ...]
    budgets: tuple[Budget, ...]
    watch: FlagThresholds
    quiet: timedelta


@dataclass(frozen=True, kw_only=True, order=True)
class Charge:
    """The charge of one call to one budget: holder, unit, amount, start of the window, and limit."""

    holder: str
    budget: str
    unit: str
    window_from: datetime
    amount: int
    most: int


def parse(document: Mapping[str, Any]) -> AutonomyPolicy:
    """The policy in a document, or `BadAutonomy` with every fault."""
    plain = dict(document)
    if found := autonomy_document.faults(plain):
        raise BadPolicy("The autonomy policy is not valid.", errors=found)
    return AutonomyPolicy(
        version=plain.get("version", ""),
        outside=tuple(_outside(each) for each in plain.get("outside", ())),
        budgets=tuple(_budget(each) for each in plain.get("budgets", ())),
        watch=acceptance.flag_thresholds(plain.get("watch", {})),
        quiet=timedelta(seconds=plain.get("session", {}).get("quiet_s", QUIET.total_seconds())),
    )


@lru_cache(maxsize=256)
def load_stored(data: bytes) -> AutonomyPolicy:
    """Return the policy in the bytes of a released version, cached because versions never change."""
    return parse(read(data))


def check_boundary(policy: AutonomyPolicy, contract: Contract, known: Facts) -> Malformed | None:
    """The refusal of a call outside the boundary (rule 1), or None for one inside."""
    covering = [each for each in policy.outside if each.scope.covers(contract, known.agent.get("id", ""))]
    if not covering:
        return None
    shown = view(policy_facts.bindings(contract, known))
    for each in covering:
        truth = Truth.TRUE if each.when is None else evaluate(each.when, shown).truth
        if truth is not Truth.FALSE:
            unclear = "" if truth is Truth.TRUE else " (it could not be told whether its condition holds)"
            error = {"path": "", "code": OUTSIDE, "detail": f"{each.name}{unclear}"}
            hint = "Do not repeat the call: the autonomy policy in force does not let an agent make it."
            return Malformed(OUTSIDE, each.reason or "The call lies outside the boundary.", hint, None, (error,))
    return None


def charges(
    policy: AutonomyPolicy, contract: Contract, known: Facts, *, session: str
) -> tuple[Charge, ...] | Malformed:
    """The charge of a call to each budget that covers it (rules 2 to 5), or why none could be charged."""
    found: list[Charge] = []
    agent = known.agent.get("id", "")
    for budget in policy.budgets:
        if not budget.scope.covers(contract, agent):
            continue
        holder = f"session:{session}" if budget.per == "session" else f"agent:{agent}"
        since = _window(budget.within, known.at)
        amounts = _amounts(budget, contract, known.args)
        if isinstance(amounts, str):
            return refuse_budget(budget.name, amounts)
        found += [
            Charge(holder=holder, budget=budget.name, unit=unit, window_from=since, amount=taken, most=most)
            for unit, taken, most in amounts
        ]
    return tuple(sorted(found))


def refuse_charge(charge: Charge) -> Malformed:
    """The refusal of a call that exceeds the rest of a budget."""
    return refuse_budget(charge.budget, f"there are {charge.most} {_unit(charge.unit)}, and this call would need more")


def refuse_budget(name: str, detail: str) -> Malformed:
    """The refusal by one budget."""
    error = {"path": "", "code": EXCEEDED, "detail": f"{name}: {detail}"}
    message = f"The budget `{name}` does not cover this call: {detail}."
    hint = "Do not repeat the call; tell the user, or wait until the budget starts again."
    return Malformed(EXCEEDED, message, hint, None, (error,))


def reading_cost(contract: Contract) -> int:
    """Return the minimum number of readings for verifying one call (rule 3)."""
    if contract.verification is None:
        return 0
    sources = 1 + len(contract.verification.further)
    return sources * (1 + len(contract.verification.recheck_after)) + contract.preparation.wanted


def _amounts(budget: Budget, contract: Contract, args: Mapping[str, Any]) -> list[tuple[str, int, int]] | str:
    """Return (unit, used, maximum) for each limit of a budget, or the reason why it cannot be determined."""
    found = []
    if budget.calls is not None:
        found.append(("calls", 1, budget.calls))
    if budget.readings is not None:
        found.append(("readings", reading_cost(contract), budget.readings))
    if budget.money is None:
        return found
    worth = _worth(budget.money, args)
    if isinstance(worth, str):
        return worth
    currency, minor = worth
    return [*found, (currency, minor, budget.money.most[currency])]


def _worth(money: MoneyBudget, args: Mapping[str, Any]) -> tuple[str, int] | str:
    currencies = {money.fixed} if money.fixed else {str(each) for each in _values_at(args, money.currency)}
    if len(currencies) != 1:
        return f"it cannot be told in which currency `{money.currency}` is"
    code = currencies.pop().upper()
    if code not in money.most:
        return "there is none for this currency"
    parts = [policy_facts.money_amount({"amount": each, "currency": code}) for each in _values_at(args, money.amount)]
    if not parts or any("minor" not in each or each["minor"] < 0 for each in parts):
        return f"`{money.amount}` is no amount of money"
    return code, sum(each["minor"] for each in parts)


def _values_at(value: Any, path: str) -> Iterator[Any]:
    """Every value at a path; `*` matches each item of a list."""
    name, _, rest = path.removeprefix("/").partition("/")
    if not path:
        yield value
    elif name == "*" and isinstance(value, list):
        for each in value:
            yield from _values_at(each, f"/{rest}" if rest else "")
    elif isinstance(value, Mapping) and name in value:
        yield from _values_at(value[name], f"/{rest}" if rest else "")
    elif name != "*":
        # What is not there is no amount, and is not passed over among others.
        yield None


def _window(within: str, at: datetime) -> datetime:
    if not within:
        return datetime(1970, 1, 1, tzinfo=UTC)
    hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return hour.replace(hour=0) if within == "day" else hour


def _unit(unit: str) -> str:
    return unit if unit in ("calls", "readings") else f"of the smallest unit of {unit}"


def _scope(said: Mapping[str, Any]) -> Scope:
    names = ("agents", "tools", "side_effect_classes")
    agents, tools, classes = (frozenset(said.get(name, ())) for name in names)
    return Scope(agents=agents, tools=tools, classes=classes)


def _outside(said: Mapping[str, Any]) -> Exclusion:
    when = policy_facts.compile_condition(said["when"]) if "when" in said else None
    return Exclusion(name=said["name"], scope=_scope(said), when=when, reason=said.get("reason", ""))


def _budget(said: Mapping[str, Any]) -> Budget:
    money = said.get("money")
    return Budget(
        name=said["name"],
        per=said["per"],
        within=said.get("within", ""),
        scope=_scope(said),
        calls=said.get("calls"),
        readings=said.get("readings"),
        money=None
        if money is None
        else MoneyBudget(
            amount=money["amount"], currency=money.get("currency", ""), fixed=money.get("in", ""), most=money["most"]
        ),
    )
