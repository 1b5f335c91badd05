"""Gate decisions: in process, from values only, and over HTTP against a bare endpoint with the same insert.

In process the peer is the least that any gate does: the same validator over the same arguments, and their canonical
bytes and hash. Over HTTP both sides read the same body behind the same key and middleware and insert one row; ours also
judges the call and counts it with its session. A refused call is no action: what is compared is the gate alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

from benchmarks.figures import Figure, interleaved, sized
from benchmarks.keepalive import Ask, Wire, rate
from benchmarks.stand import AGENT, CONTRACTS, Stand, register_example

SECONDS = sized(1.0, tiny=0.4)
CALLERS = 4
AIM = 0.5
GOAL = "Refund order EX-7F3A21 in full."
TOOL = "issue_refund"
GOOD = {"order_id": "EX-7F3A21AB", "amount": 1250, "currency": "EUR", "reason": "damaged"}
WRONG = {"order": "EX-7F3A21AB", "amount": "1250", "currency": "Euro", "reason": "damaged"}


def measure(stand: Stand, rounds: int) -> list[Figure]:
    figures = [_pure("accepted", GOOD, rounds), _pure("malformed", WRONG, rounds)]
    keys = stand.founded("gate")["keys"]
    with stand.web("gate") as port:
        register_example(Wire(port, Authorization=f"Bearer {keys['oper']}"))
        wires = [Wire(port, Authorization=f"Bearer {keys['agent']}") for _ in range(CALLERS)]
        ours, peer = interleaved(rounds, partial(_refuse, wires), partial(_insert, wires))
    return [*figures, Figure(name="gate over HTTP, refused", unit="requests per s", ours=ours, peer=peer, aim=AIM)]


# In process


def _pure(name: str, arguments: dict[str, Any], rounds: int) -> Figure:
    from approvals.gate.rules import gate
    from approvals.sessions.rules import pins
    from ledger.catalogue.rules import contract as contracts
    from ledger.record.rules.canonical import canonical, digest

    document = json.loads((CONTRACTS / f"{TOOL}.json").read_text())
    contract = contracts.validate(document, compile_predicate=lambda text: None)
    at = datetime.now(UTC)
    pin = pins.new_pin(session_id="s", goal=GOAL, ttl_seconds=600, at=at)
    standing = gate.CallerContext(
        registered=True,
        sealed=True,
        open=True,
        pin=pin,
        disclosed={TOOL: contract},
        catalogue=frozenset({TOOL}),
    )
    raw = {"call_id": "c", "tool": TOOL, "arguments": arguments, "pin_hash": pin.hash}
    around = gate.TargetContext(dependencies={})

    def decide() -> None:
        call = gate.read_call(raw)
        verdict = gate.check_call(call, standing, compile_predicate=lambda _contract, _text: None, at=at)
        gate.check_preconditions(verdict, call, around, at=at)

    def least() -> None:
        contract.arguments_validator.is_valid(arguments)
        digest(canonical(arguments))

    ours, peer = interleaved(rounds, partial(_times, decide), partial(_times, least))
    return Figure(name=f"gate in process, {name}", unit="decisions per s", ours=ours, peer=peer)


def _times(work: Callable[[], None]) -> float:
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS / 2:
        for _ in range(100):
            work()
        count += 100
    return count / (time.perf_counter() - began)


# Over HTTP


def _refuse(wires: list[Wire]) -> float:
    return rate([_refusing(wire) for wire in wires], SECONDS)


def _insert(wires: list[Wire]) -> float:
    return rate([_inserting(wire) for wire in wires], SECONDS)


def _refusing(wire: Wire) -> Ask:
    session = wire.post("/api/v1/sessions", {"agent_id": AGENT, "goal": GOAL, "ttl_seconds": 600})
    path, pin = f"/api/v1/sessions/{session['session_id']}/calls", session["pin"]["hash"]

    def ask() -> None:
        result = wire.post(path, _body(pin))["results"][-1]
        if result["result"]["error"]["code"] != "PHANTOM_TOOL":
            raise SystemExit(f"benchmarks: a call was not refused as it should be: {result}")

    return ask


def _inserting(wire: Wire) -> Ask:
    return lambda: wire.post("/bare/rows", _body("0" * 64))


def _body(pin: str) -> dict[str, Any]:
    call = {"call_id": uuid4().hex, "tool": "issue_refunds", "arguments": GOOD, "pin_hash": pin}
    return {"calls": [call]}
