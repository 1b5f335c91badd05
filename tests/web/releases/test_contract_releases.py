"""Contracts that change what is verified come in force by release, and go back at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
import rfc8785
from django.core.management import call_command
from django.db import DatabaseError, transaction

from ledger.actions.queries import actions
from ledger.catalogue import queries
from ledger.catalogue.rules.releases import VERIFIED_PARTS, required_gates
from ledger.db import execute, tenancy
from ledger.models import ContractVersion
from ledger.record.rules.canonical import digest
from tests.support.api_tenant import PASSWORD, Clock, Workshop, contract, result
from tests.support.browser_users import Visitor, words
from tests.support.callers import pass_gates

TOOL = "write_document"
WORD = {"reason": "The size says nothing about the text.", "password": PASSWORD}


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def other(version: str = "1.1.0", *, predicates: list[str] | None = None, **changes: Any) -> dict[str, Any]:
    """The tool with another condition in what is read back, or with other parts."""
    document = contract(TOOL) | {"version": version} | changes
    if predicates is not None:
        document["verification"] = document["verification"] | {"predicates": predicates}
    return document


STRICTER = ["sa.sha256 == sr.sha256", "sa.size == size(bytes(sr.text))", "sa.size > 0"]
LOOSER = ["sa.size == size(bytes(sr.text))"]


def draft(shop: Workshop, document: dict[str, Any]) -> dict[str, Any]:
    path = f"/contracts/releases?reason={quote('The night shift asked for it.')}"
    answer = shop.operator_key.post(path, document)
    assert answer.status_code == 201, answer.content
    made: dict[str, Any] = answer.json()
    return made


def checked(shop: Workshop, release: dict[str, Any], *, but: str = "") -> None:
    with tenancy(shop.tenant):
        pass_gates(shop.tenant, UUID(release["release_id"]), but=but)


def disclosed(shop: Workshop) -> str:
    """The version that a new session is shown."""
    tools = shop.session()["contract"]["tools"]
    return next(str(each["version"]) for each in tools if each["name"] == TOOL)


def verified(shop: Workshop, clock: Clock, folder: Path) -> str:
    """A document that was written, and found so."""
    action_id = shop.propose(TOOL)
    started = shop.start(shop.claim()[0]).json()
    file = folder / "documents" / "notes" / "today.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("Quiet.")
    shop.observe(started, result=result(tool=TOOL))
    clock.forward(seconds=10)
    assert shop.read_back(action_id, clock) == "RECONCILED_SUCCESS"
    return action_id


@pytest.mark.req("R-RG-10")
def test_a_version_with_other_verification_is_refused_with_instructions(shop: Workshop):
    for document in (
        other(predicates=STRICTER),
        other(no_op_success_allowed=True),
        other(stale_errors=["GONE"]),
        other(side_effect_class="LOW_RISK_INTERNAL"),
    ):
        answer = shop.operator_key.post("/contracts", document)
        assert refused(answer) == (409, "RELEASE_REQUIRED"), document
    assert answer.json()["detail"] == (
        "This changes what is verified. Draft it as a release: POST /contracts/releases, or on the contract's page."
    )
    assert disclosed(shop) == "1.0.0"
    quieter = other(description=contract(TOOL)["description"] + " Ask first.", report="Kept {sr.path}.")
    assert shop.operator_key.post("/contracts", quieter).json()["state"] == "PENDING"
    assert shop.operator_key.post("/contracts", other("1.2.0", next_tools=["delete_document"])).status_code == 201
    assert disclosed(shop) == "1.2.0"


@pytest.mark.req("R-RG-09", "R-RG-10", "R-RG-12")
def test_a_contract_release_passes_its_gates_takes_two_people_and_is_rolled_back_in_one_step(shop: Workshop):
    made = draft(shop, other(predicates=LOOSER))
    assert (made["kind"], made["tool"], made["state"]) == ("contract", TOOL, "DRAFT")
    assert made["needs"] == ["RG-01", "RG-02", "RG-04", "RG-06", "RG-07", "RG-08"] == list(required_gates("contract"))
    assert draft(shop, other(predicates=LOOSER))["release_id"] == made["release_id"]
    path, first = f"/releases/{made['release_id']}", shop.person("administrator")
    second = shop.person("operator", name="second@releases")
    checked(shop, made, but="RG-04")
    assert refused(first.post(f"{path}/promotion", WORD)) == (409, "GATES_NOT_PASSED")
    checked(shop, made)
    assert refused(first.post(f"{path}/canary", {})) == (409, "WRONG_STEP")
    assert first.post(f"{path}/promotion", WORD).json()["state"] == "READY"
    assert refused(first.post(f"{path}/promotion", WORD)) == (403, "SECOND_PERSON_NEEDED")
    assert disclosed(shop) == "1.0.0"
    assert second.post(f"{path}/promotion", WORD).json()["state"] == "PROMOTED"
    # It is weaker, and two people put it in force for everybody.
    assert disclosed(shop) == "1.1.0"
    shown = shop.operator_key.get(f"/contracts/{TOOL}/1.1.0").json()
    assert [each["code"] for each in shown["weakens"]] == ["PREDICATE_DROPPED"]
    waiting, session = shop.propose(TOOL), shop.session()
    back = f"/contracts/{TOOL}/1.0.0/rollback"
    assert refused(first.post(back, WORD | {"password": "guessed"})) == (403, "STEP_UP_REQUIRED")
    assert refused(shop.operator_key.post(back, WORD)) == (403, "FORBIDDEN")
    assert first.post(back, WORD).json() == {
        "name": TOOL,
        "version": "1.0.0",
        "digest": shop.operator_key.get(f"/contracts/{TOOL}/1.0.0").json()["digest"],
    }
    assert disclosed(shop) == "1.0.0"
    assert shop.operator_key.get(f"/contracts/{TOOL}/1.1.0").json()["state"] == "ROLLED_BACK"
    assert shop.operator_key.get(path).json()["state"] == "ROLLED_BACK"
    assert refused(first.post(back, WORD)) == (409, "CANNOT_ROLL_BACK")
    # What was proposed under it keeps its name and does not start; a session that was shown it proposes nothing more.
    with tenancy(shop.tenant):
        assert actions.action(shop.tenant, UUID(waiting)).tool_version == "1.1.0"
    assert all(each["action_id"] != waiting for each in shop.claim())
    call = {"call_id": "late", "tool": TOOL, "pin_hash": session["pin"]["hash"]}
    call["arguments"] = {"path": "notes/late.md", "text": "x", "sha256": digest(b"x")}
    answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]}).json()["results"][0]
    assert answer["result"]["error"]["code"] == "CAPABILITY_NOT_REGISTERED"
    assert answer["result"]["error"]["message"] == "Version 1.1.0 of `write_document` was rolled back."
    call_command("verify_ledger")


def test_a_version_that_waited_during_a_rollback_is_not_confirmed_against_the_rolled_back_one(shop: Workshop):
    """It verifies as the released version did, which is no longer in force."""
    made = draft(shop, other(predicates=LOOSER))
    checked(shop, made)
    first, second = shop.person("administrator"), shop.person("operator", name="second@releases")
    for person in (first, second):
        assert person.post(f"/releases/{made['release_id']}/promotion", WORD).status_code == 200
    claims = {"done": ["written"], "object": ["document"]}
    sent = shop.operator_key.post("/contracts", other("1.2.0", predicates=LOOSER, claims=claims))
    assert sent.json()["state"] == "PENDING", sent.content
    assert first.post(f"/contracts/{TOOL}/1.0.0/rollback", WORD).status_code == 200
    answer = first.post(f"/contracts/{TOOL}/1.2.0/answer", WORD | {"confirm": True})
    assert refused(answer) == (409, "RELEASE_REQUIRED")
    assert disclosed(shop) == "1.0.0"
    assert shop.operator_key.get(f"/contracts/{TOOL}/1.2.0").json()["state"] == "PENDING"


@pytest.mark.req("R-RG-01", "R-RG-02", "R-RG-13")
def test_a_draft_that_checks_less_is_found_by_replay_although_every_success_remains(
    shop: Workshop, clock: Clock, tmp_path: Path
):
    action_id = verified(shop, clock, tmp_path)
    strict, loose = draft(shop, other(predicates=STRICTER)), draft(shop, other("1.2.0", predicates=LOOSER))
    gates = {}
    for made in (strict, loose):
        answer = shop.operator_key.post(f"/releases/{made['release_id']}/gates")
        assert answer.status_code == 200, answer.content
        gates[made["version"]] = {each["gate"]: each for each in answer.json()["gates"]}
    assert {gate: each["passed"] for gate, each in gates["1.1.0"].items()} == {
        gate: gate != "RG-02" for gate in required_gates("contract")
    }
    assert gates["1.1.0"]["RG-02"]["summary"].startswith("1 place differs from version 1.0.0; 0 actions")
    found = gates["1.2.0"]["RG-01"]
    assert not found["passed"]
    assert found["summary"] == (
        "Judged again: 1 action of the last 30 days in 1 run, 0 of them not replayable."
        f" 1 action changed, first {action_id}."
        " In 1 of these the draft misses a difference that the version in force finds."
    )
    person = Visitor(shop.person("administrator").client, shop.slug)
    page = words(person.page(f"releases/{loose['release_id']}"))
    assert "Contract of write_document 1.2.0" in page
    assert "planted difference: file in documents: `sha256` is another" in page
    assert "No longer checked: `sa.sha256 == sr.sha256`." in page
    assert "canary" not in page


def test_an_unregistered_tool_has_nothing_to_release(shop: Workshop):
    path = "/contracts/releases?reason=A%20try."
    assert refused(shop.operator_key.post(path, other(name="forget_document"))) == (409, "NOT_REGISTERED")
    assert refused(shop.operator_key.post(path, other("1.0.0"))) == (409, "VERSION_IMMUTABLE")
    broken = other(predicates=["sa.nothing == 1"])
    assert refused(shop.operator_key.post(path, broken)) == (422, "BAD_CONTRACT")
    assert refused(shop.agent.post(path, other(predicates=STRICTER))) == (403, "FORBIDDEN")


def test_a_contract_release_is_drafted_and_rolled_back_on_the_pages(shop: Workshop):
    person = Visitor(shop.person("administrator").client, shop.slug)
    assert "Draft a new version" in words(person.page(f"contracts/{TOOL}/1.0.0"))
    assert "Draft: contract of write_document" in words(person.page(f"releases/draft?kind=contract&tool={TOOL}"))
    document = other(predicates=STRICTER)
    typed = {"kind": "contract", "tool": TOOL, "version": "1.1.0", "reason": "Empty files count for nothing."}
    typed["document"] = json.dumps(document)
    assert person.post("releases/draft", **typed).status_code == 302
    [made] = shop.operator_key.get("/releases").json()["items"]
    assert "Contract of write_document 1.1.0" in words(person.page("releases"))
    with tenancy(shop.tenant):
        pass_gates(shop.tenant, UUID(made["release_id"]))
    people = [person, Visitor(shop.person("operator", name="second@pages").client, shop.slug)]
    for each in people:
        done = each.post(f"releases/{made['release_id']}/promotion", reason="It was tried.", password=PASSWORD)
        assert done.status_code == 302
    after = words(person.page(f"contracts/{TOOL}/1.1.0"))
    assert "It took effect through its release ." in after or "It took effect through its release." in after
    page = words(person.page(f"contracts/{TOOL}/1.0.0"))
    assert "Roll back to 1.0.0" in page
    assert "Every later version is out of force and cannot come back as it was." in page
    back = person.post(f"contracts/{TOOL}/1.0.0/rollback", reason="It was wrong.", password=PASSWORD)
    assert back.status_code == 302
    said = words(person.page(f"contracts/{TOOL}/1.1.0"))
    assert "Rolled back: not used. What was proposed under it is still verified by it." in said
    assert disclosed(shop) == "1.0.0"


# What the database refuses


def forced(shop: Workshop, document: dict[str, Any], **columns: Any) -> str:
    """What the database says of a row that nobody's rules have seen."""
    data = rfc8785.dumps(document)
    with tenancy(shop.tenant):
        known = queries.contract_version(shop.tenant, TOOL, "1.0.0")
        values = {"version": document["version"], "digest": digest(data), "document": data} | columns
        row = ContractVersion(
            tenant_id=shop.tenant,
            id=UUID(int=known.id.int + 1),
            name=TOOL,
            registered_at=known.registered_at,
            **values,
        )
        with pytest.raises(DatabaseError) as said, transaction.atomic():
            row.save(force_insert=True)
    return str(said.value)


