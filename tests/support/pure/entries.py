"""Entries and views of actions that tests need, with defaults; a test names only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from ledger.record.rules.entry import Entry

AT = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def make_entry(action_id: UUID, **changes: Any) -> Entry:
    entry: Entry = {
        "action_id": str(action_id),
        "workflow_run_id": "run-1",
        "tenant_id": str(uuid4()),
        "principal_id": str(uuid4()),
        "tool_contract": {"name": "issue_refund", "version": "1.0.0", "schema_version": "1", "wrapper_version": "1"},
        "policy_context": {
            "autonomy_boundary_version": "1",
            "approval_policy_version": "1",
            "verification_policy_version": "1",
            "recovery_policy_version": "1",
        },
        "side_effect_class": "HIGH_RISK_EXTERNAL",
        "idempotency": {"required": True, "key_hash": None, "request_hash": "0" * 64, "status": None},
        "intended_outcome": {"target_resource": "order/1", "expected_predicates": []},
        "requested_operation": {
            "validated_payload_hash": "0" * 64,
            "target_resource": "order/1",
            "operation_kind": "refund",
        },
        "execution": {"status": "NOT_EXECUTED", "observation_pointer": None, "attempt_count": 0},
        "verification": {
            "status": "NOT_STARTED",
            "source": None,
            "query_pointer": None,
            "verified_state_pointer": None,
        },
        "reconciliation": {"status": "NOT_STARTED", "discrepancy_class": None, "recovery_decision": None},
        "timestamps": {
            "proposed_at": "2026-11-21T12:00:00.000000Z",
            "validated_at": None,
            "executed_at": None,
            "verified_at": None,
            "reconciled_at": None,
        },
        "trace": {"trace_id": uuid4().hex, "parent_span_id": None, "replay_bundle_id": None},
    }
    return entry | changes


def make_view(action_id: UUID, **changes: Any) -> dict[str, Any]:
    view = {
        "tool": "issue_refund",
        "tool_version": "1.0.0",
        "contract_digest": "0" * 64,
        "side_effect_class": "HIGH_RISK_EXTERNAL",
        "reversibility": "IRREVERSIBLE",
        "mutating": True,
        "agent": "support",
        "agent_actor": str(uuid4()),
        "session_id": str(uuid4()),
        "run_id": "run-1",
        "call_id": "call-1",
        "target": "order/1",
        "operation_kind": "refund",
        "operation_key": action_id.hex * 2,
        "payload_hash": "0" * 64,
        "trace_id": uuid4().hex,
        "discrepancy": "",
        "recovery_row": "",
        "recovery_decision": "",
        "attempt_count": 0,
        "contradicted": False,
        "reversed": False,
        "settled": False,
        "relation": "",
        "unwinds": False,
    }
    return view | changes
