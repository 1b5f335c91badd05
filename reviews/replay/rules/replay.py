"""Replay: judge a verification run again from its stored evidence (R-RC-14, R-LE-15, R-RG-13).

What a run's evidence holds is enough to rebuild its `RunInputs`: the readings as they came, the layers that expressions
saw, and its circumstances (`run_circumstances`). The entry that it began with, the contract and the two policies that
judged it stand elsewhere in the record and are given beside it, as one `StoredRun`.

1. `replay_run(run)` judges by the policies of its time. Its answer is the recorded one, unless the rules have changed.
2. `replay_run(run, under={"recovery": other})` judges the same readings by another version, or by a draft. `contract`
   does the same for a contract.
3. Each run is judged on its own, from what was known when it began: a policy that polls at other times would have made
   other readings, and nobody can tell what they would have shown.
4. A run whose evidence lacks anything is not replayable, and the answer says why. Nothing is guessed.
5. The idempotency key is a secret: wherever it stood, evidence says "(idempotency key)". It stands so in all layers, so
   whatever was equal to it still is.
6. Which digest the rows of the table have is no part of the comparison: rows differ where they decide otherwise.
7. A late second look (`circumstances.recheck`) asks no recovery table: only its verdict is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.policies import BadPolicy, DecidingPolicy, check_policy, verification_numbers
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.lifecycle import State
from reviews.cases.rules.resolutions import RECHECKED
from reviews.observations.rules.observe import ParsedObservation, ReportedStatus
from reviews.reconciliation.rules.difference import read_difference
from reviews.reconciliation.rules.facts import (
    AnswerFacts,
    ContractFacts,
    NamedOrigin,
    ReadFailure,
    ReadPacing,
    RunInputs,
    added_predicates,
)
from reviews.reconciliation.rules.reading import parse_reading, to_json_default
from reviews.reconciliation.rules.reconcile import reconcile
from reviews.recovery.rules import recovery_table, retries
from reviews.recovery.rules.recovery_table import RecoveryPolicy, RecoveryRow
from reviews.verification.rules.verification import judge_run

JUDGING = ("verification", "recovery")
"""The kinds of policy that judge a run, in the order in which they are asked."""


class NotReplayable(Exception):
    """The stored evidence of a run is not enough to judge it again; the text says what is missing."""


@dataclass(frozen=True, kw_only=True)
class StoredPolicy:
    """A version of a policy as bytes, from any store; a draft's version is the name that its author gave it."""

    kind: str
    version: str
    digest: str
    document: bytes


def draft_policy(kind: str, document: Mapping[str, Any]) -> StoredPolicy:
    """Return a document that is not a version yet as a policy to judge by; raise `BadPolicy` if it could
    never be one.
    """
    named = {"version": "draft", **document}
    if kind not in JUDGING:
        raise BadPolicy(f"A run is judged by a {' or a '.join(JUDGING)} policy, not by one of the kind {kind:.40}.")
    check_policy(kind, named)
    faults = recovery_table.policy_faults(named) if kind == "recovery" else []
    if faults:
        raise BadPolicy(errors=faults)
    data = canonical(named)
    return StoredPolicy(kind=kind, version=str(named["version"]), digest=digest(data), document=data)


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One verification run as the record, or a bundle, keeps it.

    `evidence` is the document behind its pointer, `entry` the action's entry that it began with, `contract` the one
    that it was proposed under, `policies` those of the run's time by kind. What could not be found is None or left out,
    and `missing` says why. `recovery_rows` are rows of recovery tables by their digest, where they came along: they
    stand in for a built-in table that this release no longer has.
    """

    action_id: str
    number: int
    pointer: str
    at: datetime
    evidence: Mapping[str, Any] | None
    entry: Mapping[str, Any] | None
    contract: Contract | None
    policies: Mapping[str, DecidingPolicy]
    missing: str = ""
    recovery_rows: Mapping[str, tuple[RecoveryRow, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One judgement of a run in the form of its evidence: verdict and decision in full, the steps in their order."""

    verdict: Mapping[str, Any]
    decision: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...]
    began_in: str

    @property
    def ends_in(self) -> str:
        """The state after the run."""
        return str(self.steps[-1]["state"]) if self.steps else self.began_in

    @property
    def recovery(self) -> str:
        """The row and action of the recovery table; empty if it was not consulted."""
        row, action = self.decision.get("row"), self.decision.get("action")
        return f"{row} {action}" if row else ""

    @property
    def held(self) -> bool:
        """True if a person must decide before anything else happens."""
        return self.ends_in == State.REVIEW_REQUIRED or bool(self.decision.get("case"))


