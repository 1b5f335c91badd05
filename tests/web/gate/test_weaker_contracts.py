"""One operator's key takes approval off no tool: a weaker version waits for a second person, and is named by agents."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from console.models import Membership
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from ledger.models import Action
from ledger.record.queries import events
from tests.support.api_tenant import DELETE, PASSWORD, Workshop, contract
from tests.support.browser_users import Visitor, words
from tests.support.callers import Api, new_client, person_for

REASON = "The shop asked for it."
TOOL = "delete_document"


def weaker(**changes: Any) -> dict[str, Any]:
    """The tool with fewer words that claim that it was done, and a reason that may be shorter."""
    document = contract(TOOL) | {"version": "1.1.0", "claims": {"done": ["deleted"], "object": ["document", "file"]}}
    document["arguments_schema"]["properties"]["reason"]["minLength"] = 1
    return document | changes


def administrator_of(shop: Workshop, name: str = "ada@orchid") -> Api:
    """The administrator of that name; the same name is the same person."""
    known = Membership.objects.filter(tenant_id=shop.tenant, user__username=name).first()
    if known is None:
        return person_for(shop.tenant, "administrator", name=name)
    client = new_client()
    client.force_login(known.user, backend="console.accounts.sign_in.sessions.PasswordBackend")
    return Api(client, {})


def send(shop: Workshop, **changes: Any) -> Any:
    return shop.operator_key.post("/contracts", weaker(**changes))


def confirm(shop: Workshop, version: str = "1.1.0", name: str = "ada@orchid", **body: Any) -> Any:
    administrator = administrator_of(shop, name)
    word = {"confirm": True, "reason": REASON, "password": PASSWORD}
    return administrator.post(f"/contracts/{TOOL}/{version}/answer", word | body)


def disclosed(shop: Workshop) -> dict[str, str]:
    """The version of each tool that a new session is shown."""
    tools = shop.session()["contract"]["tools"]
    return {each["name"]: each["version"] for each in tools}


def test_a_weaker_version_waits_and_is_disclosed_to_nobody(shop: Workshop):
    """The attack: one operator's key sends a version without approval, and proposes under it."""
    sent = send(shop)
    assert (sent.status_code, sent.json()["state"], sent.json()["compared_with"]) == (201, "PENDING", "1.0.0")
    said = [each["detail"] for each in sent.json()["weakens"]]
    assert "A claim in these words is no longer recognised: removed." in said
    assert len(said) == 2
    assert disclosed(shop)[TOOL] == "1.0.0"
    with tenancy(shop.tenant):
        assert actions.action(shop.tenant, UUID(shop.propose())).tool_version == "1.0.0"


def test_a_waiting_version_is_not_disclosed_by_registering_or_naming_it_again(shop: Workshop):
    send(shop)
    assert send(shop).json()["state"] == "PENDING"
    named = {"agent_id": "librarian", "version": "2", "tools": [TOOL], "versions": {TOOL: "1.1.0"}}
    assert shop.operator_key.post("/agents", named).status_code == 201
    assert TOOL not in disclosed(shop)


def test_the_database_refuses_an_action_under_a_waiting_version(shop: Workshop, monkeypatch: Any):
    """Whatever the code above it forgets: here the session was shown the version all the same."""
    send(shop)

    def careless(tenant_id: Any, names: Any, **_: Any) -> Any:
        return {TOOL: catalogue_queries.contract_version(tenant_id, TOOL, "1.1.0")}

    monkeypatch.setattr(catalogue_queries, "newest_contracts", careless)
    session = shop.session(tools=[TOOL])
    assert session["contract"]["tools"][0]["version"] == "1.1.0"
    call = {"call_id": "c1", "tool": TOOL, "arguments": DELETE, "pin_hash": session["pin"]["hash"]}
    answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]})
    assert b'accepted":true' not in answer.content
    assert Action.objects.count() == 0


