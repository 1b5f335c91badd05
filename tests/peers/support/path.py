"""The whole path of one action: contract, gate, claim, start, somebody's tool on a real system, answer, verification.

Everything of ours goes through the product's own operations in a real database. What the tool did to the peer, right
or wrong, is the test's; what it cost is read back by the product alone.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from approvals.agents.operations import agents
from approvals.agents.rules.registry import RegistryEntry
from approvals.execution.operations import executions, executors, ready_actions
from approvals.execution.rules import dpop
from approvals.gate.operations import calls
from approvals.sessions import queries as sessions_read
from approvals.sessions.operations import sessions
from console.actions import predicates
from ledger.actions.queries import actions
from ledger.catalogue.operations import registration
from ledger.catalogue.rules import contract as contracts
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events, evidence
from reviews import queries as after
from reviews.checks import catalogue
from reviews.observations.operations import observations
from reviews.readback.operations import readings
from reviews.readback.rules import addresses
from reviews.reconciliation.rules.discrepancies import INDICATORS
from reviews.reporting.rules.evidence_summary import QUESTIONS, summary_lines
from reviews.verification.operations import verification
from tests.peers.support.errand import TOOL, Errand

TIMEOUT_S = 1
SETTLED = timedelta(seconds=2 * TIMEOUT_S + 1)
"""After so long nothing can arrive late any more."""

STATES = {
    "WRONG_TARGET_MODIFIED": ({"RT-14"}, "REVIEW_REQUIRED"),
    "DUPLICATE_SIDE_EFFECT": ({"RT-12", "RT-42"}, "REVIEW_REQUIRED"),
    "TARGET_MISSING": ({"RT-38"}, "REVIEW_REQUIRED"),
    "PARTIAL_APPLICATION": ({"RT-09"}, "REVIEW_REQUIRED"),
    "STALE_STATE": ({"RT-11"}, "FAILED"),
    "COMPENSATION_REQUIRED": ({"RT-52"}, "REVIEW_REQUIRED"),
    "VALUE_MISMATCH": ({"RT-03"}, "REVIEW_REQUIRED"),
    "NO_OP_FAILURE": ({"RT-03"}, "REVIEW_REQUIRED"),
    "PROPAGATION_DELAY": ({"RT-01"}, "PENDING"),
    "UNVERIFIABLE_STATE": ({"RT-41"}, "REVIEW_REQUIRED"),
    "UNKNOWN_STATE": ({"RT-01", "RT-19"}, "PENDING"),
}
"""Where the recovery table sends each class: a MEDIUM_RISK_WRITE that can be compensated, whose tool claimed success,
under a contract that names no tool to compensate with."""


@dataclass(frozen=True)
class Work:
    """What the start of an execution hands to the tool."""

    action_id: UUID
    key: str
    trace_id: str
    attempt: int
    lease_ends_at: datetime
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """What one verification run made of it, as the record has it."""

    state: str
    discrepancy: str
    row: str
    document: Mapping[str, Any]
    entry: Mapping[str, Any]

    @property
    def indicators(self) -> set[str]:
        """Those that fired, whether an answer came or not."""
        fired = [one for reading in self.document["readings"] for one in reading["indicators"]]
        return {*fired, *((self.document["failure"] or {}).get("indicators", ()))}

    @property
    def effect(self) -> dict[str, Any]:
        """The first effect as it was read."""
        found: dict[str, Any] = self.document["readings"][0]["effects"][0]
        return found

    def holds(self, text: str) -> str:
        """The result of one predicate."""
        (found,) = (one["holds"] for one in self.document["verdict"]["predicates"] if one["text"] == text)
        return str(found)


class Office:
    """A tenant with an agent, an executor, and one registered system."""

    def __init__(self, secrets: Path, slug: str = "acme") -> None:
        self.secrets, self.slug = secrets, slug
        self.versions = itertools.count(1)
        self.ahead = timedelta(0)
        at = self.now()
        self.tenant = registration.set_up_tenant(
            tenant_id=ledger.new_id(at), slug=slug, name=slug.title(), host="console.test", at=at
        ).id
        self.agent, self.executor = ledger.Actor("agent", uuid4()), ledger.Actor("executor", uuid4())
        raw = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        jwk = {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(raw).rstrip(b"=").decode()}
        self.thumbprint = dpop.thumbprint(jwk)
        self.jwk = jwk

    def now(self) -> datetime:
        """Our own clock, which a test may put forward; the peers keep theirs."""
        return datetime.now(UTC) + self.ahead

    # What an operator registers

    def register(self, errand: Errand) -> None:
        """The system with its credential, and the contract; a new version each time."""
        at, version = self.now(), f"1.0.{next(self.versions)}"
        document = errand.document(version)
        variables = predicates.typed_variables(document["arguments_schema"], document["verification"])
        contract = contracts.validate(
            document,
            compile_predicate=lambda text: predicates.predicate_fault(text, variables),
            check_verification=catalogue.check_for(errand.pattern).validate,
        )
        self.place(errand)
        with tenancy(self.tenant):
            registration.register_contract(tenant_id=self.tenant, contract=contract, actor=ledger.SYSTEM, at=at)
            if version == "1.0.1":
                self._people(at)

    def place(self, errand: Errand) -> None:
        """The system alone: where it is, and the credential for it."""
        folder = self.secrets / "systems" / self.slug
        folder.mkdir(parents=True, exist_ok=True)
        named = [f"{host}:{port}" if port else host for host, port in addresses._addresses(errand.settings)]
        (folder / "place.json").write_text(json.dumps(dict(errand.credential) | {"addresses": named}))
        with tenancy(self.tenant):
            registration.register_system(
                tenant_id=self.tenant,
                name="place",
                pattern=errand.pattern,
                settings=dict(errand.settings),
                actor=ledger.SYSTEM,
                at=self.now(),
            )

    def _people(self, at: datetime) -> None:
        entry = RegistryEntry(
            tenant=str(self.tenant),
            agent_id="clerk",
            version="1",
            tools=(TOOL,),
            output_tags=(),
            model_tier="",
            registered_by="tests",
            registered_at=at,
        )
        agents.register_agent(tenant_id=self.tenant, entry=entry, by=ledger.SYSTEM, at=at)
        executors.register_executor(
            tenant_id=self.tenant, executor_id="runner", public_jwk=self.jwk, tools=[TOOL], by=self.executor, at=at
        )

    # The path

    def propose(self, errand: Errand) -> UUID:
        """The agent's call in a session of its own; the gate must accept it."""
        at = self.now()
        with tenancy(self.tenant):
            wish = sessions.SessionRequest(agent_id="clerk", goal="Do the one thing that is wanted.", ttl_seconds=3600)
            session = sessions.open_session(tenant_id=self.tenant, wanted=wish, key_actor=self.agent.id, at=at)
            call = {"call_id": uuid4().hex, "tool": TOOL, "arguments": dict(errand.arguments)}
            answers, _ = calls.propose_calls(
                tenant_id=self.tenant,
                session_id=session.id,
                key_actor=self.agent.id,
                raw_calls=[call | {"pin_hash": session.pin_hash}],
                trace=calls.Trace(uuid4().hex, uuid4().hex[:16]),
                compile_predicate=lambda contract, text: None,
                at=at,
            )
        assert answers[0].document["accepted"], answers[0].document
        return UUID(answers[0].document["action_id"])

    def start(self, action_id: UUID) -> Work:
        """Claim and start; what the contract wants to know of the state before is read in between."""
        order = self._claimed(action_id)
        if order is None:
            assert readings.read_baseline(tenant_id=self.tenant, action_id=action_id, clock=lambda: self.now())
            order = self._claimed(action_id)
        assert order is not None
        with tenancy(self.tenant):
            request = executions.StartRequest(
                action_id=action_id,
                token=order.grant,
                executor_id="runner",
                thumbprint=self.thumbprint,
                wrapper_version="1",
                timeout_s=TIMEOUT_S,
                payload_hash=None,
            )
            started = executions.start_execution(
                tenant_id=self.tenant, request=request, by=self.executor, at=self.now()
            )
        assert isinstance(started, executions.StartedExecution), started
        return Work(
            action_id,
            started.idempotency_key or "",
            started.trace_id,
            started.attempt,
            started.lease_expires_at,
            orjson.loads(started.payload),
        )

    def _claimed(self, action_id: UUID) -> Any:
        with tenancy(self.tenant):
            found = ready_actions.claim_actions(
                tenant_id=self.tenant,
                executor_id="runner",
                tools=None,
                limit=10,
                by=self.executor,
                at=self.now(),
            )
        return next((order for order in found if order.action_id == action_id), None)

    def observe(self, work: Work, *, status: str = "success", error: Mapping[str, Any] | None = None) -> None:
        """What the tool answers."""
        at = self.now()
        with tenancy(self.tenant):
            action = actions.action(self.tenant, work.action_id)
            assert action is not None
            result = {"tool": TOOL, "status": status, "evidence": None, "error": dict(error) if error else None}
            observations.record_answer(
                tenant_id=self.tenant,
                action_id=work.action_id,
                contract=sessions_read.disclosed_contract(self.tenant, action.contract_digest),
                answer=observations.AttemptAnswer(
                    attempt=work.attempt,
                    lease_ends_at=work.lease_ends_at,
                    timeout_s=TIMEOUT_S,
                    document={"result": result},
                    raw=b"what the tool said",
                    source="executor",
                ),
                by=self.executor,
                at=at,
            )

    def verify(self, work: Work, *, later: timedelta = SETTLED) -> Ended:
        """One verification run, as the worker makes it, so long from now."""
        verification.verify_action(tenant_id=self.tenant, action_id=work.action_id, clock=lambda: self.now() + later)
        return self.ended(work)

    def ended(self, work: Work) -> Ended:
        """What the record has of the last run."""
        with tenancy(self.tenant):
            action = actions.action(self.tenant, work.action_id)
            run = after.runs_of(self.tenant, work.action_id)[-1]
            data = evidence.open_evidence(self.tenant, run.pointer)
            assert action is not None
            assert data is not None
            entry = events.entry(self.tenant, work.action_id, action.seq)
        return Ended(str(action.state), run.discrepancy, run.recovery_row, orjson.loads(data), entry or {})

    def begin(self, errand: Errand) -> Work:
        """Everything up to the start."""
        self.register(errand)
        return self.start(self.propose(errand))

    def carry_out(
        self,
        errand: Errand,
        effect: Callable[[Work], object],
        *,
        status: str = "success",
        error: Mapping[str, Any] | None = None,
        later: timedelta = SETTLED,
    ) -> Ended:
        """The whole path; `effect` is what the tool did to the peer."""
        work = self.begin(errand)
        effect(work)
        self.observe(work, status=status, error=error)
        return self.verify(work, later=later)


