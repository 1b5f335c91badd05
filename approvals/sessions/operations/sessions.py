"""Opens, checks and closes sessions: a negotiated contract and a pinned goal, both fixed at the start."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import DatabaseError

from approvals.agents import queries as agents_queries
from approvals.agents.operations import agent_flags
from approvals.agents.operations.registry_entry import entry_of, registry_keys
from approvals.agents.rules import registry, relevance
from approvals.models import Agent, AgentVersion, Session
from approvals.policy.rules import autonomy
from approvals.sessions import queries as sessions_queries
from approvals.sessions.queries import disclosed_contract
from approvals.sessions.rules import nudge, pins
from approvals.sessions.rules.nudge import Nudge
from ledger.actions.queries import actions, freezes
from ledger.catalogue import queries as catalogue_queries
from ledger.db import execute, insert
from ledger.record import operations as ledger
from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, Refused

RECOVERY_AGENT = "recovery"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A caller's request to open a session. Capabilities that it claims are ignored (R-CR-03).

    `unwinds`: when a step of the run fails, the steps before it are to be reversed. `continues`: an earlier session of
    the same key and agent, whose run and whose calls this one goes on with.
    """

    agent_id: str
    goal: str
    ttl_seconds: int
    tools: tuple[str, ...] | None = None
    intent: str = ""
    output_tags: tuple[str, ...] = ()
    max_registry_age_s: int | None = None
    run_id: str | None = None
    iteration_limit: int | None = None
    unwinds: bool = False
    on_behalf_of: UUID | None = None
    continues: UUID | None = None


class RegistryUnreadable(Refused):
    """The registry cannot be read, so no session can be opened."""

    code = "REGISTRY_UNREADABLE"
    status = 503


class OtherRun(Refused):
    """A session that continues another one is in that one's run; leave `workflow_run_id` out."""

    code = "OTHER_RUN"
    status = 422


class AgentReserved(Refused):
    """This agent is reserved for the console's own recovery actions."""

    code = "AGENT_RESERVED"
    status = 403


def open_session(*, tenant_id: UUID, wanted: SessionRequest, key_actor: UUID, at: datetime) -> Session:
    """Negotiate a contract from the registry and pin the goal (R-CR-03, R-CR-09, R-PA-01); the registry decides."""
    if wanted.agent_id == RECOVERY_AGENT and key_actor != ledger.SYSTEM.id:
        raise AgentReserved
    before = _take_over(tenant_id, wanted, key_actor=key_actor, at=at) if wanted.continues else None
    agent, version, entry, agent_seq = _admit_agent(tenant_id, wanted, at=at)
    newest = catalogue_queries.newest_contracts(tenant_id, entry.tools, versions=entry.versions)
    disclosure = registry.negotiate(
        entry,
        contracts={name: _tool(row) for name, row in newest.items()},
        tools=wanted.tools,
        output_tags=wanted.output_tags,
        # An agent that names no intent has said its goal.
        intent=wanted.intent or wanted.goal,
    )
    session_id = ledger.new_id(at)
    pin = pins.new_pin(session_id=str(session_id), goal=wanted.goal, ttl_seconds=wanted.ttl_seconds, at=at)
    session = Session(
        tenant_id=tenant_id,
        id=session_id,
        agent_id=wanted.agent_id,
        agent_version=version.version,
        actor_id=agent.id,
        key_actor=key_actor,
        fingerprint=version.fingerprint,
        goal=wanted.goal,
        pin_hash=pin.hash,
        pinned_at=pin.pinned_at,
        pin_expires_at=pin.expires_at,
        contract=_contract(disclosure, newest, version),
        model_tier=version.model_tier,
        run_id=before.run_id if before else wanted.run_id or str(session_id),
        first_id=(before.first_id or before.id) if before else None,
        iteration_limit=wanted.iteration_limit,
        unwinds=wanted.unwinds,
        on_behalf_of=wanted.on_behalf_of,
        agent_seq=agent_seq,
        used_at=at,
        undisclosed_attempts=0,
        drifts=0,
    )
    insert(session)
    _open_on_record(session, at=at)
    return session


def _take_over(tenant_id: UUID, wanted: SessionRequest, *, key_actor: UUID, at: datetime) -> Session:
    """The session that another one continues. It and those that continued it before take no more calls: a call of a
    process that was replaced, late on its way, would else be made a second time.
    """
    assert wanted.continues is not None
    before = sessions_queries.session(tenant_id, wanted.continues)
    if before is None or before.key_actor != key_actor or before.agent_id != wanted.agent_id:
        raise NotFound("Session")
    if wanted.run_id not in (None, before.run_id):
        raise OtherRun
    for each in sessions_queries.lock_continued(tenant_id, before.first_id or before.id):
        if not sessions_queries.pin_of(each, quiet=quiet_time(tenant_id)).expiry(at=at):
            close_session(tenant_id=tenant_id, session_id=each.id, key_actor=key_actor, at=at)
    return before


