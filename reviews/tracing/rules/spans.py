"""The spans of one action, derived from its events (R-TR-01 to R-TR-07).

The record holds when each step began and ended, so a trace needs no instrumentation that could forget a step: from the
same events come the same spans, with the same ids, in every process and however often. A span ends with exactly one
event, and nothing that is recorded later changes it; so a span can be sent away when the event that ends it is there.

A trace says where an action has been. What is true of it stands in the ledger: no span holds an argument, an answer or
a reason, and `ok` is said only of what a reading of the system of record settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, Literal
from uuid import UUID

from ledger.record.rules.lifecycle import OPEN
from reviews.verification.rules.trust import trust_ladder

SpanStatus = Literal["ok", "error", "unset"]
Attributes = dict[str, str | int | bool]


class Stage(StrEnum):
    """The kind of a span."""

    ACTION = "action"
    GATE = "gate"
    APPROVAL = "approval"
    PREFLIGHT = "preflight"
    CLAIM = "claim"
    START = "start"
    EFFECT = "effect"
    OBSERVATION = "observation"
    READBACK = "readback"
    RECONCILIATION = "reconciliation"
    RECOVERY = "recovery"
    REPORT = "report"


CHAIN: Final[Mapping[Stage, str]] = {
    Stage.GATE: "tool_validation",
    Stage.START: "deterministic_wrapper",
    Stage.EFFECT: "tool_execution",
    Stage.READBACK: "verification",
    Stage.RECONCILIATION: "reconciliation",
    Stage.RECOVERY: "recovery",
}
"""The links of the chain that R-TR-01 names. Its first, `model_inference`, is the agent's own span, our parent."""


@dataclass(frozen=True, slots=True)
class Step:
    """One event of an action, as far as its spans need it."""

    id: UUID
    seq: int
    kind: str
    state: str
    from_state: str
    at: datetime
    recorded_at: datetime
    actor_kind: str
    entry: Mapping[str, Any]
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToldReport:
    """One report given to a person: the event it was made from, and the time."""

    id: UUID
    event_id: UUID
    code: str
    completed: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Span:
    """One span. `ended_by` is the number of the event that ended it; None while it goes on, and for reports."""

    span_id: str
    parent_id: str | None
    stage: Stage
    name: str
    start: datetime
    end: datetime | None
    status: SpanStatus
    attributes: Mapping[str, str | int | bool]
    seq: int
    ended_by: int | None = None


@dataclass(frozen=True, slots=True)
class ActionTrace:
    """All spans of an action, the first one first; `remote_parent` is the span of who proposed it, where one is known.

    `is_agents` says that this parent is the agent's own span: its model inference, which only the agent can tell of.
    """

    trace_id: str
    remote_parent: str | None
    is_agents: bool
    spans: tuple[Span, ...]


_APPROVAL_ENDS: Final = frozenset({"approval_granted", "rejected", "changes_requested", "approval_expired"})
_RECONCILED: Final[Mapping[str, SpanStatus]] = {
    "reconciled": "ok",
    "answered": "ok",
    "partially_reconciled": "error",
    "reconciliation_failed": "error",
    "answer_refused": "error",
    "outcome_unknown": "unset",
    "verification_timed_out": "error",
    "failed": "error",
}
_RECOVERY_ENDS: Final[Mapping[str, SpanStatus]] = {
    "compensated": "ok",
    "rolled_back": "ok",
    "forward_recovery_done": "unset",
    "rollback_done": "unset",
    "compensation_attested": "unset",
    "left_as_it_is": "unset",
    "abandoned": "unset",
    "failed_by_review": "error",
    "compensation_failed": "error",
    "order_refused": "error",
}
_RECOVERY_POINTS: Final = frozenset({"held", "retry_allowed"})
_RECHECKS: Final = frozenset({"rechecked", "contradicted", "contradiction_withdrawn"})


def span_id(stage: Stage, source: object) -> str:
    """The id of the span of a stage that an event, or a report, opened: 16 hex digits, never all zero."""
    found = sha256(f"counterfoil span\n{stage}\n{source}".encode()).hexdigest()[:16]
    return found if int(found, 16) else "0" * 15 + "1"


