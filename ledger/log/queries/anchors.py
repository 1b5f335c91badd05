"""Cosignatures and time stamps of a log's checkpoints, verified before they were stored.

A log counts as anchored up to the newest checkpoint that a quorum of the configured witnesses cosigned. What nobody
outside holds yet is said to be so; nothing here turns green because nothing went wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from counterfoil_tlog.witness_policy import WitnessPolicy, is_satisfied
from ledger.db import execute
from ledger.log.queries import log as queries

WITNESS, STAMP = "witness", "tsa"
AUTHORITY = "tsa"
"""The name under which the time-stamp authority stands: there is one."""
_PAGE = 200


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A signed checkpoint that is kept for good."""

    size: int
    note: bytes
    signed_at: datetime


@dataclass(frozen=True, slots=True)
class AnchorProvider:
    """A witness or time-stamping authority: its newest checkpoint, and its present fault, if any."""

    name: str
    size: int | None
    at: datetime | None
    fault: str | None
    failing_since: datetime | None


@dataclass(frozen=True, slots=True)
class LogAnchoring:
    """The outside evidence for one log."""

    log: int
    origin: str
    size: int
    signed_size: int
    witnesses: tuple[AnchorProvider, ...]
    anchored_size: int | None
    anchored_at: datetime | None
    authority: AnchorProvider | None

    @property
    def is_asked(self) -> bool:
        """Return whether any witness or authority is configured."""
        return bool(self.witnesses) or self.authority is not None

    @property
    def failing(self) -> tuple[AnchorProvider, ...]:
        """The providers that did not attest the log when last asked."""
        asked = (*self.witnesses, *([self.authority] if self.authority else []))
        return tuple(each for each in asked if each.fault is not None)

    @property
    def by(self) -> tuple[str, ...]:
        """The witnesses who cosigned at least the size that counts as anchored."""
        least = self.anchored_size
        return tuple(each.name for each in self.witnesses if least and each.size is not None and each.size >= least)

    @property
    def tail(self) -> int:
        """The number of entries that no quorum of witnesses holds yet."""
        return self.size - (self.anchored_size or 0)

    def age(self, at: datetime) -> timedelta | None:
        """The time since the newest quorum; None if there was none."""
        return None if self.anchored_at is None else at - self.anchored_at


def asked_outsiders() -> set[tuple[str, str]]:
    """(kind, name) of everybody who is configured to vouch for the logs of this installation."""
    policy: WitnessPolicy | None = settings.COUNTERFOIL_WITNESSES
    asked = {(WITNESS, each.name) for each in policy.witnesses} if policy else set()
    return asked | ({(STAMP, AUTHORITY)} if settings.COUNTERFOIL_TSA_URL else set())


def tenant_anchoring(tenant_id: UUID) -> list[LogAnchoring]:
    """Every log of a tenant, newest first, and its anchoring."""
    return [log_anchoring(tenant_id, log) for log in queries.logs(tenant_id)]


def log_anchoring(tenant_id: UUID, log: queries.LogHead) -> LogAnchoring:
    """The outside evidence for one log."""
    policy: WitnessPolicy | None = settings.COUNTERFOIL_WITNESSES
    found = quorum_anchor(tenant_id, log.number, policy) if policy else None
    names = [each.name for each in policy.witnesses] if policy else []
    stamps = _outsiders(tenant_id, log.number, STAMP, [AUTHORITY] if settings.COUNTERFOIL_TSA_URL else [])
    return LogAnchoring(
        log=log.number,
        origin=log.origin,
        size=log.size,
        signed_size=log.signed_size,
        witnesses=_outsiders(tenant_id, log.number, WITNESS, names),
        anchored_size=found[0] if found else None,
        anchored_at=found[1] if found else None,
        authority=stamps[0] if stamps else None,
    )


