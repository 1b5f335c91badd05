"""Quorum: whose votes decide, and when they are enough.

The *terms* of a request are frozen when it is asked for; what the policy says later is another request's.

1. A threshold wants `count` votes of one group. All thresholds must be met at once. Every active approver is in the
   group "reviewers".
2. A vote is a human's, not an account's: two accounts of one person are one vote (B19, B20).
3. One human fills one place. Who is in two groups counts for one of them, whichever helps more: two roles of one person
   do not make two votes (B20).
4. A vote that was given with somebody else's power uses that power up: it counts once, whoever gives it.
5. A vote for counts only if its proof is at least as strong as the terms ask for. A vote against always counts: what
   stops a request needs no more than the session.
6. `deny` votes against from a threshold's group end the request; one, unless the policy says otherwise. Who says both
   yes and no, with two accounts, has said no. Votes against are looked at first: no number of approvals undoes them.
7. Never among those who decide are the requester, and as the policy says the agent's owner, the delegator (on whose
   behalf the agent acts), the editor, and who last changed the policy. Nor can they lend their power to somebody who
   then decides in their stead.
8. Without votes, nothing is decided. Silence and an empty group of approvers approve nothing and refuse nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from approvals.policy.rules.allowed_hours import AllowedHours
from approvals.policy.rules.allowed_hours import read as read_hours
from ledger.record.rules.outcomes import is_as_strong

EVERYBODY = "reviewers"
APPROVE = "approve"
REJECT = "reject"
INDEPENDENCE = ("requester", "agent_owner", "delegator", "editor", "policy_author")


class Risk(StrEnum):
    """The risk of an action."""

    LOW = "LOW"
    NORMAL = "NORMAL"
    HIGH = "HIGH"

    @property
    def rank(self) -> int:
        """0 for LOW up to 2 for HIGH."""
        return list(Risk).index(self)


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The number of a group who must agree, and the number of votes against that ends the request."""

    group: str
    count: int = 1
    deny: int = 1


ONE_REVIEWER = (Threshold(group=EVERYBODY),)


@dataclass(frozen=True, kw_only=True)
class ApprovalTerms:
    """The terms of a request, fixed when it is made. `rules` names the policy's rules that required it."""

    thresholds: tuple[Threshold, ...] = ONE_REVIEWER
    independence: frozenset[str] = frozenset({"requester"})
    step_up: str = "C"
    decide_within_s: int = 4 * 3600
    release_within_s: int = 15 * 60
    hours: tuple[AllowedHours, ...] = ()
    wait_for_seal: bool = True
    on_change: str = "revalidate"
    batchable: bool = False
    rules: tuple[str, ...] = ()

    @property
    def groups(self) -> frozenset[str]:
        """The groups that are asked."""
        return frozenset(each.group for each in self.thresholds)

    @property
    def votes_wanted(self) -> int:
        """The number of people required."""
        return sum(each.count for each in self.thresholds)

    def document(self) -> dict[str, Any]:
        """The terms as JSON; `read` is its inverse."""
        return {
            "thresholds": [{"group": each.group, "count": each.count, "deny": each.deny} for each in self.thresholds],
            "independence": sorted(self.independence),
            "step_up": self.step_up,
            "decide_within_s": self.decide_within_s,
            "release_within_s": self.release_within_s,
            "hours": [each.document() for each in self.hours],
            "wait_for_seal": self.wait_for_seal,
            "on_change": self.on_change,
            "batchable": self.batchable,
            "rules": list(self.rules),
        }


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """One vote. `person` is the human behind the voter's account; `delegated_by` is the human whose power it uses."""

    voter: str
    person: str
    groups: frozenset[str]
    verdict: str
    evidence_class: str
    delegated_by: str = ""

    @property
    def power(self) -> str:
        """The person whose power the vote uses."""
        return self.delegated_by or self.person


@dataclass(frozen=True, kw_only=True)
class ThresholdCount:
    """The count for a threshold: votes for it, and votes against in its group."""

    threshold: Threshold
    votes: int
    against: int

    @property
    def missing(self) -> int:
        """The number of votes that are missing."""
        return self.threshold.count - self.votes


@dataclass(frozen=True, kw_only=True)
class VoteTally:
    """The result of the votes: "open", "approved" or "rejected"; `deciding` are the votes that make it so.

    `code` says of a rejected request whether somebody refused it (REJECTED) or another one is wanted in its place
    (CHANGES_REQUESTED).
    """

    state: str
    counts: tuple[ThresholdCount, ...]
    deciding: tuple[Ballot, ...] = ()
    code: str = ""

    @property
    def missing(self) -> dict[str, int]:
        """The number of missing votes by group."""
        owed: dict[str, int] = {}
        for count in self.counts:
            if count.missing:
                owed[count.threshold.group] = owed.get(count.threshold.group, 0) + count.missing
        return owed


