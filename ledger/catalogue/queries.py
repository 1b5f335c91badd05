"""What is registered: contracts, policies and systems, by version and digest. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from ledger.catalogue.rules.contract import Contract, load_stored
from ledger.catalogue.rules.releases import CONTRACT, CanaryScope
from ledger.catalogue.rules.versions import ActiveVersion, choose_version
from ledger.db import execute, fetch_one, select
from ledger.models import (
    Action,
    ContractVersion,
    PolicyVersion,
    Release,
    ReleaseGate,
    Subject,
    System,
)


def contract_version(tenant_id: UUID, name: str, version: str) -> ContractVersion | None:
    return ContractVersion.objects.filter(tenant_id=tenant_id, name=name, version=version).first()


def contract_by_digest(tenant_id: UUID, digest: str) -> ContractVersion | None:
    return fetch_one(ContractVersion, "tenant_id = $1 AND digest = $2 LIMIT 1", tenant_id, digest)


def contract_versions(tenant_id: UUID, *, after: UUID | None = None, limit: int | None = None) -> list[ContractVersion]:
    """Every version of every contract, by name and then newest first; starting behind the row `after`."""
    found = ContractVersion.objects.filter(tenant_id=tenant_id).order_by("name", "-id")
    if after is not None:
        last = found.filter(id=after).values_list("name", flat=True)[:1]
        found = found.filter(Q(name__gt=last) | Q(name=last, id__lt=after))
    return list(found[:limit])


def contract_versions_of(tenant_id: UUID, name: str, *, limit: int = 100) -> list[ContractVersion]:
    """The versions of one contract, newest first."""
    return list(ContractVersion.objects.filter(tenant_id=tenant_id, name=name).order_by("-id")[:limit])


def contract_states(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, str]:
    """Whether versions are in force (REGISTERED), wait for a second person (PENDING), or were DECLINED."""
    found = Subject.objects.filter(tenant_id=tenant_id, id__in=list(ids), kind="contract")
    return dict(found.values_list("id", "state"))


def contracts_in_force(tenant_id: UUID, names: Collection[str]) -> dict[str, list[ContractVersion]]:
    """Every version of each named tool that is in force, oldest first."""
    found: dict[str, list[ContractVersion]] = {}
    in_force = Subject.objects.filter(tenant_id=tenant_id, kind="contract", state="REGISTERED").values("id")
    for row in ContractVersion.objects.filter(tenant_id=tenant_id, name__in=list(names), id__in=in_force).order_by(
        "id"
    ):
        found.setdefault(row.name, []).append(row)
    return found


def contract_in_force(tenant_id: UUID, name: str) -> ContractVersion | None:
    """The newest version of a tool's contract that is in force: the one that a new version is compared with."""
    found = contracts_in_force(tenant_id, [name]).get(name)
    return found[-1] if found else None


def version_in_force(tenant_id: UUID, kind: str, tool: str = "") -> PolicyVersion | ContractVersion | None:
    """What a release would replace: the policy in force, or the newest contract in force of the tool."""
    return contract_in_force(tenant_id, tool) if kind == CONTRACT else active_policies(tenant_id)[kind]


def newest_contracts(
    tenant_id: UUID, names: Collection[str], *, versions: Mapping[str, str] | None = None
) -> dict[str, ContractVersion]:
    """The version of each named tool that is used where `versions` names a version or a range for it, or does not.

    A tool for which none is named never comes to a weaker version by itself (`ledger.catalogue.rules.versions`).
    """
    found = {}
    for name, rows in contracts_in_force(tenant_id, names).items():
        row = _chosen(rows, (versions or {}).get(name, ""))
        if row is not None:
            found[name] = row
    return found


def _chosen(rows: list[ContractVersion], wanted: str) -> ContractVersion | None:
    # Nearly always nothing was ever weakened, and no document need be read.
    if not wanted and not any(row.weakens for row in rows):
        return rows[-1]
    steps = [
        ActiveVersion(row.version, row.compared_with, bool(row.weakens), _reader(row), row.release_id is not None)
        for row in rows
    ]
    place = choose_version(steps, wanted)
    return None if place is None else rows[place]


def _reader(row: ContractVersion) -> Callable[[], Contract]:
    return lambda: load_stored(bytes(row.document), expected_digest=row.digest)


def policy_version(tenant_id: UUID, kind: str, version: str) -> PolicyVersion | None:
    return fetch_one(PolicyVersion, "tenant_id = $1 AND kind = $2 AND version = $3", tenant_id, kind, version)


def policy_by_digest(tenant_id: UUID, kind: str, digest: str) -> PolicyVersion | None:
    """A version of a policy by its digest; versions with the same document are the same policy."""
    return fetch_one(PolicyVersion, "tenant_id = $1 AND kind = $2 AND digest = $3 LIMIT 1", tenant_id, kind, digest)