def newest_checkpoint(tenant_id: UUID, log: int) -> KeptCheckpoint | None:
    """The newest checkpoint of a log that is kept for good."""
    rows = execute(
        "SELECT size, note, signed_at FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2"
        " ORDER BY size DESC LIMIT 1",
        *(tenant_id, log),
    )
    return KeptCheckpoint(rows[0][0], bytes(rows[0][1]), rows[0][2]) if rows else None


def newest_anchors(tenant_id: UUID, log: int, kind: str) -> dict[str, tuple[int, datetime]]:
    """The newest size that each outsider of a kind vouched for, and when, by name."""
    rows = execute(
        "SELECT DISTINCT ON (name) name, size, at FROM ledger_anchor WHERE tenant_id = $1 AND log = $2 AND kind = $3"
        " ORDER BY name, size DESC",
        *(tenant_id, log, kind),
    )
    return {name: (size, at) for name, size, at in rows}


def quorum_anchor(tenant_id: UUID, log: int, policy: WitnessPolicy) -> tuple[int, datetime] | None:
    """The newest size at which a quorum cosigned one and the same checkpoint, and when it was complete."""
    for size, names, at in _cosigned_sizes(tenant_id, log):
        if is_satisfied(policy, names):
            return size, at
    return None


def has_news(tenant_id: UUID, log: int, *, since: int, size: int) -> bool:
    """Return whether anything between two sizes is more than the log's own notes of anchoring."""
    rows = execute(
        "SELECT EXISTS (SELECT 1 FROM ledger_leaf l JOIN ledger_event e ON e.tenant_id = l.tenant_id"
        " AND e.subject_id = l.subject_id AND e.seq = l.seq WHERE l.tenant_id = $1 AND l.log = $2"
        " AND l.index >= $3 AND l.index < $4 AND e.kind <> 'checkpoint_anchored')",
        *(tenant_id, log, since, size),
    )
    return bool(rows[0][0])


def anchor_faults(tenant_id: UUID, log: int, kind: str) -> dict[str, Any]:
    """Return the faults of external attesters of a kind when they were last asked: name to {since, text}."""
    rows = execute(
        "SELECT faults FROM ledger_anchoring WHERE tenant_id = $1 AND log = $2 AND kind = $3", *(tenant_id, log, kind)
    )
    return dict(rows[0][0]) if rows else {}


def is_due(tenant_id: UUID, log: int, kind: str, *, at: datetime) -> bool:
    """Return True if external attesters of a kind are due to be asked."""
    rows = execute(
        "SELECT due_at <= $4 FROM ledger_anchoring WHERE tenant_id = $1 AND log = $2 AND kind = $3",
        *(tenant_id, log, kind, at),
    )
    return not rows or bool(rows[0][0])


def _outsiders(tenant_id: UUID, log: int, kind: str, names: list[str]) -> tuple[AnchorProvider, ...]:
    if not names:
        return ()
    newest, wrong = newest_anchors(tenant_id, log, kind), anchor_faults(tenant_id, log, kind)
    return tuple(_outsider(name, newest.get(name), wrong.get(name)) for name in names)


def _outsider(name: str, newest: tuple[int, datetime] | None, fault: Mapping[str, str] | None) -> AnchorProvider:
    size, at = newest or (None, None)
    text = fault["text"] if fault else None
    return AnchorProvider(name, size, at, text, datetime.fromisoformat(fault["since"]) if fault else None)


def _cosigned_sizes(tenant_id: UUID, log: int) -> Iterator[tuple[int, list[str], datetime]]:
    """Return each size that a witness cosigned, the newest first, with all who did."""
    below = 2**63 - 1
    while True:
        rows = execute(
            "SELECT size, array_agg(name), max(at) FROM ledger_anchor WHERE tenant_id = $1 AND log = $2"
            " AND kind = 'witness' AND size < $3 GROUP BY size ORDER BY size DESC LIMIT $4",
            *(tenant_id, log, below, _PAGE),
        )
        yield from rows
        if len(rows) < _PAGE:
            return
        below = rows[-1][0]
