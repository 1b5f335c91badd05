"""Every kind of alarm about the record, with the words that people read; docs/runbooks.md has a runbook for each."""

from __future__ import annotations

from typing import Final

TITLES: Final[dict[str, str]] = {
    "LOG_DAMAGED": "Stored data differs from what was recorded",
    "HISTORY_FORKED": "The log does not continue the signed history",
    "LOG_UNGUARDED": "The signer does not know this log",
    "RECORD_BROKEN": "An integrity check found a break in the record",
    "NOT_SEALING": "The log does not keep up with the record",
    "WITNESS_DISPUTES": "A witness has seen another history of the log",
    "EFFECT_WITHOUT_RECORD": "An executor holds a start that the record does not have",
}