def test_no_key_can_confirm_a_weaker_version(shop: Workshop):
    send(shop)
    word = {"confirm": True, "reason": REASON, "password": PASSWORD}
    for key in (shop.operator_key, shop.agent, shop.executor):
        assert key.post(f"/contracts/{TOOL}/1.1.0/answer", word).status_code == 403
    assert disclosed(shop)[TOOL] == "1.0.0"


def test_a_second_person_needs_proof_and_a_reason_to_confirm_it(shop: Workshop):
    send(shop)
    refused = confirm(shop, password=None)
    assert (refused.status_code, refused.json()["code"]) == (403, "STEP_UP_REQUIRED")
    assert confirm(shop, password="guessed").status_code == 403
    for role in ("reviewer", "compliance"):
        person = person_for(shop.tenant, role, name=f"{role}@orchid")
        word = {"confirm": True, "reason": REASON, "password": PASSWORD}
        assert person.post(f"/contracts/{TOOL}/1.1.0/answer", word).status_code == 403
    done = confirm(shop)
    assert (done.status_code, done.json()["state"]) == (200, "REGISTERED")
    assert confirm(shop).json()["code"] == "NOTHING_PROPOSED"


def test_the_sender_cannot_confirm_with_another_account(shop: Workshop):
    ada = administrator_of(shop)
    assert ada.post("/contracts", weaker()).json()["state"] == "PENDING"
    refused = confirm(shop)
    assert (refused.status_code, refused.json()["code"]) == (403, "SECOND_PERSON_NEEDED")
    assert (
        refused.json()["detail"]
        == "Another person must confirm this; you cannot confirm your own proposal, or one about you, from any account."
    )
    administrator_of(shop, "alt@orchid")
    first, second = (Membership.objects.get(user__username=name) for name in ("ada@orchid", "alt@orchid"))
    ada.post(f"/members/{first.id}/links", {"member_id": str(second.id)})
    assert confirm(shop, name="alt@orchid").json()["code"] == "SECOND_PERSON_NEEDED"
    assert confirm(shop, name="ben@orchid").status_code == 200


def test_a_confirmed_version_is_disclosed_only_to_the_agents_that_name_it(shop: Workshop):
    send(shop)
    confirm(shop)
    assert disclosed(shop)[TOOL] == "1.0.0"
    for version, wanted, shown in (
        ("2", "1.1.0", "1.1.0"),
        ("3", "1.x", "1.1.0"),
        ("4", "1.0.x", "1.0.0"),
        ("5", "*", "1.1.0"),
    ):
        named = {"agent_id": "librarian", "version": str(version), "tools": [TOOL], "versions": {TOOL: wanted}}
        assert shop.operator_key.post("/agents", named).status_code == 201
        assert disclosed(shop)[TOOL] == shown, wanted
    bad = {"agent_id": "librarian", "version": "6", "tools": [TOOL], "versions": {TOOL: "latest version"}}
    assert shop.operator_key.post("/agents", bad).json()["code"] == "BAD_RANGE"


def test_a_version_as_strong_as_before_becomes_the_default(shop: Workshop):
    send(shop)
    confirm(shop)
    strong = contract(TOOL) | {"version": "1.2.0"}
    assert shop.operator_key.post("/contracts", strong).json()["state"] == "REGISTERED"
    assert disclosed(shop)[TOOL] == "1.2.0"


def test_a_waiting_version_is_never_the_basis_of_a_comparison(shop: Workshop):
    """Each version is compared with the one in force, not with the one that waits."""
    assert send(shop, version="1.1.0").json()["state"] == "PENDING"
    again = send(shop, version="1.1.1").json()
    assert (again["state"], again["compared_with"]) == ("PENDING", "1.0.0")


