"""Writes of the catalogue: tenants, contracts, policies, systems and freezes, each with its events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules import targets
from ledger.catalogue.rules.contract import Contract, load_stored
from ledger.catalogue.rules.policies import POLICY_KINDS, default_policy
from ledger.catalogue.rules.releases import CONTRACT, ReleaseNeeded, VersionsMoved, verification_changes
from ledger.catalogue.rules.weakenings import Weakening, weakenings
from ledger.db import execute, tenancy
from ledger.models import ContractVersion, Freeze, PolicyVersion, System, Tenant
from ledger.record.operations import SYSTEM, Actor, NewEvent, SubjectHead, append, lock_subject, new_id
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.refusals import Refused


def create_tenant(*, tenant_id: UUID, slug: str, name: str, host: str, at: datetime) -> Tenant:
    """Create a tenant and the origin of its log; the caller writes its first event inside `tenancy`."""
    return Tenant.objects.create(
        id=tenant_id, slug=slug, name=name, origin=f"{host}/counterfoil/{tenant_id.hex}", created_at=at
    )


class VersionTaken(Refused):
    """This version is already registered with a different document; register the change as a new version."""

    code = "VERSION_IMMUTABLE"


class AlreadyFrozen(Refused):
    """This is already frozen."""

    code = "ALREADY_FROZEN"


def set_up_tenant(
    *,
    tenant_id: UUID,
    slug: str,
    name: str,
    host: str,
    policies: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    at: datetime,
) -> Tenant:
    """A tenant, the first event of its log, and its first policies: the default one of each kind that `policies` does
    not bring.
    """
    tenant = create_tenant(tenant_id=tenant_id, slug=slug, name=name, host=host, at=at)
    with tenancy(tenant_id):
        append(
            SubjectHead(tenant_id=tenant_id, id=tenant_id, kind="tenant"),
            NewEvent(kind="tenant_founded", to="ACTIVE"),
            actor=SYSTEM,
            at=at,
        )
        for kind in POLICY_KINDS:
            document = policies.get(kind) or default_policy(kind)
            install_policy(tenant_id=tenant_id, kind=kind, version="1", document=document, actor=SYSTEM, at=at)
    return tenant


def lock_versions(tenant_id: UUID, kind: str, tool: str = "") -> None:
    """Prevent other changes of the versions in force of a policy, or of a tool's contract, until the transaction ends;
    the versions must be read after this.
    """
    execute("SELECT ledger_lock_versions($1, $2, $3)", tenant_id, kind, tool)


def register_contract(*, tenant_id: UUID, contract: Contract, actor: Actor, at: datetime) -> ContractVersion:
    """Register a validated contract; the same document again is the same version, a different one is refused (R-TC-18).

    One that changes what is verified comes in force by release (`releases`), and the database refuses it here too. One
    that is weaker in anything else than the newest in force waits for a second person: until then it is PENDING, and no
    gate, no session and no claim knows it.
    """
    lock_versions(tenant_id, CONTRACT, contract.name)
    known = catalogue_queries.contract_version(tenant_id, contract.name, contract.version)
    if known is not None:
        if known.digest != contract.digest:
            raise VersionTaken
        return known
    before = catalogue_queries.contract_to_compare(tenant_id, contract.name)
    refuse_without_release(before, contract.document)
    weaker = weakenings(load_stored(bytes(before.document), expected_digest=before.digest), contract) if before else ()
    row = ContractVersion.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        name=contract.name,
        version=contract.version,
        digest=contract.digest,
        document=contract.document,
        lint=lint_rows(contract),
        weakens=weakening_rows(weaker),
        compared_with=before.version if before else "",
        sent_by=actor.id,
        registered_at=at,
    )
    told = {"name": contract.name, "version": contract.version}
    if weaker and before:
        told |= {"compared_with": before.version, "weakens": row.weakens}
    append(
        SubjectHead(tenant_id=tenant_id, id=row.id, kind="contract"),
        NewEvent(
            kind="contract_proposed" if weaker else "contract_registered",
            to="PENDING" if weaker else "REGISTERED",
            detail=told,
            digests={"contract": contract.digest},
        ),
        actor=actor,
        at=at,
    )
    return row


def refuse_without_release(before: ContractVersion | None, document: bytes) -> None:
    """Refuse a version that verifies differently from the one in force: it requires a release."""
    if before is not None and verification_changes(json.loads(bytes(before.document)), json.loads(document)):
        raise ReleaseNeeded(
            "This changes what is verified. Draft it as a release: POST /contracts/releases, or on the contract's page."
        )


def lint_rows(contract: Contract) -> list[dict[str, str]]:
    """A contract's lint findings as stored in its row."""
    return [{"code": each.code, "path": each.path, "detail": each.told} for each in contract.findings]


def weakening_rows(weaker: Iterable[Weakening]) -> list[dict[str, str]]:
    """The weakenings of a version as stored in its row and event."""
    return [{"code": each.code, "path": each.path, "text": each.text} for each in weaker]


