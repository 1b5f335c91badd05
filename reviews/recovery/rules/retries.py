"""Retries: when the same mutation may be sent again, which is never blindly (C-04, R-EX-21, RT-33, RT-45, RT-47).

1. A decisive reading, after the late-effect horizon and over every source that counts, shows no effect at all.
2. The failure is not final: the target is neither gone nor moved on (a changed payload is a new action).
3. The contract says that the tool may be sent again with the same key, and the policy leaves attempts; what only reads
   has attempts of its own. A CRITICAL_MUTATION is never tried again by itself (VDR-4), nor is a recovery action, nor a
   step of a run that is taken back.
4. The record still binds the same key to the same payload.
What is irreversible is asked for again: the approval was spent by the attempt (D8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reviews.observations.rules.observe import ReportedStatus
from reviews.reconciliation.rules.discrepancies import PENDING_TIMEOUT, Discrepancy
from reviews.reconciliation.rules.facts import ContractFacts, RunInputs
from reviews.reconciliation.rules.verdict import Verdict
from reviews.reconciliation.rules.witnesses import confirms_absence
from reviews.recovery.rules.recovery_table import RecoveryPolicy

_FINAL = frozenset({Discrepancy.STALE_STATE, Discrepancy.TARGET_MISSING})


def may_retry(
    facts: ContractFacts, entry: Mapping[str, Any], policy: RecoveryPolicy, *, request_hash: str | None
) -> bool:
    """Whether contract, policy and record allow one more attempt, whatever a reading shows (rules 3 and 4)."""
    made = int(entry["execution"]["attempt_count"])
    if not facts.mutating:
        return made < policy.max_read_attempts
    bound = request_hash is not None and request_hash == entry["requested_operation"]["validated_payload_hash"]
    return bound and facts.recovery.idempotent and not facts.critical and made < policy.max_attempts


def is_retry_safe(inputs: RunInputs, verdict: Verdict) -> bool:
    """Whether this run shows that the action may be tried again (rules 1 to 3)."""
    if not inputs.retry_safe or inputs.unwinding or inputs.is_remedy:
        return False
    final = {verdict.discrepancy, *verdict.secondary} & _FINAL
    return verdict.decisive and confirms_absence(verdict) and not verdict.effect_seen and not final


def retry_verdict(inputs: RunInputs, verdict: Verdict) -> Verdict:
    """The verdict in the words that ask the table about a retry, where tool and source agree that nothing happened."""
    if verdict.triggers or not is_retry_safe(inputs, verdict):
        return verdict
    silent = inputs.observation is None or inputs.observation.status is ReportedStatus.TIMEOUT
    word = PENDING_TIMEOUT if silent else str(Discrepancy.NO_OP_FAILURE)
    return replace(verdict, triggers=frozenset({word}))
