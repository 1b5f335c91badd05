"""Small recordings for the tests, as OpenAI chat messages, and the tools that they were made with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from counterfoil_transcripts import contracts
from counterfoil_transcripts.acts import TrustRequirement
from counterfoil_transcripts.audit import ConversationAudit, audit_conversation
from counterfoil_transcripts.contracts import ContractCatalogue
from counterfoil_transcripts.offers import OfferCache
from counterfoil_transcripts.reading import intake
from counterfoil_transcripts.reading.intake import build_conversation
from counterfoil_transcripts.reading.notes import HookNote


def function(name: str, required: list[str], **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "required": required, "properties": properties}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
TOOLS = [
    function("get_reservation", ["reservation_id"], reservation_id=TEXT),
    function("cancel_reservation", ["reservation_id"], reservation_id=TEXT),
    function(
        "update_reservation",
        ["reservation_id"],
        reservation_id=TEXT,
        cabin={"type": "string", "enum": ["economy", "business"]},
        bags=NUMBER,
    ),
    function("issue_refund", ["reservation_id", "amount"], reservation_id=TEXT, amount=NUMBER),
    function("send_email", ["to", "body"], to=TEXT, body=TEXT),
    function("delete_file", ["path"], path=TEXT),
    function("read_file", ["path"], path=TEXT),
]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def agent(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def asks(tool: str, answer: Any = None, **arguments: Any) -> list[dict[str, Any]]:
    """A call and its answer; none where nothing came back."""
    made = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": made}]}
    content = answer if isinstance(answer, str) else json.dumps(answer)
    return [call] if answer is None else [call, {"role": "tool", "tool_call_id": "c", "content": content}]


def run(
    *messages: Any,
    trust: TrustRequirement = TrustRequirement.ANSWERS,
    tools: Any = TOOLS,
    catalogue: ContractCatalogue | None = None,
    notes: Mapping[str, HookNote] | None = None,
) -> ConversationAudit:
    """The audit of these messages; a list among them is spliced in."""
    flat = [one for each in messages for one in (each if isinstance(each, list) else [each])]
    recorded = build_conversation("here.json", intake.MessageList(flat, "a", tuple(tools)), "$")
    return audit_conversation(
        recorded, OfferCache(catalogue or contracts.ContractCatalogue()).of(recorded), trust=trust, notes=notes
    )
