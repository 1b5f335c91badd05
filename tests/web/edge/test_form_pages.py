"""Every address that takes a form can be read: it leads to the page that holds the form, and that page stays live."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from console.edge.form_pages import answers_get, find_page
from console.edge.http import allowed_methods
from tests.support.browser_users import visitor, words

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
EVERYTHING = ("administrator", "compliance", "operator", "reviewer")
EXAMPLES = {
    "uuid": "0190b5a4-0000-7000-8000-000000000001",
    "int": "1",
    "str": "name",
    "path": "a/run",
    "slug": "orchid",
}


def pages(patterns=None, before=""):
    """The route and the view of every address that people open, with an example of each part."""
    for each in get_resolver().url_patterns if patterns is None else patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLResolver):
            if not route.startswith("api/"):
                yield from pages(each.url_patterns, route)
        elif isinstance(each, URLPattern) and not route.startswith("api/"):
            yield "/" + re.sub(r"<(?:(\w+):)?\w+>", lambda part: EXAMPLES[part[1] or "str"], route), each


def answering_only():
    return [(path, each) for path, each in pages() if not answers_get(each.callback)]


def test_the_url_table_has_many_form_only_addresses():
    assert len(answering_only()) > 60


def test_no_form_only_address_of_the_pages_answers_405_to_get(stage):
    member = visitor(stage, *EVERYTHING)
    found = {path: member.client.get(path).status_code for path, _ in pages()}
    assert [path for path, status in found.items() if status == 405] == []


def test_the_address_of_a_form_redirects_to_a_readable_page(stage):
    member = visitor(stage, *EVERYTHING)
    for path, each in answering_only():
        answer = member.client.get(path)
        assert (answer.status_code, answer["Location"]) == (302, find_page(path)), each.name
        assert answers_get(resolve(answer["Location"]).func), each.name


def named_methods(view):
    """The methods that each decorator around a view allows, outermost first."""
    found = []
    while (methods := allowed_methods(view)) is not None:
        found.append(methods)
        while allowed_methods(view) == methods and view is not None:
            held = dict(zip(view.__code__.co_freevars, view.__closure__ or (), strict=True))
            view = getattr(view, "__wrapped__", None)
            if "request_method_list" in held:
                break
    return found


def test_no_page_names_its_methods_twice():
    """A decorator outside of `in_tenant` names methods that the page inside, read only by itself, would refuse."""
    found = {each.name: named_methods(each.callback) for _, each in pages() if not hasattr(each.callback, "view_class")}
    assert sum(len(methods) == 1 for methods in found.values()) > 180
    assert {name: methods for name, methods in found.items() if len(methods) > 1} == {}


@pytest.mark.parametrize(
    ("form", "page"),
    [
        ("/t/orchid/freezes/place", "/t/orchid/freezes"),
        (f"/t/orchid/freezes/{EXAMPLES['uuid']}/lift", "/t/orchid/freezes"),
        (f"/t/orchid/cases/{EXAMPLES['uuid']}/resolve", f"/t/orchid/cases/{EXAMPLES['uuid']}"),
        ("/t/orchid/audit/erasures/ask", "/t/orchid/audit/holds"),
        ("/t/orchid/runs/a/run/cancel", "/t/orchid/runs/a/run"),
        ("/t/orchid/people/keys/create", "/t/orchid/people"),
        ("/account/sessions/end", "/account"),
        ("/preferences", "/"),
    ],
)
def test_a_form_address_redirects_to_the_page_with_that_form(form, page):
    assert find_page(form) == page


def test_a_readable_address_does_not_redirect():
    assert find_page("/t/orchid/incidents/new") == "/t/orchid/incidents/new"
    assert find_page("/t/orchid/") == "/t/orchid/"


def test_the_api_still_answers_405(stage):
    assert visitor(stage, "operator").client.get(f"/api/v1/freezes/{uuid4()}/lift").status_code == 405


def test_a_refused_form_receives_live_updates_of_its_page(stage):
    case = stage.case()
    refused = visitor(stage, "operator").post(f"cases/{case.id}/comments", text="")
    assert refused.status_code == 422
    assert f'data-live-from="/t/orchid/cases/{case.id}"' in refused.content.decode()


def test_no_template_uses_the_address_of_the_request():
    named = re.compile(r"request\.(path|get_full)")
    wrong = [str(file) for file in TEMPLATES.rglob("*.html") if named.search(file.read_text())]
    assert wrong == []


def test_a_refused_form_shows_its_errors_first(stage):
    case = stage.case()
    sent = {"resolution": "ACCEPT_AS_IS", "evidence": "I looked."}
    refused = visitor(stage, "operator").post(f"cases/{case.id}/resolve", **sent)
    page = refused.content.decode()
    summary = page[page.index("data-refused") : page.index("data-live=")]
    assert 'role="alert"' in summary
    assert 'data-field="reason"' in summary
    assert "Nothing was saved." in words(summary)
    assert "Reason : Enter a reason." in words(summary)


def test_confirming_a_case_without_an_answer_is_refused_with_a_message(stage):
    case = stage.case()
    refused = visitor(stage, "operator").post(f"cases/{case.id}/confirm")
    assert refused.status_code == 422
    assert "Nothing was saved: choose confirm or return." in words(refused.content.decode())


def test_a_page_with_several_forms_names_the_refused_one(stage):
    refused = visitor(stage, "compliance").post("audit/holds/place", scope="all", value="", reason="")
    assert "Reason : Enter a reason for the hold." in words(refused.content.decode())
