from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from approvals.agents.rules import registry
from approvals.agents.rules.registry import (
    AgentNotRegistered,
    CapabilityNotRegistered,
    RegistryEntry,
    RegistryEntryStale,
    RegistryFingerprintMismatch,
)
from approvals.agents.rules.relevance import ToolText

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEY = b"r" * 32
ENTRY = RegistryEntry(
    tenant="t-1",
    agent_id="refund-agent",
    version="3",
    tools=("issue_refund", "list_orders", "unwritten_tool"),
    output_tags=("summary", "table"),
    model_tier="large",
    registered_by="operator-1",
    registered_at=NOW,
)
SEAL = registry.fingerprint(ENTRY, key=KEY)
CONTRACTS = {
    "issue_refund": ToolText("Refund a charge"),
    "list_orders": ToolText("List orders"),
    "drop_database": ToolText("Drop it"),
}


def admit(entry=ENTRY, *, seal=SEAL, revoked=False, key=KEY, at=NOW, max_age_s=None):
    return registry.verify_entry(entry, seal=seal, revoked=revoked, keys=[key], at=at, max_age_s=max_age_s)


def test_a_sealed_entry_is_admitted():
    assert admit() == ENTRY


@pytest.mark.req("R-CR-07", "R-CR-08")
def test_an_unknown_and_a_revoked_agent_get_the_same_refusal():
    with pytest.raises(AgentNotRegistered):
        admit(None)
    with pytest.raises(AgentNotRegistered):
        admit(revoked=True)


@pytest.mark.req("R-CR-05")
@pytest.mark.parametrize("name", [field.name for field in fields(RegistryEntry)])
def test_any_altered_field_breaks_the_seal(name):
    altered = {
        "tools": ("issue_refund", "drop_database"),
        "output_tags": (),
        "registered_at": NOW + timedelta(microseconds=1),
        "versions": {"issue_refund": "*"},
    }

    with pytest.raises(RegistryFingerprintMismatch):
        admit(replace(ENTRY, **{name: altered.get(name, "other")}))


def test_a_seal_under_another_key_does_not_hold():
    with pytest.raises(RegistryFingerprintMismatch):
        admit(key=b"x" * 32)
    with pytest.raises(RegistryFingerprintMismatch):
        admit(seal="")


def test_moving_a_value_from_one_list_to_another_breaks_the_seal():
    moved = replace(ENTRY, tools=(*ENTRY.tools, "summary"), output_tags=("table",))

    with pytest.raises(RegistryFingerprintMismatch):
        admit(moved)


def test_a_key_that_is_too_short_raises_an_error():
    with pytest.raises(ValueError, match="32"):
        registry.fingerprint(ENTRY, key=b"short")


def test_one_instant_in_two_zones_has_one_seal():
    east = ENTRY.registered_at.astimezone(timezone(timedelta(hours=9)))

    assert registry.fingerprint(replace(ENTRY, registered_at=east), key=KEY) == SEAL


@pytest.mark.req("R-CR-06")
@pytest.mark.parametrize(
    ("age", "limit", "stale"), [(59, 60, False), (60, 60, True), (0, 0, True), (10**6, None, False)]
)
def test_an_entry_older_than_the_limit_is_stale(age, limit, stale):
    at = NOW + timedelta(seconds=age)

    if stale:
        with pytest.raises(RegistryEntryStale):
            admit(at=at, max_age_s=limit)
    else:
        assert admit(at=at, max_age_s=limit)


@pytest.mark.req("R-CR-03", "R-CR-09")
def test_a_session_gets_registered_tools_that_have_a_contract():
    disclosed = registry.negotiate(ENTRY, contracts=CONTRACTS)

    assert disclosed.tools == ("issue_refund", "list_orders")
    assert disclosed.output_tags == ("summary", "table")


def test_a_session_may_request_fewer_tools():
    assert registry.negotiate(ENTRY, contracts=CONTRACTS, tools=["list_orders"]).tools == ("list_orders",)
    assert registry.negotiate(ENTRY, contracts=CONTRACTS, tools=[]).tools == ()


@pytest.mark.req("R-CR-10")
@pytest.mark.parametrize(
    "wish", [{"tools": ["drop_database"]}, {"tools": ["unwritten_tool"]}, {"output_tags": ["wire_transfer"]}]
)
def test_requesting_an_unregistered_tool_fails_the_negotiation(wish):
    with pytest.raises(CapabilityNotRegistered) as caught:
        registry.negotiate(ENTRY, contracts=CONTRACTS, **wish)

    assert caught.value.errors[0]["code"] == "CAPABILITY_NOT_REGISTERED"


@pytest.mark.req("R-MC-20")
def test_a_large_registry_is_reduced_to_the_tools_nearest_to_the_intent():
    names = tuple(f"tool_{number}" for number in range(109))
    contracts = dict.fromkeys(names, ToolText("Does something.")) | {"tool_77": ToolText("Refund a captured charge.")}
    disclosed = registry.negotiate(
        replace(ENTRY, tools=names), contracts=contracts, intent="refund the charge of order 17"
    )

    assert len(disclosed.tools) == registry.DISCLOSURE_CAP
    assert "tool_77" in disclosed.tools
    assert len(disclosed.withheld) == 79
    assert disclosed.warning.startswith("30 of 109 tools are disclosed, those nearest to the intent")
