"""Reads of notices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count

from console.models import Message, Notice, NoticeSettings, NoticeWish, PushDevice
from console.notifications.routing import MailPreferences, NotificationSettings, QuietHours, parse_settings


def notices_of_alarms(tenant_id: UUID, alarms: Iterable[UUID]) -> dict[UUID, list[Notice]]:
    """The notices by which people outside were alerted to these alarms."""
    found: dict[UUID, list[Notice]] = {}
    for row in Notice.objects.filter(tenant_id=tenant_id, about_id__in=list(alarms)).order_by("channel"):
        found.setdefault(row.about_id, []).append(row)
    return found


def tenant_settings(tenant_id: UUID) -> NotificationSettings:
    """The notification settings of a tenant, or the defaults."""
    row = NoticeSettings.objects.filter(tenant_id=tenant_id).first()
    return parse_settings(row.document) if row is not None else NotificationSettings()


def all_mail_preferences(tenant_id: UUID) -> dict[UUID, MailPreferences]:
    """Return the mail preferences of everybody who has set any."""
    return {row.actor_id: _wish(row) for row in NoticeWish.objects.filter(tenant_id=tenant_id)}


def mail_preferences(tenant_id: UUID, actor_id: UUID) -> MailPreferences:
    row = NoticeWish.objects.filter(tenant_id=tenant_id, actor_id=actor_id).first()
    return _wish(row) if row is not None else MailPreferences()


def _wish(row: NoticeWish) -> MailPreferences:
    quiet = QuietHours(row.quiet_from, row.quiet_until, row.zone) if row.quiet_from and row.quiet_until else None
    return MailPreferences(email=row.email, digest_min=row.digest_min, quiet=quiet, urgent_passes=row.urgent_passes)


def push_devices(tenant_id: UUID, actor_id: UUID) -> list[PushDevice]:
    """The devices that a person wants woken, in the order in which they were added."""
    return list(PushDevice.objects.filter(tenant_id=tenant_id, actor_id=actor_id).order_by("added_at", "id"))


def is_posted(tenant_id: UUID, about: UUID) -> bool:
    """Return whether a room shows a message about this that can be updated."""
    posted = Notice.objects.filter(tenant_id=tenant_id, lines__contains=[{"about": str(about)}])
    return posted.exclude(posted="").exists()


def posted_notices(tenant_id: UUID, *, limit: int = 500) -> list[Notice]:
    """Messages in rooms in which something waited when they were written last, oldest first."""
    found = Notice.objects.filter(tenant_id=tenant_id, sent_at__isnull=False, waiting__gt=0)
    return list(found.exclude(posted="").order_by("id")[:limit])


def due_beside(notice: Notice, *, at: datetime) -> list[UUID]:
    """The other notices that are due to the same person by the same channel."""
    found = Notice.objects.filter(tenant_id=notice.tenant_id, actor_id=notice.actor_id, channel=notice.channel)
    due = found.filter(sent_at__isnull=True, given_up_at__isnull=True, due_at__lte=at).exclude(id=notice.id)
    return list(due.values_list("id", flat=True))


def actors_with_devices(tenant_id: UUID) -> set[UUID]:
    return set(PushDevice.objects.filter(tenant_id=tenant_id).values_list("actor_id", flat=True))


def count_recent(tenant_id: UUID, channel: str, *, since: datetime) -> dict[UUID | None, int]:
    """Count the single messages that each person, and the shared channel, got since a time."""
    found = Notice.objects.filter(tenant_id=tenant_id, channel=channel, topic="approval", raised_at__gte=since)
    counted = found.exclude(kind="digest").values("actor_id").annotate(many=Count("id"))
    return dict(counted.values_list("actor_id", "many"))


def messages(
    tenant_id: UUID, actor_id: UUID, *, unread: bool = False, after: UUID | None = None, limit: int = 50
) -> list[Message]:
    """A person's messages, newest first, behind the row `after`."""
    found = Message.objects.filter(tenant_id=tenant_id, actor_id=actor_id)
    if unread:
        found = found.filter(read_at__isnull=True)
    return list((found.filter(id__lt=after) if after else found).order_by("-id")[:limit])


def count_unread(tenant_id: UUID, actor_id: UUID, *, most: int = 100) -> int:
    """Count a person's unread messages, up to `most`."""
    unread = Message.objects.filter(tenant_id=tenant_id, actor_id=actor_id, read_at__isnull=True)
    return len(unread.values_list("id", flat=True)[:most])


def already_notified(tenant_id: UUID, subjects: Iterable[UUID], kind: str) -> set[UUID]:
    """The subjects for which a notification on this occasion exists."""
    found = Message.objects.filter(tenant_id=tenant_id, about_id__in=list(subjects), kind=kind)
    return set(found.values_list("about_id", flat=True))


def undelivered_notices(tenant_id: UUID, *, after: UUID | None = None, limit: int = 50) -> list[Notice]:
    """Messages that were given up, newest first, behind the row `after`."""
    found = Notice.objects.filter(tenant_id=tenant_id, given_up_at__isnull=False)
    return list((found.filter(id__lt=after) if after else found).order_by("-id")[:limit])


def delivery_status(tenant_id: UUID, *, at: datetime, late: timedelta = timedelta(minutes=5)) -> dict[str, int]:
    """The status of delivery: the messages given up, and those retried for longer than `late`."""
    found = Notice.objects.filter(tenant_id=tenant_id)
    trying = found.filter(sent_at__isnull=True, given_up_at__isnull=True, attempts__gt=0, raised_at__lt=at - late)
    return {"undelivered": found.filter(given_up_at__isnull=False)[:100].count(), "late": trying[:100].count()}
