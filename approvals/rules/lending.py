"""When one person may decide with another's power (delegation), and how long.

1. A loan begins and ends, at most thirty days apart; one without an end is no loan.
2. Lent is what the giver has of their own: some of their groups, for some tools or all. What was lent to them they
   cannot lend on, so every loan is one step deep.
3. Nobody lends to themselves through another account, and nobody receives who does not decide here themselves.
4. At the vote: nothing is lent to the person on whose request the action runs, and nothing by them, whichever account
   either uses (B19). The giver must still be an approver then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from ledger.rules.refusals import Refused

LONGEST = timedelta(days=30)
EVERYBODY = "reviewers"


class LoanRefused(Refused):
    """This cannot be delegated like that."""

    code = "DELEGATION_REFUSED"
    status = 422


@dataclass(frozen=True, kw_only=True)
class Holder:
    """One side of a loan as the roster knows it."""

    actor: str
    person: str
    groups: frozenset[str]
    active: bool


@dataclass(frozen=True, kw_only=True)
class Loan:
    """What is lent: these groups, for these tools (none named is all)."""

    giver: Holder
    groups: frozenset[str]
    tools: frozenset[str]


def check_span(starts_at: datetime, ends_at: datetime, *, at: datetime) -> None:
    """Rule 1; an absence is bounded by it as well."""
    if ends_at <= starts_at or ends_at <= at:
        raise LoanRefused("It must end after it begins, and after now.")
    if ends_at - starts_at > LONGEST:
        raise LoanRefused("It lasts thirty days at most. Begin another when this one ends.")


def check_loan(giver: Holder | None, receiver: Holder | None, groups: Collection[str]) -> None:
    """Rules 2 and 3."""
    if giver is None or not giver.active:
        raise LoanRefused("Only somebody who decides here can delegate.")
    if receiver is None or not receiver.active:
        raise LoanRefused("Only somebody who decides here can stand in.")
    if giver.person == receiver.person:
        raise LoanRefused("Both accounts are the same person's.")
    if not groups:
        raise LoanRefused("Say for which groups.")
    if beyond := sorted(set(groups) - giver.groups - {EVERYBODY}):
        raise LoanRefused(f"{beyond[0]} is not a group of the person who delegates.")


def usable(
    loans: Collection[Loan], *, receiver: Holder, tool: str, requesters: Collection[str]
) -> dict[str, frozenset[str]]:
    """Whose power the receiver may vote with on one action, and for which of their groups (rule 4).

    `requesters` are the people on whose request the action runs. The groups are those that the giver still has.
    """
    if not receiver.active or receiver.person in requesters:
        return {}
    found: dict[str, frozenset[str]] = {}
    for loan in loans:
        giver = loan.giver
        fits = not loan.tools or tool in loan.tools
        if not fits or not giver.active or giver.person in requesters or giver.person == receiver.person:
            continue
        held = loan.groups & (giver.groups | {EVERYBODY})
        if held:
            found[giver.person] = found.get(giver.person, frozenset()) | held | {EVERYBODY}
    return found
