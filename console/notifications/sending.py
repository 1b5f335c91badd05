"""Delivery of messages: a log line, a mail, an empty push, a chat room, a signed webhook.

A message carries no detail of the record and no power: its link requires signing in. Nothing here logs an address, a
secret or a server's answer.
"""

from __future__ import annotations

import logging
import re
import smtplib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import httpx
import orjson
from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.urls import reverse

from console.accounts import queries as directory
from console.handoffs import documents
from console.metrics.rules.periods import DAY, period_between
from console.notifications import channels as channels_notifications
from console.notifications import operations as notifications_operations
from console.notifications import queries as notifications_queries
from console.notifications.channels import ChatRoom, TenantOutlets
from console.notifications.facts import is_obsolete, load_endings, load_facts
from console.notifications.messages import (
    NO_POWER,
    NoticeFact,
    RenderedMessage,
    render_message,
    render_update,
    webhook_event,
)
from console.notifications.rules import Occasion
from console.web import labels
from ledger.db import tenancy
from reviews.observations.rules import webhooks

if TYPE_CHECKING:
    from console.models import Notice, User
    from console.notifications.web_push import PushSender
    from ledger.models import Tenant

logger = logging.getLogger(__name__)
PATIENCE_S = 10
PUSH_PATIENCE_S = 5
GONE = 410
LONGEST_WAIT_S = 3600
_FAULT = re.compile(r"[a-z_]{1,60}")
_MARKS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class DeliveryOutcome:
    """The outcome of a delivery; `fault` is empty for success.

    `permanent`: the address accepts nothing any more; `not_before`: the earliest retry. `posted` is the place of the
    message in the room, and `waiting` the number of its items that still wait.
    """

    fault: str = ""
    permanent: bool = False
    posted: str = ""
    waiting: int = 0
    not_before: datetime | None = None


def alarm_channels() -> list[str]:
    """Return the channels by which this installation reports tamper alarms; the log is always one."""
    channels = ["log"]
    if settings.COUNTERFOIL_ALARM_EMAILS:
        channels.append("email")
    if settings.COUNTERFOIL_ALARM_WEBHOOK:
        channels.append("webhook")
    return channels


def available_channels(tenant: Tenant) -> list[str]:
    """The channels by which this tenant's people can be notified."""
    here = outlets_of(tenant)
    known = {
        "email": settings.COUNTERFOIL_EMAIL,
        "push": settings.COUNTERFOIL_PUSH,
        "slack": here.slack,
        "webhook": here.webhook,
    }
    return [channel for channel, way in known.items() if way]


def outlets_of(tenant: Tenant) -> TenantOutlets:
    return channels_notifications.outlets_for(settings.COUNTERFOIL_CHANNELS, tenant.slug)


def mail_address(user: User) -> str:
    """A person's mail address: their own, or the name of their account if it is one."""
    name: str = user.get_username()
    return user.email or (name if "@" in name else "")


def send(tenant: Tenant, notice: Notice, *, at: datetime) -> DeliveryOutcome:
    """Send one notice; returns the outcome."""
    way = _WAYS[notice.topic][notice.channel]
    return _try_sending(lambda: way(tenant, notice, at))


def send_test(tenant: Tenant, channel: str, *, mail: str, devices: Sequence[str], at: datetime) -> DeliveryOutcome:
    """Send a test message without content of the record by one channel, to the caller's own mail address and devices;
    return the result.
    """
    outlets = outlets_of(tenant)
    where = f"{settings.COUNTERFOIL_PUBLIC_URL}{reverse('notices', args=[tenant.slug])}"
    message = RenderedMessage(
        f"Counterfoil: test message of {tenant.slug}", ("A test. Nothing needs to be done.", where)
    )
    if channel not in available_channels(tenant):
        return DeliveryOutcome("no address is set")
    if channel == "email":
        own = [mail] if mail else []
        return (
            _try_sending(lambda: _mail(uuid4(), message, own))
            if own
            else DeliveryOutcome("you have no mail address here")
        )
    sender = settings.COUNTERFOIL_PUSH
    if channel == "push" and sender is not None:
        faults = [_wake(sender, each, at)[0] for each in devices]
        return DeliveryOutcome(next(filter(None, faults), "") if devices else "you have switched on none")
    if channel == "slack":
        room = outlets.slack
        if isinstance(room, ChatRoom):
            text = {"channel": room.channel, "text": _room_text(message)}
            return _try_sending(lambda: _call_room(room, "chat.postMessage", text, at))
        return _try_sending(lambda: _post_incoming(room, message))
    hook = outlets.webhook
    assert hook is not None, "a channel that is available has an address"
    document = {"type": "test", "timestamp": at.isoformat(), "data": {"tenant": tenant.slug, "url": where}}
    return _try_sending(lambda: _post(hook, uuid4(), document, at))


