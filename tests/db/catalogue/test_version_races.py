"""Two people change which versions are in force in the same instant: one waits, and is judged by what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.db import DatabaseError, transaction

from ledger.catalogue import queries
from ledger.catalogue.operations import registration, releases, second_person
from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from ledger.models import ContractVersion, Release
from ledger.people.rules.confirmation import Answer
from ledger.record.operations import SYSTEM, Actor, new_id
from ledger.record.rules.refusals import Refused
from tests.db.races import PATIENCE_S, on_its_own_connection, until_someone_waits
from tests.support.api_tenant import contract
from tests.support.callers import (
    drafted,
    found,
    pass_gates,
    put_contract_in_force,
    put_in_force,
    validate_contract,
)

TOOL = "write_document"
ADA, BEN = Actor("person", uuid4()), Actor("person", uuid4())


def word(by: Actor) -> dict[str, Any]:
    return {"reason": "It was tried.", "by": by, "is_proven": True, "at": datetime.now(UTC)}


def document(version: str, **changes: Any) -> dict[str, Any]:
    return contract(TOOL) | {"version": version} | changes


def register(tenant: UUID, sent: dict[str, Any]) -> None:
    registration.register_contract(
        tenant_id=tenant, contract=validate_contract(sent), actor=SYSTEM, at=datetime.now(UTC)
    )


@pytest.fixture
def tenant(committed_db) -> Iterator[UUID]:
    """A tenant with two versions of a tool in force."""
    made = found("orchid")
    with tenancy(made):
        register(made, document("1.0.0"))
        register(made, document("1.1.0"))
    yield made
    call_command("verify_ledger", verbosity=0)


@pytest.fixture
def meanwhile(tenant: UUID, app_connection: psycopg.Connection) -> Callable[[Any, Any], Any]:
    """Begin the second work while the first is not committed, and commit the first once the second waits for it; the
    code and the sentence that the second is refused with.
    """

    def meet(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[str, str]:
        def work() -> None:
            with tenancy(tenant):
                second()

        with ThreadPoolExecutor(1) as thread:
            with tenancy(tenant):
                first()
                late = thread.submit(on_its_own_connection(work))
                until_someone_waits(app_connection, by="advisory")
            with pytest.raises(Refused) as refusal:
                late.result(PATIENCE_S)
        return refusal.value.code, refusal.value.detail

    return meet


def in_force(tenant: UUID) -> list[str]:
    with tenancy(tenant):
        return [each.version for each in queries.contracts_in_force(tenant, [TOOL]).get(TOOL, [])]


def roll_back(tenant: UUID, version: str) -> Callable[[], Any]:
    return lambda: releases.roll_back_contract(tenant_id=tenant, name=TOOL, version=version, **word(ADA))


def test_a_retirement_is_refused_when_a_rollback_at_the_same_time_would_let_it_end_the_tool(tenant, meanwhile):
    def retire() -> Any:
        return releases.retire_contract(tenant_id=tenant, name=TOOL, version="1.0.0", ends_tool=False, **word(BEN))

    assert meanwhile(roll_back(tenant, "1.0.0"), retire) == (
        "CONFLICT",
        "The versions in force have changed since you looked, and with them what this ends. Review it first.",
    )
    assert in_force(tenant) == ["1.0.0"]


def test_a_rollback_to_a_version_that_is_being_retired_is_refused(tenant, meanwhile):
    def retire() -> Any:
        return releases.retire_contract(tenant_id=tenant, name=TOOL, version="1.0.0", ends_tool=False, **word(BEN))

    assert meanwhile(retire, roll_back(tenant, "1.0.0")) == (
        "CANNOT_ROLL_BACK",
        "Only an earlier version of the contract that is still in force can replace the later ones.",
    )
    assert in_force(tenant) == ["1.1.0"]


# A second person confirms while another goes back

LOOSER = {"verification": contract(TOOL)["verification"] | {"predicates": ["sa.size == size(bytes(sr.text))"]}}
MOVED = ("CONFLICT", "Another version took effect since the gates ran. Run them again, or draft the change again.")


@pytest.fixture
def released(tenant: UUID) -> None:
    """A third version in force, which verifies less."""
    with tenancy(tenant):
        put_contract_in_force(tenant, document("1.2.0", **LOOSER))


def promoted_once(row: Release) -> Callable[[], Any]:
    """A release that one person has promoted; how the second one does."""

    def promote(by: Actor = BEN) -> Any:
        return releases.promote_release(tenant_id=row.tenant_id, release_id=row.id, **word(by))

    with tenancy(row.tenant_id):
        pass_gates(row.tenant_id, row.id)
        promote(ADA)
    return promote


@pytest.mark.req("R-RG-12")
def test_a_contract_is_not_promoted_over_a_version_that_is_rolled_back_at_the_same_time(tenant, released, meanwhile):
    with tenancy(tenant):
        row = releases.draft_contract(
            tenant_id=tenant,
            contract=validate_contract(document("1.3.0", **LOOSER, no_op_success_allowed=True)),
            reason="It was asked for.",
            by=SYSTEM,
            at=datetime.now(UTC),
        )
    assert meanwhile(roll_back(tenant, "1.1.0"), promoted_once(row)) == MOVED
    assert in_force(tenant) == ["1.0.0", "1.1.0"]


@pytest.mark.req("R-RG-12")
def test_a_policy_is_not_promoted_over_a_version_that_is_rolled_back_at_the_same_time(tenant, meanwhile):
    def policy(limit: int) -> dict[str, Any]:
        return default_policy("verification") | {"repeat_limit": limit}

    with tenancy(tenant):
        put_in_force(tenant, "verification", "2", policy(5))
        row = drafted(tenant, "verification", "3", policy(9), at=datetime.now(UTC))

    def go_back() -> Any:
        return releases.roll_back(tenant_id=tenant, kind="verification", version="1", **word(ADA))

    assert meanwhile(go_back, promoted_once(row)) == MOVED
    with tenancy(tenant):
        assert queries.active_policies(tenant)["verification"].version == "1"


def test_a_weaker_version_is_not_confirmed_against_a_version_that_is_rolled_back_at_the_same_time(
    tenant, released, meanwhile
):
    claims = {"done": ["written"], "object": ["document"]}
    with tenancy(tenant):
        register(tenant, document("1.3.0", **LOOSER, claims=claims))

    def confirm() -> Any:
        return second_person.decide_contract_change(
            tenant_id=tenant, name=TOOL, version="1.3.0", answer=Answer.CONFIRM, **word(BEN)
        )

    code, detail = meanwhile(roll_back(tenant, "1.1.0"), confirm)
    assert (code, detail.split(".")[0]) == ("RELEASE_REQUIRED", "This changes what is verified")
    assert in_force(tenant) == ["1.0.0", "1.1.0"]


def test_the_second_of_two_concurrent_first_versions_is_compared_with_the_first(tenant, meanwhile):
    def first(version: str, **changes: Any) -> Callable[[], Any]:
        return lambda: register(tenant, document(version, name="file_document", **changes))

    code, _ = meanwhile(first("1.0.0"), first("2.0.0", **LOOSER))
    assert code == "RELEASE_REQUIRED"


@pytest.mark.req("R-RG-09")
def test_the_database_refuses_a_version_whose_gates_compared_it_with_another_one(tenant, released):
    """By hand, past every operation: the row of a promoted release over a version that came since."""
    with tenancy(tenant):
        row = queries.contract_version(tenant, TOOL, "1.2.0")
        roll_back(tenant, "1.1.0")()
        register(tenant, document("1.3.0"))
        copy = ContractVersion(
            **{name: getattr(row, name) for name in ("tenant_id", "name", "digest", "document", "release_id")},
            **{"id": new_id(datetime.now(UTC)), "version": row.version, "registered_at": datetime.now(UTC)},
        )
        with pytest.raises(DatabaseError, match="its gates compared it with another version"), transaction.atomic():
            copy.save(force_insert=True)