@dataclass(frozen=True, kw_only=True)
class ReplayDifference:
    """One part that differs: `verdict.result`, `decision.row`, `steps`, with both values."""

    part: str
    recorded: Any
    replayed: Any


@dataclass(frozen=True, kw_only=True)
class RunReplay:
    """A run judged again, with the recorded result; `replayed` is None if that is impossible, with the reason.

    `under` are the versions that judged it this time, by kind.
    """

    run: StoredRun
    recorded: Judgement | None
    replayed: Judgement | None
    under: Mapping[str, str]
    differences: tuple[ReplayDifference, ...] = ()
    not_replayable: str = ""

    @property
    def same(self) -> bool:
        """Return whether it was judged again with the recorded result."""
        return self.replayed is not None and not self.differences


@dataclass(frozen=True, kw_only=True)
class ActionReplay:
    """All runs of one action, judged again in their order."""

    action_id: str
    runs: tuple[RunReplay, ...]

    @property
    def differing(self) -> tuple[RunReplay, ...]:
        """The runs whose repeated judgement differs."""
        return tuple(each for each in self.runs if each.differences)

    @property
    def not_replayable(self) -> tuple[RunReplay, ...]:
        """The runs that could not be judged again."""
        return tuple(each for each in self.runs if each.not_replayable)

    @property
    def same(self) -> bool:
        """Return whether every run was judged again with the recorded result; true for an action without runs."""
        return all(each.same for each in self.runs)


def run_circumstances(
    inputs: RunInputs, *, seq: int, contract: str, lookup: str = "", policies: Iterable[DecidingPolicy]
) -> dict[str, Any]:
    """The circumstances that a run's evidence must hold, beside readings and layers, for `rebuild_inputs`.

    `seq` is the action's last event before the run: its entry is the one that the run began with. `lookup` is the
    digest of the version that has lent its lookup.
    """
    return {
        **({"lookup": lookup} if lookup else {}),
        "state": inputs.state,
        "seq": seq,
        "recheck": inputs.state in RECHECKED,
        "at": inputs.at,
        # The deadline follows from the policy: this is what it is counted from.
        "opened_at": inputs.sla_at - timedelta(seconds=inputs.facts.polling.sla_s),
        "target": inputs.target_resource,
        "attempts": inputs.attempts,
        "seed": inputs.seed,
        "observation": inputs.observation,
        "baseline": inputs.baseline,
        "doubts": inputs.doubts,
        "idempotency_status": inputs.idempotency_status,
        "bound_to": inputs.bound_to,
        "query_pointer": inputs.query_pointer,
        "state_pointer": inputs.state_pointer,
        "pivot_committed": inputs.pivot_committed,
        "recovery_tools": {name: sorted(arguments) for name, arguments in inputs.recovery_tools.items()},
        "unwinding": inputs.unwinding,
        "is_remedy": inputs.is_remedy,
        "brought": sorted(inputs.brought),
        **({"corrected": inputs.corrected.as_json()} if inputs.corrected else {}),
        "pacing": inputs.pacing,
        "answer": inputs.answer,
        "contract": contract,
        "policies": {each.kind: {"version": each.version, "digest": each.digest} for each in policies},
        "recovery_rows": inputs.policy.digest,
    }


