"""A lookup that is connected after the fact: it adds a reading to an open action, and takes nothing away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger.management.commands import verify_ledger
from ledger.models import Tenant
from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.browser_users import Visitor, words
from tests.support.refund_shop import ORDER, Counter, refund_contract
from tests.web.cases.test_ways_out import UNREAD, unread


def later(version: str = "2", **changes: Any) -> dict[str, Any]:
    """A version of the tool whose contract names a lookup."""
    return refund_contract(name=UNREAD, side_effect_class="LOW_RISK_INTERNAL", version=version, **changes)


@pytest.fixture
def unknown(counter: Counter, clock: Clock, secrets_dir: Path) -> dict[str, Any]:
    """An action that nobody could read back, taken up by an operator; with its `case_id`."""
    counter.open(secrets_dir, unread())
    action_id = counter.call(UNREAD, ORDER)["action_id"]
    order = next(each for each in counter.claim() if each["action_id"] == action_id)
    started: dict[str, Any] = counter.start(order).json()
    counter.tell(started, tool=UNREAD)
    clock.forward(seconds=60)
    counter.read_back(action_id, clock)
    opened = counter.operator.post(f"/actions/{action_id}/case", {"reason": "It must be settled."}).json()
    return started | {"case_id": opened["case_id"]}


def allowed(counter: Counter, unknown: dict[str, Any]) -> dict[str, str]:
    shown = counter.operator.get(f"/reviews/{unknown['case_id']}").json()
    return {each["resolution"]: each["consequence"] for each in shown["allowed"]}


def read_again(counter: Counter, clock: Clock, unknown: dict[str, Any]) -> None:
    assert settling.settle(counter.operator, unknown["case_id"], "VERIFY_AGAIN").status_code == 200
    clock.forward(seconds=10)
    counter.read_back(unknown["action_id"], clock)


@pytest.mark.req("R-SM-26")
def test_an_unknown_action_is_read_with_the_lookup_of_a_later_version(
    counter: Counter, clock: Clock, unknown: dict[str, Any]
):
    assert "VERIFY_AGAIN" not in allowed(counter, unknown)
    counter.till.refund(unknown["idempotency_key"])
    counter.operator_key.release_contract(later())

    said = (
        "The action is read by the lookup of version 2; its own contract names none."
        " A repeat (same tool, target and values) is refused until the action is settled."
    )
    assert allowed(counter, unknown)["VERIFY_AGAIN"] == said
    assert said in words(Visitor(counter.operator.client, counter.slug).page(f"cases/{unknown['case_id']}"))
    read_again(counter, clock, unknown)

    action_id = unknown["action_id"]
    assert counter.path(action_id)[-5:] == ["UNKNOWN", "REVIEW_REQUIRED", "PENDING", "COMMITTED", "RECONCILED_SUCCESS"]
    digest = counter.operator_key.get(f"/contracts/{UNREAD}/2").json()["digest"]
    [reopened] = [each for each in counter.history(action_id) if each["event"] == "verification_reopened"]
    assert reopened["detail"]["lookup"] == {"version": "2", "digest": digest}
    [*_, run] = sorted(
        counter.operator.get(f"/actions/{action_id}/runs").json()["items"], key=lambda run: run["number"]
    )
    assert run["lookup"] == {"version": "2", "digest": digest}
    shown = counter.operator.get(f"/actions/{action_id}").json()
    assert (shown["tool_version"], shown["outcome"]) == ("1", "VERIFIED")
    verify_ledger.verify(counter.tenant, Tenant.objects.get(id=counter.tenant).origin)


def test_a_later_lookup_that_finds_nothing_does_not_silently_fail_a_claimed_success(
    counter: Counter, clock: Clock, unknown: dict[str, Any]
):
    counter.operator_key.release_contract(later())
    read_again(counter, clock, unknown)
    action_id = unknown["action_id"]
    assert counter.path(action_id)[-3:] == ["COMMITTED", "RECONCILIATION_FAILED", "REVIEW_REQUIRED"]
    assert counter.operator.get(f"/actions/{action_id}").json()["discrepancy"] == "NO_OP_FAILURE"


@pytest.mark.parametrize(
    "changes",
    [
        {"target_resource": "refund/{order_id}"},
        {"operation_kind": "give_back"},
        {"required_effects": ["other"]},
    ],
    ids=lambda each: next(iter(each)),
)
def test_a_version_for_another_target_provides_no_lookup(
    counter: Counter, clock: Clock, unknown: dict[str, Any], changes: dict[str, Any]
):
    document = later(**changes)
    if "required_effects" in changes:
        effects = document["verification"]["lookup"]["effects"]
        effects["other"] = effects.pop("refund")
    counter.operator_key.release_contract(document)
    assert "VERIFY_AGAIN" not in allowed(counter, unknown)
    refused = settling.settle(counter.operator, unknown["case_id"], "VERIFY_AGAIN")
    assert (refused.status_code, refused.json()["code"]) == (409, "RESOLUTION_NOT_ALLOWED")


def test_only_the_lookup_comes_from_the_later_version(counter: Counter, clock: Clock, secrets_dir: Path):
    own = unread(side_effect_class="CRITICAL_MUTATION", unverifiable_acknowledged=True)
    counter.open(secrets_dir, own)
    action_id = counter.call(UNREAD, ORDER)["action_id"]
    second = counter.person("reviewer", name="second@orchid")
    for voter in (counter.reviewer, second):
        if counter.waiting(action_id):
            counter.vote(counter.approval_of(action_id), by=voter)
    order = next(each for each in counter.claim() if each["action_id"] == action_id)
    started = counter.start(order).json()
    counter.till.refund(started["idempotency_key"])
    counter.tell(started, tool=UNREAD)
    clock.forward(seconds=60)
    counter.read_back(action_id, clock)
    case = counter.case_of(action_id)
    assert case is not None
    counter.operator_key.release_contract(later())  # of a lower class, with one source
    read_again(counter, clock, started | {"case_id": case["case_id"]})
    # A critical mutation is told by several sources, whatever the later version asks for.
    assert counter.state(action_id) == "REVIEW_REQUIRED"