def fired(ended: Ended, indicator: str, *, instead: str | None = None, row: str | None = None) -> None:
    """The indicator is in the evidence, and its class has the row and the state that the tables name.

    `instead` names the class that decides where another finding of the same reading comes before it.
    """
    assert indicator in ended.indicators, ended.document["verdict"]
    expected = instead or str(INDICATORS[indicator])
    rows, state = STATES[expected]
    assert (ended.discrepancy, ended.state) == (expected, state), ended.document["verdict"]
    assert ended.row in ({row} if row else rows), ended.document["decision"]
    if instead is not None:
        assert str(INDICATORS[indicator]) in {instead, *ended.document["verdict"]["secondary"]}


def succeeded(ended: Ended) -> None:
    """Nothing fired, every predicate holds, and the action is done."""
    assert ended.indicators == set(), ended.document["verdict"]
    assert ended.state == "RECONCILED_SUCCESS", ended.document["verdict"]
    assert ended.discrepancy == ""
    assert {one["holds"] for one in ended.document["verdict"]["predicates"]} <= {"TRUE", "NOT_APPLICABLE"}


def not_asked(ended: Ended) -> set[str]:
    """The pattern's parameters that the contract did not ask about; each has a reason."""
    left_out = ended.document["readings"][0]["not_applicable"]
    assert all(left_out.values())
    return set(left_out)


def accounted(ended: Ended, *, actor: str, place: str) -> None:
    """The evidence answers an auditor's five questions; the peer itself says who it was."""
    told = ended.document["account"]
    assert set(told) == set(QUESTIONS)
    assert told["what"]["effects"]
    assert told["where"]["tenant"] == place
    assert told["where"]["sources"]
    assert "clerk" in told["by_whom"]["agent"]
    assert actor in told["by_whom"]["named_by_the_source"]
    assert told["under_which_authority"]["contract"].startswith(TOOL)
    assert told["how_proved"]["readings"]
    assert told["how_proved"]["predicates"]
    assert all(answer for _, answer in summary_lines(ended.document))
