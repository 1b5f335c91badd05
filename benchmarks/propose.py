"""A proposal to VALIDATED over HTTP, against a bare endpoint that inserts one row.

One web process as `up` starts it answers both. Both know the caller by the same key, read the body with the same
parser and pass the same middleware; ours then judges the call and writes the action with two events, its sealed
payload and the gate record (and the approval with its event, where one is needed).
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Any
from uuid import uuid4

from benchmarks.figures import Figure, interleaved, sized
from benchmarks.keepalive import Ask, Wire, rate
from benchmarks.stand import AGENT, Stand, register_example

SECONDS = sized(1.0, tiny=0.4)
CALLERS = 4
AIM = 0.8
VALIDATED_MS, SAMPLES = 10.0, sized(150, tiny=2)
GOAL = "Refund order EX-7F3A21 in full."


def measure(stand: Stand, rounds: int) -> list[Figure]:
    keys = stand.founded("propose")["keys"]
    with stand.web("propose") as port:
        register_example(Wire(port, Authorization=f"Bearer {keys['oper']}"))
        wires = [Wire(port, Authorization=f"Bearer {keys['agent']}") for _ in range(CALLERS)]
        return [
            _figure("no approval", wires, "refund_small_amount", rounds),
            _figure("with approval", wires, "issue_refund", rounds),
            _validated(wires[0], rounds),
        ]


def _validated(wire: Wire, rounds: int) -> Figure:
    """One caller, one call after the other, as it meets an idle machine."""
    propose = _proposing(wire, "refund_small_amount")
    medians = tuple(statistics.median(_took_ms(propose) for _ in range(SAMPLES)) for _ in range(rounds))
    limit = (VALIDATED_MS,) * rounds
    return Figure(name="proposal to VALIDATED, p50: 10 ms", unit="ms", ours=medians, peer=limit, aim=1, most=True)


def _took_ms(ask: Ask) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def _figure(name: str, wires: list[Wire], tool: str, rounds: int) -> Figure:
    ours, peer = interleaved(rounds, partial(_propose, wires, tool), partial(_insert, wires, tool))
    return Figure(name=f"propose, {name}", unit="requests per s", ours=ours, peer=peer, aim=AIM)


def _propose(wires: list[Wire], tool: str) -> float:
    return rate([_proposing(wire, tool) for wire in wires], SECONDS)


def _insert(wires: list[Wire], tool: str) -> float:
    return rate([_inserting(wire, tool) for wire in wires], SECONDS)


def _proposing(wire: Wire, tool: str) -> Ask:
    session = wire.post("/api/v1/sessions", {"agent_id": AGENT, "goal": GOAL, "ttl_seconds": 600})
    path, pin = f"/api/v1/sessions/{session['session_id']}/calls", session["pin"]["hash"]

    def ask() -> None:
        result = wire.post(path, {"calls": [_call(tool, pin)]})["results"][0]
        if result["state"] != "VALIDATED":
            raise SystemExit(f"benchmarks: a proposal was not validated: {result}")

    return ask


def _inserting(wire: Wire, tool: str) -> Ask:
    return lambda: wire.post("/bare/rows", {"calls": [_call(tool, "0" * 64)]})


def _call(tool: str, pin: str) -> dict[str, Any]:
    number = uuid4().hex
    arguments = {"order_id": f"EX-{number[:12].upper()}", "amount": 1250, "currency": "EUR", "reason": "damaged"}
    return {"call_id": number, "tool": tool, "arguments": arguments, "pin_hash": pin}
