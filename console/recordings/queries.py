"""Reads about recordings that were imported: the list, one of them, its conversations, and their messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from console.models import RecordedConversation, RecordedMessage, Recording

WINDOW: Final = 500
"""So many conversations one search looks into; where more follow, the page says so and goes on from there."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which conversations of a recording: with a finding of some kind or code, with any, holding some words."""

    kind: str = ""
    code: str = ""
    findings: bool = False
    words: str = ""
    gravest_first: bool = True


@dataclass(frozen=True)
class Place:
    """Where a list goes on: behind this conversation."""

    severity: int
    number: int


@dataclass(frozen=True)
class Found:
    """A page of conversations. `behind` is where the next begins; `searched` how many a search looked into."""

    rows: list[RecordedConversation]
    behind: Place | None
    searched: int = 0


def recordings(tenant_id: UUID, *, before: UUID | None = None, limit: int) -> list[Recording]:
    """What was imported, newest first, behind the row `before`."""
    wanted = Recording.objects.filter(tenant_id=tenant_id)
    return list((wanted.filter(id__lt=before) if before else wanted).order_by("-id")[:limit])


def recording(tenant_id: UUID, recording_id: UUID) -> Recording | None:
    """One import."""
    return Recording.objects.filter(tenant_id=tenant_id, id=recording_id).first()


def with_digest(tenant_id: UUID, digest: str) -> Recording | None:
    """The import of a file of exactly these bytes, unless it was erased."""
    return Recording.objects.filter(tenant_id=tenant_id, digest=digest).first()


def conversation(tenant_id: UUID, recording_id: UUID, number: int) -> RecordedConversation | None:
    """One conversation of a recording."""
    return RecordedConversation.objects.filter(tenant_id=tenant_id, recording_id=recording_id, number=number).first()


def conversations(
    tenant_id: UUID, recording_id: UUID, wanted: Wanted, *, behind: Place | None = None, limit: int
) -> Found:
    """The conversations that are wanted, a page of them.

    Words are looked for in the messages of a bounded number of conversations, since no index can stand behind a fence
    between tenants for that: a page may be short and still have more behind it.
    """
    rows = RecordedConversation.objects.filter(_narrowed(tenant_id, recording_id, wanted))
    if behind is not None:
        rows = rows.filter(_behind(behind, wanted))
    order = ("-severity", "number") if wanted.gravest_first else ("number",)
    looked_at = list(rows.order_by(*order)[: WINDOW if wanted.words else limit + 1])
    if not wanted.words:
        more = len(looked_at) > limit
        return Found(looked_at[:limit], _place(looked_at[limit - 1]) if more else None)
    hits = _saying(tenant_id, recording_id, [row.number for row in looked_at], wanted.words)
    found = [row for row in looked_at if row.number in hits or wanted.words.lower() in row.label.lower()]
    if len(found) > limit:
        searched = looked_at.index(found[limit - 1]) + 1
        return Found(found[:limit], _place(found[limit - 1]), searched)
    return Found(found, _place(looked_at[-1]) if len(looked_at) == WINDOW else None, len(looked_at))


def messages(
    tenant_id: UUID, recording_id: UUID, conversation: int, *, since: int = 0, limit: int
) -> list[RecordedMessage]:
    """The messages of a conversation from one on."""
    here = _messages(tenant_id, recording_id, conversation).filter(number__gte=since)
    return list(here.order_by("number")[:limit])


def before(tenant_id: UUID, recording_id: UUID, conversation: int, *, since: int, limit: int) -> int | None:
    """Where the page of messages before this one begins; None where this one is the first."""
    here = _messages(tenant_id, recording_id, conversation).filter(number__lt=since)
    numbers = list(here.order_by("-number").values_list("number", flat=True)[:limit])
    return numbers[-1] if numbers else None


def _messages(tenant_id: UUID, recording_id: UUID, conversation: int) -> QuerySet[RecordedMessage]:
    return RecordedMessage.objects.filter(tenant_id=tenant_id, recording_id=recording_id, conversation=conversation)


def _narrowed(tenant_id: UUID, recording_id: UUID, wanted: Wanted) -> Q:
    narrowed = Q(tenant_id=tenant_id, recording_id=recording_id)
    for given, asked in (
        (wanted.kind, Q(kinds__contains=[wanted.kind])),
        (wanted.code, Q(codes__contains=[wanted.code])),
        (wanted.findings, Q(severity__gt=0)),
    ):
        if given:
            narrowed &= asked
    return narrowed


def _behind(place: Place, wanted: Wanted) -> Q:
    if not wanted.gravest_first:
        return Q(number__gt=place.number)
    return Q(severity__lt=place.severity) | Q(severity=place.severity, number__gt=place.number)


def _place(row: RecordedConversation) -> Place:
    return Place(row.severity, row.number)


def _saying(tenant_id: UUID, recording_id: UUID, numbers: list[int], words: str) -> set[int]:
    """The conversations among these in which somebody says this."""
    saying = RecordedMessage.objects.filter(
        tenant_id=tenant_id, recording_id=recording_id, conversation__in=numbers, text__icontains=words
    )
    return set(saying.values_list("conversation", flat=True).distinct())
