"""Processor time of everything that a run has started: writers, web, workers, servers and the sequencer together.

A rate on a busy machine says little; what an operation costs says nearly the same on any day.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = "COUNTERFOIL_BENCH_PROCESS"


class Rate(float):
    """Operations a second, with the processor time of one in milliseconds."""

    cpu_ms: float

    @classmethod
    def of(cls, per_s: float, *, spent_ms: float, operations: float) -> Rate:
        made = cls(per_s)
        made.cpu_ms = spent_ms / operations if operations else 0.0
        return made


def spent_ms() -> float:
    """What all processes below the one that began the run have used so far; those that have ended are not counted."""
    root = psutil.Process(int(os.environ[ROOT]))
    return sum(_spent_ms(process.pid) for process in [root, *root.children(recursive=True)])


def _spent_ms(process: int) -> float:
    spent = 0
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                spent += int((thread / "schedstat").read_text().split()[0])
    return spent / 1e6
