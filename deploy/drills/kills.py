"""Drill: kill one process after another during work; nothing is lost, done twice, or left open.

    python -m deploy.drills.kills [--rounds 12] [--per-s 2]

Each round kills one of web, executor, the primary PostgreSQL, worker, sequencer and beat with SIGKILL and starts it
again two seconds later (the executor is started by its supervisor). Nothing may be lost, doubled, false or stuck.
"""

from __future__ import annotations

import time

from deploy.drills.drill import Drill, Options
from deploy.drills.installation import EXECUTORS, Installation, kill
from deploy.drills.traffic import Traffic

VICTIMS = ("web", "executor", "postgres", "worker", "sequencer", "beat")
DOWN_S = 2.0


def _kill(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    time.sleep(4)
    victim = VICTIMS[number % len(VICTIMS)]
    if victim == "executor":
        kill(place.executors[EXECUTORS[number // len(VICTIMS) % 2]])
    elif victim == "postgres":
        kill(place.record.running[place.record.primary.port])
        time.sleep(DOWN_S)
        place.record.start(place.record.primary)
    else:
        kill(place.children[victim])
        time.sleep(DOWN_S)
        place.restart(victim)
    return f"killed {victim}"


DRILL = Drill(name="kills", about="Kill processes while work goes on.", rounds=12, one_round=_kill)

if __name__ == "__main__":
    DRILL.main()
