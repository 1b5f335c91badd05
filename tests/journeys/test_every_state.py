"""Every state of an action, reached as time passes: real processes, a real shop, short limits, and no clock is touched.

All actions are sent at once and an executor carries them out as their payloads say; each test waits for its own state.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest

from counterfoil.agent import Agent, Call
from counterfoil.executor import Executor, Order
from counterfoil.work import Result, Work, failed, succeeded
from ledger.record.rules.lifecycle import State
from tests.journeys.ground import Ground

# How long an attempt may take and, with a second to settle, how long after its end an effect may still arrive.
TIMEOUT_S = 5
HOLD, RELEASE, LOCAL, SLOW, BOTH = "walk_hold", "walk_release", "walk_local", "walk_slow", "walk_both"
PIECES = {"lamp": "LAMP-1", "shade": "SHADE-1"}


def contract(name: str, sla_s: int = 60, **changes: Any) -> dict[str, Any]:
    """A tool that holds stock for an order; `how` tells the test's executor how to do it."""
    properties = {
        "order_id": {"type": "string"},
        "sku": {"type": "string"},
        "quantity": {"type": "integer"},
        "how": {"type": "string"},
    }
    return {
        "name": name,
        "version": "1",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": "Hold stock for an order. Use when: it is about to be packed. NOT for: anything else.",
        "arguments_schema": {
            "type": "object",
            "required": list(properties),
            "additionalProperties": False,
            "properties": properties,
        },
        "side_effect_class": "MEDIUM_RISK_WRITE",
        "reversibility": "COMPENSABLE",
        "transaction_boundary": "COMPENSABLE_PRE_PIVOT",
        "target_resource": "held-for/{order_id}",
        "operation_kind": "hold",
        "required_effects": ["held"],
        "verification": verification({"held": held()}, ["sa.quantity == sr.quantity"], sla_s),
    } | changes


def held(sku: str = "sr.sku") -> dict[str, Any]:
    where = {"idempotency_key": "scope.idempotency_key", "sku": sku}
    return {"table": "shop.reservations", "where": where, "fields": ["id", "quantity"]}


def verification(effects: dict[str, Any], predicates: list[str], sla_s: int = 60) -> dict[str, Any]:
    return {
        "pattern": "databases",
        "system": "shop",
        "lookup": {"effects": effects},
        "predicates": predicates,
        "polling": {"first_after_s": 0, "backoff": 1, "max_interval_s": 2, "sla_s": sla_s},
        "settle_s": 1,
    }


def contracts() -> list[dict[str, Any]]:
    back = {"compensation_tool": RELEASE, "compensation_arguments": {"reservation_id": "sa.id", "how": "sr.how"}}
    rest = {"order_id": "sr.order_id", "sku": "'SHADE-1'", "quantity": "sr.quantity", "how": "'as asked'"}
    released = {
        "table": "shop.reservations",
        "where": {"id": "sr.reservation_id"},
        "present_if": "row.status == 'released'",
        "fields": ["status"],
    }
    words = {"reservation_id": {"type": "string"}, "how": {"type": "string"}}
    return [
        contract(HOLD, recovery=back),
        contract(SLOW, sla_s=3),
        contract(LOCAL, transaction_boundary="LOCAL_TRANSACTION"),
        contract(
            BOTH,
            pivot=True,
            approval_required=True,
            required_effects=list(PIECES),
            verification=verification(
                {name: held(f"'{sku}'") for name, sku in PIECES.items()},
                [f"sa.effects.{name}.quantity == sr.quantity" for name in PIECES],
            ),
            recovery={"effects": {"shade": {"forward_tool": HOLD, "forward_arguments": rest}}, "idempotent": True},
        ),
        contract(
            RELEASE,
            description="Release held stock. Use when: holding it was wrong. NOT for: packed orders.",
            arguments_schema={
                "type": "object",
                "required": list(words),
                "additionalProperties": False,
                "properties": words,
            },
            side_effect_class="LOW_RISK_INTERNAL",
            target_resource="reservation/{reservation_id}",
            operation_kind="release",
            required_effects=["release"],
            verification=verification({"release": released}, ["sa.status == 'released'"]),
        ),
    ]


