"""Actions that wait for their verification, and the folder that they are read back from.

Each was proposed through the gate, started and observed through the product's own operations; only the executor is
missing, whose grant would be another benchmark's business. A folder is the fastest system that there is: what is
measured is then the product. A second system accepts connections and never says a word.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.utils import timezone

from benchmarks.stand import AGENT, CONTRACTS, Stand

GOAL = "Write down what is owed."
TEXT = "Paid."
TOOL, SILENT_TOOL = "write_document", "write_elsewhere"
FAST, SILENT = "documents", "archive"
# Nothing is held back: what is measured is what the engine can do, not what a system allows.
UNLIMITED = {"concurrency": 16, "reads_per_minute": 600_000, "failures": 1000}


@dataclass(frozen=True, kw_only=True)
class Written:
    """An action in PENDING, and the file that would confirm it."""

    action_id: UUID
    file: Path

    def do(self) -> None:
        """Return the result that the executor would have reported."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(TEXT)


@dataclass(frozen=True, kw_only=True)
class Office:
    """A tenant whose agent writes documents."""

    tenant: UUID
    session: Any
    root: Path

    def pending(self, tool: str = TOOL) -> Written:
        """A new action that was started and whose tool said success."""
        from ledger.db import tenancy

        path = f"notes/{uuid4().hex}.md"
        with tenancy(self.tenant):
            action_id = _proposed(self.session, tool, path)
            _started(self.tenant, action_id)
            _observed(self.tenant, action_id)
        return Written(action_id=action_id, file=self.root / path)


def open_office(stand: Stand, tenant: dict[str, Any], *, silent_port: int, polling: dict[str, Any]) -> Office:
    """Register both systems, a tool for each, and the agent that uses them; open its session."""
    from approvals.agents.operations import agents
    from approvals.agents.rules import registry
    from approvals.sessions.operations import sessions
    from ledger.db import tenancy
    from ledger.record import operations as ledger

    at, tenant_id, root = timezone.now(), UUID(tenant["id"]), stand.folder / f"documents-{uuid4().hex[:8]}"
    root.mkdir()
    folder = stand.secrets / "systems" / tenant["slug"]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / f"{FAST}.json").write_text("{}")
    (folder / f"{SILENT}.json").write_text(json.dumps({"url": f"postgresql://nobody@127.0.0.1:{silent_port}/none"}))
    entry = registry.RegistryEntry(
        tenant=str(tenant_id),
        agent_id=AGENT,
        version="1",
        registered_by="benchmarks",
        tools=(TOOL, SILENT_TOOL),
        output_tags=(),
        model_tier="",
        registered_at=at,
    )
    wish = sessions.SessionRequest(agent_id=AGENT, goal=GOAL, ttl_seconds=3600)
    with tenancy(tenant_id):
        _register_systems(tenant_id, root)
        for document in _contracts(polling):
            _register_contract(tenant_id, document)
        agents.register_agent(tenant_id=tenant_id, entry=entry, by=ledger.SYSTEM, at=at)
        session = sessions.open_session(tenant_id=tenant_id, wanted=wish, key_actor=ledger.SYSTEM.id, at=at)
    return Office(tenant=tenant_id, session=session, root=root)


def _register_systems(tenant_id: UUID, root: Path) -> None:
    from ledger.catalogue.operations import registration
    from ledger.record import operations as ledger
    from reviews.readback.operations import work_queue
    from reviews.readback.rules.limits import SystemLimits

    for name, pattern, settings in (
        (FAST, "filesystems", {"root": str(root), "limits": UNLIMITED}),
        (SILENT, "databases", {"limits": UNLIMITED}),
    ):
        row = registration.register_system(
            tenant_id=tenant_id,
            name=name,
            pattern=pattern,
            settings=settings,
            actor=ledger.SYSTEM,
            at=timezone.now(),
        )
        work_queue.set_lane_limits(tenant_id=tenant_id, system_id=row.id, limits=SystemLimits(**UNLIMITED))


def _contracts(polling: dict[str, Any]) -> list[dict[str, Any]]:
    document: dict[str, Any] = json.loads((CONTRACTS / f"{TOOL}.json").read_text())
    # What is not there yet may come for a day: such a reading brings no verdict.
    document["verification"] |= {"settle_s": 86_400, "polling": polling}
    lookup = {"effects": {"file": {"table": "notes", "where": {"path": "sr.path"}, "fields": ["path"]}}}
    silent = {
        "pattern": "databases",
        "system": SILENT,
        "lookup": lookup,
        "predicates": ["sa.exists"],
        "settle_s": 86_400,
        "polling": polling,
    }
    return [document, document | {"name": SILENT_TOOL, "verification": silent}]


def _register_contract(tenant_id: UUID, document: dict[str, Any]) -> None:
    from ledger.catalogue.operations import registration
    from ledger.catalogue.rules import contract as contracts
    from ledger.record import operations as ledger

    contract = contracts.validate(document, compile_predicate=lambda _: None)
    registration.register_contract(tenant_id=tenant_id, contract=contract, actor=ledger.SYSTEM, at=timezone.now())


def _proposed(session: Any, tool: str, path: str) -> UUID:
    from approvals.gate.operations import calls

    call = {
        "call_id": path,
        "tool": tool,
        "arguments": {"path": path, "text": TEXT, "sha256": sha256(TEXT.encode()).hexdigest()},
        "pin_hash": session.pin_hash,
    }
    answers, _ = calls.propose_calls(
        tenant_id=session.tenant_id,
        session_id=session.id,
        key_actor=session.key_actor,
        raw_calls=[call],
        trace=calls.Trace(uuid4().hex),
        compile_predicate=lambda _contract, _text: None,
        at=timezone.now(),
    )
    assert answers[0].action_id is not None, answers
    return answers[0].action_id


def _started(tenant: UUID, action_id: UUID) -> None:
    from ledger.actions.queries import actions
    from ledger.db import insert
    from ledger.record import operations as ledger
    from ledger.record.rules.envelope import instant
    from ledger.record.rules.lifecycle import Ground

    at = timezone.now()
    action = actions.action(tenant, action_id)
    assert action is not None
    kept = ledger.make_idempotency(tenant_id=tenant, action_id=action_id, request_hash=action.payload_hash)
    insert(kept)
    happening = ledger.NewEvent(
        kind="execution_started",
        to="EXECUTING",
        grounds=frozenset({Ground.RELEASED}),
        changes={
            "execution": {"status": "EXECUTING", "attempt_count": 1},
            "timestamps": {"executed_at": instant(at)},
            "idempotency": {"key_hash": kept.key_hash, "status": "PENDING"},
        },
    )
    head = ledger.lock_subject(tenant_id=tenant, subject_id=action_id, kind="action")
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)


def _observed(tenant: UUID, action_id: UUID) -> None:
    from approvals.sessions.queries import disclosed_contract
    from ledger.actions.queries import actions
    from ledger.record import operations as ledger
    from reviews.observations.operations import observations

    at = timezone.now()
    action = actions.action(tenant, action_id)
    assert action is not None
    contract = disclosed_contract(tenant, action.contract_digest)
    observations.record_answer(
        tenant_id=tenant,
        action_id=action_id,
        contract=contract,
        answer=observations.AttemptAnswer(
            attempt=1,
            timeout_s=30,
            lease_ends_at=at + timedelta(seconds=30),
            document={"result": {"tool": contract.name, "status": "success", "evidence": "written"}},
            raw=None,
            source="executor",
        ),
        by=ledger.SYSTEM,
        at=at,
    )
