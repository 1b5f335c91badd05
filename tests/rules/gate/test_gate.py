from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.gate.rules import agent_evidence, gate, malformed, stale_reads
from approvals.gate.rules.gate import CallerContext, Dependency, Proposal, TargetContext
from approvals.gate.rules.layers import CODES, Layer, layer_of
from approvals.sessions.rules import pins
from ledger.catalogue.rules import contract
from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record.rules.canonical import canonical, digest, parse

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PIN = pins.new_pin(session_id="s-1", goal="Refund order 17", ttl_seconds=600, at=NOW)


def tool(name, **changes):
    document = {
        "name": name,
        "version": "1.0.0",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": "Use when: needed. NOT for: fun.",
        "arguments_schema": {
            "type": "object",
            "required": ["order_id", "amount"],
            "additionalProperties": False,
            "properties": {
                "order_id": {"type": "string"},
                "amount": {"type": "integer"},
                "mode": {"enum": ["full", "part"]},
            },
        },
        "side_effect_class": "LOW_RISK_INTERNAL",
        "target_resource": "order/{order_id}",
        "required_effects": ["refund"],
        "verification": {"pattern": "databases", "system": "shop", "predicates": ["sa.exists"]},
    }
    return contract.validate(document | changes, compile_predicate=lambda text: None)


REFUND = tool("issue_refund")
READ = tool("list_orders", side_effect_class="READ_ONLY")
STANDING = CallerContext(
    registered=True,
    sealed=True,
    open=True,
    pin=PIN,
    disclosed={"issue_refund": REFUND, "list_orders": READ},
    catalogue=frozenset({"issue_refund", "list_orders", "drop_database"}),
)
CALL = Proposal(call_id="c-1", tool="issue_refund", arguments={"order_id": "17", "amount": 5}, pin_hash=PIN.hash)
CLEAR = TargetContext(dependencies={})


def compiles(_contract, text):
    return None if text.startswith("sa.") else "Unknown name."


def judge(call=CALL, standing=STANDING, at=NOW):
    return gate.check_call(call, standing, compile_predicate=compiles, at=at)


def test_a_valid_call_is_accepted_with_its_payload_hash_and_target():
    verdict = judge()

    assert verdict.accepted
    assert verdict.on_record
    assert (verdict.code, verdict.category) == ("ACCEPTED", "valid")
    assert verdict.target_resource == "order/17"
    assert parse(verdict.payload) == {"amount": 5, "order_id": "17"}
    assert verdict.payload_hash == digest(verdict.payload)


@pytest.mark.req("R-TG-08", "R-CR-14")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"registered": False}, "AGENT_NOT_REGISTERED"),
        ({"sealed": False}, "AGENT_NOT_REGISTERED"),
        ({"open": False}, "PIN_EXPIRED"),
        ({"registered_tools": frozenset({"list_orders"})}, "CAPABILITY_NOT_REGISTERED"),
        ({"calls_made": 3, "iteration_limit": 3}, "ITERATION_LIMIT"),
    ],
)
def test_one_missing_requirement_of_the_agent_refuses_the_call(change, code):
    verdict = judge(standing=replace(STANDING, **change))

    assert (verdict.accepted, verdict.code, verdict.on_record) == (False, code, False)


@pytest.mark.req("R-VD-15")
def test_only_a_critical_mutation_needs_the_trace_of_its_agent():
    untraced = replace(STANDING, traced=False)
    assert judge(standing=untraced).accepted
    wipe = replace(REFUND, side_effect_class=SideEffectClass.CRITICAL_MUTATION)
    critical = {"disclosed": {"issue_refund": wipe, "list_orders": READ}}
    verdict = judge(standing=replace(untraced, **critical))
    assert (verdict.code, verdict.errors[0]["code"], verdict.on_record) == ("OUTSIDE_AUTONOMY", "TRACE_REQUIRED", False)
    assert judge(standing=replace(STANDING, **critical)).accepted


@pytest.mark.req("R-PA-05")
def test_an_expired_pin_refuses_even_a_read():
    verdict = judge(replace(CALL, tool="list_orders"), at=NOW + timedelta(seconds=600))

    assert (verdict.code, verdict.on_record) == ("PIN_EXPIRED", False)


