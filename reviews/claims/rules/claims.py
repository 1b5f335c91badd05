"""Claims: what somebody says was done outside of the gate, verified by reading the system of record.

1. A claim names a system, an operation or a target, and the fields that are expected there. From these follows a
   contract of its own, and from then on it is read and judged as an action of that contract is (`reconcile`).
2. The claim is itself the report of success that a reading bears out or not: what is not there was claimed.
3. Only a decisive reading verifies or refutes it. One that settles nothing leaves it as it is; at the end of the SLA,
   or where nobody can look, an open claim is left UNKNOWN.
4. It is read again after an hour, a day and a week. A later decisive reading outweighs an earlier one (late truth).
5. It is safe to claim only while it stands as VERIFIED. Approval, executor, repeats: an ungated claim has none of these
   checks, and none is made up (`ContractFacts.depth` is left out).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.policies import VerificationNumbers
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import Outcome
from ledger.record.rules.refusals import Refused
from reviews.observations.rules import observe
from reviews.observations.rules.observe import ParsedObservation, ReportedStatus
from reviews.readback.rules import schedule
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.facts import ContractFacts, ReadFailure, ReadPacing, RunInputs
from reviews.reconciliation.rules.reading import Reading
from reviews.reconciliation.rules.shown import WITHOUT_VALUES, Shown, describe_difference, shown_by
from reviews.reconciliation.rules.verdict import MAX_ATTEMPTS, Verdict, VerificationResult, waiting_deadline

CLASS: Final = SideEffectClass.HIGH_RISK_EXTERNAL
"""An ungated effect is as grave as one that people must always approve."""
SETTLE_S: Final = 5
RECHECK_AFTER: Final = ("PT1H", "P1D", "P1W")
SAID: Final = ParsedObservation(status=ReportedStatus.SUCCESS)
"""Rule 2: whoever claims it reports success."""
_FIELD: Final = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*){0,3}")


class ClaimState(StrEnum):
    """The states of a claim."""

    OPEN = "OPEN"
    VERIFIED = "VERIFIED"
    DIFFERENT = "DIFFERENT"
    ABSENT = "ABSENT"
    UNKNOWN = "UNKNOWN"


class NotLocated(Refused):
    """Nothing says where the system would show this: name its operation, a target that it knows, or the lookup."""

    code = "NOT_LOCATED"
    status = 422


class NothingExpected(Refused):
    """A claim names at least one field and the value that it should have."""

    code = "NOTHING_EXPECTED"
    status = 422


class BadExpectation(Refused):
    """A field that is expected is not one that this system shows."""

    code = "BAD_EXPECTATION"
    status = 422


@dataclass(frozen=True, kw_only=True)
class ClaimRequest:
    """A claim as it was made: the effect on a target by an operation, the fields expected of it, and who said so.

    `lookup` is one effect of a contract's lookup; without it the check of the system's pattern says how these are
    found. An effect that is not there within `settle_s` of the claim is absent.
    """

    system: str
    effect: str
    said_by: str
    operation: str = ""
    target: str = ""
    expected: Mapping[str, str | int | bool] = field(default_factory=dict)
    lookup: Mapping[str, Any] | None = None
    statement: str = ""
    done_at: datetime | None = None
    settle_s: int = SETTLE_S

    def document(self) -> dict[str, Any]:
        """All of it as JSON, for the evidence."""
        named = {name: getattr(self, name) for name in ("system", "effect", "said_by", "operation", "target")}
        said = {"expected": dict(self.expected), "lookup": self.lookup and dict(self.lookup)}
        times = {"done_at": instant(self.done_at) if self.done_at else None, "settle_s": self.settle_s}
        return {**named, **said, **times, "statement": self.statement}


def read_request(document: Mapping[str, Any]) -> ClaimRequest:
    """The request in its document."""
    done_at = document["done_at"]
    return ClaimRequest(**{**document, "done_at": datetime.fromisoformat(done_at) if done_at else None})


def claim_contract(claim: ClaimRequest, *, pattern: str) -> Contract:
    """The contract that a claim is read and judged by (rule 1); its lookup must be known by now."""
    document = {
        "name": "claim",
        "version": "1",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": "An effect that somebody says they brought about outside of the gate.",
        "arguments_schema": {"type": "object"},
        "side_effect_class": str(CLASS),
        "target_resource": "claim",
        "verification": {
            "pattern": pattern,
            "system": claim.system,
            "lookup": {"effects": {claim.effect: claim.lookup}},
            "predicates": [_predicate(name, value) for name, value in claim.expected.items()],
            "settle_s": claim.settle_s,
            "recheck_after": list(RECHECK_AFTER),
        },
    }
    return contracts.parse_document(document)


def _predicate(name: str, value: object) -> str:
    if name.rpartition(".")[2] == "currency" and isinstance(value, str):
        # The codes of ISO 4217 are the same in either case, and sources write them in both.
        return f"sa.{name} in {json.dumps(sorted({value.upper(), value.lower()}))}"
    return f"sa.{name} == sr.{name}"


def check_expected(expected: Mapping[str, Any]) -> None:
    """Refuse names that are none of a field."""
    for name in expected:
        if not _FIELD.fullmatch(name):
            raise BadExpectation(f"`{name}` is no field's name.")


def requested_values(expected: Mapping[str, Any]) -> dict[str, Any]:
    """The expected values as expressions see them (`sr`): a dotted name is a member of a member."""
    found: dict[str, Any] = {}
    for name, value in expected.items():
        *path, last = name.split(".")
        part = found
        for step in path:
            part = part.setdefault(step, {})
        part[last] = value
    return found


def claim_bindings(claim: ClaimRequest, *, claim_id: str, tenant: str) -> dict[str, Any]:
    """The bindings of a claim's lookup and expressions; `idempotency_key` is the operation as it was named."""
    key = {"idempotency_key": claim.operation} if claim.operation else {}
    return {
        "si": {"target_resource": claim.target, "predicates": []},
        "sr": requested_values(claim.expected),
        "so": observe.observation_bindings(SAID),
        "scope": {
            "tenant": tenant,
            "principal": claim.said_by,
            "action_id": claim_id,
            "target": claim.target,
            "trace_id": "",
            "executed_at": instant(claim.done_at) if claim.done_at else "",
            **key,
        },
        "pre": {},
        "sa": {},
    }


