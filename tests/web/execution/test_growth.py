"""No step of an action costs more than it must, or because of what is behind it, in a database nobody has analysed too.

Three sizes of one record, grown by bulk loads. Autovacuum is off; only the sequencer has the server look at tables that
have grown. Plans are made while the record is small and kept, as a process keeps them. What is counted is what the
server read, whatever statement or function read it, and as whatever role it was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from tests.support.api_tenant import Clock, workshop
from tests.support.seals import seal_up
from tests.web.execution.grown import SIZES, Grown, more


def trip(grown: Grown, clock: Clock, number: int) -> tuple[str, str]:
    """One action from its proposal to its verdict, each step counted."""
    shop, kept = grown.shop, dict[str, Any]()

    def asked() -> None:
        kept["action"] = shop.propose(path=f"notes/{number}.md", reason="Old.")

    def voted() -> None:
        kept["approval"] = shop.approval_of(kept["action"])
        assert shop.vote(kept["approval"]).status_code in (200, 201)

    def claimed() -> None:
        kept["order"] = next(order for order in shop.claim() if order["action_id"] == kept["action"])

    def started() -> None:
        kept["started"] = shop.start(kept["order"]).json()

    def observed() -> None:
        answer = shop.observe(kept["started"])
        assert answer.status_code in (200, 201, 202), answer.content

    def verified() -> None:
        shop.read_back(kept["action"], clock)

    steps: list[Callable[[], Any]] = [asked, voted, seal_up, claimed, started, observed, verified, seal_up]
    for place, step in enumerate(steps):
        with grown.counted(f"{place} {step.__name__}"):
            step()
    return kept["action"], kept["approval"]["approval_id"]


def test_no_step_reads_more_in_a_larger_record(
    committed_db: Any, superuser_connection: psycopg.Connection, tmp_path: Path
) -> None:
    grown, clock = Grown(workshop("orchid").set_up(tmp_path), superuser_connection), Clock()
    action, approval = trip(grown, clock, 0)
    read = []
    for number, size in enumerate(SIZES, 1):
        grown.copy(action, approval, up_to=size)
        grown.read = {}
        trip(grown, clock, number)
        read.append(grown.read)
    assert [more(read[0], each) for each in read[1:]] == [{}, {}]
