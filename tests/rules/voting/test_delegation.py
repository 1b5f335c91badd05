"""Lending the power to decide: how long, what, and to whom."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from approvals.voting.rules.delegation import DelegationRefused, Holder, check_delegation, check_period

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def holder(name: str, *groups: str, person: str = "", active: bool = True) -> Holder:
    return Holder(actor=name, person=person or name, groups=frozenset(groups), active=active)


ADA, BEN, CYD = holder("ada", "finance"), holder("ben", "legal"), holder("cyd")


def test_a_delegation_lasts_at_most_thirty_days():
    check_period(NOW, NOW + 30 * DAY, at=NOW)
    for starts, ends in (
        (NOW, NOW + 30 * DAY + timedelta(seconds=1)),
        (NOW, NOW),
        (NOW + DAY, NOW),
        (NOW - 2 * DAY, NOW - DAY),
    ):
        with pytest.raises(DelegationRefused):
            check_period(starts, ends, at=NOW)


def test_only_own_rights_can_be_delegated():
    check_delegation(ADA, BEN, ["finance"])
    check_delegation(ADA, BEN, ["reviewers"])
    for groups in ([], ["legal"], ["finance", "legal"]):
        with pytest.raises(DelegationRefused):
            check_delegation(ADA, BEN, groups)


def test_a_delegation_cannot_be_delegated_further():
    """Depth one: Ben decides for finance by Ada's loan, which gives him no group that he could lend to Cyd."""
    with pytest.raises(DelegationRefused):
        check_delegation(BEN, CYD, ["finance"])


@pytest.mark.req("R-AP-11")
@pytest.mark.parametrize(
    ("giver", "receiver"),
    [
        (None, BEN),
        (ADA, None),
        (replace(ADA, active=False), BEN),
        (ADA, replace(BEN, active=False)),
        (ADA, holder("ada-2", person="ada")),
    ],
    ids=["no giver", "no receiver", "giver left", "receiver left", "both one person"],
)
def test_people_without_the_right_to_decide_neither_give_nor_receive_a_delegation(giver, receiver):
    with pytest.raises(DelegationRefused):
        check_delegation(giver, receiver, ["finance"])
