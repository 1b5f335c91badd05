"""The recipients of notices: people of the tenant, by the roster, the thread and the directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.voting.operations import eligibility
from approvals.voting.queries import approvers as approvers_read
from approvals.voting.queries import votes
from console.accounts import queries as directory
from console.edge.auth import roles_of
from console.notifications.rules import AUDIENCES, PROPOSALS, Audience, Occasion
from ledger.exports import queries as exports_queries
from ledger.people.queries import person_behind
from ledger.people.rules.confirmation import TERMS


@dataclass(frozen=True)
class EventContext:
    """One event with its object: the approval, if it is about one, and the event's own detail."""

    what: Occasion
    subject_id: UUID
    actor_id: UUID
    detail: Mapping[str, Any]
    approval: Any


@dataclass(frozen=True)
class TenantPeople:
    """The people of a tenant, loaded once: members by pseudonym, and approvers."""

    members: Mapping[UUID, Any]
    approvers: tuple[Any, ...]
    at: datetime


def tenant_people(tenant_id: UUID, *, at: datetime) -> TenantPeople:
    """All members of the tenant whose account is open."""
    here = {
        each.actor_id: each for each in directory.members(tenant_id) if each.removed_at is None and each.user.is_active
    }
    deciders = tuple(each for each in approvers_read.approvers(tenant_id) if each.actor_id in here)
    return TenantPeople(here, deciders, at)


def find_recipients(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> frozenset[UUID]:
    """The people to notify, without the person who acted and former members."""
    wanted = _WANTED[AUDIENCES[scene.what]](tenant_id, scene, people)
    return frozenset(wanted & people.members.keys()) - {scene.actor_id}


def _approvers(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    """Return the people who may still vote, by the rule of the page and of the vote."""
    if scene.approval is None:
        return set()
    return {place.actor for place in eligibility.voting_status(scene.approval, at=people.at).may_vote}


def _escalation(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    group = scene.detail.get("to")
    return (_of_groups(people, {str(group)}) if group else set()) or _approvers(tenant_id, scene, people)


def _administrators_and_operators(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    return {actor for actor, each in people.members.items() if each.is_administrator or each.is_operator}


def _named_people(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    named = scene.detail.get("actors") or [scene.detail.get("to")]
    return {UUID(str(actor)) for actor in named if actor}


def _asker(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    asked = (
        votes.thread_line(tenant_id, UUID(str(scene.detail["question_id"]))) if "question_id" in scene.detail else None
    )
    return {asked.author} if asked is not None else set()


def _participants(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    if scene.approval is None:
        return set()
    voted = {each.voter for each in votes.votes_of(tenant_id, scene.approval.id)}
    wrote = {line.author for line in votes.thread_lines(tenant_id, scene.subject_id)}
    return {*voted, *wrote, *filter(None, (scene.approval.assigned_to, scene.approval.claimed_by))}


def _voters_and_participants(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    return _approvers(tenant_id, scene, people) | _participants(tenant_id, scene, people)


def _everybody(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    return set(people.members)


def _operators(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    return {actor for actor, each in people.members.items() if each.is_operator}


def _reviewers_and_operators(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    return {actor for actor, each in people.members.items() if {"reviewer", "operator"} & roles_of(each)}


def _seconds(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    """The people who may confirm a proposal; none for requests of a retention policy, which two people agreed to."""
    if scene.detail.get("retention"):
        return set()
    concerned = {each.person_id for each in people.members.values() if each.id == scene.subject_id}
    concerned.add(_person(tenant_id, scene.actor_id, people))
    roles = TERMS[PROPOSALS[scene.what]].roles
    found = (actor for actor, each in people.members.items() if roles & roles_of(each))
    return {actor for actor in found if _person(tenant_id, actor, people) not in concerned}


def _requester(tenant_id: UUID, scene: EventContext, people: TenantPeople) -> set[UUID]:
    row = exports_queries.export(tenant_id, scene.subject_id)
    return {row.requested_by} if row is not None else set()


def _person(tenant_id: UUID, actor: UUID, people: TenantPeople) -> UUID:
    """Return the human behind an account or a key."""
    row = people.members.get(actor)
    return row.person_id if row is not None and row.person_id is not None else person_behind(tenant_id, actor)


def _of_groups(people: TenantPeople, groups: set[str]) -> set[UUID]:
    """Return the people of these groups; everybody who may decide is implicitly a reviewer."""
    return {each.actor_id for each in people.approvers if "reviewers" in groups or groups & set(each.groups)}


_WANTED = {
    Audience.APPROVERS: _approvers,
    Audience.ESCALATION: _escalation,
    Audience.ALARMED: _administrators_and_operators,
    Audience.NAMED: _named_people,
    Audience.ASKER: _asker,
    Audience.ASKED: _voters_and_participants,
    Audience.INVOLVED: _participants,
    Audience.EVERYBODY: _everybody,
    Audience.OPERATORS: _operators,
    Audience.STOPPERS: _reviewers_and_operators,
    Audience.SECONDS: _seconds,
    Audience.REQUESTER: _requester,
}
