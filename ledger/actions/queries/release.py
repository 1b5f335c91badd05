"""Everything on record that an action's release depends on, read once before a grant is minted and again when it is
redeemed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ledger.actions.queries.actions import open_duplicates_sql
from ledger.db import execute
from ledger.models import Action

_COLUMNS = [field.attname for field in Action._meta.concrete_fields]


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
    it is in force.
    """

    now: datetime
    action: Action
    policies: Mapping[str, ActivePolicy]
    frozen: bool
    unwinding: bool
    repeated: bool
    contract_digest: str | None
    key_hash: str | None
    decided: DecisionPosition | None

    @property
    def digests(self) -> dict[str, str]:
        """The digests of the policies in force, by kind."""
        return {kind: each.digest for kind, each in self.policies.items()}


_RELEASE = f"""
SELECT clock_timestamp(), {", ".join(f"a.{name}" for name in _COLUMNS)},
    (SELECT jsonb_object_agg(p.kind, jsonb_build_array(p.version, p.digest)) FROM ledger_policyversion p
        WHERE p.tenant_id = $1 AND p.active),
    EXISTS (SELECT FROM ledger_freeze f WHERE f.tenant_id = $1 AND f.lifted_at IS NULL
        AND (f.scope IN ('all', 'tenant') OR (f.scope = 'agent' AND f.value = a.agent)
            OR (f.scope = 'tool' AND f.value = a.tool) OR (f.scope = 'target' AND f.value = a.target))),
    a.relation = '' AND EXISTS (SELECT FROM ledger_unwinding u WHERE u.tenant_id = $1 AND u.run_id = a.run_id),
    a.mutating AND EXISTS (SELECT FROM ({open_duplicates_sql(key="a.operation_key", at="$3")}) r WHERE r.id <> a.id),
    (SELECT encode(sha256(c.document), 'hex') FROM ledger_contractversion c
        JOIN ledger_subject s ON s.tenant_id = c.tenant_id AND s.id = c.id AND s.state = 'REGISTERED'
        WHERE c.tenant_id = $1 AND c.name = a.tool AND c.version = a.tool_version),
    (SELECT i.key_hash FROM ledger_idempotency i WHERE i.tenant_id = $1 AND i.action_id = a.id),
    d.origin, d.index, d.signed_size, d.current
FROM ledger_action a LEFT JOIN LATERAL (
    SELECT g.origin, l.index, t.signed_size,
        NOT EXISTS (SELECT FROM ledger_log n WHERE n.tenant_id = $1 AND n.number > l.log) AS current
    FROM (SELECT e.seq FROM ledger_event e WHERE e.tenant_id = $1 AND e.subject_id = a.approval_id
            AND e.state = 'APPROVED' AND e.from_state <> 'APPROVED' OFFSET 0) e
    CROSS JOIN LATERAL (SELECT l.log, l.index FROM ledger_leaf l
            WHERE l.tenant_id = $1 AND l.subject_id = a.approval_id AND l.seq = e.seq OFFSET 0) l
    JOIN ledger_tip t ON t.tenant_id = $1 AND t.log = l.log
    JOIN ledger_log g ON g.tenant_id = $1 AND g.number = l.log
    WHERE l.index < t.signed_size
) d ON true
WHERE a.tenant_id = $1 AND a.id = $2
"""


def release_facts(tenant_id: UUID, action_id: UUID, *, at: datetime) -> ReleaseFacts | None:
    """What holds now about an action's release; None where there is no such action."""
    rows = execute(_RELEASE, tenant_id, action_id, at)
    if not rows:
        return None
    now, *columns = rows[0][: len(_COLUMNS) + 1]
    policies, frozen, unwinding, repeated, contract, key_hash, *place = rows[0][len(_COLUMNS) + 1 :]
    return ReleaseFacts(
        now=now,
        action=Action.from_db("default", _COLUMNS, columns),
        policies={kind: ActivePolicy(*each) for kind, each in (policies or {}).items()},
        frozen=frozen,
        unwinding=unwinding,
        repeated=repeated,
        contract_digest=contract,
        key_hash=key_hash,
        decided=DecisionPosition(*place) if place[0] is not None else None,
    )
