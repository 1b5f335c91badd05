"""Actions that wait for their verification, and the shop that they are read back from.

Each was proposed through the gate, started and observed through the product's own operations; only the executor is
missing, whose grant would be another benchmark's business.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
from django.utils import timezone

from benchmarks import registered
from benchmarks.stand import Stand
from console import servers

ADDRESS = "verify"
GOAL = "Refund what is owed."
READER, WRITER = "shop_reader", "shop_writer"
AMOUNT = 1250


@dataclass(frozen=True, kw_only=True)
class Refund:
    """An action in PENDING, and what its refund in the shop would be known by."""

    action_id: UUID
    order_id: str
    key: str
    trace_id: str


def open_shop(stand: Stand, slug: str) -> psycopg.Connection:
    """The example's shop in this benchmark's database, what the verifier knows of it, and a clerk's connection."""
    from example import shop

    def url(role: str) -> str:
        return servers.postgres_url(role=role, password=role, port=stand.postgres.port, database=ADDRESS)

    admin = stand.postgres.url(servers.SUPERUSER, ADDRESS)
    shop.set_up(admin_url=admin, writer_url=url(WRITER), reader_url=url(READER))
    folder = stand.secrets / "systems" / slug
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "shop.json").write_text(json.dumps({"url": url(READER)}))
    return psycopg.connect(url(WRITER), autocommit=True)


def open_session(tenant: UUID) -> Any:
    """Register the refund tool and its agent, and open a session."""
    from approvals.operations import agents, sessions
    from approvals.rules import registry
    from ledger import operations as ledger
    from ledger.rules import contract as contracts
    from ledger.tenancy import tenancy

    at = timezone.now()
    entry = registry.Entry(
        tenant=str(tenant),
        agent_id=registered.AGENT,
        version="1",
        registered_by="benchmarks",
        tools=("refund_small_amount",),
        output_tags=(),
        model_tier="",
        registered_at=at,
    )
    wish = sessions.Wish(agent_id=registered.AGENT, goal=GOAL, ttl_seconds=3600)
    with tenancy(tenant):
        contract = contracts.validate(_document(), compile_predicate=lambda _: None)
        ledger.register_contract(tenant_id=tenant, contract=contract, actor=ledger.SYSTEM, at=at)
        ledger.register_system(
            tenant_id=tenant, name="shop", pattern="databases", settings={}, actor=ledger.SYSTEM, at=at
        )
        agents.register(tenant_id=tenant, entry=entry, by=ledger.SYSTEM, at=at)
        return sessions.open_session(tenant_id=tenant, wish=wish, key_actor=ledger.SYSTEM.id, at=at)


def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((registered.CONTRACTS / "refund_small_amount.json").read_text())
    # What is not there yet may come for a day: such a reading brings no verdict.
    document["verification"]["settle_s"] = 86_400
    document["verification"]["polling"]["sla_s"] = 172_800
    return document


def pending(session: Any) -> Refund:
    """A new action that was started and whose tool said success."""
    from ledger.tenancy import tenancy

    order_id = f"EX-{uuid4().hex[:12].upper()}"
    with tenancy(session.tenant_id):
        action_id = _proposed(session, order_id)
        key, trace_id = _started(session.tenant_id, action_id)
        _observed(session.tenant_id, action_id)
    return Refund(action_id=action_id, order_id=order_id, key=key, trace_id=trace_id)


def _proposed(session: Any, order_id: str) -> UUID:
    from approvals.operations import calls

    call = {
        "call_id": order_id,
        "tool": "refund_small_amount",
        "arguments": {"order_id": order_id, "amount": AMOUNT, "currency": "EUR", "reason": "damaged"},
        "pin_hash": session.pin_hash,
    }
    answers, _ = calls.propose(
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


def _started(tenant: UUID, action_id: UUID) -> tuple[str, str]:
    from ledger import operations as ledger
    from ledger import queries
    from ledger.rules.envelope import instant
    from ledger.rules.lifecycle import Ground

    at = timezone.now()
    action = queries.action(tenant, action_id)
    assert action is not None
    kept = ledger.reserve_idempotency(tenant_id=tenant, action_id=action_id, request_hash=action.payload_hash, at=at)
    happening = ledger.Happening(
        kind="execution_started",
        to="EXECUTING",
        grounds=frozenset({Ground.RELEASED}),
        changes={
            "execution": {"status": "EXECUTING", "attempt_count": 1},
            "timestamps": {"executed_at": instant(at)},
            "idempotency": {"key_hash": kept.key_hash, "status": "PENDING"},
        },
    )
    head = ledger.lock(tenant_id=tenant, subject_id=action_id, kind="action")
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    return kept.key, action.trace_id


def _observed(tenant: UUID, action_id: UUID) -> None:
    from approvals.queries import disclosed_contract
    from ledger import operations as ledger
    from ledger import queries
    from reviews.operations import observations

    at = timezone.now()
    action = queries.action(tenant, action_id)
    assert action is not None
    contract = disclosed_contract(tenant, action.contract_digest)
    observations.observe(
        tenant_id=tenant,
        action_id=action_id,
        contract=contract,
        answer=observations.Answer(
            attempt=1,
            timeout_s=30,
            lease_ends_at=at + timedelta(seconds=30),
            document={"result": {"tool": contract.name, "status": "success", "evidence": "refund/1"}},
            raw=None,
            source="executor",
        ),
        by=ledger.SYSTEM,
        at=at,
    )


def place_orders(shop: psycopg.Connection, refunds: Iterable[Refund]) -> None:
    """The orders that the refunds are about."""
    shop.cursor().executemany(
        "INSERT INTO shop.orders (id, tenant, customer, amount, currency, updated_by)"
        " VALUES (%s, 'bench', 'ada@example.com', 4900, 'EUR', 'webshop')",
        [(each.order_id,) for each in refunds],
    )


def refund(shop: psycopg.Connection, refunds: Iterable[Refund]) -> None:
    """What the executor would have written: the refund and its line in the audit trail."""
    refunds = list(refunds)
    shop.cursor().executemany(
        "INSERT INTO shop.refunds (order_id, tenant, amount, currency, status, idempotency_key, actor, trace_id)"
        " VALUES (%s, 'bench', %s, 'EUR', 'succeeded', %s, 'executor', %s)",
        [(each.order_id, AMOUNT, each.key, each.trace_id) for each in refunds],
    )
    shop.cursor().executemany(
        "INSERT INTO shop.audit (order_id, operation, actor, idempotency_key, trace_id)"
        " VALUES (%s, 'refund', 'executor', %s, %s)",
        [(each.order_id, each.key, each.trace_id) for each in refunds],
    )
