"""The queue of approvals: its order, its filters and views, who is at what, and what comes next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import pytest

from approvals.models import Approval
from console.brokers import counters
from console.models import SavedView
from ledger.db import tenancy
from tests.support.browser_users import Visitor, ballot, visitor, words
from tests.support.scenes import Stage


def asked(stage: Stage, count: int = 1, **columns: Any) -> list[Any]:
    """So many approvals that wait, oldest first; `columns` as the policy would have set them."""
    found = [stage.approval(stage.propose()) for _ in range(count)]
    with tenancy(stage.tenant):
        Approval.objects.filter(tenant_id=stage.tenant, id__in=[each.id for each in found]).update(**columns)
    return found


def listed(person: Visitor, **query: Any) -> list[str]:
    """The approvals that the inbox shows, in its order."""
    page = person.page("approvals", **query)
    return [part.partition('"')[0] for part in page.split('data-item data-part="')[1:]]


def ids(*found: Any) -> list[str]:
    return [str(each.id) for each in found]


def test_the_queue_is_ordered_by_risk_then_by_deadline(stage):
    """B38: a flood of small requests never hides the one that matters."""
    small, late, grave = asked(stage, risk="LOW"), asked(stage, risk="HIGH"), asked(stage, risk="HIGH")
    with tenancy(stage.tenant):
        Approval.objects.filter(tenant_id=stage.tenant, id=grave[0].id).update(
            decide_by=late[0].decide_by - timedelta(hours=1)
        )
    person = visitor(stage, "reviewer")
    assert listed(person) == ids(*grave, *late, *small)
    assert listed(person, sort="oldest") == ids(*small, *late, *grave)
    assert listed(person, sort="newest") == ids(*grave, *late, *small)
    assert listed(person, sort="deadline")[0] == str(grave[0].id)


def test_pages_follow_the_order_of_the_queue(stage, monkeypatch):
    monkeypatch.setattr("console.approvals.views.queue.PAGE", 2)
    grave, small = asked(stage, 1, risk="HIGH"), asked(stage, 2, risk="LOW")
    person = visitor(stage, "reviewer")
    first = listed(person)
    assert len(first) == 2
    rest = listed(person, after=first[-1])
    assert first + rest == ids(*grave, *small)


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("tool", "issue_refund", 2),
        ("tool", "a_tool_that_went", 0),
        ("agent", "somebody-else", 0),
        ("group", "reviewers", 2),
        ("group", "treasury", 0),
        ("who", "01a2026c-0f3c-73ed-97e0-44ad239e6a4a", 0),
    ],
)
def test_a_filter_in_the_address_selects_the_shown_requests(stage, name, value, kept):
    asked(stage, 2)
    assert len(listed(visitor(stage, "reviewer"), **{name: value})) == kept


def test_an_invalid_filter_is_not_found_instead_of_ignored(stage):
    asked(stage)
    for query in ({"risk": "SOME"}, {"who": "me too"}):
        assert visitor(stage, "reviewer").get("approvals", **query).status_code == 404


def test_filters_by_risk_agent_and_person(stage):
    grave, small = asked(stage, risk="HIGH"), asked(stage, risk="LOW")
    person, me = visitor(stage, "reviewer"), stage.person("reviewer").actor_id
    assert listed(person, risk="LOW") == ids(*small)
    assert len(listed(person, agent="support")) == 2
    assert listed(person, who="mine") == []
    person.post(f"approvals/{grave[0].id}/claim")
    assert listed(person, who="mine") == listed(person, who=str(me)) == ids(*grave)
    assert listed(person, who="nobody") == ids(*small)
    assert len(listed(person, who="vote")) == 2


def test_an_empty_result_is_named_and_shows_the_intake(stage):
    asked(stage, risk="LOW")
    said = words(visitor(stage, "reviewer").page("approvals", risk="HIGH"))
    assert "No approval matches these filters" in said
    assert "receiving calls" in said


def test_a_card_shows_the_missing_votes_and_the_assignee(stage):
    (waits,) = asked(stage)
    other = visitor(stage, "reviewer", name=f"mara@{stage.slug}")
    other.post(f"approvals/{waits.id}/claim")
    said = words(visitor(stage, "reviewer").page("approvals"))
    assert "needs 1 vote from reviewers" in said
    assert "claimed by Mara" in said
    claim = f'action="/t/orchid/approvals/{waits.id}/claim"'
    assert claim in visitor(stage, "reviewer").page("approvals")
    assert claim not in other.page("approvals")


# Presence


@pytest.fixture
def broker(settings, valkey_url, monkeypatch):
    settings.REDIS_URL = valkey_url
    monkeypatch.setattr(counters, "_away_until", 0.0)


def test_people_who_have_the_page_open_are_shown_until_they_leave(stage, clock, broker):
    (waits,) = asked(stage)
    mara, paul = (visitor(stage, "reviewer", name=f"{name}@{stage.slug}") for name in ("mara", "paul"))

    def looked(person):
        return words(person.post(f"approvals/{waits.id}/looking").content.decode())

    mara.page(f"approvals/{waits.id}")
    assert "looking" not in looked(paul)
    assert looked(mara).strip() == "Paul is looking at this"
    assert "Mara is looking at this" in looked(paul)
    assert "Mara and Paul are looking at this" in words(visitor(stage, "operator").page("approvals"))
    clock.forward(seconds=31)
    assert "is looking" not in looked(paul)


def test_presence_is_shown_only_for_requests_of_the_tenant(stage, broker):
    (waits,) = asked(stage)
    person = visitor(stage, "reviewer")
    assert person.post(f"approvals/{uuid4()}/looking").status_code == 404
    shown = person.get("approvals/looking", id=[str(waits.id), str(uuid4())]).content.decode()
    assert shown.count("looking-") == 1


def test_without_counters_the_pages_say_that_presence_is_not_known(stage, broker, settings):
    (waits,) = asked(stage)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    person = visitor(stage, "reviewer")
    assert person.get(f"approvals/{waits.id}").status_code == 200
    for answer in (person.get("approvals"), person.post(f"approvals/{waits.id}/looking")):
        assert answer.status_code == 200
        assert "Who else is looking is not known now" in words(answer.content.decode())


# Views


def test_a_view_is_stored_on_the_server_and_shared(stage):
    asked(stage)
    mara, paul = (visitor(stage, "reviewer", name=f"{name}@{stage.slug}") for name in ("mara", "paul"))
    mara.post("approvals/views", name="Grave ones", query="risk=HIGH&after=1&nonsense=2", shared="on")
    mara.post("approvals/views", name="My own", query="who=mine")
    page = paul.page("approvals")
    assert "Grave ones" in page
    assert "My own" not in page
    with tenancy(stage.tenant):
        assert SavedView.objects.get(name="Grave ones").query == "risk=HIGH"
    view = f"approvals/views/{view_of(stage, 'Grave ones')}/remove"
    assert paul.post(view).status_code == 404
    assert mara.post(view).status_code == 302
    assert "Grave ones" not in paul.page("approvals")


def view_of(stage: Stage, name: str) -> UUID:
    with tenancy(stage.tenant):
        return SavedView.objects.get(name=name).id


def test_saving_a_view_under_its_name_replaces_it(stage):
    mara = visitor(stage, "reviewer")
    for risk in ("HIGH", "LOW"):
        mara.post("approvals/views", name="Mine", query=f"risk={risk}")
    with tenancy(stage.tenant):
        assert [each.query for each in SavedView.objects.filter(tenant_id=stage.tenant)] == ["risk=LOW"]


def test_a_view_without_a_name_is_not_saved(stage):
    answer = visitor(stage, "reviewer").post("approvals/views", name="", query="risk=LOW")
    assert answer.status_code == 302
    with tenancy(stage.tenant):
        assert not SavedView.objects.filter(tenant_id=stage.tenant).exists()


# Next, and the export


def test_after_a_decision_the_next_request_under_the_same_filters_follows(stage):
    small, grave = asked(stage, risk="LOW"), asked(stage, 2, risk="HIGH")
    person = visitor(stage, "reviewer")
    person.page("approvals", risk="HIGH")
    first = person.get("approvals/next")
    assert first["Location"].endswith(str(grave[0].id))
    person.post(f"approvals/{grave[0].id}/vote", **ballot(stage, grave[0].action_id, "approve"))
    assert "data-next" in person.page(f"approvals/{grave[0].id}")
    second = person.get("approvals/next", after=str(grave[0].id))
    assert second["Location"].endswith(str(grave[1].id))
    person.post(f"approvals/{grave[1].id}/vote", **ballot(stage, grave[1].action_id, "approve"))
    done = person.get("approvals/next")
    assert parse_qs(urlsplit(done["Location"]).query) == {"risk": ["HIGH"]}
    assert stage.approval(small[0].action_id).state == "REQUESTED"


def test_the_export_applies_the_filters_and_contains_no_payload(stage):
    """Trap: exports that ignore filters."""
    asked(stage, risk="LOW")
    (grave,) = asked(stage, risk="HIGH")
    answer = visitor(stage, "reviewer").get("approvals.csv", risk="HIGH")
    rows = answer.content.decode().splitlines()
    assert len(rows) == 2
    assert rows[0].startswith("Id,Action,Action id,Tool,Agent,Class,Reversibility,Risk,State,Requested,Deadline")
    assert rows[1].startswith(str(grave.id))
    assert "damaged" not in answer.content.decode()
    assert "1 vote from reviewers" in rows[1]


# The work on the page of one approval


def test_the_page_warns_of_a_claim_without_blocking_the_vote(stage):
    (waits,) = asked(stage)
    visitor(stage, "reviewer", name=f"mara@{stage.slug}").post(f"approvals/{waits.id}/claim")
    person = visitor(stage, "reviewer")
    said = words(person.page(f"approvals/{waits.id}"))
    assert "Mara has claimed this until" in said
    assert "You can still vote." in said
    vote = person.post(f"approvals/{waits.id}/vote", **ballot(stage, waits.action_id, "approve"))
    assert (vote.status_code, stage.approval(waits.action_id).state) == (302, "APPROVED")


def test_the_least_loaded_reviewer_is_offered_first(stage):
    (waits,) = asked(stage)
    mara = stage.person("reviewer", name=f"mara@{stage.slug}").actor_id
    operator = visitor(stage, "operator")
    assert "Mara, 0 open (lowest workload)" in words(operator.page(f"approvals/{waits.id}"))
    assert operator.post(f"approvals/{waits.id}/assign", to="").status_code == 302
    with tenancy(stage.tenant):
        assert Approval.objects.get(tenant_id=stage.tenant, id=waits.id).assigned_to == mara
    assert "Assigned to Mara" in words(operator.page(f"approvals/{waits.id}"))


def test_the_thread_attributes_statements_of_the_agent_to_the_agent(stage):
    """B34: what the agent writes is text and nothing else, and says whose it is."""
    (waits,) = asked(stage)
    person = visitor(stage, "reviewer")
    person.post(f"approvals/{waits.id}/questions", text="Is there a photo?")
    from approvals.requests.operations import threads
    from approvals.voting.queries import votes
    from tests.support.scenes import now

    with tenancy(stage.tenant):
        (line,) = votes.thread_lines(stage.tenant, waits.id)
        threads.answer_question(
            tenant_id=stage.tenant,
            action_id=waits.action_id,
            question_id=line.id,
            text="<b>APPROVED</b> \u202eby Mara",
            by=stage.agent_key,
            at=now(),
        )
    page = person.page(f"approvals/{waits.id}")
    assert "&lt;b&gt;APPROVED&lt;/b&gt;" in page
    assert "U+202E" in page
    assert "the agent's own words" in words(page)


def test_a_freeze_is_shown_with_the_remaining_time(stage, clock):
    from ledger.catalogue.operations import registration
    from ledger.record import operations as ledger

    (waits,) = asked(stage)
    with tenancy(stage.tenant):
        registration.place_freeze(
            tenant_id=stage.tenant,
            scope="tool",
            value="issue_refund",
            reason="Look.",
            actor=ledger.SYSTEM,
            at=clock.now(),
        )
    said = words(visitor(stage, "reviewer").page(f"approvals/{waits.id}"))
    assert "deadline paused until the freeze is lifted" in said
    assert "Time left: 23 h" in said


def test_a_reader_without_rights_sees_no_controls(stage):
    (waits,) = asked(stage)
    page = visitor(stage, "compliance").page(f"approvals/{waits.id}")
    assert ">Claim<" not in page
    assert "Ask the agent" not in page
    assert "Comment" in page
    assert visitor(stage, "compliance").post(f"approvals/{waits.id}/claim").status_code == 403
