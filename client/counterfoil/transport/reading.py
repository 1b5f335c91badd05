"""Reads the console's answers into dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from counterfoil import answers
from counterfoil.answers import Json

T = TypeVar("T")


def read_session(answer: Json) -> answers.OpenedSession:
    """The answer to a handshake."""
    contract, pin = answer.get("contract") or {}, answer.get("pin") or {}
    return answers.OpenedSession(
        session_id=answer["session_id"],
        run_id=answer.get("workflow_run_id") or answer["session_id"],
        contract=answers.Contract(
            tools=_each(read_tool, contract.get("tools")),
            sub_tools_disclosed=tuple(contract.get("sub_tools_disclosed") or ()),
            registry_version=contract.get("registry_version") or "",
            registry_fingerprint=contract.get("registry_fingerprint") or "",
        ),
        pin=answers.Pin(pin.get("hash"), pin.get("expires_at")),
    )


def read_tool(item: Json) -> answers.Tool:
    """One disclosed tool."""
    return answers.Tool(
        name=item["name"],
        version=item.get("version") or "",
        description=item.get("description") or "",
        arguments_schema=item.get("arguments_schema") or {"type": "object"},
        wrapper_version=item.get("wrapper_version") or "",
        side_effect_class=item.get("side_effect_class") or "",
    )


def read_session_state(answer: Json) -> answers.SessionState:
    """A session with its counts."""
    return answers.SessionState(
        session_id=answer["session_id"],
        calls_accepted=answer.get("calls_accepted") or 0,
        calls_refused=answer.get("calls_refused") or 0,
        acceptance_rate=answer.get("acceptance_rate"),
        closed=bool(answer.get("closed")),
        questions=_each(read_question, answer.get("questions")),
        raw=answer,
    )


def read_question(item: Json) -> answers.Question:
    """One question to the agent."""
    return answers.Question(item["question_id"], item["action_id"], item["text"], item.get("at") or "")


def read_ask_check(answer: Json) -> answers.AskCheck:
    """Read the comparison of a restated goal."""
    return answers.AskCheck(bool(answer["match"]), answer.get("reason"))


def read_call_results(answer: Json) -> answers.CallResults:
    """The answers to a batch."""
    told = answer.get("summary")
    return answers.CallResults(
        results=_each(read_call_result, answer["results"]),
        nudge=answer.get("nudge") or "",
        next=_nudge(answer.get("next")),
        summary=read_summary(told) if told else None,
    )


def read_call_result(item: Json) -> answers.CallResult:
    """The answer to one call of a batch."""
    error = (item.get("result") or {}).get("error") or {}
    return answers.CallResult(
        call_id=item["call_id"],
        accepted=bool(item["accepted"]),
        action_id=item.get("action_id"),
        state=item.get("state"),
        code=error.get("code"),
        message=error.get("message"),
        hint=item.get("hint"),
        suggestion=item.get("suggestion"),
        errors=tuple(item.get("errors") or ()),
        approval=item.get("approval") or {},
        user_status=item.get("user_status") or {},
        raw=item,
    )


def read_decision(request: Json, answer: Json) -> answers.Decision:
    """The answer to one call of a gateway, which was asked about by this request."""
    return answers.Decision(
        decision=answer["decision"],
        decision_id=answer.get("decision_id"),
        call_id=answer["call_id"],
        code=answer.get("code"),
        reason=answer.get("reason") or "",
        waiting_for=tuple(answer.get("waiting_for") or ()),
        errors=tuple(answer.get("errors") or ()),
        request=request,
        raw=answer,
    )


def read_first_result(answer: Json) -> answers.CallResult:
    """The answer to a batch of one."""
    return read_call_results(answer).results[0]


def read_status(answer: Json) -> answers.Status:
    """Read the status of an action."""
    approval = answer.get("approval")
    return answers.Status(
        action_id=answer["action_id"],
        state=answer["state"],
        tool=answer.get("tool") or "",
        target=answer.get("target") or "",
        contradicted=bool(answer.get("contradicted")),
        approval=read_verdict(approval) if approval else None,
        questions=_each(read_question, answer.get("questions")),
        supersedes=answer.get("supersedes"),
        user_status=answer.get("user_status") or {},
        raw=answer,
    )


def read_verdict(item: Json) -> answers.Verdict:
    """Read the verdict on a request to people."""
    return answers.Verdict(
        approval_id=item["approval_id"],
        decision=item["decision"],
        waiting=bool(item["waiting"]),
        reason=item.get("reason"),
        next=_next(item.get("next")) or answers.NextStep("", ""),
        superseded_by=item.get("superseded_by"),
        more=item.get("more") or {},
        decide_by=item.get("decide_by"),
        release_by=item.get("release_by"),
    )


def read_report(answer: Json) -> answers.Report:
    """Read a report."""
    return answers.Report(
        answer["state"], answer["code"], answer["text"], bool(answer["completed"]), answer.get("trust_level")
    )


def read_verification(answer: Json) -> answers.Verification:
    """Read how a claim stands."""
    return answers.Verification(
        claim_id=answer["claim_id"],
        state=answer["state"],
        outcome=answer["outcome"],
        # Nothing but a plain yes is one.
        safe_to_claim=answer["safe_to_claim"] is True,
        sentence=answer["sentence"],
        reading=answer.get("reading"),
        not_known=tuple(answer["not_known"]),
        receipt=answer.get("receipt"),
        raw=answer,
    )


def read_observed(action_id: str, answer: Json) -> answers.Observed:
    """The answer to an observation that requested the report."""
    return answers.Observed(
        read_status({"action_id": action_id, "state": answer["state"], "approval": answer.get("approval")}),
        read_report(answer["report"]),
    )


def read_cancelled(answer: Json) -> answers.CancelledAction:
    """An action that was withdrawn."""
    return answers.CancelledAction(answer["action_id"], answer["state"])


def read_answered(answer: Json) -> answers.RecordedAnswer:
    """An answer on record."""
    return answers.RecordedAnswer(answer["question_id"], answer["line_id"])


def read_context(answer: Json) -> answers.Context:
    """Read the context for a model."""
    return answers.Context(
        text=answer["text"],
        facts=_each(_fact, answer.get("facts")),
        unresolved=_each(_fact, answer.get("unresolved")),
        next=_nudge(answer.get("next")),
        raw=answer,
    )


def read_summary(answer: Json) -> answers.Summary:
    """A session in a few lines."""
    return answers.Summary(tuple(answer["lines"]), answer["text"])


def read_guard_result(answer: Json) -> answers.GuardResult:
    """Read the guard's result for a message."""
    return answers.GuardResult(
        verdict=answer["verdict"],
        violations=_each(_violation, answer.get("violations")),
        corrected=answer.get("corrected"),
        raw=answer,
        receipt=receipt(answer),
    )