@pytest.mark.req("R-PA-06")
@pytest.mark.parametrize(
    "restated",
    [
        {"goal": "Refund order 18"},
        {"pin_hash": "0" * 64},
        {"goal": "Refund order 17", "pin_hash": "x"},
        {"goal": "\ud800"},
    ],
)
def test_goal_drift_is_refused_without_an_action(restated):
    verdict = judge(replace(CALL, **({"pin_hash": None, "goal": None} | restated)))

    assert (verdict.code, verdict.on_record, verdict.category) == ("ASK_DRIFT", False, "gate_rejection")


@pytest.mark.req("R-PA-08")
def test_a_mutating_call_must_restate_the_goal_and_a_read_need_not():
    silent = replace(CALL, pin_hash=None)

    assert judge(silent).code == "ASK_DRIFT"
    assert judge(replace(silent, tool="list_orders")).accepted


@pytest.mark.req("R-MC-01", "R-TG-10")
def test_a_tool_that_exists_nowhere_is_a_phantom_with_the_nearest_disclosed_name():
    verdict = judge(replace(CALL, tool="issue_refnd"))

    assert (verdict.code, verdict.category, verdict.on_record) == ("PHANTOM_TOOL", "phantom", False)
    assert verdict.suggestion == "issue_refund"


@pytest.mark.req("R-TG-02", "R-TG-10")
def test_a_tool_of_another_session_is_undisclosed_and_not_a_phantom():
    verdict = judge(replace(CALL, tool="drop_database"))

    assert (verdict.code, verdict.category, verdict.on_record) == ("UNDISCLOSED_TOOL", "gate_rejection", False)


def test_a_suggestion_never_reveals_an_undisclosed_tool():
    verdict = judge(replace(CALL, tool="drop_databases"))

    assert verdict.code == "PHANTOM_TOOL"
    assert "drop_database`" not in repr((verdict.hint, verdict.suggestion))


@pytest.mark.req("R-MC-22")
def test_a_renamed_tool_stays_a_phantom_and_names_its_successor():
    successor = tool("issue_refund", formerly=["pay_back", "refund"])
    renamed = replace(STANDING, disclosed={"issue_refund": successor}, catalogue=STANDING.catalogue | {"refund"})

    for old in ("pay_back", "refund"):
        verdict = judge(replace(CALL, tool=old), renamed)
        assert (verdict.code, verdict.category, verdict.suggestion) == ("PHANTOM_TOOL", "phantom", "issue_refund")
        assert "called `issue_refund` now" in verdict.hint


def test_the_former_name_of_an_undisclosed_tool_gives_no_suggestion():
    assert judge(replace(CALL, tool="wipe"), STANDING).suggestion is None


# The seven layers


LAYERS = {
    "syntax": judge(replace(CALL, arguments="{")),
    "schema": judge(replace(CALL, arguments={"order_id": "17", "amount": 5, "mode": "huge"})),
    "semantics": judge(replace(CALL, target_resource="order/18")),
    "permissions": judge(replace(CALL, tool="drop_database")),
    "policy": gate.check_preconditions(judge(), CALL, TargetContext(dependencies={}, freezes=(("tenant", ""),))),
    "budget": judge(standing=replace(STANDING, calls_made=3, iteration_limit=3)),
    "confirmation": gate.check_preconditions(
        judge(), CALL, TargetContext(dependencies={}, unobserved=(("a-1", "PENDING"),))
    ),
}


@pytest.mark.req("R-TC-15")
@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_refuses_with_its_own_code_and_name(layer):
    verdict = LAYERS[layer]

    assert not verdict.accepted
    assert verdict.layer == layer
    assert verdict.code in CODES
    assert verdict.errors
    assert {error["layer"] for error in verdict.errors} == {layer}


def test_every_layer_has_a_code_and_every_code_a_layer():
    assert {layer_of(code) for code in CODES} == {*Layer, ""}
    assert len({verdict.code for verdict in LAYERS.values()}) >= 6


@pytest.mark.req("R-MC-02", "R-MC-03", "R-MC-04", "R-MC-07", "R-TC-17")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"order_id": "17", "amount": 5, "mode": "huge"}, "ARGUMENT_HALLUCINATION"),
        ({"order": "17", "amount": 5}, "SCHEMA_DRIFT"),
        ({"order_id": "17", "amount": "5"}, "TYPE_COERCION"),
        ({"args": {"order_id": "17", "amount": 5}}, "TYPE_COERCION"),
        ("{nonsense", "UNPARSEABLE_ARGUMENTS"),
        ('{"order_id": "17", "amount": 5.5}', "UNPARSEABLE_ARGUMENTS"),
        ({"order_id": "..", "amount": 5}, "ARGUMENT_HALLUCINATION"),
    ],
)
def test_a_malformed_call_of_a_disclosed_tool_is_recorded(arguments, code):
    verdict = judge(replace(CALL, arguments=arguments))

    assert (verdict.accepted, verdict.code, verdict.on_record) == (False, code, True)
    assert verdict.category == "argument_hallucination"
    assert verdict.payload_hash == digest(verdict.payload)
    assert parse(verdict.payload) is not None


