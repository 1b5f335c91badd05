"""Notices: queued once per object and channel, claimed by one worker at a time, retried until they arrive.

A worker that dies between sending and writing that down sends the message twice, under the same id. What the record
says is read up to a durable place and written in one transaction: a lost hint loses nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from console.models import Message, Notice, NoticeCursor, NoticeSettings, NoticeWish, PushDevice
from console.notifications import queries as notifications_queries
from console.notifications.routing import DeliveryRoute, MailPreferences, NotificationSettings, parse_settings
from console.notifications.web_push import PushSender
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound, Refused

# Seconds until the next attempt; the last one is repeated until the message is given up. Up to a quarter is added by
# chance, so that what failed together does not come back together.
PAUSES = (15, 30, 60, 300, 900, 3600)
MOST_ATTEMPTS = 30
NOT_RECORDED = "the worker stopped each time before it recorded the result; it may have arrived"
_JITTER = 0.25
MOST_DEVICES = 6
# Events become visible at commit but are stamped before it; looking back this far finds the late ones.
LOOK_BACK = timedelta(seconds=60)
_NAMES = UUID("6f9c1e0a-41a1-4b0e-9d60-3d6a9a5c1f52")


class BadDevice(Refused):
    """This is no address of a push service that this installation calls."""

    code = "BAD_DEVICE"
    status = 422


@dataclass(frozen=True)
class PendingNotice:
    """One notice for one person, or for a shared channel (`actor` is None)."""

    kind: str
    risk: str
    about_kind: str
    about_id: UUID
    source: UUID
    at: datetime
    actor: UUID | None = None

    def line(self) -> dict[str, str]:
        """The line of a message that refers to it: ids and an occasion."""
        return {
            "kind": self.kind,
            "risk": self.risk,
            "about_kind": self.about_kind,
            "about": str(self.about_id),
            "source": str(self.source),
        }


def create_alarm_notices(*, tenant_id: UUID, alarms: Iterable[Any], channels: Iterable[str], at: datetime) -> None:
    """Queue each open alarm for each channel, once."""
    Notice.objects.bulk_create(
        [
            Notice(
                tenant_id=tenant_id,
                id=ledger.new_id(at),
                topic="alarm",
                channel=channel,
                kind=alarm.kind,
                about_id=alarm.id,
                raised_at=alarm.raised_at,
                due_at=at,
            )
            for alarm in alarms
            for channel in channels
        ],
        ignore_conflicts=True,
    )


def lock_cursor(*, tenant_id: UUID, at: datetime) -> NoticeCursor | None:
    """The position up to which the record was read, locked for this worker; None while another one reads."""
    NoticeCursor.objects.get_or_create(tenant_id=tenant_id, defaults={"read_to": at - LOOK_BACK})
    here = NoticeCursor.objects.filter(tenant_id=tenant_id)
    return here.select_for_update(skip_locked=True).first()


def advance_cursor(*, tenant_id: UUID, read_to: datetime, recent: Sequence[UUID], seen: int | None) -> None:
    """Record up to where the record was read, in the transaction that wrote the notices."""
    NoticeCursor.objects.filter(tenant_id=tenant_id).update(
        read_to=read_to, recent=[str(each) for each in recent], seen=seen
    )


def add_to_inbox(*, tenant_id: UUID, notices: Iterable[PendingNotice], at: datetime) -> None:
    """Add each notice to its person's inbox, once."""
    Message.objects.bulk_create(
        [
            Message(
                tenant_id=tenant_id,
                id=ledger.new_id(at),
                actor_id=each.actor,
                kind=each.kind,
                risk=each.risk,
                about_kind=each.about_kind,
                about_id=each.about_id,
                source_id=each.source,
                raised_at=each.at,
            )
            for each in notices
            if each.actor is not None
        ],
        ignore_conflicts=True,
    )


def queue_notices(*, tenant_id: UUID, pending: PendingNotice, channel: str, route: DeliveryRoute, at: datetime) -> None:
    """Queue a notice for a channel: as its own message, or as a line of the current digest."""
    if route.manner == "digest" and _join_digest(tenant_id, pending, channel, route):
        return
    digest = route.manner == "digest"
    about = f"{channel}/{pending.actor}/{route.due_at.isoformat() if digest else pending.source}"
    Notice.objects.bulk_create(
        [
            Notice(
                tenant_id=tenant_id,
                id=ledger.new_id(at),
                topic="approval",
                channel=channel,
                kind="digest" if digest else pending.kind,
                about_id=uuid5(_NAMES, about),
                actor_id=pending.actor,
                risk=pending.risk,
                lines=[pending.line()],
                raised_at=pending.at,
                due_at=route.due_at,
            )
        ],
        ignore_conflicts=True,
    )


