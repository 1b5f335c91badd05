"""Approval and autonomy policies by release: past calls decided again, the difference signed, two people, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import call_command

from ledger.catalogue.rules.policies import default_policy
from ledger.catalogue.rules.releases import required_gates
from ledger.db import tenancy
from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import Visitor, words
from tests.support.callers import drafted, put_in_force
from tests.web.releases.test_gates import run
from tests.web.releases.test_releases import WORD, draft, forced, in_force, refused

ASKS = default_policy("approval") | {"require": [{"tool": "write_document"}]}
CALL_GATES = ["SIMULATION", "RG-02", "RG-06"]


def asking(shop: Workshop) -> list[str]:
    """Two notes about which people were asked, under a policy that asks about notes."""
    with tenancy(shop.tenant):
        put_in_force(shop.tenant, "approval", "2", ASKS)
    return [shop.propose("write_document", path=f"notes/{name}.md") for name in ("one", "two")]


@pytest.mark.req("R-RG-10")
@pytest.mark.parametrize("kind", ["approval", "autonomy"])
def test_a_change_without_a_release_is_refused_with_instructions(shop: Workshop, kind: str):
    answer = shop.operator_key.post(f"/policies/{kind}", {"version": "2", "document": default_policy(kind)})
    assert refused(answer) == (409, "RELEASE_REQUIRED")
    assert answer.json()["detail"] == (
        "A policy changes through a release (page Releases, POST /releases): all gates passed, promoted by two people."
    )
    assert in_force(shop, kind) == "1"


@pytest.mark.req("R-RG-02", "R-RG-09", "R-RG-11", "R-RG-12")
def test_a_looser_policy_requires_signatures_and_two_people_and_is_rolled_back_in_one_step(shop: Workshop):
    asked = asking(shop)
    release = draft(shop, "3", kind="approval")
    assert release["needs"] == CALL_GATES
    path = f"/releases/{release['release_id']}"
    gates = run(shop, release)
    assert (gates["state"], gates["needs"]) == ("DRAFT", ["SIMULATION", "RG-02"])
    assert gates["SIMULATION"]["summary"] == (
        "Of 2 calls decided by the policies in this period, 2 would have been decided differently: 2 would have been"
        " let through and were held, none of which later proved wrong. 2 of these were held or refused and would have"
        " been let through: a person who did not draft it must sign."
    )
    assert gates["RG-02"]["summary"] == (
        "1 place differs from version 2; 2 calls of the last 30 days would have been decided differently."
        " A person who did not draft it must sign."
    )
    assert gates["RG-06"]["summary"] == "3 of 3 passed."
    first, second = shop.person("administrator"), shop.person("operator", name="second@releases")
    drafted_page = words(Visitor(second.client, shop.slug).page(path.removeprefix("/")))
    said = "Next: A person who did not draft it must sign the simulation and RG-02 (Predicate diff review)."
    assert said in drafted_page
    assert "Sign simulation" in drafted_page
    assert refused(first.post(f"{path}/promotion", WORD)) == (409, "GATES_NOT_PASSED")
    for gate in ("SIMULATION", "RG-02"):
        told = first.post(f"{path}/signatures", WORD | {"gate": gate}).json()
    assert (told["state"], told["needs"]) == ("READY", [])
    assert refused(first.post(f"{path}/canary", {})) == (409, "WRONG_STEP")
    assert refused(shop.operator_key.post(f"{path}/gates")) == (409, "WRONG_STEP")
    shown = words(Visitor(second.client, shop.slug).page(path.removeprefix("/")))
    assert "Every gate is passed. Until it is promoted it has no effect." in shown
    assert "Calls decided differently of 2 that the simulation decided again" in shown
    assert "before: held under the draft: let through" in shown

    assert first.post(f"{path}/promotion", WORD).status_code == 200
    assert (in_force(shop, "approval"), second.post(f"{path}/promotion", WORD).status_code) == ("2", 200)
    assert in_force(shop, "approval") == "3"
    passed = shop.propose("write_document", path="notes/three.md")
    assert shop.operator_key.get(f"/actions/{passed}").json()["approval"] is None
    assert {each["action_id"] for each in shop.reviewer.get("/approvals").json()["items"]} >= set(asked)

    assert second.post("/policies/approval/rollback", WORD | {"version": "2"}).status_code == 200
    again = shop.propose("write_document", path="notes/four.md")
    assert shop.approval_of(again)["state"] == "REQUESTED"
    entry = shop.operator_key.get(f"/actions/{passed}").json()["entry"]
    assert entry["policy_context"]["approval_policy_version"] == "3"
    call_command("verify_ledger")


def test_a_tighter_policy_requires_only_the_signature_of_its_difference(shop: Workshop):
    shop.propose("write_document", path="notes/one.md")
    gates = run(shop, draft(shop, kind="approval", require=ASKS["require"]))
    assert gates["needs"] == ["RG-02"]
    assert "1 would have been held and were let through" in gates["SIMULATION"]["summary"]


def test_an_autonomy_policy_has_the_same_gates(shop: Workshop):
    shop.propose("write_document", path="notes/one.md")
    release = draft(shop, kind="autonomy", outside=[{"name": "no notes", "tools": ["write_document"]}])
    gates = run(shop, release)
    assert gates["needs"] == ["RG-02"], gates
    assert "1 would have been refused and were let through" in gates["SIMULATION"]["summary"]
    printed = StringIO()
    with pytest.raises(SystemExit):
        call_command("release_gates", release["release_id"], tenant=shop.slug, stdout=printed)
    assert "SIMULATION Simulation: passed" in printed.getvalue()


@pytest.mark.req("R-RG-06")
def test_an_unreadable_stored_version_stops_a_release(shop: Workshop):
    with tenancy(shop.tenant):
        put_in_force(shop.tenant, "approval", "2", {"version": "2", "rules": [{"moon": "full"}]})
    gates = run(shop, draft(shop, "3", kind="approval"))
    assert "RG-06" in gates["needs"]
    assert gates["RG-06"]["summary"].startswith("2 of 3 passed. The first that failed: version 2: ")


@pytest.mark.req("R-RG-09", "R-RG-10")
@pytest.mark.parametrize("kind", ["approval", "autonomy"])
def test_the_database_refuses_a_version_in_force_without_its_release(shop: Workshop, kind: str):
    assert forced(shop, kind=kind) == f"the {kind} policy 9 is not released: it has no release"
    with tenancy(shop.tenant):
        row = drafted(shop.tenant, kind, "9", default_policy(kind), at=datetime.now(UTC), but="RG-02")
    same = {"kind": kind, "digest": row.digest, "document": bytes(row.document), "release_id": row.id}
    assert forced(shop, **same) == f"the {kind} policy 9 is not released: these gates are not passed: RG-02"
    said = f"the {kind} policy 9 is not released: a policy of this kind is not tried on live actions"
    assert forced(shop, **same | {"active": False, "canary": {"share": 100}}) == said


def test_rules_and_database_agree_on_the_required_gates(shop: Workshop):
    for kind in ("approval", "autonomy", "verification", "recovery"):
        with tenancy(shop.tenant):
            row = drafted(
                shop.tenant, kind, "9", default_policy(kind) | {"note": ""}, at=datetime.now(UTC), but="RG-06"
            )
        columns = {"kind": kind, "digest": row.digest, "document": bytes(row.document), "release_id": row.id}
        assert forced(shop, **columns).endswith("these gates are not passed: RG-06"), kind
        assert "RG-06" in required_gates(kind)


def test_a_draft_of_an_approval_policy_is_entered_on_its_page(shop: Workshop, clock: Clock):
    person = Visitor(shop.person("operator", name="drafts@releases").client, shop.slug)
    assert "Draft: approval policy" in words(person.page("releases"))
    assert "Reason" in words(person.page("releases/draft?kind=approval"))
    fields = {"kind": "approval", "version": "2", "document": '{"decide_within": 60}', "reason": "Shorter."}
    wrong = person.post("releases/draft", **fields)
    assert wrong.status_code == 422
    assert "decide_within" in words(wrong.content.decode())
    made = person.post("releases/draft", **fields | {"document": '{"decide_within_s": 60}'})
    assert made.status_code == 302
