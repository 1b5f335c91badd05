"""Builders for verification runs: a refund of 1,000 cents, with what a test cares about changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ledger.catalogue.rules.contract import Polling
from ledger.catalogue.rules.effects import Boundary, EffectDomain, Reversibility, SideEffectClass
from ledger.catalogue.rules.remedies import Recovery, Relation, Remedy
from ledger.record.rules.entry import add_state_blocks, amend
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State, next_state
from reviews.observations.rules.observe import ParsedObservation, ReportedStatus
from reviews.reconciliation.rules.facts import ContractFacts, RunInputs
from reviews.reconciliation.rules.reading import Consistency, ReadEffect, Reading
from reviews.reporting.rules.report import ALLOWED
from reviews.verification.rules.verification import RunOutcome, judge_run

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HORIZON = START + timedelta(seconds=60)
SLA = START + timedelta(seconds=3600)
LATER = HORIZON + timedelta(seconds=1)

FACTS = ContractFacts(
    side_effect_class=SideEffectClass.HIGH_RISK_EXTERNAL,
    reversibility=Reversibility.IRREVERSIBLE,
    boundary=Boundary.PIVOT_COMMITTED,
    effect_domain=EffectDomain.FINANCIAL,
    externally_visible=True,
    required_effects=("refund",),
    predicates=("sa.amount == sr.amount", "sa.currency == sr.currency"),
    polling=Polling(first_after_s=1, backoff=2.0, max_interval_s=60, sla_s=3600),
)
MEDIUM = replace(
    FACTS,
    side_effect_class=SideEffectClass.MEDIUM_RISK_WRITE,
    reversibility=Reversibility.COMPENSABLE,
    boundary=Boundary.COMPENSABLE_PRE_PIVOT,
    effect_domain=EffectDomain.OTHER,
    externally_visible=False,
    recovery=Recovery(whole={Relation.COMPENSATION: Remedy("cancel_refund")}),
)
FIELDS = {"amount": 1000, "currency": "EUR"}
SUCCESS = ParsedObservation(status=ReportedStatus.SUCCESS)


def refund(**changes: Any) -> ReadEffect:
    """One refund, found as it was asked for."""
    usual: dict[str, Any] = {
        "name": "refund",
        "present": True,
        "count": 1,
        "fields": FIELDS,
        "scope": {"tenant": ("acme",), "target": ("o-17",)},
    }
    return ReadEffect(**(usual | changes))


def no_refund() -> ReadEffect:
    return ReadEffect(name="refund", present=False, scope={"tenant": (), "target": ()})


def reading(*effects: ReadEffect, **changes: Any) -> Reading:
    usual: dict[str, Any] = {
        "source": "shop",
        "consistency": Consistency.PRIMARY,
        "freshness": "0/16B3748",
        "observed_at": LATER,
        "pointer": "shop.refunds",
        "effects": effects or (refund(),),
    }
    return Reading(**(usual | changes))


def failed(code: str, phase: str | None = None) -> ParsedObservation:
    return ParsedObservation(status=ReportedStatus.FAILED, error_code=code, error_phase=phase)


def entry(state: State = State.PENDING, **blocks: Any) -> dict[str, Any]:
    """A valid entry of an action that was started and is in `state`."""
    statuses = {
        State.PENDING: ("PENDING", "PENDING", "NOT_STARTED"),
        State.UNKNOWN: ("UNKNOWN", "NOT_STARTED", "UNKNOWN"),
        State.ACCEPTED: ("ACCEPTED", "NOT_STARTED", "NOT_STARTED"),
        State.EXECUTING: ("EXECUTING", "NOT_STARTED", "NOT_STARTED"),
    }
    execution, verification, reconciliation = statuses.get(state, statuses[State.PENDING])
    return {
        "action_id": "a-1",
        "workflow_run_id": "r-1",
        "tenant_id": "t-1",
        "principal_id": "agent-1",
        "tool_contract": dict.fromkeys(("name", "version", "schema_version", "wrapper_version"), "1"),
        "policy_context": {
            "autonomy_boundary_version": "1",
            "approval_policy_version": "1",
            "verification_policy_version": "1",
            "recovery_policy_version": "1",
        },
        "side_effect_class": "HIGH_RISK_EXTERNAL",
        "idempotency": {
            "required": True,
            "key_hash": "k" * 64,
            "request_hash": "r" * 64,
            "status": "PENDING",
        },
        "approval": {
            "required": True,
            "approval_id": "ap-1",
            "approver_id": "p-1",
            "payload_hash": "h" * 64,
            "expires_at": None,
        },
        "intended_outcome": {"target_resource": "order/o-17", "expected_predicates": []},
        "requested_operation": {
            "validated_payload_hash": "h" * 64,
            "target_resource": "order/o-17",
            "operation_kind": "refund",
        },
        "execution": {"status": execution, "observation_pointer": None, "attempt_count": 1},
        "verification": {
            "status": verification,
            "source": None,
            "query_pointer": None,
            "verified_state_pointer": None,
        },
        "reconciliation": {
            "status": reconciliation,
            "discrepancy_class": None,
            "recovery_decision": None,
        },
        "timestamps": {
            "proposed_at": instant(START),
            "validated_at": instant(START),
            "executed_at": instant(START),
            "verified_at": None,
            "reconciled_at": None,
        },
        "trace": {"trace_id": "t" * 32, "parent_span_id": None, "replay_bundle_id": None},
        **blocks,
    }


def inputs(*readings: Reading, **changes: Any) -> RunInputs:
    """A run in PENDING after the horizon and inside the SLA, after the tool had claimed success."""
    state = changes.get("state", State.PENDING)
    usual: dict[str, Any] = {
        "state": state,
        "facts": FACTS,
        "entry": entry(state),
        "target_resource": "order/o-17",
        "horizon_at": HORIZON,
        "sla_at": SLA,
        "at": LATER,
        "attempts": 0,
        "seed": "a-1",
        "si": {"target_resource": "order/o-17"},
        "sr": {"order_id": "o-17", **FIELDS},
        "scope": {"tenant": "acme", "idempotency_key": "key-1"},
        "observation": SUCCESS,
        "readings": readings,
        "idempotency_status": "PENDING",
        "query_pointer": "ev-1",
        "state_pointer": "ev-2",
    }
    return RunInputs(**(usual | changes))


def walk(given: RunInputs) -> tuple[RunOutcome, list[str], dict[str, Any]]:
    """The outcome, the states passed, and the last entry; every step is checked on the way.

    Each step must be legal with the grounds that it brings, its entry must fit the schema, and the
    entry's three statuses must be ones that the state allows.
    """
    outcome = judge_run(given)
    state, snapshot, passed = given.state, dict(given.entry), []
    for one in outcome.steps:
        assert one.moves == (one.state is not state)
        target = str(one.state) if one.moves else None
        next_state("action", str(state), target, by="system", grounds=one.grounds)
        snapshot = amend(snapshot, add_state_blocks(snapshot, one.entry, one.state) if one.moves else one.entry)
        state = one.state
        passed += [str(state)] if one.moves else []
        fits(state, snapshot)
    assert state is outcome.state
    return outcome, passed, snapshot


def fits(state: State, snapshot: dict[str, Any]) -> None:
    assert ALLOWED[state]
    for block, admissible in LEDGER[state].items():
        assert snapshot[block]["status"] in admissible, (state, block, snapshot[block])


def _ledger() -> dict[State, dict[str, list[str]]]:
    import json
    from importlib.resources import files

    document = json.loads(files("reviews.reporting.rules").joinpath("reporting.json").read_bytes())
    return {State(state): row["ledger"] for state, row in document["by_state"].items()}


LEDGER = _ledger()
