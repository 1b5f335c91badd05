"""Replay: reads the stored runs of actions and judges them again.

Reads only, inside `tenancy`. Who asks for somebody records the look first, as for any other evidence.

`replay_actions(tenant_id, ids)` judges by the policies of each run's time; `under={"recovery": version}` by another
version or a draft (`StoredPolicy`); `contract=` by another contract. `actions_with_runs` pages through a period.
The answer is `reviews.replay.rules.replay.ActionReplay`: run by run what was recorded, what came out, what differs, or
why a run cannot be judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.policies import DecidingPolicy
from ledger.db import execute, select
from ledger.record.queries import events, evidence
from ledger.record.rules.encryption import CannotOpen, EvidenceErased
from ledger.record.rules.ids import lower_bound
from ledger.record.rules.refusals import NotFound
from reviews.models import VerificationRun
from reviews.replay.rules import bundles
from reviews.replay.rules.replay import JUDGING, ActionReplay, StoredRun, replay_run

AT_ONCE = 200
"""Actions that are read and judged together."""


def named_policies(tenant_id: UUID, versions: Mapping[str, str]) -> dict[str, DecidingPolicy]:
    """Return the named versions of verification and recovery policy, by kind; an empty name is none."""
    found: dict[str, DecidingPolicy] = {}
    for kind, version in versions.items():
        if kind not in JUDGING:
            raise NotFound(detail=f"A run is judged by a {' or a '.join(JUDGING)} policy, not by one of {kind:.40}.")
        if version:
            row = catalogue_queries.policy_version(tenant_id, kind, version)
            if row is None:
                raise NotFound(detail=f"There is no version {version:.64} of the {kind} policy.")
            found[kind] = row
    return found


def actions_with_runs(
    tenant_id: UUID,
    *,
    since: datetime,
    until: datetime,
    after: UUID | None = None,
    limit: int = AT_ONCE,
    newest: bool = False,
    tool: str = "",
) -> list[UUID]:
    """Return actions proposed in a period that have been verified at least once, oldest first; after the action
    `after`.

    `newest`: the newest first. `tool`: those of one tool.
    """
    rows = execute(
        "SELECT a.id FROM ledger_action a WHERE a.tenant_id = $1 AND a.id >= $2 AND a.id < $3 AND a.id > $4"
        " AND ($6 = '' OR a.tool = $6)"
        " AND EXISTS (SELECT FROM reviews_run r WHERE r.tenant_id = a.tenant_id AND r.action_id = a.id)"
        f" ORDER BY a.id {'DESC' if newest else 'ASC'} LIMIT $5",
        *(tenant_id, lower_bound(since), lower_bound(until), after or UUID(int=0), limit, tool),
    )
    return [row[0] for row in rows]


def replay_period(
    tenant_id: UUID,
    *,
    since: datetime,
    until: datetime,
    under: Mapping[str, DecidingPolicy] | None = None,
    contract: Contract | None = None,
) -> Iterator[ActionReplay]:
    """Judge again every action of a period that has runs, oldest first; with a `contract` those of its tool."""
    after: UUID | None = None
    tool = contract.name if contract is not None else ""
    while ids := actions_with_runs(tenant_id, since=since, until=until, after=after, tool=tool):
        yield from replay_actions(tenant_id, ids, under=under, contract=contract)
        after = ids[-1]


def replay_actions(
    tenant_id: UUID,
    action_ids: Sequence[UUID],
    *,
    under: Mapping[str, DecidingPolicy] | None = None,
    contract: Contract | None = None,
) -> list[ActionReplay]:
    """Judge again the runs of these actions, in the given order; an action without runs has none to judge.

    A `contract` replaces the one of its own tool only.
    """
    stored = stored_runs(tenant_id, action_ids)
    return [
        ActionReplay(
            action_id=str(action_id),
            runs=tuple(
                replay_run(run, under=under, contract=contract if _is_of(run, contract) else None)
                for run in stored[action_id]
            ),
        )
        for action_id in action_ids
    ]


def _is_of(run: StoredRun, contract: Contract | None) -> bool:
    return contract is not None and run.contract is not None and run.contract.name == contract.name


def bundle_documents(tenant_id: UUID, named: Mapping[str, set[str]]) -> dict[str, Any]:
    """The documents that runs name (`bundles.named_documents`), as a bundle holds them."""
    rows = [catalogue_queries.contract_by_digest(tenant_id, digest) for digest in sorted(named["contract"])]
    policies = [
        catalogue_queries.policy_by_digest(tenant_id, kind, digest)
        for kind in JUDGING
        for digest in sorted(named[kind])
    ]
    return bundles.write_documents(
        named,
        contracts=[bytes(row.document) for row in rows if row is not None],
        policies=[row for row in policies if row is not None],
    )


def replay_bundle(tenant_id: UUID, action_id: UUID) -> dict[str, Any]:
    """Everything that a replay of an action needs, in one document."""
    runs = stored_runs(tenant_id, [action_id])[action_id]
    named = bundles.named_documents(run.evidence for run in runs if run.evidence is not None)
    return bundles.write_bundle(str(action_id), runs, bundle_documents(tenant_id, named))


def stored_runs(tenant_id: UUID, action_ids: Sequence[UUID]) -> dict[UUID, list[StoredRun]]:
    """Everything that is stored of the runs of these actions, by action and in their order."""
    rows = select(
        VerificationRun,
        "tenant_id = $1 AND action_id = ANY($2) ORDER BY action_id, number",
        tenant_id,
        list(action_ids),
    )
    documents, gone = _evidence(tenant_id, [row.pointer for row in rows])
    places = {
        row.pointer: (row.action_id, int(seq)) for row in rows if (seq := _circumstances(documents, row).get("seq"))
    }
    entries = events.entries_at(tenant_id, list(places.values()))
    digests = {_circumstances(documents, row).get(name, "") for row in rows for name in ("contract", "lookup")}
    contracts_then = _contracts(tenant_id, digests)
    policies_then = _policies(tenant_id, [_circumstances(documents, row).get("policies", {}) for row in rows])
    found: dict[UUID, list[StoredRun]] = {action_id: [] for action_id in action_ids}
    for row in rows:
        given = _circumstances(documents, row)
        named = {kind: each["digest"] for kind, each in given.get("policies", {}).items()}
        found[row.action_id].append(
            StoredRun(
                action_id=str(row.action_id),
                number=row.number,
                pointer=str(row.pointer),
                at=row.at,
                evidence=documents.get(row.pointer),
                entry=entries.get(places[row.pointer]) if row.pointer in places else None,
                contract=bundles.judging_contract(contracts_then, given),
                policies={
                    kind: policies_then[kind, digest]
                    for kind, digest in named.items()
                    if (kind, digest) in policies_then
                },
                missing=gone.get(row.pointer, ""),
            )
        )
    return found


def _circumstances(documents: Mapping[UUID, dict[str, Any]], row: VerificationRun) -> Mapping[str, Any]:
    given: Mapping[str, Any] = documents.get(row.pointer, {}).get("circumstances", {})
    return given


def _evidence(tenant_id: UUID, pointers: list[UUID]) -> tuple[dict[UUID, dict[str, Any]], dict[UUID, str]]:
    """Return the documents of these pointers, and the reasons why others have none."""
    try:
        opened = evidence.open_evidence_many(tenant_id, pointers)
        return {pointer: orjson.loads(data) for pointer, data in opened.items()}, {}
    except (EvidenceErased, CannotOpen):
        pass
    documents: dict[UUID, dict[str, Any]] = {}
    gone: dict[UUID, str] = {}
    for pointer in pointers:
        try:
            documents |= {
                one: orjson.loads(data) for one, data in evidence.open_evidence_many(tenant_id, [pointer]).items()
            }
        except EvidenceErased:
            gone[pointer] = "Its evidence was erased."
        except CannotOpen:
            gone[pointer] = "Its evidence cannot be opened: the key is gone."
    return documents, gone


def _contracts(tenant_id: UUID, digests: set[str]) -> dict[str, Contract]:
    found = {digest: catalogue_queries.contract_by_digest(tenant_id, digest) for digest in digests if digest}
    return {
        digest: contracts.load_stored(bytes(row.document), expected_digest=digest)
        for digest, row in found.items()
        if row is not None
    }


def _policies(tenant_id: UUID, named: list[Mapping[str, Any]]) -> dict[tuple[str, str], DecidingPolicy]:
    wanted = {(kind, each[kind]["digest"]) for each in named for kind in JUDGING if kind in each}
    found = {(kind, digest): catalogue_queries.policy_by_digest(tenant_id, kind, digest) for kind, digest in wanted}
    return {place: row for place, row in found.items() if row is not None}
