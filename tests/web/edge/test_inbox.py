"""One inbox: Home, its badge and the API show exactly what waits for a person, and nothing that they may not decide."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from console import tasks
from console.accounts.members import operations as people
from console.models import Membership, Message
from ledger.db import tenancy
from ledger.people.rules.confirmation import TERMS
from ledger.record.operations import SYSTEM, Actor
from tests.support.api_tenant import document
from tests.support.browser_users import visitor, words
from tests.support.settling import settle_on_page
from tests.web.people.proposals import PROPOSALS

WHY = {"reason": "The provider shows it.", "evidence": "Statement of 21 November, line 4"}


def listed(person):
    """What Home lists, and that API and badge say the same."""
    page = person.page()
    waits = page.split('data-part="waits"')[1].split("</section>")[0]
    answer = person.client.get("/api/v1/inbox")
    assert answer.status_code == 200, answer.content
    items = answer.json()["items"]
    assert all(each["page"] in waits for each in items)
    assert waits.count("data-item") == len(items)
    link = page.split('data-go="h"')[1].split("</a>")[0]
    badge = re.search(r'rail-count">([0-9]+)', link)
    assert int(badge[1] if badge else 0) == len(items)
    return [(each["kind"], each["title"]) for each in items], words(waits)


def test_a_proposed_resolution_waits_for_everybody_except_its_proposer(stage):
    case = stage.case()
    proposer = visitor(stage, "operator")
    assert [kind for kind, _ in listed(proposer)[0]] == ["case"]
    settle_on_page(proposer, case.id, "ATTEST_ABSENT", **WHY)
    confirmation = ("confirmation", f"Confirm a resolution: attest that it did not happen, {case.target}")
    assert listed(proposer)[0] == []
    assert listed(visitor(stage, "operator", name="second@orchid"))[0] == [confirmation]
    assert listed(visitor(stage, "reviewer"))[0] == [confirmation]
    assert listed(visitor(stage, "compliance"))[0] == []


# What waits for a second person, and what it is called.

KINDS = {
    "contract": "Confirm a weaker contract: issue_refund 9.0.0",
    "system": "Confirm a change of the system shop",
    "release": "Promote a release: verification policy 2",
    "erasure": "Confirm an erasure: GDPR Art. 17",
    "retention": "Confirm a retention policy",
    "member": "Confirm new roles of a member",
    "key": "Confirm a passkey: Blue key",
}
OCCASIONS = {kind: f"{kind}_waits" for kind in KINDS} | {"member": "roles_wait"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_possible_second_person_sees_the_proposal_and_is_notified(stage, kind):
    title, may = KINDS[kind], TERMS[kind].roles
    roles = ("reviewer", "operator", "compliance", "administrator")
    asker = stage.person(*roles, name="asker@orchid")
    others = {role: stage.person(role) for role in roles}
    with tenancy(stage.tenant):
        alias = stage.person(*roles, name="alias@orchid")
        people.link_accounts(tenant_id=stage.tenant, member_ids=[asker.id, alias.id], by=SYSTEM, at=datetime.now(UTC))
    asker.refresh_from_db()
    PROPOSALS[kind].propose(stage, asker)
    asked = {role for role in roles if ("confirmation", title) in listed(visitor(stage, role))[0]}
    assert asked == may
    for name in ("asker@orchid", "alias@orchid"):
        assert ("confirmation", title) not in listed(visitor(stage, *roles, name=name))[0]
    for _ in range(3):
        tasks.tell_people()
    with tenancy(stage.tenant):
        told = set(Message.objects.filter(kind=OCCASIONS[kind]).values_list("actor_id", flat=True))
    assert told == {others[role].actor_id for role in may}


def test_a_role_change_waits_for_a_person_other_than_its_proposer(stage):
    asking = stage.person("administrator", name="ada@orchid")
    same = stage.person("administrator", name="ada-again@orchid")
    Membership.objects.filter(id=same.id).update(person_id=asking.person_id)
    with tenancy(stage.tenant):
        people.change_member(
            tenant_id=stage.tenant,
            member_id=asking.id,
            roles=frozenset({"administrator", "reviewer"}),
            groups=[],
            by=Actor("person", asking.actor_id),
            by_person=asking.person_id,
            is_proven=True,
            at=datetime.now(UTC),
        )
    names = ("ada", "ada-again", "dana")
    asked = {name: listed(visitor(stage, "administrator", name=f"{name}@orchid"))[0] for name in names}
    assert asked == {"ada": [], "ada-again": [], "dana": [("confirmation", "Confirm new roles of a member")]}


@pytest.mark.req("R-UI-23")
def test_a_menu_item_shows_a_count_only_to_those_who_can_act_on_it(stage):
    stage.propose()
    stage.case()
    numbers = {role: _numbers(visitor(stage, role).page()) for role in ("reviewer", "operator", "compliance")}
    assert numbers == {
        "reviewer": {"Home": 1, "Approvals": 1},
        "operator": {"Home": 1, "Cases": 1},
        "compliance": {},
    }


def _numbers(page: str) -> dict[str, int]:
    """The places of the rail that show a number, and the number."""
    rail = words(page.split('<nav class="rail"')[1].split("</nav>")[0])
    return {place: int(number) for place, number in re.findall(r"(\w+) (\d+) waiting", rail)}


def test_similar_approvals_are_grouped_with_their_total(stage):
    for _ in range(3):
        stage.propose()
    items, said = listed(visitor(stage, "reviewer"))
    assert [kind for kind, _ in items] == ["approval"] * 3
    assert all(title.startswith("Refund 125.00 EUR to order") for _, title in items)
    assert "3 approvals: issue_refund, by support At stake: 375.00 EUR. Oldest" in said
    assert "Decide together" not in said, "each refund is decided by itself"
    assert listed(visitor(stage, "operator"))[0] == []


def test_an_operator_sees_unassigned_and_own_cases_and_open_incidents_but_not_those_of_others(stage):
    case, other = stage.case(count=2), stage.case(amount=99)
    visitor(stage, "operator", name="owner@orchid").post(f"cases/{other.id}/claim")
    items, said = listed(visitor(stage, "operator"))
    assert sorted(kind for kind, _ in items) == ["case", "incident"]
    assert "Duplicate side effect. Unassigned." in said
    assert str(case.id) in visitor(stage, "operator").page()
    assert [kind for kind, _ in listed(visitor(stage, "operator", name="owner@orchid"))[0]].count("case") == 2


def test_approvals_that_can_be_decided_together_link_from_home_to_the_batch_page(shop):
    policy = {
        "version": "2",
        "require": [{"tool": "write_document"}],
        "batch": {"most": 3, "side_effect_classes": ["EPHEMERAL_WRITE"]},
    }
    shop.operator_key.release("approval", {"version": "2", "document": policy})
    asked = [shop.approval_of(shop.propose("write_document", **document(f"n{n}.md", "Quiet."))) for n in range(3)]
    home = shop.reviewer.client.get("/t/orchid/").content.decode()
    link = home.split('class="button small" href="')[1].split('"')[0]
    assert all(each["approval_id"] in link for each in asked)
    assert shop.reviewer.client.get(link.replace("&amp;", "&")).status_code == 200
