"""Delegation: when one person may vote with another's power, and for how long.

1. A loan begins and ends, at most thirty days apart; one without an end is no loan.
2. Lent is what the giver has of their own: some of their groups, for some tools or all. What was lent to them they
   cannot lend on, so every loan is one step deep.
3. Nobody lends to themselves through another account, and nobody receives who does not decide here themselves.
4. What a loan is worth is decided at each look at an approval (`operations.standing`): nothing on an action that either
   side requested, nothing beyond the groups that the giver still has, nothing once the giver left (B18, B19).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from ledger.record.rules.refusals import Refused

LONGEST = timedelta(days=30)
EVERYBODY = "reviewers"


class DelegationRefused(Refused):
    """This cannot be delegated like that."""

    code = "DELEGATION_REFUSED"
    status = 422


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The giver or receiver of a delegation, from the roster."""

    actor: str
    person: str
    groups: frozenset[str]
    active: bool


def check_period(starts_at: datetime, ends_at: datetime, *, at: datetime) -> None:
    """Rule 1; an absence is bounded by it as well."""
    if ends_at <= starts_at or ends_at <= at:
        raise DelegationRefused("It must end after it begins, and after now.")
    if ends_at - starts_at > LONGEST:
        raise DelegationRefused("It lasts thirty days at most. Begin another when this one ends.")


def check_delegation(giver: Holder | None, receiver: Holder | None, groups: Collection[str]) -> None:
    """Rules 2 and 3."""
    if giver is None or not giver.active:
        raise DelegationRefused("Only somebody who decides here can delegate.")
    if receiver is None or not receiver.active:
        raise DelegationRefused("Only somebody who decides here can stand in.")
    if giver.person == receiver.person:
        raise DelegationRefused("Both accounts are the same person's.")
    if not groups:
        raise DelegationRefused("Say for which groups.")
    if beyond := sorted(set(groups) - giver.groups - {EVERYBODY}):
        raise DelegationRefused(f"{beyond[0]} is not a group of the person who delegates.")
