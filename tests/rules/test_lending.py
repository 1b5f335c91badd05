"""Lending the power to decide: how long, what, to whom, and what it is worth at a vote."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.rules.lending import Holder, Loan, LoanRefused, check_loan, check_span, usable

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def holder(name: str, *groups: str, person: str = "", active: bool = True) -> Holder:
    return Holder(actor=name, person=person or name, groups=frozenset(groups), active=active)


ADA, BEN, CYD = holder("ada", "finance"), holder("ben", "legal"), holder("cyd")


def loan(giver: Holder = ADA, *groups: str, tools: str = "") -> Loan:
    return Loan(giver=giver, groups=frozenset(groups or {"finance"}), tools=frozenset(tools.split()))


def test_thirty_days_and_not_a_second_more():
    check_span(NOW, NOW + 30 * DAY, at=NOW)
    for starts, ends in (
        (NOW, NOW + 30 * DAY + timedelta(seconds=1)),
        (NOW, NOW),
        (NOW + DAY, NOW),
        (NOW - 2 * DAY, NOW - DAY),
    ):
        with pytest.raises(LoanRefused):
            check_span(starts, ends, at=NOW)


def test_only_what_is_ones_own_can_be_lent():
    check_loan(ADA, BEN, ["finance"])
    check_loan(ADA, BEN, ["reviewers"])
    for groups in ([], ["legal"], ["finance", "legal"]):
        with pytest.raises(LoanRefused):
            check_loan(ADA, BEN, groups)


def test_what_was_lent_cannot_be_lent_on():
    """Depth one: Ben decides for finance by Ada's loan, which gives him no group that he could lend to Cyd."""
    assert usable([loan()], receiver=BEN, tool="pay", requesters=[]) == {"ada": {"finance", "reviewers"}}
    with pytest.raises(LoanRefused):
        check_loan(BEN, CYD, ["finance"])
    through = usable([loan(BEN, "finance")], receiver=CYD, tool="pay", requesters=[])
    assert "finance" not in through.get("ben", set())


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
def test_who_decides_not_neither_lends_nor_receives(giver, receiver):
    with pytest.raises(LoanRefused):
        check_loan(giver, receiver, ["finance"])


@pytest.mark.req("R-AP-12")
def test_nothing_is_lent_to_the_requester_or_by_them():
    """B19: neither through a second account, nor by lending one's own request to a friend."""
    assert usable([loan()], receiver=BEN, tool="pay", requesters=["ben"]) == {}
    assert usable([loan()], receiver=BEN, tool="pay", requesters=["ada"]) == {}
    assert usable([loan()], receiver=replace(BEN, actor="ben-2"), tool="pay", requesters=["ben"]) == {}


def test_a_giver_who_left_or_lost_the_group_lends_nothing():
    """B18, at the vote."""
    assert usable([loan(replace(ADA, active=False))], receiver=BEN, tool="pay", requesters=[]) == {}
    lost = usable([loan(replace(ADA, groups=frozenset({"legal"})))], receiver=BEN, tool="pay", requesters=[])
    assert lost == {}


def test_a_loan_for_some_tools_is_for_those_alone():
    lent = [loan(tools="pay refund")]
    assert usable(lent, receiver=BEN, tool="refund", requesters=[])
    assert usable(lent, receiver=BEN, tool="delete", requesters=[]) == {}


@given(
    st.lists(st.sampled_from(["ada", "ben", "cyd", "dan"]), max_size=6),
    st.sets(st.sampled_from(["ada", "ben", "cyd", "dan"])),
)
def test_no_power_is_ever_of_a_requester_of_the_receiver_or_of_nobody(givers, requesters):
    found = usable([loan(holder(each, "finance")) for each in givers], receiver=BEN, tool="x", requesters=requesters)
    assert set(found) <= set(givers) - requesters - {"ben"}
    assert "ben" not in requesters or found == {}
