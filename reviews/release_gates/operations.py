"""Runs the gates of a release: each judges the draft, and its lines are stored as evidence.

RG-01 and RG-02 look at what was stored in the last `REPLAYED`; the others walk their scenarios (`rules.gates`). A draft
of one kind of policy is judged together with the version of the other kind that is in force, and a draft of a contract
with both. For a contract RG-01 does one thing more: in what was read of successes one thing after the other is made
wrong, and what the version in force finds of that, the draft must find.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
from django.db import DatabaseError

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import releases
from ledger.catalogue.operations.releases import GateResult
from ledger.catalogue.rules import policies
from ledger.catalogue.rules.contract import Contract, load_stored
from ledger.catalogue.rules.releases import CONTRACT, CanaryScope, NothingInForce, WrongStep, compare, required_gates
from ledger.db import tenancy
from ledger.record.operations import SYSTEM, Actor
from ledger.record.queries import evidence
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.canonical import parse
from ledger.record.rules.encryption import CannotOpen, EvidenceErased
from ledger.record.rules.entry import check_entry
from ledger.record.rules.record_schemas import check_schemas
from ledger.record.rules.refusals import NotFound, Refused
from reviews.observations.rules import observe
from reviews.reconciliation.rules.facts import ContractFacts
from reviews.recovery.rules import recovery_table
from reviews.release_gates import queries
from reviews.release_gates.rules import gates
from reviews.release_gates.rules.gates import GateLine
from reviews.release_gates.rules.scenarios import Draft
from reviews.replay import queries as replays
from reviews.replay.rules.replay import (
    ActionReplay,
    Judgement,
    RunReplay,
    StoredPolicy,
    StoredRun,
    judge_inputs,
    rebuild_inputs,
)

if TYPE_CHECKING:
    from ledger.models import Release

log = logging.getLogger(__name__)
REPLAYED = timedelta(days=30)
MOST_REPLAYED = 5000
MOST_LISTED = 200
MOST_PLANTED = 50
"""Successes of a tool in which differences are planted, the newest."""


def run_gates(
    *, tenant_id: UUID, release_id: UUID, changes: Sequence[Mapping[str, str]], by: Actor, at: datetime
) -> Release:
    """Run every gate but the canary, and store each result. `changes` are the places where the draft differs."""
    row = catalogue_queries.release(tenant_id, release_id)
    if row is None:
        raise NotFound("Release")
    if row.canary is not None or row.state not in ("DRAFT", "CHECKED"):
        raise WrongStep("The gates are run before the canary.")
    policies_in_force = catalogue_queries.active_policies(tenant_id)
    in_force = catalogue_queries.version_in_force(tenant_id, row.kind, row.tool)
    if in_force is None:
        raise NothingInForce
    draft = _draft(row, policies_in_force)
    replayed, touched = _replay(row, draft, at=at)
    results = [
        replayed,
        _difference(in_force.version, changes, touched),
        _gate_result("RG-04", gates.inject_failures(draft)),
        _gate_result("RG-05", gates.drill_recovery(draft)),
        _gate_result("RG-06", [*gates.check_new_entries(draft), *_check_stored(row)]),
        _gate_result("RG-07", [*gates.check_reports_before_verdict(draft), *gates.check_runbooks()]),
        _gate_result("RG-08", [*gates.repeat_unknown(draft), _repeat_block()]),
    ]
    wanted = required_gates(row.kind)
    return releases.record_gates(
        tenant_id=tenant_id,
        release_id=release_id,
        results=[each for each in results if each.gate in wanted],
        basis=in_force.digest,
        by=by,
        at=at,
    )


def _draft(row: Release, in_force: Mapping[str, Any]) -> Draft:
    contract = load_stored(bytes(row.document), expected_digest=row.digest) if row.kind == CONTRACT else None
    drafted = StoredPolicy(kind=row.kind, version=row.version, digest=row.digest, document=bytes(row.document))
    by_kind = {kind: drafted if kind == row.kind else in_force[kind] for kind in ("verification", "recovery")}
    return Draft(
        numbers=policies.verification_numbers(parse(bytes(by_kind["verification"].document))),
        recovery=recovery_table.parse_policy(bytes(by_kind["recovery"].document)),
        policies=tuple(by_kind.values()),
        contract=contract,
    )


def _gate_result(gate: str, lines: list[GateLine]) -> GateResult:
    passed, summary = gates.summary_of(lines)
    return GateResult(gate=gate, passed=passed, summary=summary, evidence={"lines": gates.as_document(lines)})


# RG-01 and RG-02


def _outcome(judged: Judgement) -> dict[str, str]:
    """Return the parts of a judgement that people rely on: its end, its class, and its consequence."""
    verdict = judged.verdict
    return {
        "ends_in": judged.ends_in,
        "result": str(verdict.get("result") or ""),
        "discrepancy": str(verdict.get("discrepancy") or ""),
        "recovery": str(judged.decision.get("action") or ""),
    }


def _replay(row: Release, draft: Draft, *, at: datetime) -> tuple[GateResult, list[dict[str, Any]]]:
    """RG-01, and the actions of the period whose outcome is another one under the draft."""
    under = {}
    if draft.contract is None:
        stored = StoredPolicy(kind=row.kind, version=row.version, digest=row.digest, document=bytes(row.document))
        under[row.kind] = stored
    found = replays.replay_period(row.tenant_id, since=at - REPLAYED, until=at, under=under, contract=draft.contract)
    actions = list(islice(found, MOST_REPLAYED))
    changed = [each for action in actions if (each := _first_change(action)) is not None]
    if draft.contract is not None:
        known = {each["action_id"] for each in changed}
        missed = _missed_faults(row, draft.contract, [each for each in actions if each.action_id not in known])
        changed += missed
    runs = sum(len(action.runs) for action in actions)
    without = sum(len(action.not_replayable) for action in actions)
    said = (
        f"Judged again: {_counted_words(len(actions), 'action')} of the last {REPLAYED.days} days in"
        f" {_counted_words(runs, 'run')}, {without} of them not replayable."
    )
    if changed:
        said += f" {_counted_words(len(changed), 'action')} changed, first {changed[0]['action_id']}."
    planted = sum("planted" in each for each in changed)
    if planted:
        said += f" In {planted} of these the draft misses a difference that the version in force finds."
    told = {"replayed": len(actions), "runs": runs, "not_replayable": without, "changed": changed[:MOST_LISTED]}
    result = GateResult(
        gate="RG-01", passed=not changed, summary=said, evidence=told | {"changed_in_all": len(changed)}
    )
    return result, changed


def _first_change(action: ActionReplay) -> dict[str, Any] | None:
    for run in action.runs:
        if run.recorded is None or run.replayed is None:
            continue
        before, after = _outcome(run.recorded), _outcome(run.replayed)
        if before != after:
            return {"action_id": action.action_id, "run": run.run.number, "recorded": before, "replayed": after}
    return None


def _missed_faults(row: Release, drafted: Contract, actions: Sequence[ActionReplay]) -> list[dict[str, Any]]:
    """The newest successes in which something wrong would be found under the contract in force, not under the draft."""
    in_force = catalogue_queries.contract_to_compare(row.tenant_id, row.tool)
    assert in_force is not None
    known = load_stored(bytes(in_force.document), expected_digest=in_force.digest)
    successes = [
        run for action in reversed(actions) for run in action.runs[-1:] if run.recorded is not None and _is_success(run)
    ]
    found = [_missed_fault(run.run, known, drafted) for run in successes[:MOST_PLANTED]]
    return [each for each in found if each is not None]


def _is_success(run: RunReplay) -> bool:
    return run.replayed is not None and run.replayed.verdict.get("result") == "SUCCESS"


def _missed_fault(run: StoredRun, contract: Contract, drafted: Contract) -> dict[str, Any] | None:
    """Return the first planted difference that the draft does not detect in a run, with both results."""
    before, after = rebuild_inputs(run, contract=contract), rebuild_inputs(run, contract=drafted)
    for (words, was), (_, now) in zip(gates.plant_differences(before), gates.plant_differences(after), strict=True):
        found, missed = judge_inputs(was), judge_inputs(now)
        if found.verdict.get("result") != "SUCCESS" and missed.verdict.get("result") == "SUCCESS":
            told = {"action_id": run.action_id, "run": run.number, "planted": words}
            return told | {"recorded": _outcome(found), "replayed": _outcome(missed)}
    return None


def _difference(version: str, changes: Sequence[Mapping[str, str]], touched: list[dict[str, Any]]) -> GateResult:
    """RG-02: never passed automatically; a person signs it."""
    differ = "differs" if len(changes) == 1 else "differ"
    said = (
        f"{_counted_words(len(changes), 'place')} {differ} from version {version};"
        f" {_counted_words(len(touched), 'action')} of the last {REPLAYED.days} days would end otherwise."
        " A person who did not draft it must sign."
    )
    ids = [each["action_id"] for each in touched[:MOST_LISTED]]
    told = {"compared_with": version, "changes": [dict(each) for each in changes], "actions": ids}
    return GateResult(gate="RG-02", passed=False, summary=said, evidence=told)


def _counted_words(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


# RG-06 and RG-08, where they look at what is stored


def _check_stored(row: Release) -> list[GateLine]:
    """Stored entries fit the ledger schema, stored answers the observation schema, stored versions their parser."""
    tenant_id, kind = row.tenant_id, row.kind
    entries = queries.stored_entries(tenant_id)
    lines = [
        _count_line("stored entries", "each fits the ledger schema", [_fault(check_entry, each) for each in entries])
    ]
    answers = [_answer_fault(tenant_id, *each) for each in queries.observation_pointers(tenant_id)]
    lines.append(_count_line("stored answers of tools", "each is read as the observation schema says", answers))
    if kind == CONTRACT:
        contracts = catalogue_queries.contract_versions_of(tenant_id, row.tool)
        faults = [_fault(_load, (bytes(each.document), each.digest)) for each in contracts]
        return [*lines, _count_line(f"stored versions of the contract of {row.tool}", "each is still read", faults)]
    if kind == "verification":
        lines.append(_count_line("the schemas that the draft names", "this program writes them", [_schema_fault(row)]))
    versions = catalogue_queries.policy_versions(tenant_id, kind)
    faults = [_fault(_parse, (kind, bytes(each.document))) for each in versions]
    return [*lines, _count_line(f"stored versions of the {kind} policy", "each is still read", faults)]


def _schema_fault(row: Release) -> str:
    """The fault of the schemas of the record that a draft names, if this program cannot write one (R-RG-10)."""
    return _fault(check_schemas, parse(bytes(row.document)).get("schemas"))


def _count_line(tried: str, wanted: str, faults: list[str]) -> GateLine:
    bad = [each for each in faults if each]
    found = f"{len(bad)} of {len(faults)} do not: {bad[0]}" if bad else f"all {len(faults)} do"
    return GateLine(tried=tried, wanted=wanted, found=found, passed=not bad)


def _fault(check: Any, value: Any) -> str:
    try:
        check(value)
    except Refused as fault:
        return fault.detail
    except (KeyError, ValueError, TypeError) as fault:
        return f"{type(fault).__name__}: {fault}"
    return ""


def _parse(given: tuple[str, bytes]) -> None:
    kind, document = given
    if kind == "verification":
        policies.verification_numbers(parse(document))
    else:
        recovery_table.parse_policy(document)


def _load(given: tuple[bytes, str]) -> None:
    document, digest = given
    ContractFacts.of(load_stored(document, expected_digest=digest))


def _answer_fault(tenant_id: UUID, pointer: UUID, tool: str) -> str:
    try:
        document = orjson.loads(evidence.open_evidence_many(tenant_id, [pointer])[pointer])
    except (EvidenceErased, CannotOpen, KeyError):
        return ""
    return _fault(lambda each: observe.parse_result(each.get("result"), tool=tool), document)


def _repeat_block() -> GateLine:
    fault = queries.repeat_block_fault()
    wanted = "a unique index of the database refuses a second open mutation"
    return GateLine(tried="the duplicate block", wanted=wanted, found=fault or "it does", passed=not fault)


# RG-03


def judge_canary(*, tenant_id: UUID, release_id: UUID, by: Actor, at: datetime) -> Release:
    """Judge a canary by its current figures: stop it if they are worse, pass it if enough has been seen."""
    row = catalogue_queries.release(tenant_id, release_id)
    if row is None:
        raise NotFound("Release")
    if row.canary is None or row.state not in ("CANARY", "READY"):
        raise WrongStep("The release is not on canary.")
    scope = CanaryScope.of(row.canary)
    inside, beside = queries.canary_figures(tenant_id, scope, until=at)
    verdict = compare(scope, inside, beside)
    told = {"scope": scope.document(), "canary": asdict(inside), "beside": asdict(beside), "said": verdict.summary}
    return releases.judge_canary(
        tenant_id=tenant_id, release_id=release_id, verdict=verdict, evidence=told, by=by, at=at
    )


def watch_canaries(*, at: datetime) -> int:
    """Judge every canary of every tenant; return the number stopped or passed. What a crash left out comes next."""
    moved = 0
    for tenant_id in tenants_with(Work.CANARIES):
        try:
            with tenancy(tenant_id):
                for row in catalogue_queries.canaries(tenant_id):
                    before = row.state
                    moved += judge_canary(tenant_id=tenant_id, release_id=row.id, by=SYSTEM, at=at).state != before
        except (DatabaseError, Refused):
            log.exception("the canaries of the tenant %s were not judged", tenant_id)
    return moved
