"""Reads the facts of actions. Every function runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.record.queries import events, evidence
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.outcomes import may_have_started
from reviews.models import VerificationRun
from reviews.reconciliation.rules.shown import DECISIVE, Shown, describe_difference
from reviews.reporting.rules.at_stake import MoneyDifference, money_difference
from reviews.reporting.rules.facts import Facts, fold

if TYPE_CHECKING:
    from ledger.models import Action


def facts_of(action: Action, entry: Mapping[str, Any], history: Iterable[tuple[Any, Any, Any]] | None = None) -> Facts:
    """Return the facts of an action after its newest event; pass its `history` if it was just read."""
    if history is None:
        return facts_of_each(action.tenant_id, [action], {action.id: entry})[action.id]
    return _with_values(action, fold(history, entry))


def facts_of_each(
    tenant_id: UUID, found: Iterable[Action], entries: Mapping[UUID, Mapping[str, Any]]
) -> dict[UUID, Facts]:
    """Return the facts of those of these actions that still have an entry, by action."""
    kept = {each.id: each for each in found if each.id in entries}
    told = events.histories(tenant_id, list(kept))
    # What was appended after the action was read is not part of it.
    return {
        id_: _with_values(action, fold((row for row in told[id_] if row[0].seq <= action.seq), entries[id_]))
        for id_, action in kept.items()
    }


def money_differences(tenant_id: UUID, action_ids: Collection[UUID]) -> dict[UUID, MoneyDifference]:
    """Return by how much the newest decisive reading of each action differs from the request; nothing differs for an
    action that nobody started.
    """
    runs = VerificationRun.objects.filter(tenant_id=tenant_id, action_id__in=action_ids, result__in=DECISIVE)
    newest = {run.pointer: run.action_id for run in runs.order_by("action_id", "-number").distinct("action_id")}
    opened = evidence.open_evidence_many(tenant_id, list(newest), leave_out_lost=True) if newest else {}
    found = {newest[pointer]: money_difference(orjson.loads(data)) for pointer, data in opened.items()}
    rows = actions.actions_by_id(tenant_id, list(action_ids))
    return {
        **{row.id: MoneyDifference(Decimal(0), "") for row in rows.values() if not may_have_started(row)},
        **{action_id: difference for action_id, difference in found.items() if difference is not None},
    }


def _with_values(action: Action, facts: Facts) -> Facts:
    """The facts with the values behind the readings that showed something else than was requested."""
    named = [
        each.run
        for each in (facts.found, facts.effect, facts.corrected)
        if each is not None and each.shown is Shown.DIFFERENT
    ]
    return facts.with_differences({run: _difference(action, UUID(run)) for run in dict.fromkeys(named)})


def _difference(action: Action, run: UUID) -> str:
    """Return the words for the difference that a run showed; empty if its evidence was erased."""
    try:
        data = evidence.open_evidence(action.tenant_id, run)
        contract = catalogue_queries.registered_contract(action.tenant_id, action.contract_digest)
    except CannotOpen:
        return ""
    return describe_difference(orjson.loads(data), contract) if data is not None else ""
