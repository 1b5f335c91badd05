"""Circuit breakers: whether a system is read at all (RT-19, R-FB-10, R-VD-16).

1. CLOSED: it is asked. So many failures without an answer between them open it.
2. OPEN: it is not asked; nothing is concluded from that, and what waits goes on waiting. At `probe_at` the circuit
   is HALF_OPEN: exactly one reading is made.
3. The probe is answered: CLOSED, and the count of failures begins again. It is not: OPEN once more, for twice as
   long, up to the longest cool-down.
4. Readings that began before the circuit opened and fail after it say nothing new. An answer is an answer, however
   late: it closes the circuit.
5. The wait is spread by a hash of the seed, so that the circuits of one provider do not all probe at once and a
   replay waits alike (R-RC-14).

A reading that fails because nobody can ever make it that way (a wrong lookup) says nothing about the system, and is
no failure here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from reviews.readback.rules.limits import SystemLimits

_SPREAD = 0.2


class CircuitState(StrEnum):
    """The state of a circuit."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True, kw_only=True)
class Circuit:
    """One circuit; `since` is the time at which it closed or opened, `probe_at` is None while it is closed."""

    failures: int = 0
    since: datetime | None = None
    probe_at: datetime | None = None
    cooldown_s: int = 0

    @property
    def is_open(self) -> bool:
        """Return whether the system has stopped answering."""
        return self.probe_at is not None


def circuit_state(circuit: Circuit, *, at: datetime) -> CircuitState:
    """The state of the circuit at `at` (rules 1 and 2)."""
    if circuit.probe_at is None:
        return CircuitState.CLOSED
    return CircuitState.HALF_OPEN if at >= circuit.probe_at else CircuitState.OPEN


def allowed_readings(circuit: Circuit, *, wanted: int, in_flight: int, at: datetime) -> int:
    """Return the number of due readings that may be made: all, none, or the one probe if none is under way (rule 2)."""
    if circuit_state(circuit, at=at) is CircuitState.HALF_OPEN:
        return min(1, wanted) if in_flight == 0 else 0
    return wanted if circuit.probe_at is None else 0


def after_answer(circuit: Circuit, *, at: datetime) -> Circuit:
    """The circuit after an answer (rules 3 and 4)."""
    return Circuit(since=at if circuit.is_open or circuit.since is None else circuit.since)


def after_failure(circuit: Circuit, limits: SystemLimits, *, began_at: datetime, seed: str, at: datetime) -> Circuit:
    """The circuit after a reading that began at `began_at` and brought no answer (rules 1, 3 and 4)."""
    counted = replace(circuit, failures=circuit.failures + 1)
    if circuit.probe_at is None:
        return (
            _open_circuit(counted, limits.cooldown_s, seed, at=at) if counted.failures >= limits.failures else counted
        )
    if began_at < circuit.probe_at:
        return counted
    longer = min(max(circuit.cooldown_s, limits.cooldown_s) * 2, limits.longest_cooldown_s)
    return replace(_open_circuit(counted, longer, seed, at=at), since=circuit.since)


def _open_circuit(circuit: Circuit, cooldown_s: int, seed: str, *, at: datetime) -> Circuit:
    octets = hashlib.sha256(f"{seed}/{circuit.failures}".encode()).digest()
    factor = 1 + _SPREAD * (int.from_bytes(octets[:4], "big") / 2**32 - 0.5)
    return replace(circuit, since=at, probe_at=at + timedelta(seconds=cooldown_s * factor), cooldown_s=cooldown_s)
