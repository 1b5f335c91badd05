"""Orders recovery actions for a decision or a person, and reads what earlier ones achieved."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions, runs
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.policies import DecidingPolicy
from ledger.catalogue.rules.remedies import Relation
from ledger.record import operations as ledger
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import AS_REQUESTED, Outcome, outcome_of
from reviews import queries
from reviews.readback.operations.plans import plan_for
from reviews.reconciliation.rules.difference import EffectDifference, find_difference, read_difference
from reviews.reconciliation.rules.facts import ContractFacts
from reviews.reconciliation.rules.verdict import LACKING, SEEN, EffectStatus
from reviews.recovery.rules import recovery_table, remedies, retries
from reviews.recovery.rules.remedies import CORRECT, Correction, PlanBasis, RecoveryOrder

if TYPE_CHECKING:
    from ledger.models import Action, Idempotency

UNREADABLE = "The payload or the answers of this action cannot be opened, so nothing can be planned from them."


def deciding_policy(action: Action) -> DecidingPolicy:
    """The version of the recovery policy that decides an action: the one in force, or one on canary."""
    return catalogue_queries.deciding_policies(action.tenant_id, "recovery").of(action)


def remedy_arguments(tenant_id: UUID, facts: ContractFacts) -> dict[str, frozenset[str]]:
    """The arguments that each registered remedy of a contract declares."""
    named = sorted(facts.recovery.tools)
    rows = catalogue_queries.newest_contracts(tenant_id, named) if named else {}
    return {
        name: frozenset(
            contracts.load_stored(bytes(row.document), expected_digest=row.digest).arguments_schema["properties"]
        )
        for name, row in rows.items()
    }


class TenantDecisionContext:
    """The context in which several runs of one tenant are decided, each part looked up once."""

    def __init__(self, tenant_id: UUID) -> None:
        self._deciding = cache(lambda: catalogue_queries.deciding_policies(tenant_id, "recovery"))
        self.run = cache(lambda run_id: runs.run_facts(tenant_id, run_id))
        self.is_pivot = cache(lambda digest: runs.is_pivot(tenant_id, digest))
        self._tenant_id = tenant_id
        self._tools: dict[tuple[str, ...], dict[str, frozenset[str]]] = {}

    def policy(self, action: Action) -> DecidingPolicy:
        """The version of the recovery policy that decides an action."""
        return self._deciding().of(action)

    def now(self) -> TenantDecisionContext:
        """The same policy and contracts, and the runs as they are by now."""
        fresh = copy(self)
        fresh.run = cache(lambda run_id: runs.run_facts(self._tenant_id, run_id))
        return fresh

    def tools(self, facts: ContractFacts) -> dict[str, frozenset[str]]:
        named = tuple(sorted(facts.recovery.tools))
        if named not in self._tools:
            self._tools[named] = remedy_arguments(self._tenant_id, facts)
        return self._tools[named]


def decision_inputs(
    action: Action,
    facts: ContractFacts,
    head: ledger.SubjectHead,
    kept: Idempotency | None,
    context: TenantDecisionContext | None = None,
) -> dict[str, Any]:
    """The inputs of a run from the policy, the remedies and the action's own run, as `RunInputs` names it."""
    tenant_id, context = action.tenant_id, context or TenantDecisionContext(action.tenant_id)
    policy = recovery_table.parse_policy(bytes(context.policy(action).document))
    bound = kept.request_hash if kept is not None else None
    unwinding, succeeded = context.run(action.run_id)
    return {
        "pivot_committed": any(context.is_pivot(digest) for digest in succeeded),
        "policy": policy,
        "retry_safe": retries.may_retry(facts, head.entry or {}, policy, request_hash=bound),
        "bound_to": bound,
        "recovery_tools": context.tools(facts),
        "unwinding": unwinding and not action.relation,
        "is_remedy": bool(action.relation),
        "brought": recovered_effects(tenant_id, action.id) if head.state == State.FORWARD_RECOVERY else frozenset(),
        "corrected": corrected_difference(tenant_id, action.id) if _was_corrected(head) else None,
    }


def _was_corrected(head: ledger.SubjectHead) -> bool:
    """Return whether a correction was the last recovery that was decided for an action."""
    return bool(head.entry and head.entry["reconciliation"]["recovery_decision"] == CORRECT)


