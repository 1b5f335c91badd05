"""Threads of cases and incidents. Comments are added and never changed."""

from __future__ import annotations

from datetime import datetime

from ledger.record import operations as ledger
from reviews.models import Comment


def add_comment(head: ledger.SubjectHead, text: str, by: ledger.Actor, *, at: datetime) -> Comment:
    """Add a comment to the thread of a locked subject."""
    row = Comment.objects.create(
        tenant_id=head.tenant_id, id=ledger.new_id(at), subject_id=head.id, author=by.id, text=text, at=at
    )
    ledger.append(head, ledger.NewEvent(kind="commented", detail={"comment_id": str(row.id)}), actor=by, at=at)
    return row
