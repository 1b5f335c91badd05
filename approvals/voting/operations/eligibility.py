"""Voting eligibility: who may vote on an approval, which votes count now, and what is missing.

Everything is read again whenever it matters (at the vote, at the claim, at the start): whoever was disabled, lost a
group or a key, or got a stake in the matter since, no longer counts (B18, B19).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.models import Agent, Approval, Approver, Delegation, Session, Vote
from approvals.requests.queries import approvals as approvals_queries
from approvals.requests.queries import deadlines
from approvals.requests.queries.approvals import Parties
from approvals.sessions import queries as sessions_queries
from approvals.voting.queries import approvers
from approvals.voting.queries import votes as votes_queries
from approvals.voting.rules import binding, quorum
from approvals.voting.rules.quorum import EVERYBODY, ApprovalTerms, Ballot, VoteTally
from ledger.actions.queries import actions as actions_queries
from ledger.record.rules.refusals import Refused

ROLES = {
    "requester": "You requested this, so someone else must approve it.",
    "agent_owner": "You own this agent, so someone else must approve it.",
    "delegator": "This is done on your behalf, so someone else must approve it.",
    "editor": "You edited this request, so someone else must approve it.",
    "policy_author": "You last changed the approval policy, so someone else must approve it.",
}


class NotIndependent(Refused):
    """The policy wants somebody who has no stake in this request."""

    code = "NOT_INDEPENDENT"
    status = 403


class NotAsked(Refused):
    """You are in none of the groups that this request asks."""

    code = "NOT_ASKED"
    status = 403


class AlreadyVoted(Refused):
    """You have voted on this request, with this account or another one."""

    code = "ALREADY_VOTED"


@dataclass(frozen=True, kw_only=True)
class EligibleVoter:
    """What somebody may decide: the human behind an account, and the groups that their vote counts for.

    `lender` is the account whose power the vote uses, when it is not the account's own.
    """

    actor: UUID
    person: str
    groups: frozenset[str]
    lender: UUID | None = None
    power: str = ""
    away: bool = False

    def ballot(self, terms: ApprovalTerms) -> Ballot:
        """The vote for the request that this person could give."""
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
    """The roster at one moment: every account that was ever in it, what is lent, and who is away."""

    roster: Mapping[UUID, Approver]
    lent: tuple[Delegation, ...]
    away: frozenset[UUID]

    def person(self, actor: UUID) -> str:
        """The human behind an account; an account that nobody is known to stand behind is its own."""
        row = self.roster.get(actor)
        return str(row.person_id if row else actor)

    def groups(self, actor: UUID) -> frozenset[str]:
        """The groups of an account that may decide now; none of any other."""
        row = self.roster.get(actor)
        return frozenset(row.groups) | {EVERYBODY} if row is not None and row.active else frozenset()


@dataclass(frozen=True, kw_only=True)
class EligibilityContext:
    """What a standing is worked out from: the people, who is behind the action, and the votes; read together."""

    people: Roster
    action: Any
    session: Session | None
    agent: Agent | None
    policy_authors: tuple[UUID, ...]
    cast: tuple[Vote, ...]


@dataclass(frozen=True, kw_only=True)
class VotingStatus:
    """How an approval stands: what it asks for, what the votes come to, and who may still vote.

    `fallen` are votes that were given and do not count any more; `barred` says of accounts as what they may not vote.
    """

    terms: ApprovalTerms
    tally: VoteTally
    votes: tuple[Vote, ...]
    fallen: tuple[Vote, ...]
    may_vote: tuple[EligibleVoter, ...]
    barred: Mapping[UUID, str]

    @property
    def stranded(self) -> bool:
        """Whether it is open and cannot be decided for: not enough people are left who may approve it."""
        if self.tally.state != "open":
            return False
        cast = [ballot_of(vote) for vote in self.votes]
        present = [place.ballot(self.terms) for place in self.may_vote if not place.away]
        return quorum.best_case_tally(self.terms, cast, present).state == "open"


def load_context(
    approval: Approval, *, at: datetime, parties: Parties | None = None, cast: Sequence[Vote] | None = None
) -> EligibilityContext:
    """What the standing of an approval rests on now; `parties` and the votes `cast` where they were just read."""
    tenant_id = approval.tenant_id
    action, session, agent = parties or approvals_queries.parties(tenant_id, approval.action_id)
    roster, lent, away = approvals_queries.eligibility_rows(tenant_id, at)
    return EligibilityContext(
        people=Roster(
            roster={row.actor_id: row for row in roster},
            lent=tuple(lent),
            away=frozenset(row.actor_id for row in away),
        ),
        action=action,
        session=session,
        agent=agent,
        policy_authors=deadlines.authors_of_policy(tenant_id, approval.policy_version),
        cast=tuple(votes_queries.votes_of(tenant_id, approval.id) if cast is None else cast),
    )


def load_contexts(tenant_id: UUID, approvals: Sequence[Approval], *, at: datetime) -> dict[UUID, EligibilityContext]:
    """The same of many approvals, in as many reads as of one."""
    actions = actions_queries.actions_by_id(tenant_id, [each.action_id for each in approvals])
    opened = sessions_queries.sessions_by_id(tenant_id, {each.session_id for each in actions.values()})
    votes = votes_queries.votes_by_approval(tenant_id, [each.id for each in approvals])
    roster, lent, away = approvals_queries.eligibility_rows(tenant_id, at)
    known = Roster(
        roster={row.actor_id: row for row in roster},
        lent=tuple(lent),
        away=frozenset(row.actor_id for row in away),
    )
    agents = approvals_queries.agents_by_name(tenant_id, {each.agent_id for each in opened.values()})
    versions = {each.policy_version for each in approvals}
    authors = {version: deadlines.authors_of_policy(tenant_id, version) for version in versions}
    found: dict[UUID, EligibilityContext] = {}
    for each in approvals:
        action = actions.get(each.action_id)
        session = opened.get(action.session_id) if action else None
        found[each.id] = EligibilityContext(
            people=known,
            action=action,
            session=session,
            agent=agents.get(session.agent_id) if session else None,
            policy_authors=authors[each.policy_version],
            cast=tuple(votes.get(each.id, ())),
        )
    return found


def voting_status(approval: Approval, *, at: datetime, on: EligibilityContext | None = None) -> VotingStatus:
    """How an approval stands now."""
    on = on or load_context(approval, at=at)
    known, terms = on.people, quorum.read_terms(approval.terms)
    barred = quorum.barred_people(terms, stakeholders(approval, on))
    cast = _votes(on)
    stopped = _stopped_keys(approval.tenant_id, cast)
    live = [vote for vote in cast if _counts(vote, known, barred, stopped)]
    tally = quorum.tally_votes(terms, [_now(vote, known) for vote in live])
    places = _places(terms, tally, on)
    heard = {vote.voter for vote in cast} | {actor for actor in known.roster if _has_voted(actor, cast, known)}
    return VotingStatus(
        terms=terms,
        tally=tally,
        votes=tuple(live),
        fallen=tuple(vote for vote in cast if vote not in live),
        may_vote=tuple(
            place
            for place in places
            if place.actor not in heard and place.person not in barred and place.power not in barred
        ),
        barred={row.actor_id: barred[str(row.person_id)] for row in known.roster.values() if _is_barred(row, barred)},
    )


def status_if_edited(
    approval: Approval, terms: Mapping[str, Any], *, policy_version: str, editor: UUID, at: datetime
) -> VotingStatus:
    """How the request would stand that an edit by this person makes of it, under these terms and without any vote."""
    edited = copy(approval)
    edited.editor, edited.terms, edited.policy_version = editor, dict(terms), policy_version
    return voting_status(edited, at=at, on=replace(load_context(edited, at=at), cast=()))


def eligible_voter(
    approval: Approval, actor_id: UUID, *, at: datetime, on: EligibilityContext | None = None
) -> EligibleVoter:
    """What somebody's vote counts for now, or why they may not vote (B18 to B20)."""
    on = on or load_context(approval, at=at)
    known = on.people
    own = known.roster.get(actor_id)
    if own is None or not own.active:
        raise binding.NotEligible
    standing = voting_status(approval, at=at, on=on)
    if actor_id in standing.barred:
        role = standing.barred[actor_id]
        raise binding.SelfApproval if role == "requester" else NotIndependent(ROLES[role])
    if _has_voted(actor_id, [*standing.votes, *standing.fallen], known):
        raise AlreadyVoted
    place = next((each for each in standing.may_vote if each.actor == actor_id), None)
    if place is None:
        raise NotAsked
    return place


