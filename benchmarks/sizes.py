"""How much each benchmark does: enough to measure or, for the test that runs them all, enough to go through once."""

from __future__ import annotations

import os
from typing import TypeVar

N = TypeVar("N", int, float)
VARIABLE = "COUNTERFOIL_BENCH_TINY"


def sized(whole: N, *, tiny: N) -> N:
    """The size to use in this process."""
    return tiny if os.environ.get(VARIABLE) else whole
