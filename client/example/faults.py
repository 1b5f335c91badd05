"""Planned faults, requested by the scripted agent and carried out by the example's own programs.

A fault belongs to one order id, document path or payload hash. Payloads stay ordinary: neither the
agent's call nor anything the console sees says that a fault will follow.
"""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum

from example.shop import Connection


class Fault(StrEnum):
    """One way in which a tool, its process or a consumer misbehaves."""

    NO_EFFECT = "no_effect"  # the write is rolled back, and success is told all the same
    WRONG_AMOUNT = "wrong_amount"  # ten times the amount
    DUPLICATE = "duplicate"  # the write happens twice
    DIES_AFTER_WRITE = "dies_after_write"  # the process is gone before it can say so
    DIES_BEFORE_WRITE = "dies_before_write"
    WRONG_QUANTITY = "wrong_quantity"  # ten times as many are reserved
    KEEPS_RESERVATION = "keeps_reservation"  # the same, and its release changes nothing
    ONLY_FIRST_EFFECT = "only_first_effect"  # the second of two effects is lost
    VERSION_MOVES = "version_moves"  # a clerk changes the order first
    OTHER_PAYLOAD = "other_payload"  # the executor presents the hash of something else
    LATE_CONSUMER = "late_consumer"  # the mailer takes its time
    DEAD_LETTER = "dead_letter"  # the mailer gives the message up


def ask_for(connection: Connection, target: str, fault: Fault) -> None:
    """Let `fault` happen to `target`."""
    connection.execute(
        "INSERT INTO shop.example_faults (target, fault) VALUES (%s, %s)"
        " ON CONFLICT (target) DO UPDATE SET fault = excluded.fault",
        [target, fault],
    )


def fault_of(connection: Connection, target: str) -> Fault | None:
    """The planned fault of `target`, if any."""
    row = connection.execute("SELECT fault FROM shop.example_faults WHERE target = %s", [target]).fetchone()
    return Fault(row["fault"]) if row else None


def die() -> None:
    """End this process like a crash: without cleanup or notice; only the log says that it is planned."""
    print("Planned crash: a case of the example ends its executor here.", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
