"""Round trips through the gate, in process: an agent asks, a person votes, an executor claims a grant and redeems it.

Each is a transaction of its own, through the operations that the console's edges call. Every writer has its own agent,
reviewer, executor and tools, as a team would; they share the tenant, its policies, its log and the server.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from django.utils import timezone

from benchmarks.figures import sized
from benchmarks.stand import CONTRACTS
from benchmarks.writers import Write

GOAL = "Keep the notes of the desk in order."
TEXT = "Paid in full."
# What is asked of people waits for the seal over their votes, except where the policy says otherwise and the effect
# can be taken back.
PATIENT, HASTY = "remove_note", "write_note"
POLICY = {
    "decide_within_s": 86_400,
    "release_within_s": 3_600,
    "grant_life_s": 300,
    "step_up": "C",
    "wait_for_seal": False,
}
IN_FLIGHT = 64
# The most grants that stand ready to be redeemed.
READY = 100


def ways(number: int) -> dict[str, Write]:
    """Return the operations of one writer."""
    desk = open_desk(number)
    return {
        "trip": desk.trip,
        "trip at once": desk.trip_at_once,
        "redeem": Redemptions(desk),
        "claimable": Claimable(desk),
        **{f"sealed, {width}": desk.trips(width).__next__ for width in (IN_FLIGHT // many for many in (1, 2, 4, 8))},
    }


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The participants in a writer's round trips."""

    tenant: UUID
    number: int
    session: Any
    reviewer: UUID
    key: Any

    def trip(self) -> None:
        """One request, from the question to the redeemed grant."""
        self.agreed(HASTY)
        self.redeemed(self.first())

    def trip_at_once(self) -> None:
        """One request, claimed and started in one transaction."""
        self.agreed(HASTY)
        self.claim_and_start(HASTY)

    def first(self) -> Any:
        """Return the grant for the request that was just agreed, which has no other condition."""
        orders = self.claimed(HASTY, 1)
        if len(orders) != 1:
            raise SystemExit("benchmarks: what was agreed could not be claimed at once")
        return orders[0]

    def trips(self, width: int) -> Iterator[None]:
        """Make round trips with `width` requests under way: claim what is sealed, and meanwhile propose others."""
        waiting = 0
        while True:
            while waiting < width:
                self.agreed(PATIENT)
                waiting += 1
            orders = self.claimed(PATIENT, width)
            if not orders:
                time.sleep(0.002)
            for order in orders:
                self.redeemed(order)
                waiting -= 1
                yield

    def agreed(self, tool: str) -> None:
        """Make a request that a person agrees to."""
        self.voted(*self.asked(tool))

    def asked(self, tool: str) -> tuple[UUID, UUID]:
        """The action and the approval of a new call."""
        from approvals.gate.operations import calls
        from console.actions import predicates
        from ledger.db import tenancy

        name = uuid4().hex
        arguments = {"path": f"notes/{name}.md", "text": TEXT, "sha256": sha256(TEXT.encode()).hexdigest()}
        call = {
            "call_id": name,
            "tool": f"{tool}_{self.number}",
            "arguments": arguments,
            "pin_hash": self.session.pin_hash,
        }
        with tenancy(self.tenant, plans_once=True):
            answers, _ = calls.propose_calls(
                tenant_id=self.tenant,
                session_id=self.session.id,
                key_actor=self.session.key_actor,
                raw_calls=[call],
                trace=calls.Trace(uuid4().hex),
                compile_predicate=predicates.agent_predicate_fault,
                at=timezone.now(),
                isolated=False,
            )
        document = answers[0].document
        if document["state"] != "VALIDATED" or not document["approval"]["required"]:
            raise SystemExit(f"benchmarks: nobody was asked: {document}")
        return UUID(document["action_id"]), UUID(document["approval"]["approval_id"])

    def voted(self, action_id: UUID, approval_id: UUID) -> None:
        """Look at the page and vote."""
        self.cast(approval_id, self.read_page(approval_id))

    def read_page(self, approval_id: UUID) -> Any:
        """Return what the page of an approval displays."""
        from approvals.requests.queries import approvals
        from approvals.voting.rules import binding
        from console.actions import target_drift
        from ledger.db import tenancy

        with tenancy(self.tenant, plans_once=True):
            approval = approvals.approval(self.tenant, approval_id)
            assert approval is not None
            return binding.DisplayedDigests(
                payload_hash=approval.payload_hash,
                rendering_digest=approval.rendering_digest,
                without_reading=target_drift.is_unread(approval),
            )

    def cast(self, approval_id: UUID, seen: Any) -> None:
        """Vote yes on what was displayed, as a person who has just given their password (class C)."""
        from approvals.voting.operations import votes
        from approvals.voting.rules import binding
        from ledger.db import tenancy

        with tenancy(self.tenant, plans_once=True):
            votes.cast_vote(
                tenant_id=self.tenant,
                approval_id=approval_id,
                verdict=binding.VoteChoice.APPROVE,
                voter=binding.Voter(actor=str(self.reviewer), roles=frozenset({binding.REVIEWER}), evidence_class="C"),
                seen=seen,
                reason="",
                at=timezone.now(),
            )

    def claimed(self, tool: str, limit: int) -> list[Any]:
        """Claim grants for everything that may start now."""
        from approvals.execution.operations import ready_actions as orders
        from ledger.db import tenancy
        from ledger.record import operations as ledger

        with tenancy(self.tenant, plans_once=True):
            return orders.claim_actions(
                tenant_id=self.tenant,
                executor_id=f"desk-{self.number}",
                tools=[f"{tool}_{self.number}"],
                limit=limit,
                by=ledger.Actor("executor", self.key),
                at=timezone.now(),
            )

    def claim_and_start(self, tool: str) -> None:
        """Claim and start the request that was just agreed, in one transaction."""
        from approvals.execution.operations import executions
        from ledger.db import tenancy
        from ledger.record import operations as ledger

        with tenancy(self.tenant, plans_once=True):
            begun = executions.claim_and_start_ready(
                tenant_id=self.tenant,
                request=self.start_request(UUID(int=0), ""),
                tools=[f"{tool}_{self.number}"],
                limit=1,
                by=ledger.Actor("executor", self.key),
                at=timezone.now(),
            )
        if len(begun) != 1:
            raise SystemExit("benchmarks: what was agreed could not be started at once")

    def start_request(self, action_id: UUID, token: str) -> Any:
        """The executor's request to start an action."""
        from approvals.execution.operations import executions

        return executions.StartRequest(
            action_id=action_id,
            token=token,
            executor_id=f"desk-{self.number}",
            thumbprint=_thumbprint(),
            wrapper_version="1",
            timeout_s=30,
            payload_hash=None,
        )

    def redeemed(self, order: Any) -> None:
        """The grant is spent, and the payload is in the executor's hands."""
        from approvals.execution.operations import executions
        from ledger.db import tenancy
        from ledger.record import operations as ledger

        with tenancy(self.tenant, plans_once=True):
            started = executions.start_execution(
                tenant_id=self.tenant,
                request=self.start_request(order.action_id, order.grant),
                by=ledger.Actor("executor", self.key),
                at=timezone.now(),
            )
        if not isinstance(started, executions.StartedExecution):
            raise SystemExit(f"benchmarks: a grant was refused: {started}")


class Redemptions:
    """Redeeming alone: `ready` claims the grants that are then spent."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.orders: deque[Any] = deque()

    def ready(self) -> None:
        while len(self.orders) < READY:
            self.desk.agreed(HASTY)
            self.orders.append(self.desk.first())

    def __call__(self) -> None:
        if not self.orders:
            raise SystemExit("benchmarks: no grant is left to redeem")
        self.desk.redeemed(self.orders.popleft())


class Claimable:
    """The answer of `ready`: the seconds from each vote to the claim that gets the agreed request."""

    MADE, PATIENCE_S, QUIET_S = sized(40, tiny=2), 10.0, 1.0

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def __call__(self) -> None:
        """Never a rate."""

    def ready(self) -> list[float]:
        self._clear()
        return [self._delay() for _ in range(self.MADE)]

    def _clear(self) -> None:
        """Redeem what other measures have left under way, which would otherwise be claimed instead."""
        until = time.perf_counter() + self.QUIET_S
        while time.perf_counter() < until:
            for order in self.desk.claimed(PATIENT, IN_FLIGHT):
                self.desk.redeemed(order)
                until = time.perf_counter() + self.QUIET_S
            time.sleep(0.01)

    def _delay(self) -> float:
        self.desk.agreed(PATIENT)
        began = time.perf_counter()
        while not (orders := self.desk.claimed(PATIENT, 1)):
            if time.perf_counter() - began > self.PATIENCE_S:
                raise SystemExit("benchmarks: what was agreed never became claimable")
            time.sleep(0.001)
        delay = time.perf_counter() - began
        self.desk.redeemed(orders[0])
        return delay


def open_desk(number: int) -> Desk:
    """Open a desk: its tools, its agent with a session, its reviewer and its executor."""
    from approvals.agents.operations import agents
    from approvals.agents.rules import registry
    from approvals.execution.operations import executors
    from approvals.sessions.operations import sessions
    from console.accounts import operations as accounts_operations
    from ledger.db import tenancy
    from ledger.record import operations as ledger
    from ledger.record.queries import events

    at, tenant = timezone.now(), events.tenants()[0].id
    tools, agent, key = tuple(f"{tool}_{number}" for tool in (PATIENT, HASTY)), f"desk-{number}", uuid4()
    member = accounts_operations.add_member(
        tenant_id=tenant,
        username=f"{uuid4().hex}@bench",
        password=None,
        name="Reviewer",
        roles=frozenset({"reviewer"}),
        by=ledger.SYSTEM,
        at=at,
    )
    entry = registry.RegistryEntry(
        tenant=str(tenant),
        agent_id=agent,
        version="1",
        registered_by="benchmarks",
        tools=tools,
        output_tags=(),
        model_tier="",
        registered_at=at,
    )
    wish = sessions.SessionRequest(agent_id=agent, goal=GOAL, ttl_seconds=24 * 3600)
    with tenancy(tenant):
        for tool in tools:
            _register(tenant, tool)
        agents.register_agent(tenant_id=tenant, entry=entry, by=ledger.SYSTEM, at=at)
        session = sessions.open_session(tenant_id=tenant, wanted=wish, key_actor=uuid4(), at=at)
        executors.register_executor(
            tenant_id=tenant,
            executor_id=agent,
            public_jwk=_jwk(),
            tools=list(tools),
            by=ledger.Actor("executor", key),
            at=at,
        )
    return Desk(tenant=tenant, number=number, session=session, reviewer=member.actor_id, key=key)


def _register(tenant: UUID, tool: str) -> None:
    from ledger.catalogue.operations import registration
    from ledger.catalogue.rules import contract as contracts
    from ledger.record import operations as ledger

    document: dict[str, Any] = json.loads((CONTRACTS / "write_document.json").read_text())
    document |= {"name": tool, "approval_required": True}
    if tool.startswith(PATIENT):
        document |= {"reversibility": "IRREVERSIBLE", "side_effect_class": "HIGH_RISK_EXTERNAL"}
    contract = contracts.validate(document, compile_predicate=lambda _: None)
    registration.register_contract(tenant_id=tenant, contract=contract, actor=ledger.SYSTEM, at=timezone.now())


def _jwk() -> dict[str, str]:
    """Return a public key of some executor; the proof of its private key happens at the edge, which is not measured
    here.
    """
    return {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}


def _thumbprint() -> str:
    from approvals.execution.rules import dpop

    return dpop.thumbprint(_jwk())