@pytest.mark.req("R-RG-09", "R-RG-10")
def test_the_database_refuses_a_version_with_other_verification_without_its_release(shop: Workshop):
    document = other(predicates=LOOSER)
    assert "it changes what is verified and has no release" in forced(shop, document)
    assert "it has no release" in forced(shop, document, release_id=UUID(int=7))
    made = draft(shop, document)
    release_id = UUID(made["release_id"])
    assert "these gates are not passed: RG-01, RG-02, RG-04, RG-06, RG-07, RG-08" in forced(
        shop, document, release_id=release_id
    )
    checked(shop, made)
    assert "two people have not promoted it" in forced(shop, document, release_id=release_id)
    assert "its release is of another draft" in forced(shop, other("1.2.0", predicates=LOOSER), release_id=release_id)


def test_rules_and_database_agree_on_the_fields_that_decide_verification(shop: Workshop):
    """Each part alone, and all of them where a tool only reads."""
    names = {*contract(TOOL), *VERIFIED_PARTS}
    with tenancy(shop.tenant):
        for name in names - {"side_effect_class"}:
            document = json.dumps({"side_effect_class": "LOW_RISK_INTERNAL", name: 1}).encode()
            [(parts,)] = execute("SELECT ledger_verified_parts($1)", document)
            assert (name in parts) == (name in VERIFIED_PARTS), name
        reading = json.dumps(dict.fromkeys(names, 1) | {"side_effect_class": "READ_ONLY"}).encode()
        assert execute("SELECT ledger_verified_parts($1)", reading) == [({"side_effect_class": "READ_ONLY"},)]
