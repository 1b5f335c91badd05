"""The four kinds of policy and what a new tenant starts with.

Policies are data with versions (D10): `autonomy` (what an agent may propose at all), `approval` (who must agree, and
for how long), `verification` (how long to look), `recovery` (which row of the table decides). Each entry of the ledger
names the four versions in force (R-LE-13).
"""

from __future__ import annotations

from typing import Any

POLICY_KINDS = ("autonomy", "approval", "verification", "recovery")

_DEFAULTS: dict[str, dict[str, Any]] = {
    "autonomy": {"boundary": "disclosed_tools"},
    "approval": {
        "version": "1",
        "decide_within_s": 86_400,
        "release_within_s": 3_600,
        "grant_life_s": 120,
        "step_up": "C",
    },
    "verification": {"lease_s": 60},
    "recovery": {"table": "built-in"},
}


def default_policy(kind: str) -> dict[str, Any]:
    """The document of version 1 of a kind of policy."""
    return dict(_DEFAULTS[kind])
