"""Conversations of other desks than the recorded ones: honest words that nobody may touch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from counterfoil_transcripts import contracts
from counterfoil_transcripts.audit import ConversationAudit, audit_conversation
from counterfoil_transcripts.offers import OfferCache
from counterfoil_transcripts.reading.intake import MessageList, build_conversation
from reviews.guarding.rules.verdict import judge
from tests.guard.evaluate import CORPUS
from tests.guard.records import differing, ground, record, same


def conversations() -> Iterator[ConversationAudit]:
    """The audits of the hand-made conversations, each with the tools of its desk."""
    blocks = (CORPUS / "desks.txt").read_text().split("\n\ndesk ")[1:]
    for number, block in enumerate(blocks):
        head, *lines = block.splitlines()
        desk, _, tools = head.partition(": ")
        messages: list[dict[str, Any]] = []
        for line in lines:
            kind, _, text = line.partition(" ")
            if not line.startswith(("user:", "agent:", "call ", "answer ", "error ")):
                messages[-1]["content"] += f"\n{line}"
            elif kind in ("user:", "agent:"):
                messages.append({"role": "user" if kind == "user:" else "assistant", "content": text})
            elif kind == "call":
                tool, _, arguments = text.partition(" ")
                made = {"name": tool, "arguments": arguments}
                call = {"id": f"c{len(messages)}", "type": "function", "function": made}
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            else:
                content = text if kind == "answer" else json.dumps({"error": text})
                messages.append(
                    {"role": "tool", "tool_call_id": messages[-1]["tool_calls"][0]["id"], "content": content}
                )
        found = build_conversation("desks", MessageList(messages, f"{desk} {number}", ()), "$")
        yield audit_conversation(found, OfferCache(_catalogue(tools)).of(found))


def _catalogue(tools: str) -> contracts.ContractCatalogue:
    catalogue = contracts.ContractCatalogue()
    changing, _, reading = tools.partition(" | ")
    for name in (*changing.split(), *reading.split()):
        hints = {"readOnlyHint": name in reading.split()}
        catalogue.add({"name": name, "inputSchema": {"type": "object"}, "annotations": hints}, "desks")
    catalogue.closed = True
    return catalogue


@pytest.mark.req("R-CG-15")
def test_no_honest_message_of_another_desk_is_changed_or_noted():
    found = list(conversations())
    changed = [
        f"{each.conversation.id}: {one.rule}: {one.sentence} -> {one.detail}"
        for each in found
        for one in each.claims
        if one.false
    ]
    noted = [f"{each.conversation.id}: {note}" for each in found for one in each.receipts for note in one.notes]
    assert sum(each.spoken for each in found) >= 50
    assert sum(bool(act.differences) for each in found for act in each.acts) > 9
    assert changed == []
    assert noted == []


LEAVE = record(
    "request_leave",
    target="employee/E-2093",
    fields=(differing("end_date", "2026-07-17", "2026-07-16"), same("start_date", "2026-07-06")),
)
MEETING = record(
    "create_event",
    target="calendar/team",
    fields=(
        differing("start", "2026-06-09T10:00:00Z", "2026-06-09T10:30:00Z"),
        differing("reminder", True, False),
        differing("attendee_count", 4, 3),
    ),
)
TICKET = record(
    "update_ticket",
    target="ticket/FAC-2207",
    fields=(differing("priority", "high", "medium"), differing("state", "in_progress", "on_hold")),
)
HOTEL = record(
    "book_room",
    target="hotel/H-9",
    fields=(
        differing("nights", 3, 2),
        differing("guest_name", "Ana Maria Silva", "Anna Silva"),
        differing("address", "445 Maple Drive", "554 Maple Drive"),
        differing("check_in_time", "15:30", "17:00"),
    ),
)


@pytest.mark.parametrize(
    ("said", "by", "told"),
    [
        ("Your leave ends on July 17.", LEAVE, "The end date is 2026-07-16; 2026-07-17 was asked for."),
        ("You are off until 17 July 2026.", LEAVE, "The end date is 2026-07-16; 2026-07-17 was asked for."),
        ("Your last day off is a Friday.", LEAVE, "The end date is 2026-07-16; 2026-07-17 was asked for."),
        ("As you requested, it runs to 7/17/2026.", LEAVE, "The end date is 2026-07-16; 2026-07-17 was asked for."),
        ("It starts at 10 am.", MEETING, "The start is 2026-06-09T10:30:00Z; 2026-06-09T10:00:00Z was asked for."),
        ("You meet at 10:00.", MEETING, "The start is 2026-06-09T10:30:00Z; 2026-06-09T10:00:00Z was asked for."),
        ("The reminder is on.", MEETING, "The reminder is no; yes was asked for."),
        ("There are four attendees.", MEETING, "The attendee count is 3; 4 was asked for."),
        ('It has the priority "high".', TICKET, "The priority is medium; high was asked for."),
        ("FAC-2207 is in progress.", TICKET, "The state is on_hold; in_progress was asked for."),
        ("Its priority went from medium to high.", TICKET, "The priority is medium; high was asked for."),
        ("It is high, and you can follow it in the portal.", TICKET, "The priority is medium; high was asked for."),
        ("The room is yours for three nights.", HOTEL, "The nights is 2; 3 was asked for."),
        ("It is booked for Ana-Maria Silva.", HOTEL, "The guest name is Anna Silva; Ana Maria Silva was asked for."),
        ("It is at 445 Maple Dr.", HOTEL, "The address is 554 Maple Drive; 445 Maple Drive was asked for."),
        ("Check in from 3:30 p.m. on.", HOTEL, "The check in time is 17:00; 15:30 was asked for."),
    ],
)
def test_a_requested_value_gives_way_in_any_usual_spelling(said: str, by: Any, told: str):
    assert judge(said, ground(by)).corrected == told
    assert judge(said, ground(by)).violations[0].rule == "field"


@pytest.mark.parametrize(
    ("said", "by"),
    [
        ("Your leave ends on July 16.", LEAVE),
        ("You asked for July 17, but it ends on July 16.", LEAVE),
        ("July 17 could not be booked.", LEAVE),
        ("You wanted July 17.", LEAVE),
        ("If July 17 matters to you, I can ask your manager.", LEAVE),
        ("It starts at 10:30 instead of 10:00.", MEETING),
        ("On June 9 you meet in room Linde.", MEETING),
        ("The reminder is off.", MEETING),
        ("Invitations reach you within 4 hours.", MEETING),
        ("The priority is medium rather than high.", TICKET),
        ('You wrote "it must be high by tomorrow".', TICKET),
        ("The change from medium to high was not accepted.", TICKET),
        ("The room is yours for 2 nights.", HOTEL),
        ("It takes about 3 days until the hotel confirms.", HOTEL),
        ("The hotel is at 554 Maple Drive.", HOTEL),
    ],
)
def test_whoever_tells_the_shown_value_or_only_the_request_is_left_alone(said: str, by: Any):
    assert judge(said, ground(by)).corrected is None


def test_a_value_that_a_later_change_of_the_same_thing_did_set_is_no_difference_any_more():
    known: dict[str, Any] = {"action_id": "a2", "evidence": ("c9",), "fields": (same("priority", "high"),)}
    repaired = record("assign_ticket", target="ticket/FAC-2207", **known)
    assert judge("FAC-2207 has the priority high.", ground(TICKET, repaired)).corrected is None
    other = record("assign_ticket", target="ticket/FAC-9999", **known)
    assert judge("FAC-2207 has the priority high.", ground(TICKET, other)).corrected is not None