def effect_span_id(action_id: object, attempt: int) -> str:
    """Return the id of the span in which an attempt runs, so that the executor's own spans can be its children."""
    return span_id(Stage.EFFECT, f"{action_id}/{attempt}")


def trace_of_action(
    steps: Sequence[Step], reports: Iterable[ToldReport] = (), *, ordered_by: UUID | None = None
) -> ActionTrace | None:
    """Return the trace of an action, from its events in order; None if it was erased.

    `ordered_by` is the event of another action that ordered this one, whose recovery span is then its parent.
    """
    if not steps or not steps[0].entry:
        return None
    trace = steps[0].entry["trace"]
    agents = trace["parent_span_id"] if ordered_by is None else None
    parent = span_id(Stage.RECOVERY, ordered_by) if ordered_by is not None else agents
    spans = _SpanBuilder(steps, parent).build(list(reports))
    return ActionTrace(trace["trace_id"], parent, agents is not None, tuple(spans))


@dataclass(slots=True)
class _Opened:
    stage: Stage
    by: Step
    parent: str | None
    attributes: Attributes = field(default_factory=dict)


class _SpanBuilder:
    """Processes the events once: each opens spans, ends spans, or is a span itself."""

    def __init__(self, steps: Sequence[Step], parent: str | None) -> None:
        self.steps = steps
        self.spans: list[Span] = []
        self.open: list[_Opened] = []
        self.root = span_id(Stage.ACTION, steps[0].id)
        self.effect = self.root
        self.readback: dict[str, str] = {}
        self.contradicted = False
        self.call = _call_attributes(steps[0])
        self.open.append(_Opened(Stage.ACTION, steps[0], parent))
        self.open.append(_Opened(Stage.GATE, steps[0], self.root))

    def build(self, reports: Sequence[ToldReport]) -> list[Span]:
        for step in self.steps:
            if not step.entry:
                continue
            if step.kind in ("contradicted", "contradiction_withdrawn"):
                self.contradicted = step.kind == "contradicted"
            self._before_effect(step)
            self._execution(step)
            self._verification(step)
            self._recovery(step)
            self._leave(step)
        for opened in list(self.open):
            self._add(opened, self.steps[-1], end=None, status="unset")
        self.spans += [span for told in reports if (span := self._report(told)) is not None]
        return sorted(self.spans, key=lambda span: (span.stage is not Stage.ACTION, span.start, span.seq))

    def _before_effect(self, step: Step) -> None:
        if step.kind == "validated":
            self._end(Stage.GATE, step)
            self._begin(Stage.APPROVAL if step.detail.get("approval_required") else Stage.CLAIM, step)
        elif step.kind == "validation_failed":
            self._end(Stage.GATE, step, "error")
        elif step.kind in _APPROVAL_ENDS:
            granted = step.kind == "approval_granted"
            self._end(Stage.APPROVAL, step, "unset" if granted else "error")
            if granted:
                self._begin(Stage.CLAIM, step)
        elif step.kind in ("approval_asked_again", "approval_revalidated"):
            for stage in (Stage.APPROVAL, Stage.CLAIM, Stage.START):
                self._end(stage, step, "error")
            self._begin(Stage.APPROVAL, step)
        elif step.kind == "reading_wanted":
            self._begin(Stage.PREFLIGHT, step)
        elif step.kind in ("reading_taken", "preflight_refused"):
            self._end(Stage.PREFLIGHT, step, "unset" if step.kind == "reading_taken" else "error")

    def _execution(self, step: Step) -> None:
        if step.kind == "grant_minted":
            self._end(Stage.CLAIM, step)
            # The grant before it ran out unused: that start never came.
            self._end(Stage.START, step, "error")
            self._begin(Stage.START, step)
        elif step.kind in ("start_refused", "payload_mismatch"):
            again = self._end(Stage.START, step, "error")
            if again and step.state == "VALIDATED":
                self._begin(Stage.START, step)
        elif step.kind == "execution_started":
            self._end(Stage.START, step)
            self._begin(Stage.EFFECT, step)
            self.effect = _id_of(Stage.EFFECT, step)
        elif step.kind == "lease_ended":
            self._end(Stage.EFFECT, step)
        elif step.kind in ("observed", "webhook_received"):
            self._add_point(Stage.OBSERVATION, step, self.effect)
            self._end(Stage.EFFECT, step)

    def _verification(self, step: Step) -> None:
        listed = step.detail.get("listed")
        run = str(step.detail.get("run", ""))
        if listed or step.kind in _RECHECKS:
            self._readback(step, run, listed or {})
        if step.kind in _RECONCILED and (run or step.kind != "failed"):
            parent = self.readback.get(run, self.root)
            self._add_point(Stage.RECONCILIATION, step, parent, _RECONCILED[step.kind])

    def _readback(self, step: Step, run: str, listed: Mapping[str, Any]) -> None:
        """Add the span of a reading: it began at `at` and was recorded when its answer had been judged."""
        names = [name for name in ("number", "source", "consistency", "result") if name in listed]
        told = {f"counterfoil.readback.{name}": listed[name] for name in names}
        opened = _Opened(Stage.READBACK, step, self.root, told)
        self.readback[run] = span_id(Stage.READBACK, step.id)
        self._add(opened, step, end=max(step.at, step.recorded_at), status="unset")

    def _recovery(self, step: Step) -> None:
        parent = self.readback.get(str(step.detail.get("run", "")), self.root)
        row = {"counterfoil.recovery.row": str(step.detail.get("recovery_row") or "")}
        if step.kind in _RECOVERY_POINTS:
            self._add_point(Stage.RECOVERY, step, parent, more=row)
        if step.kind == "retry_allowed":
            self._begin(Stage.CLAIM, step)
        if step.kind == "ordered":
            self._begin(Stage.RECOVERY, step, {"counterfoil.recovery.tool": str(step.detail.get("tool", ""))})
        elif step.kind in _RECOVERY_ENDS:
            self._end(Stage.RECOVERY, step, _RECOVERY_ENDS[step.kind])

    def _leave(self, step: Step) -> None:
        """End the spans of everything that the action was waiting for, and the first time its own."""
        if step.state in OPEN:
            return
        for stage in (Stage.PREFLIGHT, Stage.APPROVAL, Stage.CLAIM, Stage.START, Stage.EFFECT):
            self._end(stage, step, "error")
        self._end(Stage.ACTION, step, _root_status(step))

    def _begin(self, stage: Stage, step: Step, more: Mapping[str, str] | None = None) -> None:
        self.open.append(_Opened(stage, step, self.root, dict(more or {})))

    def _end(self, stage: Stage, step: Step, status: SpanStatus = "unset") -> bool:
        """End the open spans of a stage; return True if there was one."""
        found = [opened for opened in self.open if opened.stage is stage]
        for opened in found:
            self.open.remove(opened)
            self._add(opened, step, end=max(step.at, opened.by.at), status=status)
        return bool(found)

    def _add_point(
        self,
        stage: Stage,
        step: Step,
        parent: str,
        status: SpanStatus = "unset",
        *,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._add(_Opened(stage, step, parent, dict(more or {})), step, end=step.at, status=status)

    def _add(self, opened: _Opened, step: Step, *, end: datetime | None, status: SpanStatus) -> None:
        tool = str(step.entry["tool_contract"]["name"])
        more: Attributes = dict(opened.attributes)
        if opened.stage is Stage.EFFECT:
            more |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function", **self.call}
            more["counterfoil.attempt"] = int(opened.by.detail.get("attempt") or 0)
        if opened.stage is Stage.ACTION:
            more |= self.call
        self.spans.append(
            Span(
                span_id=_id_of(opened.stage, opened.by),
                parent_id=opened.parent,
                stage=opened.stage,
                name=f"execute_tool {tool}" if opened.stage is Stage.EFFECT else f"counterfoil.{opened.stage}",
                start=opened.by.at,
                end=end,
                status=status,
                attributes=table_attributes(step, contradicted=self.contradicted)
                | _own_attributes(opened.stage, step)
                | more,
                seq=step.seq,
                ended_by=step.seq if end is not None else None,
            )
        )

    def _report(self, told: ToldReport) -> Span | None:
        step = next((each for each in self.steps if each.id == told.event_id), None)
        if step is None or not step.entry:
            return None
        more: Attributes = {"counterfoil.report.code": told.code, "counterfoil.report.completed": told.completed}
        return Span(
            span_id=span_id(Stage.REPORT, told.id),
            parent_id=self.root,
            stage=Stage.REPORT,
            name=f"counterfoil.{Stage.REPORT}",
            start=told.at,
            end=told.at,
            status="unset",
            attributes=table_attributes(step) | _own_attributes(Stage.REPORT, step) | more,
            seq=step.seq,
        )


def _id_of(stage: Stage, opened_by: Step) -> str:
    if stage is Stage.EFFECT:
        return effect_span_id(opened_by.entry["action_id"], int(opened_by.detail.get("attempt") or 0))
    return span_id(stage, opened_by.id)


def _root_status(step: Step) -> SpanStatus:
    """Return the root's status: `ok` needs a reading; what a person attested is neither a success nor an error of the
    trace.
    """
    if step.kind in ("reconciled", "answered"):
        return "ok"
    return "error" if step.state == "FAILED" else "unset"


def _call_attributes(step: Step) -> Attributes:
    """The attributes of a tool call by the GenAI conventions, without its arguments."""
    view = step.detail.get("view") or {}
    return {
        "gen_ai.tool.name": str(step.entry["tool_contract"]["name"]),
        "gen_ai.tool.call.id": str(step.detail.get("call_id") or ""),
        "gen_ai.conversation.id": str(step.detail.get("session_id") or ""),
        "gen_ai.agent.name": str(view.get("agent") or ""),
    }


def _own_attributes(stage: Stage, step: Step) -> Attributes:
    return {
        "counterfoil.stage": str(stage),
        "counterfoil.chain": CHAIN.get(stage, ""),
        "counterfoil.event": step.kind,
        "counterfoil.state": step.state,
        "counterfoil.actor.kind": step.actor_kind,
    }


def table_attributes(step: Step, *, contradicted: bool = False) -> Attributes:
    """The twelve attributes of every span, and four more (C-50), as the entry of an event has them.

    What does not apply is there and empty (R-TR-03). The trust level is that of the entry alone: whether it is sealed
    in the log, which lifts level 3 to 4, comes later than the span.
    """
    entry = step.entry
    policies, reconciliation = entry["policy_context"], entry["reconciliation"]
    found: Attributes = {
        "action.id": entry["action_id"],
        "workflow.run_id": entry["workflow_run_id"],
        "tool.name": entry["tool_contract"]["name"],
        "tool.version": entry["tool_contract"]["version"],
        "verification.policy_version": policies["verification_policy_version"],
        "recovery.policy_version": policies["recovery_policy_version"],
        "side_effect_class": entry["side_effect_class"],
        "idempotency.key_hash": (entry.get("idempotency") or {}).get("key_hash") or "",
        "approval.id": (entry.get("approval") or {}).get("approval_id") or "",
        "reconciliation.status": reconciliation["status"],
        "discrepancy.class": reconciliation["discrepancy_class"] or "",
        "ledger.entry_id": str(step.id),
        "tenant.id": entry["tenant_id"],
        "approval.policy_version": policies["approval_policy_version"],
        "autonomy_boundary.version": policies["autonomy_boundary_version"],
        "trust.level": trust_ladder(entry, sealed=False, contradicted=contradicted).level,
    }
    return found


def ended_spans(trace: ActionTrace, seqs: Iterable[int]) -> tuple[Span, ...]:
    """Return the spans of a trace that these events ended, which may be exported once they are on record."""
    wanted = frozenset(seqs)
    return tuple(span for span in trace.spans if span.ended_by in wanted)


def report_spans(trace: ActionTrace, *, after: datetime, until: datetime) -> tuple[Span, ...]:
    """Return the reports of a trace that were given in a period, without its beginning."""
    return tuple(span for span in trace.spans if span.stage is Stage.REPORT and after < span.start <= until)
