"""Loads the context a call is checked against: its agent, its session and its target."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from approvals.agents.operations.registry_entry import is_sealed, refusal_to_act
from approvals.gate.queries import CallerFacts
from approvals.gate.rules import gate, stale_reads
from approvals.gate.rules.gate import CallerContext, GateVerdict, TargetContext
from approvals.gate.rules.proposals import Proposal
from approvals.gate.rules.stale_reads import ResourceChange
from approvals.models import Session
from approvals.policy.rules import autonomy
from approvals.sessions import queries as sessions_queries
from approvals.sessions.queries import disclosed_contract, pin_of
from ledger.actions.queries import actions, runs
from ledger.catalogue import queries as catalogue_queries
from ledger.record.rules.lifecycle import RepeatBlock, current_repeat_block
from ledger.verification.queries.storage import is_uuid

if TYPE_CHECKING:
    from ledger.models import Action


def caller_context(session: Session, call: Proposal, facts: CallerFacts, *, traced: bool = True) -> CallerContext:
    """Return the current state of the agent and its session; `traced`: the call came with the trace of its agent."""
    tenant_id, agent, version, current = session.tenant_id, facts.agent, facts.version, facts.current
    disclosed = {tool["name"]: disclosed_contract(tenant_id, tool["digest"]) for tool in session.contract["tools"]}
    return CallerContext(
        registered=agent is not None and agent.revoked_at is None and version is not None,
        sealed=version is not None and is_sealed(version) and current is not None and is_sealed(current),
        open=session.closed_at is None and agent is not None and session.agent_seq >= agent.sessions_since,
        pin=pin_of(session, quiet=autonomy.load_stored(bytes(facts.policies["autonomy"].document)).quiet),
        disclosed=disclosed,
        registered_tools=_tools_left(session, call, facts),
        catalogue=frozenset(disclosed) if call.tool in disclosed else catalogue_queries.tool_names(tenant_id),
        calls_made=session.calls_accepted + session.calls_refused,
        iteration_limit=session.iteration_limit,
        forced_out=session.forced_at is not None,
        traced=traced,
    )


def _tools_left(session: Session, call: Proposal, facts: CallerFacts) -> frozenset[str]:
    """The tool of a call, unless the agent's registration never had it or has lost it since the session was opened."""
    shown = next((each for each in session.contract["tools"] if each["name"] == call.tool), None)
    if shown is None or facts.version is None or call.tool not in facts.version.tools:
        return frozenset()
    lost = refusal_to_act(session, facts.agent, facts.current, tool=call.tool, version=shown["version"])
    return frozenset({call.tool}) if lost is None else frozenset()


def target_context(
    session: Session,
    call: Proposal,
    verdict: GateVerdict,
    *,
    at: datetime,
    remedy: bool,
    edited: bool = False,
) -> TargetContext:
    """The current state around the target of a call.

    Steps of the run that failed or are unobserved do not stop a recovery action, which corrects them, nor an edit,
    which takes the place of the step that it replaces.
    """
    assert verdict.contract is not None
    tenant_id, contract = session.tenant_id, verdict.contract
    surroundings = runs.surroundings(
        tenant_id,
        session.run_id,
        verdict.target_resource[:512],
        agent=session.agent_id,
        tool=contract.name,
        operation_key=verdict.operation_hash,
        at=at,
    )
    counted = contract.mutating and not remedy and not edited
    twin = actions.action(tenant_id, surroundings.duplicate) if surroundings.duplicate else None
    return TargetContext(
        dependencies=_dependencies(session, call),
        freezes=tuple((scope, value) for scope, value in surroundings.freezes),
        open_twin=str(twin.id) if twin else None,
        twin_block=_twin_block(twin, at=at) if twin else RepeatBlock.OPEN,
        twin_blocks_until=twin.blocks_until if twin else None,
        twin_state=("CONTRADICTED" if twin.contradicted else twin.state) if twin else "",
        twin_waits_for_a_person=bool(twin and (twin.settled or twin.state == "REVIEW_REQUIRED")),
        superseded=_superseded_state(session, call),
        unwinding=surroundings.unwinding and not remedy,
        after_pivot=not remedy and any(runs.is_pivot(tenant_id, each) for each in surroundings.succeeded),
        unobserved=tuple((step, state) for step, state in surroundings.unobserved) if counted else (),
        failed=tuple(surroundings.failed) if counted else (),
        changes=_resource_changes(session, call),
    )


