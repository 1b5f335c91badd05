"""Reads of contracts, policies, releases and systems. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, LiteralString
from uuid import UUID

from django.db.models import Q

from ledger.catalogue.rules.contract import Contract, load_stored
from ledger.catalogue.rules.releases import CONTRACT, CanaryScope
from ledger.catalogue.rules.versions import ActiveVersion, choose_version
from ledger.db import columns, execute, fetch_one, load_models, page_in_order, select
from ledger.models import (
    Action,
    ContractVersion,
    Maintenance,
    PolicyVersion,
    Release,
    ReleaseGate,
    Subject,
    System,
)

_IN_FORCE: Final[LiteralString] = """tenant_id = $1 AND name = ANY($2) AND EXISTS (
    SELECT 1 FROM ledger_subject s
    WHERE s.tenant_id = $1 AND s.id = ledger_contractversion.id AND s.kind = 'contract' AND s.state = 'REGISTERED'
) ORDER BY id"""


def contract_version(tenant_id: UUID, name: str, version: str) -> ContractVersion | None:
    return ContractVersion.objects.filter(tenant_id=tenant_id, name=name, version=version).first()


def contract_by_digest(tenant_id: UUID, digest: str) -> ContractVersion | None:
    return fetch_one(ContractVersion, "tenant_id = $1 AND digest = $2 LIMIT 1", tenant_id, digest)


@lru_cache(maxsize=4096)
def registered_contract(tenant_id: UUID, digest: str) -> Contract:
    """Return a registered contract by its digest, cached because versions never change."""
    row = contract_by_digest(tenant_id, digest)
    if row is None:
        raise LookupError(f"no contract {digest}")
    return load_stored(bytes(row.document), expected_digest=digest)


def contract_versions(
    tenant_id: UUID, *, order: str = "", after: UUID | None = None, limit: int | None = None
) -> list[ContractVersion]:
    """Return every version of every contract, by name and then newest first, or in the order of a column; starting
    after the row `after`.
    """
    if order:
        return page_in_order(ContractVersion.objects.filter(tenant_id=tenant_id), order, behind=after, limit=limit)
    found = ContractVersion.objects.filter(tenant_id=tenant_id).order_by("name", "-id")
    if after is not None:
        last = found.filter(id=after).values_list("name", flat=True)[:1]
        found = found.filter(Q(name__gt=last) | Q(name=last, id__lt=after))
    return list(found[:limit])


def contract_versions_of(tenant_id: UUID, name: str, *, limit: int = 100) -> list[ContractVersion]:
    """The versions of one contract, newest first."""
    return list(ContractVersion.objects.filter(tenant_id=tenant_id, name=name).order_by("-id")[:limit])


def contract_versions_by_id(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, ContractVersion]:
    """The contract versions with these ids."""
    return {each.id: each for each in ContractVersion.objects.filter(tenant_id=tenant_id, id__in=ids)}


def contract_states(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, str]:
    """The state of each contract version: in force (REGISTERED), waiting for a second person (PENDING), or over."""
    found = Subject.objects.filter(tenant_id=tenant_id, id__in=list(ids), kind="contract")
    return dict(found.values_list("id", "state"))


def contracts_in_force(tenant_id: UUID, names: Collection[str]) -> dict[str, list[ContractVersion]]:
    """Every version of each named tool that is in force, oldest first."""
    found: dict[str, list[ContractVersion]] = {}
    for row in select(ContractVersion, _IN_FORCE, tenant_id, list(names)):
        found.setdefault(row.name, []).append(row)
    return found


def contract_to_compare(tenant_id: UUID, name: str) -> ContractVersion | None:
    """Return the version that a new one of a tool is compared with: the newest in force, otherwise the newest retired
    one.

    So nobody retires a tool to register it anew with less.
    """
    found = contracts_in_force(tenant_id, [name]).get(name)
    if found:
        return found[-1]
    retired = Subject.objects.filter(tenant_id=tenant_id, kind="contract", state="RETIRED").values("id")
    return ContractVersion.objects.filter(tenant_id=tenant_id, name=name, id__in=retired).order_by("-id").first()


def version_in_force(tenant_id: UUID, kind: str, tool: str = "") -> PolicyVersion | ContractVersion | None:
    """The version that a release would replace: the policy in force, or the contract version to compare with."""
    return contract_to_compare(tenant_id, tool) if kind == CONTRACT else active_policies(tenant_id)[kind]


def newest_contracts(
    tenant_id: UUID, names: Collection[str], *, versions: Mapping[str, str] | None = None
) -> dict[str, ContractVersion]:
    """The version of each named tool that is used, given the version or range that `versions` may name for it.

    A tool for which none is named never comes to a weaker version by itself (`ledger.catalogue.rules.versions`).
    """
    found = {}
    for name, rows in contracts_in_force(tenant_id, names).items():
        row = choose_contract(rows, (versions or {}).get(name, ""))
        if row is not None:
            found[name] = row
    return found


def choose_contract(rows: Sequence[ContractVersion], wanted: str = "") -> ContractVersion | None:
    """Choose among a tool's versions in force, oldest first, for a version or range, or the default
    if none is named.
    """
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
    """The versions of a kind of policy, newest first: all, or those that came in force before the row `before`."""
    found = PolicyVersion.objects.filter(tenant_id=tenant_id, kind=kind)
    # An id begins with the moment at which its version was put in force.
    earlier = found.filter(id__lt=before) if before is not None else found
    return list(earlier.order_by("-id")[:limit])


def tool_names(tenant_id: UUID) -> frozenset[str]:
    return frozenset(
        name for (name,) in execute("SELECT name FROM ledger_contractversion WHERE tenant_id = $1", tenant_id)
    )


def versions_by_system(tenant_id: UUID) -> dict[str, list[tuple[str, str]]]:
    """(tool, version) of every version in force that is verified in each system, by tool and then oldest first.

    A system is named by the lookup or by one of the further sources of a contract.
    """
    rows = execute(
        "SELECT read.system, v.name, v.version FROM ledger_contractversion v"
        " JOIN ledger_subject s ON s.tenant_id = v.tenant_id AND s.id = v.id AND s.state = 'REGISTERED',"
        " LATERAL (SELECT convert_from(v.document, 'UTF8')::jsonb -> 'verification' AS path) AS d,"
        " LATERAL (SELECT d.path ->> 'system' AS system UNION"
        " SELECT part ->> 'system' FROM jsonb_path_query(d.path, '$.sources[*]') AS part) AS read"
        " WHERE v.tenant_id = $1 AND read.system IS NOT NULL ORDER BY v.name, v.id",
        tenant_id,
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for system, name, version in rows:
        found.setdefault(system, []).append((name, version))
    return found


def tools_remedied_by(tenant_id: UUID, tool: str) -> list[str]:
    """The tools whose contracts in force name this one in their recovery part."""
    rows = execute(
        "SELECT DISTINCT v.name FROM ledger_contractversion v"
        " JOIN ledger_subject s ON s.tenant_id = v.tenant_id AND s.id = v.id AND s.state = 'REGISTERED'"
        " WHERE v.tenant_id = $1 AND jsonb_path_exists(convert_from(v.document, 'UTF8')::jsonb,"
        " '$.recovery.** ? (@ == $tool)', jsonb_build_object('tool', $2::text)) ORDER BY v.name",
        *(tenant_id, tool),
    )
    return [name for (name,) in rows]


def active_policies(tenant_id: UUID) -> dict[str, PolicyVersion]:
    """The policy version in force, by kind."""
    return {policy.kind: policy for policy in select(PolicyVersion, "tenant_id = $1 AND active", tenant_id)}


@dataclass(frozen=True, slots=True)
class PolicyVersionInForce:
    """The deciding version of a policy. It is determined anew each time; a process caches the documents, by digest."""

    tenant_id: UUID
    kind: str
    version: str
    digest: str

    @property
    def document(self) -> bytes:
        """The policy itself."""
        return _policy_document(self.tenant_id, self.kind, self.digest)


POLICIES_IN_FORCE: Final = (
    "(SELECT jsonb_object_agg(p.kind, jsonb_build_array(p.version, p.digest)) FROM ledger_policyversion p"
    " WHERE p.tenant_id = $1 AND p.active)"
)
"""Version and digest of each policy in force, as a column of a query whose first value is the tenant."""


def policies_in_force(tenant_id: UUID, found: Mapping[str, Sequence[str]] | None) -> dict[str, PolicyVersionInForce]:
    """The policies of a `POLICIES_IN_FORCE` column, by kind."""
    return {kind: PolicyVersionInForce(tenant_id, kind, *each) for kind, each in (found or {}).items()}


@lru_cache(maxsize=1024)
def _policy_document(tenant_id: UUID, kind: str, digest: str) -> bytes:
    row = policy_by_digest(tenant_id, kind, digest)
    assert row is not None
    return bytes(row.document)


def digest_in_force(tenant_id: UUID, kind: str) -> str:
    """The digest of the policy in force of one kind, without reading its document."""
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
    return read_deciding_policies(execute(*deciding_policies_call(tenant_id, kind)))


_DECIDING = (
    f"SELECT {columns(PolicyVersion, 'p')} FROM ledger_policyversion p"
    " WHERE p.tenant_id = $1 AND p.kind = $2 AND (p.active OR p.canary IS NOT NULL)"
)


def deciding_policies_call(tenant_id: UUID, kind: str) -> tuple[Any, ...]:
    """The call for `pipeline` whose rows `read_deciding_policies` reads."""
    return _DECIDING, tenant_id, kind


def read_deciding_policies(rows: Iterable[tuple[Any, ...]]) -> DecidingPolicies:
    """Read the version in force, and the one on canary beside it."""
    found: list[PolicyVersion] = [load_models(row, PolicyVersion)[0][0] for row in rows]
    in_force = next(row for row in found if row.active)
    return DecidingPolicies(in_force, next((row for row in found if row.canary is not None), None))


def release(tenant_id: UUID, release_id: UUID) -> Release | None:
    return Release.objects.filter(tenant_id=tenant_id, id=release_id).first()


def policy_versions_by_id(tenant_id: UUID, ids: Collection[UUID]) -> list[PolicyVersion]:
    return list(PolicyVersion.objects.filter(tenant_id=tenant_id, id__in=ids))


def releases_by_id(tenant_id: UUID, ids: Collection[UUID]) -> list[Release]:
    return list(Release.objects.filter(tenant_id=tenant_id, id__in=ids))


def open_release(tenant_id: UUID, kind: str, version: str, *, tool: str = "") -> Release | None:
    """The release of that version of a policy or contract which has not ended."""
    ended = ("WITHDRAWN", "STOPPED", "ROLLED_BACK", "PROMOTED")
    found = Release.objects.filter(tenant_id=tenant_id, kind=kind, tool=tool, version=version)
    return found.exclude(state__in=ended).first()


def releases(
    tenant_id: UUID, *, order: str = "-id", after: UUID | None = None, limit: int | None = None
) -> list[Release]:
    """Return the releases of a tenant, newest first, or in the order of a column; starting after the row `after`."""
    return page_in_order(Release.objects.filter(tenant_id=tenant_id), order, behind=after, limit=limit)


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


def systems_named(tenant_id: UUID, names: Collection[str]) -> dict[str, System]:
    """The registered ones of these systems, by name."""
    return {row.name: row for row in select(System, "tenant_id = $1 AND name = ANY($2)", tenant_id, list(names))}


def system_by_id(tenant_id: UUID, system_id: UUID) -> System | None:
    return fetch_one(System, "tenant_id = $1 AND id = $2", tenant_id, system_id)


def systems(tenant_id: UUID) -> list[System]:
    return select(System, "tenant_id = $1 ORDER BY name", tenant_id)


def policy_versions_by_digest(tenant_id: UUID, kind: str) -> dict[str, str]:
    """Return the names of every version of a kind of policy by digest, in the order in which they came in force."""
    found = PolicyVersion.objects.filter(tenant_id=tenant_id, kind=kind).order_by("created_at", "id")
    return dict(found.values_list("digest", "version"))


def first_classes(tenant_id: UUID) -> list[tuple[str, str, datetime]]:
    """(tool, side-effect class, when it was registered) of the first version of every tool's contract."""
    return execute(
        "SELECT DISTINCT ON (name) name, convert_from(document, 'UTF8')::jsonb ->> 'side_effect_class', registered_at"
        " FROM ledger_contractversion WHERE tenant_id = $1 ORDER BY name, id",
        tenant_id,
    )


def maintenance_in_force() -> Maintenance | None:
    """The maintenance that is under way, or None."""
    return Maintenance.objects.filter(ended_at__isnull=True).first()