def queue_handoffs(*, tenant_id: UUID, names: Iterable[str], at: datetime) -> None:
    """Queue each of these hand-offs for the webhook, once a day (UTC)."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    Notice.objects.bulk_create(
        [
            Notice(
                tenant_id=tenant_id,
                id=ledger.new_id(at),
                topic="handoff",
                channel="webhook",
                kind=name,
                about_id=uuid5(_NAMES, f"handoff/{name}/{day.date()}"),
                raised_at=day,
                due_at=at,
            )
            for name in names
        ],
        ignore_conflicts=True,
    )


def _join_digest(tenant_id: UUID, pending: PendingNotice, channel: str, route: DeliveryRoute) -> bool:
    """Add a line to the digest that is already queued; false where none is."""
    about = uuid5(_NAMES, f"{channel}/{pending.actor}/{route.due_at.isoformat()}")
    open_one = Notice.objects.filter(
        tenant_id=tenant_id, about_id=about, channel=channel, attempts=0, sent_at__isnull=True
    )
    row = open_one.select_for_update().first()
    if row is None:
        return False
    if all(line["source"] != str(pending.source) for line in row.lines):
        _here(row).update(lines=[*row.lines, pending.line()])
    return True


def claim_due(*, tenant_id: UUID, topic: str = "alarm", at: datetime) -> Notice | None:
    """Claim the next due message for this worker; if the worker dies, the message is due again after a pause.

    A message at which the worker died each time is given up like one that never arrived.
    """
    with tenancy(tenant_id):
        due = Notice.objects.filter(
            tenant_id=tenant_id, topic=topic, sent_at__isnull=True, given_up_at__isnull=True, due_at__lte=at
        )
        due.filter(attempts__gte=MOST_ATTEMPTS).update(given_up_at=at, fault=NOT_RECORDED)
        row = due.select_for_update(skip_locked=True).order_by("due_at").first()
        if row is not None:
            row.attempts += 1
            row.due_at = at + _pause(row.attempts)
            _here(row).update(attempts=row.attempts, due_at=row.due_at)
        return row


def _pause(attempts: int) -> timedelta:
    chance = secrets.randbelow(1001) / 1000
    return timedelta(seconds=PAUSES[min(attempts, len(PAUSES)) - 1] * (1 + _JITTER * chance))


def record_delivery(
    *,
    notice: Notice,
    fault: str,
    permanent: bool = False,
    posted: str = "",
    waiting: int = 0,
    not_before: datetime | None = None,
    at: datetime,
) -> None:
    """Record that a message arrived, and where it was posted, or the fault.

    `permanent`: retrying is pointless, since the address accepts nothing any more. `not_before`: the earliest retry.
    """
    with tenancy(notice.tenant_id):
        if not fault:
            _here(notice).update(sent_at=at, fault="", posted=posted or notice.posted, waiting=waiting)
        else:
            over = at if permanent or notice.attempts >= MOST_ATTEMPTS else None
            due_at = max(notice.due_at, not_before or notice.due_at)
            _here(notice).update(fault=fault[:200], given_up_at=over, due_at=due_at)


def queue_updates(*, tenant_id: UUID, notices: Iterable[UUID], at: datetime) -> None:
    """Queue posted messages for an update in place."""
    here = Notice.objects.filter(tenant_id=tenant_id, id__in=list(notices), sent_at__isnull=False)
    here.update(sent_at=None, attempts=0, due_at=at)


def retry_notice(*, tenant_id: UUID, notice_id: UUID, by: ledger.Actor, at: datetime) -> Notice:
    """Retry a message that was given up, from the beginning and under the same id."""
    row = Notice.objects.select_for_update().filter(tenant_id=tenant_id, id=notice_id).first()
    if row is None or row.given_up_at is None:
        raise NotFound(detail="There is no such message that could not be delivered.")
    _here(row).update(given_up_at=None, attempts=0, due_at=at)
    _note(tenant_id, "notice_sent_again", {"notice_id": str(row.id), "channel": row.channel}, by=by, at=at)
    return row


def mark_seen(
    *, tenant_id: UUID, actor_id: UUID, about: UUID | None = None, upto: UUID | None = None, at: datetime
) -> int:
    """Mark a person's messages as seen: those about one object, or all up to one message; return their number."""
    mine = Message.objects.filter(tenant_id=tenant_id, actor_id=actor_id, read_at__isnull=True)
    if about is not None:
        mine = mine.filter(about_id=about)
    if upto is not None:
        mine = mine.filter(id__lte=upto)
    return mine.update(read_at=at)


