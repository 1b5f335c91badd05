"""Releases: the gates that a policy or contract needs, the state of a release, and the actions of a canary.

1. A verification or recovery policy needs all eight gates (C-48). An approval or autonomy policy decides what may run,
   not what is true, and nothing of the past is judged otherwise by it: it needs a simulation over past calls, the
   review of the difference and that stored versions stay readable (decision 46), and the same two people.
   A version of a contract that changes what is verified (`VERIFIED_PARTS`) needs six: those of readings, but no canary
   and no recovery drill (decision 47). Any other version of one, and the first of a tool, needs no release.
2. A gate's newest result counts. `RG-01`, `RG-02` and a simulation name people: a list of changed outcomes, a
   difference and calls that nobody would have been asked about any more pass only with the signature of a person who
   did not draft them.
3. A canary decides the actions that were proposed after it began, by the tools that it names, and of these the share
   that a hash of tenant, tool and action gives. So anybody can say later which version decided an action.
4. A canary that does worse than what decides beside it is stopped by itself (`compare`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import Refused

GATES: Mapping[str, tuple[str, str]] = {
    "RG-01": ("Trace replay", "stored actions are replayed under the draft and their outcomes compared"),
    "RG-02": ("Predicate diff review", "the draft's changes and the actions they affect, signed by a person"),
    "RG-03": ("Verification canary", "the draft decides some live actions first"),
    "RG-04": ("Failure injection", "stale reads, timeouts, duplicates, another tenant's answer and partial commits"),
    "RG-05": ("Recovery drill", "each of the four recovery paths is exercised"),
    "RG-06": ("Ledger schema compatibility", "old and new entries fit the schemas"),
    "RG-07": ("False-success guard test", "no completion is reported before reconciliation"),
    "RG-08": ("Unknown-state test", "an unknown state blocks an unsafe repeat"),
    "SIMULATION": ("Simulation", "past calls are decided again under the draft; newly allowed calls are signed"),
}
"""What each gate is called and what it shows."""

VERIFIED_PARTS = (
    "cost",
    "data_sensitivity",
    "no_op_success_allowed",
    "required_effects",
    "reversibility",
    "side_effect_class",
    "stale_errors",
    "unverifiable_acknowledged",
    "user_impact",
    "verification",
)
"""What of a contract's document decides what is verified: where, against what, how deep, and what counts as shown."""

CONTRACT = "contract"
JUDGING_KINDS = ("verification", "recovery")
"""The kinds that decide what counts as true and what follows; the two others decide what may run."""
_OF_CALLS = ("SIMULATION", "RG-02", "RG-06")
_OF_CONTRACTS = ("RG-01", "RG-02", "RG-04", "RG-06", "RG-07", "RG-08")
SIGNED = ("RG-01", "SIMULATION", "RG-02")
CANARY = "RG-03"
MOST_TOOLS = 100


def required_gates(kind: str) -> tuple[str, ...]:
    """The gates that a policy of this kind, or a contract, needs, in their order (rule 1)."""
    if kind == CONTRACT:
        return _OF_CONTRACTS
    return tuple(gate for gate in GATES if gate != "SIMULATION") if kind in JUDGING_KINDS else _OF_CALLS


def verification_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The differing parts of a contract's document that decide what is verified (rule 1).

    A part that is spelled out as its default differs from one left out, as it does for the database. A tool that only
    reads has no outcome that could be verified.
    """
    only_reads = before.get("side_effect_class") == after.get("side_effect_class") == "READ_ONLY"
    return () if only_reads else tuple(part for part in VERIFIED_PARTS if before.get(part) != after.get(part))


def state_by_gates(kind: str, passed: Mapping[str, bool], state: str) -> str:
    """The state of a release by the newest results of its gates (rule 2)."""
    red = {gate for gate in required_gates(kind) if not passed.get(gate)}
    if not red:
        return "READY"
    if state == "CANARY":
        return state
    return "CHECKED" if red == {CANARY} else "DRAFT"


class ReleaseNeeded(Refused):
    """A policy changes through a release (page Releases, POST /releases): all gates passed, promoted by two people."""

    code = "RELEASE_REQUIRED"


class NothingInForce(Refused):
    """No version of this tool's contract is in force. A first version is registered (POST /contracts)."""

    code = "NOT_REGISTERED"


