"""Kill one process after another while work goes on: is anything lost, done twice, or left open?

    python -m deploy.drills.kills [--rounds 12] [--per-s 2]

Each round kills one of web, worker, sequencer, beat, an executor and the primary PostgreSQL with SIGKILL and starts it
again two seconds later (the executor is started by its supervisor). Nothing may be lost, doubled, false or stuck.
Exit code: 0, 1 for any of them, 3 where a server's program is missing.
"""

from __future__ import annotations

import argparse
import sys
import time

from console.local.servers import ServerFailed
from deploy.drills.installation import EXECUTORS, Installation, installation, kill
from deploy.drills.traffic import Traffic

VICTIMS = ("web", "executor", "postgres", "worker", "sequencer", "beat")
DOWN_S = 2.0


def main(words: list[str]) -> int:
    """Run the drill; the exit code."""
    parser = argparse.ArgumentParser(prog="kills", description="Kill processes while work goes on.")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--per-s", type=float, default=2.0, help="things that the agent wants done each second")
    wanted = parser.parse_args(words)
    try:
        with installation() as place:
            traffic = Traffic(place, per_s=wanted.per_s)
            traffic.begin()
            for number in range(wanted.rounds):
                time.sleep(4)
                victim = VICTIMS[number % len(VICTIMS)]
                _kill(place, victim, number)
                print(f"round {number + 1}: killed {victim}, {len(traffic.open())} open", flush=True)
            traffic.finish(within_s=180)
            count = traffic.count()
    except ServerFailed as missing:
        print(missing, file=sys.stderr)
        return 3
    count.say(f"{wanted.rounds} rounds")
    return 1 if count.lost or count.wrong else 0


def _kill(place: Installation, victim: str, number: int) -> None:
    if victim == "executor":
        kill(place.executors[EXECUTORS[number % 2]])
    elif victim == "postgres":
        kill(place.record.running[place.record.primary.port])
        time.sleep(DOWN_S)
        place.record.start(place.record.primary)
    else:
        kill(place.children[victim])
        time.sleep(DOWN_S)
        place.restart(victim)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
