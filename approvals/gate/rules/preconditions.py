"""Preconditions of a call, from UNWINDING to FAILED_STEPS: dependencies, freezes, duplicates and unsettled steps.

The steps of a run are its actions. A step is unobserved while its result is unknown: a mutation that is not
settled, or was and is contradicted; a read that was not answered. It has failed when it ended without the wanted
effect, or its effect was taken back.

1. Refused is a mutating call that depends on an unobserved step, or has the same target as one (R-PL-13, R-PL-14).
   What neither depends on it nor shares its target goes on, in the same batch too. Reads always go on: that is how one
   observes.
2. Refused is a mutating call that follows a failed step which nobody has acknowledged: the call does so itself
   (`acknowledges`, or `supersedes` for the step it stands in for), or an earlier one did. That is a decision, and is
   written down with the step. What the agent knows anyway needs none: a call that was answered with a refusal, one that
   it withdrew, one that a reviewer's edit stands in for.
3. An open step cannot be acknowledged away: nobody knows yet what there is to take notice of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from approvals.gate.rules.malformed import Malformed, safe_name
from approvals.gate.rules.proposals import Proposal
from approvals.gate.rules.stale_reads import ResourceChange
from ledger.catalogue.rules.contract import Contract
from ledger.record.rules.lifecycle import RepeatBlock

UNRESOLVED = "UNRESOLVED_DEPENDENCY"

# Settled without the wanted effect: a later step may go on only after somebody took notice.
SETTLED_OTHERWISE = frozenset({"FAILED", "COMPENSATED", "ROLLED_BACK", "ABANDONED"})


@dataclass(frozen=True)
class Dependency:
    """The state of an action that a call depends on. `acknowledged`: a decision about its failure is on record."""

    state: str
    contradicted: bool = False
    acknowledged: bool = False
    reversed: bool = False


@dataclass(frozen=True)
class TargetContext:
    """The context of a call's target: dependencies by id, freezes that match as (scope, value), an action of the same
    operation that keeps it from being repeated (`open_twin`, why, until when, its state, and whether it gets no further
    without a person), and the state of the action that it stands in for.

    `unobserved` are the steps of the run on this target that are open, as (id, state); `failed` its failed steps that
    nobody has acknowledged; `changes` what is known of the resources that the call is based on.
    """

    dependencies: Mapping[str, Dependency]
    freezes: tuple[tuple[str, str], ...] = ()
    open_twin: str | None = None
    twin_block: RepeatBlock = RepeatBlock.OPEN
    twin_blocks_until: datetime | None = None
    twin_state: str = ""
    twin_waits_for_a_person: bool = False
    superseded: str | None = None
    unwinding: bool = False
    after_pivot: bool = False
    unobserved: tuple[tuple[str, str], ...] = ()
    failed: tuple[str, ...] = ()
    changes: Mapping[str, tuple[ResourceChange, ...]] = field(default_factory=dict)


def acknowledged_steps(call: Proposal) -> frozenset[str]:
    """The failed steps that the call acknowledges."""
    return call.acknowledges | ({call.supersedes} if call.supersedes else set())


def check_unwinding(call: Proposal, contract: Contract, context: TargetContext) -> Malformed | None:
    """Refuse any call of a run that is being taken back."""
    if not context.unwinding:
        return None
    message = "This run is being rolled back; no new action starts in it."
    return Malformed(UNRESOLVED, message, "Report the run's summary, and open a new session.")


def check_pivot(call: Proposal, contract: Contract, context: TargetContext) -> Malformed | None:
    """After the run's pivot, refuse a call that cannot safely be sent again unchanged (R-RP-40)."""
    if not context.after_pivot or not contract.mutating or contract.recovery.idempotent:
        return None
    message = "After its pivot a run can only be finished, and this tool cannot be sent again unchanged."
    return Malformed("OUTSIDE_AUTONOMY", message, "Use a tool whose contract says that it is idempotent, or a new run.")


def check_dependencies(call: Proposal, contract: Contract, context: TargetContext) -> Malformed | None:
    """Refuse a call that depends on an unsettled action or an unacknowledged failure (R-EX-20)."""
    open_ones = [one for one in call.depends_on if not _is_resolved(one, call, context.dependencies.get(one))]
    if not open_ones:
        return None
    errors = tuple(_error("/depends_on", one, _standing_of(context.dependencies.get(one))) for one in open_ones)
    message = "An action that this call depends on is not settled."
    return Malformed(UNRESOLVED, message, "Wait for it; acknowledge it once it has failed.", None, errors)


def _is_resolved(action_id: str, call: Proposal, dependency: Dependency | None) -> bool:
    if dependency is None or dependency.contradicted:
        return False
    if dependency.state == "RECONCILED_SUCCESS" and not dependency.reversed:
        return True
    noticed = dependency.acknowledged or action_id in acknowledged_steps(call)
    return (dependency.state in SETTLED_OTHERWISE or dependency.reversed) and noticed