def replay_run(
    run: StoredRun, *, under: Mapping[str, DecidingPolicy] | None = None, contract: Contract | None = None
) -> RunReplay:
    """Judge the run again by the policies and the contract of its time, or by those given instead."""
    under = under or {}
    policies = {kind: under.get(kind) or run.policies.get(kind) for kind in JUDGING}
    versions = {kind: each.version for kind, each in policies.items() if each is not None}
    recorded = _recorded_judgement(run)
    try:
        inputs = rebuild_inputs(run, under=under, contract=contract)
    except NotReplayable as problem:
        return RunReplay(run=run, recorded=recorded, replayed=None, under=versions, not_replayable=str(problem))
    replayed = judge_inputs(inputs)
    assert recorded is not None
    return RunReplay(
        run=run, recorded=recorded, replayed=replayed, under=versions, differences=_differences(recorded, replayed)
    )


def rebuild_inputs(
    run: StoredRun, *, under: Mapping[str, DecidingPolicy] | None = None, contract: Contract | None = None
) -> RunInputs:
    """Return the inputs of a stored run, with those given instead; raise `NotReplayable` if that is impossible."""
    under = under or {}
    evidence, entry, contract, given = _parts(run, contract)
    verification = under.get("verification") or _policy(run, given, "verification")
    facts = ContractFacts.of(contract, verification_numbers(orjson.loads(bytes(verification.document))))
    recovery = _recovery_policy(run, given, under.get("recovery"))
    layers = evidence["layers"]
    return RunInputs(
        state=State(given["state"]),
        facts=facts,
        entry=entry,
        target_resource=given["target"],
        horizon_at=_parse_time(evidence["horizon_at"]),
        sla_at=_parse_time(given["opened_at"]) + timedelta(seconds=facts.polling.sla_s),
        at=_parse_time(given["at"]),
        attempts=given["attempts"],
        seed=given["seed"],
        si=layers["si"],
        sr=layers["sr"],
        scope=layers["scope"],
        observation=_observation(given["observation"]),
        baseline=parse_reading(given["baseline"]) if given["baseline"] is not None else None,
        readings=tuple(map(parse_reading, evidence["readings"])),
        failure=_failure(evidence["failure"]) if evidence["failure"] is not None else None,
        silent=tuple(map(_failure, evidence["silent"])),
        doubts=given["doubts"],
        # What the agent laid on top is beside the contract of its time, whichever contract judges now.
        added_predicates=added_predicates(run.contract or contract, entry),
        idempotency_status=given["idempotency_status"],
        bound_to=given["bound_to"],
        query_pointer=given["query_pointer"],
        state_pointer=given["state_pointer"],
        pivot_committed=given["pivot_committed"],
        retry_safe=retries.may_retry(facts, entry, recovery, request_hash=given["bound_to"]),
        policy=recovery,
        recovery_tools={name: frozenset(arguments) for name, arguments in given["recovery_tools"].items()},
        unwinding=given["unwinding"],
        is_remedy=given["is_remedy"],
        brought=frozenset(given["brought"]),
        corrected=read_difference(given["corrected"]) if given.get("corrected") else None,
        pacing=_pacing(given["pacing"]),
        answer=_answer(given["answer"]),
    )


def _parts(
    run: StoredRun, instead: Contract | None
) -> tuple[Mapping[str, Any], Mapping[str, Any], Contract, Mapping[str, Any]]:
    if run.evidence is None:
        raise NotReplayable(run.missing or "Its evidence is not there.")
    given = run.evidence.get("circumstances")
    if given is None:
        raise NotReplayable("Its evidence was stored before circumstances were kept with it.")
    if given["unfit"]:
        raise NotReplayable(f"A reading held values that evidence does not keep exactly: {', '.join(given['unfit'])}.")
    if run.entry is None:
        raise NotReplayable(run.missing or "The entry that it began with is not there.")
    contract = instead or run.contract
    if contract is None:
        raise NotReplayable("The contract that it was judged by is not there.")
    return run.evidence, run.entry, contract, given


