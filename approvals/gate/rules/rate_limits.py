"""Rate limits (B38): waiting approvals per agent, and votes per person and minute.

1. An agent may have so many approvals waiting at once; beyond that its calls are refused until people have caught up.
   What was asked before keeps its place, and what is of high risk stays on top of the queue whatever comes below it.
2. A person may give so many votes in a minute; more than that is nobody's judgement.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from ledger.record.rules.refusals import Refused

MINUTE = timedelta(minutes=1)


class TooManyVotes(Refused):
    """You have voted on more in this minute than anybody can read; wait a moment."""

    code = "RATE_LIMITED"
    status = 429
    retry_after_s: ClassVar[int] = 60


def is_flood(open_now: int, *, most: int) -> bool:
    """Whether an agent has as many approvals waiting as it may (rule 1); a limit of 0 is none."""
    return 0 < most <= open_now


def check_voting_rate(votes: Sequence[datetime], *, most: int, at: datetime) -> None:
    """Refuse another vote where as many as allowed were given in the last minute (rule 2); a limit of 0 is none."""
    if 0 < most <= sum(at - MINUTE < given <= at for given in votes):
        raise TooManyVotes
