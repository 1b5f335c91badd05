"""Entries: the schema walked member by member, and times that never run backwards."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib import resources
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.record.rules.entry import NO_RECOVERY, SCHEMA, BadEntry, add_state_blocks, amend, check_entry, is_complete
from ledger.record.rules.lifecycle import State
from tests.support.pure.entries import make_entry
from tests.support.tables import every_row

ORDER = ["proposed_at", "validated_at", "executed_at", "verified_at", "reconciled_at"]
BLOCKS = {
    "idempotency": {"required": True, "key_hash": "ab", "request_hash": "cd", "status": "PENDING"},
    "approval": {
        "required": True,
        "approval_id": "a-1",
        "approver_id": None,
        "payload_hash": "ef",
        "expires_at": "2026-11-21T13:00:00.000000Z",
    },
    "recovery": NO_RECOVERY,
}
ACTION = UUID("01990000-0000-7000-8000-000000000001")


def full(**changes):
    return make_entry(ACTION, **deepcopy(BLOCKS)) | changes


def bare():
    """An entry without any of the optional blocks."""
    return {name: value for name, value in full().items() if name not in BLOCKS}


def put(path, value):
    """A full entry with the value at `path` replaced."""
    entry = full()
    here = entry
    for name in path[:-1]:
        here = here[name]
    here[path[-1]] = value
    return entry


def leaves(schema=SCHEMA, path=()):
    """Every member of the schema that is not an object, with its path."""
    for name, each in schema["properties"].items():
        each = SCHEMA["$defs"][each["$ref"].rpartition("/")[2]] if "$ref" in each else each
        if each["type"] == "object":
            yield from leaves(each, (*path, name))
        else:
            yield (*path, name), each


def objects(schema=SCHEMA, path=()):
    yield path, schema
    for name, each in schema["properties"].items():
        if each.get("type") == "object":
            yield from objects(each, (*path, name))


LEAVES = list(leaves())
OBJECTS = list(objects())
ENUMS = [(path, value) for path, schema in LEAVES for value in schema.get("enum", [])]
REQUIRED = [(*path, name) for path, schema in OBJECTS for name in schema["required"]]
INSTANTS = [path for path, schema in LEAVES if schema.get("format") == "date-time"]


def dotted(path):
    return ".".join(map(str, path)) if isinstance(path, tuple) else str(path)


def test_a_full_entry_and_a_minimal_one_are_valid():
    check_entry(full())
    check_entry(bare())


@pytest.mark.req("R-LE-03")
def test_the_schema_has_fourteen_required_blocks_and_three_optional_ones():
    assert len(SCHEMA["required"]) == 14
    assert set(SCHEMA["properties"]) - set(SCHEMA["required"]) == set(BLOCKS)


@pytest.mark.req("R-LE-04")
def test_each_enumeration_has_its_number_of_values():
    lengths = {dotted(path): len(schema["enum"]) for path, schema in LEAVES if "enum" in schema}
    assert lengths == {
        "side_effect_class": 6,
        "idempotency.status": 7,
        "execution.status": 7,
        "verification.status": 7,
        "reconciliation.status": 8,
    }


@pytest.mark.req("R-LE-04")
@every_row(("path", "value"), ENUMS)
def test_each_value_of_an_enumeration_is_valid_and_similar_ones_are_not(path, value):
    check_entry(put(path, value))
    for wrong in (str(value).lower(), f"{value} ", f"{value}S"):
        with pytest.raises(BadEntry, match=path[-1]):
            check_entry(put(path, wrong))


@pytest.mark.req("R-LE-03", "R-LE-05")
@every_row("path", REQUIRED)
def test_a_missing_member_is_refused(path):
    entry = full()
    here = entry
    for name in path[:-1]:
        here = here[name]
    del here[path[-1]]
    with pytest.raises(BadEntry, match=path[-1]):
        check_entry(entry)


@pytest.mark.req("R-LE-05")
@pytest.mark.parametrize("block", BLOCKS)
def test_an_optional_block_may_be_absent_and_may_not_be_empty(block):
    entry = full()
    del entry[block]
    check_entry(entry)
    with pytest.raises(BadEntry):
        check_entry(entry | {block: {}})
    with pytest.raises(BadEntry):
        check_entry(entry | {block: None})


@pytest.mark.req("R-LE-03")
@pytest.mark.parametrize("path", [path for path, _ in OBJECTS], ids=dotted)
def test_an_extra_member_is_refused_at_every_level(path):
    with pytest.raises(BadEntry, match="extra"):
        check_entry(put((*path, "extra"), "x"))


@every_row(("path", "schema"), LEAVES)
def test_a_member_of_another_type_is_refused(path, schema):
    allowed = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    others = {"string": "x", "null": None, "boolean": True, "integer": 7, "array": [], "object": {}}
    for name, value in others.items():
        if name not in allowed:
            with pytest.raises(BadEntry):
                check_entry(put(path, value))


@pytest.mark.parametrize("value", [-1, "1", None, True])
def test_attempts_are_counted_from_zero(value):
    check_entry(put(("execution", "attempt_count"), 0))
    with pytest.raises(BadEntry):
        check_entry(put(("execution", "attempt_count"), value))


@pytest.mark.req("R-LE-16")
@every_row("path", INSTANTS)
@every_row(
    "text",
    [
        "",
        "yesterday",
        "2026-11-21",
        "2026-11-21 12:00:00Z",
        "2026-11-21T12:00:00",
        "2026-13-21T12:00:00Z",
        "2026-11-31T12:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T12:00:00+25:00",
        "20261121T120000Z",
    ],
)
def test_an_invalid_date_is_refused_at_any_place(path, text):
    with pytest.raises(BadEntry):
        check_entry(put(path, text))


def test_every_date_of_the_schema_is_found():
    assert sorted(map(dotted, INSTANTS)) == sorted(["approval.expires_at", *(f"timestamps.{name}" for name in ORDER)])


@pytest.mark.req("R-LE-12")
@pytest.mark.parametrize(("earlier", "later"), list(pairwise(ORDER)), ids=dotted)
def test_times_that_run_backwards_are_refused(earlier, later):
    times = dict.fromkeys(ORDER, "2026-11-21T12:00:00.000000Z")
    check_entry(full(timestamps=times | {later: "2026-11-21T12:00:00.000000Z"}))
    with pytest.raises(BadEntry, match="backwards"):
        check_entry(full(timestamps=times | dict.fromkeys(ORDER[ORDER.index(later) :], "2026-11-21T11:59:59.999999Z")))


@pytest.mark.req("R-LE-12")
def test_timestamps_are_compared_across_unset_ones():
    times = dict.fromkeys(ORDER, None) | {"proposed_at": "2026-11-21T12:00:00.000000Z"}
    check_entry(full(timestamps=times | {"reconciled_at": "2026-11-21T12:00:00.000000Z"}))
    with pytest.raises(BadEntry, match="backwards"):
        check_entry(full(timestamps=times | {"reconciled_at": "2026-11-21T11:00:00.000000Z"}))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2026-11-21T12:00:00Z", "2026-11-21T12:00:00.5Z"),
        ("2026-11-21T12:00:00+02:00", "2026-11-21T11:00:00Z"),
        ("2026-11-21T12:00:00-07:00", "2026-11-21T20:00:01+01:00"),
    ],
)
def test_timestamps_are_compared_as_times_and_not_as_text(earlier, later):
    unreached = dict.fromkeys(ORDER, None)
    check_entry(full(timestamps=unreached | {"proposed_at": earlier, "validated_at": later}))
    with pytest.raises(BadEntry, match="backwards"):
        check_entry(full(timestamps=unreached | {"proposed_at": later, "validated_at": earlier}))


def test_a_leap_second_cannot_be_compared():
    with pytest.raises(BadEntry, match="compare"):
        check_entry(put(("timestamps", "proposed_at"), "2016-12-31T23:59:60Z"))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_malformed_blocks_are_refused(value):
    for block in SCHEMA["required"]:
        if block not in ("action_id", "workflow_run_id", "tenant_id", "principal_id", "side_effect_class"):
            with pytest.raises(BadEntry):
                check_entry(full(**{block: value}))


# Amendments


def test_an_amendment_changes_only_what_it_names():
    before = full()
    after = amend(before, {"execution": {"status": "EXECUTING", "attempt_count": 1}})
    assert after["execution"] == {"status": "EXECUTING", "observation_pointer": None, "attempt_count": 1}
    assert after | {"execution": None} == before | {"execution": None}
    assert before == full(tenant_id=before["tenant_id"], principal_id=before["principal_id"], trace=before["trace"])


def test_an_amendment_never_drops_a_block():
    assert set(amend(full(), {"trace": {"replay_bundle_id": "b-1"}})) == set(full())


def test_an_amendment_replaces_a_top_level_value():
    assert amend(full(), {"side_effect_class": "READ_ONLY"})["side_effect_class"] == "READ_ONLY"


def test_a_recovery_starts_with_its_complete_block():
    after = amend(bare(), {"recovery": {"review_id": "r-1"}})
    assert after["recovery"] == NO_RECOVERY | {"review_id": "r-1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"execution": {"status": "DONE"}},
        {"execution": {"extra": 1}},
        {"approval": {"required": True}},
        {"side_effect_class": "HARMLESS"},
        {"outcome": {"status": "DONE"}},
        {"timestamps": {"validated_at": "2026-11-21T11:00:00.000000Z"}},
        {"timestamps": {"proposed_at": None}},
    ],
    ids=repr,
)
def test_an_amendment_that_makes_the_entry_invalid_is_refused(changes):
    with pytest.raises(BadEntry):
        amend(bare(), changes)


def test_an_entry_is_complete_when_it_has_the_required_blocks():
    small, whole = bare(), full()
    assert is_complete(small, mutating=False, gated=False)
    assert not is_complete(small, mutating=True, gated=False)
    assert not is_complete(small, mutating=False, gated=True)
    assert is_complete(whole, mutating=True, gated=True)


# What a state says of the optional blocks


def entered(state, status="PENDING", changes=None):
    """The entry of a mutation whose idempotency record said `status`, after the action entered `state`."""
    entry = full()
    entry["idempotency"]["status"] = status
    return amend(entry, add_state_blocks(entry, changes or {}, state))


SAID = {
    State.VALIDATED: "PENDING",
    State.RECONCILED_SUCCESS: "COMPLETED",
    State.FAILED: "FAILED_FINAL",
    State.ROLLED_BACK: "FAILED_FINAL",
    State.COMPENSATED: "COMPENSATED",
    State.ABANDONED: "EXPIRED",
}


@pytest.mark.req("R-EX-05")
@pytest.mark.parametrize("state", State)
def test_the_idempotency_status_follows_the_state(state):
    assert entered(state)["idempotency"]["status"] == SAID.get(state, "PENDING")
    assert entered(state, "EXPIRED")["idempotency"]["status"] == SAID.get(state, "EXPIRED")


@pytest.mark.req("R-EX-05")
@pytest.mark.parametrize("state", State)
def test_an_action_that_never_started_has_no_idempotency_status(state):
    assert entered(state, None)["idempotency"]["status"] is None


def test_a_retryable_failure_is_marked_as_such():
    again = {"idempotency": {"status": "FAILED_RETRYABLE"}}
    assert entered(State.FAILED, changes=again)["idempotency"]["status"] == "FAILED_RETRYABLE"


@pytest.mark.req("R-LE-06")
@pytest.mark.parametrize("state", [State.COMPENSATING, State.FORWARD_RECOVERY])
def test_an_entry_has_its_recovery_block_from_the_start_of_the_recovery(state):
    entry = full()
    del entry["recovery"]
    assert amend(entry, add_state_blocks(entry, {}, state))["recovery"] == NO_RECOVERY
    ordered = {"recovery": {"compensation_action_id": "a-2"}}
    assert amend(full(), add_state_blocks(full(), ordered, state))["recovery"]["compensation_action_id"] == "a-2"


@pytest.mark.req("R-LE-03")
def test_version_2_of_the_schema_adds_only_the_digests_of_policies():
    older = json.loads(resources.files("ledger.record.rules").joinpath("ledger_entry_1.schema.json").read_bytes())
    newer = deepcopy(SCHEMA)
    del newer["$defs"]["digest"]
    context = newer["properties"]["policy_context"]["properties"]
    for name in [name for name in context if name.endswith("_digest")]:
        del context[name]
    assert (older.pop("$id")[-2:], newer.pop("$id")[-2:]) == (":1", ":2")
    del older["title"], newer["title"]
    assert newer == older
