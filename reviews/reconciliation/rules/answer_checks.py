"""The checks of a read's own answer: the only ones possible for a tool that changes nothing (R-VD-01, C-11, C-41).

A READ_ONLY tool whose contract names no check has no effect that a system of record could show. Its class asks four
checks, and each is made from what is there:

1. Parameters: the request that the start handed out is, byte by byte, the one that the record bound.
2. Tenant: the executor that answered belongs to the tenant of the action, and the answer names the tenant that the
   contract expects, where the contract says which field names it (`answer_origin`); the check says where it does not.
3. Source identity: that executor is registered for the tool, and the same of the source.
4. Integrity of the response: the answer is kept under its digest, and fits the answer schema, where there is one.

All four passed: the call was answered. One failed: the answer is not to be used, and why is on record. No answer of
success at all, be it a failure, a timeout or silence: the read has failed. In none of the three was anything read back,
and none of them says so: what was answered stands as UNVERIFIABLE. Nothing was changed, so a read may simply be
repeated and needs no person.
"""

from __future__ import annotations

from typing import Any

from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import ANSWERED_KIND
from reviews.observations.rules import observe
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.facts import AnswerFacts, RunInputs
from reviews.reconciliation.rules.verdict import CheckResult, CheckStatus, Verdict, VerificationResult, waiting_deadline
from reviews.verification.rules.steps import KINDS, Changes

SOURCE = "the tool's answer; nothing was read back"
"""What an entry names as the source of a read that was answered."""

ANSWER_KINDS: dict[State, str] = KINDS | {
    State.PENDING: "answer_awaited",
    State.COMMITTED: "answer_checked",
    State.RECONCILED_SUCCESS: ANSWERED_KIND,
    State.RECONCILIATION_FAILED: "answer_refused",
}
"""The kinds of the events of a read: those of other actions say that something was read back."""

_LONGEST = 100

PATHS: dict[VerificationResult, tuple[State, ...]] = {
    VerificationResult.SUCCESS: (State.COMMITTED, State.RECONCILED_SUCCESS),
    VerificationResult.MISMATCH: (State.COMMITTED, State.RECONCILIATION_FAILED, State.FAILED),
    VerificationResult.ABSENT: (State.FAILED,),
    VerificationResult.PENDING: (),
}
"""Where each verdict over an answer leads; the lifecycle knows no shorter way (C-09, C-11)."""


def judge_answer(inputs: RunInputs) -> Verdict:
    """The verdict over the answer of a tool that only reads and has no check."""
    seen = inputs.observation
    if seen is None or not seen.claimed_success:
        return _without_answer(inputs)
    checks = check_answer(inputs)
    failed = next((one for one in checks if one.made is not CheckStatus.CHECKED), None)
    if failed is None:
        reason = "All four checks of the answer were passed. It is a read: nothing was read back, and nothing changed."
        return Verdict(result=VerificationResult.SUCCESS, decisive=True, reason=reason, checks=checks)
    broken = failed.check == "response_integrity_confirmed"
    return Verdict(
        result=VerificationResult.MISMATCH,
        decisive=True,
        reason=f"The answer is not to be used. {failed.by}",
        discrepancy=Discrepancy.VALUE_MISMATCH if broken else Discrepancy.UNVERIFIABLE_STATE,
        checks=checks,
    )


def _without_answer(inputs: RunInputs) -> Verdict:
    seen = inputs.observation
    if seen is not None and seen.status in observe.STILL_WORKING and inputs.at < waiting_deadline(inputs):
        return Verdict(result=VerificationResult.PENDING, decisive=False, reason="The tool has not answered yet.")
    if seen is not None and seen.status is observe.ReportedStatus.MALFORMED:
        reason = f"The read brought no answer that can be used; nothing was changed. {seen.fault}"
    else:
        reason = f"The read failed; nothing was changed. {'No answer came.' if seen is None else _failure(seen)}"
    return Verdict(result=VerificationResult.ABSENT, decisive=True, reason=reason)


def _failure(seen: observe.ParsedObservation) -> str:
    named = f" ({seen.error_code})" if seen.error_code else ""
    return f"The tool answered {seen.status}{named}."


def check_answer(inputs: RunInputs) -> tuple[CheckResult, ...]:
    """Return the four checks of the class, in order, each with its source."""
    facts = inputs.answer
    if facts is None:
        unknown = "It is not on record where the answer came from."
        return (CheckResult(check="source_identity_confirmed", made=CheckStatus.UNCHECKED, by=unknown),)
    bound = inputs.entry["requested_operation"]["validated_payload_hash"]
    same = facts.request_hash == bound
    own = facts.executor_tenant == facts.tenant
    registered = facts.tool in facts.executor_tools
    kept = f"The answer is kept under SHA-256 {facts.answer_digest}"
    schema = "fits the answer schema" if facts.has_schema else "the contract declares no answer schema"
    return (
        _check(
            "request_parameters_confirmed",
            same,
            f"What ran is the stored request, with SHA-256 {bound}.",
            f"The stored request has SHA-256 {facts.request_hash}, and {bound} was validated.",
        ),
        _check_origin(
            "tenant",
            "tenant_scope_confirmed",
            facts,
            "" if own else f"Executor {facts.executor_id} belongs to another tenant.",
            f"Executor {facts.executor_id} belongs to this tenant.",
        ),
        _check_origin(
            "source",
            "source_identity_confirmed",
            facts,
            "" if registered else f"Executor {facts.executor_id} is not registered for {facts.tool}.",
            f"Executor {facts.executor_id} is registered for {facts.tool}.",
        ),
        _check(
            "response_integrity_confirmed",
            not facts.schema_fault,
            f"{kept}; {schema}.",
            f"It does not fit the answer schema of the contract: {facts.schema_fault}",
        ),
    )


def _check_origin(of: str, name: str, facts: AnswerFacts, fault: str, passed_by: str) -> CheckResult:
    """Check the sender of the answer, and the tenant or source that the answer names."""
    field = facts.origin.get(of)
    if field is None:
        return _check(name, not fault, f"{passed_by} The contract names no field of the answer for its {of}.", fault)
    if not fault and field.named != field.expected:
        there = "nothing" if field.named is None else field.named[:_LONGEST]
        fault = f"The answer names {there} as its {of}, at {field.path}, and {field.expected} was expected."
    named = f"{passed_by} The answer names {field.expected} as its {of}, at {field.path}."
    return _check(name, not fault, named, fault)


def _check(name: str, passed: bool, passed_by: str, failed_by: str) -> CheckResult:
    return CheckResult(
        check=name, made=CheckStatus.CHECKED if passed else CheckStatus.FAILED, by=passed_by if passed else failed_by
    )


def answer_changes(state: State, changes: Changes, verdict: Verdict) -> Changes:
    """Return the changes of a step of a read: the checks that were made, without any reading back."""
    if "verification" not in changes:
        return changes
    told: dict[str, Any] = {"source": SOURCE} if verdict.checks else {}
    if state is not State.PENDING:
        told["status"] = "UNVERIFIABLE" if state in (State.COMMITTED, State.RECONCILED_SUCCESS) else "FAILED"
        changes.get("timestamps", {}).pop("verified_at", None)
    changes["verification"] = {**changes["verification"], **told}
    return changes
