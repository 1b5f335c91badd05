"""Break-glass through the product: one operator alone, and others who look at it afterwards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from approvals import tasks as before
from console import tasks
from console.accounts.members import operations as people
from console.models import Membership
from ledger.db import tenancy
from ledger.record.operations import SYSTEM
from ledger.record.queries import events
from tests.support.api_tenant import PASSWORD, Clock, Workshop
from tests.support.browser_users import words
from tests.support.callers import Api

WHY = "The site is down and every minute costs orders."
RULE = {"enabled": True, "step_up": "C", "review_within_s": 3600, "reviewers": 2}


def policy(shop: Workshop, **rule: Any) -> None:
    body = {"version": "2", "document": {"break_glass": RULE | rule}}
    answer = shop.operator_key.release("approval", body)
    assert answer.status_code == 201, answer.content


def broken(shop: Workshop, action_id: str, by: Api | None = None, **changes: Any) -> Any:
    approval = shop.approval_of(action_id)
    return shop.vote(approval, by or shop.operator, **{"verdict": "break_glass", "reason": WHY} | changes)


def used(shop: Workshop) -> dict[str, Any]:
    found: dict[str, Any] = shop.operator.get("/emergencies").json()["items"][0]
    return found


def look(shop: Workshop, by: Api, finding: str = "justified") -> Any:
    path = f"/emergencies/{used(shop)['emergency_id']}/reviews"
    return by.post(path, {"finding": finding, "reason": "I read the incident."})


@pytest.mark.req("R-AP-15")
def test_disabled_break_glass_is_refused_for_everybody_and_recorded(shop: Workshop):
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    answer = broken(shop, action_id)
    assert (answer.status_code, answer.json()["code"]) == (403, "BREAK_GLASS_OFF")
    with tenancy(shop.tenant):
        history = events.history(shop.tenant, UUID(approval["approval_id"]))
    told = [(event.kind, detail) for event, _, detail in history]
    assert told[-1] == ("vote_refused", {"code": "BREAK_GLASS_OFF"})
    assert shop.approval_of(action_id)["state"] == "REQUESTED"
    assert shop.claim() == []


@pytest.mark.req("R-AP-15", "R-AP-11")
def test_no_agent_and_no_key_can_use_break_glass(shop: Workshop):
    policy(shop)
    action_id = shop.propose()
    for by in (shop.agent, shop.executor, shop.operator_key, shop.auditor):
        assert broken(shop, action_id, by).status_code == 403
    assert shop.claim() == []


@pytest.mark.req("R-AP-14")
def test_an_operator_can_release_an_action_alone_and_opens_its_review(shop: Workshop):
    policy(shop)
    action_id = shop.propose()
    assert broken(shop, action_id).status_code == 201
    found = used(shop)
    assert (found["action_id"], found["reason"], found["reviews"]) == (action_id, WHY, [])
    order = next(each for each in shop.claim() if each["action_id"] == action_id)
    assert shop.start(order).status_code == 201


@pytest.mark.req("R-AP-15")
@pytest.mark.parametrize("reason", ["", "   "])
def test_break_glass_requires_a_reason(shop: Workshop, reason: str):
    policy(shop)
    assert broken(shop, shop.propose(), reason=reason).json()["code"] == "REASON_REQUIRED"


def test_break_glass_requires_the_policys_step_up(shop: Workshop):
    policy(shop, step_up="A")
    assert broken(shop, shop.propose()).json()["code"] == "STEP_UP_REQUIRED"


def test_a_reviewer_who_is_not_an_operator_cannot_use_break_glass(shop: Workshop):
    policy(shop)
    assert broken(shop, shop.propose(), shop.reviewer).json()["code"] == "NOT_ELIGIBLE"


@pytest.mark.req("R-AP-23")
def test_a_freeze_stops_break_glass_too(shop: Workshop):
    policy(shop)
    action_id = shop.propose()
    shop.operator.post("/freezes", {"scope": "tool", "value": "delete_document", "reason": "Wait."})
    assert broken(shop, action_id).json()["code"] == "TARGET_FROZEN"


@pytest.mark.req("R-AP-08")
def test_a_break_glass_grant_ends_after_five_minutes(shop: Workshop, clock: Clock):
    policy(shop)
    action_id = shop.propose()
    broken(shop, action_id)
    clock.forward(seconds=301)
    before.lapse()
    assert shop.state(action_id) == "FAILED"
    assert shop.claim() == []


def test_a_use_of_break_glass_is_in_the_inbox_of_everybody_except_its_user(shop: Workshop):
    policy(shop)
    broken(shop, shop.propose())
    waits = {"kind": "confirmation", "title": f"Review a use of break-glass: {WHY}"}
    found = {name: by.get("/inbox").json()["items"] for name, by in (("own", shop.operator), ("other", shop.reviewer))}
    assert [{name: each[name] for name in waits} for each in found["other"]] == [waits]
    assert found["own"] == []


@pytest.mark.req("R-AP-14")
def test_two_other_people_review_a_use_each_once(shop: Workshop):
    policy(shop)
    broken(shop, shop.propose())
    assert look(shop, shop.operator).json()["code"] == "SECOND_PERSON_NEEDED"
    assert look(shop, shop.reviewer).json()["state"] == "USED"
    assert look(shop, shop.reviewer).json()["code"] == "ALREADY_DECIDED"
    assert look(shop, shop.person("compliance")).json()["state"] == "REVIEWED"
    assert shop.operator.get("/emergencies").json()["items"] == []
    done = shop.operator.get("/emergencies?reviewed=true").json()["items"]
    assert [each["finding"] for each in done[0]["reviews"]] == ["justified", "justified"]


@pytest.mark.req("R-AP-14")
def test_two_accounts_of_one_person_count_as_one_review_even_if_linked_afterwards(shop: Workshop):
    policy(shop)
    broken(shop, shop.propose())
    late = shop.person("compliance", name="late@orchid")
    assert look(shop, late).json()["state"] == "USED"
    places = [Membership.objects.get(tenant_id=shop.tenant, user=each.user).id for each in (shop.reviewer, late)]
    with tenancy(shop.tenant):
        people.link_accounts(tenant_id=shop.tenant, member_ids=places, by=SYSTEM, at=datetime.now(UTC))
    assert look(shop, shop.reviewer).json()["code"] == "ALREADY_DECIDED"
    assert look(shop, shop.person("administrator")).json()["state"] == "REVIEWED"


def test_an_unreviewed_use_raises_one_alarm(shop: Workshop, clock: Clock):
    """B24: an incident is opened when the review is overdue, and every page says so."""
    policy(shop)
    broken(shop, shop.propose())
    tasks.lapse()
    assert shop.operator.get("/incidents").json()["items"] == []
    clock.forward(seconds=3601)
    for _ in range(2):
        tasks.lapse()
    incidents = shop.operator.get("/incidents").json()["items"]
    assert [(each["kind"], each["title"]) for each in incidents] == [
        ("security", "A use of break-glass was not reviewed in time")
    ]
    page = shop.reviewer.client.get(f"/t/{shop.slug}/").content.decode()
    assert "its review is overdue" in page
    assert look(shop, shop.reviewer).status_code == 201


def test_an_unjustified_use_opens_a_security_incident(shop: Workshop):
    policy(shop)
    broken(shop, shop.propose())
    look(shop, shop.reviewer, "not_justified")
    incidents = shop.operator.get("/incidents").json()["items"]
    assert [each["title"] for each in incidents] == ["A use of break-glass was found not justified"]


def test_the_page_offers_break_glass_only_to_operators_and_only_where_it_is_enabled(shop: Workshop):
    action_id = shop.propose()
    path = f"/t/{shop.slug}/approvals/{shop.approval_of(action_id)['approval_id']}"
    assert "Use break-glass" not in shop.operator.client.get(path).content.decode()
    policy(shop)
    assert "Use break-glass" in shop.operator.client.get(path).content.decode()
    assert "Use break-glass" not in shop.reviewer.client.get(path).content.decode()


def test_break_glass_is_used_and_reviewed_on_the_pages(shop: Workshop):
    policy(shop)
    approval = shop.approval_of(shop.propose())
    path = f"/t/{shop.slug}/approvals/{approval['approval_id']}"
    form = {"verdict": "break_glass", "reason": WHY, "password": PASSWORD} | {
        name: approval[name] for name in ("payload_hash", "rendering_digest")
    }
    assert "The target has not been read." in words(shop.operator.client.post(f"{path}/vote", form).content.decode())
    form |= {"without_reading": "on"}
    assert shop.operator.client.post(f"{path}/vote", form).status_code == 302
    listed = shop.reviewer.client.get(f"/t/{shop.slug}/emergencies").content.decode()
    assert WHY in listed
    review = f"/t/{shop.slug}/emergencies/{used(shop)['emergency_id']}/review"
    assert shop.reviewer.client.post(review, {"reason": "I looked."}).status_code == 422
    sent = {"finding": "justified", "reason": "I read the incident."}
    assert shop.reviewer.client.post(review, sent).status_code == 302
    assert "found it justified" in shop.reviewer.client.get(f"/t/{shop.slug}/emergencies").content.decode()


def test_the_last_author_of_the_policy_may_be_barred_from_break_glass(shop: Workshop):
    """Otherwise one person alone could switch it on and use it."""
    both = shop.person("operator", "administrator", name="both@orchid")
    document = {"break_glass": RULE, "independence": ["requester", "policy_author"]}
    assert both.release("approval", {"version": "2", "document": document}).status_code == 201
    action_id = shop.propose()
    assert broken(shop, action_id, both).json()["code"] == "NOT_INDEPENDENT"
    assert broken(shop, action_id).status_code == 201
