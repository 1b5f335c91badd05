"""Incidents, freezes and runbooks on their pages."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone

from ledger.actions.queries import freezes
from ledger.catalogue.rules.targets import target_text
from ledger.db import tenancy
from ledger.record.queries import events
from reviews import queries
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules.incidents import IncidentKind, Severity
from tests.support.browser_users import visitor, words

NOTE = "The executor sends its key now."


def incident_of(stage, case):
    with tenancy(stage.tenant):
        return queries.incidents_of(stage.tenant, case.id)[0]


@pytest.mark.req("R-RB-04", "R-RB-09", "R-UI-17", "R-RP-49")
def test_a_duplicate_opens_an_incident_with_its_case_and_its_freeze(stage):
    case = stage.case(count=2)
    row = incident_of(stage, case)
    operator = visitor(stage, "operator")
    assert str(row.id) in operator.page("incidents")
    said = words(operator.page(f"incidents/{row.id}"))
    for part in ("Duplicate side effect", "High", "Operations incident", "1 action, 1 case", "Target", "Runbook"):
        assert part in said, part
    assert "Duplicate effect" in said
    assert f"incidents/{row.id}" in operator.page(f"cases/{case.id}")


@pytest.mark.req("R-RB-03", "R-RP-42", "R-RP-43")
def test_a_wrong_target_opens_a_security_incident_and_stops_both_targets(stage):
    case = stage.case(hit="EX-OTHER")
    said = words(visitor(stage, "operator").page(f"incidents/{incident_of(stage, case).id}"))
    for part in ("Wrong target modified", "Security incident", "Wrong target changed", "freezes in force"):
        assert part in said, part


@pytest.mark.req("R-RB-10")
def test_closing_an_incident_requires_a_decision_about_each_freeze(stage):
    row = incident_of(stage, stage.case(count=2))
    operator = visitor(stage, "operator")
    with tenancy(stage.tenant):
        freeze = queries.freezes_held(row)[0]
    found = rf"Duplicate side effect: issue_refund on {re.escape(target_text(freeze.value))}, found by verification\."
    assert re.fullmatch(found, freeze.reason), freeze.reason
    assert operator.post(f"incidents/{row.id}/close", note=NOTE).status_code == 400
    assert operator.post(f"incidents/{row.id}/close", note=NOTE, **{f"freeze-{freeze.id}": "thaw"}).status_code == 400
    assert operator.post(f"incidents/{row.id}/close", **{f"freeze-{freeze.id}": "lift"}).status_code == 422
    operator.post(f"incidents/{row.id}/close", note=NOTE, **{f"freeze-{freeze.id}": "keep"})
    assert NOTE in operator.page(f"incidents/{row.id}")
    assert str(row.id) in operator.page("incidents", tab="closed")
    with tenancy(stage.tenant):
        assert freezes.freezes_in_force(stage.tenant)
    operator.post(f"incidents/{row.id}/reopen", reason="Another one.")
    assert str(row.id) in operator.page("incidents")


def test_an_incident_is_opened_manually_from_a_case_and_contained(stage):
    case, other = stage.case(), stage.case()
    operator = visitor(stage, "operator")
    assert "No-op failure: issue_refund" in operator.page("incidents/new", case=str(case.id))
    fields = {"title": "Refunds vanish", "kind": "operations", "severity": "4", "reason": "Two in an hour."}
    answer = operator.post("incidents/new", case=str(case.id), **fields)
    path = answer["Location"].removeprefix(f"/t/{stage.slug}/")
    operator.post(f"{path}/contain", scope="tool", value="issue_refund", reason="Until it is clear.")
    operator.post(f"{path}/join", what=f"http://localhost/t/x/cases/{other.id}")
    operator.post(f"{path}/comments", text="I called them.")
    said = words(operator.page(path))
    for part in ("Critical", "2 actions, 2 cases", "1 freeze in force", "I called them.", "Two in an hour."):
        assert part in said, part
    assert operator.post(f"{path}/join", what="nothing").status_code == 422
    assert operator.post(f"{path}/contain", scope="tool", value="", reason="So.").status_code == 422
    assert "Refunds vanish" in operator.page("freezes")
    assert operator.post("incidents/new", title="").status_code == 422
    for role in ("reviewer", "compliance"):
        assert visitor(stage, role).post(f"{path}/close", note=NOTE).status_code == 403
        assert visitor(stage, role).post(f"{path}/contain", scope="all", reason="So.").status_code == 403


def test_the_postmortem_is_exported_and_the_export_recorded(stage):
    row = incident_of(stage, stage.case(count=2))
    operator = visitor(stage, "operator")
    operator.post(f"incidents/{row.id}/steps", runbook="duplicate", step="count", done="yes", evidence="12 and 13")
    page = words(operator.page(f"incidents/{row.id}/post-mortem"))
    assert "12 and 13" in page
    answer = operator.post(f"incidents/{row.id}/post-mortem/export", format="md")
    told = answer.content.decode()
    assert f"incident-{row.id}.md" in answer["Content-Disposition"]
    with tenancy(stage.tenant):
        history = events.history(stage.tenant, row.id)
    for event, _, _ in history[:-1]:
        assert f"{event.seq}, {bytes(event.entry_hash).hex()[:16]}" in told
    assert history[-1][0].kind == "post_mortem_exported"
    whole = operator.post(f"incidents/{row.id}/post-mortem/export", format="html").content.decode()
    assert whole.startswith("<!doctype html>")
    assert re.findall(r"<script|<link|src=", whole) == []
    assert operator.post(f"incidents/{row.id}/post-mortem/export", format="exe").status_code == 404
    assert visitor(stage, "reviewer").post(f"incidents/{row.id}/post-mortem/export").status_code == 403


@pytest.mark.req("R-UI-17", "R-RP-48")
def test_freezes_are_placed_and_lifted_with_a_reason_and_list_what_waits(stage):
    stage.propose()
    operator = visitor(stage, "operator")
    operator.post("freezes/place", scope="tool", value="issue_refund", reason="Look first.")
    said = words(operator.page("freezes"))
    for part in ("issue_refund", "Look first.", "by Operator", "1 queued action"):
        assert part in said, part
    with tenancy(stage.tenant):
        freeze = freezes.freezes_in_force(stage.tenant)[0]
    assert visitor(stage, "reviewer").post(f"freezes/{freeze.id}/lift", reason="So.").status_code == 403
    operator.post(f"freezes/{freeze.id}/lift", reason="")
    assert words(operator.page("freezes")).count("No active freeze") == 0
    operator.post(f"freezes/{freeze.id}/lift", reason="Looked.")
    after = words(operator.page("freezes"))
    assert "No active freeze" in after
    assert "lifted by Operator" in after
    assert "Looked." in after


@pytest.mark.req("R-RB-12", "R-RP-41", "R-UI-27")
def test_all_runbooks_and_the_strategies_are_on_one_page(stage):
    page = visitor(stage, "reviewer").page("runbooks")
    said = words(page)
    for part in (
        *("Reported success without an effect", "Wrong target changed", "Compensation failed"),
        *("A system of record cannot be read", "Too many calls to unknown tools", "The structural fix"),
        *("Atomic rollback", "Saga compensation", "Fail closed hold", "Never blind retry"),
    ):
        assert part in said, part
    assert 'id="stuck-pending"' in page


@pytest.mark.req("R-CG-20")
def test_incidents_have_a_taxonomy_part_and_can_be_filtered_by_it(shop):
    def opened(runbook):
        body = {"title": f"About {runbook}", "kind": "operations", "severity": 2, "runbook": runbook, "reason": "Seen."}
        answer = shop.operator.post("/incidents", body)
        assert answer.status_code == 201, answer.content
        return answer.json()

    for book, tag in (
        ("phantom-action", "PHANTOM_ACTION"),
        ("false-success", "MISREAD_SUCCESS"),
        ("stale-state", "STALE_STATE_ACTION"),
        ("imagined-capability", "IMAGINED_CAPABILITY"),
        ("silent-chain", "SILENT_CHAIN_FAILURE"),
        ("duplicate", None),
    ):
        assert opened(book)["tag"] == tag
    with tenancy(shop.tenant):
        cause = incidents_operations.open_for_cause(
            tenant_id=shop.tenant,
            title="Invented tools",
            kind=IncidentKind.OPERATIONS,
            severity=Severity.LOW,
            about="phantom:librarian",
            at=timezone.now(),
        )
    for api in (shop.operator_key, shop.operator):
        found = api.get("/incidents?tag=PHANTOM_ACTION").json()["items"]
        assert {each["title"] for each in found} == {"About phantom-action", "Invented tools"}
        assert {each["tag"] for each in found} == {"PHANTOM_ACTION"}
    assert len(shop.operator.get("/incidents").json()["items"]) == 7
    assert shop.operator.get("/incidents?tag=NONE_OF_THEM").json()["items"] == []
    page = shop.operator.client.get(f"/t/{shop.slug}/incidents?tag=PHANTOM_ACTION").content.decode()
    assert str(cause.id) in page
    assert "About phantom-action" in page
    assert "About silent-chain" not in page
    assert "Phantom action" in page