def refuse_stakeholder(approval: Approval, actor_id: UUID, *, at: datetime) -> None:
    """Refuse somebody who has a stake in the request, whether or not they are in the roster."""
    on = load_context(approval, at=at)
    role = quorum.barred_people(quorum.read_terms(approval.terms), stakeholders(approval, on)).get(
        on.people.person(actor_id)
    )
    if role is not None:
        raise binding.SelfApproval if role == "requester" else NotIndependent(ROLES[role])


def _votes(on: EligibilityContext) -> list[Vote]:
    """The votes that are counted: an operator who breaks the glass decides without them (C-21)."""
    return [vote for vote in on.cast if vote.verdict != binding.VoteChoice.BREAK_GLASS]


def stakeholders(approval: Approval, on: EligibilityContext) -> dict[str, frozenset[str]]:
    """The people behind each role in the matter, for `quorum.barred_people`."""
    known, session = on.people, on.session
    behind = (known.person(session.key_actor), session.on_behalf_of) if session else ()
    found: dict[str, tuple[UUID | str | None, ...]] = {
        "requester": (approval.requester, *((str(session.key_actor),) if session else ())),
        "agent_owner": (on.agent.owner if on.agent else None,),
        "delegator": behind,
        "editor": (approval.editor,),
        "policy_author": on.policy_authors,
    }
    return {
        role: frozenset(known.person(one) if isinstance(one, UUID) else one for one in who if one is not None)
        for role, who in found.items()
    }


