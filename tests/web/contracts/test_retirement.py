"""A version of a contract is retired with every earlier one; nobody comes to another version by it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management import call_command

from approvals.gate.queries import calls_of
from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.record.rules.canonical import digest
from tests.support.api_tenant import DELETE, PASSWORD, Workshop, contract
from tests.support.browser_users import Visitor, words

TOOL = "write_document"
WORD = {"reason": "Nobody writes documents any more.", "password": PASSWORD}


def retire(by: Any, version: str, **changes: Any) -> Any:
    return by.post(f"/contracts/{TOOL}/{version}/retirement", WORD | changes)


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def registered(shop: Workshop, version: str, **changes: Any) -> str:
    answer = shop.operator_key.post("/contracts", contract(TOOL) | {"version": version} | changes)
    assert answer.status_code == 201, answer.content
    return str(answer.json()["state"])


def states(shop: Workshop) -> dict[str, str]:
    found = shop.operator_key.get("/contracts").json()["items"]
    return {each["version"]: each["state"] for each in found if each["name"] == TOOL}


def shown_tools(shop: Workshop) -> dict[str, str]:
    return {each["name"]: each["version"] for each in shop.session()["contract"]["tools"]}


def test_retiring_an_earlier_version_retires_its_predecessors_and_keeps_agents_on_the_newest(shop: Workshop):
    person = shop.person("administrator")
    for version in ("1.1.0", "1.2.0"):
        assert registered(shop, version, next_tools=["delete_document"]) == "REGISTERED"
    assert refused(retire(shop.operator_key, "1.1.0")) == (403, "FORBIDDEN")
    assert refused(retire(person, "1.1.0", password="guessed")) == (403, "STEP_UP_REQUIRED")
    assert refused(retire(person, "1.1.0", reason=" ")) == (422, "REASON_REQUIRED")
    assert refused(retire(person, "9.9.9")) == (404, "NOT_FOUND")
    assert retire(person, "1.1.0").json()["state"] == "RETIRED"
    assert states(shop) == {"1.0.0": "RETIRED", "1.1.0": "RETIRED", "1.2.0": "REGISTERED"}
    assert shown_tools(shop)[TOOL] == "1.2.0"
    again = retire(person, "1.1.0")
    assert refused(again) == (409, "CANNOT_RETIRE")
    assert again.json()["detail"].startswith("Only a version in force can be retired.")
    assert refused(person.post(f"/contracts/{TOOL}/1.0.0/rollback", WORD)) == (409, "CANNOT_ROLL_BACK")
    call_command("verify_ledger")


def test_retiring_the_newest_version_ends_the_tool_and_stops_approved_actions(shop: Workshop):
    person, session, waiting = shop.person("operator", name="oda@retire"), shop.session(), shop.propose(TOOL)
    page = words(Visitor(person.client, shop.slug).page(f"contracts/{TOOL}/1.0.0"))
    assert "No version remains in force: agents are no longer shown the tool, and calls to it are refused." in page
    assert "1 validated action under it will not start." in page
    assert retire(person, "1.0.0").status_code == 200
    assert TOOL not in shown_tools(shop)
    assert all(each["action_id"] != waiting for each in shop.claim())
    with tenancy(shop.tenant):
        assert actions.action(shop.tenant, UUID(waiting)).state == "VALIDATED"
    call = {"call_id": "late", "tool": TOOL, "pin_hash": session["pin"]["hash"]}
    call["arguments"] = {"path": "notes/late.md", "text": "x", "sha256": digest(b"x")}
    answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]}).json()["results"][0]
    assert answer["result"]["error"]["code"] == "CAPABILITY_NOT_REGISTERED"
    assert answer["result"]["error"]["message"] == "Version 1.0.0 of `write_document` was retired."
    others = [
        {"call_id": name, "tool": "delete_document", "arguments": DELETE | {"path": f"notes/{name}.md"}}
        for name in ("before", "after")
    ]
    batch = [{"pin_hash": session["pin"]["hash"], **each} for each in (others[0], call | {"call_id": "it"}, others[1])]
    # The database alone refuses it, when it is written: it takes neither of the others with it.
    results = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": batch}).json()["results"]
    assert [each["accepted"] for each in results] == [True, False, True]
    assert results[1]["result"]["error"]["message"] == "Version 1.0.0 of `write_document` was retired."
    with tenancy(shop.tenant):
        assert [each.call_id for each in calls_of(shop.tenant, UUID(session["session_id"]))][-4:] == [
            *("late", "before", "it", "after")
        ]
    said = words(Visitor(person.client, shop.slug).page(f"contracts/{TOOL}/1.0.0"))
    assert "Retired: not used. What was proposed under it is still verified by it." in said
    call_command("verify_ledger")


def test_a_retired_tool_cannot_be_registered_again_with_less_verification(shop: Workshop):
    """One person alone takes no approval off a tool by ending it and beginning again."""
    assert retire(shop.person("administrator"), "1.0.0").status_code == 200
    looser = contract(TOOL)["verification"] | {"predicates": ["sa.size == size(bytes(sr.text))"]}
    answer = shop.operator_key.post("/contracts", contract(TOOL) | {"version": "2.0.0", "verification": looser})
    assert refused(answer) == (409, "RELEASE_REQUIRED")
    draft = shop.operator_key.post(
        "/contracts/releases?reason=Sizes%20are%20enough.",
        contract(TOOL) | {"version": "2.0.0", "verification": looser},
    )
    assert (draft.status_code, draft.json()["state"]) == (201, "DRAFT")
    assert registered(shop, "2.1.0", claims={"done": ["written"], "object": ["document"]}) == "PENDING"
    assert registered(shop, "2.2.0") == "REGISTERED"
    assert shown_tools(shop)[TOOL] == "2.2.0"


def test_a_version_that_agents_still_use_is_not_retired_alone(shop: Workshop):
    first, second = shop.person("administrator"), shop.person("operator", name="second@retire")
    assert registered(shop, "1.1.0", claims={"done": ["written"], "object": ["document"]}) == "PENDING"
    assert second.post(f"/contracts/{TOOL}/1.1.0/answer", WORD | {"confirm": True}).status_code == 200
    assert shown_tools(shop)[TOOL] == "1.0.0"
    answer = retire(first, "1.0.0")
    assert refused(answer) == (409, "CANNOT_RETIRE")
    assert answer.json()["detail"] == (
        "Agents that name no version still use this one: every later one is weaker. Retiring the newest ends the tool."
    )
    assert retire(first, "1.1.0").status_code == 200
    assert states(shop) == {"1.0.0": "RETIRED", "1.1.0": "RETIRED"}


def test_an_outdated_page_cannot_end_the_tool(shop: Workshop):
    person = Visitor(shop.person("administrator").client, shop.slug)
    assert registered(shop, "1.1.0", next_tools=["delete_document"]) == "REGISTERED"
    seen = person.page(f"contracts/{TOOL}/1.0.0")
    assert 'name="ends_tool" value="no"' in seen
    second = shop.person("operator", name="second@retire")
    assert retire(second, "1.1.0", ends_tool=False).json()["code"] == "CONFLICT"
    back = person.post(f"contracts/{TOOL}/1.0.0/rollback", reason="It was wrong.", password=PASSWORD)
    assert back.status_code == 302
    late = person.post(f"contracts/{TOOL}/1.0.0/retire", reason="Over.", password=PASSWORD, ends_tool="no")
    assert late.status_code == 409
    assert (
        "The versions in force have changed since you looked, and with them what this ends. Review it first."
    ) in words(late.content.decode())
    assert 'name="ends_tool" value="yes"' in late.content.decode()
    assert states(shop)["1.0.0"] == "REGISTERED"


def test_a_contract_is_retired_on_its_page_with_the_tools_it_compensated(shop: Workshop):
    remedied = contract("delete_document") | {"name": "drop_document", "target_resource": "document/{path}"}
    remedied["recovery"] = {"compensation_tool": TOOL, "compensation_arguments": {"path": "sr.path"}}
    assert shop.operator_key.post("/contracts", remedied).status_code == 201
    person = Visitor(shop.person("administrator").client, shop.slug)
    page = words(person.page(f"contracts/{TOOL}/1.0.0"))
    assert "Recovery tool of drop_document: without it, recovery there needs a person." in page
    wrong = person.post(f"contracts/{TOOL}/1.0.0/retire", reason="It is over.", password="guessed")
    assert wrong.status_code == 403
    assert "It is over." in wrong.content.decode()
    done = person.post(f"contracts/{TOOL}/1.0.0/retire", reason="It is over.", password=PASSWORD)
    assert done.status_code == 302
    assert "Retired: 1.0.0. Nothing new is proposed under it." in words(person.page(f"contracts/{TOOL}/1.0.0"))
    assert "retired" in words(person.page("contracts"))
