"""Drill: give one of two web processes, one of two executors and the worker a wrong clock during work; each is
reported.

    python -m deploy.drills.skew [--rounds 4] [--for 20] [--per-s 2]

The clocks are set by a small library that is compiled first (`wrong_clock.c`, with `cc`). `/readyz` of the web process
says 503 with `CLOCK` and by how much it is off, and the proxy takes it out; the executor logs by how much it is off,
and goes on by the console's clock; `/statusz` names the worker's host. Each round takes another difference, the
smallest of 3.5 seconds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from console.local.processes import wait_until
from deploy.drills.clock import NoCompiler, compile_clock
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import CannotRun, Installation, Shape, kill
from deploy.drills.keys import failed_checks
from deploy.drills.traffic import Figure, Traffic

DIFFERENCES_S = (3.5, -3.5, 600.0, -600.0)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--for", type=float, default=20.0, dest="for_s", help="seconds with wrong clocks in each round")


def _shape(_: Options) -> Shape:
    return Shape(webs=2)


def _clock(place: Installation, difference_s: float) -> dict[str, str]:
    """The environment of a process with a shifted clock."""
    try:
        library = compile_clock(place.folder)
    except NoCompiler as missing:
        raise CannotRun(str(missing)) from None
    return {"LD_PRELOAD": str(library), "WRONG_CLOCK_MS": f"{difference_s * 1000:.0f}"}


def _set_clocks(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    difference = DIFFERENCES_S[number % len(DIFFERENCES_S)]
    time.sleep(4)
    log = place.log / "executors.log"
    said_before = log.stat().st_size
    _restart(place, _clock(place, difference))
    began = time.monotonic()
    proxy = place.proxy
    assert proxy is not None
    backend = proxy.backends[place.webs["web1"]]
    way = "ahead of" if difference > 0 else "behind"
    unnamed = []
    if not wait_until(lambda: "CLOCK" in failed_checks(place, "web1"), within_s=60, every_s=0.3):
        unnamed.append(f"/readyz did not name CLOCK at {difference:+} s")
    sentence = failed_checks(place, "web1").get("CLOCK", "")
    if not wait_until(lambda: not backend.is_in, within_s=30):
        unnamed.append(f"the proxy kept a web process whose clock is {difference:+} s off")
    if not wait_until(lambda: _names_clock(log, said_before), within_s=60, every_s=0.3):
        unnamed.append(f"the executor did not name its clock at {difference:+} s")
    if not wait_until(lambda: _names_workers(place, way), within_s=60, every_s=0.5):
        unnamed.append(f"/statusz did not name the worker's clock at {difference:+} s")
    asked = "processes with a wrong clock that was not named, or that stayed in"
    traffic.measure(Figure(asked=asked, value=len(unnamed), of=4, most=0, about=unnamed))
    asked = "until web, executor, worker and proxy all have said so"
    traffic.measure(Figure(asked=asked, value=time.monotonic() - began))
    time.sleep(options.for_s)
    _restart(place, {"LD_PRELOAD": "", "WRONG_CLOCK_MS": ""})
    if not wait_until(lambda: backend.is_in, within_s=60):
        traffic.amiss.append("the web process did not come back with the right clock")
    return f"{difference:+} s: {sentence}"


def _restart(place: Installation, clock: dict[str, str]) -> None:
    for name in ("web1", "worker"):
        kill(place.children[name])
        place.restart(name, clock)
    place.restart_executor("two", clock)


def _names_workers(place: Installation, way: str) -> bool:
    # What was seen in the round before, in the other direction, is told for a minute.
    sentence = place.failed_parts().get("CLOCK", "")
    return "workers" in sentence and way in sentence


def _names_clock(log: Path, since: int) -> bool:
    with log.open("rb") as file:
        file.seek(since)
        return any(b"two " in line and b"CLOCK" in line for line in file.read().splitlines())


DRILL = Drill(
    name="skew",
    about="Give processes a wrong clock while work goes on.",
    rounds=4,
    one_round=_set_clocks,
    shape=_shape,
    add_options=_add_options,
)

if __name__ == "__main__":
    DRILL.main()
