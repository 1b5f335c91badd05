"""A freeze stops something that exists, or somebody has said twice that it is to be stopped beforehand."""

from __future__ import annotations

import pytest

from ledger.actions.queries import freezes
from ledger.db import tenancy
from tests.support.browser_users import visitor, words
from tests.support.callers import key_for, person_for

REASON = "Somebody is careless."
SYSTEM = "shop"
ASKED = "No action or case here has named this target"


def in_force(stage):
    with tenancy(stage.tenant):
        return [(each.scope, each.value) for each in freezes.freezes_in_force(stage.tenant)]


@pytest.mark.parametrize(
    ("scope", "value", "said"),
    [
        ("tenant", "elsewhere", "A freeze of this tenant or of everything has no name"),
        ("tool", "", "Enter the exact name of what to freeze."),
    ],
)
def test_an_impossible_freeze_is_refused(stage, scope, value, said):
    for sure in ({}, {"unknown_ok": "on"}):
        answer = visitor(stage, "operator").post("freezes/place", scope=scope, value=value, reason=REASON, **sure)
        assert answer.status_code == 422
        assert said in words(answer.content.decode())
    operator = key_for(stage.tenant, "oper")
    body = {"scope": scope, "value": value, "reason": REASON, "unknown_ok": True}
    refused = operator.post("/freezes", body)
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(said[:40])
    assert in_force(stage) == []


def test_a_frozen_tenant_is_told_of_on_every_page_in_words(stage):
    operator = visitor(stage, "operator")
    operator.post("freezes/place", what="tenant:", reason="The shop moves")
    said = words(operator.page("actions"))
    assert "Frozen: everything in this tenant. No new actions start; placed" in said
    assert "Reason: The shop moves" in said
    assert "Tenant everything in it The shop moves" in words(operator.page("freezes"))


@pytest.mark.parametrize(
    ("scope", "asked", "placed"),
    [
        (
            "agent",
            "No agent with this name is registered here. Nothing was frozen.",
            "Frozen. No agent is registered as ghost yet; actions of one that is will not be released.",
        ),
        (
            "tool",
            "No tool with this name is registered here. Nothing was frozen.",
            "Frozen. No tool is registered as ghost yet; actions of one that is will not be released.",
        ),
    ],
)
def test_an_unknown_name_is_frozen_after_a_second_confirmation(stage, scope, asked, placed):
    operator, program = visitor(stage, "operator"), key_for(stage.tenant, "oper")
    first = operator.post("freezes/place", scope=scope, value="ghost", reason=REASON)
    assert first.status_code == 422
    assert f"{asked} Check the spelling, or tick “Freeze anyway”." in words(first.content.decode())
    refused = program.post("/freezes", {"scope": scope, "value": "ghost", "reason": REASON})
    assert (refused.status_code, refused.json()["code"], refused.json()["detail"]) == (409, "NOT_REGISTERED", asked)
    assert in_force(stage) == []
    operator.post("freezes/place", scope=scope, value="ghost", reason=REASON, unknown_ok="on")
    assert in_force(stage) == [(scope, "ghost")]
    assert placed in words(operator.page("freezes"))


def test_the_page_lists_existing_names_by_kind(stage):
    case = stage.case()
    page = visitor(stage, "operator").page("freezes")
    assert f'<option value="target:{case.target}">' in page
    assert f'<option value="tool:{case.tool}">' in page
    assert f'<option value="system:{SYSTEM}">' in page
    groups = [part.split('"')[0] for part in page.split('<optgroup label="')[1:]]
    assert groups == ["Agents", "Tools", "Systems, with every tool verified in them", "Targets of recent actions"]
    assert "optgroup" not in visitor(stage, "reviewer").page("freezes")


def test_freezing_a_system_freezes_the_tools_that_are_verified_in_it(stage):
    operator = visitor(stage, "operator")
    operator.post("freezes/place", what=f"system:{SYSTEM}", reason=REASON)
    assert in_force(stage) == [("tool", "issue_refund")]
    said = words(operator.page("freezes"))
    assert "Frozen: issue_refund, the tool verified in shop. New actions are blocked; running actions finish." in said
    assert "Tools registered later are not frozen." in said
    again = operator.post("freezes/place", what=f"system:{SYSTEM}", reason=REASON)
    assert "Every tool that is verified in shop is already frozen." in words(again.content.decode())
    ghost = operator.post("freezes/place", scope="system", value="ghost", reason=REASON)
    assert "No contract in force is verified in a system of this name" in words(ghost.content.decode())


def test_a_choice_together_with_a_typed_name_is_refused(stage):
    sent = {"what": "tenant:", "scope": "tool", "value": "ghost", "reason": REASON}
    refused = visitor(stage, "operator").post("freezes/place", **sent)
    assert "Choose from the list or type a name, not both." in words(refused.content.decode())
    assert "Choose what to freeze." in words(
        visitor(stage, "operator").post("freezes/place", reason=REASON).content.decode()
    )
    assert in_force(stage) == []


