"""An action as the record of one tool call (R-TC-13): what was asked, and what the tool or its runtime answered."""

from __future__ import annotations

from typing import Any

from console.api.actions.schemas import RecordedCall
from console.api.auth import Caller
from console.pages.actions.action_record import parse_arguments, payload_of
from ledger.actions.queries import actions
from ledger.record.rules.encryption import CannotOpen, EvidenceErased
from reviews import queries as after


def recorded_call(action: Any, caller: Caller) -> RecordedCall:
    """The call and what was answered, in one shape whatever came (R-OB-01). The key is known by its hash (R-EX-16).

    A tool's own words on what went wrong are raw output, which is for compliance (C-32).
    """
    kept = actions.idempotency(action.tenant_id, action.id)
    answer = after.last_observation(action.tenant_id, action.id)
    result = _result(answer)
    error = result.get("error") if isinstance(result.get("error"), dict) else None
    if error is not None and "compliance" not in caller.roles and caller.kind != "audit":
        error = {name: part for name, part in error.items() if name != "message"}
    return RecordedCall(
        tool=action.tool,
        arguments=_arguments(action),
        status=answer.status if answer is not None else None,
        success=answer.claimed_success if answer is not None else None,
        result={name: part for name, part in result.items() if name != "error"} if answer is not None else None,
        error=error,
        trace_id=action.trace_id,
        timestamp=answer.at if answer is not None else action.proposed_at,
        idempotency_key=kept.key_hash if kept is not None else None,
    )


def _arguments(action: Any) -> dict[str, Any] | None:
    try:
        payload = payload_of(action)
    except EvidenceErased:
        return None
    return parse_arguments(payload) if payload is not None else None


def _result(answer: Any) -> dict[str, Any]:
    try:
        found = after.observation_document(answer).get("result") if answer is not None else {}
    except (CannotOpen, EvidenceErased):
        return {}
    return found if isinstance(found, dict) else {"unreadable": True}
