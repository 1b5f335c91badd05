"""What stands around every page: counted in one statement, kept for a moment, and never behind one's own writes."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from django.forms.renderers import DjangoTemplates
from django.forms.widgets import (
    CheckboxInput,
    DateInput,
    DateTimeInput,
    EmailInput,
    HiddenInput,
    NumberInput,
    PasswordInput,
    TextInput,
    TimeInput,
    URLInput,
)
from django.utils.safestring import mark_safe

from console.web.widgets import InputsWithoutTemplates
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record.operations import SYSTEM
from tests.support.browser_users import visitor, words
from tests.support.scenes import now


@pytest.fixture
def kept(settings, monkeypatch):
    """Counters are kept as the product keeps them; the value is the clock by which they grow old."""
    settings.COUNTERFOIL_FRAME_KEPT_S = 2
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("console.edge.frame_facts.time", clock)
    return clock


def place_freeze(stage, value):
    with tenancy(stage.tenant):
        registration.place_freeze(
            tenant_id=stage.tenant, scope="agent", value=value, reason="It looks odd.", actor=SYSTEM, at=now()
        )


def test_another_persons_change_appears_within_two_seconds(stage, kept):
    operator = visitor(stage, "operator")
    assert "active" not in words(operator.page("glossary"))
    place_freeze(stage, "support-agent")
    kept.now += 1.9
    assert "active" not in words(operator.page("glossary"))
    kept.now += 0.2
    assert "1 freeze active" in words(operator.page("glossary"))


def test_the_next_page_after_a_write_shows_its_effect_in_the_counts(stage, kept):
    operator = visitor(stage, "operator")
    operator.page("glossary")
    operator.post("freezes/place", what="tenant:", reason="It looks odd.", next=f"/t/{stage.slug}/glossary")
    assert "1 freeze active" in words(operator.page("glossary"))


def test_counts_cached_for_another_person_are_never_shown(stage, kept):
    operator, reviewer = visitor(stage, "operator"), visitor(stage, "reviewer")
    operator.page("glossary")
    place_freeze(stage, "support-agent")
    assert "1 freeze active" in words(reviewer.page("glossary"))


def test_a_page_lists_every_tenant_of_the_person_and_no_other(stage, elsewhere):
    operator = visitor(stage, "operator")
    assert "Willow" not in operator.page("glossary")
    assert operator.client.get("/t/willow/glossary").status_code == 404


def test_an_input_is_rendered_as_by_django():
    """Of every kind, with and without a value, with attributes that need escaping, are bare, or are left out."""
    attributes = {"id": "a", "title": "<\"&'>", "required": True, "disabled": False, "maxlength": 5}
    kinds = (TextInput, NumberInput, EmailInput, URLInput, PasswordInput, HiddenInput, DateInput, TimeInput)
    for widget in (*kinds, DateTimeInput, CheckboxInput):
        for value in (None, "", 'a<b> & "c"', 3, True, mark_safe("&lt;"), datetime(2030, 1, 2, tzinfo=UTC)):
            for given in ({}, attributes):
                asked = widget(attrs=given)
                plain, ours = DjangoTemplates(), InputsWithoutTemplates()
                assert asked.render("n", value, renderer=ours) == asked.render("n", value, renderer=plain)


# Pages that say that there is no page


def test_a_missing_page_keeps_the_frame_for_a_signed_in_person(stage):
    reviewer = visitor(stage, "reviewer")
    for path in (f"/t/{stage.slug}/nowhere", f"/t/{stage.slug}/cases/0190b5a4-0000-7000-8000-000000000001", "/nowhere"):
        answer = reviewer.client.get(path)
        said = words(answer.content.decode())
        assert answer.status_code == 404
        assert "Page not found It does not exist, or you lack access. Go to Home" in said
        assert "Approvals Cases Incidents" in said
        assert f'href="/t/{stage.slug}/approvals"' in answer.content.decode()


def test_an_address_of_another_tenant_shows_the_own_frame_only(stage):
    answer = visitor(stage, "reviewer").client.get("/t/somebody-else/cases")
    assert answer.status_code == 404
    assert f'href="/t/{stage.slug}/cases"' in answer.content.decode()
    assert "somebody-else" not in words(answer.content.decode())


def test_an_unknown_visitor_gets_the_error_page_without_a_frame(client, stage):
    answer = client.get("/nowhere")
    assert answer.status_code == 404
    assert "Approvals" not in words(answer.content.decode())


def test_an_expired_form_keeps_the_frame(stage, monkeypatch):
    operator = visitor(stage, "operator")
    monkeypatch.setattr(operator.client.handler, "enforce_csrf_checks", True)
    answer = operator.client.post(f"/t/{stage.slug}/freezes/place", {"what": "tenant:", "reason": "A drill."})
    assert answer.status_code == 403
    said = words(answer.content.decode())
    assert "Form expired Nothing was changed: this form is from an earlier session. Open its page again" in said
    assert f'href="/t/{stage.slug}/freezes"' in answer.content.decode()
    assert "Approvals Cases Incidents" in said


def test_a_page_of_other_roles_says_whose_it_is(stage):
    answer = visitor(stage, "operator").client.get(f"/t/{stage.slug}/audit/exports")
    assert answer.status_code == 403
    said = words(answer.content.decode())
    assert "Access denied Only administrators and compliance may do this. FORBIDDEN Go to Home" in said
    assert "Nothing was changed" not in said


# What goes over the wire


def test_pages_are_compressed_and_api_answers_are_not(stage):
    operator = visitor(stage, "operator")
    for amount in range(1, 60):
        stage.propose(amount=amount)
    taken = {"Accept-Encoding": "gzip, br"}
    for path in ("", "approvals", "actions", "metrics/?period=month"):
        address = f"/t/{stage.slug}/{path}"
        whole, packed = operator.client.get(address), operator.client.get(address, headers=taken)
        assert (packed["Content-Encoding"], packed["Vary"].count("Accept-Encoding")) == ("gzip", 1), path
        texts = (gzip.decompress(packed.content).decode(), whole.content.decode())
        # How long ago something was may have grown between the two, from 59 s to 1 min as well.
        assert len({re.sub(r"just now|\d+( (s|min) ago)?", "", words(each))[:400] for each in texts}) == 1
        # With the 55 KB of shared files (`test_static_files`) a first visit stays under 90.
        assert len(packed.content) < 35_000, path
        assert "Content-Encoding" not in whole
    assert "Content-Encoding" not in operator.client.get("/api/v1/openapi.json", headers=taken)


def test_a_value_is_shown_exactly_as_bound_with_its_meaning_beside_it(stage):
    page = visitor(stage, "reviewer").page(f"approvals/{stage.approval(stage.propose(amount=2050)).id}")
    row = next(each for each in page.split("<tr") if "/amount" in each)
    assert re.search(r">\s*2050\s*<", row)
    assert "20.50 EUR" in row