def set_settings(*, tenant_id: UUID, document: dict[str, Any], by: ledger.Actor, at: datetime) -> NotificationSettings:
    """Change the notification settings of a tenant."""
    chosen = parse_settings(document)
    before = notifications_queries.tenant_settings(tenant_id)
    NoticeSettings.objects.update_or_create(
        tenant_id=tenant_id, defaults={"document": chosen.document(), "changed_at": at}
    )
    change = {"from": before.document(), "to": chosen.document()}
    _note(tenant_id, "notice_settings_changed", change, by=by, at=at)
    return chosen


def set_mail_preferences(*, tenant_id: UUID, actor_id: UUID, wish: MailPreferences, at: datetime) -> None:
    """Change a person's own mail preferences, which are not part of the record."""
    quiet = wish.quiet
    NoticeWish.objects.update_or_create(
        tenant_id=tenant_id,
        actor_id=actor_id,
        defaults={
            "email": dict(wish.email),
            "digest_min": wish.digest_min,
            "quiet_from": quiet.begin if quiet else None,
            "quiet_until": quiet.end if quiet else None,
            "zone": quiet.zone if quiet else "UTC",
            "urgent_passes": wish.urgent_passes,
            "changed_at": at,
        },
    )


def add_device(
    *, tenant_id: UUID, actor_id: UUID, address: str, name: str, sender: PushSender, at: datetime
) -> PushDevice:
    """Add a device to be woken; a browser used by another person before becomes this person's."""
    if not sender.accepts(address):
        raise BadDevice
    mine = PushDevice.objects.filter(tenant_id=tenant_id, actor_id=actor_id).exclude(address=address)
    if mine.count() >= MOST_DEVICES:
        raise BadDevice(f"You have {MOST_DEVICES} devices already; remove one of them first.")
    row, _ = PushDevice.objects.update_or_create(
        tenant_id=tenant_id,
        address=address,
        defaults={"actor_id": actor_id, "name": name, "added_at": at, "reached_at": None, "reached_by": None},
        create_defaults={"id": ledger.new_id(at), "actor_id": actor_id, "name": name, "added_at": at},
    )
    return row


def remove_device(*, tenant_id: UUID, actor_id: UUID, device_id: UUID) -> None:
    """Remove a person's device; it is no longer woken."""
    PushDevice.objects.filter(tenant_id=tenant_id, actor_id=actor_id, id=device_id).delete()


def record_push(*, device: PushDevice, notice: Notice, expired: bool, at: datetime) -> None:
    """Record that a notice reached a device, or remove a device whose address has expired."""
    with tenancy(device.tenant_id):
        here = PushDevice.objects.filter(tenant_id=device.tenant_id, id=device.id, address=device.address)
        if expired:
            here.delete()
        else:
            here.update(reached_at=at, reached_by=notice.id)


def record_covered_notices(*, notice: Notice, covered: Iterable[UUID], at: datetime) -> None:
    """Record the other notices that were due when the devices were woken as sent: one push covers them all."""
    with tenancy(notice.tenant_id):
        unsent = Notice.objects.filter(tenant_id=notice.tenant_id, id__in=list(covered), sent_at__isnull=True)
        unsent.update(sent_at=at, fault="")


def prune_notices(*, tenant_id: UUID, before: datetime) -> None:
    """Delete notices that were read, delivered or given up before a moment."""
    Message.objects.filter(tenant_id=tenant_id, raised_at__lt=before).delete()
    topics = ("approval", "handoff")
    old = Notice.objects.filter(tenant_id=tenant_id, topic__in=topics, raised_at__lt=before)
    old.filter(sent_at__isnull=False).delete()
    old.filter(given_up_at__isnull=False).delete()


def _note(tenant_id: UUID, kind: str, detail: dict[str, Any], *, by: ledger.Actor, at: datetime) -> None:
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=tenant_id, kind="tenant")
    ledger.append(head, ledger.NewEvent(kind=kind, detail=detail), actor=by, at=at)


def _here(row: Notice) -> Any:
    return Notice.objects.filter(tenant_id=row.tenant_id, id=row.id)
