from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.policy.rules import allowed_hours
from approvals.voting.rules import quorum
from approvals.voting.rules.quorum import ApprovalTerms, Ballot, Threshold

TWO = ApprovalTerms(thresholds=(Threshold(group="reviewers", count=2),))
FINANCE_AND_LEGAL = ApprovalTerms(thresholds=(Threshold(group="finance"), Threshold(group="legal")))


def vote(person, verdict="approve", *, groups=(), proof="C", account="", lent_by=""):
    return Ballot(
        voter=account or f"{person}-account",
        person=person,
        groups=frozenset(groups),
        verdict=verdict,
        evidence_class=proof,
        delegated_by=lent_by,
    )


def test_without_votes_a_request_is_open():
    assert quorum.tally_votes(ApprovalTerms(), []).state == "open"
    assert quorum.tally_votes(TWO, []).missing == {"reviewers": 2}


@pytest.mark.req("R-AP-03")
def test_two_people_count_as_two_votes():
    tally = quorum.tally_votes(TWO, [vote("ann"), vote("bob")])

    assert tally.state == "approved"
    assert [each.person for each in tally.deciding] == ["ann", "bob"]


def test_two_accounts_of_one_person_count_as_one_vote():
    """B19, B20: a second account of the same human changes nothing."""
    tally = quorum.tally_votes(TWO, [vote("ann"), vote("ann", account="ann-2")])

    assert tally.state == "open"
    assert tally.missing == {"reviewers": 1}


def test_one_person_in_two_groups_counts_as_one_vote():
    """B20: who is in finance and in legal fills one place of the two."""
    tally = quorum.tally_votes(FINANCE_AND_LEGAL, [vote("ann", groups=["finance", "legal"])])

    assert tally.state == "open"
    assert sum(tally.missing.values()) == 1


@pytest.mark.parametrize("order", [1, -1])
def test_a_person_in_two_groups_fills_the_place_that_completes_the_quorum(order):
    votes = [vote("ann", groups=["finance", "legal"]), vote("bob", groups=["finance"])][::order]

    assert quorum.tally_votes(FINANCE_AND_LEGAL, votes).state == "approved"


def test_a_vote_of_another_group_does_not_count():
    tally = quorum.tally_votes(FINANCE_AND_LEGAL, [vote("ann", groups=["finance"]), vote("bob", groups=["sales"])])

    assert tally.missing == {"legal": 1}


def test_one_rejection_ends_the_request_despite_approvals():
    tally = quorum.tally_votes(ApprovalTerms(), [vote("ann"), vote("bob", "reject")])

    assert (tally.state, tally.code) == ("rejected", "REJECTED")
    assert [each.person for each in tally.deciding] == ["bob"]


def test_a_request_for_changes_ends_the_request_with_its_own_code():
    assert quorum.tally_votes(ApprovalTerms(), [vote("bob", "request_changes")]).code == "CHANGES_REQUESTED"


def test_a_policy_may_require_more_than_one_rejection():
    patient = ApprovalTerms(thresholds=(Threshold(group="reviewers", count=2, deny=2),))

    assert quorum.tally_votes(patient, [vote("ann", "reject")]).state == "open"
    assert quorum.tally_votes(patient, [vote("ann", "reject"), vote("ann", "reject", account="ann-2")]).state == "open"
    assert quorum.tally_votes(patient, [vote("ann", "reject"), vote("bob", "request_changes")]).code == "REJECTED"


def test_a_stored_deny_count_of_zero_means_one():
    """A threshold whose denial was stored as 0 would otherwise end every request, or none."""
    odd = ApprovalTerms(thresholds=(Threshold(group="reviewers", deny=0),))

    assert quorum.tally_votes(odd, []).state == "open"
    assert quorum.tally_votes(odd, [vote("ann", "reject")]).state == "rejected"


def test_an_approval_and_a_rejection_of_one_person_count_as_a_rejection():
    patient = ApprovalTerms(thresholds=(Threshold(group="reviewers", count=1, deny=2),))

    assert quorum.tally_votes(patient, [vote("ann"), vote("ann", "reject", account="ann-2")]).state == "open"


def test_a_rejection_from_outside_the_groups_does_not_count():
    tally = quorum.tally_votes(FINANCE_AND_LEGAL, [vote("eve", "reject", groups=["sales"])])

    assert tally.state == "open"


def test_a_proof_weaker_than_the_terms_require_does_not_count():
    strict = replace(TWO, step_up="A")

    assert quorum.tally_votes(strict, [vote("ann", proof="A"), vote("bob", proof="B")]).missing == {"reviewers": 1}
    assert quorum.tally_votes(strict, [vote("ann", proof="A"), vote("bob", proof="A")]).state == "approved"


