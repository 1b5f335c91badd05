"""Run the whole installation behind PgBouncer in transaction mode, from proposals to readings.

    python -m deploy.drills.poolers [--rounds 3] [--for 20] [--per-s 2]

Web processes and workers reach both databases through the pooler, each transaction on the next server
(`server_round_robin`); only the sequencer goes straight. Each round lets work go on for `--for` seconds, then starts
the pooler again under it. At the end no lock of a session is left behind on any server.
"""

from __future__ import annotations

import argparse
import time

from console.local.processes import spawn
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import Installation, Shape, kill
from deploy.drills.traffic import Figure, Traffic

_LEFT = """
SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND a.usename = 'counterfoil_app' AND a.state = 'idle'
"""


def _go_on(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    time.sleep(options.for_s)
    servers = (place.record.primary, place.keys)
    left = sum(bool(place.record.ask(server, _LEFT)) for server in servers)
    traffic.measure(
        Figure(asked="servers with locks of a session that does nothing", value=left, of=len(servers), most=0)
    )
    kill(place.children["pooler"])
    place.children["pooler"] = spawn(place.pooler.program())
    place.pooler.wait(place.children["pooler"], "counterfoil")
    return f"locks left on {left} servers, pooler started again"


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--for", type=float, default=20.0, dest="for_s", help="seconds of work in each round")


DRILL = Drill(
    name="poolers",
    about="Run everything behind PgBouncer in transaction mode.",
    rounds=3,
    one_round=_go_on,
    shape=lambda _: Shape(pooled=True),
    add_options=_add_options,
)

if __name__ == "__main__":
    DRILL.main()