@dataclass
class Walk:
    """The actions that lead through every state, by what happens to them, and the executor that carries them out."""

    ground: Ground
    agent: Agent
    executor: Executor
    actions: dict[str, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)

    def propose(self, how: str, tool: str = HOLD, *, sku: str = "LAMP-1", is_answered: bool = True) -> None:
        order = self.ground.stage().order()
        session = self.agent.open_session(goal="Hold what is to be packed.", ttl_seconds=600)
        payload = {"order_id": order.order_id, "sku": sku, "quantity": 2, "how": how}
        answer = session.call(Call(tool=tool, arguments=payload), goal="Hold what is to be packed.")
        assert answer.accepted, answer
        self.actions[how] = str(answer.action_id)
        if not is_answered:
            self.silent.add(self.actions[how])

    def carry_out(self, order: Order) -> None:
        if order.action_id in self.silent:
            self.executor.begin(order)  # and then it dies
        else:
            self.executor.execute(order)

    def write(self, work: Work, *, quantity: int, sku: str) -> None:
        with self.ground.stage().shop.connect() as connection:
            connection.execute(
                "INSERT INTO shop.reservations (id, order_id, tenant, sku, quantity, idempotency_key, actor, trace_id)"
                " VALUES (%s, %s, 'north', %s, %s, %s, 'walker', %s)",
                [
                    *(f"RV-{secrets.token_hex(4).upper()}", work.payload["order_id"], sku, quantity),
                    *(work.idempotency_key, work.trace.trace_id),
                ],
            )

    def hold(self, work: Work) -> Result:
        how, asked, sku = work.payload["how"], work.payload["quantity"], work.payload["sku"]
        if how == "fails":
            return failed("NO", "Nothing was held.")
        if how == "rolls back":
            return failed("CONFLICT", "Serialization failure.", phase="rolled_back")
        if how == "goes on working":
            return Result("pending")
        with work.effect("held"):
            wrong = how in ("is put right", "cannot be put right")
            self.write(work, quantity=asked * (10 if wrong else 1), sku=sku)
        return Result("accepted") if how == "is accepted first" else succeeded("held")

    def release(self, work: Work) -> Result:
        with work.effect("release"), self.ground.stage().shop.connect() as connection:
            if work.payload["how"] == "is put right":
                found = [work.payload["reservation_id"]]
                connection.execute("UPDATE shop.reservations SET status = 'released' WHERE id = %s", found)
        return succeeded("released")

    def abandon(self, how: str) -> None:
        """An operator closes what stayed wrong."""
        operator, action_id = self.ground.person("operator"), self.actions[how]
        self.ground.wait_for(action_id, State.REVIEW_REQUIRED)
        self.ground.until(lambda: bool(self.ground.cases(action_id)), lambda: "no case was opened")
        path = f"/reviews/{self.ground.cases(action_id)[0]['case_id']}"
        said = {"resolution": "ABANDON", "reason": "The stock was counted.", "evidence": ["The shelf."]}
        proof = {"password": self.ground.password("operator"), "covers": operator.get(path)["covers_digest"]}
        answer = operator.post(f"{path}/resolve", said | proof)
        assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def walk(quiet_ground: Ground) -> Iterator[Walk]:
    """Every action on its way, and an executor at work."""
    ground = quiet_ground
    documents = contracts()
    for document in documents:
        answer = ground.operator.post("/contracts", document)
        assert answer.status_code == 201, answer.text
    entry = {"agent_id": "walker", "version": "1", "tools": [document["name"] for document in documents]}
    assert ground.operator.post("/agents", entry).status_code == 201
    name = f"walker-{uuid4().hex[:8]}"
    with httpx.Client(timeout=30) as http, httpx.Client(timeout=30) as other:
        agent = Agent(url=ground.stack.url, key=ground.known["keys"]["agent"], agent_id="walker", http=other)
        made: Walk
        executor = Executor(
            url=ground.stack.url,
            key=ground.known["keys"]["exec"],
            executor_id=name,
            key_file=ground.place.var / f"{name}.jwk",
            handlers={each: (lambda work: made.hold(work)) for each in (HOLD, LOCAL, SLOW, BOTH)}
            | {RELEASE: lambda work: made.release(work)},
            timeout_s=TIMEOUT_S,
            wait_s=1,
            issuer=ground.stack.url,
            http=http,
        )
        executor.register()
        made = Walk(ground, agent, executor)
        ground.until_at_work()
        for how in ("goes well", "is accepted first", "fails", "is put right", "cannot be put right"):
            made.propose(how)
        made.propose("is never heard of again", is_answered=False)
        made.propose("rolls back", LOCAL)
        made.propose("goes on working", SLOW)
        made.propose("is done in part", BOTH)
        ground.approve(made.actions["is done in part"])
        is_over = threading.Event()

        def work_on() -> None:
            while not is_over.is_set():
                for order in executor.claim(limit=10):
                    made.carry_out(order)

        worker = threading.Thread(target=work_on, daemon=True)
        worker.start()
        try:
            yield made
        finally:
            is_over.set()
            worker.join(60)


STATES = {
    State.PROPOSED: "goes well",
    State.VALIDATED: "goes well",
    State.EXECUTING: "goes well",
    State.ACCEPTED: "is accepted first",
    State.PENDING: "goes well",
    State.COMMITTED: "goes well",
    State.RECONCILED_SUCCESS: "goes well",
    State.FAILED: "fails",
    State.UNKNOWN: "is never heard of again",
    State.VERIFICATION_TIMEOUT: "goes on working",
    State.ROLLED_BACK: "rolls back",
    State.PARTIALLY_COMMITTED: "is done in part",
    State.FORWARD_RECOVERY: "is done in part",
    State.RECONCILIATION_FAILED: "is put right",
    State.COMPENSATING: "is put right",
    State.COMPENSATED: "is put right",
    State.COMPENSATION_FAILED: "cannot be put right",
    State.REVIEW_REQUIRED: "cannot be put right",
    State.ABANDONED: "cannot be put right",
}


@pytest.mark.req("R-SM-03", "R-SM-17", "R-SM-20", "R-RP-36")
@pytest.mark.parametrize("state", State)
def test_each_state_is_reached(walk: Walk, state: State):
    how = STATES[state]
    if state is State.ABANDONED:
        walk.abandon(how)
    action_id, ground = walk.actions[how], walk.ground
    ground.until(lambda: state in ground.path(action_id), lambda: (state, how, ground.path(action_id)), within_s=90)


def test_a_rollback_is_confirmed_only_after_the_late_effect_horizon(walk: Walk):
    action_id, ground = walk.actions["rolls back"], walk.ground
    ground.wait_for(action_id, State.ROLLED_BACK)
    assert ground.path(action_id) == ["PROPOSED", "VALIDATED", "EXECUTING", "ROLLED_BACK"]
    runs = sorted(ground.operator.items(f"/actions/{action_id}/runs"), key=lambda run: int(run["number"]))
    assert (runs[0]["result"], runs[-1]["result"]) == ("PENDING", "ABSENT")
    assert "It may still arrive until the late-effect horizon." in runs[0]["reason"]
    told = ground.agent.report(action_id)
    assert (told.code, told.completed) == ("ROLLED_BACK", False)