def test_an_unknown_target_is_frozen_after_a_second_confirmation(stage):
    operator = visitor(stage, "operator")
    first = operator.post("freezes/place", scope="target", value="order/unheard-of", reason=REASON)
    page = first.content.decode()
    assert first.status_code == 422
    assert ASKED in words(page)
    assert 'name="unknown_ok"' in page
    assert 'value="order/unheard-of"' in page
    assert in_force(stage) == []
    sent = {"scope": "target", "value": "order/unheard-of", "reason": REASON, "unknown_ok": "on"}
    operator.post("freezes/place", **sent)
    assert in_force(stage) == [("target", "order/unheard-of")]
    said = words(operator.page("freezes"))
    assert "No action has named order/unheard-of yet; one that does will not be released." in said


def test_the_api_requires_a_confirmation_for_an_unknown_target_too(stage):
    operator = key_for(stage.tenant, "oper")
    body = {"scope": "target", "value": "order/unheard-of", "reason": REASON}
    refused = operator.post("/freezes", body)
    assert (refused.status_code, refused.json()["code"]) == (409, "TARGET_UNKNOWN")
    assert refused.json()["detail"].startswith(ASKED)
    assert "unknown_ok" in refused.json()["hint"]
    assert operator.post("/freezes", body | {"unknown_ok": True}).status_code == 201


def test_a_known_name_is_frozen_at_the_first_confirmation(stage):
    case, operator = stage.case(), key_for(stage.tenant, "oper")
    with tenancy(stage.tenant):
        from ledger.actions.queries import actions

        action = actions.action(stage.tenant, case.action_id)
    for scope, value in (("target", action.target), ("tool", action.tool), ("agent", action.agent), ("all", "")):
        assert operator.post("/freezes", {"scope": scope, "value": value, "reason": REASON}).status_code == 201


def test_an_incident_cannot_freeze_something_that_does_not_exist(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    operator.post("incidents/new", title="Odd", kind="operations", severity="2", reason="Look.", case=str(case.id))
    with tenancy(stage.tenant):
        from reviews import queries

        incident = queries.incidents(stage.tenant)[0]
    refused = operator.post(f"incidents/{incident.id}/contain", what="agent:ghost", reason=REASON)
    assert refused.status_code == 422
    assert "No agent with this name is registered here. Nothing was frozen." in words(refused.content.decode())
    assert in_force(stage) == []


def test_the_page_lists_unresolved_work_before_and_after_a_lift(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    operator.post("freezes/place", scope="target", value=case.target, reason=REASON)
    before = operator.page("freezes")
    assert "Unresolved:" in words(before)
    warning = (
        "The case or incident above is still unresolved; lifting does not resolve it. New actions can start immediately"
    )
    assert warning in words(before)
    assert f'href="/t/{stage.slug}/cases/{case.id}"' in before
    with tenancy(stage.tenant):
        freeze = freezes.freezes_in_force(stage.tenant)[0]
    operator.post(f"freezes/{freeze.id}/lift", reason="Looked at it.")
    after = words(operator.page("freezes"))
    assert "Lifted. New actions can start again. Unresolved:" in after
    assert f"{case.tool} on {case.target}" in after


def test_a_lift_without_unresolved_work_says_so(stage):
    action_id = stage.propose()
    with tenancy(stage.tenant):
        from ledger.actions.queries import actions

        target = actions.action(stage.tenant, action_id).target
    operator = person_for(stage.tenant, "operator")
    placed = operator.post("/freezes", {"scope": "target", "value": target, "reason": REASON}).json()
    lifted = operator.post(f"/freezes/{placed['freeze_id']}/lift", {"reason": "Looked at it."}).json()
    assert lifted == {
        "freeze_id": placed["freeze_id"],
        "lifted": True,
        "still_open": {"incidents": [], "cases": []},
    }


def test_the_api_lists_unresolved_work_before_and_after_a_lift(stage):
    case = stage.case()
    operator = person_for(stage.tenant, "operator")
    placed = operator.post("/freezes", {"scope": "tool", "value": case.tool, "reason": REASON}).json()
    open_work = {"incidents": [], "cases": [str(case.id)]}
    assert operator.get("/freezes").json()["items"][0]["still_open"] == open_work
    lifted = operator.post(f"/freezes/{placed['freeze_id']}/lift", {"reason": "Looked at it."}).json()
    assert lifted["still_open"] == open_work


def test_home_shows_a_freeze_with_a_link_to_lift_it(stage):
    operator = visitor(stage, "operator")
    operator.post("freezes/place", what="tenant:", reason=REASON)
    said = words(operator.page())
    assert "Related cases or incidents may still be open; lifting does not resolve them." in said
