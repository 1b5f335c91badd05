"""Facts about one action: its contract, and the circumstances of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger.catalogue.rules.contract import Contract, Polling, Source
from ledger.catalogue.rules.depth import VerificationDepth
from ledger.catalogue.rules.effects import Boundary, EffectDomain, Reversibility, SideEffectClass
from ledger.catalogue.rules.policies import BUILT_IN_NUMBERS, VerificationNumbers
from ledger.catalogue.rules.remedies import Recovery
from ledger.record.rules.lifecycle import State
from reviews.observations.rules.observe import ParsedObservation
from reviews.reconciliation.rules.difference import EffectDifference
from reviews.reconciliation.rules.reading import Reading
from reviews.recovery.rules.recovery_table import BUILT_IN, RecoveryPolicy, RecoverySituation

NO_RECOVERY = Recovery()
DEFAULT_POLLING = Polling(first_after_s=1, backoff=2.0, max_interval_s=60, sla_s=60)


@dataclass(frozen=True, kw_only=True)
class ContractFacts:
    """The parts of a contract that verification and recovery need; `of` takes it from the contract."""

    side_effect_class: SideEffectClass
    reversibility: Reversibility
    boundary: Boundary
    effect_domain: EffectDomain = EffectDomain.OTHER
    externally_visible: bool = False
    pivot: bool = False
    no_op_success_allowed: bool = False
    verifiable: bool = True
    required_effects: tuple[str, ...] = ()
    predicates: tuple[str, ...] = ()
    stale_errors: tuple[str, ...] = ()
    further: tuple[Source, ...] = ()
    recovery: Recovery = NO_RECOVERY
    polling: Polling = DEFAULT_POLLING
    depth: VerificationDepth | None = None
    fresh_after: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keyed: bool = False
    repeat_limit: int = BUILT_IN_NUMBERS.repeat_limit

    @classmethod
    def of(cls, contract: Contract, numbers: VerificationNumbers = BUILT_IN_NUMBERS) -> ContractFacts:
        """Return the facts of a contract; if it gives no number, the verification policy's applies (R-VD-13)."""
        verification = contract.verification
        return cls(
            side_effect_class=contract.side_effect_class,
            reversibility=contract.reversibility,
            boundary=contract.recovery_boundary,
            effect_domain=contract.effect_domain,
            externally_visible=contract.externally_visible,
            pivot=contract.pivot,
            no_op_success_allowed=contract.no_op_success_allowed,
            verifiable=contract.verifiable,
            required_effects=contract.required_effects,
            predicates=contract.predicates,
            stale_errors=contract.stale_errors,
            further=verification.further if verification else (),
            recovery=contract.recovery,
            polling=polling_of(contract, numbers),
            depth=contract.depth,
            fresh_after=_fresh_after(contract),
            keyed=_is_keyed(contract),
            repeat_limit=numbers.repeat_limit,
        )

    def situation(self, trigger: str, *, compensation_available: bool = False) -> RecoverySituation:
        """Return the input to the recovery table for an effect that is committed, without a reading of its own."""
        return RecoverySituation(
            triggers=frozenset({trigger}),
            side_effect_class=self.side_effect_class,
            reversibility=self.reversibility,
            transaction_boundary=self.boundary,
            effect_domain=self.effect_domain,
            externally_visible=self.externally_visible,
            effect_committed=True,
            compensation_available=compensation_available,
        )

    @property
    def mutating(self) -> bool:
        """Return whether the tool changes anything."""
        return self.side_effect_class is not SideEffectClass.READ_ONLY

    @property
    def answer_only(self) -> bool:
        """Return whether the tool only reads and names no check: then only its answer can be judged
        (`answer_checks`).
        """
        return not self.mutating and not self.verifiable

    @property
    def high_impact(self) -> bool:
        """HIGH_RISK_EXTERNAL or CRITICAL_MUTATION: recovery waits for a person (C-63)."""
        return self.side_effect_class.rank >= SideEffectClass.HIGH_RISK_EXTERNAL.rank

    @property
    def critical(self) -> bool:
        """CRITICAL_MUTATION: every source must answer and agree, and it fails closed (R-RC-13, R-VD-06)."""
        return self.side_effect_class is SideEffectClass.CRITICAL_MUTATION

    def predicates_of(self, source: str) -> tuple[str, ...]:
        """Return the contract's predicates for one source; the primary one has no name."""
        named = {each.name: each.predicates for each in self.further}
        return named.get(source, ()) if source else self.predicates


