"""Reads about recordings that were imported: the list, one of them, its conversations, and their messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from console.models import RecordedConversation, RecordedMessage, Recording
from console.recordings import search_words as words
from ledger.db import execute, page_in_order
from ledger.record.rules.ids import lower_bound

LITERALLY: Final = str.maketrans({sign: f"\\{sign}" for sign in "\\%_"})
OPENING: Final = 10
LOOKED_THROUGH: Final = 500
"""So many messages of a conversation are looked through for the one that its row in a list shows."""
EACH: Final = "EACH"
BLOCKED: Final = Q(false_claims__gt=0)
PLACES: Final = (
    "SELECT recording_id, unnest(conversations) FROM console_recordedword"
    " WHERE tenant_id = %s AND word >= %s AND word < %s"
)
PLACES_IN: Final = (
    "SELECT unnest(conversations) FROM console_recordedword"
    " WHERE tenant_id = %s AND word >= %s AND word < %s AND recording_id = %s"
)


@dataclass(frozen=True, kw_only=True)
class RecordingQuery:
    """A query for recordings: by time of import, file name, failures or unsupported claims (None means either), and
    words.
    """

    since: datetime | None = None
    until: datetime | None = None
    file: str = ""
    failures: bool | None = None
    blocked: bool | None = None
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class ConversationQuery:
    """A query for a recording's conversations: by kind or code of a finding, by any finding, and by words."""

    kind: str = ""
    code: str = ""
    findings: bool | None = None
    failures: bool | None = None
    blocked: bool | None = None
    words: str = ""
    gravest_first: bool = True


@dataclass(frozen=True)
class PagePosition:
    """The position at which a list continues: after this conversation."""

    severity: int
    number: int

    def __str__(self) -> str:
        return f"{self.severity}.{self.number}"


@dataclass(frozen=True)
class ConversationPage:
    """A page of conversations. `behind` is the position of the next page."""

    rows: list[RecordedConversation]
    behind: PagePosition | None


def recordings(
    tenant_id: UUID,
    sought: RecordingQuery | None = None,
    *,
    order: str = "-id",
    after: UUID | None = None,
    limit: int,
) -> list[Recording]:
    """The imported recordings, newest first or in the order of a column, behind the row `after`."""
    rows = Recording.objects.filter(_sought(tenant_id, sought or RecordingQuery()))
    return page_in_order(rows, order, behind=after, limit=limit)


def find_recording(tenant_id: UUID, recording_id: UUID) -> Recording | None:
    """One import."""
    return Recording.objects.filter(tenant_id=tenant_id, id=recording_id).first()


def recording_with_digest(tenant_id: UUID, digest: str) -> Recording | None:
    """The import of a file of exactly these bytes, unless it was erased."""
    return Recording.objects.filter(tenant_id=tenant_id, digest=digest).first()


def expired_recordings(tenant_id: UUID, *, before: datetime, limit: int) -> list[UUID]:
    """Return recordings that were imported before a time and not erased, oldest first."""
    rows = Recording.objects.filter(tenant_id=tenant_id, id__lt=lower_bound(before)).exclude(digest="")
    return list(rows.order_by("id").values_list("id", flat=True)[:limit])


def conversation(tenant_id: UUID, recording_id: UUID, number: int) -> RecordedConversation | None:
    """One conversation of a recording."""
    return RecordedConversation.objects.filter(tenant_id=tenant_id, recording_id=recording_id, number=number).first()


def conversations(
    tenant_id: UUID, recording_id: UUID, wanted: ConversationQuery, *, behind: PagePosition | None = None, limit: int
) -> ConversationPage:
    """The matching conversations, one page."""
    rows = RecordedConversation.objects.filter(_narrow(tenant_id, recording_id, wanted))
    if behind is not None:
        rows = rows.filter(_after_place(behind, wanted))
    order = ("-severity", "number") if wanted.gravest_first else ("number",)
    found = list(rows.order_by(*order)[: limit + 1])
    return ConversationPage(found[:limit], _place(found[limit - 1]) if len(found) > limit else None)


def representative_messages(
    tenant_id: UUID, recording_id: UUID, numbers: list[int], text: str = ""
) -> dict[int, tuple[int, str]]:
    """By conversation, the message to show in a list: the first with a word of `text`, else the user's first."""
    asked = [f"%{word.translate(LITERALLY)}%" for word in words.query_words(text)]
    rows = execute(
        "SELECT c.number, m.number, m.text FROM unnest($3::integer[]) c (number) CROSS JOIN LATERAL ("
        " SELECT number, text FROM console_recordedmessage WHERE tenant_id = $1 AND recording_id = $2"
        " AND conversation = c.number AND number < $4 AND text <> ''"
        " AND (text ILIKE ANY($5::text[]) OR (cardinality($5::text[]) = 0 AND role = 'user'))"
        " ORDER BY number LIMIT 1) m",
        *(tenant_id, recording_id, numbers, LOOKED_THROUGH if asked else OPENING, asked),
    )
    return {number: (turn, said) for number, turn, said in rows}