def policy_versions(
    tenant_id: UUID, kind: str, *, before: UUID | None = None, limit: int | None = None
) -> list[PolicyVersion]:
    """The versions of a kind of policy, the newest first: all, or those that came in force before the row `before`."""
    found = PolicyVersion.objects.filter(tenant_id=tenant_id, kind=kind)
    # An id begins with the moment at which its version was put in force.
    earlier = found.filter(id__lt=before) if before is not None else found
    return list(earlier.order_by("-id")[:limit])


def tool_names(tenant_id: UUID) -> frozenset[str]:
    return frozenset(
        name for (name,) in execute("SELECT name FROM ledger_contractversion WHERE tenant_id = $1", tenant_id)
    )


def active_policies(tenant_id: UUID) -> dict[str, PolicyVersion]:
    """The policy version in force, by kind."""
    return {policy.kind: policy for policy in select(PolicyVersion, "tenant_id = $1 AND active", tenant_id)}


def digest_in_force(tenant_id: UUID, kind: str) -> str:
    """The digest of the policy in force of one kind; nothing of its document is read."""
    statement = "SELECT digest FROM ledger_policyversion WHERE tenant_id = $1 AND kind = $2 AND active"
    [(digest,)] = execute(statement, tenant_id, kind)
    return str(digest)


@dataclass(frozen=True)
class DecidingPolicies:
    """The versions of one kind of policy that decide: the one in force, and on some actions one on canary."""

    in_force: PolicyVersion
    canary: PolicyVersion | None = None

    def of(self, action: Action) -> PolicyVersion:
        """The version that decides an action."""
        if self.canary is None or not CanaryScope.of(self.canary.canary or {}).covers(
            tenant_id=action.tenant_id, tool=action.tool, action_id=action.id, proposed_at=action.proposed_at
        ):
            return self.in_force
        return self.canary


def deciding_policies(tenant_id: UUID, kind: str) -> DecidingPolicies:
    """The version of a kind of policy in force, and the one on canary beside it."""
    found = select(PolicyVersion, "tenant_id = $1 AND kind = $2 AND (active OR canary IS NOT NULL)", tenant_id, kind)
    in_force = next(row for row in found if row.active)
    return DecidingPolicies(in_force, next((row for row in found if row.canary is not None), None))


def release(tenant_id: UUID, release_id: UUID) -> Release | None:
    return Release.objects.filter(tenant_id=tenant_id, id=release_id).first()


def open_release(tenant_id: UUID, kind: str, version: str, *, tool: str = "") -> Release | None:
    """The release of that version of a policy or contract which has not ended."""
    ended = ("WITHDRAWN", "STOPPED", "ROLLED_BACK", "PROMOTED")
    found = Release.objects.filter(tenant_id=tenant_id, kind=kind, tool=tool, version=version)
    return found.exclude(state__in=ended).first()


def releases(tenant_id: UUID, *, after: UUID | None = None, limit: int | None = None) -> list[Release]:
    """The releases of a tenant, newest first; starting behind the row `after`."""
    found = Release.objects.filter(tenant_id=tenant_id)
    return list((found.filter(id__lt=after) if after is not None else found).order_by("-id")[:limit])


def canaries(tenant_id: UUID) -> list[Release]:
    """The releases whose draft decides live actions now."""
    return list(
        Release.objects.filter(tenant_id=tenant_id, state__in=["CANARY", "READY"], canary__isnull=False).order_by("id")
    )


def gate_results(tenant_id: UUID, release_id: UUID) -> dict[str, ReleaseGate]:
    """The newest result of each gate of a release that has one."""
    found = ReleaseGate.objects.filter(tenant_id=tenant_id, release_id=release_id).order_by("seq")
    return {row.gate: row for row in found}


def system(tenant_id: UUID, name: str) -> System | None:
    return fetch_one(System, "tenant_id = $1 AND name = $2", tenant_id, name)


def system_by_id(tenant_id: UUID, system_id: UUID) -> System | None:
    return fetch_one(System, "tenant_id = $1 AND id = $2", tenant_id, system_id)


def systems(tenant_id: UUID) -> list[System]:
    return list(System.objects.filter(tenant_id=tenant_id).order_by("name"))


def policy_versions_by_digest(tenant_id: UUID, kind: str) -> dict[str, str]:
    """The names of every version of a kind of policy by digest, in the order in which they came in force."""
    found = PolicyVersion.objects.filter(tenant_id=tenant_id, kind=kind).order_by("created_at", "id")
    return dict(found.values_list("digest", "version"))


def first_classes(tenant_id: UUID) -> list[tuple[str, str, datetime]]:
    """(tool, side-effect class, when it was registered) of the first version of every tool's contract."""
    return execute(
        "SELECT DISTINCT ON (name) name, convert_from(document, 'UTF8')::jsonb ->> 'side_effect_class', registered_at"
        " FROM ledger_contractversion WHERE tenant_id = $1 ORDER BY name, id",
        tenant_id,
    )
