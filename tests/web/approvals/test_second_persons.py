"""Nobody is forgotten: whoever may really do what waits is told of it, and nobody else; one rule says who may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from approvals.models import Agent
from console import tasks
from console.accounts.members import operations as people
from console.models import Message
from console.notifications.facts import load_facts
from console.notifications.messages import render_message
from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.retention.operations import retention
from ledger.retention.rules.retention import RetentionPolicy
from reviews.readback.operations import systems
from tests.support.browser_users import visitor, words
from tests.support.settling import settle_on_page

WHY = {"reason": "The provider shows it.", "evidence": "Statement of 21 November, line 4"}


def told(stage, place) -> list[str]:
    with tenancy(stage.tenant):
        rows = Message.objects.filter(tenant_id=stage.tenant, actor_id=place.actor_id).order_by("id")
        return [row.kind for row in rows]


def gathered() -> None:
    """Until nothing new is told."""
    for _ in range(3):
        tasks.tell_people()


def actor(place) -> ledger.Actor:
    return ledger.Actor("person", place.actor_id)


def now() -> datetime:
    return datetime.now(UTC)


def ask_shop(stage, at, *unanswered: str) -> None:
    """Readings of a system, each with why there was no answer, if there was none."""
    asked = [systems.ReadAttempt(began_at=at, took_ms=5000.0, unanswered=each) for each in unanswered]
    with tenancy(stage.tenant):
        shop = catalogue_queries.system(stage.tenant, "shop")
        systems.record_attempts(tenant_id=stage.tenant, system_id=shop.id, asked=asked, at=at)


# Who is told


def test_operators_are_notified_of_a_new_case(stage):
    operator, reviewer, compliance = stage.person("operator"), stage.person("reviewer"), stage.person("compliance")
    case = stage.case()
    gathered()
    assert told(stage, operator).count("case_opened") == 1
    assert "case_opened" not in told(stage, reviewer) + told(stage, compliance)
    page = words(visitor(stage, "operator").page("notices"))
    assert "New case" in page
    assert case.target.removeprefix("order/") in page


def test_operators_are_notified_of_an_incident_and_of_a_system_outage_by_name(stage):
    operator, reviewer = stage.person("operator"), stage.person("reviewer")
    stage.case(count=2)
    ask_shop(stage, now(), *["timeout"] * 10)
    gathered()
    assert {"incident_opened", "system_down"} <= set(told(stage, operator))
    assert not {"incident_opened", "system_down"} & set(told(stage, reviewer))
    page = words(visitor(stage, "operator").page("notices"))
    assert "Incident opened Duplicate side effect: issue_refund" in page
    assert "System of record down shop" in page


def test_a_settlement_notifies_possible_confirmers_and_not_its_proposer(stage):
    first, second = stage.person("operator"), stage.person("operator", name="second@orchid")
    reviewer, administrator = stage.person("reviewer"), stage.person("administrator")
    case = stage.case()
    settle_on_page(visitor(stage, "operator"), case.id, "ATTEST_ABSENT", **WHY)
    gathered()
    assert "settlement_waits" in told(stage, second)
    assert "settlement_waits" in told(stage, reviewer)
    assert "settlement_waits" not in told(stage, first) + told(stage, administrator)
    page = words(visitor(stage, "reviewer").page("notices"))
    assert "Case resolution requires your confirmation" in page
    for place, may in ((second, True), (reviewer, True), (first, False)):
        roles = ("reviewer",) if place is reviewer else ("operator",)
        seen = visitor(stage, *roles, name="second@orchid" if place is second else "").page(f"cases/{case.id}")
        assert ('name="answer" value="confirm"' in seen) is may


def test_a_second_account_of_the_proposer_is_neither_notified_nor_accepted(stage):
    first, second = stage.person("operator"), stage.person("operator", name="second@orchid")
    with tenancy(stage.tenant):
        people.link_accounts(tenant_id=stage.tenant, member_ids=[first.id, second.id], by=ledger.SYSTEM, at=now())
    case = stage.case()
    settle_on_page(visitor(stage, "operator"), case.id, "ATTEST_ABSENT", **WHY)
    gathered()
    assert "settlement_waits" not in told(stage, second)
    page = visitor(stage, "operator", name="second@orchid").page(f"cases/{case.id}")
    assert "you cannot confirm your own proposal, or one about you, from any account." in words(page)
    assert 'name="answer" value="confirm"' not in page


@pytest.mark.parametrize("minutes", [0, 5])
def test_operators_are_notified_once_of_an_outcome_that_stays_unknown(stage, monkeypatch, minutes):
    operator = stage.person("operator")
    action_id = stage.propose()
    stage.approve(action_id)
    stage.execute(action_id, status="timeout")
    assert stage.state(action_id) == "UNKNOWN"
    later = now() + timedelta(minutes=minutes)
    monkeypatch.setattr(tasks.timezone, "now", lambda: later)
    gathered()
    assert told(stage, operator).count("unknown") == (1 if minutes else 0)


def test_a_role_change_waits_for_an_administrator_other_than_its_proposer(stage):
    asking, other = stage.person("administrator"), stage.person("administrator", name="other@orchid")
    with tenancy(stage.tenant):
        done = people.change_member(
            tenant_id=stage.tenant,
            member_id=asking.id,
            roles=frozenset({"administrator", "reviewer"}),
            groups=[],
            by=actor(asking),
            by_person=asking.person_id,
            is_proven=True,
            at=now(),
        )
    assert done is False
    gathered()
    assert "roles_wait" in told(stage, other)
    assert "roles_wait" not in told(stage, asking)


def test_erasures_and_retention_wait_for_another_compliance_member(stage):
    asking, other = stage.person("compliance"), stage.person("compliance", name="other@orchid")
    operator = stage.person("operator")
    with tenancy(stage.tenant):
        retention.propose_policy(
            tenant_id=stage.tenant, policy=RetentionPolicy(payload_days=400), by=actor(asking), at=now()
        )
    gathered()
    assert "retention_waits" in told(stage, other)
    assert "retention_waits" not in told(stage, asking) + told(stage, operator)


def test_notifications_contain_nothing_of_the_case(stage):
    case = stage.case()
    line = {"kind": "settlement_waits", "risk": "NORMAL", "about_kind": "case", "about": str(case.id)}
    with tenancy(stage.tenant):
        (fact,) = load_facts(events.tenant_by_id(stage.tenant), [line])
    sent = render_message([fact], tenant="orchid", personal=True, at=now())
    text = "\n".join([sent.subject, *sent.paragraphs])
    order = case.target.removeprefix("order/")
    assert order in fact.title
    assert order not in text
    assert "Case resolution requires your confirmation: Refund" in text
    assert f"/cases/{case.id}" in text


# Who may vote


def test_the_inbox_and_the_page_agree_on_who_may_vote(stage):
    action_id = stage.propose()
    approval = stage.approval(action_id)
    reviewer = stage.person("reviewer")
    can = visitor(stage, "reviewer")
    assert "You can decide." in words(can.page("approvals"))
    assert "Approvals 1 waiting" in words(can.page("approvals"))
    with tenancy(stage.tenant):
        Agent.objects.filter(tenant_id=stage.tenant).update(owner=reviewer.actor_id)
    barred = "You own this agent, so someone else must approve it."
    assert barred in words(can.page(f"approvals/{approval.id}"))
    listed = words(can.page("approvals"))
    assert barred in listed
    assert "You can decide." not in listed
    assert "Approvals 1 waiting" not in listed
    assert "Reviewers only." in words(visitor(stage, "operator").page("approvals"))
