"""Policies over HTTP: who is asked, how many of them it takes, who may not decide, and what a call is refused for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from approvals.models import Agent, Approval, Session
from approvals.voting.operations import approvers
from console.models import Membership
from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.record.queries import events
from tests.support.api_tenant import Workshop
from tests.support.callers import Api

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def set_policy(shop: Workshop, version: str = "2", **document: Any) -> Any:
    return shop.operator_key.release("approval", {"version": version, "document": document})


def actor_of(shop: Workshop, name: str) -> UUID:
    return Membership.objects.get(tenant_id=shop.tenant, user__username=name).actor_id


def reviewer(shop: Workshop, name: str, *groups: str, person: UUID | None = None) -> Api:
    """One more reviewer, in these groups; `person` is the human behind the account."""
    caller = shop.person("reviewer", name=name)
    actor = actor_of(shop, name)
    with tenancy(shop.tenant):
        approvers.add_approver(tenant_id=shop.tenant, actor_id=actor, person_id=person or actor, groups=groups, at=NOW)
    return caller


def row_of(shop: Workshop, action_id: str) -> Approval:
    with tenancy(shop.tenant):
        return Approval.objects.filter(tenant_id=shop.tenant, action_id=UUID(action_id)).order_by("-id")[0]


def kinds(shop: Workshop, approval: Approval) -> list[str]:
    with tenancy(shop.tenant):
        return [event.kind for event, _, _ in events.history(shop.tenant, approval.id)]


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


TWO = {"thresholds": [{"group": "reviewers", "count": 2}]}


def test_an_approval_waits_until_enough_people_agree(shop: Workshop):
    assert set_policy(shop, **TWO).status_code == 201
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    assert shop.vote(approval).status_code == 201
    assert row_of(shop, action_id).state == "REQUESTED"
    assert shop.claim() == []

    assert shop.vote(approval, by=reviewer(shop, "bob@orchid")).status_code == 201
    row = row_of(shop, action_id)
    assert row.state == "APPROVED"
    assert kinds(shop, row) == ["approval_requested", "vote_cast", "approved"]
    names = shop.history(action_id)[-1]["entry"]["approval"]["approver_id"].split(", ")
    assert len(set(names)) == 2


def test_one_person_with_two_accounts_is_one_vote(shop: Workshop):
    """B19, B20: the second account of the same human cannot vote at all."""
    set_policy(shop, **TWO)
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    ann = uuid4()
    first, second = (reviewer(shop, f"ann-{number}@orchid", person=ann) for number in (1, 2))

    assert shop.vote(approval, by=first).status_code == 201
    assert refused(shop.vote(approval, by=second)) == (409, "ALREADY_VOTED")
    assert refused(shop.vote(approval, by=first)) == (409, "ALREADY_VOTED")
    assert row_of(shop, action_id).state == "REQUESTED"


def test_two_roles_of_one_person_do_not_make_two_votes(shop: Workshop):
    """B20: finance and legal are two people, even if one is in both."""
    set_policy(shop, thresholds=[{"group": "finance", "count": 1}, {"group": "legal", "count": 1}])
    action_id = shop.propose()
    approval = shop.approval_of(action_id)

    assert shop.vote(approval, by=reviewer(shop, "both@orchid", "finance", "legal")).status_code == 201
    assert row_of(shop, action_id).state == "REQUESTED"
    assert shop.vote(approval, by=reviewer(shop, "fay@orchid", "finance")).status_code == 201
    row = row_of(shop, action_id)
    assert row.state == "APPROVED"
    assert kinds(shop, row) == ["approval_requested", "vote_cast", "threshold_met", "approved"]


def test_a_reviewer_outside_the_required_group_cannot_vote(shop: Workshop):
    set_policy(shop, thresholds=[{"group": "finance", "count": 1}])

    assert refused(shop.vote(shop.approval_of(shop.propose()))) == (403, "NOT_ASKED")


@pytest.mark.req("R-AP-17")
def test_one_rejection_ends_the_request_despite_earlier_approvals(shop: Workshop):
    """B21: an approval and then a rejection, under a policy that wants two."""
    set_policy(shop, **TWO)
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    shop.vote(approval)
    against = shop.vote(approval, by=reviewer(shop, "bob@orchid"), verdict="reject", reason="Not this one.")

    assert against.status_code == 201
    assert shop.state(action_id) == "FAILED"
    assert row_of(shop, action_id).state == "REJECTED"
    assert refused(shop.vote(approval, by=reviewer(shop, "cat@orchid"))) == (409, "ALREADY_DECIDED")


def test_a_policy_may_require_two_rejections(shop: Workshop):
    set_policy(shop, thresholds=[{"group": "reviewers", "count": 1, "deny": 2}])
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    shop.vote(approval, verdict="reject", reason="No.")

    assert row_of(shop, action_id).state == "REQUESTED"
    assert shop.vote(approval, by=reviewer(shop, "bob@orchid")).status_code == 201
    assert row_of(shop, action_id).state == "APPROVED"


# Who may not decide


def stake(shop: Workshop, action_id: str, role: str, actor: UUID) -> None:
    """Give somebody a stake in an action, as it would have come about."""
    with tenancy(shop.tenant):
        row = row_of(shop, action_id)
        action = actions.action(shop.tenant, row.action_id)
        assert action is not None
        if role == "requester":
            Approval.objects.filter(tenant_id=shop.tenant, id=row.id).update(requester=actor)
        elif role == "editor":
            Approval.objects.filter(tenant_id=shop.tenant, id=row.id).update(editor=actor)
        elif role == "agent_owner":
            Agent.objects.filter(tenant_id=shop.tenant, agent_id=action.agent).update(owner=actor)
        else:
            Session.objects.filter(tenant_id=shop.tenant, id=action.session_id).update(on_behalf_of=actor)


@pytest.mark.req("R-AP-12")
@pytest.mark.parametrize("role", ["requester", "editor", "agent_owner", "delegator"])
def test_a_person_with_a_conflict_of_interest_cannot_decide_with_any_account(shop: Workshop, role: str):
    """B19: direct, through a second account of the same person, on somebody's behalf, as the agent's owner."""
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    ann = uuid4()
    first, second = (reviewer(shop, f"ann-{number}@orchid", person=ann) for number in (1, 2))
    stake(shop, action_id, role, actor_of(shop, "ann-1@orchid"))

    code = "SELF_APPROVAL" if role == "requester" else "NOT_INDEPENDENT"
    assert refused(shop.vote(approval, by=first)) == (403, code)
    assert refused(shop.vote(approval, by=second)) == (403, code)
    assert shop.vote(approval).status_code == 201


def test_a_policy_may_let_the_owner_of_an_agent_decide_but_never_the_requester(shop: Workshop):
    set_policy(shop, independence=[])
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    owner, requester = reviewer(shop, "own@orchid"), reviewer(shop, "req@orchid")
    stake(shop, action_id, "agent_owner", actor_of(shop, "own@orchid"))
    stake(shop, action_id, "requester", actor_of(shop, "req@orchid"))

    assert refused(shop.vote(approval, by=requester)) == (403, "SELF_APPROVAL")
    assert shop.vote(approval, by=owner).status_code == 201


def test_a_disabled_reviewer_cannot_vote(shop: Workshop):
    action_id = shop.propose()
    bob = reviewer(shop, "bob@orchid")
    with tenancy(shop.tenant):
        approvers.remove_approver(tenant_id=shop.tenant, actor_id=actor_of(shop, "bob@orchid"), at=NOW)

    assert refused(shop.vote(shop.approval_of(action_id), by=bob)) == (403, "NOT_ELIGIBLE")


# Rules


def test_a_refuse_rule_gives_the_agent_its_reason(shop: Workshop):
    made = set_policy(
        shop,
        rules=[
            {
                "name": "keep policies",
                "when": "args.path.startsWith('policies/')",
                "outcome": "refuse",
                "reason": "Policies are deleted by people only.",
            }
        ],
    )
    assert made.status_code == 201
    answer = shop.call()

    assert answer["accepted"] is False
    assert answer["result"]["error"] == {"code": "OUTSIDE_AUTONOMY", "message": "Policies are deleted by people only."}
    assert shop.path(answer["action_id"]) == ["PROPOSED", "FAILED"]
    assert shop.history(answer["action_id"])[-1]["detail"]["code"] == "OUTSIDE_AUTONOMY"


def test_a_hold_rule_requires_what_it_names(shop: Workshop):
    set_policy(
        shop,
        rules=[
            {
                "name": "returns",
                "when": "target.name.endsWith('returns.md')",
                "outcome": "hold",
                "thresholds": [{"group": "reviewers", "count": 2}],
                "decide_within_s": 600,
                "risk": "HIGH",
            }
        ],
    )
    row = row_of(shop, shop.propose())

    assert row.policy_row == "IRREVERSIBLE, RULE returns"
    assert row.terms["thresholds"] == [{"group": "reviewers", "count": 2, "deny": 1}]
    assert (row.decide_by - row.requested_at).total_seconds() == 600
    assert row.risk == "HIGH"


def test_no_rule_exempts_an_irreversible_action_from_approval(shop: Workshop):
    set_policy(shop, rules=[{"name": "all", "outcome": "auto"}])

    assert row_of(shop, shop.propose()).state == "REQUESTED"


def test_every_fault_of_a_policy_is_reported_with_its_path(shop: Workshop):
    answer = set_policy(
        shop,
        rules=[{"name": "a", "outcome": "hold", "when": "amuont.minor > 1"}, {"name": "b", "outcome": "auto"}],
        hours={"from": "09:00", "to": "09:00"},
    )

    assert refused(answer) == (422, "BAD_POLICY")
    assert [fault["path"] for fault in answer.json()["errors"]] == ["/hours", "/rules/0/when"]
