"""What becomes of open approvals when the policy or the people change, and when nobody is left to decide."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from approvals import tasks
from approvals.models import Delegation
from approvals.requests.queries import approvals
from approvals.voting.operations import approvers
from approvals.voting.queries import votes
from ledger.db import tenancy
from tests.support.api_tenant import Clock, Workshop
from tests.web.approvals.test_policies import NOW, TWO, actor_of, kinds, refused, reviewer, row_of, set_policy


def leave(shop: Workshop, name: str) -> None:
    with tenancy(shop.tenant):
        approvers.remove_approver(tenant_id=shop.tenant, actor_id=actor_of(shop, name), at=NOW)


def regroup(shop: Workshop, name: str, *groups: str) -> None:
    actor = actor_of(shop, name)
    with tenancy(shop.tenant):
        approvers.add_approver(tenant_id=shop.tenant, actor_id=actor, person_id=actor, groups=groups, at=NOW)


def granted(shop: Workshop, *, by: Any) -> str:
    """An action that this person approved."""
    action_id = shop.propose()
    assert shop.vote(shop.approval_of(action_id), by=by).status_code == 201
    assert row_of(shop, action_id).state == "APPROVED"
    return action_id


# The policy changes


@pytest.mark.req("R-AP-09")
def test_open_approvals_follow_a_tightened_policy(shop: Workshop, clock: Clock):
    """B17, B20: tightened after one vote; the vote does not count under the new policy."""
    action_id = shop.propose()
    before = shop.approval_of(action_id)
    set_policy(shop, **TWO)
    assert refused(shop.vote(before)) == (409, "POLICY_CHANGED")
    tasks.lapse()
    tasks.lapse()

    row = row_of(shop, action_id)
    assert str(row.id) != before["approval_id"]
    assert (row.state, row.policy_version, row.terms["thresholds"][0]["count"]) == ("REQUESTED", "2", 2)
    with tenancy(shop.tenant):
        old = approvals.approval(shop.tenant, UUID(before["approval_id"]))
    assert old is not None
    assert old.state == "VOIDED"


@pytest.mark.req("R-AP-09")
def test_a_policy_tightened_after_the_vote_prevents_the_release(shop: Workshop):
    """B17: between vote and mint."""
    action_id = granted(shop, by=shop.reviewer)
    set_policy(shop, **TWO)

    assert shop.claim() == []
    assert row_of(shop, action_id).state == "REQUESTED"


@pytest.mark.req("R-AP-09")
def test_a_policy_tightened_after_the_grant_prevents_the_start(shop: Workshop):
    """B17: between mint and redemption."""
    order = shop.claimed()
    set_policy(shop, **TWO)

    assert refused(shop.start(order)) == (409, "POLICY_CHANGED")
    assert row_of(shop, order["action_id"]).state == "REQUESTED"
    assert shop.claim() == []


def test_a_policy_may_void_the_requests_made_under_it(shop: Workshop, clock: Clock):
    set_policy(shop, on_change="void")
    action_id = shop.propose()
    set_policy(shop, "3", **TWO)
    tasks.lapse()
    tasks.lapse()

    assert row_of(shop, action_id).state == "VOIDED"
    last = shop.history(action_id)[-1]
    assert (last["state"], last["detail"]["code"]) == ("FAILED", "APPROVAL_VOIDED")


def test_an_action_refused_by_a_new_policy_ends_and_its_agent_is_notified(shop: Workshop):
    action_id = granted(shop, by=shop.reviewer)
    set_policy(shop, rules=[{"name": "never", "outcome": "refuse", "reason": "Nothing is deleted any more."}])

    assert shop.claim() == []
    last = shop.history(action_id)[-1]
    assert (last["state"], last["detail"]["reason"]) == ("FAILED", "Nothing is deleted any more.")


# The people change


@pytest.mark.req("R-AP-24")
@pytest.mark.parametrize("how", ["disabled", "group"])
@pytest.mark.parametrize("when", ["vote", "mint"])
def test_votes_of_people_who_lost_their_rights_do_not_count(shop: Workshop, how: str, when: str):
    """B18: disabled, or out of the group, between vote and mint, and between mint and redemption."""
    set_policy(shop, thresholds=[{"group": "finance", "count": 1}])
    action_id = granted(shop, by=reviewer(shop, "fay@orchid", "finance"))
    order = shop.claim()[0] if when == "mint" else None
    leave(shop, "fay@orchid") if how == "disabled" else regroup(shop, "fay@orchid", "sales")

    if order is not None:
        assert refused(shop.start(order)) == (409, "VOTES_FALLEN")
    assert shop.claim() == []
    assert row_of(shop, action_id).state == "REQUESTED"


def test_a_vote_that_lost_its_validity_is_missing_again_and_the_others_remain(shop: Workshop, clock: Clock):
    """B18: while the request is still open."""
    set_policy(shop, **TWO)
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    shop.vote(approval, by=reviewer(shop, "bob@orchid"))
    leave(shop, "bob@orchid")

    assert shop.vote(approval).status_code == 201
    assert row_of(shop, action_id).state == "REQUESTED"
    assert shop.vote(approval, by=reviewer(shop, "cat@orchid")).status_code == 201
    assert row_of(shop, action_id).state == "APPROVED"


def test_a_vote_by_a_withdrawn_delegation_does_not_count(shop: Workshop):
    """B18, B20: a delegate votes with the giver's power, and it is taken back before the claim."""
    set_policy(shop, thresholds=[{"group": "finance", "count": 1}])
    reviewer(shop, "fay@orchid", "finance")
    bob = reviewer(shop, "bob@orchid")
    with tenancy(shop.tenant):
        lent = Delegation.objects.create(
            tenant_id=shop.tenant,
            id=shop.tenant,
            from_actor=actor_of(shop, "fay@orchid"),
            to_actor=actor_of(shop, "bob@orchid"),
            groups=["finance"],
            starts_at=NOW.replace(year=2020),
            ends_at=NOW.replace(year=2100),
            reason="On leave.",
            created_by=actor_of(shop, "fay@orchid"),
        )
    action_id = granted(shop, by=bob)
    with tenancy(shop.tenant):
        vote = votes.votes_of(shop.tenant, row_of(shop, action_id).id)[0]
        assert vote.delegated_by == actor_of(shop, "fay@orchid")
        Delegation.objects.filter(tenant_id=shop.tenant, id=lent.id).update(ended_at=NOW)

    assert shop.claim() == []
    assert row_of(shop, action_id).state == "REQUESTED"


