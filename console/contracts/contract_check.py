"""A contract document against everything that is known here: its shape, its predicates, and the check of its pattern.

Checking a document needs no database and no installation, so that an author can ask before anything is registered;
what depends on the tenant imports its queries where it is asked.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from console.actions import predicates
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.lint import LintFinding, find_unregistered
from ledger.catalogue.rules.releases import verification_changes
from ledger.catalogue.rules.weakenings import weakenings
from reviews.checks import catalogue

if TYPE_CHECKING:
    from reviews.readback.operations.dry_runs import DryRun


def validate_contract(document: dict[str, Any]) -> Contract:
    """The contract that a document makes, with its findings; `BadContract` names every fault."""
    return contracts.validate(
        document,
        compile_predicate=lambda text: predicates.predicate_fault(text, predicate_variables(document)),
        check_verification=_verification_faults,
        compile_for=lambda source, text: predicates.predicate_fault(
            text, predicates.typed_variables(document["arguments_schema"], source)
        ),
    )


def current_findings(contract: Contract, systems: Collection[str]) -> tuple[LintFinding, ...]:
    """The findings of a contract, including those that depend on the systems registered now."""
    return (*contract.findings, *find_unregistered(_systems_of(contract), systems))


def weakening_findings(tenant_id: UUID, contract: Contract) -> tuple[LintFinding, ...]:
    """The weakenings of a document compared with its tool's version in force, or the last one, as findings."""
    from ledger.catalogue import queries as catalogue_queries

    before = catalogue_queries.contract_to_compare(tenant_id, contract.name)
    if before is None:
        return ()
    known = contracts.load_stored(bytes(before.document), expected_digest=before.digest)
    follows = "waits for a second person once it is sent"
    if verification_changes(contracts.read(known.document), contracts.read(contract.document)):
        follows = "changes what is verified and needs a release"
    fix = f"It {follows}; it is compared with version {known.version}."
    return tuple(LintFinding(each.code, each.path, each.text, fix) for each in weakenings(known, contract))


def check_sources(tenant_id: UUID, contract: Contract) -> None:
    """Refuse a critical contract whose sources are one system under two names, as far as that is known by now.

    What is not registered yet, or is changed later, is judged again by each verification run.
    """
    from ledger.record.queries import events
    from reviews.readback.operations.origins import same_sources

    needs_several = contract.side_effect_class is SideEffectClass.CRITICAL_MUTATION
    if contract.verification is None or not needs_several or contract.unverifiable_acknowledged:
        return
    slug = events.tenant_by_id(tenant_id).slug
    faults = list(same_sources(tenant_id, slug, contract.verification))
    if faults:
        raise contracts.BadContract(
            errors=[{"path": "/verification/sources", "code": "SAME_SOURCE", "detail": each} for each in faults]
        )


def check_dry_run(tenant_id: UUID, contract: Contract, *, at: datetime) -> DryRun:
    """Refuse a contract whose lookup does not find what is there, finds what is not, or could not be tried; return what
    was tried.

    A version that is registered already is not tried again. Without samples nothing is tried, unless a system that the
    contract names wants a dry run.
    """
    from ledger.catalogue import queries as catalogue_queries
    from reviews.readback.operations import dry_runs

    known = catalogue_queries.contract_version(tenant_id, contract.name, contract.version)
    if known is not None and known.digest == contract.digest:
        return dry_runs.DryRun()
    named = {system for _, system in _systems_of(contract)}
    strict = [each.name for each in catalogue_queries.systems(tenant_id) if each.settings.get("dry_run") == "required"]
    wanting = sorted(named & set(strict))
    if wanting and not contract.dry_run:
        said = f"{', '.join(wanting)} takes no contract without a dry run."
        said += " Name a call whose effect is there (`present`) and one whose effect is not (`absent`)."
        raise contracts.BadContract(errors=[{"path": "/dry_run", "code": "DRY_RUN_REQUIRED", "detail": said}])
    run = dry_runs.try_lookup(tenant_id, contract, at=at)
    if run.findings:
        raise contracts.BadContract(
            errors=[{"path": each.path, "code": "DRY_RUN_FAILED", "detail": each.text} for each in run.findings]
        )
    return run


def registered_systems(tenant_id: UUID) -> frozenset[str]:
    """The names of the systems that a tenant has registered."""
    from ledger.catalogue import queries as catalogue_queries

    return frozenset(each.name for each in catalogue_queries.systems(tenant_id))


def _systems_of(contract: Contract) -> list[tuple[str, str]]:
    if contract.verification is None:
        return []
    further = [("/verification/sources", each.system) for each in contract.verification.further]
    return [("/verification/system", contract.verification.system), *further]


def predicate_variables(document: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that the predicates of a document may use."""
    return predicates.typed_variables(document["arguments_schema"], document.get("verification"))


def _verification_faults(verification: dict[str, Any]) -> list[str]:
    return catalogue.check_for(verification["pattern"]).validate(verification)


_NOTHING = object()


def diff_documents(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every difference of two documents: its path, the value before and the value now."""
    return [
        {"path": path or "/", "before": _text(before), "after": _text(after)}
        for path, before, after in _differences("", old, new)
    ]


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted(old.keys() | new.keys()):
            step = name.replace("~", "~0").replace("/", "~1")
            yield from _differences(f"{path}/{step}", old.get(name, _NOTHING), new.get(name, _NOTHING))
    # 1 and true are equal in Python and not in JSON.
    elif old != new or type(old) is not type(new):
        yield path, old, new


def _text(value: Any) -> str:
    return "" if value is _NOTHING else json.dumps(value, ensure_ascii=False, sort_keys=True)
