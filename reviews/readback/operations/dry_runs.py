"""Dry runs: a contract's lookup is tried on the real system before the contract is registered.

The check, the credential and the limits are those of a reading. Nothing is written, and no reading is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.record.queries import events
from reviews.readback.operations.connections import Question, ask_system, made_up_bindings
from reviews.readback.operations.plans import system_access
from reviews.readback.rules.dry_runs import Sample, dry_run_findings

if TYPE_CHECKING:
    from ledger.catalogue.rules.contract import Contract, Source, Verification


@dataclass(frozen=True, kw_only=True)
class DryRunFinding:
    """A reason why a dry run is no pass: the place in the document, and the words."""

    path: str
    text: str


def try_lookup(tenant_id: UUID, contract: Contract, *, at: datetime) -> tuple[DryRunFinding, ...]:
    """The findings of a dry run of every source with both samples; none means that it passed."""
    if contract.verification is None or not contract.dry_run:
        return ()
    slug = events.tenant_by_id(tenant_id).slug
    sources: list[Verification | Source] = [contract.verification, *contract.verification.further]
    return tuple(
        DryRunFinding(path=f"/dry_run/{sample}", text=f"{source.system}: {text}")
        for source in sources
        for sample in Sample
        for text in _read_sample(tenant_id, slug, contract, source, sample, at=at)
    )


def _read_sample(
    tenant_id: UUID, slug: str, contract: Contract, source: Verification | Source, sample: Sample, *, at: datetime
) -> list[str]:
    access, missing = system_access(tenant_id, slug, source.system)
    if access is None:
        return [f"Not read. {missing}"]
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
        return [f"Not read. {failure}"]
    # A further source need not know every effect.
    is_primary = source is contract.verification
    required = tuple(name for name in contract.required_effects if is_primary or reading.tells_of(name))
    return list(
        dry_run_findings(
            sample,
            reading,
            bindings=bindings,
            required=required,
            asked=source.predicates,
            target_resource=target,
        )
    )
