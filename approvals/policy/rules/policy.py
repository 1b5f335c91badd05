"""The approval policy: which calls go ahead, which wait for people and for whom, and which are refused.

A policy is data with a version (D10); `approvals.policy.rules.policy_document` says what it may contain, and `parse`
refuses anything else with every fault by its path. Conditions are CEL over `approvals.policy.rules.policy_facts`,
checked when the policy is released.

People are asked (C-20, R-AP-03) when

1. the class is CRITICAL_MUTATION (R-AP-01), or
2. the effect is IRREVERSIBLE and the tool mutates at all (R-AP-02), or
3. the contract says approval_required, or
4. the contract is of an upper class and nothing can be read back (R-TC-07, C-43), or
5. an entry of `require` matches: `{side_effect_class?, effect_domain?, tool?}`, when everything that it names does, or
6. a rule with the outcome `hold` matches.

The rules of a policy are read in order:

7. A matching `refuse` refuses the call, wherever it stands. The gate answers with OUTSIDE_AUTONOMY and its reason.
8. A matching `hold` asks people, and what it asks for is added: thresholds by group (the higher count, the lower
   denial), independence, hours, the stronger step-up, the shorter deadlines, the higher risk.
9. A matching `auto` ends the reading of `hold` rules: those behind it do not count. It takes nothing away from 1 to 5,
   nor from the rules before it. A policy adds to C-20 and never takes away.
10. A condition that cannot be told (a missing argument, an error, a budget that ran out) is not false: its rule holds,
    whatever its outcome is, and does not end the reading. An error is never a pass.

Step-up is raised only: the policy's own level, the level by risk and the levels of all rules that hold, the strongest
of them. `wait_for_seal: false` counts only where the effect can be undone (D8, B40).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache, reduce
from typing import Any

from approvals.policy.rules import allowed_hours as hours
from approvals.policy.rules import policy_document
from approvals.policy.rules.allowed_hours import AllowedHours
from approvals.policy.rules.policy_facts import Facts, bindings, compile_condition
from approvals.standing.rules.standing import StandingPolicy, read_policy
from approvals.voting.rules import break_glass as break_glass_rules
from approvals.voting.rules.quorum import INDEPENDENCE, ONE_REVIEWER, ApprovalTerms, Risk, Threshold, stronger_level
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.effects import UPPER_CLASSES, Reversibility, SideEffectClass
from ledger.catalogue.rules.expressions import Expression, Truth, evaluate, view
from ledger.catalogue.rules.policies import BadPolicy
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.canonical import parse as read

_DAY = 24 * 3600
_CRITICAL = SideEffectClass.CRITICAL_MUTATION
_SAID = {Truth.TRUE: "RULE", Truth.UNDECIDABLE: "UNDECIDABLE"}


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """The requirements of a policy or of a rule apart from its outcome; None means unspecified."""

    thresholds: tuple[Threshold, ...] = ()
    independence: frozenset[str] = frozenset()
    step_up: str | None = None
    hours: tuple[AllowedHours, ...] = ()
    decide_within_s: int | None = None
    release_within_s: int | None = None
    wait_for_seal: bool = False
    risk: Risk = Risk.LOW


@dataclass(frozen=True, kw_only=True)
class PolicyRule:
    """One rule: its condition (none matches always), its outcome and its requirements."""

    name: str
    when: Expression | None
    outcome: str
    reason: str
    demands: Requirements


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """Limits of batch votes: how many at once, and of which classes."""

    most: int = 1
    side_effect_classes: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class RateLimits:
    """Limits against floods (B38): waiting requests per agent, votes per person and minute; 0 means no limit."""

    waiting_per_agent: int = 0
    votes_per_minute: int = 0


@dataclass(frozen=True, kw_only=True)
class ApprovalPolicy:
    """A version of the approval policy. `digest` names the document as it was released."""

    version: str
    decide_within_s: int
    release_within_s: int
    grant_life_s: int
    step_up: str
    require: tuple[Mapping[str, str], ...]
    document: bytes
    digest: str
    demands: Requirements
    rules: tuple[PolicyRule, ...]
    on_change: str
    step_up_by_risk: Mapping[str, str]
    escalate_after_s: int | None
    escalate_to: str
    remind_before_s: int | None
    question_pause_s: int
    batch: BatchLimits
    limits: RateLimits
    break_glass: break_glass_rules.BreakGlassRule
    reviewer_quality: str
    reasons_to_agents: bool
    min_dwell_s: int
    standing: StandingPolicy | None

    def decide_by(self, *, requested_at: datetime) -> datetime:
        """The time at which an undecided request expires."""
        return requested_at + timedelta(seconds=self.decide_within_s)

    def release_by(self, *, decided_at: datetime) -> datetime:
        """The time at which an approval stops authorising a start (R-AP-08)."""
        return decided_at + timedelta(seconds=self.release_within_s)

    def grant_expiry(self, *, minted_at: datetime, release_by: datetime | None) -> datetime:
        """The end of a grant minted now: never after the approval that it rests on."""
        end = minted_at + timedelta(seconds=self.grant_life_s)
        return end if release_by is None else min(end, release_by)


@dataclass(frozen=True, kw_only=True)
class PolicyDecision:
    """The decision on one call: "auto", "hold" or "refuse", every reason why, and the terms if it is held.

    `refusal` is the sentence for the agent when the call is refused.
    """

    outcome: str
    reasons: tuple[str, ...]
    terms: ApprovalTerms
    risk: Risk
    refusal: str = ""


def parse(document: Mapping[str, Any]) -> ApprovalPolicy:
    """The policy in a document, or `BadPolicy` with every fault."""
    plain = dict(document)
    if found := policy_document.faults(plain):
        raise BadPolicy("The approval policy is not valid.", errors=found)
    text = canonical(plain)
    return ApprovalPolicy(
        version=plain["version"],
        decide_within_s=plain.get("decide_within_s", 4 * 3600),
        release_within_s=plain.get("release_within_s", 15 * 60),
        grant_life_s=plain.get("grant_life_s", 120),
        step_up=plain.get("step_up", "C"),
        require=tuple(plain.get("require", ())),
        document=text,
        digest=digest(text),
        demands=_demands({"independence": INDEPENDENCE, "wait_for_seal": True} | plain),
        rules=tuple(_rule(each) for each in plain.get("rules", ())),
        on_change=plain.get("on_change", "revalidate"),
        step_up_by_risk=plain.get("step_up_by_risk", {}),
        escalate_after_s=plain.get("escalate_after_s"),
        escalate_to=plain.get("escalate_to", ""),
        remind_before_s=plain.get("remind_before_s"),
        question_pause_s=plain.get("question_pause_s", 4 * 3600),
        batch=_batch(plain.get("batch", {})),
        limits=RateLimits(**plain.get("limits", {})),
        break_glass=break_glass_rules.read_rule(plain),
        reviewer_quality=plain.get("privacy", {}).get("reviewer_quality", "team"),
        reasons_to_agents=plain.get("privacy", {}).get("reasons_to_agents", True),
        min_dwell_s=plain.get("min_dwell_s", 0),
        standing=read_policy(plain),
    )


@lru_cache(maxsize=256)
def load_stored(data: bytes) -> ApprovalPolicy:
    """Return the policy in the bytes of a released version, cached because versions never change."""
    return parse(read(data))


def decide_call(contract: Contract, policy: ApprovalPolicy, facts: Facts) -> PolicyDecision:
    """Decide a call under the policy (rules 1 to 10)."""
    answers = _answers(contract, policy, facts)
    holding = _holding(answers)
    reasons = (*_always(contract, policy), *(f"{_SAID[truth]} {rule.name}" for rule, truth in holding))
    asking = [rule.demands for rule, _ in holding]
    risk = max([_risk(contract, facts), *(each.risk for each in asking)], key=lambda each: each.rank)
    terms = _terms(contract, policy, asking, risk)
    terms = replace(terms, rules=tuple(rule.name for rule, _ in holding))
    refusing = next((rule for rule, truth in answers if truth is Truth.TRUE and rule.outcome == "refuse"), None)
    if refusing is not None:
        said = refusing.reason or "The policy does not let this call run, whoever would approve it."
        return PolicyDecision(
            outcome="refuse", reasons=(f"RULE {refusing.name}",), terms=terms, risk=risk, refusal=said
        )
    return PolicyDecision(outcome="hold" if reasons else "auto", reasons=reasons, terms=terms, risk=risk)


def strongest_step_up(policy: ApprovalPolicy) -> str:
    """The strongest level of proof that a policy can require of anyone."""
    ruled = [each.demands.step_up for each in policy.rules if each.demands.step_up]
    return reduce(stronger_level, [policy.step_up, *policy.step_up_by_risk.values(), *ruled])


def raise_terms(policy: ApprovalPolicy, terms: ApprovalTerms, risk: Risk) -> ApprovalTerms:
    """The terms for a known risk: the step-up is raised, never lowered."""
    level = stronger_level(terms.step_up, policy.step_up_by_risk.get(risk, "C"))
    return replace(terms, step_up=level, batchable=terms.batchable and risk is Risk.LOW and level != "A")


def _always(contract: Contract, policy: ApprovalPolicy) -> list[str]:
    kind = contract.side_effect_class
    found = {
        "CRITICAL_MUTATION": kind is _CRITICAL,
        "IRREVERSIBLE": _is_irreversible(contract),
        "CONTRACT": contract.approval_required,
        "UNVERIFIABLE": kind in UPPER_CLASSES and not contract.verifiable,
    }
    asked = [f"POLICY_RULE_{number}" for number, rule in enumerate(policy.require, 1) if _names(rule, contract)]
    return [reason for reason, holds in found.items() if holds] + asked


def _is_irreversible(contract: Contract) -> bool:
    return contract.mutating and contract.reversibility is Reversibility.IRREVERSIBLE


def _names(rule: Mapping[str, str], contract: Contract) -> bool:
    facts = {
        "side_effect_class": contract.side_effect_class.value,
        "effect_domain": contract.effect_domain.value,
        "tool": contract.name,
    }
    return all(facts[name] == value for name, value in rule.items())


def _answers(contract: Contract, policy: ApprovalPolicy, facts: Facts) -> list[tuple[PolicyRule, Truth]]:
    """The rules that match or are undecidable, in order."""
    if not policy.rules:
        return []
    shown = view(bindings(contract, facts))
    answers = [(rule, Truth.TRUE if rule.when is None else evaluate(rule.when, shown).truth) for rule in policy.rules]
    return [(rule, truth) for rule, truth in answers if truth is not Truth.FALSE]


def _holding(answers: list[tuple[PolicyRule, Truth]]) -> list[tuple[PolicyRule, Truth]]:
    """Return the rules that require asking people (rules 8 to 10)."""
    found: list[tuple[PolicyRule, Truth]] = []
    exempt = False
    for rule, truth in answers:
        if truth is Truth.UNDECIDABLE:
            # Behind an `auto`, what is unclear matters only if it could refuse.
            if not exempt or rule.outcome == "refuse":
                found.append((rule, truth))
        elif rule.outcome == "auto":
            exempt = True
        elif rule.outcome == "hold" and not exempt:
            found.append((rule, truth))
    return found


def _risk(contract: Contract, facts: Facts) -> Risk:
    """The risk, by class and reversibility; high for a session that misbehaved."""
    kind = contract.side_effect_class
    if kind is _CRITICAL or facts.misbehaved or (kind in UPPER_CLASSES and _is_irreversible(contract)):
        return Risk.HIGH
    small = kind.rank <= SideEffectClass.LOW_RISK_INTERNAL.rank
    return Risk.LOW if small and not _is_irreversible(contract) else Risk.NORMAL


def _terms(contract: Contract, policy: ApprovalPolicy, asking: list[Requirements], risk: Risk) -> ApprovalTerms:
    """The combined requirements of the policy and its rules (rule 8)."""
    wanted = reduce(_add_requirements, asking, policy.demands)
    batchable = contract.side_effect_class in policy.batch.side_effect_classes and policy.batch.most > 1
    terms = ApprovalTerms(
        thresholds=wanted.thresholds or ONE_REVIEWER,
        independence=wanted.independence,
        step_up=wanted.step_up or policy.step_up,
        decide_within_s=min(
            [contract.decide_within_s or policy.decide_within_s, *_given_seconds("decide_within_s", asking)]
        ),
        release_within_s=min([policy.release_within_s, *_given_seconds("release_within_s", asking)]),
        hours=wanted.hours,
        wait_for_seal=wanted.wait_for_seal or contract.side_effect_class is _CRITICAL or _is_irreversible(contract),
        on_change=policy.on_change,
        batchable=batchable and not _is_irreversible(contract),
    )
    return raise_terms(policy, terms, risk)


def _given_seconds(name: str, asking: list[Requirements]) -> list[int]:
    return [seconds for each in asking if (seconds := getattr(each, name)) is not None]


def _add_requirements(one: Requirements, other: Requirements) -> Requirements:
    levels = [each for each in (one.step_up, other.step_up) if each]
    return Requirements(
        thresholds=_merge_thresholds((*one.thresholds, *other.thresholds)),
        independence=one.independence | other.independence,
        step_up=reduce(stronger_level, levels) if levels else None,
        hours=tuple(dict.fromkeys((*one.hours, *other.hours))),
        wait_for_seal=one.wait_for_seal or other.wait_for_seal,
    )


def _merge_thresholds(thresholds: Iterable[Threshold]) -> tuple[Threshold, ...]:
    """One threshold by group: the higher count, and the fewer votes against that end it."""
    merged: dict[str, Threshold] = {}
    for each in thresholds:
        known = merged.get(each.group, each)
        merged[each.group] = Threshold(
            group=each.group, count=max(known.count, each.count), deny=min(known.deny, each.deny)
        )
    return tuple(merged.values())


def _rule(said: Mapping[str, Any]) -> PolicyRule:
    return PolicyRule(
        name=said["name"],
        when=compile_condition(said["when"]) if "when" in said else None,
        outcome=said["outcome"],
        reason=said.get("reason", ""),
        demands=_demands(said),
    )


def _demands(said: Mapping[str, Any]) -> Requirements:
    return Requirements(
        thresholds=tuple(Threshold(**each) for each in said.get("thresholds", ())),
        independence=frozenset(said.get("independence", ())),
        step_up=said.get("step_up"),
        hours=(hours.read(said["hours"]),) if "hours" in said else (),
        decide_within_s=said.get("decide_within_s"),
        release_within_s=said.get("release_within_s"),
        wait_for_seal=said.get("wait_for_seal", False),
        risk=Risk(said.get("risk", "LOW")),
    )


def _batch(said: Mapping[str, Any]) -> BatchLimits:
    return BatchLimits(most=said.get("most", 1), side_effect_classes=frozenset(said.get("side_effect_classes", ())))
