"""Reviewer quality: what is counted, what counts as wrong, and who may be named."""

from __future__ import annotations

import pytest

from approvals.voting.rules.quality import DIMENSIONS, VoteFacts, quality_reports


def vote(voter: str = "ann", **changes: object) -> VoteFacts:
    base = {
        "rule": "IRREVERSIBLE",
        "agent": "support",
        "tool": "issue_refund",
        "verdict": "approve",
        "payload_bytes": 400,
        "served_s": 60.0,
        "visible_s": 50.0,
        "opened": 2,
        "state": "RECONCILED_SUCCESS",
    }
    return VoteFacts(voter=voter, **(base | changes))


def figures(votes, *, privacy="team", may_name=False, me="", by=("rule",)):
    return quality_reports(votes, privacy=privacy, may_name=may_name, me=me, by=by)


TEAM = [vote("ann"), vote("bob"), vote("cem"), vote("ann"), vote("bob")]


def test_with_quality_metrics_off_there_are_none():
    assert figures(TEAM, privacy="off", may_name=True, by=DIMENSIONS) == ()


@pytest.mark.parametrize(
    ("votes", "shown"),
    [
        (TEAM, 1),
        (TEAM[:4], 0),
        ([vote("ann"), vote("bob")] * 10, 0),
        ([vote("ann")] * 50, 0),
    ],
)
def test_a_group_small_enough_to_identify_people_is_withheld(votes, shown):
    [report] = figures(votes)
    assert (len(report.rows), report.withheld) == (shown, 1 - shown)


def test_team_figures_identify_nobody_even_to_an_administrator():
    [report] = figures(TEAM * 10, may_name=True, by=("reviewer",))
    assert (report.rows, report.withheld) == ((), 3)


def test_personal_figures_are_shown_to_administrators_and_to_the_person():
    [everybody] = figures(TEAM, privacy="person", may_name=True, by=("reviewer",))
    assert [row.name for row in everybody.rows] == ["ann", "bob", "cem"]
    [mine] = figures(TEAM, privacy="person", me="bob", by=("reviewer",))
    assert ([row.name for row in mine.rows], mine.withheld) == (["bob"], 2)
    [rule] = figures(TEAM[:2], privacy="person", me="bob")
    assert rule.rows == ()


def test_shares_of_quick_blind_and_wrong_votes_are_computed():
    votes = [
        vote("ann", served_s=2.0, opened=0, state="ROLLED_BACK"),
        vote("bob", served_s=None, visible_s=None, opened=None, state="EXECUTING"),
        vote("cem", verdict="reject", state="FAILED"),
        vote("ann", contradicted=True),
        vote("bob"),
    ]
    [report] = figures(votes)
    [row] = report.rows
    assert (row.votes, row.people, row.rejected) == (5, 3, 0.2)
    assert row.served_median_s == 60.0
    assert (row.quick, row.blind) == (0.25, 0.25)
    assert (row.settled, row.wrong) == (3, 0.6667)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, False),
        ({"state": "RECONCILIATION_FAILED"}, True),
        ({"state": "COMPENSATED"}, True),
        ({"contradicted": True}, True),
        ({"state": "UNKNOWN"}, None),
        ({"state": "PENDING"}, None),
        ({"state": "FAILED"}, None),
        ({"verdict": "reject", "state": "FAILED"}, None),
    ],
)
def test_an_unsettled_vote_is_neither_right_nor_wrong(changes, wrong):
    assert vote(**changes).wrong is wrong


@pytest.mark.parametrize(
    ("size", "served_s", "quick"), [(100, 4.9, True), (100, 5, False), (8000, 100, True), (8000, 200, False)]
)
def test_a_vote_faster_than_reading_counts_as_quick(size, served_s, quick):
    assert vote(payload_bytes=size, served_s=served_s).quick is quick
