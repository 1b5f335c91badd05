"""Everything on record that an action's release depends on, read once before a grant is minted and again when it is
redeemed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from ledger.actions.queries.actions import open_duplicates_sql
from ledger.actions.queries.freezes import COVERS
from ledger.db import columns, take
from ledger.models import Action


class ActivePolicy(NamedTuple):
    """A version of a policy."""

    version: str
    digest: str


class DecisionPosition(NamedTuple):
    """Where the event stands that decided an approval, the signed size of that log, and whether it is written still."""

    origin: str
    index: int  # type: ignore[assignment]  # tuples have a method of this name that nobody calls
    size: int
    current: bool


class ReleaseFacts(NamedTuple):
    """An action and everything of the record that its release depends on, as one statement saw it.

    `now` is the clock of the database while it did; `contract_digest` is that of the stored document, if
    it is in force; `key` is the idempotency key that the mutation is sent with, `key_hash` its hash.
    """

    now: datetime
    action: Action
    policies: Mapping[str, ActivePolicy]
    frozen: bool
    unwinding: bool
    repeated: bool
    contract_digest: str | None
    key: str | None
    key_hash: str | None
    decided: DecisionPosition | None

    @property
    def digests(self) -> dict[str, str]:
        """The digests of the policies in force, by kind."""
        return {kind: each.digest for kind, each in self.policies.items()}


def release_statement(beside: LiteralString, joined: LiteralString) -> LiteralString:
    """The statement of which `read_release` takes a row: of a tenant ($1) and an action ($2) at a moment ($3).

    With them come the columns `beside`, of tables that are `joined` to the action's row (a).
    """
    return f"""
SELECT {columns(Action, "a")}, clock_timestamp(),
    (SELECT jsonb_object_agg(p.kind, jsonb_build_array(p.version, p.digest)) FROM ledger_policyversion p
        WHERE p.tenant_id = $1 AND p.active),
    EXISTS (SELECT FROM ledger_freeze f WHERE f.tenant_id = $1 AND f.lifted_at IS NULL AND {COVERS}),
    a.relation = '' AND EXISTS (SELECT FROM ledger_unwinding u WHERE u.tenant_id = $1 AND u.run_id = a.run_id),
    a.mutating AND EXISTS (SELECT FROM ({open_duplicates_sql(key="a.operation_key", at="$3")}) r WHERE r.id <> a.id),
    (SELECT encode(sha256(c.document), 'hex') FROM ledger_contractversion c
        JOIN ledger_subject s ON s.tenant_id = c.tenant_id AND s.id = c.id AND s.state = 'REGISTERED'
        WHERE c.tenant_id = $1 AND c.name = a.tool AND c.version = a.tool_version),
    i.key, i.key_hash, d.origin, d.index, d.signed_size, d.current, {beside}
FROM ledger_action a LEFT JOIN ledger_idempotency i ON i.tenant_id = $1 AND i.action_id = a.id
LEFT JOIN LATERAL (
    SELECT g.origin, l.index, t.signed_size,
        NOT EXISTS (SELECT FROM ledger_log n WHERE n.tenant_id = $1 AND n.number > l.log) AS current
    FROM (SELECT e.seq FROM ledger_event e WHERE e.tenant_id = $1 AND e.subject_id = a.approval_id
            AND e.state = 'APPROVED' AND e.from_state <> 'APPROVED' OFFSET 0) e
    CROSS JOIN LATERAL (SELECT l.log, l.index FROM ledger_leaf l
            WHERE l.tenant_id = $1 AND l.subject_id = a.approval_id AND l.seq = e.seq OFFSET 0) l
    JOIN ledger_tip t ON t.tenant_id = $1 AND t.log = l.log
    JOIN ledger_log g ON g.tenant_id = $1 AND g.number = l.log
    WHERE l.index < t.signed_size
) d ON true {joined}
WHERE a.tenant_id = $1 AND a.id = $2
"""


def read_release(row: tuple[Any, ...]) -> tuple[ReleaseFacts, tuple[Any, ...]]:
    """What holds now about an action's release, and the columns that were asked for beside."""
    [action], rest = take(row, Action)
    now, policies, frozen, unwinding, repeated, contract, key, key_hash, *place = rest[:12]
    facts = ReleaseFacts(
        now=now,
        action=action,
        policies={kind: ActivePolicy(*each) for kind, each in (policies or {}).items()},
        frozen=frozen,
        unwinding=unwinding,
        repeated=repeated,
        contract_digest=contract,
        key=key,
        key_hash=key_hash,
        decided=DecisionPosition(*place) if place[0] is not None else None,
    )
    return facts, rest[12:]