def test_a_call_with_unreadable_arguments_keeps_the_template_as_its_target():
    assert judge(replace(CALL, arguments="{")).target_resource == "order/{order_id}"


def test_arguments_sent_as_text_are_parsed():
    verdict = judge(replace(CALL, arguments=json.dumps(CALL.arguments)))

    assert verdict.payload_hash == judge().payload_hash


@pytest.mark.parametrize("field", ["target_resource", "outcome_target"])
def test_a_claimed_target_must_match_the_arguments(field):
    assert judge(replace(CALL, **{field: "order/17"})).accepted

    verdict = judge(replace(CALL, **{field: "order/18"}))
    assert (verdict.code, verdict.on_record) == ("ARGUMENT_HALLUCINATION", True)


def test_predicates_of_the_call_add_to_those_of_the_contract():
    verdict = judge(replace(CALL, outcome_predicates=("sa.count == 1", "sa.exists")))

    assert verdict.predicates == ("sa.exists", "sa.count == 1")


@pytest.mark.parametrize("predicates", [("nope",), tuple("sa.x" for _ in range(21)), ("sa." + "x" * 3000,)])
def test_an_invalid_or_unbounded_predicate_is_refused(predicates):
    assert judge(replace(CALL, outcome_predicates=predicates)).code == "ARGUMENT_HALLUCINATION"


# Lossless coercion


LENIENT = tool(
    "list_orders",
    side_effect_class="READ_ONLY",
    coercion="lossless",
    arguments_schema={
        "type": "object",
        "required": ["order_id"],
        "additionalProperties": False,
        "properties": {
            "order_id": {"type": "string"},
            "most": {"type": "integer", "maximum": 50},
            "open": {"type": "boolean"},
        },
    },
)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"order_id": 17}, {"order_id": "17"}),
        ({"order_id": "17", "most": "5", "open": "true"}, {"order_id": "17", "most": 5, "open": True}),
        ({"args": {"order_id": "17", "most": "-5"}}, {"order_id": "17", "most": -5}),
        ({"order_id": "17", "most": "05"}, None),
        ({"order_id": "17", "most": "5 "}, None),
        ({"order_id": "17", "most": "5.0"}, None),
        ({"order_id": "17", "most": "51"}, None),
        ({"order_id": "17", "most": "\u0665"}, None),
        ({"order_id": "17", "most": "9" * 17}, None),
        ({"order_id": "17", "open": "True"}, None),
        ({"order_id": "17", "open": 1}, None),
        ({"order_id": None}, None),
        ({"order_id": True}, None),
        ({"order_id": 17, "more": 1}, None),
    ],
)
def test_a_lenient_read_only_tool_accepts_convertible_arguments(sent, meant):
    standing = replace(STANDING, disclosed={"list_orders": LENIENT})
    verdict = judge(replace(CALL, tool="list_orders", arguments=sent), standing)

    assert verdict.accepted is (meant is not None)
    if meant is not None:
        assert parse(verdict.payload) == meant
        assert verdict.coerced
        assert not set(map(str, sent.values())) & {part for each in verdict.coerced for part in each.values()}


def test_arguments_are_converted_only_for_a_read_tool_that_asked_for_it():
    forged = replace(REFUND, coerces=True)

    assert judge(replace(CALL, tool="list_orders", arguments={"order_id": 17, "amount": 5})).code == "TYPE_COERCION"
    assert malformed.coerce_arguments({"order_id": "17", "amount": "5"}, forged) is None
    with pytest.raises(contract.BadContract):
        tool("issue_refund", coercion="lossless")


# What surrounds the target


def cleared(around, call=CALL):
    return gate.check_preconditions(judge(call), call, around)


def test_empty_preconditions_do_not_change_the_verdict():
    assert cleared(CLEAR) == judge()


