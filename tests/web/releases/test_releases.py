"""Releases: a policy comes in force by its gates and two people, and goes back at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.core.management import call_command
from django.db import DatabaseError, transaction

from console.accounts.members import operations as people
from console.models import Membership
from ledger.catalogue import queries
from ledger.catalogue.operations import registration
from ledger.catalogue.rules.policies import default_policy
from ledger.catalogue.rules.releases import GATES, required_gates
from ledger.db import execute, tenancy
from ledger.models import PolicyVersion, Release
from ledger.record import operations as ledger
from ledger.record.operations import SYSTEM
from tests.support.api_tenant import PASSWORD, Workshop
from tests.support.callers import drafted, pass_gates, put_in_force

WORD = {"reason": "It was tried on the night shift.", "password": PASSWORD}


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def draft(shop: Workshop, version: str = "2", kind: str = "verification", **changes: Any) -> dict[str, Any]:
    document = default_policy(kind) | changes
    body = {"kind": kind, "version": version, "document": document, "reason": "Doubts take longer to settle."}
    answer = shop.operator_key.post("/releases", body)
    assert answer.status_code == 201, answer.content
    made: dict[str, Any] = answer.json()
    return made


def in_force(shop: Workshop, kind: str = "verification") -> str:
    return str(shop.operator_key.get("/policies").json()[kind]["version"])


def checked(shop: Workshop, release: dict[str, Any], *, but: str = "") -> None:
    with tenancy(shop.tenant):
        pass_gates(shop.tenant, UUID(release["release_id"]), but=but)


@pytest.mark.req("R-RG-10")
def test_a_change_without_a_release_is_refused_with_instructions(shop: Workshop):
    for kind in ("verification", "recovery"):
        answer = shop.operator_key.post(f"/policies/{kind}", {"version": "2", "document": default_policy(kind)})
        assert refused(answer) == (409, "RELEASE_REQUIRED")
        assert answer.json()["detail"] == (
            "A policy changes through a release (page Releases, POST /releases): "
            "all gates passed, promoted by two people."
        )
        assert in_force(shop, kind) == "1"


@pytest.mark.req("R-RG-10", "R-RG-11")
def test_a_draft_changes_nothing_and_lists_what_it_requires(shop: Workshop):
    release = draft(shop, repeat_limit=5)
    assert (release["state"], release["gates"]) == ("DRAFT", [])
    assert release["needs"] == ["RG-01", "RG-02", "RG-03", "RG-04", "RG-05", "RG-06", "RG-07", "RG-08"]
    assert in_force(shop) == "1"
    again = draft(shop, repeat_limit=5)
    assert again["release_id"] == release["release_id"]
    other = {"kind": "verification", "version": "2", "document": {}, "reason": "Another one."}
    assert refused(shop.operator_key.post("/releases", other)) == (409, "VERSION_IMMUTABLE")


@pytest.mark.req("R-RG-09")
@pytest.mark.parametrize("gate", required_gates("verification"))
def test_promotion_with_a_failed_gate_is_refused_and_names_it(shop: Workshop, gate: str):
    release = draft(shop)
    checked(shop, release, but=gate)
    administrator = shop.person("administrator")
    answer = administrator.post(f"/releases/{release['release_id']}/promotion", WORD)
    assert refused(answer) == (409, "GATES_NOT_PASSED")
    assert answer.json()["detail"] == f"Not all gates have passed: {gate} ({GATES[gate][0]})."
    assert in_force(shop) == "1"


@pytest.mark.req("R-RG-09", "R-RG-11")
def test_two_people_can_promote_a_release_and_one_alone_cannot(shop: Workshop):
    release = draft(shop, repeat_limit=5)
    checked(shop, release)
    path = f"/releases/{release['release_id']}"
    first, second = shop.person("administrator"), shop.person("operator", name="second@releases")
    assert refused(first.post(f"{path}/promotion", WORD | {"password": "no"})) == (403, "STEP_UP_REQUIRED")
    assert first.post(f"{path}/promotion", WORD).json()["state"] == "READY"
    assert in_force(shop) == "1"
    assert refused(first.post(f"{path}/promotion", WORD)) == (403, "SECOND_PERSON_NEEDED")
    done = second.post(f"{path}/promotion", WORD).json()
    assert (done["state"], in_force(shop)) == ("PROMOTED", "2")
    assert done["first_by"] != done["promoted_by"]
    assert {gate["gate"] for gate in done["gates"]} == set(required_gates("verification"))
    call_command("verify_ledger")


@pytest.mark.req("R-RG-12")
def test_an_older_version_is_restored_in_one_step_and_entries_keep_theirs(shop: Workshop):
    with tenancy(shop.tenant):
        for version in ("2", "3"):
            put_in_force(shop.tenant, "verification", version, default_policy("verification") | {"repeat_limit": 5})
    action_id = shop.propose()
    administrator = shop.person("administrator")
    back = administrator.post("/policies/verification/rollback", WORD | {"version": "1"})
    assert (back.status_code, in_force(shop)) == (200, "1")
    states = {each["version"]: each["state"] for each in shop.operator_key.get("/releases").json()["items"]}
    assert states == {"2": "PROMOTED", "3": "ROLLED_BACK"}
    entry = shop.operator_key.get(f"/actions/{action_id}").json()["entry"]
    assert entry["policy_context"]["verification_policy_version"] == "3"
    again = administrator.post("/policies/verification/rollback", WORD | {"version": "3"})
    assert refused(again) == (409, "CANNOT_ROLL_BACK")
    assert administrator.post("/policies/verification/rollback", WORD | {"version": "2"}).status_code == 200
    assert in_force(shop) == "2"
    call_command("verify_ledger")


def test_gates_run_against_another_version_do_not_count(shop: Workshop):
    release = draft(shop, "3", repeat_limit=9)
    checked(shop, release)
    with tenancy(shop.tenant):
        put_in_force(shop.tenant, "verification", "2", default_policy("verification") | {"repeat_limit": 5})
    answer = shop.person("administrator").post(f"/releases/{release['release_id']}/promotion", WORD)
    assert refused(answer) == (409, "CONFLICT")


# What the database refuses


def put_in_place(row: PolicyVersion) -> None:
    with transaction.atomic():
        execute("UPDATE ledger_policyversion SET active = false WHERE kind = $1", row.kind)
        row.save(force_insert=True)


def forced(shop: Workshop, **columns: Any) -> str:
    """What the database says of a row that nobody's rules have seen."""
    usual = {"id": UUID(int=7), "kind": "verification", "version": "9", "digest": "0" * 64, "document": b"{}"}
    usual |= {"active": True}
    row = PolicyVersion(tenant_id=shop.tenant, created_at=datetime.now(UTC), **(usual | columns))
    with tenancy(shop.tenant), pytest.raises(DatabaseError) as fault:
        put_in_place(row)
    return str(fault.value).partition("\n")[0]


