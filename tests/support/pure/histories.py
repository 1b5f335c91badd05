"""Histories of one action, walked over the lifecycle's own transitions and written as the program writes them.

A walk draws each step with `choose`: `random_walks` from a seed, hypothesis from its own data. Between the transitions
come what moves nothing: late answers, webhooks, readings that decide nothing, re-verifications, disputes, reversals.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st

from ledger.catalogue.rules.effects import Reversibility, SideEffectClass
from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import TRANSITIONS, Ground, State, changes_outcome
from reviews.cases.rules.resolutions import HeldAction, allowed_resolutions, resolution_events
from reviews.cases.rules.ways_out import PASSED
from reviews.reconciliation.rules.shown import LastReading, Shown
from reviews.recovery.rules.remedies import RELATIONS
from reviews.verification.rules.steps import KINDS, apply_changes, entry_changes

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
PENDING, UNKNOWN, REVIEW, SUCCESS = State.PENDING, State.UNKNOWN, State.REVIEW_REQUIRED, State.RECONCILED_SUCCESS
TARGETS = {start: sorted(end for begin, end in TRANSITIONS if begin is start) for start in State}
PERSON, SECOND, AGENT, EXECUTOR, SYSTEM = (f"00000000-0000-7000-8000-00000000000{n}" for n in range(5))
DIFFERENCES = {
    "VALUE_MISMATCH": "quantity 10 instead of 1",
    "DUPLICATE_SIDE_EFFECT": "refund 2 times instead of once",
    "PARTIAL_APPLICATION": "refund, but no notice",
}

Choose = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, kw_only=True)
class Happening:
    """One event of a walk, with the entry that it left and its detail."""

    seq: int
    kind: str
    from_state: str
    state: str
    actor_kind: str
    actor_id: str
    at: datetime
    entry: dict[str, Any] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)


def history(events: Iterable[Happening]) -> list[tuple[Happening, dict[str, Any], dict[str, Any]]]:
    """Events as queries give them: each with its entry and its detail."""
    return [(each, each.entry, each.detail) for each in events]


def first_entry(effect_class: str) -> dict[str, Any]:
    return {
        "side_effect_class": effect_class,
        "execution": {"status": "NOT_EXECUTED", "observation_pointer": None, "attempt_count": 0},
        "verification": {
            "status": "NOT_STARTED",
            "source": None,
            "query_pointer": None,
            "verified_state_pointer": None,
        },
        "reconciliation": {"status": "NOT_STARTED", "discrepancy_class": None, "recovery_decision": None},
        "timestamps": {},
    }


@dataclass
class Walk:
    """An action on its way; the columns of its present view are kept here as the database keeps them."""

    choose: Choose
    effect_class: str = "HIGH_RISK_EXTERNAL"
    events: list[Happening] = field(default_factory=list)
    state: State = State.PROPOSED
    reached_by: str = "proposed"
    contradicted: bool = False
    reversed: bool = False
    attempts: int = 0
    claimed: bool = False
    run: str = ""
    result: str = ""
    found: str = ""
    waiting: bool = False
    approved: bool = False
    began: int = 0

    def __post_init__(self) -> None:
        self.entry = first_entry(self.effect_class)
        self.append("proposed", None, actor="agent")

    @property
    def side_effect_class(self) -> str:
        return self.effect_class

    @property
    def approval_id(self) -> str | None:
        """As the view has it: None once it is known that nobody is asked."""
        return None if not self.waiting and self.state is not State.PROPOSED else "a-1"

    @property
    def discrepancy(self) -> str:
        return self.entry["reconciliation"]["discrepancy_class"] or ""

    def append(
        self,
        kind: str,
        to: State | None,
        changes: dict[str, Any] | None = None,
        detail: dict[str, Any] | None = None,
        *,
        actor: str = "system",
    ) -> None:
        start = "" if not self.events else str(self.state)
        self.entry = apply_changes(self.entry, changes or {})
        if changes_outcome(kind, start, str(to or self.state)):
            self.reached_by = kind
        self.state = to or self.state
        view = (detail or {}).get("view") or {}
        self.contradicted = view.get("contradicted", self.contradicted)
        self.reversed = view.get("reversed", self.reversed)
        number = len(self.events) + 1
        self.events.append(
            Happening(
                seq=number,
                kind=kind,
                from_state=start,
                state=str(self.state),
                actor_kind=actor,
                actor_id={"person": PERSON, "agent": AGENT, "executor": EXECUTOR}.get(actor, SYSTEM),
                at=START + timedelta(seconds=number),
                entry=self.entry,
                detail=detail or {},
            )
        )

    # The executor

    def begin(self) -> None:
        self.attempts += 1
        self.claimed, self.run, self.result, self.found = False, "", "", ""
        self.began = len(self.events) + 1
        changes = {
            "execution": {"status": "EXECUTING", "attempt_count": self.attempts, "observation_pointer": None},
            "reconciliation": {"discrepancy_class": None},
        }
        detail = {"attempt": self.attempts, "executor_id": "ex", "grounds": ["released"]}
        self.append("execution_started", State.EXECUTING, changes, detail, actor="executor")

    def answer(self, status: str, to: State | None, *, unsent: bool = False, of: int = 0) -> None:
        told = {"status": status, "claimed_success": status == "success", "source": "executor", "late": to is None}
        self.claimed = self.claimed or (status == "success" and of in (0, self.attempts))
        changes: dict[str, Any] = entry_changes(to, self.entry, at=START) if to else {}
        if unsent:
            changes = {
                "execution": {"status": "FAILED"},
                "verification": {"status": "NOT_REQUIRED"},
                "reconciliation": {"status": "NOT_STARTED"},
            }
        changes.setdefault("execution", {})["observation_pointer"] = f"o{len(self.events)}"
        grounds = {"grounds": ["nothing_sent"]} if unsent else {}
        detail = {"attempt": of or self.attempts, "status": status, "observation": told, **grounds}
        self.append("failed" if unsent else "observed", to, changes, detail, actor="executor")

    def fall_silent(self) -> None:
        changes = {"execution": {"status": "UNKNOWN"}, "reconciliation": {"status": "UNKNOWN"}}
        self.append("lease_ended", UNKNOWN, changes, {"attempt": self.attempts})

    # Readings

    def read(self, result: str, found: str, *, source: str = "shop", consistency: str = "PRIMARY") -> dict[str, Any]:
        """A new run; the detail of its first event."""
        self.run, self.result, self.found = f"r{len(self.events)}", result, found
        consistency = consistency if source else ""
        listed = {"source": source, "consistency": consistency, "result": result, "discrepancy": found}
        return {"run": self.run, "listed": listed}

    def step(
        self,
        kind: str,
        to: State | None,
        detail: dict[str, Any],
        *,
        grounds: tuple[Ground, ...] = (),
        settled: bool = True,
    ) -> None:
        """One event of a run, its entry changed as the program changes it."""
        changes: dict[str, Any] = entry_changes(to, self.entry, at=START) if to else {}
        if detail.get("listed", {}).get("source"):
            pointers = {"source": "shop", "query_pointer": "q", "verified_state_pointer": self.run}
            changes.setdefault("verification", {}).update(pointers)
        if to not in (State.PENDING, State.COMMITTED):
            changes.setdefault("reconciliation", {})["discrepancy_class"] = self.found or None
        more = {"grounds": [str(each) for each in grounds], "view": {"settled": settled}}
        self.append(kind, to, changes, {"run": self.run, **detail, **more})

    def undecided(self) -> dict[str, Any]:
        """A reading that decides nothing: of the primary so far, of a replica, or of a system that does not answer."""
        how = self.choose(("primary", "replica", "silent", "lag", "doubtful"))
        return {
            "primary": lambda: self.read("PENDING", "UNKNOWN_STATE"),
            "replica": lambda: self.read("PENDING", "UNKNOWN_STATE", consistency="REPLICA"),
            "silent": lambda: self.read("PENDING", "UNKNOWN_STATE", source=""),
            "lag": lambda: self.read("PENDING", "PROPAGATION_DELAY"),
            "doubtful": lambda: self.read("UNKNOWN", "UNVERIFIABLE_STATE"),
        }[how]()

    def decide(self, *, opens: bool = False) -> None:
        """A decisive reading, walked to its end: COMMITTED or FAILED and what follows."""
        results = [
            ("SUCCESS", self.choose(("", "NO_OP_SUCCESS"))),
            ("MISMATCH", "VALUE_MISMATCH"),
            ("MISMATCH", "COMPENSATION_REQUIRED"),
            ("DUPLICATE", "DUPLICATE_SIDE_EFFECT"),
            ("PARTIAL", "PARTIAL_APPLICATION"),
        ]
        results.append(("MISMATCH", "NO_OP_FAILURE") if self.claimed else ("ABSENT", self.choose(("", "STALE_STATE"))))
        result, found = self.choose(results)
        detail = self.read(result, found)
        if opens:
            self.step("verification_started", PENDING, detail)
            detail = {"run": self.run}
        if result == "ABSENT":
            self.step("failed", State.FAILED, detail, grounds=(Ground.DECISIVE_READ, Ground.NO_EFFECT_NO_CLAIM))
            return
        self.step("verified", State.COMMITTED, detail, grounds=(Ground.DECISIVE_READ,))
        to = {"SUCCESS": SUCCESS, "PARTIAL": State.PARTIALLY_COMMITTED}.get(result, State.RECONCILIATION_FAILED)
        self.step(KINDS[to], to, {}, grounds=(Ground.PREDICATES_HOLD,) if result == "SUCCESS" else ())

    def check_answer(self) -> None:
        """The end of a read that nothing reads back: what its answer comes to."""
        if self.claimed and self.choose((True, True, False)):
            self.step("answer_checked", State.COMMITTED, self.read("SUCCESS", "", source=""))
            self.step("answered", SUCCESS, {}, grounds=(Ground.PREDICATES_HOLD,))
            self.entry["verification"] |= {"status": "UNVERIFIABLE", "verified_state_pointer": None}
        elif self.claimed:
            found = self.choose(("VALUE_MISMATCH", "UNVERIFIABLE_STATE"))
            self.step("answer_checked", State.COMMITTED, self.read("MISMATCH", found, source=""))
            self.step("answer_refused", State.RECONCILIATION_FAILED, {})
            self.step("failed", State.FAILED, {}, grounds=(Ground.NO_EFFECT_REMAINS,))
        else:
            self.step("failed", State.FAILED, self.read("ABSENT", "", source=""), grounds=(Ground.CHANGES_NOTHING,))

    def order(self, relation: Relation) -> None:
        self.append("ordered", None, {}, {"relation": str(relation), "tool": "undo", "number": 0, "of": 1})
        if self.choose((True, True, False)):
            self.append("recovery_proposed", None, {}, {"action_id": "c-1"})

    def again(self) -> None:
        """A later reading of a settled action."""
        agrees = self.choose((True, False))
        there = (self.state is SUCCESS) == agrees
        detail = self.read("SUCCESS" if there else "ABSENT", "" if there else "NO_OP_FAILURE")
        kind = "contradicted" if not agrees else "contradiction_withdrawn" if self.contradicted else "rechecked"
        self.append(kind, None, {}, {**detail, "view": {"contradicted": not agrees}})

    # People

    def settle(self) -> None:
        held = HeldAction(
            state=self.state,
            executed=self.attempts > 0,
            reading=LastReading(shown=self.newest_decisive()),
            verifiable=True,
            discrepancy=self.discrepancy,
            contradicted=self.contradicted,
            side_effect_class=SideEffectClass(self.effect_class),
            reversibility=Reversibility.COMPENSABLE,
            remedies=frozenset(Relation),
            taken_back=self.reversed,
        )
        ways = allowed_resolutions(held)
        if not ways:
            return
        way = self.choose(ways)
        for each in resolution_events(held, way, at=START):
            settled = {} if each.state is None else {"settled": each.state is not PENDING}
            detail = {
                "resolution": str(way),
                "by": PERSON,
                "confirmed_by": self.choose((SECOND, None)),
                "grounds": sorted(str(ground) for ground in each.grounds),
                "view": {**settled, **each.view},
            }
            self.append(each.kind, each.state, dict(each.changes), detail, actor="person")
        if self.state in RECOVERED:
            self.order(RECOVERED[self.state])

    def newest_decisive(self) -> Shown:
        """What the newest decisive reading of this attempt showed, read from its events alone."""
        shown = Shown.NOT_READ
        for each in self.events[self.began :]:
            listed = each.detail.get("listed") or {}
            if listed.get("source") and listed["result"] not in ("PENDING", "UNKNOWN"):
                nothing = listed["result"] == "ABSENT" or listed["discrepancy"] == "NO_OP_FAILURE"
                wanted = Shown.AS_REQUESTED if listed["result"] == "SUCCESS" else Shown.DIFFERENT
                shown = Shown.NO_EFFECT if nothing else wanted
        return shown


RECOVERED = {
    State.COMPENSATING: Relation.COMPENSATION,
    State.FORWARD_RECOVERY: Relation.FORWARD,
    State.RECONCILIATION_FAILED: Relation.ROLLBACK,
}


def move(walk: Walk, to: State) -> None:
    """One legal transition, by one of the kinds of event that the program makes it with."""
    _MOVES.get(walk.state, _stay)(walk, to)


def _stay(walk: Walk, to: State) -> None:
    return


def _from_proposed(walk: Walk, to: State) -> None:
    if to is State.FAILED:
        changes = {"verification": {"status": "NOT_REQUIRED"}}
        walk.append("validation_failed", to, changes, {"reason": "No such tool."})
        return
    walk.waiting = walk.choose((True, False))
    walk.append("validated", to, {}, {"approval_required": walk.waiting})


_ENDED_WAITING = (
    *("rejected", "changes_requested", "approval_expired", "approval_voided", "superseded", "cancelled"),
    *("preflight_refused", "provider_outage"),
)


def _from_validated(walk: Walk, to: State) -> None:
    not_required = {"verification": {"status": "NOT_REQUIRED"}}
    if to is State.FAILED:
        kind = walk.choose(_ENDED_WAITING if walk.waiting else ("cancelled", "outside_autonomy"))
        actor = {"cancelled": "agent", "rejected": "person", "changes_requested": "person"}.get(kind, "system")
        walk.append(kind, to, not_required, {"reason": "It was so."}, actor=actor)
    elif to is REVIEW:
        changes = not_required | {"reconciliation": {"status": "REVIEW_REQUIRED"}}
        kind = walk.choose(("payload_mismatch", "held_after_restore"))
        walk.append(kind, to, changes, {}, actor="executor" if kind == "payload_mismatch" else "system")
    else:
        if walk.waiting and not walk.approved:
            by_standing = walk.choose((False, False, True))
            detail = {"approval_id": "a-1"} | ({"standing_approval_id": "s-1"} if by_standing else {})
            walk.append("approval_granted", None, {}, detail, actor="system" if by_standing else "person")
            walk.approved = True
        walk.begin()


def _from_executing(walk: Walk, to: State) -> None:
    if to is State.ACCEPTED:
        walk.answer("accepted", to)
    elif to is PENDING:
        walk.answer(walk.choose(("success", "failed", "partial", "malformed", "pending")), to)
    elif to is UNKNOWN:
        walk.answer("timeout", to) if walk.choose((True, False)) else walk.fall_silent()
    elif to is State.FAILED:
        walk.answer("failed", to, unsent=True)
    elif to is State.ROLLED_BACK:
        walk.answer("failed", None)
        walk.step("rolled_back", to, walk.read("ABSENT", ""), grounds=(Ground.LOCAL_UNCHANGED,))
    else:
        walk.answer("success", PENDING)
        _decide(walk)


def _decide(walk: Walk, *, opens: bool = False) -> None:
    if walk.effect_class == "READ_ONLY":
        walk.check_answer()
    else:
        walk.decide(opens=opens)


def _from_pending(walk: Walk, to: State) -> None:
    reads = walk.effect_class == "READ_ONLY"
    if to is PENDING:
        if reads:
            walk.step("answer_awaited", to, {})
        elif walk.choose((True, False)):
            walk.answer(walk.choose(("success", "failed")), to)
        else:
            walk.step("verification_started", to, walk.undecided(), settled=False)
    elif to in (State.VERIFICATION_TIMEOUT, UNKNOWN) and not reads:
        kind = "verification_timed_out" if to is State.VERIFICATION_TIMEOUT else "outcome_unknown"
        walk.step(kind, to, walk.undecided())
        if to is UNKNOWN and walk.found == "UNVERIFIABLE_STATE":
            walk.entry["verification"]["status"] = "UNVERIFIABLE"
    elif walk.state is State.ACCEPTED and not reads:
        grounds = (Ground.DECISIVE_READ, Ground.NO_EFFECT_NO_CLAIM)
        if not walk.claimed:
            walk.step("failed", to, walk.read("ABSENT", ""), grounds=grounds)
    elif walk.state is PENDING:
        _decide(walk)


def _from_deviation(walk: Walk, to: State) -> None:
    if walk.state is State.RECONCILIATION_FAILED and walk.events[-1].kind != "reconciliation_failed":
        # It rests here only while a rollback runs, which its own reading ends.
        walk.append("rollback_done", None, {}, {"view": {"settled": False}})
        if to is State.ROLLED_BACK:
            walk.step("rolled_back", to, walk.read("ABSENT", ""), grounds=(Ground.LOCAL_UNCHANGED,))
        else:
            walk.step("held", REVIEW, walk.undecided())
        return
    if to is State.ROLLED_BACK:
        walk.order(Relation.ROLLBACK)
        return
    if to is State.FAILED and walk.found != "NO_OP_FAILURE":
        to = REVIEW
    walk.step(KINDS[to], to, {}, grounds=(Ground.NO_EFFECT_REMAINS,) if to is State.FAILED else ())
    if to in RELATIONS:
        walk.order(RELATIONS[to])


def _from_unknown(walk: Walk, to: State) -> None:
    if to is not PENDING:
        walk.settle()
    elif walk.choose((True, False)):
        walk.answer("success", to)
    elif walk.choose((True, False)) and walk.effect_class != "READ_ONLY":
        walk.decide(opens=True)
    elif walk.effect_class != "READ_ONLY":
        walk.step("verification_started", to, walk.undecided(), settled=False)


def _from_compensating(walk: Walk, to: State) -> None:
    if to is State.COMPENSATED:
        kind = walk.choose(("compensated", "compensation_attested"))
        detail = {"grounds": ["compensation_verified"], "view": {"settled": True}}
        walk.append(kind, to, entry_changes(to, walk.entry, at=START), detail)
        return
    failed = State.COMPENSATION_FAILED
    walk.append("compensation_failed", failed, entry_changes(failed, walk.entry, at=START), {"reason": "It failed."})
    walk.append("held", REVIEW, entry_changes(REVIEW, walk.entry, at=START), {"view": {"settled": True}})


def _from_forward_recovery(walk: Walk, to: State) -> None:
    walk.append("forward_recovery_done", None, {}, {"view": {"settled": False}})
    if to is SUCCESS:
        walk.step("reconciled", to, walk.read("SUCCESS", ""), grounds=(Ground.PREDICATES_HOLD,))
    elif to is REVIEW:
        walk.step("held", to, walk.undecided())
    else:
        walk.step("failed", to, walk.read("ABSENT", "NO_OP_FAILURE"), grounds=(Ground.NO_EFFECT_REMAINS,))


def _from_failed(walk: Walk, to: State) -> None:
    if walk.attempts and walk.reached_by == "failed" and walk.effect_class != "READ_ONLY":
        changes = entry_changes(State.VALIDATED, walk.entry, at=START)
        detail = {"grounds": ["retry_allowed"], "view": {"settled": False}}
        walk.append("retry_allowed", State.VALIDATED, changes, detail)


_MOVES: dict[State, Callable[[Walk, State], None]] = {
    State.PROPOSED: _from_proposed,
    State.VALIDATED: _from_validated,
    State.EXECUTING: _from_executing,
    State.ACCEPTED: _from_pending,
    State.PENDING: _from_pending,
    State.PARTIALLY_COMMITTED: _from_deviation,
    State.RECONCILIATION_FAILED: _from_deviation,
    State.VERIFICATION_TIMEOUT: _from_deviation,
    State.UNKNOWN: _from_unknown,
    State.COMPENSATING: _from_compensating,
    State.FORWARD_RECOVERY: _from_forward_recovery,
    State.FAILED: _from_failed,
    State.REVIEW_REQUIRED: lambda walk, to: walk.settle(),
}


def stand(walk: Walk) -> None:
    """An event that moves nothing, where the program makes one in this state."""
    kinds = [name for name, may in _STANDING.items() if may(walk)]
    if kinds:
        _MAKE[walk.choose(kinds)](walk)


def _can_be_rechecked(walk: Walk) -> bool:
    return (
        walk.state in (SUCCESS, State.FAILED, State.ROLLED_BACK)
        and walk.attempts > 0
        and not walk.reversed
        and walk.effect_class != "READ_ONLY"
    )


_STANDING: dict[str, Callable[[Walk], bool]] = {
    "case": lambda walk: walk.attempts > 0,
    "baseline": lambda walk: walk.state is State.VALIDATED and walk.waiting and not walk.attempts,
    "lost start": lambda walk: walk.state is State.VALIDATED and not walk.attempts,
    "late answer": lambda walk: (
        walk.attempts > (1 if walk.state in (State.EXECUTING, State.VALIDATED) else 0)
        and walk.effect_class != "READ_ONLY"
    ),
    "webhook": lambda walk: walk.attempts > 0 and walk.state is not State.EXECUTING,
    "waiting": lambda walk: walk.state is PENDING and walk.effect_class != "READ_ONLY",
    "recheck": _can_be_rechecked,
    "dispute": _can_be_rechecked,
    "remedy contradicted": lambda walk: (
        (walk.reversed or walk.state in (State.COMPENSATED, State.ROLLED_BACK)) and not walk.contradicted
    ),
    "settle": lambda walk: walk.contradicted and walk.state in (SUCCESS, State.FAILED, State.ROLLED_BACK),
    "reverse": lambda walk: (
        walk.state is SUCCESS and walk.reached_by == "reconciled" and not (walk.reversed or walk.contradicted)
    ),
}


def _late_answer(walk: Walk) -> None:
    walk.answer(walk.choose(("success", "failed")), None, of=walk.choose(range(1, walk.attempts + 1)))


def _webhook(walk: Walk) -> None:
    told = {"status": "notified", "claimed_success": False, "source": "webhook", "late": True}
    walk.append("webhook_received", None, {}, {"attempt": walk.attempts, "observation": told})


def _reverse(walk: Walk) -> None:
    walk.order(Relation.COMPENSATION)
    kind = walk.choose(("compensated", "compensation_attested"))
    walk.append(kind, None, {"reconciliation": {"status": "COMPENSATED"}}, {"view": {"reversed": True}})


_BASELINE = ("reading_wanted", "reading_missed", "reading_taken")
_MAKE: dict[str, Callable[[Walk], None]] = {
    "case": lambda walk: walk.append("case_opened", None, {}, {"discrepancy": walk.discrepancy}),
    "baseline": lambda walk: walk.append(walk.choose(_BASELINE), None, {}, {"for": "drift"}),
    "lost start": lambda walk: walk.append("start_without_record", None, {}, {"executor_id": "ex"}, actor="executor"),
    "late answer": _late_answer,
    "webhook": _webhook,
    "waiting": lambda walk: walk.step("verification_waiting", None, walk.undecided(), settled=False),
    "recheck": lambda walk: walk.again(),
    "dispute": lambda walk: walk.append("doubted", None, {}, {"view": {"contradicted": True}}, actor="person"),
    "remedy contradicted": lambda walk: walk.append(
        "contradicted", None, {}, {"action_id": "c-1", "view": {"contradicted": True}}
    ),
    "settle": lambda walk: walk.settle(),
    "reverse": _reverse,
}


def walk_on(choose: Choose, *, most: int = 14) -> Walk:
    """A history from the proposal on; most begin to run, since what never ran has few sentences."""
    walk = Walk(choose, choose(("HIGH_RISK_EXTERNAL",) * 7 + ("READ_ONLY",)))
    for _ in range(choose(range(1, most + 1))):
        targets = TARGETS[walk.state]
        if walk.state in (State.PROPOSED, State.VALIDATED) and choose(range(8)):
            targets = [State.VALIDATED] if walk.state is State.PROPOSED else [State.EXECUTING]
        if targets and (len(walk.events) < 3 or choose(range(4))):
            move(walk, choose(targets))
        else:
            stand(walk)
        while walk.state in PASSED or walk.events[-1].kind == "reconciliation_failed":
            move(walk, choose(TARGETS[walk.state]))
    return walk


@cache
def random_walks(count: int, seed: int = 35) -> tuple[Walk, ...]:
    """The same histories in every run."""
    drawn = random.Random(seed)
    return tuple(walk_on(drawn.choice) for _ in range(count))


@st.composite
def walks(draw: st.DrawFn) -> Walk:
    """A history for hypothesis, which shrinks it."""
    return walk_on(lambda options: draw(st.sampled_from(list(options))))
