"""Where an agent's own words contradict what it sends, for whoever decides about it (B35)."""

from __future__ import annotations

from typing import Any

from approvals.gate import queries as gate_queries
from approvals.gate.rules.intent import AgentStatement, Contradiction, find_contradictions
from console.pages.actions.action_record import parse_arguments, payload_of
from console.pages.approvals.edit_form import sent_by_agent

PLACES = {"goal": "In the pinned goal", "restated goal": "With the call", "expectation": "In what it expects"}


def agent_contradictions(action: Any, session: Any, entry: dict[str, Any], payload: Any) -> tuple[Contradiction, ...]:
    """What the goal, the call and the expectations say otherwise than the payload.

    What a reviewer edited is no contradiction of the agent's: of an edited request only what the agent's own call said
    otherwise as well is told.
    """
    sent = sent_by_agent(action)
    call = gate_queries.call_of(action.tenant_id, action.session_id, sent.id)
    restated = call.restated_goal if call is not None else ""
    expected = (entry.get("intended_outcome") or {}).get("expected_predicates") or []
    said = [AgentStatement("goal", session.goal), *(AgentStatement("expectation", text) for text in expected)]
    if restated and restated != session.goal:
        said.insert(1, AgentStatement("restated goal", restated))
    found = find_contradictions(payload, said)
    if sent.id == action.id:
        return found
    own = find_contradictions(parse_arguments(payload_of(sent)), said)
    return tuple(each for each in found if each in own)


def contradiction_rows(found: tuple[Contradiction, ...]) -> list[dict[str, str]]:
    """The contradictions as the page and the API tell them."""
    return [
        {"code": each.code, "where": PLACES[each.where], "said": each.said, "sent": each.sent, "text": each.sentence}
        for each in found
    ]
