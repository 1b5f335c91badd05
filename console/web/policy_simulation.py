"""The effect that a version of a policy, or a draft, would have had in a period, for the page and the API.

Approval and autonomy policies decide calls again (`approvals.policy.rules.simulation`), verification and recovery
policies judge verification runs again (`reviews.replay`). Each action is shown with whether it proved wrong later: a
discrepancy that was not only waiting, an incident, a contradiction, or an effect that had to be reversed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from approvals.policy import queries as past
from approvals.policy.rules import autonomy, policy
from approvals.policy.rules.simulation import PastCall, PolicyOutcome, simulate_calls
from console.web import labels, replay_sentences
from ledger.actions.queries import actions
from ledger.catalogue.rules.policies import check_policy
from ledger.record.rules.lifecycle import State
from reviews import queries as reviews_queries
from reviews.replay import queries as replays
from reviews.replay.rules.replay import ActionReplay, draft_policy

if TYPE_CHECKING:
    from ledger.models import Action

MOST: Final = 2000
"""Calls, or actions with verification runs, that one simulation looks at: the newest of the period."""
WENT_ON: Final = "WENT_ON"
WORDS: Final[dict[str, str]] = {
    PolicyOutcome.LET_THROUGH: "let through",
    PolicyOutcome.HELD: "held",
    PolicyOutcome.REFUSED: "refused",
    WENT_ON: "judged without a person",
}
_WAITING: Final = frozenset({State.EXECUTING, State.ACCEPTED, State.PENDING, State.UNKNOWN})
_TAKEN_BACK: Final = frozenset(
    {State.COMPENSATING, State.COMPENSATED, State.COMPENSATION_FAILED, State.ROLLED_BACK, State.RECONCILIATION_FAILED}
)


@dataclass(frozen=True, kw_only=True)
class TouchedAction:
    """An action that would have ended differently; `wrong` says how it proved wrong later, if it did."""

    action_id: UUID
    title: str
    then: str
    now: str
    reason: str
    wrong: str

    @property
    def text(self) -> str:
        if self.then == self.now:
            return self.reason
        ending = f": {self.reason}" if self.reason else ""
        return f"It was {WORDS[self.then]} and would have been {WORDS[self.now]}{ending}"


@dataclass(frozen=True, kw_only=True)
class PolicySimulation:
    """The differences that a policy would have made.

    `decided` were decided again, `left_out` could not be, `is_cut` says that the period has more than were looked at.
    """

    since: datetime
    until: datetime
    decided: int
    left_out: int
    is_cut: bool
    of: str
    touched: tuple[TouchedAction, ...]

    @property
    def figures(self) -> list[tuple[str, str, int, int]]:
        """Return (then, now, number, number proved wrong later), the most frequent first."""
        found = Counter((each.then, each.now) for each in self.touched)
        wrong = Counter((each.then, each.now) for each in self.touched if each.wrong)
        return [(then, now, count, wrong[then, now]) for (then, now), count in found.most_common()]

    @property
    def text(self) -> str:
        """The whole in sentences."""
        which = f"the newest {self.decided}" if self.is_cut else str(self.decided)
        rest = f" {self.left_out} more cannot be decided again." if self.left_out else ""
        if not self.touched:
            return f"Of {which} {self.of} in this period, none would have been decided differently.{rest}"
        parts = "; ".join(_figure(*each) for each in self.figures)
        touched = len(self.touched)
        return f"Of {which} {self.of} in this period, {touched} would have been decided differently: {parts}.{rest}"


def _figure(then: str, now: str, count: int, wrong: int) -> str:
    later = f", {wrong} of which later proved wrong" if wrong else ", none of which later proved wrong"
    if then == now:
        return f"{count} {WORDS[then]} as before, but for another reason{later}"
    return f"{count} would have been {WORDS[now]} and were {WORDS[then]}{later}"


def simulate_policy(
    tenant_id: UUID, kind: str, document: Mapping[str, Any], *, since: datetime, until: datetime
) -> PolicySimulation:
    """Simulate a policy of this kind with this document; raises the kind's `BadPolicy` for an invalid one."""
    if kind in ("approval", "autonomy"):
        return _simulate_calls(tenant_id, kind, document, since=since, until=until)
    under = {kind: draft_policy(kind, document)}
    ids = replays.actions_with_runs(tenant_id, since=since, until=until, limit=MOST + 1, newest=True)
    found = replays.replay_actions(tenant_id, ids[:MOST], under=under)
    instead = {name: each.version for name, each in under.items()}
    changed = [each for each in found if each.differing]
    rows = actions.actions_by_id(tenant_id, [UUID(each.action_id) for each in changed])
    wrong = _proved_wrong(tenant_id, rows)
    return PolicySimulation(
        since=since,
        until=until,
        decided=sum(not each.not_replayable for each in found),
        left_out=sum(bool(each.not_replayable) for each in found),
        is_cut=len(ids) > MOST,
        of="verified actions",
        touched=tuple(
            _touched_by_replay(each, rows, wrong, instead) for each in changed if UUID(each.action_id) in rows
        ),
    )