def _admit_agent(
    tenant_id: UUID, wanted: SessionRequest, *, at: datetime
) -> tuple[Agent, AgentVersion, registry.RegistryEntry, int]:
    """The agent as registered, if a handshake may rely on it; an unreadable registration is refused (R-CR-16).

    With the newest event of its record: what a later one takes away, the session loses, whenever it is committed.
    """
    try:
        agent, version, seq = agents_queries.registered_agent(tenant_id, wanted.agent_id)
        entry = registry.verify_entry(
            entry_of(version) if version else None,
            seal=version.fingerprint if version else "",
            revoked=agent is None or agent.revoked_at is not None,
            keys=registry_keys(),
            at=at,
            max_age_s=wanted.max_registry_age_s,
        )
    except registry.RegistryFingerprintMismatch:
        assert agent is not None
        raise registry.RegistryFingerprintMismatch(records=(_altered_registration(agent, at=at),)) from None
    except (OSError, ValueError, DatabaseError):
        log.exception("the registry could not be read")
        raise RegistryUnreadable from None
    assert agent is not None
    assert version is not None
    return agent, version, entry, seq


def _altered_registration(agent: Agent, *, at: datetime) -> ledger.RefusedEvent:
    """The event that records an agent's registration as altered after it was sealed (R-CR-05)."""
    said = {
        "security": True,
        "code": registry.RegistryFingerprintMismatch.code,
        "agent_id": agent.agent_id,
        "version": agent.version,
    }
    return ledger.RefusedEvent(
        subject_kind="agent",
        subject_id=agent.id,
        event=ledger.NewEvent(kind="registration_altered", detail=said),
        actor=ledger.SYSTEM,
        at=at,
    )


def _open_on_record(session: Session, *, at: datetime) -> None:
    goal = ledger.store_evidence(
        tenant_id=session.tenant_id,
        subject_id=session.id,
        purpose="goal",
        data=session.goal.encode(),
        media_type="text/plain",
        source=f"agent {session.agent_id}",
        at=at,
    )
    tools = session.contract["sub_tools_disclosed"]
    ledger.append(
        ledger.SubjectHead(tenant_id=session.tenant_id, id=session.id, kind="session"),
        ledger.NewEvent(
            kind="session_opened",
            to="OPEN",
            detail={
                "agent_id": session.agent_id,
                "tools": tools,
                "run_id": session.run_id,
                "on_failure": "compensate" if session.unwinds else "stop",
                # Not in the envelope, which stays for years: whoever guesses the goal could check the guess with it.
                "pin_hash": session.pin_hash,
                "agent_version": session.agent_version,
                "agent_seq": session.agent_seq,
                "model_tier": session.model_tier,
                "key_actor": str(session.key_actor),
                "pinned_at": instant(session.pinned_at),
                "pin_expires_at": instant(session.pin_expires_at),
                "iteration_limit": session.iteration_limit,
                "contract_digest": digest(canonical(session.contract)),
                **({"on_behalf_of": str(session.on_behalf_of)} if session.on_behalf_of else {}),
                **({"first_session_id": str(session.first_id)} if session.first_id else {}),
            },
            evidence=(goal,),
            digests={"fingerprint": session.fingerprint},
        ),
        actor=ledger.Actor("agent", session.actor_id),
        at=at,
    )


def check_goal(*, tenant_id: UUID, session_id: UUID, key_actor: UUID, goal: str, at: datetime) -> pins.Comparison:
    """Compare a restated goal with the pinned one; drift is recorded, not refused (R-PA-07, R-PA-09)."""
    session = sessions_queries.session(tenant_id, session_id)
    if session is None or session.key_actor != key_actor:
        raise NotFound("Session")
    compared = pins.compare_goal(sessions_queries.pin_of(session, quiet=quiet_time(tenant_id)), goal=goal, at=at)
    note_use(session=session, at=at)
    if compared.reason == pins.AskDrift.code:
        agent_flags.record_goal_drift(session, goal=goal, sent_hash=None, at=at)
    return compared


def quiet_time(tenant_id: UUID) -> timedelta:
    """After how long without a call a pin of this tenant is over."""
    policy = catalogue_queries.active_policies(tenant_id)["autonomy"]
    return autonomy.load_stored(bytes(policy.document)).quiet


def check_output_tags(*, session: Session, tags: Collection[str], at: datetime) -> None:
    """Refuse an output with a tag that its session did not negotiate; the refusal is on record (R-CR-10)."""
    outside = sorted(set(tags) - set(session.contract.get("output_tags", ())))
    if not outside:
        return
    raise registry.OutputTagNotNegotiated(
        f"This session has not negotiated the output tag {', '.join(outside)}.",
        records=(
            ledger.RefusedEvent(
                subject_kind="session",
                subject_id=session.id,
                event=ledger.NewEvent(kind="output_tag_refused", detail={"tags": outside}),
                actor=ledger.Actor("agent", session.actor_id),
                at=at,
            ),
        ),
    )