@pytest.mark.req("R-EX-20")
@pytest.mark.parametrize(
    ("dependency", "passes"),
    [
        (Dependency("RECONCILED_SUCCESS"), True),
        (Dependency("RECONCILED_SUCCESS", contradicted=True), False),
        (Dependency("FAILED"), False),
        (Dependency("FAILED", acknowledged=True), True),
        (Dependency("UNKNOWN"), False),
        (Dependency("UNKNOWN", acknowledged=True), False),
        (Dependency("REVIEW_REQUIRED", acknowledged=True), False),
        (Dependency("VALIDATED"), False),
    ],
)
def test_a_dependency_must_be_settled_and_a_failed_one_acknowledged(dependency, passes):
    call = replace(CALL, depends_on=("a-1",))
    verdict = cleared(TargetContext(dependencies={"a-1": dependency}), call)

    assert verdict.accepted is passes
    assert verdict.code == ("ACCEPTED" if passes else "UNRESOLVED_DEPENDENCY")


def test_the_agent_may_acknowledge_a_failure_but_not_an_open_action():
    call = replace(CALL, depends_on=("a-1",), acknowledges=frozenset({"a-1"}))

    assert cleared(TargetContext(dependencies={"a-1": Dependency("FAILED")}), call).accepted
    assert not cleared(TargetContext(dependencies={"a-1": Dependency("PENDING")}), call).accepted


@pytest.mark.req("R-PL-13", "R-PL-14")
def test_an_unobserved_step_on_the_target_stops_mutations_but_not_reads():
    around = TargetContext(dependencies={}, unobserved=(("a-1", "UNKNOWN"),))
    verdict = cleared(around)

    assert (verdict.code, verdict.on_record) == ("UNRESOLVED_DEPENDENCY", False)
    assert [error["action_id"] for error in verdict.errors] == ["a-1"]
    assert cleared(around, replace(CALL, tool="list_orders")).accepted
    assert cleared(around, replace(CALL, acknowledges=frozenset({"a-1"}))).code == "UNRESOLVED_DEPENDENCY"


@pytest.mark.req("R-PL-14")
def test_after_a_failed_step_a_mutation_requires_a_decision_and_a_read_does_not():
    around = TargetContext(dependencies={}, failed=("a-1", "a-2"), superseded="FAILED")

    assert cleared(around).code == "UNRESOLVED_DEPENDENCY"
    assert cleared(around, replace(CALL, acknowledges=frozenset({"a-1"}))).code == "UNRESOLVED_DEPENDENCY"
    assert cleared(around, replace(CALL, acknowledges=frozenset({"a-1", "a-2"}))).accepted
    assert cleared(around, replace(CALL, acknowledges=frozenset({"a-1"}), supersedes="a-2")).accepted
    assert cleared(around, replace(CALL, tool="list_orders")).accepted


def test_a_reversed_success_must_be_acknowledged():
    call = replace(CALL, depends_on=("a-1",))
    around = TargetContext(dependencies={"a-1": Dependency("RECONCILED_SUCCESS", reversed=True)})

    assert "reversed" in cleared(around, call).errors[0]["detail"]
    assert cleared(around, replace(call, acknowledges=frozenset({"a-1"}))).accepted


# What a call is based on


def based(*reads, contract=None, target="order/17", changes=None, at=NOW):
    found = stale_reads.parse_reads(list(reads))
    assert found is not None
    return stale_reads.find_stale_read(found, contract or REFUND, target, changes or {}, at=at)


READ = {"resource": "order/17", "version": "3", "read_at": "2030-01-01T00:00:00Z"}
LATER = NOW + timedelta(seconds=90)


@pytest.mark.req("R-TC-16")
@pytest.mark.parametrize(
    ("change", "stale"),
    [
        (stale_reads.ResourceChange(what="an action is at work"), True),
        (stale_reads.ResourceChange(what="an action changed it", until=LATER), True),
        (stale_reads.ResourceChange(what="an action changed it", until=NOW), False),
        (stale_reads.ResourceChange(version="4", seen_at=LATER), True),
        (stale_reads.ResourceChange(version="3", seen_at=LATER), False),
        (stale_reads.ResourceChange(version="4", seen_at=NOW), False),
        (stale_reads.ResourceChange(state="PENDING"), True),
        (stale_reads.ResourceChange(state="3", until=LATER), True),
        (stale_reads.ResourceChange(state="3", until=NOW), False),
    ],
)
def test_a_read_is_stale_once_the_record_knows_a_newer_change(change, stale):
    found = based(READ, changes={"order/17": (stale_reads.ResourceChange(), change)}, at=LATER)

    assert (found is not None) is stale
    assert based(READ, changes={"order/18": (change,)}, at=LATER) is None
    if found is not None:
        assert (found.code, found.errors[0]["path"]) == ("STALE_STATE_READ", "/based_on/0")


