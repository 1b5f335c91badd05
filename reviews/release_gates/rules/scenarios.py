"""Runs for trying a release: a refund of 1,000 cents at a shop, with one thing changed by each scenario.

The same rules judge them as judge real runs; only the readings are made up. `Draft` holds what the release would put in
force: a draft of one kind stands beside the version of the other kind that is in force. The draft of a contract stands
beside both policies in force: its own class, times and promises are tried, on the refund that the scenarios read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ledger.catalogue.rules.contract import Contract, Polling
from ledger.catalogue.rules.effects import Boundary, EffectDomain, Reversibility, SideEffectClass
from ledger.catalogue.rules.policies import DecidingPolicy, VerificationNumbers, policy_context
from ledger.catalogue.rules.remedies import Recovery, Relation, Remedy
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State
from reviews.observations.rules.observe import ParsedObservation, ReportedStatus
from reviews.reconciliation.rules.facts import ContractFacts, RunInputs
from reviews.reconciliation.rules.reading import Consistency, ReadEffect, Reading
from reviews.recovery.rules.recovery_table import RecoveryPolicy

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HORIZON = START + timedelta(seconds=2)
MUTATING = tuple(each for each in SideEffectClass if each is not SideEffectClass.READ_ONLY)
DONE = ParsedObservation(status=ReportedStatus.SUCCESS)
FIELDS: Mapping[str, Any] = {"amount": 1000, "currency": "EUR"}
_REVERSIBLE = frozenset(
    {SideEffectClass.EPHEMERAL_WRITE, SideEffectClass.LOW_RISK_INTERNAL, SideEffectClass.MEDIUM_RISK_WRITE}
)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The policies, and the contract if one was drafted, that a release would put in force."""

    numbers: VerificationNumbers
    recovery: RecoveryPolicy
    policies: tuple[DecidingPolicy, ...]
    contract: Contract | None = None

    @property
    def classes(self) -> tuple[SideEffectClass, ...]:
        """The classes of side effect that the scenarios are walked in."""
        if self.contract is None:
            return MUTATING
        return tuple(each for each in MUTATING if each is self.contract.side_effect_class)


def refund_facts(draft: Draft, side_effect_class: SideEffectClass, **changes: Any) -> ContractFacts:
    """Return a tool that refunds and stores a note; at low or medium risk it can be reversed or completed."""
    reversible = side_effect_class in _REVERSIBLE
    numbers = draft.numbers
    usual: dict[str, Any] = {
        "side_effect_class": side_effect_class,
        "reversibility": Reversibility.COMPENSABLE if reversible else Reversibility.IRREVERSIBLE,
        "boundary": Boundary.COMPENSABLE_PRE_PIVOT if reversible else Boundary.PIVOT_COMMITTED,
        "effect_domain": EffectDomain.FINANCIAL,
        "externally_visible": not reversible,
        "required_effects": ("refund",),
        "predicates": ("sa.amount == sr.amount", "sa.currency == sr.currency"),
        "recovery": Recovery(
            whole={
                Relation.COMPENSATION: Remedy("cancel_refund"),
                Relation.FORWARD: Remedy("finish_refund"),
                Relation.ROLLBACK: Remedy("undo_refund"),
            }
        ),
        "polling": Polling(
            first_after_s=numbers.first_after_s,
            backoff=float(numbers.backoff),
            max_interval_s=numbers.max_interval_s,
            sla_s=numbers.sla_s[side_effect_class],
        ),
        "repeat_limit": numbers.repeat_limit,
    }
    if draft.contract is None:
        return ContractFacts(**(usual | changes))
    # What the contract reads is of another system; what it says of itself is tried on the refund.
    own = ContractFacts.of(draft.contract, numbers)
    read = {name: usual[name] for name in ("required_effects", "predicates", "recovery")}
    return replace(own, **(read | {"further": (), "depth": None, "fresh_after": {}, "keyed": False} | changes))


def refund_run(draft: Draft, facts: ContractFacts, *readings: Reading, **changes: Any) -> RunInputs:
    """A run in PENDING, after the late-effect horizon and before the deadline; the tool had claimed success."""
    state = changes.get("state", State.PENDING)
    usual: dict[str, Any] = {
        "state": state,
        "facts": facts,
        "entry": _entry(draft, facts, state),
        "target_resource": "order/o-17",
        "horizon_at": HORIZON,
        "sla_at": START + timedelta(seconds=max(facts.polling.sla_s, 4)),
        "at": HORIZON + timedelta(seconds=1),
        "attempts": 0,
        "seed": "a-1",
        "si": {"target_resource": "order/o-17"},
        "sr": {"order_id": "o-17", **FIELDS},
        "scope": {"tenant": "acme", "idempotency_key": "key-1"},
        "observation": DONE,
        "readings": readings,
        "idempotency_status": "PENDING",
        "query_pointer": "release-gate",
        "state_pointer": "release-gate",
        "policy": draft.recovery,
        "recovery_tools": {
            name: frozenset({"order_id", *FIELDS}) for name in ("cancel_refund", "finish_refund", "undo_refund")
        },
    }
    return RunInputs(**(usual | changes))


def overdue_run(run: RunInputs) -> RunInputs:
    """The same run after its deadline."""
    return replace(run, at=run.sla_at + timedelta(seconds=1), attempts=9)


def refund(**changes: Any) -> ReadEffect:
    """Return one refund that was found as requested."""
    usual: dict[str, Any] = {
        "name": "refund",
        "present": True,
        "count": 1,
        "fields": FIELDS,
        "scope": {"tenant": ("acme",), "target": ("o-17",)},
    }
    return ReadEffect(**(usual | changes))


def absent_effect(name: str = "refund") -> ReadEffect:
    """An effect that is not there."""
    return ReadEffect(name=name, present=False, scope={"tenant": (), "target": ()})


def shop_reading(*effects: ReadEffect, consistency: Consistency = Consistency.PRIMARY) -> Reading:
    """A reading of the shop."""
    return Reading(
        source="shop",
        consistency=consistency,
        freshness="primary",
        observed_at=HORIZON + timedelta(seconds=1),
        pointer="shop.refunds",
        effects=effects,
    )


_STATUSES = {
    State.PENDING: ("PENDING", "PENDING", "NOT_STARTED"),
    State.UNKNOWN: ("UNKNOWN", "NOT_STARTED", "UNKNOWN"),
}


def _entry(draft: Draft, facts: ContractFacts, state: State) -> dict[str, Any]:
    """A valid entry of an action that was started and is in `state`."""
    execution, verification, reconciliation = _STATUSES[state]
    earlier = {
        f"{name}_version": "1"
        for name in ("autonomy_boundary", "approval_policy", "verification_policy", "recovery_policy")
    }
    return {
        "action_id": "a-1",
        "workflow_run_id": "r-1",
        "tenant_id": "t-1",
        "principal_id": "agent-1",
        "tool_contract": dict.fromkeys(("name", "version", "schema_version", "wrapper_version"), "1"),
        "policy_context": earlier | policy_context(draft.policies),
        "side_effect_class": str(facts.side_effect_class),
        "idempotency": {"required": True, "key_hash": "k" * 64, "request_hash": "r" * 64, "status": "PENDING"},
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
        "reconciliation": {"status": reconciliation, "discrepancy_class": None, "recovery_decision": None},
        "timestamps": {
            "proposed_at": instant(START),
            "validated_at": instant(START),
            "executed_at": instant(START),
            "verified_at": None,
            "reconciled_at": None,
        },
        "trace": {"trace_id": "t" * 32, "parent_span_id": None, "replay_bundle_id": None},
    }
