"""Lists: sorted by their headers, with the columns that somebody chooses, kept as views, and taken away as shown."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from console.models import SavedView
from ledger.db import tenancy
from tests.support import builders
from tests.support.browser_users import Visitor, visitor, words

ROWS = re.compile(r'<tr data-item data-part="([^"]+)"')


def made(stage: Any, *agents: str) -> list[str]:
    with tenancy(stage.tenant):
        return [
            str(builders.propose(stage.tenant, view={"target": f"order/N-{place}", "agent": agent}).id)
            for place, agent in enumerate(agents)
        ]


def headers(page: str) -> list[str]:
    return re.findall(r"<th[^>]*>(?:<[^>]+>)*([^<]+)", page.partition("<thead>")[2].partition("</thead>")[0])


def link(page: str, word: str) -> str:
    """Where the link with this word leads."""
    before = page.partition(f">{word}")[0]
    return unescape(before.rsplit('href="', 1)[1].partition('"')[0])


def sort_link(page: str, word: str) -> str:
    """Where the header with this word leads."""
    found = re.search(rf'<a class="sort" href="([^"]+)"[^>]*>{word}', page)
    assert found is not None, word
    return unescape(found[1])


def all_rows(person: Visitor, address: str) -> list[str]:
    found = []
    while address:
        page = person.client.get(address).content.decode()
        found += ROWS.findall(page)
        address = unescape(page.partition('rel="next"')[0].rsplit('href="', 1)[1].partition('"')[0])
        address = address if 'rel="next"' in page else ""
    return found


@pytest.mark.req("R-UI-12")
def test_a_header_sorts_the_list_and_its_pages_keep_the_order(stage, monkeypatch):
    monkeypatch.setattr("console.actions.views.PAGE", 3)
    ids = made(stage, "b", "a", "b", "c", "a", "b", "a", "c")
    person = visitor(stage, "operator")
    page = person.page("actions")
    assert "newest first" in words(page)
    upwards = link(page, "Show oldest first")
    assert "Newer" in words(person.client.get(upwards).content.decode())
    assert all_rows(person, upwards) == ids
    by_agent = sort_link(page, "Agent")
    assert by_agent.endswith("actions?sort=agent")
    assert all_rows(person, by_agent) == [ids[place] for place in (1, 4, 6, 0, 2, 5, 3, 7)]
    sorted_page = person.client.get(by_agent).content.decode()
    assert "by agent, A to Z" in words(sorted_page)
    assert 'aria-sort="ascending"' in sorted_page
    assert all_rows(person, sort_link(sorted_page, "Agent")) == [ids[place] for place in (7, 3, 5, 2, 0, 6, 4, 1)]


def test_an_order_without_an_index_under_filters_falls_back_and_says_so(stage):
    ids = made(stage, "b", "a")
    person = visitor(stage, "operator")
    page = person.page("actions", sort="agent", side_effect_class="MEDIUM_RISK_WRITE")
    assert "newest first; other orders are offered without filters" in words(page)
    assert ROWS.findall(person.page("actions", sort="oldest", agent="a")) == [ids[1]]
    assert ROWS.findall(person.page("actions", sort="nonsense")) == ids[::-1]


def test_chosen_columns_are_shown_and_exported(stage):
    made(stage, "b", "a")
    person = visitor(stage, "operator")
    assert headers(person.page("actions")) == [
        *("Outcome", "Action", "Amount", "Agent", "Tool", "Class", "Discrepancy", "Changed")
    ]
    chosen = "columns=agent&columns=proposed&columns=nonsense"
    page = person.client.get(f"/t/{stage.slug}/actions?{chosen}&sort=agent").content.decode()
    assert headers(page) == ["Action", "Agent", "Proposed"]
    assert "sort=-agent" in sort_link(page, "Agent")
    assert "columns=agent&columns=proposed" in sort_link(page, "Agent")
    export = unescape(page.partition("/actions.csv?")[2].partition('"')[0])
    table = person.client.get(f"/t/{stage.slug}/actions.csv?{export}").content.decode().splitlines()
    assert table[0] == "Id,Action,Agent,Proposed"
    assert [row.split(",")[1:3] for row in table[1:]] == [["order/N-1", "a"], ["order/N-0", "b"]]
    whole = person.client.get(f"/t/{stage.slug}/actions.csv").content.decode().splitlines()[0]
    assert (
        whole
        == "Id,Outcome,Outcome (code),State (code),Action,Agent,Tool,Class,Discrepancy,Changed,Proposed,Version,Run"
    )


def test_an_amount_is_exported_only_if_its_column_was_chosen(stage):
    stage.propose()
    person = visitor(stage, "operator")
    table = person.page("actions.csv", columns="amount").splitlines()
    assert table[0] == "Id,Action,Amount,Currency"
    assert re.fullmatch(r".*,\d+\.\d\d,EUR", table[1])
    assert "Amount" not in person.page("actions.csv").splitlines()[0]


def test_a_view_keeps_the_filters_columns_and_order_of_its_list_and_is_shared(stage):
    stage.case()
    mara, paul = (visitor(stage, "operator", "compliance", name=f"{name}@{stage.slug}") for name in ("mara", "paul"))
    kept = {
        "actions": "agent=support&columns=action&columns=agent&sort=oldest",
        "cases": "columns=case&columns=owner&sort=owner&tab=mine",
        "audit": "columns=event&columns=when&kind=approved&sort=oldest",
    }
    for name, query in kept.items():
        saved = mara.post(f"{name}/views", name=f"My {name}", query=f"{query}&before=1&nonsense=2", shared="on")
        assert saved["Location"] == f"/t/{stage.slug}/{name}?{query}"
        page = paul.page(name)
        assert f"My {name}" in page
        view = link(page, f"My {name}")
        assert view == f"/t/{stage.slug}/{name}?{query}"
        assert 'aria-current="true"' in paul.client.get(view).content.decode().partition("Saved views")[2]
    with tenancy(stage.tenant):
        row = SavedView.objects.get(page="cases")
    assert paul.post(f"cases/views/{row.id}/remove").status_code == 404
    assert mara.post(f"cases/views/{row.id}/remove").status_code == 302
    assert "My cases" not in paul.page("cases")


def test_a_view_of_an_inaccessible_list_is_refused(stage):
    reviewer = visitor(stage, "reviewer")
    assert reviewer.post("audit/views", name="Mine", query="kind=approved").status_code == 403
    assert reviewer.post("nothing/views", name="Mine", query="").status_code == 404


def test_cases_and_audit_show_the_chosen_columns_and_export_them(stage):
    case = stage.case()
    person = visitor(stage, "operator", "compliance")
    page = person.client.get(f"/t/{stage.slug}/cases?columns=owner&columns=tool").content.decode()
    assert headers(page) == ["Selected", "Case", "Owner", "Tool"]
    assert "Unassigned" in page.partition("<tbody>")[2]
    table = person.client.get(f"/t/{stage.slug}/cases.csv?columns=owner&columns=tool").content.decode().splitlines()
    assert table[0] == "Id,Action id,Case,Owner,Tool"
    assert re.fullmatch(f"{case.id},{case.action_id},.*,,issue_refund", table[1])
    assert sort_link(person.page("cases"), "Opened").endswith("cases?sort=oldest")
    audit = person.client.get(f"/t/{stage.slug}/audit?columns=kind&sort=oldest").content.decode()
    assert headers(audit) == ["Event", "Kind (code)"]
    assert "tenant_founded" in audit.partition("<tbody>")[2].partition("</tr>")[0]
    events = person.client.get(f"/t/{stage.slug}/audit.csv?columns=kind&sort=oldest").content.decode().splitlines()
    assert events[0] == "Id,Event,Kind (code)"
    assert events[1].endswith(",Tenant created,tenant_founded")


@pytest.mark.parametrize("query", ["", "agent=support"])
def test_the_audit_log_can_be_read_in_both_directions(stage, monkeypatch, query):
    monkeypatch.setattr("console.audit.views.PAGE", 7)
    stage.done()
    stage.done()
    person = visitor(stage, "compliance")
    here = f"/t/{stage.slug}/audit?{query}"
    assert all_rows(person, f"{here}&sort=oldest") == all_rows(person, here)[::-1]