def _standing_of(dependency: Dependency | None) -> str:
    if dependency is None:
        return "not an action of this session"
    if dependency.contradicted:
        return "CONTRADICTED"
    return f"{dependency.state}, reversed" if dependency.reversed else dependency.state


def check_superseded(call: Proposal, contract: Contract, context: TargetContext) -> Malformed | None:
    """Refuse to supersede an action that has not failed."""
    if call.supersedes is None or context.superseded == "FAILED":
        return None
    message = "The action that this call would stand in for is not one of yours that has ended."
    return Malformed(UNRESOLVED, message, "Name in `supersedes` an action that was refused or has failed.")


def check_freezes(call: Proposal, contract: Contract, context: TargetContext) -> Malformed | None:
    """Refuse a call that a freeze covers (R-EX-15)."""
    # A frozen target may still be read; every other freeze stops reads as well.
    stops = [scope for scope, _ in context.freezes if contract.mutating or scope != "target"]
    if not stops:
        return None
    message = f"Stopped by an operator or a finding (scope: {safe_name(stops[0])})."
    return Malformed("TARGET_FROZEN", message, "Wait until a person lifts the freeze.")


def check_duplicate(call: Proposal, contract: Contract, context: TargetContext) -> Malformed | None:
    """Refuse the repeat of a mutation that is open, in doubt, or settled for a time; name what ends the block
    (R-EX-08).
    """
    if not contract.mutating or context.open_twin is None:
        return None
    block, twin = context.twin_block, safe_name(context.open_twin)
    message, hint = _TWINS[block]
    ends, until = "WHEN_VERIFIED", ""
    if block in (RepeatBlock.DEADLINE, RepeatBlock.WORD) and context.twin_blocks_until is not None:
        ends, until = "AT_TIME", context.twin_blocks_until.astimezone(UTC).isoformat(timespec="seconds")
    elif block is RepeatBlock.CONTRADICTED or context.twin_waits_for_a_person:
        ends, hint = "WHEN_SETTLED", f"{_BY_A_PERSON} {_RELEASE}"
    if ends == "WHEN_SETTLED" and block is RepeatBlock.OPEN:
        message = "The same operation was attempted, and nobody knows yet whether it took effect."
    said = until.removesuffix("+00:00").replace("T", " ") + " UTC"
    error = {
        "path": "",
        "code": "DUPLICATE_BLOCKED",
        "detail": f"{twin}: {context.twin_state or 'open'}",
        "action_id": twin,
        "ends": ends,
        "until": until or None,
    }
    return Malformed("DUPLICATE_BLOCKED", message, hint.format(twin=twin, until=said), None, (error,))


_BY_A_PERSON: Final = "Wait until a person has settled the action {twin}; do not repeat it."
_RELEASE: Final = "No time ends this. An operator can also close it unresolved, which allows a repeat."


_TWINS: Final[Mapping[RepeatBlock, tuple[str, str]]] = {
    RepeatBlock.OPEN: ("The same operation is already open.", "Wait for the action {twin}; do not repeat it."),
    RepeatBlock.CONTRADICTED: (
        "The outcome of the same operation is in doubt.",
        "Wait until a person has settled the action {twin}; do not repeat it.",
    ),
    RepeatBlock.DEADLINE: (
        "The same operation failed and may still take effect.",
        "Do not repeat the action {twin} before {until}.",
    ),
    RepeatBlock.WORD: (
        "A person has settled that the same operation took effect.",
        "Do not repeat the action {twin}. A repeat is refused until {until}.",
    ),
}


def check_unobserved(call: Proposal, contract: Contract, context: TargetContext) -> Malformed | None:
    """Refuse a mutation of a target that an unobserved step of the run has (R-PL-13)."""
    if not contract.mutating or not context.unobserved:
        return None
    errors = tuple(_error("", one, state) for one, state in context.unobserved)
    message = "A step of this run on the same target is not settled, so nobody knows what this call would build on."
    return Malformed(UNRESOLVED, message, "Wait until it is settled, or withdraw it first.", None, errors)


def check_failed(call: Proposal, contract: Contract, context: TargetContext) -> Malformed | None:
    """Refuse a mutation after a failed step that the agent has not acknowledged (R-PL-14)."""
    unnoticed = [one for one in context.failed if one not in acknowledged_steps(call)]
    if not contract.mutating or not unnoticed:
        return None
    errors = tuple(_error("/acknowledges", one, "it failed, and nobody has acknowledged that") for one in unnoticed)
    message = "A step of this run has failed, and no decision to go on is on record."
    return Malformed(UNRESOLVED, message, "Name it in `acknowledges` if the goal still wants this step.", None, errors)


def _error(path: str, action_id: str, detail: str) -> dict[str, str]:
    return {
        "path": path,
        "code": UNRESOLVED,
        "detail": f"{safe_name(action_id)}: {detail}",
        "action_id": safe_name(action_id),
    }
