"""The search terms: stored up to a cursor, and recomputable at any time with the same result.

Under another key of the installation the terms are others: then the record is read again from its beginning. An
action whose record has moved on gets its terms anew, all of them in one transaction with the cursor: after a crash
both are as before, and the next tick does it again. Events become visible at commit but are stamped before it, so those
of the last minute before the cursor are looked at again.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from approvals.voting.queries import votes
from console.actions.action_record import payloads_of
from console.models import SearchCursor
from console.search import rules
from ledger import keystore
from ledger.actions.queries import actions
from ledger.catalogue.rules.money import to_decimal
from ledger.db import execute
from ledger.log.queries import log as logs
from ledger.people.rules.statements import confirmation_code
from ledger.record.queries import events
from reviews.guarding import queries as guarding

AT_A_TIME: Final = 1_000
LOOK_BACK: Final = timedelta(seconds=60)
_BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)


def update_search(*, tenant_id: UUID) -> int:
    """Index a portion of new events; return the number of actions read, 0 when all are indexed.

    Nothing while another worker is at it. Inside `tenancy`.
    """
    SearchCursor.objects.get_or_create(tenant_id=tenant_id, defaults={"read_to": _BEGINNING})
    cursor = SearchCursor.objects.filter(tenant_id=tenant_id).select_for_update(skip_locked=True).first()
    if cursor is None:
        return 0
    if cursor.key_name != (name := keystore.key_name()):
        if cursor.key_name or keystore.has_former_keys():
            cursor.read_to = _BEGINNING
        SearchCursor.objects.filter(tenant_id=tenant_id).update(key_name=name, read_to=cursor.read_to)
    logged = logs.logged_events(tenant_id)
    fresh, reached = events.changed_actions(tenant_id, after=cursor.read_to, limit=AT_A_TIME)
    if not fresh and cursor.seen == logged:
        return 0
    late, _ = events.changed_actions(tenant_id, after=cursor.read_to - LOOK_BACK, until=cursor.read_to)
    _store_terms(tenant_id, list(fresh | late))
    seen = None if fresh else logged
    SearchCursor.objects.filter(tenant_id=tenant_id).update(read_to=reached or cursor.read_to, seen=seen)
    return len(fresh)


def is_indexed(*, tenant_id: UUID) -> bool:
    """Return whether the terms of all that is on record are under the key in use. Inside `tenancy`."""
    cursor = SearchCursor.objects.filter(tenant_id=tenant_id).first()
    read_to = cursor.read_to if cursor is not None else _BEGINNING
    if cursor is not None and cursor.key_name != keystore.key_name():
        return False
    return not events.changed_actions(tenant_id, after=read_to, limit=1)[0]


def _store_terms(tenant_id: UUID, ids: list[UUID]) -> None:
    found = list(actions.actions_by_id(tenant_id, ids).values())
    payloads, confirmations = payloads_of(tenant_id, found), guarding.confirmations_of(tenant_id, found)
    voted = votes.votes_by_approval(tenant_id, [each.approval_id for each in found if each.approval_id is not None])
    key = keystore.key_encryption_key()
    rows: list[tuple[UUID, int, str]] = []
    for action in found:
        payload = payloads.get(action.id, {})
        currency = payload.get("currency")
        said = [vote.statement for vote in voted.get(action.approval_id, ())] if action.approval_id else []
        terms = rules.terms_of(
            tenant_id=tenant_id,
            key=key,
            payload_hash=action.payload_hash,
            amount=to_decimal(payload.get("amount"), currency),
            currency=currency if isinstance(currency, str) else "",
            codes=[confirmations.get(action.id, ""), *(confirmation_code(bytes(each)) for each in said if each)],
        )
        rows += [(action.id, number, term) for number, term in enumerate(terms)]
    _write_differences(tenant_id, ids, set(rows))


def _write_differences(tenant_id: UUID, ids: list[UUID], wanted: set[tuple[UUID, int, str]]) -> None:
    """Bring the stored terms of these actions to the wanted ones; most events change none."""
    stored = set(
        execute(
            "SELECT action_id, number, term FROM console_searchterm WHERE tenant_id = $1 AND action_id = ANY($2)",
            *(tenant_id, ids),
        )
    )
    if gone := stored - wanted:
        execute(
            "DELETE FROM console_searchterm WHERE tenant_id = $1"
            " AND (action_id, number) IN (SELECT * FROM unnest($2::uuid[], $3::smallint[]))",
            *(tenant_id, *([row[place] for row in gone] for place in (0, 1))),
        )
    if new := wanted - stored:
        execute(
            "INSERT INTO console_searchterm (tenant_id, action_id, number, term)"
            " SELECT $1, * FROM unnest($2::uuid[], $3::smallint[], $4::text[])",
            *(tenant_id, *([row[place] for row in new] for place in (0, 1, 2))),
        )
