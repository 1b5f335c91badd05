"""Voting eligibility: who may vote on an approval, which votes count now, and which are missing.

Everything is read again at the vote, at the claim and at the start: votes of people who have since been disabled, lost
a group or a key, or acquired a stake in the request no longer count (B18, B19).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from approvals.models import Absence, Agent, Approval, Approver, Delegation, Session, Vote
from approvals.requests.queries import approvals as approvals_queries
from approvals.requests.queries import deadlines
from approvals.requests.queries.approvals import Parties
from approvals.sessions import queries as sessions_queries
from approvals.voting.queries import approvers
from approvals.voting.queries import votes as votes_queries
from approvals.voting.rules import binding, quorum
from approvals.voting.rules.quorum import EVERYBODY, ApprovalTerms, Ballot, VoteTally
from ledger.actions.queries import actions as actions_queries
from ledger.db import execute, instances, pipeline
from ledger.record.rules.refusals import Refused

ROLES = {
    "requester": "You requested this, so someone else must approve it.",
    "agent_owner": "You own this agent, so someone else must approve it.",
    "delegator": "This is done on your behalf, so someone else must approve it.",
    "editor": "You edited this request, so someone else must approve it.",
    "policy_author": "You last changed the approval policy, so someone else must approve it.",
}


class NotIndependent(Refused):
    """The policy requires a reviewer who is independent of this request."""

    code = "NOT_INDEPENDENT"
    status = 403


class NotAsked(Refused):
    """You are not in a reviewer group of this request."""

    code = "NOT_ASKED"
    status = 403


class AlreadyVoted(Refused):
    """You have already voted on this request, with this account or another one."""

    code = "ALREADY_VOTED"


@dataclass(frozen=True, kw_only=True)
class EligibleVoter:
    """An account that may vote: the person behind it, and the groups that the vote counts for.

    `lender` is the account that delegated its power, `power` the person behind that.
    """

    actor: UUID
    person: str
    groups: frozenset[str]
    lender: UUID | None = None
    power: str = ""
    away: bool = False

    def ballot(self, terms: ApprovalTerms) -> Ballot:
        """The approving vote that this person could cast."""
        return Ballot(
            voter=str(self.actor),
            person=self.person,
            groups=self.groups,
            verdict=quorum.APPROVE,
            evidence_class=terms.step_up,
            delegated_by=self.power,
        )


@dataclass(frozen=True, kw_only=True)
class Roster:
    """The roster at one moment: every account ever in it, delegations in force, and absences."""

    roster: Mapping[UUID, Approver]
    lent: tuple[Delegation, ...]
    away: frozenset[UUID]

    @classmethod
    def of(cls, roster: list[Any], lent: list[Any], away: list[Any]) -> Roster:
        """The roster that is in the columns of a `roster_call`."""
        return cls(
            roster={row.actor_id: row for row in instances(Approver, roster)},
            lent=tuple(instances(Delegation, lent)),
            away=frozenset(row.actor_id for row in instances(Absence, away)),
        )

    def person(self, actor: UUID) -> str:
        """The person behind an account; the account itself if no person is known."""
        return self._people.get(actor) or str(actor)

    @cached_property
    def _people(self) -> dict[UUID, str]:
        """The people of a roster, cached: one inbox asks for the same few hundreds of times."""
        return {actor: str(row.person_id) for actor, row in self.roster.items()}

    def groups(self, actor: UUID) -> frozenset[str]:
        """The groups of an active account; empty for any other."""
        row = self.roster.get(actor)
        return frozenset(row.groups) | {EVERYBODY} if row is not None and row.active else frozenset()


@dataclass(frozen=True, kw_only=True)
class EligibilityContext:
    """The inputs of a voting status: roster, action, session, agent and votes, read together."""

    people: Roster
    action: Any
    session: Session | None
    agent: Agent | None
    policy_authors: tuple[UUID, ...]
    cast: tuple[Vote, ...]


@dataclass(frozen=True, kw_only=True)
class VotingStatus:
    """The voting status of an approval: its terms, the tally, and who may still vote.

    `fallen` are votes that no longer count; `barred` gives the role for which an account may not vote.
    """

    terms: ApprovalTerms
    tally: VoteTally
    votes: tuple[Vote, ...]
    fallen: tuple[Vote, ...]
    may_vote: tuple[EligibleVoter, ...]
    barred: Mapping[UUID, str]

    @property
    def stranded(self) -> bool:
        """Return True if it is open and cannot be approved: not enough eligible people are left."""
        if self.tally.state != "open":
            return False
        cast = [ballot_of(vote) for vote in self.votes]
        present = [voter.ballot(self.terms) for voter in self.may_vote if not voter.away]
        return quorum.best_case_tally(self.terms, cast, present).state == "open"


def load_context(
    approval: Approval, *, at: datetime, parties: Parties | None = None, cast: Sequence[Vote] | None = None
) -> EligibilityContext:
    """Load the context of an approval; pass `parties` and the votes `cast` where they were just read."""
    tenant_id = approval.tenant_id
    parties = parties or approvals_queries.parties(tenant_id, approval.action_id)
    votes = [approvals_queries.votes_call(tenant_id, approval.id)] if cast is None else []
    [people], *stored = pipeline(approvals_queries.roster_call(tenant_id, at), *votes)
    return make_context(approval, parties, Roster.of(*people), instances(Vote, stored[0]) if cast is None else cast)


def make_context(approval: Approval, parties: Parties, people: Roster, cast: Sequence[Vote]) -> EligibilityContext:
    """Build the context of an approval from rows that were read."""
    return EligibilityContext(
        people=people,
        action=parties.action,
        session=parties.session,
        agent=parties.agent,
        policy_authors=deadlines.authors_of_policy(approval.tenant_id, approval.policy_version),
        cast=tuple(cast),
    )


def load_contexts(tenant_id: UUID, approvals: Sequence[Approval], *, at: datetime) -> dict[UUID, EligibilityContext]:
    """Load the contexts of many approvals, with as many queries as for one."""
    actions = actions_queries.actions_by_id(tenant_id, [each.action_id for each in approvals])
    opened = sessions_queries.sessions_by_id(tenant_id, {each.session_id for each in actions.values()})
    votes = votes_queries.votes_by_approval(tenant_id, [each.id for each in approvals])
    [columns] = execute(*approvals_queries.roster_call(tenant_id, at))
    people = Roster.of(*columns)
    agents = approvals_queries.agents_by_name(tenant_id, {each.agent_id for each in opened.values()})
    versions = {each.policy_version for each in approvals}
    authors = {version: deadlines.authors_of_policy(tenant_id, version) for version in versions}
    found: dict[UUID, EligibilityContext] = {}
    for each in approvals:
        action = actions.get(each.action_id)
        session = opened.get(action.session_id) if action else None
        found[each.id] = EligibilityContext(
            people=people,
            action=action,
            session=session,
            agent=agents.get(session.agent_id) if session else None,
            policy_authors=authors[each.policy_version],
            cast=tuple(votes.get(each.id, ())),
        )
    return found


def voting_status(approval: Approval, *, at: datetime, context: EligibilityContext | None = None) -> VotingStatus:
    """The voting status of an approval now."""
    context = context or load_context(approval, at=at)
    people, terms = context.people, quorum.read_terms(approval.terms)
    barred = quorum.barred_people(terms, stakeholders(approval, context))
    # Break-glass decides without the count of votes (C-21).
    cast = [vote for vote in context.cast if vote.verdict != binding.VoteChoice.BREAK_GLASS]
    stopped = _stopped_keys(approval.tenant_id, cast)
    live = [vote for vote in cast if _still_counts(vote, people, barred, stopped)]
    tally = quorum.tally_votes(terms, [_current_ballot(vote, people) for vote in live])
    voters = _eligible_voters(terms, tally, context)
    voted = {vote.voter for vote in cast} | {actor for actor in people.roster if _has_voted(actor, cast, people)}
    return VotingStatus(
        terms=terms,
        tally=tally,
        votes=tuple(live),
        fallen=tuple(vote for vote in cast if vote not in live),
        may_vote=tuple(
            voter
            for voter in voters
            if voter.actor not in voted and voter.person not in barred and voter.power not in barred
        ),
        barred={
            row.actor_id: barred[str(row.person_id)]
            for row in people.roster.values()
            if row.active and str(row.person_id) in barred
        },
    )


def status_if_edited(
    approval: Approval, terms: Mapping[str, Any], *, policy_version: str, editor: UUID, at: datetime
) -> VotingStatus:
    """The voting status that the request would have after an edit by this person, under these terms, without votes."""
    edited = copy(approval)
    edited.editor, edited.terms, edited.policy_version = editor, dict(terms), policy_version
    return voting_status(edited, at=at, context=replace(load_context(edited, at=at), cast=()))


def eligible_voter(
    approval: Approval, actor_id: UUID, *, at: datetime, context: EligibilityContext | None = None
) -> EligibleVoter:
    """The present weight of a person's vote; refuse people who may not vote (B18 to B20)."""
    context = context or load_context(approval, at=at)
    people = context.people
    own = people.roster.get(actor_id)
    if own is None or not own.active:
        raise binding.NotEligible
    standing = voting_status(approval, at=at, context=context)
    if actor_id in standing.barred:
        role = standing.barred[actor_id]
        raise binding.SelfApproval if role == "requester" else NotIndependent(ROLES[role])
    if _has_voted(actor_id, [*standing.votes, *standing.fallen], people):
        raise AlreadyVoted
    voter = next((each for each in standing.may_vote if each.actor == actor_id), None)
    if voter is None:
        raise NotAsked
    return voter


