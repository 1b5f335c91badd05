"""Detect ungated effects: compare a system's change log with the record and open a case for each unmatched change.

The reading happens outside any transaction. Each stray is told in a transaction of its own: a unique row for its place
in the log sees to it that it is told once, however often a pass is repeated or dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import orjson

from ledger.actions.queries import actions as actions_queries
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.effects import SideEffectClass
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.canonical import digest
from reviews import queries
from reviews.checks import changes
from reviews.checks.changes import ChangePage
from reviews.checks.interface import CheckFailed
from reviews.models import Case, ChangeLogPosition, UngatedEffect
from reviews.observations.rules import ungated_effects
from reviews.observations.rules.ungated_effects import CandidateAction, Change, ChangeOwner
from reviews.readback.operations.plans import system_access
from reviews.reconciliation.rules.reading import to_json_default

if TYPE_CHECKING:
    from ledger.models import System

UNGATED = "UNGATED_EFFECT"
PAGE = 500
TIMEOUT_S = 10.0
# What nobody gated is as grave as what people must always approve.
SEVERITY = SideEffectClass.HIGH_RISK_EXTERNAL.rank


def watched_systems() -> list[tuple[UUID, str]]:
    """Return (tenant, system) of every system whose settings ask for the comparison."""
    found: list[tuple[UUID, str]] = []
    for tenant_id in tenants_with(Work.WATCHED_SYSTEMS):
        with tenancy(tenant_id):
            found += [
                (tenant_id, each.name) for each in catalogue_queries.systems(tenant_id) if "changes" in each.settings
            ]
    return found


def compare_changes(*, tenant_id: UUID, name: str, clock: Callable[[], datetime]) -> int:
    """Compare one page of a system's change log with the record; return the number of ungated effects.

    If we crash after some were told, the next pass reads the page again and tells the rest.
    """
    with tenancy(tenant_id):
        access, missing = system_access(tenant_id, events.tenant_by_id(tenant_id).slug, name)
        system = catalogue_queries.system(tenant_id, name)
        watch = queries.change_watch(tenant_id, system.id) if system is not None else None
    if system is None or access is None:
        return 0 if system is None else _record_failure(tenant_id, system.id, watch, missing, at=clock())
    log = changes.change_log(system.pattern)
    assert log is not None, "the settings were checked when the system was registered"
    try:
        page = log.changes(system=access, since=watch.mark if watch else "", limit=PAGE, timeout_s=TIMEOUT_S)
    except CheckFailed as failed:
        return _record_failure(tenant_id, system.id, watch, failed.reason, at=clock())
    return _compare_page(tenant_id, system, page, watch.begun if watch and watch.begun else page.mark, at=clock())


def _compare_page(tenant_id: UUID, system: System, page: ChangePage, begun: str, *, at: datetime) -> int:
    told, mark = 0, page.mark
    # A pass reads a little of what came before its mark; what came before the watch is nobody's business here.
    found = [change for change in page.changes if _order(change.place) > _order(begun)]
    with tenancy(tenant_id):
        known = queries.known_ungated_places(tenant_id, system.id, [change.place for change in found])
        runs = _runs(tenant_id, found)
    for change in found:
        key_hash = digest(change.key.encode()) if change.key else None
        whose = ungated_effects.find_owner(change, runs, key_hash=key_hash, at=at)
        if whose is ChangeOwner.NOT_YET:
            # It is looked at again in the next pass, and so is all behind it.
            mark = min(mark, _mark_before(change), key=_order)
            continue
        if whose is ChangeOwner.NOBODY and change.place not in known:
            with tenancy(tenant_id):
                told += open_ungated_case(tenant_id, system, change, at=at)
    with tenancy(tenant_id):
        _keep(tenant_id, system.id, mark, begun=begun, failure="", at=at)
    return told


def _order(mark: str) -> tuple[int, ...]:
    return tuple(int(part) for part in mark.split("-"))


def _mark_before(change: Change) -> str:
    """The mark just before a change."""
    first, dash, rest = change.place.partition("-")
    if not dash:
        return str(int(first) - 1)
    return f"{first}-{int(rest) - 1}" if int(rest) else f"{int(first) - 1}-{2**63 - 1}"


def _runs(tenant_id: UUID, found: Iterable[Change]) -> tuple[CandidateAction, ...]:
    """The started actions that could account for any of these changes."""
    listed = list(found)
    unkeyed = [change for change in listed if not change.key]
    unnamed = [change for change in unkeyed if not (change.trace_id or change.action_id)]
    actions = actions_queries.attributable_actions(
        tenant_id,
        key_hashes=sorted({digest(change.key.encode()) for change in listed if change.key}),
        traces=sorted({change.trace_id for change in unkeyed if change.trace_id}),
        ids=sorted({change.action_id for change in unkeyed if change.action_id}),
        targets=sorted({change.target for change in unnamed if change.target}),
    )
    entries = events.entries(tenant_id, [(action.id, action.seq) for action in actions])
    kept = actions_queries.idempotencies(tenant_id, [action.id for action in actions])
    return tuple(
        CandidateAction(
            action_id=str(action.id),
            target=action.target,
            trace_id=action.trace_id,
            key_hash=kept[action.id].key_hash if action.id in kept else None,
            started_at=_time(entries.get(action.id, {}).get("timestamps", {}).get("executed_at")),
            until=action.horizon_at,
        )
        for action in actions
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def open_ungated_case(tenant_id: UUID, system: System, change: Change, *, at: datetime) -> int:
    """Open the case of one stray, with the change as sealed evidence."""
    case_id, stray_id, pointer = ledger.new_id(at), ledger.new_id(at), uuid4()
    _, made = UngatedEffect.objects.get_or_create(
        tenant_id=tenant_id,
        system_id=system.id,
        place=change.place,
        defaults={"id": stray_id, "case_id": case_id, "pointer": pointer, "at": at},
    )
    if not made:
        return 0
    kept = ledger.store_evidence(
        tenant_id=tenant_id,
        subject_id=case_id,
        purpose="ungated_effect",
        data=orjson.dumps(asdict(change), default=to_json_default),
        media_type="application/json",
        source=system.name,
        at=at,
        pointer=pointer,
        is_new=True,
    )
    known = {
        "reason": UNGATED,
        "side_effect_class": str(SideEffectClass.HIGH_RISK_EXTERNAL),
        "severity": SEVERITY,
        "tool": change.operation[:128],
        "target": (change.target or system.name)[:512],
    }
    Case.objects.create(tenant_id=tenant_id, id=case_id, action_id=None, state="OPEN", opened_at=at, **known)
    happening = ledger.NewEvent(
        kind="case_opened",
        to="OPEN",
        detail={
            **known,
            "discrepancy": "",
            "system": system.name,
            "system_id": str(system.id),
            "stray_id": str(stray_id),
            "place": change.place,
            "pointer": str(kept.pointer),
        },
        evidence=(kept,),
    )
    ledger.append(
        ledger.SubjectHead(tenant_id=tenant_id, id=case_id, kind="case"), happening, actor=ledger.SYSTEM, at=at
    )
    return 1


def resolve_ungated_case(
    head: ledger.SubjectHead,
    case: Case,
    *,
    detail: dict[str, Any],
    kept: tuple[ledger.SealedEvidence, ...],
    by: ledger.Actor,
    at: datetime,
) -> str:
    """A person has found out who did it: why it is so, and on what evidence, is the end of the case."""
    happening = ledger.NewEvent(kind="case_resolved", to="RESOLVED", detail=detail, evidence=kept)
    ledger.append(head, happening, actor=by, at=at)
    Case.objects.filter(tenant_id=case.tenant_id, id=case.id).update(
        state="RESOLVED", resolution=detail["resolution"], resolved_at=at, snoozed_until=None, snooze_reason=""
    )
    return "RESOLVED"


def _record_failure(
    tenant_id: UUID, system_id: UUID, watch: ChangeLogPosition | None, why: str, *, at: datetime
) -> int:
    with tenancy(tenant_id):
        mark, begun = (watch.mark, watch.begun) if watch else ("", "")
        _keep(tenant_id, system_id, mark, begun=begun, failure=why, at=at)
    return 0


def _keep(tenant_id: UUID, system_id: UUID, mark: str, *, begun: str, failure: str, at: datetime) -> None:
    ChangeLogPosition.objects.update_or_create(
        tenant_id=tenant_id,
        system_id=system_id,
        defaults={"mark": mark, "begun": begun, "read_at": at, "failure": failure[:300]},
    )