def _touched_by_replay(
    replay: ActionReplay, rows: Mapping[UUID, Action], wrong: Mapping[UUID, str], instead: Mapping[str, str]
) -> TouchedAction:
    action_id, first = UUID(replay.action_id), replay.differing[0]
    assert first.recorded is not None
    assert first.replayed is not None
    return TouchedAction(
        action_id=action_id,
        title=_title(rows[action_id]),
        then=PolicyOutcome.HELD if first.recorded.held else WENT_ON,
        now=PolicyOutcome.HELD if first.replayed.held else WENT_ON,
        reason=replay_sentences.run_sentence(first, instead),
        wrong=wrong.get(action_id, ""),
    )


def _simulate_calls(
    tenant_id: UUID, kind: str, document: Mapping[str, Any], *, since: datetime, until: datetime
) -> PolicySimulation:
    named = {"version": "draft", **document}
    check_policy(kind, named)
    approval = policy.parse(named) if kind == "approval" else None
    boundary = autonomy.parse(named) if kind == "autonomy" else None
    calls, left_out = past.past_calls(tenant_id, since=since, until=until, limit=MOST + 1)
    is_cut = len(calls) + left_out > MOST
    kept: list[PastCall] = calls[-MOST:]
    touched = [each for each in simulate_calls(kept, approval=approval, boundary=boundary) if each.is_touched]
    rows = actions.actions_by_id(tenant_id, [each.call.action_id for each in touched])
    wrong = _proved_wrong(tenant_id, rows)
    return PolicySimulation(
        since=since,
        until=until,
        decided=len(kept),
        left_out=left_out,
        is_cut=is_cut,
        of="calls decided by the policies",
        touched=tuple(
            TouchedAction(
                action_id=each.call.action_id,
                title=_title(rows[each.call.action_id]),
                then=each.call.outcome,
                now=each.outcome,
                reason=labels.approval_reason_label(each.reason) if each.outcome == PolicyOutcome.HELD else each.reason,
                wrong=wrong.get(each.call.action_id, ""),
            )
            for each in reversed(touched)
        ),
    )


def _title(action: Action) -> str:
    return labels.action_title(action.operation_kind, action.target)


def _proved_wrong(tenant_id: UUID, rows: Mapping[UUID, Action]) -> dict[UUID, str]:
    """Return the reasons why actions proved wrong later, by id; the others are left out."""
    incidents = reviews_queries.actions_with_incidents(tenant_id, list(rows))
    found = {action_id: ", ".join(_wrongs(row, action_id in incidents)) for action_id, row in rows.items()}
    return {action_id: said for action_id, said in found.items() if said}


def _wrongs(action: Action, has_incident: bool) -> Iterable[str]:
    if action.contradicted:
        yield "contradicted by a later reading"
    if action.discrepancy and action.state not in _WAITING:
        yield labels.discrepancy_label(action.discrepancy).lower()
    if action.reversed or action.state in _TAKEN_BACK:
        yield "had to be reversed"
    if has_incident:
        yield "part of an incident"
