"""Changes that need a second person: weaker contract versions, and a system's new address or pattern.

Who may be that person, and how, is said in `ledger.people.rules.confirmation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations.registration import lock_versions, refuse_without_release, register_system
from ledger.catalogue.rules.releases import CONTRACT
from ledger.models import ContractVersion, System
from ledger.people.queries import is_same_person
from ledger.people.rules.confirmation import Answer, check_answer, has_expired
from ledger.record.operations import Actor, NewEvent, append, lock_subject
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, NothingProposed


def decide_contract_change(
    *,
    tenant_id: UUID,
    name: str,
    version: str,
    answer: Answer,
    reason: str,
    by: Actor,
    is_proven: bool = False,
    at: datetime,
) -> ContractVersion:
    """Confirm a weaker version as the second person, or decline it, as its sender also may."""
    row = catalogue_queries.contract_version(tenant_id, name, version)
    if row is None:
        raise NotFound("Contract version")
    lock_versions(tenant_id, CONTRACT, name)
    head = lock_subject(tenant_id=tenant_id, subject_id=row.id, kind="contract")
    if head.state != "PENDING":
        raise NothingProposed
    check_answer(
        "contract",
        answer,
        by_kind=by.kind,
        is_proposer=is_same_person(tenant_id, row.sent_by, by.id),
        is_proven=is_proven,
        reason=reason,
        proposed_at=row.registered_at,
        at=at,
    )
    accept = answer is Answer.CONFIRM
    if accept:
        # What is in force may have come by release, or gone back, since this was sent.
        refuse_without_release(catalogue_queries.contract_to_compare(tenant_id, name), bytes(row.document))
    told: dict[str, Any] = {"name": name, "version": version, "reason": reason}
    happening = (
        NewEvent(kind="contract_confirmed", to="REGISTERED", detail=told | {"weakens": row.weakens})
        if accept
        else NewEvent(kind="contract_declined", to="DECLINED", detail=told)
    )
    append(head, happening, actor=by, at=at)
    return row


FREE_SETTINGS = frozenset({"limits", "changes", "webhook"})
"""Settings of a system that say nothing about where it is or how far it is believed."""


def submit_system(
    *, tenant_id: UUID, name: str, pattern: str, settings: Mapping[str, Any], actor: Actor, at: datetime
) -> tuple[System, bool]:
    """Register a system, or change a known one; true where the change waits for a second person.

    Whoever moves a known system decides where its secret goes and what is taken for the truth: its pattern and every
    setting but `FREE_SETTINGS` stay what they are until another person has confirmed the change.
    """
    known = catalogue_queries.system(tenant_id, name)
    wanted = {"pattern": pattern, "settings": dict(settings)}
    if known is None or _address_of(known.pattern, known.settings) == _address_of(pattern, settings):
        row = register_system(tenant_id=tenant_id, name=name, pattern=pattern, settings=settings, actor=actor, at=at)
        return row, False
    asked = known.proposal or {}
    is_open = bool(asked) and not has_expired("system", datetime.fromisoformat(asked["at"]), at=at)
    if is_open and {part: asked.get(part) for part in wanted} == wanted:
        return known, True
    head = lock_subject(tenant_id=tenant_id, subject_id=known.id, kind="system")
    known.proposal = wanted | {"by": str(actor.id), "at": instant(at)}
    System.objects.filter(tenant_id=tenant_id, id=known.id).update(proposal=known.proposal)
    append(head, NewEvent(kind="system_change_proposed", detail={"name": name, **wanted}), actor=actor, at=at)
    return known, True


def _address_of(pattern: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return pattern, {part: value for part, value in settings.items() if part not in FREE_SETTINGS}


def decide_system_change(
    *,
    tenant_id: UUID,
    name: str,
    answer: Answer,
    reason: str,
    by: Actor,
    is_proven: bool = False,
    at: datetime,
) -> System:
    """Confirm the change of a system as the second person, or decline it, as its sender also may."""
    known = catalogue_queries.system(tenant_id, name)
    if known is None:
        raise NotFound("System")
    head = lock_subject(tenant_id=tenant_id, subject_id=known.id, kind="system")
    known = catalogue_queries.system(tenant_id, name)
    if known is None or known.proposal is None:
        raise NothingProposed
    check_answer(
        "system",
        answer,
        by_kind=by.kind,
        is_proposer=is_same_person(tenant_id, UUID(known.proposal["by"]), by.id),
        is_proven=is_proven,
        reason=reason,
        proposed_at=datetime.fromisoformat(known.proposal["at"]),
        at=at,
    )
    accept = answer is Answer.CONFIRM
    wanted = {part: known.proposal[part] for part in ("pattern", "settings")}
    # Elsewhere, or read otherwise: what a dry run has shown there says nothing here.
    changed = wanted | {"tried": ""} if accept else {}
    System.objects.filter(tenant_id=tenant_id, id=known.id).update(proposal=None, **changed)
    kind = "system_change_confirmed" if accept else "system_change_declined"
    append(head, NewEvent(kind=kind, detail={"name": name, "reason": reason, **wanted}), actor=by, at=at)
    found = catalogue_queries.system(tenant_id, name)
    assert found is not None
    return found