def _twin_block(twin: Action, *, at: datetime) -> RepeatBlock:
    block = current_repeat_block(
        twin.state, twin.reached_by, contradicted=twin.contradicted, blocks_until=twin.blocks_until, at=at
    )
    # It moved on since it was found: the call is refused as it was found.
    return block or RepeatBlock.OPEN


def _dependencies(session: Session, call: Proposal) -> dict[str, gate.Dependency]:
    ids = [UUID(one) for one in call.depends_on if is_uuid(one)]
    if not ids:
        return {}
    found = actions.actions_by_id(session.tenant_id, ids)
    # A session that is over is followed by another one of the same key in the same run.
    before = sessions_queries.sessions_by_id(session.tenant_id, {each.session_id for each in found.values()})
    own = {each.id for each in before.values() if each.key_actor == session.key_actor}
    noticed = runs.acknowledged_failures(session.tenant_id, ids)
    return {
        str(action.id): gate.Dependency(
            action.state,
            contradicted=action.contradicted,
            reversed=action.reversed,
            acknowledged=action.id in noticed,
        )
        for action in found.values()
        if action.session_id == session.id or (action.run_id == session.run_id and action.session_id in own)
    }


def _superseded_state(session: Session, call: Proposal) -> str | None:
    """The state of the action that a call replaces, if both belong to the same API key."""
    if call.supersedes is None or not is_uuid(call.supersedes):
        return None
    action = actions.action(session.tenant_id, UUID(call.supersedes))
    before = sessions_queries.session(session.tenant_id, action.session_id) if action is not None else None
    return action.state if action is not None and before is not None and before.key_actor == session.key_actor else None


def _resource_changes(session: Session, call: Proposal) -> dict[str, tuple[ResourceChange, ...]]:
    """The changes on record, since they were read, of the resources that a call is based on."""
    if not call.based_on:
        return {}
    since = min(each.read_at for each in call.based_on)
    found: dict[str, list[ResourceChange]] = {each.resource: [] for each in call.based_on}
    targets = [each for each in found if not each.startswith(stale_reads.ACTION)]
    for action in runs.possible_changes(session.tenant_id, targets, since=since):
        found[action.target].append(_action_change(session, action))
    for each in call.based_on:
        if each.resource.startswith(stale_reads.ACTION):
            found[each.resource].append(_own_step(session, each.resource.removeprefix(stale_reads.ACTION)))
        elif each.version is not None:
            seen = runs.observed_versions(session.tenant_id, each.resource, since=each.read_at)
            found[each.resource] += [ResourceChange(version=one.version, seen_at=one.seen_at) for one in seen]
    return {resource: tuple(each) for resource, each in found.items()}


def _action_change(session: Session, action: Action) -> ResourceChange:
    """Return the change that an action may have made, until its effect can no longer occur or was contradicted.

    An agent is not told about the actions of others.
    """
    who = str(action.id) if action.run_id == session.run_id else "another action"
    if action.contradicted:
        return ResourceChange(what=f"a later reading contradicts what {who} did", until=action.changed_at)
    return ResourceChange(what=f"{who} was at work on it", until=action.horizon_at)


def _own_step(session: Session, name: str) -> ResourceChange:
    """A step of the agent's own run: its state, and since when."""
    action = actions.action(session.tenant_id, UUID(name)) if is_uuid(name) else None
    if action is None or action.run_id != session.run_id:
        return ResourceChange(what="it is no action of this run")
    return ResourceChange(state=action.state, until=action.changed_at)
