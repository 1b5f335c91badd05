"""Auditing recorded conversations: messages per second on one core, and the memory that a longer file takes.

The recording is written for this: an agent of an airline that reads, changes and tells, 16 messages to a conversation,
with answers of the size that such tools give. It is read as JSON Lines, every message of the agent passes the guard,
and the report is written as JSON and as a page. Processor time is counted, so that a busy machine changes little.
Memory is compared once the caches of the rules are full.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, sized
from benchmarks.stand import Stand

CONVERSATIONS = sized(400, tiny=4)
MANY = sized(2_000, tiny=8)
LONGER = 4
MESSAGES_A_SECOND = 2_000
MOST_MEMORY = 1.2


def measure(stand: Stand, rounds: int) -> list[Figure]:
    file = stand.folder / "recording.jsonl"
    messages = record(file, CONVERSATIONS)
    rates = tuple(messages / _apart(file)[0] for _ in range(rounds))
    peaks = []
    for count in (MANY, MANY * LONGER):
        record(file, count)
        peaks.append(_apart(file)[1])
    return [
        Figure(
            name="transcripts: audit",
            unit="messages per s",
            ours=rates,
            peer=(float(MESSAGES_A_SECOND),) * len(rates),
            aim=1.0,
        ),
        Figure(
            name=f"transcripts: memory, a file {LONGER} times as long",
            unit="MB",
            ours=(peaks[1],),
            peer=(peaks[0],),
            aim=MOST_MEMORY,
            most=True,
        ),
    ]


def _apart(file: Path) -> tuple[float, float]:
    """(processor seconds of the audit, peak memory in MB) of one run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.transcripts", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    spent, peak = ran.stdout.split()
    return float(spent), float(peak)


def record(file: Path, count: int) -> int:
    """Write the recording; how many messages it has."""
    messages = 0
    with file.open("w") as out:
        for number in range(count):
            made = _conversation(number)
            messages += len(made)
            out.write(json.dumps({"id": f"c{number}", "messages": made, "tools": _tools()}) + "\n")
    return messages


def _conversation(number: int) -> list[dict[str, Any]]:
    code = f"RES{number:05d}"
    shown = {"reservation_id": code, "cabin": "economy", "status": "active", "flights": [_flight(n) for n in range(6)]}
    say = partial(dict, role="assistant")
    return [
        {"role": "system", "content": "You help passengers of an airline. " * 40},
        {"role": "user", "content": f"I want to fly business on {code}, and get a refund of 45 dollars for my bag."},
        say(content="Of course. Could you tell me your user id, so that I can look at your reservation?"),
        {"role": "user", "content": f"It is mia_li_{number}."},
        *_call("get_reservation", shown, reservation_id=code),
        say(content=f"I found your reservation {code}: six flights in economy. Shall I change the cabin to business?"),
        {"role": "user", "content": "Yes, please."},
        *_call("update_reservation", shown | {"cabin": "business"}, reservation_id=code, cabin="business"),
        say(content=f"Your reservation {code} has been changed to business class. I will look into the refund now."),
        *_call("issue_refund", "Error: the bag is not refundable", reservation_id=code, amount=45),
        say(content=f"I have refunded 45 dollars to your card. Is there anything else that I can do for {code} today?"),
        {"role": "user", "content": "No, thank you."},
        say(content="You're welcome. If you need help with your flight, you can always write to us again."),
    ]


def _call(tool: str, answer: Any, **arguments: Any) -> list[dict[str, Any]]:
    made = {"id": tool, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    content = answer if isinstance(answer, str) else json.dumps(answer)
    return [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": tool, "content": content},
    ]


def _flight(number: int) -> dict[str, Any]:
    return {"flight_number": f"HAT{number:03d}", "date": f"2024-05-{number + 10}", "price": 100 + number, "seat": "12A"}


def _tools() -> list[dict[str, Any]]:
    text, needed = (
        {"type": "string"},
        {
            "get_reservation": ["reservation_id"],
            "update_reservation": ["reservation_id", "cabin"],
            "issue_refund": ["reservation_id", "amount"],
            "send_email": ["to", "body"],
            "cancel_reservation": ["reservation_id"],
        },
    )
    return [
        {
            "name": name,
            "parameters": {
                "type": "object",
                "required": names,
                "properties": {one: {"type": "integer"} if one == "amount" else text for one in names},
            },
        }
        for name, names in needed.items()
    ]


def main() -> None:
    from counterfoil_transcripts.acts import TrustRequirement
    from counterfoil_transcripts.audit import audit_conversation
    from counterfoil_transcripts.contracts import ContractCatalogue
    from counterfoil_transcripts.offers import OfferCache
    from counterfoil_transcripts.reading import intake
    from counterfoil_transcripts.reading.records import TranscriptFault
    from counterfoil_transcripts.reports import document, page
    from counterfoil_transcripts.reports.totals import AuditTotals, severity

    file = Path(sys.argv[1])
    offers, totals, gravest = OfferCache(ContractCatalogue()), AuditTotals(), page.WorstConversations()
    start = time.process_time()
    with document.ReportWriter(
        file.with_suffix(".report").open("wb"), files=[str(file)], trust=TrustRequirement.ANSWERS
    ) as writer:
        for found in intake.read_conversations(file):
            if isinstance(found, TranscriptFault):
                raise SystemExit(found.line)
            one = audit_conversation(found, offers.of(found))
            totals.add(one)
            writer.add(one)
            if gravest.would_take(severity(one)):
                gravest.add(document.conversation_document(one, TrustRequirement.ANSWERS))
        writer.end(totals, faults=[], drafted=(), notes=())
    print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