def note_use(*, session: Session, at: datetime) -> None:
    """Record that the agent used its session; an expired one stays expired."""
    over = sessions_queries.pin_of(session, quiet=quiet_time(session.tenant_id)).expiry(at=at)
    if not over and session.closed_at is None:
        Session.objects.filter(tenant_id=session.tenant_id, id=session.id, used_at__lt=at).update(used_at=at)


def close_session(*, tenant_id: UUID, session_id: UUID, key_actor: UUID, at: datetime) -> None:
    """Close a session; it accepts no more calls, and its actions continue."""
    session = sessions_queries.lock_session(tenant_id, session_id)
    if session is None or session.key_actor != key_actor:
        raise NotFound("Session")
    if session.closed_at is not None:
        return
    ledger.append(
        ledger.lock_subject(tenant_id=tenant_id, subject_id=session_id, kind="session"),
        ledger.NewEvent(kind="session_closed", to="CLOSED"),
        actor=ledger.Actor("agent", session.actor_id),
        at=at,
    )
    Session.objects.filter(tenant_id=tenant_id, id=session_id).update(closed_at=at)


def _contract(disclosure: registry.Disclosure, newest: dict[str, Any], version: AgentVersion) -> dict[str, Any]:
    return {
        "sub_tools_disclosed": list(disclosure.tools),
        "output_tags": list(disclosure.output_tags),
        "withheld": {"count": len(disclosure.withheld), "why": disclosure.warning},
        "registry_version": version.version,
        "registry_fingerprint": version.fingerprint,
        "tools": [
            {"name": name, "version": newest[name].version, "digest": newest[name].digest} for name in disclosure.tools
        ],
    }


def _tool(row: Any) -> relevance.ToolText:
    """The text that describes the purpose of a tool."""
    contract = disclosed_contract(row.tenant_id, row.digest)
    return relevance.ToolText(contract.description, tuple(contract.arguments_schema.get("properties", {})))


def describe_contract(session: Session) -> dict[str, Any]:
    """The session contract as an agent reads it: each disclosed tool with description and argument schema."""
    contract: dict[str, Any] = {"withheld": {"count": 0, "why": ""}, "output_tags": []} | session.contract
    contract["tools"] = [
        {
            "name": tool["name"],
            "version": tool["version"],
            "wrapper_version": known.wrapper_version,
            "side_effect_class": str(known.side_effect_class),
            "description": known.description,
            "arguments_schema": dict(known.arguments_schema),
        }
        for tool in session.contract["tools"]
        for known in [disclosed_contract(session.tenant_id, tool["digest"])]
    ]
    return contract


# The nudge for a session as it stands now.


def session_nudge(session: Session, states: Collection[str], *, refused: Iterable[str] = ()) -> Nudge:
    """The nudge for the session's agent; `states` are the phases of its open actions, `refused` the codes of the calls
    that were refused just now.
    """
    refused = tuple(refused)
    if not states and not refused and _is_frozen(session):
        refused = ("TARGET_FROZEN",)
    steps = () if states or refused else _steps(session)
    return nudge.choose_nudge(states, refused=refused, steps=steps, forced=session.forced_at is not None)


def _is_frozen(session: Session) -> bool:
    """Return whether everything that the session could do is frozen."""
    return bool(freezes.freezes_on(session.tenant_id, agent=session.agent_id, tool="", target=""))


def _steps(session: Session) -> tuple[str, ...]:
    """The next tools after the newest result, if it is an uncontradicted success."""
    action = actions.newest_action(session.tenant_id, session.id)
    if action is None or action.state != "RECONCILED_SUCCESS" or action.reversed:
        return ()
    producer = disclosed_contract(session.tenant_id, action.contract_digest)
    if not producer.next_tools:
        return ()
    named = actions.suggested_next_tool(session.tenant_id, action.id)
    disclosed = session.contract["sub_tools_disclosed"]
    return nudge.next_steps(producer, named["name"] if named is not None else None, disclosed)


REACHED = "iteration_limit_reached"


def record_limit_reached(session: Session, *, at: datetime) -> None:
    """Record once that the session has reached its limit (R-FB-01, R-FB-06).

    The run then takes no more calls in any session of the same key; sessions of other keys are not affected, because
    the caller chooses the name of a run. Recovery continues.
    """
    first = execute(
        "UPDATE approvals_session SET forced_at = $3 WHERE tenant_id = $1 AND id = $2 AND forced_at IS NULL"
        " RETURNING id",
        *(session.tenant_id, session.id, at),
    )
    session.forced_at = session.forced_at or at
    if not first:
        return
    ledger.append(
        ledger.lock_subject(tenant_id=session.tenant_id, subject_id=session.id, kind="session"),
        ledger.NewEvent(
            kind=REACHED,
            detail={"limit": session.iteration_limit, "calls": session.calls_accepted + session.calls_refused},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )
