"""Reads everything that an action's release depends on, before a grant is minted and again when it is redeemed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from ledger.actions.queries.actions import open_duplicates_sql
from ledger.actions.queries.freezes import COVERS
from ledger.catalogue.queries import POLICIES_IN_FORCE
from ledger.db import columns, execute, load_models
from ledger.log.epochs import EPOCH_COLUMNS, EPOCH_TABLE
from ledger.log.rules.epoch import EpochRow, signed_epoch
from ledger.models import Action


class ActivePolicy(NamedTuple):
    """A version of a policy."""

    version: str
    digest: str


class DecisionPosition(NamedTuple):
    """The log position of the event that decided an approval, the log's signed size, and whether the log is current."""

    origin: str
    index: int  # type: ignore[assignment]  # tuples have a method of this name that nobody calls
    size: int
    current: bool


class RecordStanding(NamedTuple):
    """The state of a tenant's record: origin and the epoch under which it is good, the last restore, the newest signed
    checkpoint, the reason if the log is stopped, and the epoch of the installation as it was signed.
    """

    origin: str
    epoch: int | None
    restored_at: datetime | None
    note: bytes | None
    stopped: str
    signed_epoch: EpochRow | None


_STANDING_COLUMNS: LiteralString = "o.origin, o.epoch, o.restored_at, c.note, coalesce(c.stopped, ''), " + EPOCH_COLUMNS
_STANDING_TABLES: LiteralString = (
    """ledger_tenant o ON o.id = $1
LEFT JOIN LATERAL (SELECT note, stopped FROM ledger_tip WHERE tenant_id = $1 ORDER BY log DESC LIMIT 1) c ON true
LEFT JOIN """
    + f"{EPOCH_TABLE} ON true"
)


def record_standing(tenant_id: UUID) -> RecordStanding:
    """The state of a tenant's record."""
    [row] = execute(f"SELECT {_STANDING_COLUMNS} FROM (SELECT) one JOIN {_STANDING_TABLES}", tenant_id)
    return _standing(*row)


_STANDING_WIDTH = 8


def _standing(
    origin: str, epoch: int | None, restored_at: datetime | None, note: Any, stopped: str, *signed: Any
) -> RecordStanding:
    note = bytes(note) if note is not None else None
    return RecordStanding(origin, epoch, restored_at, note, stopped, signed_epoch(*signed))


class ReleaseFacts(NamedTuple):
    """An action and every fact on record that its release depends on, read by one statement.

    `now` is the database's clock at that moment; `contract_digest` is that of the stored document if it is in force;
    `key` is the idempotency key that the mutation is sent with, `key_hash` its hash.
    """

    now: datetime
    action: Action
    policies: Mapping[str, ActivePolicy]
    maintenance: bool
    frozen: bool
    unwinding: bool
    repeated: bool
    contract_digest: str | None
    key: str | None
    key_hash: str | None
    decided: DecisionPosition | None
    standing: RecordStanding

    @property
    def digests(self) -> dict[str, str]:
        """The digests of the policies in force, by kind."""
        return {kind: each.digest for kind, each in self.policies.items()}


def release_statement(
    extra_columns: LiteralString, joins: LiteralString, *, action: LiteralString = "$2"
) -> LiteralString:
    """The query for `read_release` of an `action`: the parameters are the tenant ($1) and the time ($3).

    `extra_columns` are selected as well, from tables that `joins` joins to the action's row (a).
    """
    return f"""
SELECT {columns(Action, "a")}, clock_timestamp(),
    {POLICIES_IN_FORCE},
    EXISTS (SELECT FROM ledger_maintenance n WHERE n.ended_at IS NULL),
    EXISTS (SELECT FROM ledger_freeze f WHERE f.tenant_id = $1 AND f.lifted_at IS NULL AND {COVERS}),
    a.relation = '' AND EXISTS (SELECT FROM ledger_unwinding u WHERE u.tenant_id = $1 AND u.run_id = a.run_id),
    a.mutating AND EXISTS (SELECT FROM ({open_duplicates_sql(key="a.operation_key", at="$3")}) r WHERE r.id <> a.id),
    (SELECT encode(sha256(c.document), 'hex') FROM ledger_contractversion c
        JOIN ledger_subject s ON s.tenant_id = c.tenant_id AND s.id = c.id AND s.state = 'REGISTERED'
        WHERE c.tenant_id = $1 AND c.name = a.tool AND c.version = a.tool_version),
    i.key, i.key_hash, d.origin, d.index, d.signed_size, d.current,
    {_STANDING_COLUMNS}, {extra_columns}
FROM ledger_action a JOIN {_STANDING_TABLES} LEFT JOIN ledger_idempotency i ON i.tenant_id = $1 AND i.action_id = a.id
LEFT JOIN LATERAL (
    SELECT g.origin, l.index, t.signed_size, n.current
    FROM (SELECT e.seq FROM ledger_event e WHERE e.tenant_id = $1 AND e.subject_id = a.approval_id
            AND e.state = 'APPROVED' AND e.from_state <> 'APPROVED' OFFSET 0) e
    CROSS JOIN LATERAL (SELECT l.log, l.index FROM ledger_leaf l
            WHERE l.tenant_id = $1 AND l.subject_id = a.approval_id AND l.seq = e.seq OFFSET 0) l
    JOIN ledger_tip t ON t.tenant_id = $1 AND t.log = l.log
    JOIN ledger_log g ON g.tenant_id = $1 AND g.number = l.log
    CROSS JOIN LATERAL (SELECT NOT EXISTS (SELECT FROM ledger_log n WHERE n.tenant_id = $1 AND n.number > l.log)
            AS current) n
    -- A decision in a log that a restore closed is asked for again, signed or not.
    WHERE l.index < t.signed_size OR NOT n.current
) d ON true {joins}
WHERE a.tenant_id = $1 AND a.id = {action}
"""


def read_release(row: tuple[Any, ...]) -> tuple[ReleaseFacts, tuple[Any, ...]]:
    """Read a row of `release_statement`: the facts, and the extra columns."""
    [action], rest = load_models(row, Action)
    now, policies, maintenance, frozen, unwinding, repeated, contract, key, key_hash, *place = rest[:13]
    facts = ReleaseFacts(
        now=now,
        action=action,
        policies={kind: ActivePolicy(*each) for kind, each in (policies or {}).items()},
        maintenance=maintenance,
        frozen=frozen,
        unwinding=unwinding,
        repeated=repeated,
        contract_digest=contract,
        key=key,
        key_hash=key_hash,
        decided=DecisionPosition(*place) if place[0] is not None else None,
        standing=_standing(*rest[13 : 13 + _STANDING_WIDTH]),
    )
    return facts, rest[13 + _STANDING_WIDTH :]