def order_recovery(
    head: ledger.SubjectHead,
    wanted: Sequence[RecoveryOrder],
    *,
    concerned: Sequence[str],
    because: str,
    requester: UUID,
    actor: ledger.Actor,
    at: datetime,
    decided_by: ledger_orders.DecisionSource | None = None,
    difference: EffectDifference | None = None,
) -> ledger.SubjectHead:
    """Order the recovery actions that a decision wants, the first one now.

    `decided_by` is given where this order is the only event of the decision; `difference` is what a correction makes
    good.
    """
    steps = [
        {
            "relation": str(one.relation),
            "tool": one.tool,
            "arguments": dict(one.arguments),
            "effect": one.effect,
        }
        for one in wanted
    ]
    plan = ledger_orders.OrderPlan(
        steps=steps,
        concerned=concerned,
        because=because,
        requester=requester,
        decided_by=decided_by,
        difference=difference.as_json() if difference else None,
    )
    return ledger_orders.place_order(head, plan, actor=actor, at=at)


def recovered_effects(tenant_id: UUID, action_id: UUID) -> frozenset[str]:
    """The effects that verified forward recoveries brought."""
    found: set[str] = set()
    for event_id, detail in runs.order_details(tenant_id, action_id).items():
        child = actions.child_of(tenant_id, event_id) if detail["relation"] == Relation.FORWARD else None
        # What a person attested brings nothing that a reading could leave out.
        if child is not None and outcome_of(child) in AS_REQUESTED:
            one = detail["effect"]
            found |= {one} if one else set(runs.order_plan(tenant_id, detail)["concerned"])
    return frozenset(found)


def corrected_difference(tenant_id: UUID, action_id: UUID) -> EffectDifference | None:
    """The difference that a correction made good, if every action of it was verified."""
    orders = runs.order_details(tenant_id, action_id)
    newest = next((each for each in reversed(orders.values()) if each["relation"] == Relation.CORRECTION), None)
    if newest is None:
        return None
    steps = {event_id: each for event_id, each in orders.items() if each["plan"] == newest["plan"]}
    children = [actions.child_of(tenant_id, event_id) for event_id in steps]
    if len(steps) < newest["of"] or any(each is None or outcome_of(each) is not Outcome.VERIFIED for each in children):
        return None
    return read_difference(runs.order_plan(tenant_id, newest)["difference"])


def manual_orders(action: Action) -> dict[Relation, tuple[tuple[RecoveryOrder, ...] | str, tuple[str, ...]]]:
    """Return the order of each kind that a person could give, from the last run's readings, and the effects that it
    concerns. A correction has a plan of its own (`correction_for`).
    """
    try:
        basis, findings = _manual_basis(action)
    except CannotOpen:
        return dict.fromkeys(remedies.RELATIONS.values(), (UNREADABLE, ()))
    effects = findings.get("verdict", {}).get("effects", [])
    orders = {}
    for relation in remedies.RELATIONS.values():
        wanted = LACKING if relation is Relation.FORWARD else SEEN
        concerned = tuple(each["name"] for each in effects if EffectStatus(each["found"]) in wanted)
        orders[relation] = (remedies.plan_recovery(basis, relation, concerned=concerned), concerned)
    return orders


def correction_for(action: Action) -> Correction | str:
    """The correction of what the last run showed, or why there can be none."""
    try:
        basis, findings = _manual_basis(action)
    except CannotOpen:
        return UNREADABLE
    return remedies.plan_correction(basis, find_difference(findings), tool=action.tool)


def _manual_basis(action: Action) -> tuple[PlanBasis, dict[str, Any]]:
    """The basis of a person's order, and the findings of the last run."""
    plan = plan_for(action.tenant_id, action.id)
    facts = ContractFacts.of(plan.contract)
    run = queries.last_run(action.tenant_id, action.id)
    findings = queries.run_findings(run) if run else {}
    layers = {**findings.get("layers", {}), **plan.bindings, "sa": findings.get("layers", {}).get("sa", {})}
    tools = remedy_arguments(action.tenant_id, facts)
    return PlanBasis(recovery=facts.recovery, tools=tools, layers=layers), findings


def current_action(head: ledger.SubjectHead) -> Any:
    """The present view of an action that is locked."""
    action = actions.action(head.tenant_id, head.id)
    assert action is not None
    return action
