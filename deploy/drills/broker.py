"""Stop the broker for a minute, with two web processes behind a proxy that asks `/readyz`: is any proposal refused?

    python -m deploy.drills.broker [--rounds 1] [--proposals 1000] [--away 60] [--per-s 20] [--silent]

The broker is killed and what it held is removed, as if its host were lost; or it is paused, so that it keeps its
connections, takes new ones and answers nobody. Proposals go on meanwhile and until there are `--proposals` a round.
None may be answered with anything but success, the proxy may not be left without a web process, and `/statusz` names
the broker. What was accepted is carried out and read once the broker is back.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import time

from console.local.processes import spawn, wait_until
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import DrillFailed, Installation, Shape, kill
from deploy.drills.traffic import Figure, Pace, Traffic


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--proposals", type=int, default=1000, help="proposals in each round")
    parser.add_argument("--away", type=float, default=60.0, help="seconds without the broker")
    parser.add_argument("--silent", action="store_true", help="pause the broker in place of killing it")


def _stop_broker(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    began, before = time.time(), traffic.accepted()
    if options.silent:
        os.kill(place.children["broker"].process.pid, signal.SIGSTOP)
    else:
        kill(place.children["broker"])
        for kept in place.broker.folder.glob("appendonlydir*"):
            shutil.rmtree(kept)
    wait_until(lambda: "BROKER" in place.failed_parts(), within_s=2 * options.away, every_s=0.2)
    asked = "until /statusz names the broker"
    traffic.measure(Figure(asked=asked, value=time.time() - began, most=options.away))
    time.sleep(max(0.0, began + options.away - time.time()))
    meanwhile = traffic.accepted() - before
    if options.silent:
        os.kill(place.children["broker"].process.pid, signal.SIGCONT)
    else:
        place.children["broker"] = spawn(place.broker.program())
    place.broker.wait(place.children["broker"])
    wanted = before + options.proposals
    if not wait_until(lambda: traffic.accepted() >= wanted, within_s=60 + options.proposals, every_s=0.5):
        raise DrillFailed(f"{traffic.accepted() - before} of {options.proposals} proposals were made.")
    refused = traffic.denials_since(began)
    traffic.measure_refusals(began)
    proxy = place.proxy
    assert proxy is not None
    if proxy.turned_away:
        traffic.amiss.append(f"the proxy had no web process for {len(proxy.turned_away)} connections")
    return f"{len(refused)} of {traffic.accepted() - before} proposals refused, {meanwhile} were made without a broker"


DRILL = Drill(
    name="broker",
    about="Stop the broker while proposals go on.",
    rounds=1,
    one_round=_stop_broker,
    shape=lambda _: Shape(webs=2),
    pace=lambda options: Pace(per_s=options.per_s, callers=6, person_every=50),
    add_options=_add_options,
    per_s=20.0,
)

if __name__ == "__main__":
    DRILL.main()
