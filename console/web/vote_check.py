"""The votes of an approval held to the record: what a page shows as a vote is what the vote's own event says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from ledger import register
from ledger.record.queries import events
from ledger.record.rules import envelope
from ledger.verification.rules.rebuilding import Row, VerifiedEvent


def find_vote_mismatch(tenant_id: UUID, approval_id: UUID, votes: Iterable[Any]) -> str:
    """What of these stored votes is not as their events say, in a sentence; empty where nothing is.

    `verify_ledger` compares the same columns of every tenant, and the events themselves with the log. A reader of this
    page learns at once that somebody wrote into the table.
    """
    table = next(each for each in register.tables_of("approval") if each.model == "approvals.Vote")
    expected: dict[Any, Row] = {}
    for event, entry, detail in events.history(tenant_id, approval_id):
        read = envelope.parse(bytes(event.envelope))
        table.take(expected, VerifiedEvent(envelope=read, detail=detail, entry=entry))
    stored = [
        {column.attname: getattr(vote, column.attname) for column in vote._meta.concrete_fields} for vote in votes
    ]
    return table.fault(expected, stored) or ""
