"""Dry runs: a contract's lookup is tried on the real system before the contract is registered.

The check, the credential and the limits are those of a reading, and no reading is counted. For a system that is
described as data, a dry run that passed is put on record: from then on its readings may settle actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import registration
from ledger.catalogue.rules import contract as contracts
from ledger.record import operations as ledger
from ledger.record.queries import events
from reviews.checks.catalogue import described_system
from reviews.readback.operations.connections import Question, ask_system, made_up_bindings
from reviews.readback.operations.plans import system_access
from reviews.readback.rules.dry_runs import Sample, dry_run_findings

if TYPE_CHECKING:
    from ledger.catalogue.rules.contract import Contract, Source, Verification
    from ledger.models import System


@dataclass(frozen=True, kw_only=True)
class DryRunFinding:
    """A reason why a dry run is no pass: the place in the document, and the words."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """The findings of a dry run, none means that it passed; and the systems in which it found the present effect and
    missed the absent one.
    """

    findings: tuple[DryRunFinding, ...] = ()
    proven: tuple[str, ...] = ()


def try_lookup(tenant_id: UUID, contract: Contract, *, at: datetime) -> DryRun:
    """Read every source with both samples."""
    if contract.verification is None or not contract.dry_run:
        return DryRun()
    slug = events.tenant_by_id(tenant_id).slug
    sources: list[Verification | Source] = [contract.verification, *contract.verification.further]
    tried = [
        (sample, source.system, *_read_sample(tenant_id, slug, contract, source, sample, at=at))
        for source in sources
        for sample in Sample
    ]
    return DryRun(
        findings=tuple(
            DryRunFinding(path=f"/dry_run/{sample}", text=f"{system}: {text}")
            for sample, system, texts, _ in tried
            for text in texts
        ),
        proven=tuple(
            name
            for name in dict.fromkeys(system for _, system, _, _ in tried)
            if all(not texts and asked for _, system, texts, asked in tried if system == name)
        ),
    )


def record_tries(tenant_id: UUID, contract: Contract, run: DryRun, *, by: ledger.Actor, at: datetime) -> None:
    """Record for each described system in which the run proved the lookup that its description was tried."""
    for row in catalogue_queries.systems_named(tenant_id, run.proven).values():
        description = described_system(row.pattern)
        if description is not None and row.tried != description.digest:
            registration.record_tried_description(
                tenant_id=tenant_id,
                system_id=row.id,
                digest=description.digest,
                contract=(contract.name, contract.version),
                actor=by,
                at=at,
            )


def try_contracts_of(tenant_id: UUID, system: System, *, by: ledger.Actor, at: datetime) -> tuple[DryRunFinding, ...]:
    """Try a system whose description was not tried, with the samples of the contracts in force that name it; return
    the findings, none if one of them passed or there is nothing to try.
    """
    description = described_system(system.pattern)
    if description is None or system.tried == description.digest:
        return ()
    findings: tuple[DryRunFinding, ...] = ()
    for tool in dict(catalogue_queries.versions_by_system(tenant_id).get(system.name, [])):
        row = catalogue_queries.contract_to_compare(tenant_id, tool)
        assert row is not None
        contract = contracts.load_stored(bytes(row.document), expected_digest=row.digest)
        run = try_lookup(tenant_id, contract, at=at)
        if system.name in run.proven:
            record_tries(tenant_id, contract, run, by=by, at=at)
            return ()
        findings += run.findings
    return findings


def _read_sample(
    tenant_id: UUID, slug: str, contract: Contract, source: Verification | Source, sample: Sample, *, at: datetime
) -> tuple[list[str], tuple[str, ...]]:
    """The findings of one reading, and the effects that it was asked about."""
    access, missing = system_access(tenant_id, slug, source.system)
    if access is None:
        return [f"Not read. {missing}"], ()
    described = described_system(access.pattern)
    if described is not None:
        # A dry run is how a description comes to be trusted, so it is judged by what the system itself answers.
        access = replace(access, tried=described.digest)
    call: Mapping[str, Any] = contract.dry_run[sample]
    target = contract.render_target(call["arguments"])
    bindings = made_up_bindings(slug, contract.arguments_schema, at=at)
    bindings["sr"] = dict(call["arguments"])
    bindings["scope"] |= {"target": target} | {name: call[name] for name in call if name != "arguments"}
    question = Question(
        contract=(contract.name, contract.version), pattern=source.pattern, document=source.document, bindings=bindings
    )
    reading, failure = ask_system(access, question, at=at)
    if reading is None:
        return [f"Not read. {failure}"], ()
    # A further source need not know every effect.
    is_primary = source is contract.verification
    required = tuple(name for name in contract.required_effects if is_primary or reading.tells_of(name))
    findings = dry_run_findings(
        sample,
        reading,
        bindings=bindings,
        required=required,
        asked=source.predicates,
        target_resource=target,
    )
    return list(findings), required
