"""Retry policy: which requests are retried, and after what delay.

1. What may pass is tried again: no answer at all, 429, 502, 503 and 504. Every other refusal is an
   answer and stands.
2. A pause doubles from try to try up to `longest_s`, and a random part of it is taken off, so that
   many clients do not come back in step. A console that asks for patience (`Retry-After`) gets at
   least that.
3. No try begins after `give_up_after_s`; the last fault is then raised.

A request keeps its Idempotency-Key over all its tries: it is part of the request, not of the try.
"""

from __future__ import annotations

from dataclasses import dataclass

from counterfoil.problems import Problem, Unreachable

PASSING = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Backoff:
    """How patient a connection is."""

    give_up_after_s: float = 30.0
    first_s: float = 0.2
    longest_s: float = 10.0
    statuses: frozenset[int] = PASSING

    def pause(self, fault: Exception, *, tries: int, spent_s: float, chance: float) -> float | None:
        """Seconds until the next try after `tries` of them, `chance` being random in [0, 1); None
        when the fault stands.
        """
        if not self.may_pass(fault):
            return None
        full = min(self.first_s * 2.0 ** min(tries - 1, 30), self.longest_s)
        asked = (fault.retry_after_s or 0.0) if isinstance(fault, Problem) else 0.0
        wait = max(full * (1.0 - chance / 2.0), asked)
        return wait if spent_s + wait <= self.give_up_after_s else None

    def may_pass(self, fault: Exception) -> bool:
        """Whether the same request may be answered later (rule 1)."""
        if isinstance(fault, Problem):
            return fault.status in self.statuses
        return isinstance(fault, Unreachable)