@pytest.mark.req("R-RG-09", "R-RG-10")
def test_the_database_refuses_a_version_in_force_without_its_release(shop: Workshop):
    assert forced(shop) == "the verification policy 9 is not released: it has no release"
    with tenancy(shop.tenant):
        row = drafted(shop.tenant, "verification", "9", {"lease_s": 7}, at=datetime.now(UTC), but="RG-07")
    same = {"digest": row.digest, "document": bytes(row.document), "release_id": row.id}
    said = "the verification policy 9 is not released: these gates are not passed: RG-07"
    assert forced(shop, **same) == said
    checked(shop, {"release_id": str(row.id)})
    assert forced(shop, **same) == "the verification policy 9 is not released: two people have not promoted it"
    assert forced(shop, **same | {"digest": "1" * 64}) == (
        "the verification policy 9 is not released: its release is of another draft"
    )


@pytest.mark.req("R-RG-09")
def test_the_database_counts_two_accounts_of_one_person_as_one(shop: Workshop):
    at = datetime.now(UTC)
    ada, alias = (shop.person("administrator", name=f"{name}@orchid") for name in ("ada", "alias"))
    with tenancy(shop.tenant):
        row = drafted(shop.tenant, "verification", "9", {"lease_s": 7}, at=at)
        places = [Membership.objects.get(tenant_id=shop.tenant, user=each.user) for each in (ada, alias)]
        people.link_accounts(tenant_id=shop.tenant, member_ids=[each.id for each in places], by=SYSTEM, at=at)
        head = ledger.lock_subject(tenant_id=shop.tenant, subject_id=row.id, kind="release")
        first, second = (ledger.Actor("person", each.actor_id) for each in places)
        head = ledger.append(head, ledger.NewEvent(kind="release_confirmed"), actor=first, at=at)
        ledger.append(head, ledger.NewEvent(kind="release_promoted", to="PROMOTED"), actor=second, at=at)
        Release.objects.filter(tenant_id=shop.tenant, id=row.id).update(first_by=first.id, promoted_by=second.id)
    same = {"digest": row.digest, "document": bytes(row.document), "release_id": row.id}
    assert forced(shop, **same) == "the verification policy 9 is not released: two people have not promoted it"


@pytest.mark.req("R-RG-09")
def test_a_gate_result_cannot_be_changed_and_requires_evidence(shop: Workshop):
    with tenancy(shop.tenant):
        row = drafted(shop.tenant, "recovery", "2", {"table": "built-in"}, at=datetime.now(UTC), but="RG-05")
        for statement, said in (
            ("UPDATE ledger_releasegate SET passed = true WHERE release_id = $1", "permission denied"),
            ("UPDATE ledger_release SET digest = repeat('0', 64) WHERE id = $1", "a release keeps its draft"),
            (
                "INSERT INTO ledger_releasegate SELECT tenant_id, release_id, 99, 'RG-05', true, '', gen_random_uuid(),"
                " by, at FROM ledger_releasegate WHERE release_id = $1 LIMIT 1",
                "gate RG-05 of this release has no evidence",
            ),
        ):
            with pytest.raises((DatabaseError, psycopg.Error), match=said), transaction.atomic():
                execute(statement, row.id)


def test_the_first_version_of_each_kind_is_installed_with_the_tenant(shop: Workshop):
    with tenancy(shop.tenant):
        for row in queries.active_policies(shop.tenant).values():
            assert (row.version, row.release_id) == ("1", None)
        known = registration.install_policy(
            tenant_id=shop.tenant,
            kind="recovery",
            version="1",
            document=default_policy("recovery"),
            actor=SYSTEM,
            at=datetime.now(UTC),
        )
    assert known.active
