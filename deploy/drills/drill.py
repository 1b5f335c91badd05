"""The frame of a drill: an installation, work going on, one fault a round, and the count at the end.

Exit code: 0; 1 where anything was lost, doubled, false or stuck, or the drill saw something else that must not be; 2
where the drill itself could not go on; 3 where a program or a right of this machine is missing.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NoReturn

from console.local.servers import ServerFailed
from deploy.drills.installation import CannotRun, DrillFailed, Installation, Shape, installation
from deploy.drills.traffic import Count, Pace, Traffic

Options = argparse.Namespace
Round = Callable[[Installation, Traffic, Options, int], str]
"""Brings about the fault of one round (from 0), waits until it is over, and returns what it saw, in a few words."""
STUCK_AFTER_S = 180.0
"""An action that has not moved for so long at the end is stuck."""


@dataclass(frozen=True)
class Outcome:
    """The end of a drill: its exit code, and the final count, or the reason why there is none. Where it `loses`, what
    was lost is counted and allowed.
    """

    code: int
    count: Count | None = None
    reason: str = ""
    loses: bool = False


@dataclass(frozen=True, kw_only=True)
class Drill:
    """A drill of the command line; `shape`, `pace` and `loses` come from its options; `close` ends what its rounds have
    begun, and returns a line about them.
    """

    name: str
    about: str
    rounds: int
    one_round: Round
    shape: Callable[[Options], Shape] = lambda _: Shape()
    pace: Callable[[Options], Pace] = lambda options: Pace(per_s=options.per_s, callers=ceil(options.per_s / 2))
    add_options: Callable[[argparse.ArgumentParser], None] = lambda _: None
    loses: Callable[[Options], bool] = lambda _: False
    close: Callable[[], str] = lambda: ""
    per_s: float = 2.0

    def main(self) -> NoReturn:
        """Run the drill for the command line. Ending it ends everything that it started, too."""
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda number, _: sys.exit(128 + number))
        outcome = self.run(sys.argv[1:])
        if outcome.reason:
            print(outcome.reason, file=sys.stderr)
        sys.exit(outcome.code)

    def run(self, words: list[str]) -> Outcome:
        """Run the drill, and print a line for each round and the count."""
        parser = argparse.ArgumentParser(prog=self.name, description=self.about)
        parser.add_argument("--rounds", type=int, default=self.rounds)
        parser.add_argument(
            "--per-s", type=float, default=self.per_s, help="things that the agent wants done each second"
        )
        self.add_options(parser)
        options = parser.parse_args(words)
        try:
            with installation(self.shape(options)) as place:
                return self._run(place, options)
        except (CannotRun, ServerFailed) as missing:
            return Outcome(3, reason=str(missing))
        except DrillFailed as fault:
            return Outcome(2, reason=str(fault))

    def _run(self, place: Installation, options: Options) -> Outcome:
        traffic = Traffic(place, self.pace(options))
        traffic.begin()
        for number in range(options.rounds):
            began, before = time.monotonic(), len(traffic.wishes)
            try:
                seen = self.one_round(place, traffic, options, number)
            except ServerFailed as fault:
                raise DrillFailed(f"A server could not be started again: {fault}") from fault
            print(
                f"round {number + 1}: {seen}; {len(traffic.wishes) - before} wishes, {len(traffic.open())} open,"
                f" {time.monotonic() - began:.0f} s",
                flush=True,
            )
        traffic.finish(still_s=STUCK_AFTER_S)
        if closing := self.close():
            print(closing)
        count = traffic.count()
        count.say(f"{self.name}, {options.rounds} rounds")
        loses = self.loses(options)
        return Outcome(1 if count.wrong or (count.lost and not loses) else 0, count, loses=loses)