def refuse_stakeholder(approval: Approval, actor_id: UUID, *, at: datetime) -> None:
    """Refuse a person with a conflict of interest in the request, in the roster or not."""
    context = load_context(approval, at=at)
    role = quorum.barred_people(quorum.read_terms(approval.terms), stakeholders(approval, context)).get(
        context.people.person(actor_id)
    )
    if role is not None:
        raise binding.SelfApproval if role == "requester" else NotIndependent(ROLES[role])


def stakeholders(approval: Approval, context: EligibilityContext) -> dict[str, frozenset[str]]:
    """The people in each role that may bar from voting, for `quorum.barred_people`."""
    people, session = context.people, context.session
    behind = (people.person(session.key_actor), session.on_behalf_of) if session else ()
    found: dict[str, tuple[UUID | str | None, ...]] = {
        "requester": (approval.requester, *((str(session.key_actor),) if session else ())),
        "agent_owner": (context.agent.owner if context.agent else None,),
        "delegator": behind,
        "editor": (approval.editor,),
        "policy_author": context.policy_authors,
    }
    return {
        role: frozenset(people.person(one) if isinstance(one, UUID) else one for one in who if one is not None)
        for role, who in found.items()
    }


def ballot_of(vote: Vote) -> Ballot:
    """Return a vote as it was cast."""
    return Ballot(
        voter=str(vote.voter),
        person=str(vote.person_id or vote.voter),
        groups=frozenset(vote.groups) | {EVERYBODY},
        verdict=vote.verdict,
        evidence_class=vote.evidence_class,
        delegated_by=str(vote.delegated_by) if vote.delegated_by else "",
    )


