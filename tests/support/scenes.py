"""Scenes for pages: a tenant with people, an agent and an executor, whose actions are taken to any point of their path.

Everything goes through the product's own operations; only the answer of the system of record is made up.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from approvals.agents.operations import agents
from approvals.agents.rules.registry import RegistryEntry
from approvals.execution.operations import executions, executors, ready_actions
from approvals.execution.rules import dpop
from approvals.gate.operations import calls
from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_read
from approvals.sessions.operations import sessions
from approvals.voting.operations import votes
from approvals.voting.rules import binding
from console.accounts import operations as directory
from console.actions import target_drift
from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions
from ledger.catalogue.operations import registration
from ledger.catalogue.rules import contract as contracts
from ledger.db import tenancy
from ledger.record import operations as ledger
from reviews import queries as after
from reviews.cases.operations import cases
from reviews.observations.operations import observations
from reviews.readback.operations import readings
from reviews.reconciliation.rules.reading import Consistency, ReadEffect, Reading
from reviews.recovery.operations import run_compensation
from reviews.verification.operations import verification

CONTRACTS = Path(__file__).parents[2] / "client" / "example" / "contracts"
PASSWORD = "correct horse battery"
GOAL = "Refund the order in full: the lamp arrived broken."


def now() -> datetime:
    """When everything up to the tool's answer happens: long enough ago for late effects to be over."""
    return datetime.now(UTC) - timedelta(minutes=1)


def _public_jwk() -> dict[str, str]:
    raw = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(raw).rstrip(b"=").decode()}


@dataclass
class Stage:
    """A tenant, and what its agent and executor are known by."""

    tenant: UUID
    slug: str
    agent_key: ledger.Actor = field(default_factory=lambda: ledger.Actor("agent", uuid4()))
    executor: ledger.Actor = field(default_factory=lambda: ledger.Actor("executor", uuid4()))
    thumbprint: str = ""
    people: dict[str, Any] = field(default_factory=dict)

    # People

    def person(self, *roles: str, name: str = "") -> Any:
        """A member of the tenant; the same name is the same person."""
        username = name or f"{'-'.join(roles)}@{self.slug}"
        if username not in self.people:
            self.people[username] = directory.add_member(
                tenant_id=self.tenant,
                username=username,
                password=PASSWORD,
                name=username.split("@")[0].replace("-", " ").title(),
                roles=frozenset(roles),
                by=ledger.SYSTEM,
                at=now(),
            )
        return self.people[username]

    # Before

    def propose(self, tool: str = "issue_refund", goal: str = GOAL, **arguments: Any) -> UUID:
        """The agent's call, accepted by the gate; the action's id."""
        order = f"EX-{uuid4().hex[:8].upper()}"
        given = {"order_id": order, "amount": 12500, "currency": "EUR", "reason": "damaged"} | arguments
        result = self.call(tool, given, goal=goal)
        assert result["accepted"], result
        return UUID(result["action_id"])

    def call(self, tool: str, arguments: dict[str, Any], goal: str = GOAL) -> dict[str, Any]:
        """The gate's answer to one call in a session of its own."""
        with tenancy(self.tenant):
            wish = sessions.SessionRequest(agent_id="support", goal=goal, ttl_seconds=3600)
            session = sessions.open_session(tenant_id=self.tenant, wanted=wish, key_actor=self.agent_key.id, at=now())
            answers, _ = calls.propose_calls(
                tenant_id=self.tenant,
                session_id=session.id,
                key_actor=self.agent_key.id,
                raw_calls=[
                    {"call_id": uuid4().hex, "tool": tool, "arguments": arguments, "pin_hash": session.pin_hash}
                ],
                trace=calls.Trace(uuid4().hex),
                compile_predicate=lambda contract, text: None,
                at=now(),
            )
        return answers[0].document

    def approval(self, action_id: UUID) -> Any:
        with tenancy(self.tenant):
            return approvals.approval_of(self.tenant, action_id)

    def approve(self, action_id: UUID) -> None:
        """One reviewer's vote."""
        place = self.person("reviewer")
        with tenancy(self.tenant):
            approval = approvals.approval_of(self.tenant, action_id)
            covers = votes.vote_coverage(approval)
            votes.cast_vote(
                tenant_id=self.tenant,
                approval_id=approval.id,
                verdict=binding.VoteChoice.APPROVE,
                voter=binding.Voter(actor=str(place.actor_id), roles=frozenset({"reviewer"}), evidence_class="C"),
                seen=binding.DisplayedDigests(
                    payload_hash=covers.payload_hash,
                    rendering_digest=covers.rendering_digest,
                    without_reading=target_drift.is_unread(approval),
                ),
                reason="The photo shows the damage.",
                at=now(),
            )

    # Execution

    def execute(self, action_id: UUID, status: str = "success") -> None:
        """Claim, start, and report what the tool is made to answer."""
        with tenancy(self.tenant):
            found = ready_actions.claim_actions(
                tenant_id=self.tenant, executor_id="runner", tools=None, limit=10, by=self.executor, at=now()
            )
            token = next(order.grant for order in found if order.action_id == action_id)
            action = actions.action(self.tenant, action_id)
            started = executions.start_execution(
                tenant_id=self.tenant, request=self._start(action_id, token), by=self.executor, at=now()
            )
            document = {"result": {"tool": action.tool, "status": status, "evidence": None, "error": None}}
            observations.record_answer(
                tenant_id=self.tenant,
                action_id=action_id,
                contract=sessions_read.disclosed_contract(self.tenant, action.contract_digest),
                answer=observations.AttemptAnswer(
                    attempt=started.attempt,
                    lease_ends_at=started.lease_expires_at,
                    timeout_s=5,
                    document=document,
                    raw=b"raw answer of the tool",
                    source="executor",
                ),
                by=self.executor,
                at=now(),
            )

    def _start(self, action_id: UUID, token: str) -> executions.StartRequest:
        return executions.StartRequest(
            action_id=action_id,
            token=token,
            executor_id="runner",
            thumbprint=self.thumbprint,
            wrapper_version="1",
            timeout_s=5,
            payload_hash=None,
        )

    # After

    def read(
        self,
        action_id: UUID,
        *,
        count: int = 1,
        hit: str = "",
        ids: tuple[int, ...] = (),
        effect: str = "refund",
        **fields: Any,
    ) -> str | None:
        """One verification run over a made-up answer of the system of record; the state after."""
        at = now() + timedelta(seconds=30)
        with tenancy(self.tenant):
            order = actions.action(self.tenant, action_id).target.partition("/")[2]
        found = {"amount": 12500, "currency": "EUR", "order_id": order, "status": "succeeded", "tenant": "t"}
        seen = ReadEffect(
            name=effect,
            present=count > 0,
            count=count,
            fields=found | fields if count else {},
            scope={"target": (hit or order,) if count else ()},
            instances=tuple({**found, **fields, "id": each} for each in ids),
        )
        reading = Reading(
            source="shop",
            consistency=Consistency.PRIMARY,
            freshness="LSN 0/1A2B",
            observed_at=at,
            pointer="shop.refunds where idempotency_key = …",
            effects=(seen,),
            target={"tenant": "t"},
        )
        with patch.object(readings, "read_primary", return_value=(reading, None)):
            return verification.verify_action(tenant_id=self.tenant, action_id=action_id, clock=lambda: at)

    def add_evidence(self, action_id: UUID) -> None:
        """What a person attaches to an action."""
        by = ledger.Actor("person", self.person("reviewer").actor_id)
        with tenancy(self.tenant):
            cases.attach_evidence(
                tenant_id=self.tenant, action_id=action_id, data=b"A mail.", media_type="text/plain", by=by, at=now()
            )

    def case(self, goal: str = GOAL, **read: Any) -> Any:
        """An action whose reading does not agree, and the case that a person must settle."""
        action_id = self.propose(goal=goal)
        self.approve(action_id)
        self.execute(action_id)
        self.read(action_id, **(read or {"count": 0}))
        with tenancy(self.tenant):
            return after.case_of(self.tenant, action_id)

    def done(self) -> UUID:
        """An action that was read back and holds."""
        action_id = self.propose()
        self.approve(action_id)
        self.execute(action_id)
        assert self.read(action_id) == "RECONCILED_SUCCESS"
        return action_id

    def stuck_run(self) -> str:
        """A run that is taken back and waits for a person: no tool reverses a refund."""
        action_id = self.done()
        with tenancy(self.tenant):
            run_id: str = actions.action(self.tenant, action_id).run_id
            row = ledger_orders.unwind_run(
                tenant_id=self.tenant, run_id=run_id, reason="The customer called.", actor=ledger.SYSTEM, at=now()
            )
            run_compensation.compensate_next(tenant_id=self.tenant, unwinding_id=row.id, at=now())
        return run_id

    def state(self, action_id: UUID) -> str:
        with tenancy(self.tenant):
            return str(actions.action(self.tenant, action_id).state)


def set_up(slug: str, *tools: str) -> Stage:
    """A founded tenant with a registered system, agent and executor, and the example's contracts of these tools."""
    tools = tools or ("issue_refund",)
    at = now()
    tenant = registration.set_up_tenant(
        tenant_id=ledger.new_id(at), slug=slug, name=slug.title(), host="console.test", at=at
    ).id
    stage = Stage(tenant, slug)
    jwk = _public_jwk()
    stage.thumbprint = dpop.thumbprint(jwk)
    with tenancy(tenant):
        registration.register_system(
            tenant_id=tenant, name="shop", pattern="databases", settings={}, actor=ledger.SYSTEM, at=at
        )
        for tool in tools:
            document = json.loads((CONTRACTS / f"{tool}.json").read_text())
            contract = contracts.validate(document, compile_predicate=lambda text: None)
            registration.register_contract(tenant_id=tenant, contract=contract, actor=ledger.SYSTEM, at=at)
        agents.register_agent(tenant_id=tenant, entry=_agent(tenant, tools, at), by=ledger.SYSTEM, at=at)
        executors.register_executor(
            tenant_id=tenant, executor_id="runner", public_jwk=jwk, tools=list(tools), by=stage.executor, at=at
        )
    return stage


def _agent(tenant: UUID, tools: tuple[str, ...], at: datetime) -> RegistryEntry:
    return RegistryEntry(
        tenant=str(tenant),
        agent_id="support",
        version="1",
        tools=tools,
        output_tags=(),
        model_tier="",
        registered_by="tests",
        registered_at=at,
    )