def _policy(run: StoredRun, given: Mapping[str, Any], kind: str) -> DecidingPolicy:
    """The policy of the run's time."""
    named, found = given["policies"].get(kind), run.policies.get(kind)
    if named is None:
        raise NotReplayable(f"Its evidence names no {kind} policy.")
    if found is None or found.digest != named["digest"]:
        raise NotReplayable(f"Version {named['version']} of the {kind} policy, which judged it, is not there.")
    return found


def _recovery_policy(run: StoredRun, given: Mapping[str, Any], instead: DecidingPolicy | None) -> RecoveryPolicy:
    if instead is not None:
        return recovery_table.parse_policy(bytes(instead.document))
    if given["recheck"]:
        return recovery_table.BUILT_IN
    policy, rows = recovery_table.parse_policy(bytes(_policy(run, given, "recovery").document)), given["recovery_rows"]
    if policy.digest == rows:
        return policy
    if rows not in run.recovery_rows:
        raise NotReplayable("The built-in recovery table that decided then is not the one of this release.")
    return replace(policy, rows=run.recovery_rows[rows], digest=rows, _matched={})


def judge_inputs(inputs: RunInputs) -> Judgement:
    """Judge these inputs by the rules, in the form of evidence."""
    if inputs.state in RECHECKED:
        return _build_judgement({"verdict": reconcile(inputs), "decision": {}, "steps": []}, began_in=inputs.state)
    outcome = judge_run(inputs)
    return _build_judgement(
        {
            "verdict": outcome.verdict,
            "decision": outcome.decision,
            "steps": [{"state": step.state, "kind": step.kind, "reason": step.reason} for step in outcome.steps],
        },
        began_in=inputs.state,
    )


def _recorded_judgement(run: StoredRun) -> Judgement | None:
    if run.evidence is None:
        return None
    given = run.evidence.get("circumstances", {})
    parts = {name: run.evidence[name] for name in ("verdict", "decision", "steps")}
    return _build_judgement(parts | ({"decision": {}} if given.get("recheck") else {}), began_in=given.get("state", ""))


def _build_judgement(parts: Mapping[str, Any], *, began_in: str) -> Judgement:
    """Build the judgement in the form of evidence, so that both sides are compared in one form."""
    plain = orjson.loads(orjson.dumps(parts, default=to_json_default))
    return Judgement(
        verdict=plain["verdict"], decision=plain["decision"], steps=tuple(plain["steps"]), began_in=str(began_in)
    )


def _differences(recorded: Judgement, replayed: Judgement) -> tuple[ReplayDifference, ...]:
    found = [
        ReplayDifference(part=f"{name}.{key}", recorded=before.get(key), replayed=after.get(key))
        for name, before, after in (
            ("verdict", recorded.verdict, replayed.verdict),
            ("decision", recorded.decision, replayed.decision),
        )
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key) and key != "table"
    ]
    if recorded.steps != replayed.steps:
        found.append(ReplayDifference(part="steps", recorded=recorded.steps, replayed=replayed.steps))
    return tuple(found)


def _parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _failure(document: Mapping[str, Any]) -> ReadFailure:
    return ReadFailure(**{**document, "indicators": tuple(document["indicators"])})


def _observation(document: Mapping[str, Any] | None) -> ParsedObservation | None:
    if document is None:
        return None
    lists = {name: tuple(document[name]) for name in ("side_effects", "sub_results")}
    return ParsedObservation(**{**document, **lists, "status": ReportedStatus(document["status"])})


def _pacing(document: Mapping[str, Any]) -> ReadPacing:
    until = document["not_before"]
    return ReadPacing(**{**document, "not_before": _parse_time(until) if until is not None else None})


def _answer(document: Mapping[str, Any] | None) -> AnswerFacts | None:
    if document is None:
        return None
    origin = {name: NamedOrigin(**field) for name, field in document.get("origin", {}).items()}
    return AnswerFacts(**{**document, "executor_tools": tuple(document["executor_tools"]), "origin": origin})
