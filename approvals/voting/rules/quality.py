"""Review quality: the time and evidence of reviewers, and how often an approved action turned out wrong.

A figure is about a rule, an agent or a tool before it is about anybody: a vote that took four seconds says first of all
that somebody was asked too often. So

1. The tenant says how far it goes: `off` keeps nothing and answers nothing; `team` names nobody, and shows no group of
   fewer than 5 votes or 3 people, for a small group is a name; `person` shows a person's figures to administrators
   and to that person.
2. Time counts by the server: from when the page with this payload was served to the vote. What the page itself reports
   (visible time, sections that were opened) is shown beside it and decides nothing.
3. A vote is quick when it took less than the time in which its payload can be read, at 40 bytes a second and at least
   5 seconds.
4. A vote is blind when nothing of the evidence was opened, as far as the page reported anything.
5. A decision was wrong when the action that it let through was found contradicted, or failed to reconcile, or had to be
   taken back. What is not settled yet is neither right nor wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

LEAST_VOTES: Final = 5
LEAST_PEOPLE: Final = 3
BYTES_A_SECOND: Final = 40
LEAST_S: Final = 5
DIMENSIONS: Final = ("rule", "agent", "tool", "reviewer")

RIGHT_IN: Final = frozenset({"RECONCILED_SUCCESS"})
WRONG_IN: Final = frozenset(
    {
        "RECONCILIATION_FAILED",
        "PARTIALLY_COMMITTED",
        "COMPENSATING",
        "COMPENSATED",
        "COMPENSATION_FAILED",
        "ROLLED_BACK",
    }
)


@dataclass(frozen=True)
class VoteFacts:
    """One vote with its context. `served_s` is None if the page was never served to this person."""

    voter: str
    rule: str
    agent: str
    tool: str
    verdict: str
    payload_bytes: int
    served_s: float | None
    visible_s: float | None
    opened: int | None
    state: str
    contradicted: bool = False

    @property
    def approves(self) -> bool:
        return self.verdict == "approve"

    @property
    def quick(self) -> bool:
        """Return whether it was faster than reading (rule 3)."""
        return self.served_s is not None and self.served_s < max(LEAST_S, self.payload_bytes / BYTES_A_SECOND)

    @property
    def blind(self) -> bool:
        """Return whether no evidence was opened (rule 4)."""
        return self.opened == 0

    @property
    def wrong(self) -> bool | None:
        """Return whether an approved action turned out wrong; None if unknown, or if nothing was approved."""
        if not self.approves:
            return None
        if self.contradicted or self.state in WRONG_IN:
            return True
        return False if self.state in RIGHT_IN else None


@dataclass(frozen=True)
class Figures:
    """The figures of one group of votes. Shares are None if the whole is zero."""

    name: str
    votes: int
    people: int
    rejected: float | None
    served_median_s: float | None
    visible_median_s: float | None
    quick: float | None
    blind: float | None
    settled: int
    wrong: float | None


@dataclass(frozen=True)
class Report:
    """The figures by one dimension, and how many groups are too small to be shown."""

    by: str
    rows: tuple[Figures, ...]
    withheld: int


def quality_reports(
    votes: Iterable[VoteFacts], *, privacy: str, may_name: bool, me: str, by: Sequence[str]
) -> tuple[Report, ...]:
    """The figures by each dimension, as far as the tenant lets this reader see them (rule 1)."""
    if privacy == "off":
        return ()
    known = list(votes)
    return tuple(_report(known, dimension, privacy=privacy, may_name=may_name, me=me) for dimension in by)


def _report(votes: list[VoteFacts], by: str, *, privacy: str, may_name: bool, me: str) -> Report:
    of: Callable[[VoteFacts], str] = {
        "rule": lambda vote: vote.rule,
        "agent": lambda vote: vote.agent,
        "tool": lambda vote: vote.tool,
        "reviewer": lambda vote: vote.voter,
    }[by]
    groups: dict[str, list[VoteFacts]] = {}
    for vote in votes:
        groups.setdefault(of(vote), []).append(vote)
    shown = {
        name: members
        for name, members in groups.items()
        if _may_see(by, name, members, privacy=privacy, may_name=may_name, me=me)
    }
    rows = sorted((_figures(name, members) for name, members in shown.items()), key=lambda row: (-row.votes, row.name))
    return Report(by, tuple(rows), len(groups) - len(shown))


def _may_see(by: str, name: str, members: list[VoteFacts], *, privacy: str, may_name: bool, me: str) -> bool:
    if by == "reviewer":
        return privacy == "person" and (may_name or name == me)
    if privacy == "person" and may_name:
        return True
    return len(members) >= LEAST_VOTES and len({vote.voter for vote in members}) >= LEAST_PEOPLE


def _figures(name: str, votes: list[VoteFacts]) -> Figures:
    served = [vote.served_s for vote in votes if vote.served_s is not None]
    visible = [vote.visible_s for vote in votes if vote.visible_s is not None]
    reported = [vote for vote in votes if vote.opened is not None]
    settled = [vote for vote in votes if vote.wrong is not None]
    return Figures(
        name=name,
        votes=len(votes),
        people=len({vote.voter for vote in votes}),
        rejected=_share(sum(not vote.approves for vote in votes), len(votes)),
        served_median_s=round(median(served), 1) if served else None,
        visible_median_s=round(median(visible), 1) if visible else None,
        quick=_share(sum(vote.quick for vote in votes), len(served)),
        blind=_share(sum(vote.blind for vote in reported), len(reported)),
        settled=len(settled),
        wrong=_share(sum(bool(vote.wrong) for vote in settled), len(settled)),
    )


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
