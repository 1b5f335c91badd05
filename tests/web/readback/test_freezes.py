"""A freeze stops something that exists, or somebody has said twice that it is to be stopped beforehand."""

from __future__ import annotations

import pytest

from ledger.actions.queries import freezes
from ledger.db import tenancy
from tests.support.browser_users import visitor, words
from tests.support.callers import key_for, person_for

REASON = "Somebody is careless."
ASKED = "No action and no case here has ever named this target"


def in_force(stage):
    with tenancy(stage.tenant):
        return [(each.scope, each.value) for each in freezes.freezes_in_force(stage.tenant)]


@pytest.mark.parametrize(
    ("scope", "value", "said"),
    [
        ("agent", "ghost", "No agent of this name is registered here. Nothing was frozen."),
        ("tool", "ghost", "No tool of this name is registered here. Nothing was frozen."),
        ("tenant", "elsewhere", "A freeze of this tenant or of everything has no name"),
        ("all", "prod", "A freeze of this tenant or of everything has no name"),
        ("tool", "", "Say what is to be frozen: its name, exactly."),
    ],
)
def test_what_does_not_exist_is_not_frozen(stage, scope, value, said):
    for sure in ({}, {"unknown_ok": "on"}):
        answer = visitor(stage, "operator").post("freezes/place", scope=scope, value=value, reason=REASON, **sure)
        assert answer.status_code == 422
        assert said in words(answer.content.decode())
    operator = key_for(stage.tenant, "oper")
    body = {"scope": scope, "value": value, "reason": REASON, "unknown_ok": True}
    refused = operator.post("/freezes", body)
    assert refused.status_code == (409 if value == "ghost" else 422)
    assert refused.json()["detail"].startswith(said[:40])
    assert in_force(stage) == []


def test_a_target_that_nothing_has_named_is_asked_about_and_frozen_at_the_second_yes(stage):
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


def test_a_program_is_asked_the_same(stage):
    operator = key_for(stage.tenant, "oper")
    body = {"scope": "target", "value": "order/unheard-of", "reason": REASON}
    refused = operator.post("/freezes", body)
    assert (refused.status_code, refused.json()["code"]) == (409, "TARGET_UNKNOWN")
    assert refused.json()["detail"].startswith(ASKED)
    assert "unknown_ok" in refused.json()["hint"]
    assert operator.post("/freezes", body | {"unknown_ok": True}).status_code == 201


def test_what_is_known_is_frozen_at_the_first_yes(stage):
    case, operator = stage.case(), key_for(stage.tenant, "oper")
    with tenancy(stage.tenant):
        from ledger.actions.queries import actions

        action = actions.action(stage.tenant, case.action_id)
    for scope, value in (("target", action.target), ("tool", action.tool), ("agent", action.agent), ("all", "")):
        assert operator.post("/freezes", {"scope": scope, "value": value, "reason": REASON}).status_code == 201


def test_an_incident_contains_nothing_that_does_not_exist(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    operator.post("incidents/new", title="Odd", kind="operations", severity="2", reason="Look.", case=str(case.id))
    with tenancy(stage.tenant):
        from reviews import queries

        incident = queries.incidents(stage.tenant)[0]
    refused = operator.post(f"incidents/{incident.id}/contain", scope="agent", value="ghost", reason=REASON)
    assert refused.status_code == 422
    assert "No agent of this name is registered here. Nothing was frozen." in words(refused.content.decode())
    assert in_force(stage) == []


def test_lifting_says_before_and_after_what_is_still_open(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    operator.post("freezes/place", scope="target", value=case.target, reason=REASON)
    before = operator.page("freezes")
    assert "still open:" in words(before)
    assert f'href="/t/{stage.slug}/cases/{case.id}"' in before
    with tenancy(stage.tenant):
        freeze = freezes.freezes_in_force(stage.tenant)[0]
    operator.post(f"freezes/{freeze.id}/lift", reason="Looked at it.")
    after = words(operator.page("freezes"))
    assert "Lifted. New actions can start again. Still open:" in after
    assert f"{case.tool} on {case.target}" in after


def test_lifting_says_that_nothing_is_open(stage):
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


def test_a_program_hears_what_is_still_open(stage):
    case = stage.case()
    operator = person_for(stage.tenant, "operator")
    placed = operator.post("/freezes", {"scope": "tool", "value": case.tool, "reason": REASON}).json()
    open_work = {"incidents": [], "cases": [str(case.id)]}
    assert operator.get("/freezes").json()["items"][0]["still_open"] == open_work
    lifted = operator.post(f"/freezes/{placed['freeze_id']}/lift", {"reason": "Looked at it."}).json()
    assert lifted["still_open"] == open_work