def read_terms(document: Mapping[str, Any]) -> ApprovalTerms:
    """Return stored terms; a request older than terms needs one reviewer other than the requester."""
    if not document:
        return ApprovalTerms()
    return ApprovalTerms(
        thresholds=tuple(Threshold(**each) for each in document["thresholds"]),
        independence=frozenset(document["independence"]),
        step_up=document["step_up"],
        decide_within_s=document["decide_within_s"],
        release_within_s=document["release_within_s"],
        hours=tuple(read_hours(each) for each in document["hours"]),
        wait_for_seal=document["wait_for_seal"],
        on_change=document["on_change"],
        batchable=document["batchable"],
        rules=tuple(document["rules"]),
    )


def tally_votes(terms: ApprovalTerms, ballots: Iterable[Ballot]) -> VoteTally:
    """Count these votes under these terms (rules 1 to 6 and 8); the caller passes only valid votes."""
    cast = list(ballots)
    against = _one_each([ballot for ballot in cast if ballot.verdict != APPROVE])
    denied = {ballot.person for ballot in against}
    strong = [ballot for ballot in cast if is_as_strong(ballot.evidence_class, terms.step_up)]
    agreeing = _one_each([each for each in strong if each.verdict == APPROVE and each.person not in denied])
    placed = _fill_places(terms.thresholds, agreeing)
    counts = tuple(
        ThresholdCount(threshold=each, votes=len(placed[number]), against=sum(_belongs(vote, each) for vote in against))
        for number, each in enumerate(terms.thresholds)
    )
    ended = [count.threshold for count in counts if count.against >= max(1, count.threshold.deny)]
    if ended:
        decisive = tuple(vote for vote in against if any(_belongs(vote, each) for each in ended))
        code = "REJECTED" if any(vote.verdict == REJECT for vote in decisive) else "CHANGES_REQUESTED"
        return VoteTally(state="rejected", counts=counts, deciding=decisive, code=code)
    if counts and all(not count.missing for count in counts):
        used = {number for places in placed for number in places}
        deciding = tuple(vote for number, vote in enumerate(agreeing) if number in used)
        return VoteTally(state="approved", counts=counts, deciding=deciding)
    return VoteTally(state="open", counts=counts)


def barred_people(terms: ApprovalTerms, stakes: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the people who may not decide, and in which role (rule 7); `stakes` names the people behind each role.

    Whatever the terms say, nobody decides on their own request (R-AP-12).
    """
    wanted = terms.independence | {"requester"}
    found: dict[str, str] = {}
    for role in INDEPENDENCE:
        for person in stakes.get(role, ()) if role in wanted else ():
            found.setdefault(person, role)
    return found


def best_case_tally(terms: ApprovalTerms, ballots: Sequence[Ballot], eligible: Iterable[Ballot]) -> VoteTally:
    """Return the tally if all remaining eligible people agreed; "open" means that the request cannot be decided.

    `eligible` are the votes that people could give, with the strongest proof that they have.
    """
    return tally_votes(terms, [*ballots, *eligible])


def stronger_level(one: str, other: str) -> str:
    """The stronger of two levels of proof: levels are raised, never lowered."""
    return min(one, other)


def _one_each(ballots: Sequence[Ballot]) -> list[Ballot]:
    """The votes of different people with different powers: own votes first, then those with lent power.

    The groups of a person's own accounts are taken together, so that no order of votes makes a difference.
    """
    own: dict[str, Ballot] = {}
    for ballot in ballots:
        if not ballot.delegated_by:
            first = own.setdefault(ballot.person, ballot)
            own[ballot.person] = replace(first, groups=first.groups | ballot.groups)
    found = list(own.values())
    people, powers = set(own), set(own)
    for ballot in ballots:
        if ballot.delegated_by and ballot.person not in people and ballot.power not in powers:
            found.append(ballot)
            people.add(ballot.person)
            powers.add(ballot.power)
    return found


def _belongs(ballot: Ballot, threshold: Threshold) -> bool:
    return threshold.group == EVERYBODY or threshold.group in ballot.groups


def _fill_places(thresholds: Sequence[Threshold], ballots: Sequence[Ballot]) -> list[list[int]]:
    """Return for each threshold the votes that fill it, filling as many thresholds as possible (rule 3).

    Augmenting paths: a vote may push another one out of its place if that one finds a place elsewhere.
    """
    places: list[list[int]] = [[] for _ in thresholds]

    def place(vote: int, tried: set[int]) -> bool:
        for number, threshold in enumerate(thresholds):
            if number in tried or not _belongs(ballots[vote], threshold):
                continue
            tried.add(number)
            if len(places[number]) < threshold.count:
                places[number].append(vote)
                return True
            for index, other in enumerate(places[number]):
                if place(other, tried):
                    places[number][index] = vote
                    return True
        return False

    for vote in range(len(ballots)):
        place(vote, set())
    return places
