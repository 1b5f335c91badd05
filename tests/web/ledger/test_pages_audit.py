"""Audit: the record searched by person, agent, target, time, action and kind of event; and who saw what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from console.web.labels import action_title
from ledger.actions.queries import actions
from ledger.db import tenancy
from tests.support import builders
from tests.support.browser_users import visitor, words


def rows(page):
    return page.count("<tr data-item")


@pytest.mark.req("R-UI-12", "R-LE-21")
def test_the_audit_log_finds_events_by_person_kind_and_action(stage):
    case = stage.case()
    other = stage.done()
    reader = visitor(stage, "compliance")
    who = str(stage.person("reviewer").actor_id)
    votes = reader.page("audit", who=who, kind="approved")
    assert rows(votes) == 2
    assert "Approved" in words(votes)
    about = reader.page("audit", action=f"http://console.test/t/orchid/actions/{case.action_id}")
    assert f"/events/{case.action_id}/1" in about
    assert f"/events/{case.id}/1" in about, "the action's case is part of its story"
    assert f"/events/{stage.approval(case.action_id).id}/1" in about, "so is its approval"
    assert str(other) not in about
    assert "No matching event" in reader.page("audit", action="no id at all")


@pytest.mark.req("R-UI-12")
def test_the_audit_log_finds_an_agents_events_by_target(stage):
    first, second = stage.propose(order_id="EX-AAA1"), stage.propose(order_id="EX-BBB2")
    reader = visitor(stage, "compliance")
    found = reader.page("audit", agent="support", target="aaa1")
    assert f"/events/{first}/1" in found
    assert str(second) not in found
    assert "by action, the newest first" in words(found)
    assert rows(reader.page("audit", agent="nobody")) == 0
    assert rows(reader.page("audit", target="%")) == 0, "a percent sign is a percent sign"


@pytest.mark.req("R-UI-12")
@pytest.mark.parametrize("query", [{}, {"agent": "support"}, {"tool": "x"}])
def test_every_event_is_on_exactly_one_page(stage, query):
    with tenancy(stage.tenant):
        for _ in range(40):
            builders.propose(stage.tenant)
    stage.done()
    reader = visitor(stage, "compliance")
    seen, address = (
        [],
        reader.get("audit", **query).request["PATH_INFO"] + "?" + "&".join(f"{k}={v}" for k, v in query.items()),
    )
    while address:
        page = reader.client.get(address).content.decode()
        seen += [part.split('"')[0] for part in page.split('<tr data-item data-part="')[1:]]
        older = page.split('rel="next"')[0] if 'rel="next"' in page else ""
        address = older.rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&") if older else ""
    assert len(seen) == len(set(seen)) > 10
    with tenancy(stage.tenant), connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM ledger_event e WHERE %s OR EXISTS (SELECT FROM ledger_action a"
            " WHERE a.tenant_id = e.tenant_id AND a.id = e.subject_id AND a.agent = 'support')",
            ["agent" not in query],
        )
        assert len(seen) == cursor.fetchone()[0]


def test_a_period_limits_the_search(stage):
    stage.propose()
    reader = visitor(stage, "compliance")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    assert rows(reader.page("audit", since=str(tomorrow))) == 0
    assert rows(reader.page("audit", since="2026-01-01", until=str(tomorrow))) > 0
    assert "Enter a day or a minute" in words(reader.page("audit", since="yesterday"))
    minute = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M")
    assert rows(reader.page("audit", until=minute)) > 0, "the minute of the end belongs to it"
    assert rows(reader.page("audit", until="2026-01-01T00:00")) == 0


def test_an_event_is_shown_as_hashed_on_every_page(stage):
    approval = stage.approval(stage.propose())
    page = visitor(stage, "reviewer").page(f"events/{approval.id}/1")
    assert "Envelope, as hashed" in page
    assert "Approval requested" in words(page)
    assert "not yet sealed" in page
    assert visitor(stage, "reviewer").get(f"events/{approval.id}/9").status_code == 404


def test_the_audit_log_is_open_to_compliance_and_administrators(stage):
    member = stage.person("operator")
    for role, status in (("compliance", 200), ("administrator", 200), ("reviewer", 403), ("operator", 403)):
        person = visitor(stage, role)
        assert person.get("audit").status_code == status
        assert person.get("audit/sightings").status_code == status
        assert person.get(f"events/{member.id}/1").status_code == status
        assert ("/t/orchid/audit" in person.page()) is (status == 200)


# Access log


def seen_by(stage, **filters):
    return visitor(stage, "compliance", name="auditor@orchid").page("audit/sightings", **filters)


@pytest.mark.req("R-UI-12")
def test_opened_pages_are_recorded(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    for path in (f"actions/{case.action_id}", f"cases/{case.id}", f"approvals/{stage.approval(case.action_id).id}"):
        operator.page(path)
    page = seen_by(stage, thing=str(case.action_id))
    assert rows(page) == 3, "what belongs to the action is found with it"
    assert words(page).count("Operator") > 2
    assert rows(seen_by(stage, thing=str(case.id))) == 1
    assert rows(seen_by(stage, who=str(stage.person("operator").actor_id), kind="case")) == 1
    assert rows(seen_by(stage, who=str(stage.person("reviewer").actor_id))) == 0


def test_opening_a_page_again_soon_is_recorded_once(stage):
    action_id = stage.propose()
    operator = visitor(stage, "operator")
    for _ in range(3):
        operator.page(f"actions/{action_id}")
    operator.fragment(f"actions/{action_id}")
    assert rows(seen_by(stage, thing=str(action_id))) == 1
    visitor(stage, "reviewer").page(f"actions/{action_id}")
    assert rows(seen_by(stage, thing=str(action_id))) == 2


def test_a_missing_page_is_not_recorded_as_seen(stage):
    visitor(stage, "operator").get(f"actions/{stage.tenant}")
    assert rows(seen_by(stage)) == 0


@pytest.mark.req("R-LE-21")
def test_opening_evidence_is_recorded_as_an_event_of_that_person(stage):
    from ledger.actions.queries import actions
    from ledger.record.queries import events, evidence

    action_id = stage.done()
    with tenancy(stage.tenant):
        raw = next(each for each in evidence.evidence_of(stage.tenant, action_id) if each.purpose == "raw_output")
        before = actions.action(stage.tenant, action_id).seq
    operator, auditor = visitor(stage, "operator"), visitor(stage, "compliance")
    operator.page(f"evidence/{raw.id}")
    for _ in range(2):
        auditor.page(f"evidence/{raw.id}")
    with tenancy(stage.tenant):
        place = stage.person("compliance")
        (event, _, detail) = events.history(stage.tenant, place.id)[-1]
        assert actions.action(stage.tenant, action_id).seq == before, "a reader never writes to what is read"
        assert len(events.history(stage.tenant, place.id)) == 2, "twice in a quarter of an hour is once"
        assert len(events.history(stage.tenant, stage.person("operator").id)) == 1, "what was withheld was not opened"
    assert (event.kind, event.actor_id) == ("evidence_opened", place.actor_id)
    assert detail == {"pointer": str(raw.id), "purpose": "raw_output", "subject_id": str(action_id)}
    assert rows(auditor.page("audit", kind="evidence_opened")) == 1


def test_an_access_record_cannot_be_changed(stage):
    from django.db import DatabaseError, transaction

    visitor(stage, "operator").page(f"actions/{stage.propose()}")
    for change in ("UPDATE console_sighting SET at = now()", "DELETE FROM console_sighting"):
        with tenancy(stage.tenant), pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(change)


@pytest.mark.parametrize("odd", [" ", ":", "1e400", "2147483648", "0190b5a4-0000-7000-8000-000000000001.x"])
def test_an_invalid_cursor_shows_the_first_page(stage, odd):
    stage.propose()
    person = visitor(stage, "compliance")
    for page in ("audit", "audit/sightings"):
        assert person.get(page, before=odd).status_code == 200


@pytest.mark.req("R-UI-12")
def test_events_are_filtered_by_object_with_suggestions_and_exported_as_a_table(stage):
    first, second = stage.propose(order_id="EX-CCC1"), stage.propose(order_id="EX-DDD2")
    reader = visitor(stage, "compliance")
    page = reader.page("audit", action="ccc1")
    assert f"/events/{first}/1" in page
    assert str(second) not in page
    offered = reader.page("audit/objects", action="ccc1")
    assert '<option value="order/EX-CCC1">Target</option>' in offered
    table = reader.page("audit.csv", action="ccc1").splitlines()
    assert table[0].startswith("Id,Event,Object,Object kind,Object id,By,New state,Earlier state,When,")
    assert all(",Refund order EX-CCC1," in line for line in table[1:])
    assert len(table) == rows(page) + 1
    seen = words(reader.page("audit/sightings"))
    assert f"CSV of events {reader.slug}" not in seen
    assert "CSV of events" in seen
    assert reader.page("sightings.csv").startswith("Id,Who,Object,Object id,When")


def test_cases_and_incidents_are_exported_as_tables(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    table = operator.page("cases.csv").splitlines()
    assert [line.split(",")[0] for line in table] == ["Id", str(case.id)]
    assert operator.page("incidents.csv").splitlines()[0] == (
        "Id,Severity,Incident,Category,Kind,Affected,Freezes,Opened,State,Closed"
    )
    assert operator.get("audit.csv").status_code == 403


@pytest.mark.req("R-UI-12")
def test_the_access_log_and_the_events_name_what_they_are_about(stage):
    case = stage.case()
    with tenancy(stage.tenant):
        action = actions.action(stage.tenant, case.action_id)
    title = action_title(action.operation_kind, action.target)
    operator, reader = visitor(stage, "operator"), visitor(stage, "compliance")
    for path in (f"cases/{case.id}", f"actions/{case.action_id}"):
        operator.page(path)
    visitor(stage, "reviewer").page(f"actions/{case.action_id}/narrative")
    page = reader.page("audit/sightings")
    for kind in ("Case", "Action", "Narrative"):
        assert f"{kind} {title}" in words(page), kind
    assert str(case.id) not in words(page)
    assert f",Case {title}," in reader.page("sightings.csv")
    assert f"Case {title}" in words(reader.page("audit", kind="case_opened"))
    assert "Person Operator" in words(reader.page("audit", about="member"))
    assert "Policy approval 1" in words(reader.page("audit", about="policy"))


@pytest.mark.req("R-UI-12")
def test_the_access_log_is_filtered_by_the_name_of_an_object(stage):
    first, second = stage.propose(order_id="EX-AAA1"), stage.propose(order_id="EX-BBB2")
    operator = visitor(stage, "operator")
    for each in (first, second):
        operator.page(f"actions/{each}")
    page = seen_by(stage, thing="aaa1")
    assert rows(page) == 1
    assert "Refund order EX-AAA1" in words(page)
    offered = visitor(stage, "compliance").page("audit/objects", thing="aaa1")
    assert '<option value="order/EX-AAA1">Target</option>' in offered
    assert rows(seen_by(stage, thing="nothing-of-it")) == 0


def test_a_kind_of_object_narrows_the_events_that_are_offered_and_found(stage):
    stage.propose()
    reader = visitor(stage, "compliance")
    page = reader.page("audit", about="approval")
    assert '<option value="approval_requested">' in page
    assert '<option value="proposed">' not in page
    found = words(page.split("<tbody>")[1])
    assert "Approval requested" in found
    assert "Action proposed" not in found
    assert rows(reader.page("audit", about="approval", kind="proposed")) == 0
    assert '<option value="proposed" selected>' in reader.page("audit", about="approval", kind="proposed")