def test_a_rejection_requires_no_strong_proof():
    assert quorum.tally_votes(replace(TWO, step_up="A"), [vote("bob", "reject", proof="-")]).state == "rejected"


def test_delegated_power_counts_once():
    """B20: a delegate does not add to the vote of who lent the power, and two delegates share one power."""
    assert quorum.tally_votes(TWO, [vote("ann"), vote("bob", lent_by="ann")]).state == "open"
    assert quorum.tally_votes(TWO, [vote("bob", lent_by="ann"), vote("cat", lent_by="ann")]).state == "open"
    assert quorum.tally_votes(TWO, [vote("bob", lent_by="ann"), vote("cat")]).state == "approved"


def test_votes_beyond_the_quorum_change_nothing():
    tally = quorum.tally_votes(ApprovalTerms(), [vote("ann"), vote("bob")])

    assert tally.state == "approved"
    assert len(tally.deciding) == 1


def test_terms_without_thresholds_are_never_met():
    assert quorum.tally_votes(ApprovalTerms(thresholds=()), [vote("ann")]).state == "open"


# Who may not decide


@pytest.mark.req("R-AP-12")
@pytest.mark.parametrize("independence", [frozenset(), frozenset(quorum.INDEPENDENCE)])
def test_the_requester_is_always_barred_from_voting(independence):
    """B19: the requester is barred under every policy."""
    assert quorum.barred_people(ApprovalTerms(independence=independence), {"requester": ["ann"]}) == {
        "ann": "requester"
    }


@pytest.mark.parametrize("role", [each for each in quorum.INDEPENDENCE if each != "requester"])
def test_the_policy_bars_people_with_a_conflict_of_interest(role):
    """B19: agent's owner, delegator, editor and author of the policy."""
    assert quorum.barred_people(ApprovalTerms(independence=frozenset({role})), {role: ["ann"]}) == {"ann": role}
    assert quorum.barred_people(ApprovalTerms(independence=frozenset()), {role: ["ann"]}) == {}


# Whether anybody can decide


def test_a_quorum_that_can_no_longer_be_reached_is_reported():
    assert quorum.best_case_tally(TWO, [], []).state == "open"
    assert quorum.best_case_tally(TWO, [], [vote("ann")]).state == "open"
    assert quorum.best_case_tally(TWO, [vote("bob")], [vote("ann")]).state == "approved"
    assert quorum.best_case_tally(TWO, [vote("ann")], [vote("ann", account="ann-2")]).state == "open"


# Keeping terms


def test_stored_terms_are_read_back():
    terms = ApprovalTerms(
        thresholds=(Threshold(group="finance", count=2, deny=3),),
        independence=frozenset({"requester", "editor"}),
        step_up="A",
        decide_within_s=60,
        release_within_s=30,
        hours=(allowed_hours.read({"from": "09:00", "to": "17:00"}),),
        wait_for_seal=False,
        on_change="void",
        batchable=True,
        rules=("large",),
    )

    assert quorum.read_terms(terms.document()) == terms


def test_stored_requests_without_terms_require_one_reviewer():
    assert quorum.read_terms({}) == ApprovalTerms()


@st.composite
def ballots(draw):
    people = draw(st.lists(st.sampled_from("abcdef"), max_size=8))
    groups = st.frozensets(st.sampled_from(["finance", "legal"]))
    verdicts = st.sampled_from(["approve", "approve", "approve", "reject"])
    return [
        vote(person, draw(verdicts), groups=draw(groups), account=f"{person}{number}")
        for number, person in enumerate(people)
    ]


@given(ballots(), st.integers(1, 3), st.integers(1, 3))
def test_an_approval_always_rests_on_as_many_people_as_required(votes, finance, legal):
    """B20, whatever the votes: distinct people, each in a group that was asked, none of them against it."""
    terms = ApprovalTerms(thresholds=(Threshold(group="finance", count=finance), Threshold(group="legal", count=legal)))
    tally = quorum.tally_votes(terms, votes)
    against = {each.person for each in votes if each.verdict != "approve"}

    if tally.state == "approved":
        people = [each.person for each in tally.deciding]
        assert len(people) == len(set(people)) == finance + legal
        assert not against & set(people)
        assert all(each.groups for each in tally.deciding)
    assert quorum.tally_votes(terms, votes).state == quorum.tally_votes(terms, votes[::-1]).state


@given(ballots(), ballots())
def test_additional_approvals_never_undo_a_rejection(votes, more):
    terms = ApprovalTerms(thresholds=(Threshold(group="finance", count=2, deny=2), Threshold(group="legal")))
    agreeing = [each for each in more if each.verdict == "approve"]

    if quorum.tally_votes(terms, votes).state == "rejected":
        assert quorum.tally_votes(terms, [*votes, *agreeing]).state == "rejected"