def _try_sending(send: Callable[[], DeliveryOutcome]) -> DeliveryOutcome:
    try:
        return send()
    except (OSError, HTTPException, smtplib.SMTPException, httpx.HTTPError, webhooks.BadSecret) as fault:
        # What a server answers may repeat what it was sent; its kind is enough to look for the cause.
        return DeliveryOutcome(type(fault).__name__)


def alarm_url(tenant: Tenant) -> str:
    """The page of an alarm."""
    return f"{settings.COUNTERFOIL_PUBLIC_URL}{reverse('ledger', args=[tenant.slug])}"


def _log_alarm(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    logger.error(
        "Tamper alarm %s in tenant %s: %s. See %s", notice.kind, tenant.slug, _alarm_title(notice), alarm_url(tenant)
    )
    return DeliveryOutcome()


def _mail_alarm(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    raised = notice.raised_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    where = f"Raised {raised} in {tenant.slug}. Look at it, and say what was found:\n{alarm_url(tenant)}"
    message = RenderedMessage(f"Counterfoil: tamper alarm in {tenant.slug}", (f"{_alarm_title(notice)}.", where))
    return _mail(notice.id, message, settings.COUNTERFOIL_ALARM_EMAILS)


def _post_alarm(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    if settings.COUNTERFOIL_ALARM_WEBHOOK is None:
        return DeliveryOutcome("no webhook is set")
    raised = notice.raised_at.astimezone(UTC).isoformat()
    data = {"alarm_id": str(notice.about_id), "kind": notice.kind, "tenant": tenant.slug, "url": alarm_url(tenant)}
    body = {"type": "alarm.raised", "timestamp": raised, "data": data}
    return _post(settings.COUNTERFOIL_ALARM_WEBHOOK, notice.id, body, at)


def _mail_people(tenant: Any, notice: Any, at: datetime) -> DeliveryOutcome:
    with tenancy(tenant.id):
        place = directory.membership_of(tenant.id, notice.actor_id)
        facts = _pending_facts(tenant, notice)
    to = mail_address(place.user) if place is not None else ""
    if not to:
        return DeliveryOutcome("this person has no mail address here", permanent=True)
    return (
        _mail(notice.id, render_message(facts, tenant=tenant.slug, personal=True, at=at), [to])
        if facts
        else DeliveryOutcome()
    )


def _wake_devices(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    """Send an empty message to each device not yet reached by this notice; it covers all due ones."""
    sender, person = settings.COUNTERFOIL_PUSH, notice.actor_id
    if sender is None or person is None:
        return DeliveryOutcome("no push service is named")
    with tenancy(tenant.id):
        is_member = directory.membership_of(tenant.id, person) is not None
        waits = is_member and bool(_pending_facts(tenant, notice))
        devices = notifications_queries.push_devices(tenant.id, person) if waits else []
        others = notifications_queries.due_beside(notice, at=at) if waits else []
    faults = []
    for device in devices:
        if device.reached_by == notice.id:
            continue
        fault, expired = _wake(sender, device.address, at)
        faults += [fault] if fault else []
        if expired or not fault:
            notifications_operations.record_push(device=device, notice=notice, expired=expired, at=at)
    if others and not faults:
        notifications_operations.record_covered_notices(notice=notice, covered=others, at=at)
    return DeliveryOutcome(faults[0] if faults else "")


def _wake(sender: PushSender, address: str, at: datetime) -> tuple[str, bool]:
    """Return the fault, or empty, and whether the address has expired because the device was reset or unsubscribed."""
    if not sender.accepts(address):
        return "", True
    try:
        headers = sender.headers(address, at=at)
        answer = httpx.post(address, headers=headers, timeout=PUSH_PATIENCE_S, follow_redirects=False)
    except httpx.HTTPError as fault:
        return type(fault).__name__, False
    expired = answer.status_code in (404, GONE)
    return "" if answer.is_success or expired else f"HTTP {answer.status_code}", expired


def _notify_room(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    room = outlets_of(tenant).slack
    if not room:
        return DeliveryOutcome("no chat room is set")
    if isinstance(room, ChatRoom):
        return _post_in_room(tenant, room, notice, at)
    with tenancy(tenant.id):
        facts = _pending_facts(tenant, notice)
    if not facts or notice.posted:
        return DeliveryOutcome()
    return _post_incoming(room, render_message(facts, tenant=tenant.slug, personal=False, at=at))


def _post_incoming(room: str, message: RenderedMessage) -> DeliveryOutcome:
    """Post to an incoming webhook, which only accepts messages."""
    # 7 MB that most installations never use.
    from slack_sdk.webhook import WebhookClient

    client = WebhookClient(room, timeout=PATIENCE_S, retry_handlers=[])
    # No preview is fetched: our pages would only show it the sign-in.
    answer = client.send(text=_room_text(message), unfurl_links=False, unfurl_media=False)
    if answer.status_code == 200 and answer.body.strip() == "ok":
        return DeliveryOutcome()
    fault = "an answer that is not ok" if answer.status_code == 200 else f"HTTP {answer.status_code}"
    return DeliveryOutcome(fault, permanent=answer.status_code == GONE)


def _post_in_room(tenant: Tenant, room: ChatRoom, notice: Notice, at: datetime) -> DeliveryOutcome:
    """Post a new message in the room, or update the existing one.

    If we crash after the call, the message is posted or updated once more.
    """
    with tenancy(tenant.id):
        facts = load_facts(tenant, notice.lines) if notice.posted else _pending_facts(tenant, notice)
        endings = load_endings(tenant, notice.lines) if notice.posted else []
    if not facts:
        return DeliveryOutcome()
    waiting = sum(each.still_waits for each in facts)
    if notice.posted:
        channel, _, stamp = notice.posted.partition("/")
        update = render_update(facts, endings, tenant=tenant.slug, at=at)
        outcome = _call_room(room, "chat.update", {"channel": channel, "ts": stamp, "text": _room_text(update)}, at)
        # Somebody has removed it: there is nothing to bring up to date.
        return DeliveryOutcome() if outcome.fault == "message_not_found" else replace(outcome, waiting=waiting)
    message = render_message(facts, tenant=tenant.slug, personal=False, at=at)
    return replace(
        _call_room(room, "chat.postMessage", {"channel": room.channel, "text": _room_text(message)}, at),
        waiting=waiting,
    )


def _call_room(room: ChatRoom, method: str, document: dict[str, str], at: datetime) -> DeliveryOutcome:
    """Call Slack's web API once; the answer has `ok`, or the reason as a code in `error`."""
    headers = {"Authorization": f"Bearer {room.token}", "content-type": "application/json; charset=utf-8"}
    body = orjson.dumps({**document, "unfurl_links": False, "unfurl_media": False})
    answer = httpx.post(
        f"{room.api}{method}", content=body, headers=headers, timeout=PATIENCE_S, follow_redirects=False
    )
    try:
        reply = answer.json()
    except ValueError:
        reply = {}
    if isinstance(reply, dict) and reply.get("ok") is True:
        return DeliveryOutcome(posted=f"{reply.get('channel')}/{reply.get('ts')}")
    word = str(reply.get("error", "")) if isinstance(reply, dict) else ""
    fault = word if _FAULT.fullmatch(word) else f"HTTP {answer.status_code}"
    wait = answer.headers.get("retry-after", "")
    after = timedelta(seconds=min(int(wait), LONGEST_WAIT_S)) if wait.isdecimal() else timedelta(0)
    return DeliveryOutcome(fault, not_before=at + after)


def _room_text(message: RenderedMessage) -> str:
    return "\n\n".join([f"*{_escape(message.subject)}*", *map(_escape, message.paragraphs)])


def _post_event(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    hook = outlets_of(tenant).webhook
    if hook is None:
        return DeliveryOutcome("no webhook is set")
    with tenancy(tenant.id):
        fact = load_facts(tenant, notice.lines)[0]
    data = webhook_event(fact, notice.lines[0]) | {"tenant": tenant.slug}
    raised = notice.raised_at.astimezone(UTC).isoformat()
    return _post(
        hook, notice.id, {"type": f"{_namespace(notice.lines[0])}.{fact.kind}", "timestamp": raised, "data": data}, at
    )


def _post_handoff(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    """Post the thirty days that ended with the day before, so that late findings of the month are included."""
    hook = outlets_of(tenant).webhook
    if hook is None:
        return DeliveryOutcome("no webhook is set")
    if notice.kind not in documents.HANDOFFS:
        return DeliveryOutcome("there is no such hand-off any more", permanent=True)
    until = notice.raised_at
    with tenancy(tenant.id):
        handoff = documents.make_handoff(
            tenant.id, notice.kind, period_between(until - 30 * DAY, until, step=DAY), at=at
        )
    data = orjson.loads(handoff.model_dump_json(by_alias=True))
    return _post(hook, notice.id, {"type": f"handoff.{notice.kind}", "timestamp": until.isoformat(), "data": data}, at)


def _namespace(line: dict[str, Any]) -> str:
    """The prefix of a webhook's type; "approval" for kinds without their own."""
    known = ("case", "action", "member", "erasure", "retention", "incident", "export", "release")
    kind = str(line["about_kind"])
    return kind if kind in known or line["kind"] in (Occasion.SYSTEM_DOWN, Occasion.SYSTEM_UP) else "approval"


def _pending_facts(tenant: Tenant, notice: Notice) -> list[NoticeFact]:
    """The facts of a notice that is still needed; None for a request decided meanwhile."""
    return [fact for fact in load_facts(tenant, notice.lines) if not is_obsolete(fact)]


def _mail(message_id: UUID, message: RenderedMessage, to: Sequence[str]) -> DeliveryOutcome:
    if settings.COUNTERFOIL_EMAIL is None:
        return DeliveryOutcome("no mail server is set")
    EmailMessage(
        subject=message.subject,
        body="\n\n".join([*message.paragraphs, NO_POWER]) + "\n",
        from_email=settings.COUNTERFOIL_EMAIL_FROM,
        to=list(to),
        headers={"Message-ID": f"<{message_id}@counterfoil>", "Auto-Submitted": "auto-generated"},
        connection=EmailBackend(**settings.COUNTERFOIL_EMAIL, timeout=PATIENCE_S),
    ).send()
    return DeliveryOutcome()


def _post(hook: tuple[str, str], message_id: UUID, document: dict[str, Any], at: datetime) -> DeliveryOutcome:
    """Standard Webhooks: the id stays the same however often it is sent."""
    where, secret = hook
    body = orjson.dumps(document)
    stamp, webhook_id = str(int(at.timestamp())), f"msg_{message_id.hex}"
    signature = webhooks.signature(webhooks.decode_secret(secret), webhook_id=webhook_id, timestamp=stamp, body=body)
    headers = {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": stamp,
        "webhook-signature": signature,
    }
    answer = httpx.post(where, content=body, headers=headers, timeout=PATIENCE_S, follow_redirects=False)
    fault = "" if answer.is_success else f"HTTP {answer.status_code}"
    return DeliveryOutcome(fault, permanent=answer.status_code == GONE)


def _escape(text: str) -> str:
    """Escape text for a chat room: no link, mention or markup."""
    return text.translate(_MARKS)


def _alarm_title(notice: Notice) -> str:
    return labels.alarm_label(notice.kind)


_ALARMS = {"log": _log_alarm, "email": _mail_alarm, "webhook": _post_alarm}
_APPROVALS = {"email": _mail_people, "push": _wake_devices, "slack": _notify_room, "webhook": _post_event}
_WAYS = {"alarm": _ALARMS, "approval": _APPROVALS, "handoff": {"webhook": _post_handoff}}