def _current_ballot(vote: Vote, people: Roster) -> Ballot:
    """A vote with the groups that it counts for now, without groups lost since."""
    cast = ballot_of(vote)
    power = vote.delegated_by or vote.voter
    return Ballot(
        voter=cast.voter,
        person=people.person(vote.voter),
        groups=cast.groups & people.groups(power),
        verdict=cast.verdict,
        evidence_class=cast.evidence_class,
        delegated_by=people.person(vote.delegated_by) if vote.delegated_by else "",
    )


def _still_counts(vote: Vote, people: Roster, barred: Mapping[str, str], stopped: frozenset[str]) -> bool:
    """Return whether a cast vote still counts."""
    if not people.groups(vote.voter) or people.person(vote.voter) in barred or vote.credential_id in stopped:
        return False
    if vote.delegated_by is None:
        return True
    return (
        bool(people.groups(vote.delegated_by))
        and people.person(vote.delegated_by) not in barred
        and not votes_queries.is_delegation_revoked(vote)
    )


def _stopped_keys(tenant_id: UUID, cast: list[Vote]) -> frozenset[str]:
    """The passkeys of these votes that are no longer active."""
    used = {vote.credential_id for vote in cast if vote.credential_id}
    if not used:
        return frozenset()
    active = {key.credential_id for key in approvers.approver_keys(tenant_id, states=["ACTIVE"])}
    return frozenset(used - active)


def _has_voted(actor: UUID, cast: list[Vote], people: Roster) -> bool:
    """Return True if the person behind an account has voted, with this account or another."""
    return any(people.person(vote.voter) == people.person(actor) for vote in cast)


def _eligible_voters(terms: ApprovalTerms, tally: VoteTally, context: EligibilityContext) -> list[EligibleVoter]:
    """Every account whose vote one of the required groups would count."""
    tool, people = context.action.tool if context.action else "", context.people
    wanted = frozenset(tally.missing) or terms.groups
    found = (_eligible_power(row, wanted, terms, tool, people) for row in people.roster.values() if row.active)
    return [voter for voter in found if voter is not None]


def _eligible_power(
    row: Approver, wanted: frozenset[str], terms: ApprovalTerms, tool: str, people: Roster
) -> EligibleVoter | None:
    """An account's own power to vote, or a delegated one that fills a place which its own cannot."""
    own = people.groups(row.actor_id)
    away = row.actor_id in people.away
    for each in people.lent:
        if each.to_actor != row.actor_id or (each.tools and tool not in each.tools):
            continue
        groups = people.groups(each.from_actor)
        lent = groups & frozenset(each.groups) if each.groups else groups
        if lent & wanted - own:
            return EligibleVoter(
                actor=row.actor_id,
                person=str(row.person_id),
                groups=lent,
                lender=each.from_actor,
                power=people.person(each.from_actor),
                away=away,
            )
    if not own & terms.groups:
        return None
    return EligibleVoter(actor=row.actor_id, person=str(row.person_id), groups=own, away=away)