def test_a_declined_version_is_never_used(shop: Workshop):
    send(shop)
    assert confirm(shop, confirm=False, reason="Nobody asked for it.").json()["state"] == "DECLINED"
    assert confirm(shop).json()["code"] == "NOTHING_PROPOSED"
    assert send(shop).json()["state"] == "DECLINED"
    named = {"agent_id": "librarian", "version": "2", "tools": [TOOL], "versions": {TOOL: "*"}}
    shop.operator_key.post("/agents", named)
    assert disclosed(shop)[TOOL] == "1.0.0"


def test_every_step_is_recorded_with_the_weakenings(shop: Workshop):
    send(shop)
    confirm(shop)
    with tenancy(shop.tenant):
        row = catalogue_queries.contract_version(shop.tenant, TOOL, "1.1.0")
        told = [(event.kind, event.state, detail) for event, _, detail in events.history(shop.tenant, row.id)]
    assert [each[:2] for each in told] == [("contract_proposed", "PENDING"), ("contract_confirmed", "REGISTERED")]
    assert told[0][2]["compared_with"] == "1.0.0"
    assert told[1][2]["reason"] == REASON
    assert told[0][2]["weakens"] == told[1][2]["weakens"] == row.weakens != []


def test_the_page_lists_the_weakenings_and_takes_the_decision_of_the_second_person(shop: Workshop):
    send(shop)
    ada = Visitor(administrator_of(shop).client, shop.slug)
    assert "weaker, requires second approver" in words(ada.page("contracts"))
    page = words(ada.page(f"contracts/{TOOL}/1.1.0"))
    assert "Weaker than 1.0.0" in page
    assert "A claim in these words is no longer recognised: removed." in page
    assert "Not used until a second person confirms it" in page
    asked = ada.post(f"contracts/{TOOL}/1.1.0/answer", to="confirm", reason=REASON)
    assert asked.status_code == 403
    assert "Confirm with your password or a one-time code." in words(asked.content.decode())
    assert REASON in asked.content.decode()
    ada.post(f"contracts/{TOOL}/1.1.0/answer", to="confirm", reason=REASON, password=PASSWORD)
    after = words(ada.page(f"contracts/{TOOL}/1.1.0"))
    assert "Confirmed. It applies to agents registered for this version or its range." in after


def test_administrators_and_operators_are_notified_of_a_weaker_version(shop: Workshop):
    from datetime import UTC, datetime

    from console.notifications import collect

    ada = administrator_of(shop)
    send(shop)
    collect.collect_notices(tenant_of(shop), at=datetime.now(UTC))
    said = words(Visitor(ada.client, shop.slug).page("notices"))
    assert "Weaker contract version requires a second approver" in said


def tenant_of(shop: Workshop) -> Any:
    return events.tenant(shop.slug)


def test_the_linter_compares_with_the_version_in_force(shop: Workshop):
    from console.contracts import contract_check
    from console.management.commands import lint_contract

    found = lint_contract._findings(contract_check.validate_contract(weaker()), shop.tenant)
    said = {each.code: each.told for each in found}
    assert said["CLAIMS_DROPPED"] == (
        "A claim in these words is no longer recognised: removed."
        " It waits for a second person once it is sent; it is compared with version 1.0.0."
    )
    lower = contract_check.validate_contract(weaker(side_effect_class="LOW_RISK_INTERNAL"))
    said = {each.code: each.told for each in lint_contract._findings(lower, shop.tenant)}
    assert said["CLASS_LOWERED"] == (
        "Its class falls from MEDIUM_RISK_WRITE to LOW_RISK_INTERNAL."
        " It changes what is verified and needs a release; it is compared with version 1.0.0."
    )
    assert "CLAIMS_DROPPED" not in {
        each.code for each in lint_contract._findings(contract_check.validate_contract(weaker()), None)
    }


def test_a_stronger_version_is_registered_at_once(shop: Workshop):
    document = contract(TOOL) | {"version": "1.1.0", "approval_required": True}
    assert shop.operator_key.post("/contracts", document).json()["state"] == "REGISTERED"
    assert disclosed(shop)[TOOL] == "1.1.0"
