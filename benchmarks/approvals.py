"""Approvals that bind, beside workflow engines that wait for a person: DBOS, and LangGraph with its own checkpointer.

A round trip here is four transactions: the request (judged, recorded and asked), the vote with its signed statement,
the grant, and its redemption. There it is a workflow that waits, a message, and a step. All sides run as processes of
their own on the same server in the same run, each with as many processes as serve it best, and nothing is unsafe: the
server waits for its disk on every side. Redemption alone stands beside the one conditional UPDATE that it cannot do
without, as pgbench sends it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID

from benchmarks import trips
from benchmarks.apart import apart
from benchmarks.ledger import sequencing
from benchmarks.ratios import Figure, in_turn
from benchmarks.stand import Stand
from benchmarks.writers import rate, writers
from console.local import servers

SECONDS, BRIEF_S, WRITERS = 2.0, 1.0, 8
MANY = (2, 4, 8)
DATABASE = "approvals"
PEERS = {"DBOS": "dbos_trips", "LangGraph": "langgraph_trips"}
UNIT = "round trips per s"
REDEEMERS = 4
AIM, REDEMPTION_AIM = 2.0, 0.5


def measure(stand: Stand, rounds: int) -> list[Figure]:
    tenant = UUID(stand.founded(DATABASE)["tenant"]["id"])
    trips.settle(tenant)
    with (
        sequencing(stand, DATABASE),
        writers(stand, DATABASE, WRITERS, "benchmarks.trips:ways") as ours,
        _peers(stand) as theirs,
    ):
        _known_sizes(stand, ours, theirs)
        return [*_trips(ours, theirs, rounds), *_redemptions(stand, tenant, ours, rounds)]


# Round trips


def _trips(ours: list[Connection], theirs: dict[str, list[Connection]], rounds: int) -> list[Figure]:
    best = {name: _best(pipes) for name, pipes in theirs.items()}
    many = max(MANY, key=lambda count: _sealed(ours, count))
    print(f"at their best: {best}, ours with the seal: {many} processes", flush=True)
    sides = {
        "sealed": partial(_sealed, ours, many),
        "ours 1": partial(rate, ours[:1], "trip", SECONDS),
        "ours 8": partial(rate, ours, "trip", SECONDS),
    }
    for name, pipes in theirs.items():
        sides[name] = partial(rate, pipes[: best[name]], "trip", SECONDS)
        sides[f"{name} 1"] = partial(rate, pipes[:1], "trip", SECONDS)
    found = in_turn(rounds, sides)
    return [
        *_beside(found, "sealed", f"seal included, {trips.IN_FLIGHT} in flight", best),
        *_beside(found, "ours 8", "8 clients, no wait for the seal", best),
        *_beside(found, "ours 1", "1 client, no wait for the seal", dict.fromkeys(PEERS, 1), " 1"),
    ]


def _beside(
    found: dict[str, tuple[float, ...]], side: str, name: str, many: dict[str, int], mark: str = ""
) -> Iterator[Figure]:
    """Against the better of the peers, and against each."""
    rates = {peer: found[peer + mark] for peer in PEERS}
    better = tuple(map(max, *rates.values()))
    yield Figure(name=f"{name}: the better peer", unit=UNIT, ours=found[side], peer=better, aim=AIM)
    for peer, rated in rates.items():
        processes = f"{many[peer]} process{'es' if many[peer] > 1 else ''}"
        yield Figure(name=f"{name}: {peer}, {processes}", unit=UNIT, ours=found[side], peer=rated)


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
        for name, module in PEERS.items():
            stand.postgres.make_database(module)
            told = {"WORKFLOWS_URL": stand.postgres.url(servers.OWNER, module)}
            os.environ |= told
            apart(stand, DATABASE, f"benchmarks.{module}:prepare")
            found[name] = stack.enter_context(writers(stand, DATABASE, WRITERS, f"benchmarks.{module}:ways", told))
        yield found


def _known_sizes(stand: Stand, ours: list[Connection], theirs: dict[str, list[Connection]]) -> None:
    """A first round of everybody, and then the statistics of the tables, as autovacuum would make them in a minute."""
    for pipes in (ours, *theirs.values()):
        rate(pipes, "trip", BRIEF_S)
    for database in (DATABASE, *PEERS.values()):
        with stand.superuser(database) as connection:
            connection.execute("ANALYZE")


# Redemption alone


def _redemptions(stand: Stand, tenant: UUID, ours: list[Connection], rounds: int) -> list[Figure]:
    bare = Bare(stand, tenant)
    sides = {"ours": partial(rate, ours[:REDEEMERS], "redeem", BRIEF_S / 2), "bare": bare.rate}
    found = in_turn(rounds, sides)
    name = f"redemption alone, {REDEEMERS} clients: a conditional UPDATE by pgbench"
    return [Figure(name=name, unit="per s", ours=found["ours"], peer=found["bare"], aim=REDEMPTION_AIM)]


_GRANTS = """
INSERT INTO approvals_grant (tenant_id, jti, action_id, executor_id, token_hash, attempt, minted_at, expires_at)
SELECT %(tenant)s, jti, jti, 'desk-0', repeat('0', 64), 1, now(), now() + interval '1 day'
FROM (SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid AS jti
      FROM generate_series(%(first)s, %(last)s) AS i) AS made
"""
_SPEND = """
UPDATE approvals_grant SET consumed_at = now()
WHERE tenant_id = '{tenant}'
    AND jti = (SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(nextval('bare_grant')), 12, '0'))::uuid)
    AND executor_id = 'desk-0' AND token_hash = repeat('0', 64)
    AND consumed_at IS NULL AND voided_at IS NULL AND expires_at > statement_timestamp();
"""


class Bare:
    """The same condition on rows of the same table, one after another, by pgbench: nothing else, and no Python."""

    MADE = 60_000

    def __init__(self, stand: Stand, tenant: UUID) -> None:
        self.stand, self.tenant, self.last = stand, tenant, 0
        self.script = stand.folder / "spend.sql"
        # One line is one statement to pgbench.
        self.script.write_text(" ".join(_SPEND.format(tenant=tenant).split()) + "\n")
        with stand.superuser(DATABASE) as connection:
            connection.execute("CREATE SEQUENCE bare_grant")

    def rate(self) -> float:
        """Updates per second; there are more rows than it can reach."""
        self._fill()
        url, program = self.stand.postgres.url(servers.SUPERUSER, DATABASE), self.stand.postgres.programs.postgres
        command = [str(Path(program).with_name("pgbench")), "-n", "-M", "prepared", "-f", str(self.script)]
        command += ["-c", str(REDEEMERS), "-j", "2", "-T", "2", url]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = re.search(r"tps = ([0-9.]+)", said)
        assert found is not None, said
        return float(found[1])

    def _fill(self) -> None:
        with self.stand.superuser(DATABASE) as connection:
            (reached,) = connection.execute("SELECT last_value FROM bare_grant").fetchone() or (0,)
            first, self.last = self.last + 1, reached + self.MADE
            connection.execute(_GRANTS, {"tenant": self.tenant, "first": first, "last": self.last})
            connection.execute("ANALYZE approvals_grant")