class WrongStep(Refused):
    """The release is not at this step."""

    code = "WRONG_STEP"


class GatesNotPassed(Refused):
    """Not all gates have passed."""

    code = "GATES_NOT_PASSED"


class CannotGoBack(Refused):
    """Only a version that was in force, and was not itself rolled back, can be put in force again."""

    code = "CANNOT_ROLL_BACK"


class CannotRetire(Refused):
    """Only a version in force can be retired. Once it is, every earlier one is out of force too."""

    code = "CANNOT_RETIRE"


class VersionsMoved(Refused):
    """The versions in force have changed since you looked, and with them what this ends. Review it first."""

    code = "CONFLICT"


class BadCanary(Refused):
    """A canary names at most 100 tools, a share from 1 to 100 percent, and from 1 to 10,000 actions to see."""

    code = "INVALID"
    status = 422


@dataclass(frozen=True, kw_only=True)
class CanaryScope:
    """The actions that a canary decides (rule 3): those of `tools` (empty means every tool), of these `share` percent.

    `actions` is the number that must have ended before the canary passes.
    """

    tools: tuple[str, ...] = ()
    share: int = 100
    actions: int = 20
    since: datetime

    def covers(self, *, tenant_id: UUID, tool: str, action_id: UUID, proposed_at: datetime) -> bool:
        """Return whether the canary decides this action."""
        if proposed_at < self.since or (self.tools and tool not in self.tools):
            return False
        octets = hashlib.sha256(f"{tenant_id}/{tool}/{action_id}".encode()).digest()
        return int.from_bytes(octets[:8], "big") * 100 < self.share << 64

    def document(self) -> dict[str, Any]:
        """The form in which it is stored in rows and events."""
        return {"tools": list(self.tools), "share": self.share, "actions": self.actions, "since": instant(self.since)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CanaryScope:
        """The scope that a row or an event holds."""
        return cls(
            tools=tuple(document["tools"]),
            share=document["share"],
            actions=document["actions"],
            since=datetime.fromisoformat(document["since"]),
        )


def check_scope(scope: CanaryScope) -> None:
    """Refuse a scope that covers nothing, or is invalid."""
    if not (1 <= scope.share <= 100 and 1 <= scope.actions <= 10_000 and len(scope.tools) <= MOST_TOOLS):
        raise BadCanary


@dataclass(frozen=True, kw_only=True)
class CanaryFigures:
    """The outcomes of some actions: how many ended, and of these with a discrepancy, unknown, or reported as done but
    contradicted.
    """

    ended: int = 0
    discrepancies: int = 0
    unknown: int = 0
    false_success: int = 0


@dataclass(frozen=True, kw_only=True)
class CanaryVerdict:
    """The verdict on a canary, with one sentence: worse (stop), enough seen (pass), or neither yet."""

    is_worse: bool
    is_passed: bool
    summary: str


_WORDS = {"discrepancies": "with a discrepancy", "unknown": "unknown", "false_success": "told as done and contradicted"}
FEWEST_WORSE = 2
MARGIN = 0.1
"""One bad action of few says nothing; two, and a tenth more than beside it, do."""


def compare(scope: CanaryScope, canary: CanaryFigures, beside: CanaryFigures) -> CanaryVerdict:
    """Compare a canary with the version in force (rule 4); a single contradicted success is too many."""
    for name, words in _WORDS.items():
        bad, usual = getattr(canary, name), _share(getattr(beside, name), beside.ended)
        few = 1 if name == "false_success" else FEWEST_WORSE
        if bad >= few and _share(bad, canary.ended) > usual + (0 if name == "false_success" else MARGIN):
            summary = (
                f"{bad} of {canary.ended} actions of the canary ended {words};"
                f" beside it {getattr(beside, name)} of {beside.ended}."
            )
            return CanaryVerdict(is_worse=True, is_passed=False, summary=summary)
    seen = f"{canary.ended} of {scope.actions} actions of the canary have ended, none of the figures is worse."
    return CanaryVerdict(is_worse=False, is_passed=canary.ended >= scope.actions, summary=seen)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
