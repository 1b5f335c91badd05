"""Threads of approvals: comments, questions to the agent and its answers. They are added and never changed.

A thread decides nothing: only votes let an action run. A question stops the clock of its approval as far as the policy
allows, so the clock is settled in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from approvals.models import Comment
from approvals.requests.operations import clocks
from approvals.requests.operations.assignment import lock_open_approval
from approvals.requests.operations.requests import lock_approval
from approvals.requests.queries import approvals
from approvals.requests.rules import threads
from approvals.voting.queries import votes
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound


def add_comment(
    *, tenant_id: UUID, approval_id: UUID, text: str, known: Mapping[str, UUID], by: ledger.Actor, at: datetime
) -> Comment:
    """Add a comment to the thread; `known` are the names by which the tenant's members can be mentioned."""
    text = threads.check_text(text)
    head = lock_approval(tenant_id, approval_id)
    row = _add_comment(head, "comment", text, by, mentions=threads.find_mentions(text, known), at=at)
    _record_comment(head, row, by, at=at)
    return row


def ask_question(
    *, tenant_id: UUID, approval_id: UUID, text: str, known: Mapping[str, UUID], by: ledger.Actor, at: datetime
) -> Comment:
    """Ask the agent a question before deciding; it is delivered with its action and its session."""
    text = threads.check_text(text)
    head, approval = lock_open_approval(tenant_id, approval_id)
    if len(threads.open_questions(votes.thread_lines(tenant_id, approval_id))) >= threads.MOST_OPEN:
        raise threads.TooManyQuestions
    row = _add_comment(head, "question", text, by, mentions=threads.find_mentions(text, known), at=at)
    clocks.settle_clock(_record_comment(head, row, by, at=at), approval, at=at)
    return row


def answer_question(
    *, tenant_id: UUID, action_id: UUID, question_id: UUID, text: str, by: ledger.Actor, at: datetime
) -> Comment:
    """Add the agent's answer to a question. It is kept, shown as the agent's words, and proves nothing (8.18)."""
    text = threads.check_text(text, longest=threads.LONGEST_ANSWER)
    asked = votes.thread_line(tenant_id, question_id)
    about = approvals.approval(tenant_id, asked.approval_id) if asked is not None else None
    if asked is None or asked.kind != "question" or about is None or about.action_id != action_id:
        raise NotFound("Question")
    head, approval = lock_open_approval(tenant_id, asked.approval_id)
    try:
        with transaction.atomic():
            row = _add_comment(head, "answer", text, by, answers=question_id, at=at)
    except IntegrityError:
        raise threads.AlreadyAnswered from None
    clocks.settle_clock(_record_comment(head, row, by, at=at), approval, at=at)
    return row


def _add_comment(
    head: ledger.SubjectHead,
    kind: str,
    text: str,
    by: ledger.Actor,
    *,
    mentions: list[UUID] | None = None,
    answers: UUID | None = None,
    at: datetime,
) -> Comment:
    return Comment.objects.create(
        tenant_id=head.tenant_id,
        id=ledger.new_id(at),
        approval_id=head.id,
        author=by.id,
        author_kind="agent" if by.kind == "agent" else "person",
        kind=kind,
        text=text,
        mentions=[str(actor) for actor in mentions or ()],
        answers=answers,
        at=at,
    )


def _record_comment(head: ledger.SubjectHead, row: Comment, by: ledger.Actor, *, at: datetime) -> ledger.SubjectHead:
    """Record a comment with its text, and a further event for the people that it mentions."""
    kind = {"comment": "commented", "question": "question_asked", "answer": "question_answered"}[row.kind]
    detail = {"comment_id": str(row.id), "text": row.text} | ({"question_id": str(row.answers)} if row.answers else {})
    head = ledger.append(head, ledger.NewEvent(kind=kind, detail=detail), actor=by, at=at)
    if row.mentions:
        mentioned = {"comment_id": str(row.id), "actors": list(row.mentions)}
        head = ledger.append(head, ledger.NewEvent(kind="mentioned", detail=mentioned), actor=by, at=at)
    return head
