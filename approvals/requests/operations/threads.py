"""What is said about an approval: comments, questions to the agent, and its answers. Lines are added and never changed.

Talking decides nothing: whatever is said here, only votes let an action run. A question stops the clock of its approval
as far as the policy allows, so it is settled in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from approvals.models import Approval, Comment
from approvals.requests.operations import clocks
from approvals.requests.operations.requests import lock_approval
from approvals.requests.queries import approvals
from approvals.requests.rules import assignments, threads
from approvals.voting.queries import votes
from ledger.record import operations as ledger


def add_comment(
    *, tenant_id: UUID, approval_id: UUID, text: str, known: Mapping[str, UUID], by: ledger.Actor, at: datetime
) -> Comment:
    """Add a line to the thread; `known` are the names by which the tenant's members can be mentioned."""
    said = threads.check_text(text)
    head = lock_approval(tenant_id, approval_id)
    row = _line(head, "comment", said, by, mentions=threads.find_mentions(said, known), at=at)
    _note(head, row, by, at=at)
    return row


def ask_question(
    *, tenant_id: UUID, approval_id: UUID, text: str, known: Mapping[str, UUID], by: ledger.Actor, at: datetime
) -> Comment:
    """Ask the agent something before deciding; it reads it with its action and its session."""
    said = threads.check_text(text)
    head, approval = _open(tenant_id, approval_id)
    if len(threads.open_questions(votes.thread_lines(tenant_id, approval_id))) >= threads.MOST_OPEN:
        raise threads.TooManyQuestions
    row = _line(head, "question", said, by, mentions=threads.find_mentions(said, known), at=at)
    clocks.settle_clock(_note(head, row, by, at=at), approval, at=at)
    return row


def answer_question(
    *, tenant_id: UUID, action_id: UUID, question_id: UUID, text: str, by: ledger.Actor, at: datetime
) -> Comment:
    """The agent's own words to one question. They are kept, shown as what they are, and prove nothing (8.18)."""
    said = threads.check_text(text, longest=threads.LONGEST_ANSWER)
    asked = votes.thread_line(tenant_id, question_id)
    about = approvals.approval(tenant_id, asked.approval_id) if asked is not None else None
    if asked is None or asked.kind != "question" or about is None or about.action_id != action_id:
        raise threads.NoSuchQuestion
    head, approval = _open(tenant_id, asked.approval_id)
    try:
        with transaction.atomic():
            row = _line(head, "answer", said, by, answers=question_id, at=at)
    except IntegrityError:
        raise threads.AlreadyAnswered from None
    clocks.settle_clock(_note(head, row, by, at=at), approval, at=at)
    return row


def _open(tenant_id: UUID, approval_id: UUID) -> tuple[ledger.SubjectHead, Approval]:
    head = lock_approval(tenant_id, approval_id)
    if head.state not in ("PREPARING", "REQUESTED"):
        raise assignments.NotOpen
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    return head, approval


def _line(
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


def _note(head: ledger.SubjectHead, row: Comment, by: ledger.Actor, *, at: datetime) -> ledger.SubjectHead:
    """The line on record, with its words; and a word of its own for those whom it mentions."""
    kind = {"comment": "commented", "question": "question_asked", "answer": "question_answered"}[row.kind]
    detail = {"comment_id": str(row.id), "text": row.text} | ({"question_id": str(row.answers)} if row.answers else {})
    head = ledger.append(head, ledger.NewEvent(kind=kind, detail=detail), actor=by, at=at)
    if row.mentions:
        told = {"comment_id": str(row.id), "actors": list(row.mentions)}
        head = ledger.append(head, ledger.NewEvent(kind="mentioned", detail=told), actor=by, at=at)
    return head
