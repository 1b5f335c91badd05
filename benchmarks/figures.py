"""Figures: two sides measured in turn in one run, the processor time of both, and how much of it a tiny run does.

The speed of a shared machine drifts, a ratio drifts less; and what an operation costs is nearly the same on any day.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

N = TypeVar("N", int, float)
Measure = Callable[[], float]

TINY = "COUNTERFOIL_BENCH_TINY"
ROOT_PROCESS = "COUNTERFOIL_BENCH_PROCESS"


def sized(whole: N, *, tiny: N) -> N:
    """Return the amount of work in this process: enough to measure or, for the test that runs them all, a
    single pass.
    """
    return tiny if os.environ.get(TINY) else whole


class Rate(float):
    """Operations a second, with the processor time of one in milliseconds."""

    cpu_ms: float

    @classmethod
    def of(cls, per_s: float, *, spent_ms: float, operations: float) -> Rate:
        made = cls(per_s)
        made.cpu_ms = spent_ms / operations if operations else 0.0
        return made


def spent_ms() -> float:
    """Return the processor time so far of all processes below the one that began the run: writers, web, workers,
    servers and the sequencer together; those that have ended are not counted.
    """
    root = psutil.Process(int(os.environ[ROOT_PROCESS]))
    return sum(_spent_ms(process.pid) for process in [root, *root.children(recursive=True)])


def _spent_ms(process: int) -> float:
    spent = 0
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                spent += int((thread / "schedstat").read_text().split()[0])
    return spent / 1e6


@dataclass(frozen=True, kw_only=True)
class Figure:
    """`ratio` is ours to the peer's, per round; `aim` is what it should reach, or stay under where `most`."""

    name: str
    unit: str
    ours: tuple[float, ...]
    peer: tuple[float, ...]
    aim: float | None = None
    most: bool = False

    @property
    def ratios(self) -> list[float]:
        return [one / other for one, other in zip(self.ours, self.peer, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def cpu_ms(self) -> str:
        """Return the processor time of one operation, ours and the peer's, if it was measured."""
        sides = [[rate.cpu_ms for rate in rates if isinstance(rate, Rate)] for rates in (self.ours, self.peer)]
        return " / ".join(_short(statistics.median(side)) if side else "-" for side in sides) if any(sides) else ""

    @property
    def verdict(self) -> str:
        if self.aim is None:
            return ""
        met = self.ratio <= self.aim if self.most else self.ratio >= self.aim
        return "met" if met else "MISSED"


def interleaved(rounds: int, ours: Measure, peer: Measure) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Measure both sides in every round, alternating the order, after one uncounted round."""
    ours(), peer()
    pairs = [_round(number, ours, peer) for number in range(rounds)]
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def in_turn(rounds: int, sides: Mapping[str, Measure]) -> dict[str, tuple[float, ...]]:
    """Measure several sides in every round, each round beginning with another, after one uncounted round."""
    names = list(sides)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-1, rounds):
        at = number % len(names)
        for name in names[at:] + names[:at]:
            rate = sides[name]()
            if number >= 0:
                found[name].append(rate)
    return {name: tuple(rates) for name, rates in found.items()}


def _round(number: int, ours: Measure, peer: Measure) -> tuple[float, float]:
    if number % 2:
        other = peer()
        return ours(), other
    return ours(), peer()


def table(figures: list[Figure]) -> str:
    """The figures as a Markdown table."""
    head = [
        "| figure | ratio, median (range) | aim | | ours | peer | unit | CPU ms of one, ours / peer |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(_line, figures)])


def _line(figure: Figure) -> str:
    aim = "" if figure.aim is None else f"{'≤' if figure.most else '≥'} {figure.aim:g}"
    spread = f"{_short(figure.ratio)} ({_short(min(figure.ratios))} to {_short(max(figure.ratios))})"
    ours, peer = statistics.median(figure.ours), statistics.median(figure.peer)
    cells = [figure.name, spread, aim, figure.verdict, _short(ours), _short(peer), figure.unit, figure.cpu_ms]
    return f"| {' | '.join(cells)} |"


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
