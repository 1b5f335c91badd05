"""The search for one person's actions before an erasure: what it finds, who sees it, and what it leaves behind."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from console import tasks
from console.brokers import counters
from console.retention import scans
from ledger.db import execute, tenancy
from tests.support.browser_users import visitor, words
from tests.support.scenes import now
from tests.web.ledger.test_pages_retention import over


@pytest.fixture(autouse=True)
def broker(settings, valkey_url, monkeypatch):
    settings.REDIS_URL = valkey_url
    monkeypatch.setattr(counters, "_away_until", 0.0)


def started(person, text):
    """The address of a search that was started on the page."""
    answer = person.post("audit/erasures/search", text=text)
    assert answer.status_code == 302, words(answer.content.decode())
    return str(answer["Location"]).removeprefix(f"/t/{person.slug}/")


def carry_out(stage, path):
    tasks.search_for_person(str(stage.tenant), path.rpartition("/")[2])


@pytest.mark.req("R-LE-21")
def test_a_person_is_found_in_arguments_and_goals_and_their_actions_are_requested_to_be_erased(stage):
    done, other = over(stage), stage.propose(order_id="EX-OTHER1")
    officer = visitor(stage, "compliance")
    path = started(officer, "ex-o")
    page = officer.page(path)
    assert "Looked at 0 actions so far" in words(page)
    assert 'hx-trigger="every 2s"' in page
    carry_out(stage, path)
    page = officer.page(path)
    assert "1 action found among 2" in words(page)
    assert "EX-OTHER" in page
    assert "Not yet: The action" in words(page), "what is not over waits"
    assert "None of them can be erased now." in words(page)
    with tenancy(stage.tenant):
        [(target,)] = execute("SELECT target FROM ledger_action WHERE id = $1", done)
    path = started(officer, target.upper())
    carry_out(stage, path)
    page = officer.page(path)
    assert str(done) in re.findall(r'<textarea name="what"[^>]*>(.*?)</textarea>', page, re.DOTALL)[0]
    assert str(other) not in page
    asked = officer.post("audit/erasures/ask", what=str(done), legal_basis="GDPR Art. 17", reason="Asked for.")
    assert asked.status_code == 302
    path = started(officer, target)
    carry_out(stage, path)
    assert "Not yet: This is already erased, or another erasure request covers it." in words(officer.page(path))


def test_a_refused_request_keeps_what_was_entered(stage):
    waiting = stage.propose()
    answer = visitor(stage, "compliance").post(
        "audit/erasures/ask", what=str(waiting), legal_basis="GDPR Art. 17", reason="Asked for by letter."
    )
    page = answer.content.decode()
    assert answer.status_code == 409
    assert str(waiting) in page
    assert "Asked for by letter." in page
    assert "has not come to an end." in words(page)


def test_only_who_started_a_search_sees_it_and_the_access_log_has_it(stage):
    stage.done()
    officer, other = visitor(stage, "compliance"), visitor(stage, "compliance", name="second@orchid")
    path = started(officer, "ines@example.org")
    carry_out(stage, path)
    assert "No action mentions it." in words(officer.page(path))
    answer = other.get(path)
    assert answer.status_code == 404
    assert "This search is over" in words(answer.content.decode())
    assert "Search for a person's actions" in words(officer.page("audit/sightings"))
    assert visitor(stage, "administrator").get(path).status_code == 403
    assert visitor(stage, "compliance").post("audit/erasures/search", text="ab").status_code == 422


def test_a_search_leaves_no_word_of_the_person_in_the_counters_or_the_database(stage):
    stage.done()
    path = started(visitor(stage, "compliance"), "ines@example.org")
    kept = counters.client().get(scans._name(stage.tenant, path.rpartition("/")[2]))
    assert b"ines" not in kept
    assert b"ines".hex().encode() not in kept
    with tenancy(stage.tenant):
        seen = execute("SELECT kind, thing_id FROM console_sighting")
    assert ("person", UUID(path.rpartition("/")[2])) in seen


def test_a_search_is_carried_out_in_portions_and_ends_by_itself(stage, monkeypatch):
    monkeypatch.setattr(scans, "PORTION", 1)
    for number in range(3):
        stage.propose(order_id=f"EX-PART{number}")
    path = started(visitor(stage, "compliance"), "ex-part")
    search_id = UUID(path.rpartition("/")[2])
    looked = []
    with tenancy(stage.tenant):
        while scans.search_portion(stage.tenant, search_id, at=now()):
            looked.append(scans.read_search(stage.tenant, search_id).looked)
        search = scans.read_search(stage.tenant, search_id)
    assert (looked, search.looked, len(search.found), search.is_done) == ([1, 2, 3], 3, 3, True)


def test_counters_that_do_not_answer_refuse_a_search_in_one_sentence(stage, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = visitor(stage, "compliance").post("audit/erasures/search", text="ines")
    assert answer.status_code == 503
    assert "nothing can be searched for now" in words(answer.content.decode())


def test_a_search_whose_message_was_lost_is_gone_on_with_at_a_tick(stage, monkeypatch):
    stage.done()
    path = started(visitor(stage, "compliance"), "ines@example.org")
    sent = []
    monkeypatch.setattr(tasks.search_for_person, "apply_async", lambda args, **_: sent.append(args))
    tasks.look_for_work()
    assert sent == [], "a search that somebody has just begun is left alone"
    monkeypatch.setattr(scans, "RESTING_S", 0.0)
    tasks.look_for_work()
    assert sent == [(str(stage.tenant), path.rpartition("/")[2])]
    carry_out(stage, path)
    tasks.look_for_work()
    assert len(sent) == 1, "a search that is done is not begun again"


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("ines@example.org", {"to": ["INES@example.org"]}, True),
        ("Ines  Weber", {"note": "to Ines\nWeber, by post"}, True),
        ("4711", {"customer": {"id": 4711}}, True),
        ("true", {"vip": True}, False),
        ("customer", {"customer": 1}, False),
    ],
)
def test_a_text_is_found_in_values_and_not_in_names(text, value, found):
    assert scans.mentions(text, value) is found
