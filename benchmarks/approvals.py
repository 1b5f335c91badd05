"""Approvals that bind, beside workflow engines that wait for a person: DBOS, and LangGraph with its own checkpointer.

A round trip here is four transactions: the request (judged, recorded and asked), the vote with its signed statement,
the grant, and its redemption. There it is a workflow that waits, a message, and a step. All sides run as processes of
their own on the same server in the same run, each with as many processes as serve it best, and nothing is unsafe: the
server waits for its disk on every side. LangGraph is measured twice: as it comes, and doing what the product cannot
leave out (`langgraph_trips.Work`). A start alone stands beside the six writes that it ends in, as one psycopg pipeline.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection

from benchmarks import trips
from benchmarks.figures import Figure, in_turn, sized
from benchmarks.ledger import sequencing
from benchmarks.stand import Stand, apart
from benchmarks.writers import ask, rate, writers
from console.local import servers

SECONDS, BRIEF_S, WRITERS = sized(2.0, tiny=0.3), sized(1.0, tiny=0.2), sized(8, tiny=2)
MANY = (2,) if WRITERS == 2 else (2, 4, 8)
DATABASE = "approvals"
PEERS = {"DBOS": "dbos", "LangGraph": "langgraph"}
UNIT = "round trips per s"
EQUAL = "LangGraph, equal work"
STARTERS = sized(4, tiny=2)
AIMS = {"LangGraph": 1.0, "DBOS": 2.0, EQUAL: 2.0}
START_AIM, CLAIMABLE_MS = 0.5, 60.0


def measure(stand: Stand, rounds: int) -> list[Figure]:
    stand.founded(DATABASE, approval=trips.POLICY)
    with (
        sequencing(stand, DATABASE),
        writers(stand, DATABASE, WRITERS, "benchmarks.trips:ways") as ours,
        _peers(stand) as theirs,
    ):
        _known_sizes(stand, ours, theirs)
        return [*_trips(ours, theirs, rounds), _starts(stand, ours, rounds), _claimable(ours, rounds)]


# Round trips


def _trips(ours: list[Connection], theirs: dict[str, list[Connection]], rounds: int) -> list[Figure]:
    best = {name: _best(pipes) for name, pipes in theirs.items()}
    many = max(MANY, key=lambda count: _sealed(ours, count))
    print(f"at their best: {best}, ours with the seal: {many} processes", flush=True)
    sides = {
        "sealed": partial(_sealed, ours, many),
        "ours 1": partial(rate, ours[:1], "trip", SECONDS),
        "ours 8": partial(rate, ours, "trip", SECONDS),
        "ours 8 at once": partial(rate, ours, "trip at once", SECONDS),
    }
    for name, pipes in theirs.items():
        sides[name] = partial(rate, pipes[: best[name]], "trip", SECONDS)
        sides[f"{name} 1"] = partial(rate, pipes[:1], "trip", SECONDS)
    graphs = theirs["LangGraph"]
    sides[EQUAL] = partial(rate, graphs[: best["LangGraph"]], "equal work", SECONDS)
    found = in_turn(rounds, sides)
    many_of = best | {EQUAL: best["LangGraph"]}
    return [
        *_beside(found, "sealed", f"seal included, {trips.IN_FLIGHT} in flight", many_of),
        *_beside(found, "ours 8", "8 clients, no wait for the seal", many_of, aims=AIMS),
        *_beside(found, "ours 8 at once", "8 clients, claim and start in one transaction", many_of),
        *_beside(found, "ours 1", "1 client, no wait for the seal", dict.fromkeys(PEERS, 1), mark=" 1"),
    ]


def _beside(
    found: dict[str, tuple[float, ...]],
    side: str,
    name: str,
    many: dict[str, int],
    *,
    aims: dict[str, float] | None = None,
    mark: str = "",
) -> Iterator[Figure]:
    """Against each of the peers, at its best."""
    for peer, processes in many.items():
        told = f"{processes} process{'es' if processes > 1 else ''}"
        aim = (aims or {}).get(peer)
        yield Figure(name=f"{name}: {peer}, {told}", unit=UNIT, ours=found[side], peer=found[peer + mark], aim=aim)


def _sealed(pipes: list[Connection], count: int) -> float:
    return rate(pipes[:count], f"sealed, {trips.IN_FLIGHT // count}", SECONDS)


def _best(pipes: list[Connection]) -> int:
    """With how many processes a side makes the most round trips."""
    rate(pipes, "trip", BRIEF_S)
    return max(MANY, key=lambda count: rate(pipes[:count], "trip", BRIEF_S))


@contextmanager
def _peers(stand: Stand) -> Iterator[dict[str, list[Connection]]]:
    with ExitStack() as stack:
        found = {}
        for name, engine in PEERS.items():
            stand.postgres.make_database(engine)
            told = {"WORKFLOWS_URL": stand.postgres.url(servers.OWNER, engine)}
            os.environ |= told
            apart(stand, DATABASE, f"benchmarks.workflows:prepare_{engine}")
            found[name] = stack.enter_context(writers(stand, DATABASE, WRITERS, f"benchmarks.workflows:{engine}", told))
        yield found


def _known_sizes(stand: Stand, ours: list[Connection], theirs: dict[str, list[Connection]]) -> None:
    """A first round of everybody, and then the statistics of the tables, as autovacuum would make them in a minute."""
    for pipes in (ours, *theirs.values()):
        rate(pipes, "trip", BRIEF_S)
    for database in (DATABASE, *PEERS.values()):
        with stand.superuser(database) as connection:
            connection.execute("ANALYZE")


# A start alone


def _starts(stand: Stand, ours: list[Connection], rounds: int) -> Figure:
    told = {"WRITES_URL": stand.postgres.url(servers.SUPERUSER, DATABASE)}
    with writers(stand, DATABASE, STARTERS, "benchmarks.plain:starts", told) as bare:
        sides = {
            "ours": partial(rate, ours[:STARTERS], "redeem", BRIEF_S / 2),
            "bare": partial(rate, bare, "six", BRIEF_S / 2),
        }
        found = in_turn(rounds, sides)
    name = f"a start alone, {STARTERS} clients: its six writes in one psycopg pipeline"
    return Figure(name=name, unit="per s", ours=found["ours"], peer=found["bare"], aim=START_AIM)


def _claimable(ours: list[Connection], rounds: int) -> Figure:
    """Measure, one at a time and without other load, the time from the vote, which must be sealed, to the claim that
    gets it.
    """
    medians = []
    for _ in range(rounds):
        [delays] = ask(ours[:1], "claimable", 0)
        medians.append(statistics.median(delays) * 1000)
    limit = (CLAIMABLE_MS,) * rounds
    return Figure(name="vote to claimable, p50: 60 ms", unit="ms", ours=tuple(medians), peer=limit, aim=1, most=True)