@dataclass(frozen=True, kw_only=True)
class ClaimCircumstances:
    """The circumstances of one reading of a claim: since when, the readings before this one, and its pace."""

    claim_id: str
    made_at: datetime
    opened_at: datetime
    at: datetime
    attempts: int
    pacing: ReadPacing


def claim_inputs(
    claim: ClaimRequest,
    contract: Contract,
    numbers: VerificationNumbers,
    bindings: Mapping[str, Any],
    readings: tuple[Reading, ...],
    failure: ReadFailure | None,
    now: ClaimCircumstances,
) -> RunInputs:
    """The inputs of one verification run of a claim."""
    facts = replace(ContractFacts.of(contract, numbers), depth=None)
    return RunInputs(
        state=State.PENDING,
        facts=facts,
        entry={},
        target_resource=claim.target,
        horizon_at=now.made_at + timedelta(seconds=claim.settle_s),
        sla_at=now.opened_at + timedelta(seconds=facts.polling.sla_s),
        at=now.at,
        attempts=now.attempts,
        seed=now.claim_id,
        si=bindings["si"],
        sr=bindings["sr"],
        scope=bindings["scope"],
        observation=SAID,
        readings=readings,
        failure=failure,
        pacing=now.pacing,
    )


@dataclass(frozen=True, kw_only=True)
class ClaimStep:
    """The step that a verdict makes a claim take: the state after and the kind of its event."""

    state: ClaimState
    kind: str


_BY_SHOWN: Final = {
    Shown.AS_REQUESTED: ClaimState.VERIFIED,
    Shown.NO_EFFECT: ClaimState.ABSENT,
    Shown.DIFFERENT: ClaimState.DIFFERENT,
}
MISMATCHES: Final = frozenset({ClaimState.DIFFERENT, ClaimState.ABSENT})


