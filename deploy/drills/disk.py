"""Drill: fill the disk of the record's server during work; the shortage is reported, and work continues once it is
freed.

    python -m deploy.drills.disk [--rounds 2] [--away 20] [--per-s 2]

The server lies on a small disk in memory, which needs the right to mount one. Each round fills it for `--away`
seconds. Proposals are answered 503 with `Retry-After`, `/statusz` names `DISK` (or `DATABASE`, where the server ended
for want of room for its log), the client library sends them again, and nothing is lost. A server that ended is started
again, as a supervisor would, once there is room.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from console.local.processes import wait_until
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import Installation, Shape
from deploy.drills.keys import DENIED_WITHIN_S, add_away, wait_for_denials, wait_until_ready
from deploy.drills.traffic import Traffic

DISK_MB = 400
TOLD = frozenset({"DISK", "DATABASE"})


def _fill(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    time.sleep(4)
    server, began = place.record.primary, time.time()
    ballast = server.folder / "ballast"
    named: set[str] = set()

    def is_named_and_refused() -> bool:
        # Removed tables and recycled log leave room again, which is taken, too.
        _fill_up(ballast)
        named.update(TOLD & set(place.failed_parts()))
        return bool(named and traffic.denials_since(began))

    wait_until(is_named_and_refused, within_s=max(options.away, DENIED_WITHIN_S), every_s=0.5)
    named_s = time.time() - began
    if not named:
        traffic.amiss.append("/statusz named neither DISK nor DATABASE")
    denials = wait_for_denials(traffic, began, options.away)
    ballast.unlink()
    ended = not place.record.running[server.port].running()
    if ended:
        place.record.start(server)
    how = "the server ended and was started again" if ended else "the server went on"
    told = " and ".join(sorted(named))
    return f"{told} after {named_s:.1f} s, {denials} answers 503, {how}, {wait_until_ready(place, traffic)}"


def _fill_up(ballast: Path) -> None:
    # The server takes room at the same time, so there may be less than there just was.
    with ballast.open("ab") as file, suppress(OSError):
        while free := shutil.disk_usage(ballast.parent).free:
            os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free)


DRILL = Drill(
    name="disk",
    about="Fill the disk of the record's server while work goes on.",
    rounds=2,
    one_round=_fill,
    shape=lambda _: Shape(disk_mb=DISK_MB),
    add_options=add_away,
)

if __name__ == "__main__":
    DRILL.main()