def ballot_of(vote: Vote) -> Ballot:
    """A vote as it was cast."""
    return Ballot(
        voter=str(vote.voter),
        person=str(vote.person_id or vote.voter),
        groups=frozenset(vote.groups) | {EVERYBODY},
        verdict=vote.verdict,
        evidence_class=vote.evidence_class,
        delegated_by=str(vote.delegated_by) if vote.delegated_by else "",
    )


def _now(vote: Vote, known: Roster) -> Ballot:
    """A vote with what it counts for today: groups that were lost since are not in it any more."""
    cast = ballot_of(vote)
    power = vote.delegated_by or vote.voter
    return Ballot(
        voter=cast.voter,
        person=known.person(vote.voter),
        groups=cast.groups & known.groups(power),
        verdict=cast.verdict,
        evidence_class=cast.evidence_class,
        delegated_by=known.person(vote.delegated_by) if vote.delegated_by else "",
    )


def _counts(vote: Vote, known: Roster, barred: Mapping[str, str], stopped: frozenset[str]) -> bool:
    """Whether a vote that was given still stands."""
    if not known.groups(vote.voter) or known.person(vote.voter) in barred or vote.credential_id in stopped:
        return False
    if vote.delegated_by is None:
        return True
    return (
        bool(known.groups(vote.delegated_by))
        and known.person(vote.delegated_by) not in barred
        and not votes_queries.is_delegation_revoked(vote)
    )


def _stopped_keys(tenant_id: UUID, cast: list[Vote]) -> frozenset[str]:
    """The passkeys of these votes that may not sign any more."""
    used = {vote.credential_id for vote in cast if vote.credential_id}
    if not used:
        return frozenset()
    active = {key.credential_id for key in approvers.approver_keys(tenant_id, states=["ACTIVE"])}
    return frozenset(used - active)


def _has_voted(actor: UUID, cast: list[Vote], known: Roster) -> bool:
    """Whether the human behind an account has voted, with this account or another one."""
    return any(known.person(vote.voter) == known.person(actor) for vote in cast)


def _is_barred(row: Approver, barred: Mapping[str, str]) -> bool:
    return row.active and str(row.person_id) in barred


def _places(terms: ApprovalTerms, tally: VoteTally, on: EligibilityContext) -> list[EligibleVoter]:
    """Everybody whose vote one of the groups that are asked would count."""
    tool, known = on.action.tool if on.action else "", on.people
    wanted = frozenset(tally.missing) or terms.groups
    found = (_place(row, wanted, terms, tool, known) for row in known.roster.values() if row.active)
    return [place for place in found if place is not None]


def _place(
    row: Approver, wanted: frozenset[str], terms: ApprovalTerms, tool: str, known: Roster
) -> EligibleVoter | None:
    """An account's own power, or a lent one where that fills a place which the own one could not."""
    own = known.groups(row.actor_id)
    away = row.actor_id in known.away
    for each in known.lent:
        if each.to_actor != row.actor_id or (each.tools and tool not in each.tools):
            continue
        groups = known.groups(each.from_actor)
        lent = groups & frozenset(each.groups) if each.groups else groups
        if lent & wanted - own:
            return EligibleVoter(
                actor=row.actor_id,
                person=str(row.person_id),
                groups=lent,
                lender=each.from_actor,
                power=known.person(each.from_actor),
                away=away,
            )
    if not own & terms.groups:
        return None
    return EligibleVoter(actor=row.actor_id, person=str(row.person_id), groups=own, away=away)