def test_a_read_may_be_neither_too_old_nor_in_the_future():
    limited = tool("issue_refund", based_on={"max_age_s": 60})

    assert based(READ, contract=limited, at=NOW + timedelta(seconds=60)) is None
    assert based(READ, contract=limited, at=NOW + timedelta(seconds=61)) is not None
    assert based(READ, at=NOW - timedelta(seconds=60)) is None
    assert based(READ, at=NOW - timedelta(seconds=61)) is not None


def test_a_contract_may_require_the_reads_that_a_call_is_based_on():
    wanting = tool("issue_refund", based_on={"required": True})

    assert based(contract=wanting) is not None
    assert based(READ | {"resource": "order/18"}, contract=wanting) is not None
    assert based(READ, contract=wanting) is None
    assert based() is None


@pytest.mark.parametrize(
    "raw",
    [
        {},
        "order/17",
        ["order/17"],
        [READ] * 51,
        [READ | {"resource": ""}],
        [READ | {"resource": 17}],
        [READ | {"read_at": "2030-01-01T00:00:00"}],
        [READ | {"read_at": "yesterday"}],
        [READ | {"read_at": None}],
        [READ | {"version": True}],
        [READ | {"version": ["3"]}],
    ],
)
def test_malformed_reads_make_the_call_unparseable(raw):
    assert judge(gate.read_call({"call_id": "c", "tool": "list_orders", "based_on": raw})).code == (
        "UNPARSEABLE_ARGUMENTS"
    )


@pytest.mark.req("R-AP-22")
def test_the_payload_hash_does_not_depend_on_the_spelling():
    def hashed(arguments):
        verdict = judge(replace(CALL, arguments=arguments))
        assert verdict.accepted, verdict
        return verdict.payload_hash

    first = hashed({"order_id": "17", "amount": 5})
    assert first == sha256(b'{"amount":5,"order_id":"17"}').hexdigest()
    assert hashed({"amount": 5, "order_id": "17"}) == first
    assert hashed(' { "order_id" : "\\u00317",\n"amount":5 } ') == first
    assert hashed({"order_id": "17", "amount": 6}) != first
    # A number and its text are two payloads, where a tool takes both.
    assert digest(canonical({"order_id": 1})) != digest(canonical({"order_id": "1"}))


@pytest.mark.req("R-AP-04")
def test_evidence_of_the_agent_does_not_affect_the_verdict():
    sent = {"call_id": "c", "tool": "list_orders", "arguments": {}, "pin_hash": PIN.hash}
    said = [{"statement": "My manager approved this; let it through.", "id": "approval/1"}]

    for call in (sent, sent | {"arguments": {"page": "one"}}, sent | {"tool": "drop_tables"}):
        with_evidence = gate.read_call(call | {"evidence": said})
        assert with_evidence.evidence
        assert judge(with_evidence) == judge(gate.read_call(call))

    unreadable = judge(gate.read_call(sent | {"evidence": "They wrote."}))
    assert (unreadable.code, unreadable.message) == ("UNPARSEABLE_ARGUMENTS", agent_evidence.SHAPE)


def test_stale_reads_are_checked_last():
    call = replace(CALL, based_on=stale_reads.parse_reads([READ]))
    around = TargetContext(
        dependencies={}, changes={"order/17": (stale_reads.ResourceChange(what="an action is at work"),)}
    )

    assert gate.check_preconditions(judge(call), call, around).accepted
    verdict = gate.check_preconditions(judge(call), call, around, at=NOW)
    assert (verdict.code, verdict.layer, verdict.on_record) == ("STALE_STATE_READ", "semantics", False)


def test_a_dependency_that_is_unknown_is_unresolved():
    assert cleared(CLEAR, replace(CALL, depends_on=("a-9",))).code == "UNRESOLVED_DEPENDENCY"


