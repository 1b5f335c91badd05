"""Lease of one attempt: how long this process may still start an effect.

The console waits until the lease is over, then for the attempt's `timeout_s` and the contract's
settling time, before it believes that an effect is absent. That is only true if no effect begins
after the lease, so the lease is kept in monotonic time (a clock that is set back does not lengthen
it) and is asked again right before each effect.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class LeaseOver(Exception):
    """The lease of this attempt is over: no effect may begin any more."""


class Lease:
    """Good until it runs out, is lost, or the attempt has used all its time; never good again after
    that.
    """

    def __init__(self, *, for_s: float, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        begun = clock()
        self._limit = begun + timeout_s
        self._until = min(begun + for_s, self._limit)
        self._lost = False

    def extend(self, *, for_s: float) -> None:
        """Move the end to `for_s` from now, never beyond the attempt's timeout, and only while the lease
        still holds.
        """
        with self._lock:
            if self._holds():
                self._until = min(self._clock() + for_s, self._limit)

    def lose(self) -> None:
        """Mark the lease as no longer granted by the console."""
        with self._lock:
            self._lost = True

    def left_s(self) -> float:
        """Seconds until the lease is over; zero when it is."""
        with self._lock:
            return max(0.0, self._until - self._clock()) if self._holds() else 0.0

    def require(self) -> None:
        """Raise `LeaseOver` unless the lease holds now."""
        if self.left_s() <= 0.0:
            raise LeaseOver("The lease was over before the effect could begin.")

    def _holds(self) -> bool:
        if self._clock() >= self._until:
            self._lost = True
        return not self._lost