def install_policy(
    *, tenant_id: UUID, kind: str, version: str, document: Mapping[str, Any], actor: Actor, at: datetime
) -> PolicyVersion:
    """Put the first version of a kind of policy in force, at installation.

    Any other one comes in force by release (`releases`), and the database refuses it too. The version in force sent
    again is the same version; any other use of a known version is refused.
    """
    data = canonical(document)
    known = PolicyVersion.objects.filter(tenant_id=tenant_id, kind=kind, version=version).first()
    if known is not None:
        if not known.active or known.digest != digest(data):
            raise VersionTaken
        return known
    if PolicyVersion.objects.filter(tenant_id=tenant_id, kind=kind).exists():
        raise ReleaseNeeded
    row = PolicyVersion.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        kind=kind,
        version=version,
        digest=digest(data),
        document=data,
        active=True,
        created_at=at,
    )
    append(
        SubjectHead(tenant_id=tenant_id, id=row.id, kind="policy"),
        NewEvent(
            kind="policy_activated",
            to="ACTIVE",
            detail={"kind": kind, "version": version},
            digests={kind: row.digest},
        ),
        actor=actor,
        at=at,
    )
    return row


def supersede_policy(tenant_id: UUID, kind: str, *, by: str, actor: Actor, at: datetime) -> None:
    """End the version in force; the caller puts the version `by` in its place."""
    before = PolicyVersion.objects.filter(tenant_id=tenant_id, kind=kind, active=True).first()
    if before is None:
        return
    head = lock_subject(tenant_id=tenant_id, subject_id=before.id, kind="policy")
    if head.state != "ACTIVE":
        raise VersionsMoved("Another version took effect at the same moment; review it first.")
    append(head, NewEvent(kind="policy_superseded", to="SUPERSEDED", detail={"by": by}), actor=actor, at=at)
    PolicyVersion.objects.filter(tenant_id=tenant_id, id=before.id).update(active=False)


def register_system(
    *, tenant_id: UUID, name: str, pattern: str, settings: Mapping[str, Any], actor: Actor, at: datetime
) -> System:
    """Register an authoritative system, or change the settings of a known one."""
    known = catalogue_queries.system(tenant_id, name)
    if known is not None and (known.pattern, known.settings) == (pattern, dict(settings)):
        return known
    row = known or System(tenant_id=tenant_id, id=new_id(at), name=name, registered_at=at)
    if known is None:
        row = System.objects.create(
            tenant_id=tenant_id, id=row.id, name=name, pattern=pattern, settings=dict(settings), registered_at=at
        )
        head = SubjectHead(tenant_id=tenant_id, id=row.id, kind="system")
    else:
        row.pattern, row.settings = pattern, dict(settings)
        System.objects.filter(tenant_id=tenant_id, id=row.id).update(pattern=pattern, settings=dict(settings))
        head = lock_subject(tenant_id=tenant_id, subject_id=row.id, kind="system")
    append(
        head,
        NewEvent(
            kind="system_registered",
            to="REGISTERED",
            detail={"name": name, "pattern": pattern, "settings": dict(settings)},
        ),
        actor=actor,
        at=at,
    )
    return row


def record_tried_description(
    *, tenant_id: UUID, system_id: UUID, digest: str, contract: tuple[str, str], actor: Actor, at: datetime
) -> None:
    """Record that a dry run of a contract found a known object by the description of that digest and missed another."""
    head = lock_subject(tenant_id=tenant_id, subject_id=system_id, kind="system")
    detail = {"digest": digest, "contract": contract[0], "version": contract[1]}
    append(head, NewEvent(kind="description_tried", detail=detail), actor=actor, at=at)
    System.objects.filter(tenant_id=tenant_id, id=system_id).update(tried=digest)


def place_freeze(
    *, tenant_id: UUID, scope: str, value: str, reason: str, actor: Actor, at: datetime, is_unknown: bool = False
) -> Freeze:
    """Place a freeze: it stops everything that `scope` and `value` cover, from the commit on (R-EX-15).

    With `is_unknown`, the record says that nothing had named it yet and that it was wanted all the same.
    """
    value = targets.normal_form(value) if scope == "target" else value
    if Freeze.objects.filter(tenant_id=tenant_id, scope=scope, value=value, lifted_at__isnull=True).exists():
        raise AlreadyFrozen
    row = Freeze.objects.create(
        tenant_id=tenant_id, id=new_id(at), scope=scope, value=value, reason=reason[:1000], placed_at=at
    )
    append(
        SubjectHead(tenant_id=tenant_id, id=row.id, kind="freeze"),
        NewEvent(
            kind="freeze_placed",
            to="PLACED",
            detail={"scope": scope, "value": value, "reason": reason} | ({"is_unknown": True} if is_unknown else {}),
        ),
        actor=actor,
        at=at,
    )
    return row


def lift_freeze(*, tenant_id: UUID, freeze_id: UUID, reason: str, actor: Actor, at: datetime) -> None:
    """End a freeze; only a freeze in force can be lifted."""
    head = lock_subject(tenant_id=tenant_id, subject_id=freeze_id, kind="freeze")
    append(head, NewEvent(kind="freeze_lifted", to="LIFTED", detail={"reason": reason}), actor=actor, at=at)
    Freeze.objects.filter(tenant_id=tenant_id, id=freeze_id).update(lifted_at=at)
