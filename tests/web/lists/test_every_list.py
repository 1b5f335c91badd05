"""Every list of the console, found by its address: its CSV has the rows and the headings of its page."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from console.lists.views import LISTS
from console.web import labels
from console.web.list_page import ListPage, sortable
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record.operations import SYSTEM
from tests.support.browser_users import visitor, words
from tests.support.probes import Day, names_in, pages, pages_of_tenants, probe
from tests.support.scenes import Stage, now

# Pages whose address names nothing, that are no list of records.
NO_LISTS = {
    "home": "what waits for a person, from several lists",
    "beside": "the list of another page, beside an item of it",
    "search": "what a search found, of every kind",
    "quality": "figures about reviewers",
    "approvals-looking": "who looks at what right now",
    "glossary": "words",
    "help": "help",
    "runbooks": "written steps",
    "policies": "the four policies in force",
    "metrics": "figures, with a CSV of their own",
    "metrics-export": "that CSV",
    "audit-objects": "what the Audit filter can mean",
    "ledger": "one log",
    "verifier-policy": "a file",
    "me": "one's own account",
    "notice-channels": "settings",
    "installation": "the parts of one installation, the same for all tenants",
    "event-export": "the destinations of the settings file",
    "incident-new": "a form",
    "contract-new": "a form",
    "release-draft": "a form",
    "person-search": "what one search found, for an hour",
    "guides": "the files of one distribution, the same for all tenants",
    "batches": "a form",
}
# Lists whose page reads for itself, since it shows something else than the API, or another way.
BY_HAND = {
    "actions": "the API shows an agent those of its own sessions; the page draws the cells that were chosen",
    "target": "a part of the actions, below the newest reading of their target",
    "approvals": "the page has a tab of all that were decided; the API has one state at a time",
    "cases": "the page has tabs by owner and by sleep; the API has open and resolved ones",
    "figure": "the page takes the address of a figure; the API has at most 200 of a page and parameters of its own",
    "audit": "the API reads a log by its entries, not the events by what is searched for",
    "sightings": "only on the page",
    "calls": "only on the page",
    "call-rates": "only on the page",
}
IDS = re.compile(r'data-(?:part|id)="([0-9a-f]{8}-[0-9a-f-]{27})"')
# The lists that share a page with another.
SHARED = {
    name
    for name, (page, _) in LISTS.items()
    if any(other is not page and (other.page or other.name) == (page.page or name) for other, _ in LISTS.values())
}
HEADINGS = re.compile(r'<th scope="col"[^>]*>(.*?)</th>', re.S)


def get(day: Day, path: str) -> Any:
    return probe(day.own["everything"], "GET", f"/t/{day.shop.slug}/{path}")


def required_query(day: Day, page: str) -> str:
    """What an address must name, for the lists about one thing."""
    if page == "target":
        return urlencode({"name": table(get(day, "actions.csv"))[0]["Action"]})
    return "count=executed&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z" if page == "metric-actions" else ""


def path_of(day: Day, page: ListPage, query: str = "") -> str:
    name = page.page or page.name
    route = next(route for route, other in pages_of_tenants() if other == name).removeprefix("t/<slug:slug>/")
    return f"{route}?{'&'.join(filter(None, (required_query(day, name), query)))}"


def csv_of(day: Day, page: ListPage, query: str = "") -> str:
    return f"{page.name}.csv?{'&'.join(filter(None, (required_query(day, page.page or page.name), query)))}"


def csv_link(text: str, page: ListPage) -> str:
    found = re.search(rf'href="/t/[^/]+/({page.name}\.csv[^"]*)" download>', text)
    assert found is not None, f"{page.name} has no CSV"
    return unescape(found[1])


def all_pages(day: Day, path: str) -> str:
    """A page with all that follow it."""
    text = get(day, path).body_read.decode()
    further = re.search(r'href="/t/[^/]+/([^"]+)" rel="next"', text)
    return text + (all_pages(day, unescape(further[1])) if further else "")


def headings(text: str) -> list[str]:
    return [words(each).strip() for each in HEADINGS.findall(text)]


def table(answer: Any) -> list[dict[str, str]]:
    assert answer.status_code == 200
    return list(csv.DictReader(io.StringIO(answer.body_read.decode())))


def test_every_page_without_a_parameter_is_a_list_with_a_csv_or_an_exception_with_a_reason(day: Day):
    of_lists = {page.page or page.name for page, _ in LISTS.values()}
    answering = set()
    for route, name in pages_of_tenants():
        path = route.removeprefix("t/<slug:slug>/")
        if not names_in(route) and get(day, f"{path}?{required_query(day, name)}").status_code == 200:
            answering.add(name)
    assert answering - of_lists <= set(NO_LISTS)
    assert not of_lists & set(NO_LISTS)
    assert of_lists <= answering


@pytest.mark.req("R-UI-12")
@pytest.mark.parametrize("name", LISTS)
def test_the_csv_of_a_list_has_the_rows_and_words_of_its_page(day: Day, name: str):
    page = LISTS[name][0]
    text = all_pages(day, path_of(day, page))
    rows = table(get(day, csv_link(text, page)))
    if any(each.name == "id" for each in page.columns):
        assert len({row["Id"] for row in rows}) == len(rows)
        listed = IDS.findall(text)
        assert {row["Id"] for row in rows} <= set(listed)
        assert set(listed) == {row["Id"] for row in rows} or name in SHARED
    in_csv = list(rows[0]) if rows else get(day, csv_link(text, page)).body_read.decode().strip().split(",")
    usual = [each.word for each in page.columns if each.is_usual and each.value is not None and not each.of_payload]
    assert set(usual) <= set(in_csv)
    if "<thead>" in text and name not in ("call-rates", "systems", "target"):
        assert set(headings(text)) - {"Selected"} == {each.word for each in page.columns if each.is_usual}


@pytest.mark.req("R-UI-12")
@pytest.mark.parametrize("name", LISTS)
def test_page_and_csv_have_the_same_order_and_no_order_loses_a_row(day: Day, name: str):
    page = LISTS[name][0]
    orders = {order for each in page.columns for order in each.sorts or () if order and name != "target"}
    usual = ids_in(day, page, "")
    assert sorted(ids_in(day, page, "sort=-nonsense")) == sorted(usual)
    for order in sorted(orders):
        listed = ids_in(day, page, f"sort={order}")
        assert sorted(listed) == sorted(usual), order
        assert [row["Id"] for row in table(get(day, csv_of(day, page, f"sort={order}")))] == listed, order


def ids_in(day: Day, page: ListPage, query: str) -> list[str]:
    """The ids of a list in the order of its page; of the page of people and keys those of the list alone."""
    known = {row.get("Id", "") for row in table(get(day, csv_of(day, page)))}
    return [each for each in IDS.findall(all_pages(day, path_of(day, page, query))) if each in known]


@pytest.mark.parametrize("name", sorted(LISTS.keys() - SHARED - {"notices", "call-rates", "target"} | {"people"}))
def test_an_unknown_order_or_column_is_reported_and_loses_nothing(day: Day, name: str):
    page = LISTS[name][0]
    text = all_pages(day, path_of(day, page, "sort=luck&columns=weather"))
    said = words(unescape(text))
    assert "This list has no order “luck”; its usual order is shown." in said
    assert "This list has no column “weather”; the others are shown." in said
    assert sorted(IDS.findall(text)) == sorted(IDS.findall(all_pages(day, path_of(day, page))))


@pytest.mark.parametrize("name", sorted(name for name, (page, _) in LISTS.items() if not page.lead))
def test_a_list_without_chosen_columns_shows_all_of_them(day: Day, name: str):
    page = LISTS[name][0]
    chosen = path_of(day, page, f"columns={page.columns[-1].name}")
    assert headings(all_pages(day, chosen)) == headings(all_pages(day, path_of(day, page)))
    columns = get(day, csv_of(day, page, f"columns={page.columns[-1].name}")).body_read.decode().splitlines()[0]
    assert columns == get(day, csv_of(day, page)).body_read.decode().splitlines()[0]


def test_every_list_has_a_query_or_an_exception_with_a_reason():
    assert {name for name, (page, _) in LISTS.items() if page.query is None} == set(BY_HAND)


@pytest.mark.parametrize("name", sorted(name for name, (page, _) in LISTS.items() if page.get))
def test_api_and_csv_have_the_same_rows_in_the_same_order(day: Day, name: str):
    """Without parameters it answers the first part of a list that has several. A cursor is the id of a row."""
    page = LISTS[name][0]
    in_csv = [row["Id"] for row in table(get(day, csv_of(day, page)))]
    items, ids = answered(day, page, limit=1)
    if name == "passkeys":  # The API has those that were removed as well.
        assert [each for each in ids if each in in_csv] == in_csv[: len(set(ids) & set(in_csv))]
    else:
        assert ids == in_csv[: len(ids)]
        assert len(items) == len(in_csv) or (len(page.parts) > 1 and len(items) < len(in_csv))
    assert answered(day, page, limit=500) == (items, [])


def answered(day: Day, page: ListPage, *, limit: int) -> tuple[list[Any], list[str]]:
    """All rows that a GET route answers, and the cursors by which they were asked for."""
    assert page.get is not None
    items: list[Any] = []
    cursors: list[str] = []
    while True:
        asked = urlencode({"limit": limit, "cursor": (cursors or [""])[-1]})
        found = json.loads(probe(day.own["everything"], "GET", f"/api/v1{page.get.path}?{asked}").body_read)
        items += found["items"]
        if found["next"] is None:
            return items, cursors
        assert found["next"] not in cursors
        cursors.append(found["next"])


def test_a_query_without_a_needed_order_or_filter_is_refused_at_import():
    def query(tenant_id: Any, *, after: Any = None, limit: int = 50) -> list[Any]:
        return []

    with pytest.raises(TypeError, match=r"^rows: its query does not take \['order'\]\.$"):
        ListPage("rows", columns=(sortable("name", "Name", str),), query=query)
    with pytest.raises(TypeError, match=r"^rows: its query does not take \['lifted'\]\.$"):
        ListPage("rows", query=query, parts=({"lifted": True},))


def test_a_list_is_open_to_those_whom_its_page_admits():
    admitted = {str(page.name): page.callback.admitted_roles for route, page in pages() if route.startswith("t/<")}
    assert {name: page.roles for name, (page, _) in LISTS.items()} == {
        name: admitted[page.page or page.name] for name, (page, _) in LISTS.items() if name != "api-keys"
    } | {"api-keys": frozenset({"administrator"})}


def test_every_csv_export_is_recorded_in_the_access_log(stage: Stage):
    person = visitor(stage, "reviewer", "operator", "compliance", "administrator")
    for name in LISTS:
        person.page(f"{name}.csv")
    seen = person.page("sightings.csv")
    assert {labels.SEEN[name] for name in LISTS if f"{labels.SEEN[name]}," not in seen} == set()
    assert visitor(stage, "reviewer").get("audit.csv").status_code == 403
    assert visitor(stage, "reviewer").get("nothing.csv").status_code == 404


def test_a_csv_has_times_in_utc_and_no_formulas(stage: Stage):
    with tenancy(stage.tenant):
        registration.place_freeze(
            tenant_id=stage.tenant, scope="target", value="=HYPERLINK(1)", reason="@x", actor=SYSTEM, at=now()
        )
    (row,) = csv.DictReader(io.StringIO(visitor(stage, "operator").page("freezes.csv")))
    assert (row["Value"], row["Reason"], row["Lifted"]) == ("'=HYPERLINK(1)", "'@x", "")
    assert datetime.fromisoformat(row["Placed"]).utcoffset() == timedelta(0)


@pytest.mark.parametrize("order", ["scope", "-scope", "value", "-placed_at"])
def test_paging_by_a_column_skips_no_row_of_equal_value(stage: Stage, monkeypatch: pytest.MonkeyPatch, order: str):
    monkeypatch.setattr("console.freezes.views.PAST", 2)
    with tenancy(stage.tenant):
        for value in ("b", "a", "c", "b/2", "a/2"):
            freeze = registration.place_freeze(
                tenant_id=stage.tenant, scope="target", value=value, reason="x", actor=SYSTEM, at=now()
            )
            registration.lift_freeze(tenant_id=stage.tenant, freeze_id=freeze.id, reason="over", actor=SYSTEM, at=now())
    person, path, seen = visitor(stage, "operator"), f"/t/{stage.slug}/freezes?sort={order}", []
    while path:
        text = person.client.get(path).content.decode()
        seen += IDS.findall(text)
        further = re.search(r'href="([^"]+)" rel="next"', text)
        path = unescape(further[1]) if further else ""
    rows = list(csv.DictReader(io.StringIO(person.page("freezes.csv", sort=order))))
    assert [row["Id"] for row in rows] == seen
    assert len(seen) == 5
    values = [row["Value"] for row in rows]
    assert {"value": sorted(values), "-placed_at": ["a/2", "b/2", "c", "a", "b"]}.get(order, values) == values


def test_a_csv_ends_at_the_stated_number_of_rows(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    for _ in range(3):
        stage.propose()
    monkeypatch.setattr("console.actions.views.MOST_EXPORTED", 2)
    assert len(visitor(stage, "operator").page("actions.csv").splitlines()) == 1 + 2
