"""Everything at once: executors, verifiers, people, recovery, crashes and outages, in any order that Hypothesis finds.

One tenant refunds orders at a real PostgreSQL. After each step, whatever happened before:

- nobody is told of a completion without a strong reading that satisfied every predicate, or a person's attestation;
- no attempt is handed out while an effect of the same operation stands, or could still arrive;
- once the ticks have run, no open state is without an owner: a lease, a schedule row, an order, a case.

In the end of each run the ledger is read again, and must lead to the same projections.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from approvals import tasks as before
from approvals.models import Deadline
from ledger.actions.queries import actions
from ledger.actions.queries import runs as runs_queries
from ledger.db import tenancy
from ledger.record.queries import events
from ledger.record.rules.lifecycle import BLOCKS_REPEAT, State
from reviews import queries as reviews
from reviews import tasks as after
from reviews.models import Schedule
from reviews.reporting.operations import reports
from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.refund_shop import TOOL, Counter
from tests.web.conftest import RolledBackMachine
from tests.web.recovery.test_recovery_path import CANCEL, cancelling, lesser

ORDERS = count(1000)
WHY = {"reason": "I looked myself.", "evidence": ["the till, this morning"]}
TICKS = [before.lapse, before.propose_follow_ups, after.verify_due, after.recover, after.sweep]
SETTLED = {"RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK", "ABANDONED"}
WATCHED = ("PENDING", "ACCEPTED", "UNKNOWN")


class Shift(RolledBackMachine):
    """A shift at the till: one order, and all who may touch it."""

    counter: Counter
    clock: Clock
    credential: Path

    @initialize()
    def open(self) -> None:
        # Time moves by the rules alone: on a busy machine an example would not repeat.
        self.clock.stop()
        self.order = f"EX-{next(ORDERS)}"
        self.counter.till.order(self.order)
        self.counter.operator.sign_in()
        self.counter.reviewer.sign_in()
        self.actions: list[str] = []
        self.started: list[dict[str, Any]] = []
        self.dead = False
        self.propose(1250)
        self.start(lost=False)

    word = ""

    # The agent and its approvers

    @precondition(lambda self: len(self.actions) < 3)
    @rule(amount=st.sampled_from([1250, 1250, 900]))
    def propose(self, amount: int) -> None:
        arguments = {"order_id": self.order, "amount": amount, "currency": "EUR"}
        answer = self.counter.call(TOOL, arguments)
        if answer["accepted"]:
            self.actions.append(str(answer["action_id"]))

    @precondition(lambda self: self.actions and not self.started)
    @rule()
    def cancel(self) -> None:
        self.counter.operator_key.post(f"/actions/{self.actions[-1]}/cancel", {"reason": "No longer wanted."})

    # Executors

    @rule(lost=st.sampled_from([False, False, False, True]))
    def start(self, lost: bool) -> None:
        """Claim and start what is ready; or the claim is lost with its executor."""
        for order in self.counter.claim():
            answer = None if lost else self.counter.start(order)
            if answer is None or answer.status_code != 201:
                continue
            begun = answer.json()
            if order["tool"] == TOOL:
                self._nothing_stands(begun)
            self.started.append(begun | {"tool": order["tool"], "at": self.clock.now(), "wrote": False})

    def _nothing_stands(self, begun: dict[str, Any]) -> None:
        """No effect of this very payload is there, and none can come any more, when it may be sent."""
        payload = begun["payload"]
        rows = self.counter.till.till.execute(
            "SELECT 1 FROM refunds WHERE key = %s AND status = 'succeeded'", [begun["idempotency_key"]]
        )
        assert rows.fetchall() == [], "sent again while its effect stands"
        for other in self.started:
            same = other["tool"] == TOOL and other["payload"] == payload and not other["wrote"]
            assert not (same and self._may_write(other)), "sent again while an earlier attempt may still act"

    def _may_write(self, begun: dict[str, Any]) -> bool:
        """The client library begins no effect after its lease; what it sent may take the timeout to arrive."""
        return (self.clock.now() - begun["at"]).total_seconds() < 20

    @precondition(lambda self: any(not each["wrote"] and self._may_write(each) for each in self.started))
    @rule(
        how=st.sampled_from(["right", "right", "right", "wrong amount", "twice", "elsewhere", "not at all"]),
        pause=st.sampled_from([0, 0, 5, 25]),
        status=st.sampled_from(["success", "success", "failed", "timeout", "accepted", "partial", "silence"]),
    )
    def work(self, how: str, pause: int, status: str) -> None:
        """An executor acts on one attempt and reports it: in time or late, truly or not, or dies without a word."""
        begun = next(each for each in self.started if not each["wrote"] and self._may_write(each))
        begun["wrote"] = True
        self._act(begun, how)
        self.clock.forward(seconds=pause)
        if status != "silence":
            self._tell(begun, status)

    def _act(self, begun: dict[str, Any], how: str) -> None:
        payload, key = begun["payload"], begun["idempotency_key"]
        if how == "not at all":
            return
        if begun["tool"] == CANCEL:
            change = "UPDATE refunds SET status = 'cancelled' WHERE id = %s"
            self.counter.till.till.execute(change, [payload["refund_id"]])
            return
        changes = {"wrong amount": {"amount": 1}, "elsewhere": {"tenant": "willow"}}.get(how, {})
        for _ in range(2 if how == "twice" else 1):
            self.counter.till.refund(key, booked=False, **(payload | changes))

    @precondition(lambda self: self.started)
    @rule(status=st.sampled_from(["success", "failed", "nonsense"]), first=st.booleans())
    def tell_again(self, status: str, first: bool) -> None:
        """An answer that comes late, or once more, or makes no sense."""
        self._tell(self.started[0 if first else -1], status)

    def _tell(self, begun: dict[str, Any], status: str) -> None:
        error = {"error": {"code": "NOPE", "message": "No."}} if status == "failed" else {}
        told = {"tool": begun["tool"], "status": status, "evidence": "x", "side_effects": [], "timestamp": "", **error}
        answer = self.counter.observe(begun, result=told)
        assert answer.status_code == 202, answer.content

    # Time, ticks and trouble

    @rule(seconds=st.sampled_from([1, 8, 30, 60, 400]), ticks=st.permutations(TICKS), some=st.integers(1, len(TICKS)))
    def wait(self, seconds: int, ticks: list[Callable[[], Any]], some: int) -> None:
        """Time passes, and the ticks come in any order, or some of them not at all."""
        self.clock.forward(seconds=seconds)
        for tick in ticks[:some]:
            tick()

    @precondition(lambda self: self.actions)
    @rule()
    def look_now(self) -> None:
        """A webhook, or an operator, asks for a reading at once."""
        self.counter.operator_key.post(f"/actions/{self.actions[-1]}/verify")

    @rule(down=st.sampled_from([False, False, True]))
    def outage(self, down: bool) -> None:
        if down:
            self.credential.unlink(missing_ok=True)
        else:
            self.credential.write_text(self.word)

    # People

    @rule(number=st.integers(0, 8))
    def resolve(self, number: int) -> None:
        """An operator settles a case in one of the ways that are open, and a second person confirms it."""
        cases = [each for each in self.counter.operator.get("/reviews").json()["items"] if each["action_id"]]
        ours = [each for each in cases if each["action_id"] in self._all()]
        if not ours:
            return
        path = f"/reviews/{ours[0]['case_id']}"
        allowed = [each["resolution"] for each in self.counter.operator.get(path).json()["allowed"]]
        if ours[0]["state"] == "AWAITING_SECOND":
            settling.confirm(self.counter.reviewer, ours[0]["case_id"], accept=number % 2 == 0)
        elif allowed:
            wanted = allowed[number % len(allowed)]
            answer = settling.settle(self.counter.operator, ours[0]["case_id"], wanted, **WHY)
            assert answer.status_code in (200, 409), answer.content

    @rule(lift=st.sampled_from([True, True, True, False]))
    def freeze(self, lift: bool) -> None:
        mine = [each for each in self.counter.operator.get("/freezes").json()["items"] if self.order in each["value"]]
        if lift and mine:
            self.counter.operator.post(f"/freezes/{mine[0]['freeze_id']}/lift", {"reason": "Go on."})
        elif not lift and not mine:
            body = {"scope": "target", "value": f"order/{self.order}", "reason": "Wait.", "unknown_ok": True}
            self.counter.operator.post("/freezes", body)

    @rule(dead=st.booleans())
    def worker(self, dead: bool) -> None:
        """The worker dies, or comes back; leases and the sweep are looked after by another one."""
        self.dead = dead

    def _time_goes_on(self) -> None:
        self.clock.forward(seconds=4)
        before.lapse()
        if not self.dead:
            after.verify_due()
            before.propose_follow_ups()
            after.recover()
        after.sweep()

    # What must hold

    def _all(self) -> list[str]:
        """The actions, and the recovery actions that were ordered for them."""
        with tenancy(self.counter.tenant):
            children = [
                str(child.id) for each in self.actions for child in actions.children_of(self.counter.tenant, UUID(each))
            ]
        return [*self.actions, *children]

    @invariant()
    def it_holds(self) -> None:
        if not getattr(self, "actions", []):
            return
        self._time_goes_on()
        tenant = self.counter.tenant
        with tenancy(tenant):
            found = actions.actions_by_id(tenant, [UUID(each) for each in self._all()])
            entries = events.entries(tenant, [(each.id, each.seq) for each in found.values()])
            for action in found.values():
                told = reports.report_on(action, entries[action.id])
                assert not told.completed or self._is_founded(action), told
                assert self._owned(action), (action.state, action.settled, action.recovery_decision)
        open_ones = [each.operation_key for each in found.values() if each.state in BLOCKS_REPEAT]
        assert len(open_ones) == len(set(open_ones)), "two of a kind are open"

    def _is_founded(self, action: Any) -> bool:
        if any(event.kind == "attested_present" for event, _, _ in events.history(action.tenant_id, action.id)):
            return True
        assert action.state == State.RECONCILED_SUCCESS
        runs = reviews.runs_of(action.tenant_id, action.id)
        return any(_is_strong_success(reviews.run_findings(run)) for run in runs)

    def _owned(self, action: Any) -> bool:
        tenant = action.tenant_id
        case = reviews.case_of(tenant, action.id)
        if action.state in SETTLED or (case is not None and case.state != "RESOLVED"):
            return True
        if action.state == "EXECUTING":
            return Deadline.objects.filter(subject_id=action.id).exists()
        if action.state == "VALIDATED":
            # An executor may claim it, or people are asked about it.
            return action.approval_id is None or Deadline.objects.filter(subject_id=action.approval_id).exists()
        if action.state in WATCHED:
            return Schedule.objects.filter(action_id=action.id).exists()
        if action.state in ("COMPENSATING", "FORWARD_RECOVERY"):
            return runs_queries.has_open_order(tenant, action.id)
        return bool(Schedule.objects.filter(action_id=action.id).exists())

    def check_at_end(self) -> None:
        self.credential.write_text(self.word)
        call_command("verify_ledger", verbosity=0)


def _is_strong_success(found: dict[str, Any]) -> bool:
    verdict = found["verdict"]
    held = all(one["holds"] in ("TRUE", "NOT_APPLICABLE") for one in verdict["predicates"])
    strong = verdict["consistency"] in ("PRIMARY", "STRONG")
    return bool(found["readings"]) and verdict["result"] == "SUCCESS" and strong and held


@pytest.fixture
def machine(counter: Counter, clock: Clock, secrets_dir: Path) -> type[Shift]:
    tools = (lesser(), cancelling())
    counter.open(secrets_dir, *tools)
    body = {"version": "2", "document": {"table": "built-in", "max_attempts": 2}}
    assert counter.operator_key.release("recovery", body).status_code == 201
    credential = secrets_dir / "systems" / "orchid" / "till.json"
    assert datetime.now(UTC) <= clock.now()
    return type(
        "Today",
        (Shift,),
        {"counter": counter, "clock": clock, "credential": credential, "word": credential.read_text()},
    )


def play(machine: type[Shift], *, runs: int, steps: int, same: bool) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            derandomize=same,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.req("R-EX-08", "R-RC-15", "R-SM-12")
def test_no_order_of_events_leads_to_a_false_report_a_second_effect_or_an_orphan(machine: type[Shift]):
    play(machine, runs=6, steps=20, same=True)


@pytest.mark.long
def test_no_order_of_events_does_so_in_a_long_search(machine: type[Shift]):
    play(machine, runs=150, steps=60, same=False)