def receipt(answer: Json) -> answers.Receipt:
    """The receipt in a verdict, or in the guard's log."""
    told = answer.get("receipt") or {}
    return answers.Receipt(
        lines=_each(_receipt_line, told.get("lines")),
        open=_each(_receipt_line, told.get("open")),
        text=told.get("text") or "",
        markdown=told.get("markdown") or "",
        html=told.get("html") or "",
        notes=tuple(each["text"] for each in told.get("notes") or ()),
    )


def _receipt_line(item: Json) -> answers.ReceiptLine:
    return answers.ReceiptLine(
        item["action_id"], item["tool"], item["target"], item["outcome"], item["text"], item.get("code") or ""
    )


def _fact(item: Json) -> answers.Fact:
    return answers.Fact(
        action_id=item.get("action_id"),
        state=item.get("state"),
        statement=item.get("statement") or "",
        trust_level=item.get("trust_level"),
        tool=item.get("tool") or "",
        target=item.get("target") or "",
        next=_next(item.get("next_behaviour")),
    )


def _next(item: Json | None) -> answers.NextStep | None:
    return answers.NextStep(item["code"], item.get("text") or "") if item else None


def _nudge(item: Json | None) -> answers.NextStep | None:
    return answers.NextStep(item["code"], item.get("text") or "", tuple(item.get("tools") or ())) if item else None


def _violation(item: Json) -> answers.Violation:
    return answers.Violation(
        code=item["code"],
        span=_span(item.get("span")),
        claim=item.get("claim") or "",
        action_id=item.get("action_id"),
        detail=item.get("detail") or "",
    )


def _span(value: Any) -> tuple[int, int] | None:
    return (int(value[0]), int(value[1])) if value else None


def _each(one: Callable[[Json], T], items: Sequence[Json] | None) -> tuple[T, ...]:
    return tuple(one(item) for item in items or ())