# Nobody is left


def test_an_approval_without_an_eligible_reviewer_says_so_until_there_is_one(shop: Workshop, clock: Clock):
    set_policy(shop, thresholds=[{"group": "finance", "count": 2}])
    action_id = shop.propose()
    reviewer(shop, "fay@orchid", "finance")
    clock.forward(seconds=60)
    tasks.lapse()
    tasks.lapse()
    row = row_of(shop, action_id)
    assert (row.state, row.stranded_at is not None) == ("REQUESTED", True)
    assert "no_eligible_approver" in kinds(shop, row)

    reviewer(shop, "fin@orchid", "finance")
    clock.forward(seconds=60)
    tasks.lapse()
    tasks.lapse()
    row = row_of(shop, action_id)
    assert row.stranded_at is None
    assert kinds(shop, row)[-1] == "eligible_approver_found"

    # Disabled users are not counted.
    leave(shop, "fin@orchid")
    clock.forward(seconds=60)
    tasks.lapse()
    tasks.lapse()
    assert row_of(shop, action_id).stranded_at is not None
    assert row_of(shop, action_id).state == "REQUESTED"


# Hours


def test_outside_its_hours_a_request_can_be_approved_but_not_released(shop: Workshop, clock: Clock):
    at = clock.now()
    soon, later = (at.hour + 2) % 24, (at.hour + 3) % 24
    set_policy(shop, hours={"from": f"{soon:02}:00", "to": f"{later:02}:00"}, release_within_s=600)
    action_id = granted(shop, by=shop.reviewer)
    row = row_of(shop, action_id)
    assert shop.claim() == []
    ready = shop.executor.get("/executions/ready?tools=delete_document").json()["items"]
    assert "hours" in ready[0]["waiting_for"]
    assert row.release_by is not None
    assert (row.release_by.hour, row.release_by.minute) == (soon, 10)


def test_the_page_and_the_api_list_missing_votes_and_eligible_reviewers(shop: Workshop):
    document = {"thresholds": [{"group": "reviewers", "count": 2}]}
    assert shop.operator_key.release("approval", {"version": "two", "document": document}).status_code == 201
    shop.person("reviewer", name="berta@orchid")
    approval = shop.approval_of(shop.propose())
    path = f"/t/{shop.slug}/approvals/{approval['approval_id']}"
    assert (len(approval["quorum"]["may_vote"]), approval["quorum"]["stranded"]) == (2, False)
    assert shop.vote(approval).status_code == 201
    after = shop.reviewer.get(f"/approvals/{approval['approval_id']}").json()
    (threshold,) = after["quorum"]["thresholds"]
    assert (threshold["votes"], threshold["count"], after["may_vote"]) == (1, 2, False)
    page = shop.reviewer.client.get(path).content.decode()
    assert "1 of 2, 1 missing" in page
    assert "Eligible reviewers: Berta." in page
    assert "You have already voted on this request" in page


def test_page_home_and_api_report_that_no_reviewer_is_eligible(shop: Workshop, clock: Clock):
    document = {"thresholds": [{"group": "finance", "count": 1}]}
    assert shop.operator_key.release("approval", {"version": "none", "document": document}).status_code == 201
    approval = shop.approval_of(shop.propose())
    assert approval["quorum"]["stranded"] is True
    client = shop.reviewer.client
    page = client.get(f"/t/{shop.slug}/approvals/{approval['approval_id']}").content.decode()
    assert "No eligible approver" in page
    clock.forward(seconds=11)
    tasks.lapse()
    assert "1 request without an eligible approver:" in client.get(f"/t/{shop.slug}/").content.decode()