def added_predicates(contract: Contract, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The predicates that the agent laid on top of the contract's."""
    own = set(contract.predicates)
    return tuple(text for text in entry["intended_outcome"]["expected_predicates"] if text not in own)


def _fresh_after(contract: Contract) -> dict[str, Mapping[str, str]]:
    """Return the freshness tokens required of each source, by the source's name; the primary one has none."""
    if contract.verification is None:
        return {}
    parts = {"": contract.verification.document, **{one.name: one.document for one in contract.verification.further}}
    return {name: part["fresh_after"] for name, part in parts.items() if part.get("fresh_after")}


def _is_keyed(contract: Contract) -> bool:
    """Return whether the primary lookup finds each effect by the idempotency key."""
    effects = contract.verification.lookup.get("effects") if contract.verification else None
    if not isinstance(effects, Mapping) or not effects:
        return False
    return all("scope.idempotency_key" in str(part) for part in effects.values())


def polling_of(contract: Contract, numbers: VerificationNumbers) -> Polling:
    """The read-back schedule of the contract's actions: the contract's numbers, else the policy's."""
    said = contract.verification.document.get("polling", {}) if contract.verification else {}
    return Polling(
        first_after_s=said.get("first_after_s", numbers.first_after_s),
        backoff=float(said.get("backoff", numbers.backoff)),
        max_interval_s=said.get("max_interval_s", numbers.max_interval_s),
        sla_s=said.get("sla_s", numbers.sla_s[contract.side_effect_class]),
    )


@dataclass(frozen=True)
class ReadFailure:
    """A check that brought no reading. Retryable: the system may answer later (an outage, a lock).

    `source` names the further source that failed; the primary one has no name.
    """

    reason: str
    retryable: bool
    indicators: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class ReadPacing:
    """The limits on readings besides their own polling: an open circuit until its probe, or an exhausted budget.

    `asked` is false if the system was not asked at all.
    """

    not_before: datetime | None = None
    stretch: float = 1.0
    asked: bool = True


@dataclass(frozen=True, slots=True)
class NamedOrigin:
    """The field of an answer that names its tenant or its source: the expected name, and the actual one (None if
    missing).
    """

    path: str
    expected: str
    named: str | None


@dataclass(frozen=True, kw_only=True)
class AnswerFacts:
    """The origin of an answer, and the facts that it is compared with; `origin` by `tenant` and `source`.

    `request_hash` is that of the stored request, `answer_digest` that of the answer. `schema_fault` says where the
    answer breaks the contract's answer schema; `has_schema` is false if the contract declares none.
    """

    tenant: str
    tool: str
    request_hash: str
    answer_digest: str
    executor_id: str
    executor_tenant: str
    executor_tools: tuple[str, ...]
    has_schema: bool = False
    schema_fault: str = ""
    origin: Mapping[str, NamedOrigin] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """All inputs of one verification run; the same inputs give the same outcome (R-RC-14).

    `entry` is the action's current entry. `horizon_at` is the instant before which an effect that is
    absent may still arrive; `sla_at` the end of the verification SLA; `attempts` the runs before this
    one; `seed` spreads the polls of different actions. `policy` is the recovery policy in force, and
    `recovery_tools` the arguments of every remedy that is registered. `unwinding`: the run is being taken
    back, so what this action did must be reversed. `is_remedy`: it is a recovery action itself. `brought`:
    the effects that verified forward recoveries brought; `corrected`: the difference that a verified correction made
    good, beside what this action did. `failure` says why the primary source gave no reading,
    `silent` the same of further ones; `doubts` counts the runs before this one in which a source answered and
    bore nothing out. `answer` says where the answer of a tool that only reads came from; `bound_to` which request the
    idempotency key is bound to.
    """

    state: State
    facts: ContractFacts
    entry: Mapping[str, Any]
    target_resource: str
    horizon_at: datetime
    sla_at: datetime
    at: datetime
    attempts: int
    seed: str
    si: Mapping[str, Any] = field(default_factory=dict)
    sr: Mapping[str, Any] = field(default_factory=dict)
    scope: Mapping[str, Any] = field(default_factory=dict)
    observation: ParsedObservation | None = None
    baseline: Reading | None = None
    readings: tuple[Reading, ...] = ()
    failure: ReadFailure | None = None
    silent: tuple[ReadFailure, ...] = ()
    doubts: int = 0
    added_predicates: tuple[str, ...] = ()
    idempotency_status: str | None = None
    query_pointer: str | None = None
    state_pointer: str | None = None
    pivot_committed: bool = False
    retry_safe: bool = False
    bound_to: str | None = None
    policy: RecoveryPolicy = BUILT_IN
    recovery_tools: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unwinding: bool = False
    is_remedy: bool = False
    brought: frozenset[str] = frozenset()
    corrected: EffectDifference | None = None
    pacing: ReadPacing = ReadPacing()
    answer: AnswerFacts | None = None

    @property
    def claimed_success(self) -> bool:
        """Return whether the tool reported complete success."""
        return self.observation is not None and self.observation.claimed_success