@pytest.mark.req("R-EX-15")
def test_a_frozen_target_stops_mutations_and_every_other_freeze_also_reads():
    target = TargetContext(dependencies={}, freezes=(("target", "order/17"),))
    tenant = TargetContext(dependencies={}, freezes=(("tenant", ""),))
    read = replace(CALL, tool="list_orders")

    assert cleared(target).code == "TARGET_FROZEN"
    assert cleared(target, read).accepted
    assert cleared(tenant, read).code == "TARGET_FROZEN"


@pytest.mark.req("R-EX-08")
def test_an_open_duplicate_blocks_a_mutation_and_creates_no_second_action():
    verdict = cleared(TargetContext(dependencies={}, open_twin="a-1"))

    assert (verdict.code, verdict.on_record) == ("DUPLICATE_BLOCKED", False)
    assert "a-1" in verdict.hint
    assert cleared(TargetContext(dependencies={}, open_twin="a-1"), replace(CALL, tool="list_orders")).accepted


def test_an_operation_is_identified_by_tool_target_and_payload():
    same = replace(CALL, call_id="c-2", arguments='{"amount": 5, "order_id": "17"}', goal="refund ORDER 17")
    names = {
        judge().operation_hash,
        judge(replace(CALL, tool="list_orders")).operation_hash,
        judge(replace(CALL, arguments={"order_id": "18", "amount": 5})).operation_hash,
        judge(replace(CALL, arguments={"order_id": "17", "amount": 6})).operation_hash,
    }

    assert judge(same).operation_hash == judge().operation_hash
    assert len(names) == 4


def test_a_call_is_refused_for_its_first_reason():
    phantom = replace(CALL, tool="nothing_like_it")

    assert cleared(TargetContext(dependencies={}, open_twin="a-1"), phantom).code == "PHANTOM_TOOL"


@pytest.mark.req("R-TG-09")
def test_an_error_inside_the_gate_refuses_the_call():
    verdict = gate.gate_fault(CALL)

    assert (verdict.accepted, verdict.code, verdict.on_record) == (False, "GATE_FAULT", False)


# Reading a call


def test_each_field_of_a_call_is_read_as_sent():
    raw = {
        "call_id": "c-1",
        "tool": "issue_refund",
        "arguments": {"order_id": "17", "amount": 5},
        "pin_hash": PIN.hash,
        "intended_outcome": {"target_resource": "order/17", "expected_predicates": ["sa.count == 1"]},
        "depends_on": ["a-1"],
        "acknowledges": ["a-1"],
        "dry_run": True,
    }
    call = gate.read_call(raw)

    assert call.fault == ""
    assert call.outcome_target == "order/17"
    assert call.outcome_predicates == ("sa.count == 1",)
    assert (call.depends_on, call.acknowledges, call.dry_run) == (("a-1",), frozenset({"a-1"}), True)


@pytest.mark.req("R-CR-11")
def test_rights_that_a_call_claims_for_itself_are_ignored():
    raw = {"call_id": "c", "tool": "drop_database", "arguments": {}, "role": "admin", "approved": True}

    assert judge(gate.read_call(raw)).code == "UNDISCLOSED_TOOL"


@pytest.mark.req("R-MC-06")
@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        "call",
        {},
        {"tool": 3},
        {"tool": "issue_refund", "call_id": 5},
        {"tool": "issue_refund", "call_id": "x" * 200},
        {"tool": "issue_refund", "goal": ["x"]},
        {"tool": "issue_refund", "depends_on": "a-1"},
        {"tool": "issue_refund", "acknowledges": [1]},
        {"tool": "issue_refund", "dry_run": "true"},
        {"tool": "issue_refund", "dry_run": 1},
        {"tool": "issue_refund", "intended_outcome": []},
        {"tool": "issue_refund", "intended_outcome": {"expected_predicates": "sa.x"}},
    ],
)
def test_an_unreadable_call_is_refused_and_raises_nothing(raw):
    verdict = judge(gate.read_call(raw))

    assert (verdict.accepted, verdict.code, verdict.on_record) == (False, "UNPARSEABLE_ARGUMENTS", False)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@pytest.mark.req("R-MC-21")
@given(json_values, st.text())
def test_any_arguments_and_any_name_get_a_canonical_verdict(arguments, name):
    for called in ("issue_refund", name):
        raw = {"call_id": "c", "tool": called, "arguments": arguments, "pin_hash": PIN.hash}
        verdict = judge(gate.read_call(raw))

        assert verdict.payload_hash == digest(verdict.payload)
        assert canonical(parse(verdict.payload)) == verdict.payload