def claim_step(state: ClaimState, verdict: Verdict) -> ClaimStep:
    """The step of a claim in `state` by a verdict (rules 3 and 4)."""
    if not verdict.decisive:
        gives_up = verdict.timed_out or verdict.result is VerificationResult.UNKNOWN
        if state is ClaimState.OPEN and gives_up:
            return ClaimStep(state=ClaimState.UNKNOWN, kind="claim_left_unknown")
        return ClaimStep(state=state, kind="claim_read")
    shown = shown_by(
        source="read",
        consistency=str(verdict.consistency or ""),
        result=str(verdict.result),
        discrepancy=str(verdict.discrepancy or ""),
    )
    after = _BY_SHOWN[shown]
    if after is state:
        return ClaimStep(state=state, kind="claim_read")
    if after is ClaimState.VERIFIED:
        return ClaimStep(state=after, kind="claim_verified")
    return ClaimStep(state=after, kind="claim_contradicted" if state is ClaimState.VERIFIED else "claim_refuted")


def next_reading(inputs: RunInputs, verdict: Verdict) -> datetime:
    """The time of an open claim's next reading."""
    until = waiting_deadline(inputs)
    if inputs.at < inputs.horizon_at and verdict.awaits_horizon:
        until = inputs.horizon_at
    return schedule.next_read_at(
        inputs.facts.polling,
        attempts=min(inputs.attempts, MAX_ATTEMPTS),
        at=inputs.at,
        until=until,
        seed=inputs.seed,
        stretch=inputs.pacing.stretch,
        not_before=inputs.pacing.not_before,
    )


# What may be said of a claim


def claim_outcome(state: str, *, reached_by: str, discrepancy: str) -> Outcome:
    """The outcome of a claim, in the words of the outcomes of actions (`ledger.record.rules.outcomes`)."""
    if reached_by == "claim_contradicted":
        return Outcome.CONTRADICTED
    if state == ClaimState.DIFFERENT and discrepancy == Discrepancy.PARTIAL_APPLICATION:
        return Outcome.PARTIALLY_APPLIED
    return {
        ClaimState.OPEN: Outcome.VERIFYING,
        ClaimState.VERIFIED: Outcome.VERIFIED,
        ClaimState.DIFFERENT: Outcome.NEEDS_REVIEW,
        ClaimState.ABSENT: Outcome.FAILED,
        ClaimState.UNKNOWN: Outcome.UNKNOWN,
    }[ClaimState(state)]


def is_safe(state: str) -> bool:
    """Return whether the claim may be passed on as done (rule 5)."""
    return state == ClaimState.VERIFIED


def claim_sentence(
    state: str, *, reached_by: str, system: str, effect: str, read_at: datetime | None, findings: Mapping[str, Any]
) -> str:
    """The one sentence that says whether it is safe to claim, and why; `findings` are those of the newest run."""
    thing, verdict = effect.replace("_", " "), findings.get("verdict", {})
    read = f"; read at {read_at:%Y-%m-%d %H:%M:%S} UTC" if read_at is not None else ""
    if state == ClaimState.VERIFIED:
        return f"Safe to claim: {system} shows the {thing} as claimed{read}."
    if state == ClaimState.OPEN:
        return f"Not safe to claim yet: {_in_sentence(verdict.get('reason')) or f'{system} has not been read'}."
    if state == ClaimState.UNKNOWN:
        return f"Not safe to claim: it is not known. {verdict.get('reason', '')}".rstrip()
    before = "it was shown as claimed before, and now " if reached_by == "claim_contradicted" else ""
    if state == ClaimState.ABSENT:
        shown = "no such target" if verdict.get("discrepancy") == Discrepancy.TARGET_MISSING else f"no such {thing}"
    else:
        shown = _difference(findings)
    return f"Not safe to claim: {before}{system} shows {shown or 'something else than was claimed'}{read}."


def _difference(findings: Mapping[str, Any]) -> str:
    """The difference that is shown, or the signs of failure that the source itself gave."""
    signs = sorted({key for reading in findings.get("readings", ()) for key in reading.get("indicators", ())})
    words = ", ".join(key.replace("_", " ") for key in signs)
    shown = describe_difference(findings, None) if findings else ""
    says_no_value = shown == "not what was requested" or shown in WITHOUT_VALUES.values()
    if words and says_no_value:
        return words
    return "" if shown == "not what was requested" else shown


def _in_sentence(reason: object) -> str:
    text = str(reason or "").strip().rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
