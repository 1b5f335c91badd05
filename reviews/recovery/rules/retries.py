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
from reviews.reconciliation.rules.findings import evaluate_on_source
from reviews.reconciliation.rules.predicates import PredicateOutcome
from reviews.reconciliation.rules.reading import ReadEffect, Reading
from reviews.reconciliation.rules.verdict import EffectFinding, EffectStatus, Verdict
from reviews.reconciliation.rules.witnesses import confirms_absence
from reviews.recovery.rules.recovery_table import RecoveryPolicy

_FINAL = frozenset({Discrepancy.STALE_STATE, Discrepancy.TARGET_MISSING})


def may_retry(
    facts: ContractFacts, entry: Mapping[str, Any], policy: RecoveryPolicy, *, request_hash: str | None
) -> bool:
    """Return whether contract, policy and record allow one more attempt, regardless of readings (rules 3 and 4)."""
    made = int(entry["execution"]["attempt_count"])
    if not facts.mutating:
        return made < policy.max_read_attempts
    bound = request_hash is not None and request_hash == entry["requested_operation"]["validated_payload_hash"]
    return bound and facts.recovery.idempotent and not facts.critical and made < policy.max_attempts


def is_retry_safe(inputs: RunInputs, verdict: Verdict) -> bool:
    """Return whether this run shows that the action may be retried (rules 1 to 3)."""
    if not inputs.retry_safe or inputs.unwinding or inputs.is_remedy:
        return False
    final = {verdict.discrepancy, *verdict.secondary} & _FINAL
    return verdict.decisive and confirms_absence(verdict) and not verdict.effect_seen and not final


def retry_verdict(inputs: RunInputs, verdict: Verdict) -> Verdict:
    """Return the verdict in the form for looking up a retry, if tool and source agree that nothing happened."""
    if verdict.triggers or not is_retry_safe(inputs, verdict):
        return verdict
    silent = inputs.observation is None or inputs.observation.status is ReportedStatus.TIMEOUT
    word = PENDING_TIMEOUT if silent else str(Discrepancy.NO_OP_FAILURE)
    return replace(verdict, triggers=frozenset({word}))


_FINE = frozenset({PredicateOutcome.TRUE, PredicateOutcome.NOT_APPLICABLE})


def replayed_effects(
    inputs: RunInputs, readings: tuple[Reading, ...], findings: tuple[EffectFinding, ...]
) -> frozenset[str]:
    """The effects whose repetitions are replays of one effect (RT-13, R-RP-13).

    A repetition is a replay only if the contract allows the wanted state to hold already, the lookup finds every trace
    by our own key, each trace alone satisfies every predicate inside the authorised scope, and the source shows all of
    them. Anything else is RT-12 or RT-42.
    """
    if not inputs.facts.no_op_success_allowed or not inputs.facts.keyed:
        return frozenset()
    repeated = [one.name for one in findings if one.found is EffectStatus.DUPLICATE]
    return frozenset(name for name in repeated if all(_alike(inputs, reading, name) for reading in readings))


def count_replays_once(findings: tuple[EffectFinding, ...], excused: frozenset[str]) -> tuple[EffectFinding, ...]:
    """The findings with replays counted as one effect."""
    return tuple(replace(one, found=EffectStatus.PRESENT) if one.name in excused else one for one in findings)


def _alike(inputs: RunInputs, reading: Reading, name: str) -> bool:
    effect = reading.effect(name)
    if effect.count < 2:
        return effect.present is True
    if len(effect.instances) != effect.count or any(len(values) > 1 for values in effect.scope.values()):
        return False
    return all(_holds(inputs, reading, effect, number) for number in range(effect.count))


def _holds(inputs: RunInputs, reading: Reading, effect: ReadEffect, number: int) -> bool:
    one = replace(effect, count=1, fields=effect.instances[number], instances=())
    others = tuple(one if each.name == effect.name else each for each in reading.effects)
    return all(result.holds in _FINE for result in evaluate_on_source(inputs, replace(reading, effects=others)))