def messages(
    tenant_id: UUID, recording_id: UUID, conversation: int, *, since: int = 0, limit: int
) -> list[RecordedMessage]:
    """The messages of a conversation from one on."""
    here = _messages(tenant_id, recording_id, conversation).filter(number__gte=since)
    return list(here.order_by("number")[:limit])


def count_categories(tenant_id: UUID, recording_id: UUID, conversation: int) -> dict[str, int]:
    """Count the calls of a conversation by category."""
    rows = execute(
        "SELECT call ->> 'category', count(*) FROM console_recordedmessage m, jsonb_array_elements(m.calls) call"
        " WHERE m.tenant_id = $1 AND m.recording_id = $2 AND m.conversation = $3 GROUP BY 1 ORDER BY 1",
        *(tenant_id, recording_id, conversation),
    )
    return dict(rows)


def previous_page_start(
    tenant_id: UUID, recording_id: UUID, conversation: int, *, since: int, limit: int
) -> int | None:
    """The first message of the page before this one; None if this is the first."""
    here = _messages(tenant_id, recording_id, conversation).filter(number__lt=since)
    numbers = list(here.order_by("-number").values_list("number", flat=True)[:limit])
    return numbers[-1] if numbers else None


def _messages(tenant_id: UUID, recording_id: UUID, conversation: int) -> QuerySet[RecordedMessage]:
    return RecordedMessage.objects.filter(tenant_id=tenant_id, recording_id=recording_id, conversation=conversation)


def _sought(tenant_id: UUID, sought: RecordingQuery) -> Q:
    narrowed = Q(tenant_id=tenant_id) & _either(BLOCKED, sought.blocked)
    if sought.failures is not None:
        # What was counted is there; of an erased recording nothing is known.
        failed = Q(totals__categories__has_key="valid_execution_failed")
        narrowed &= ~Q(digest="") & _either(failed, sought.failures)
    if sought.since is not None:
        narrowed &= Q(id__gte=lower_bound(sought.since))
    if sought.until is not None:
        narrowed &= Q(id__lt=lower_bound(sought.until))
    if sought.file:
        narrowed &= Q(file_name__icontains=sought.file)
    return narrowed & _saying(tenant_id, sought.words) if sought.words else narrowed


def _narrow(tenant_id: UUID, recording_id: UUID, wanted: ConversationQuery) -> Q:
    narrowed = Q(tenant_id=tenant_id, recording_id=recording_id)
    for given, asked in (
        (wanted.kind, Q(kinds__contains=[wanted.kind])),
        (wanted.code, Q(codes__contains=[wanted.code])),
        (wanted.words, _saying_in(tenant_id, recording_id, wanted.words)),
    ):
        if given:
            narrowed &= asked
    narrowed &= _either(Q(severity__gt=0), wanted.findings) & _either(BLOCKED, wanted.blocked)
    return narrowed & _either(Q(kinds__contains=["valid_execution_failed"]), wanted.failures)


def _either(condition: Q, asked: bool | None) -> Q:
    """Return the condition or its opposite; neither if the filter is not set."""
    return Q() if asked is None else condition if asked else ~condition


def _saying(tenant_id: UUID, text: str) -> Q:
    """Recordings with a conversation that contains every word."""
    asked = [(tenant_id, *words.prefix_range(word)) for word in words.query_words(text)]
    return Q(id__in=_found_by_all(PLACES, asked, f"SELECT recording_id FROM ({EACH}) found") if asked else [])


def _saying_in(tenant_id: UUID, recording_id: UUID, text: str) -> Q:
    """Conversations of a recording that contain every word."""
    asked = [(tenant_id, *words.prefix_range(word), recording_id) for word in words.query_words(text)]
    return Q(number__in=_found_by_all(PLACES_IN, asked, EACH) if asked else [])


def _found_by_all(one: str, asked: list[tuple[Any, ...]], around: str) -> RawSQL:
    """The rows found by every word: one pass over the positions of each word, not one search per conversation."""
    each = " INTERSECT ".join([one] * len(asked))
    return RawSQL(around.replace(EACH, each), [value for values in asked for value in values])


def _after_place(place: PagePosition, wanted: ConversationQuery) -> Q:
    if not wanted.gravest_first:
        return Q(number__gt=place.number)
    return Q(severity__lt=place.severity) | Q(severity=place.severity, number__gt=place.number)


def _place(row: RecordedConversation) -> PagePosition:
    return PagePosition(row.severity, row.number)
