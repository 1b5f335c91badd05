"""Recovery: every row of the table, its order, its ways, and what must wait for a person."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from importlib.resources import files

import pytest

from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import TRANSITIONS, State
from reviews.recovery.rules.recovery import RecoveryOptions, decide_recovery, no_remedy
from reviews.recovery.rules.recovery_table import BUILT_IN, ROWS, RecoveryPolicy, RecoverySituation, legal_path
from reviews.recovery.rules.remedies import RecoveryOrder
from tests.support.tables import every_row

PLAIN = RecoverySituation(
    triggers=frozenset(),
    side_effect_class="MEDIUM_RISK_WRITE",
    reversibility="COMPENSABLE",
    transaction_boundary="COMPENSABLE_PRE_PIVOT",
    read_consistency="PRIMARY",
    idempotency_status="PENDING",
)
UNDO = RecoveryOrder(relation=Relation.COMPENSATION, tool="cancel_refund", arguments={"refund": "re_1"})
EVERYTHING = RecoveryOptions(plan=lambda wanted: (UNDO,))
match = BUILT_IN.match
# What each row says, read off the table in the requirements: row, action, last state of its way.
ENDS = {
    "RT-01": ("RETRY_VERIFICATION", "PENDING"),
    "RT-02": ("FORCE_STRONG_READ", "PENDING"),
    "RT-03": ("COMPENSATE_OR_ROLL_BACK", "COMPENSATING"),
    "RT-04": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-05": ("COMPENSATE_AND_STOP", "COMPENSATING"),
    "RT-06": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-07": ("POLL_IDEMPOTENCY_RECORD", "PENDING"),
    "RT-08": ("FREEZE_AND_RECONCILE_MANUALLY", "REVIEW_REQUIRED"),
    "RT-09": ("BACKWARD_COMPENSATION", "COMPENSATING"),
    "RT-10": ("FORWARD_RECOVERY", "FORWARD_RECOVERY"),
    "RT-11": ("REFRESH_AND_REPLAN", "FAILED"),
    "RT-12": ("FREEZE_AND_ALERT", "REVIEW_REQUIRED"),
    "RT-13": ("RECORD_IDEMPOTENT_REPLAY", "RECONCILED_SUCCESS"),
    "RT-14": ("FREEZE_AND_ALARM", "REVIEW_REQUIRED"),
    "RT-15": ("REPORT_UNVERIFIED_DEGRADED", "UNKNOWN"),
    "RT-16": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-17": ("MANUAL_REVIEW_AND_INCIDENT", "REVIEW_REQUIRED"),
    "RT-18": ("DEFER_OR_FAIL_CLEANLY", "VALIDATED"),
    "RT-19": ("HOLD_PENDING_AND_RETRY_VERIFICATION", "PENDING"),
    "RT-20": ("REVALIDATE_APPROVAL", "VALIDATED"),
    "RT-21": ("FAIL_CLOSED", "REVIEW_REQUIRED"),
    "RT-31": ("RECORD_NO_OP", "RECONCILED_SUCCESS"),
    "RT-32": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-33": ("REFRESH_AND_RETRY", "VALIDATED"),
    "RT-34": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-35": ("COMPENSATE_OR_ROLL_BACK", "COMPENSATING"),
    "RT-36": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-37": ("REFRESH_AND_REPLAN", "FAILED"),
    "RT-38": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-39": ("RETRY_VERIFICATION", "PENDING"),
    "RT-40": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-41": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-42": ("FREEZE_AND_ALERT", "REVIEW_REQUIRED"),
    "RT-43": ("RETURN_UNAVAILABLE", "UNKNOWN"),
    "RT-44": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-45": ("RETRY_READ", "VALIDATED"),
    "RT-46": ("VERIFY_FROM_RECORD", "PENDING"),
    "RT-47": ("REFRESH_AND_RETRY", "VALIDATED"),
    "RT-48": ("FAIL_FINAL", "FAILED"),
    "RT-49": ("FREEZE_AND_RECONCILE_MANUALLY", "REVIEW_REQUIRED"),
    "RT-50": ("MANUAL_REVIEW", "REVIEW_REQUIRED"),
    "RT-51": ("COMPENSATE", "COMPENSATING"),
    "RT-52": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-53": ("PRESERVE_UNKNOWN_AND_BLOCK", "UNKNOWN"),
    "RT-54": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
    "RT-99": ("HOLD_AND_ESCALATE", "REVIEW_REQUIRED"),
}
STARTS = {
    "COMPENSATION_FAILED": State.COMPENSATING,
    "RECONCILIATION_FAILED": State.PENDING,
    "VALIDATED": State.FAILED,
}


def fitting(row):
    """A plain situation with just what the row asks for."""
    wanted = dict(row.inputs)
    for part in wanted.pop("any_of", [])[:1]:
        wanted |= part
    values = {key: value[0] if isinstance(value, list) else value for key, value in wanted.items()}
    return replace(PLAIN, triggers=frozenset({row.trigger}), **values)


def test_every_row_of_the_table_has_an_expected_end():
    assert len(ROWS) == len(ENDS)
    assert {row.id for row in ROWS} == set(ENDS)
    assert ROWS[-1].id == "RT-99"


@pytest.mark.req(*(f"R-RP-{number:02}" for number in range(1, 22)))
@every_row("row", ROWS)
def test_each_row_decides_the_situation_that_it_describes(row):
    found = match(fitting(row))
    assert found.id == row.id
    assert (found.action, str(found.paths[0][-1])) == ENDS[row.id]


@pytest.mark.parametrize("row", [row for row in ROWS if "any_of" in row.inputs], ids=lambda row: row.id)
def test_each_alternative_condition_of_a_row_is_sufficient(row):
    plain = replace(PLAIN, triggers=frozenset({row.trigger}))
    assert match(plain).id != row.id
    for part in row.inputs["any_of"]:
        for key, values in part.items():
            for value in values if isinstance(values, list) else [values]:
                found = match(replace(plain, **{key: value}))
                assert ROWS.index(found) <= ROWS.index(row)


@every_row("row", ROWS[:-1])
def test_a_row_does_not_apply_without_its_trigger(row):
    assert match(replace(fitting(row), triggers=frozenset())).id == "RT-99"


@pytest.mark.req("R-RP-23")
def test_an_unknown_situation_is_held_for_a_person():
    assert match(replace(PLAIN, triggers=frozenset({"SOMETHING_NEW"}))).id == "RT-99"
    assert match(PLAIN).action == "HOLD_AND_ESCALATE"


@pytest.mark.req("R-RP-25")
def test_an_additional_trigger_never_leads_to_a_later_row():
    for first, second in itertools.combinations(ROWS[:-1], 2):
        both = replace(fitting(second), triggers=frozenset({first.trigger, second.trigger}))
        assert ROWS.index(match(both)) <= ROWS.index(second)


@pytest.mark.req("R-RP-25")
def test_a_wrong_target_precedes_every_other_row():
    every = frozenset(row.trigger for row in ROWS) - {"*"}
    assert match(replace(PLAIN, triggers=every, reversibility="IRREVERSIBLE")).id == "RT-14"


@pytest.mark.req("R-RP-22")
def test_the_table_has_every_input_that_it_names():
    document = json.loads(files("reviews.recovery.rules").joinpath("recovery_table.json").read_bytes())
    names = set(document["inputs"]) - {"trigger", "flags"} | set(document["inputs"]["flags"])
    assert names <= set(vars(PLAIN))
    used = {key for row in ROWS for key in row.inputs} - {"any_of"}
    assert used <= names


@every_row("row", ROWS)
def test_every_path_of_a_row_consists_of_legal_transitions(row):
    for path in row.paths:
        start = STARTS.get(str(path[0]), State.PENDING)
        walked = legal_path(start, path)
        for before, after in itertools.pairwise((start, *walked)):
            assert (before, after) in TRANSITIONS
        assert (walked or (start,))[-1] is path[-1]


@pytest.mark.parametrize(
    ("state", "path", "expected"),
    [
        ("PENDING", "PENDING", ""),
        ("PENDING", "UNKNOWN PENDING", ""),
        ("UNKNOWN", "UNKNOWN PENDING", "PENDING"),
        ("UNKNOWN", "UNKNOWN REVIEW_REQUIRED", "REVIEW_REQUIRED"),
        ("PENDING", "REVIEW_REQUIRED", "UNKNOWN REVIEW_REQUIRED"),
        ("ACCEPTED", "REVIEW_REQUIRED", "UNKNOWN REVIEW_REQUIRED"),
        ("UNKNOWN", "COMMITTED RECONCILED_SUCCESS", "PENDING COMMITTED RECONCILED_SUCCESS"),
        ("UNKNOWN", "FAILED", "PENDING FAILED"),
        ("PENDING", "RECONCILIATION_FAILED COMPENSATING", "COMMITTED RECONCILIATION_FAILED COMPENSATING"),
        ("ACCEPTED", "RECONCILIATION_FAILED", "PENDING COMMITTED RECONCILIATION_FAILED"),
        ("COMMITTED", "COMMITTED RECONCILIATION_FAILED REVIEW_REQUIRED", "RECONCILIATION_FAILED REVIEW_REQUIRED"),
    ],
)
def test_incomplete_paths_are_completed_with_legal_transitions(state, path, expected):
    way = tuple(map(State, path.split()))
    assert legal_path(State(state), way) == tuple(map(State, expected.split()))


def test_a_path_that_cannot_be_completed_raises_an_error():
    with pytest.raises(KeyError):
        legal_path(State.RECONCILED_SUCCESS, (State.REVIEW_REQUIRED,))


def decided(row_id, *, means=EVERYTHING, policy=BUILT_IN, **changes):
    row = next(row for row in ROWS if row.id == row_id)
    return decide_recovery(replace(fitting(row), **changes), state=State.PENDING, means=means, policy=policy)


def test_a_decision_names_its_row_and_action():
    assert decided("RT-04").text == "RT-04 HOLD_AND_ESCALATE"


@pytest.mark.req("R-RP-42", "R-RP-43", "R-RP-49")
@pytest.mark.parametrize(
    ("row", "freeze", "incident"),
    [
        ("RT-12", True, "operations"),
        ("RT-42", True, "operations"),
        ("RT-14", True, "security"),
        ("RT-08", True, None),
        ("RT-49", True, None),
        ("RT-04", False, None),
        ("RT-54", True, None),
    ],
)
def test_each_row_freezes_and_opens_incidents_as_documented(row, freeze, incident):
    found = decided(row)
    assert (found.freeze, found.incident) == (freeze, incident)
    assert found.case


def test_a_failed_compensation_of_a_visible_effect_opens_an_incident():
    row = next(row for row in ROWS if row.id == "RT-17")
    found = decide_recovery(fitting(row), state=State.COMPENSATING, means=EVERYTHING)
    assert found.path == (State.COMPENSATION_FAILED, State.REVIEW_REQUIRED)
    assert found.incident == "operations"


@pytest.mark.parametrize("row", ["RT-01", "RT-02", "RT-07", "RT-19", "RT-39", "RT-46"])
def test_rows_that_wait_schedule_a_reading_and_change_no_state(row):
    found = decided(row)
    assert found.next_read
    assert found.path == ()
    assert not found.case


@pytest.mark.req("R-RP-50", "R-RP-34")
@every_row(
    ("means", "policy", "because"),
    [
        (replace(EVERYTHING, high_impact=True), BUILT_IN, "HIGH_RISK_EXTERNAL"),
        (replace(EVERYTHING, plan=no_remedy), BUILT_IN, "names no tool"),
        (replace(EVERYTHING, effect_seen=False), BUILT_IN, "Nothing was found"),
        (replace(EVERYTHING, is_remedy=True), BUILT_IN, "recovery action itself"),
        (EVERYTHING, RecoveryPolicy(ROWS, "", automatic=frozenset()), "without a person"),
        (EVERYTHING, RecoveryPolicy(ROWS, "", hold=frozenset(row.id for row in ROWS)), "for a person"),
    ],
)
@every_row("row", ["RT-03", "RT-05", "RT-09", "RT-10", "RT-35", "RT-51"])
def test_a_recovery_is_held_for_a_person_where_the_means_or_the_policy_require_it(row, means, policy, because):
    found = decided(row, means=means, policy=policy)
    assert found.held
    assert because in found.held_because
    assert found.wanted in {State.COMPENSATING, State.FORWARD_RECOVERY}
    assert found.path[-1] is State.REVIEW_REQUIRED
    assert found.case


def test_a_permitted_recovery_runs_without_a_person():
    found = decided("RT-09")
    assert found.path == (State.COMMITTED, State.PARTIALLY_COMMITTED, State.COMPENSATING)
    assert not found.held
    assert found.orders == (UNDO,)
    assert not found.case


@pytest.mark.req("R-RP-46")
def test_an_unseen_effect_is_compensated_only_where_that_is_safe():
    unseen = replace(EVERYTHING, effect_seen=False, safe_without_effect=True)
    assert decided("RT-05", means=unseen).path[-1] is State.COMPENSATING
    assert decided("RT-10", means=unseen).held


@pytest.mark.req("R-SM-17", "R-RP-31")
def test_only_an_invisible_local_transaction_is_rolled_back():
    local = replace(EVERYTHING, local=True)
    ordered = decided("RT-03", means=local)
    assert ordered.wanted is State.ROLLED_BACK
    assert ordered.path == (State.COMMITTED, State.RECONCILIATION_FAILED)
    assert ordered.orders
    undone = decided("RT-03", means=replace(local, effect_seen=False, absent=True))
    assert undone.path == (State.COMMITTED, State.RECONCILIATION_FAILED, State.ROLLED_BACK)
    assert not undone.orders
    assert decided("RT-03", means=local, externally_visible=True).wanted is State.COMPENSATING
    assert decided("RT-03").wanted is State.COMPENSATING


@pytest.mark.req("R-EX-21", "R-SM-10")
def test_an_action_is_retried_only_where_a_retry_is_safe():
    safe, unsafe = decided("RT-47", retry_safe=True), decided("RT-47")
    assert safe.path == (State.FAILED, State.VALIDATED)
    assert unsafe.path == (State.FAILED,)
