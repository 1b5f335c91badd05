"""How a message reaches people outside: a line in the log of the process, a mail, a chat room, a signed webhook.

A message carries no detail of the record and no power: whoever follows its link signs in first. Nothing here logs an
address, a secret or what a server answered.
"""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import httpx
import orjson
from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.urls import reverse
from slack_sdk.webhook import WebhookClient

from console.accounts import queries as directory
from console.api.handoffs import documents
from console.metrics.rules.periods import DAY, period_between
from console.notifications import channels as channels_notifications
from console.notifications.channels import TenantOutlets
from console.notifications.facts import is_obsolete, load_facts
from console.notifications.messages import NO_POWER, NoticeFact, RenderedMessage, render_message, webhook_event
from console.web import labels
from ledger.db import tenancy
from reviews.observations.rules import webhooks

if TYPE_CHECKING:
    from console.models import Notice, User
    from ledger.models import Tenant

logger = logging.getLogger(__name__)
PATIENCE_S = 10
GONE = 410
_MARKS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class DeliveryOutcome:
    """What was wrong, or nothing; `gone` is an address that asked not to be written to again."""

    fault: str = ""
    gone: bool = False


def alarm_channels() -> list[str]:
    """What this installation tells of tamper alarms by; the log always."""
    told = ["log"]
    if settings.COUNTERFOIL_ALARM_EMAILS:
        told.append("email")
    if settings.COUNTERFOIL_ALARM_WEBHOOK:
        told.append("webhook")
    return told


def available_channels(tenant: Tenant) -> list[str]:
    """What this installation can tell this tenant's people by."""
    here = outlets_of(tenant)
    known = {"email": settings.COUNTERFOIL_EMAIL, "slack": here.slack, "webhook": here.webhook}
    return [channel for channel, way in known.items() if way]


def outlets_of(tenant: Tenant) -> TenantOutlets:
    return channels_notifications.outlets_for(settings.COUNTERFOIL_CHANNELS, tenant.slug)


def mail_address(user: User) -> str:
    """Where a person gets mail: their address, or the name of their account where it is one."""
    name: str = user.get_username()
    return user.email or (name if "@" in name else "")


def send(tenant: Tenant, notice: Notice, *, at: datetime) -> DeliveryOutcome:
    """Send one notice; what came of it."""
    way = _WAYS[notice.topic][notice.channel]
    try:
        return way(tenant, notice, at)
    except (OSError, HTTPException, smtplib.SMTPException, httpx.HTTPError, webhooks.BadSecret) as fault:
        # What a server answers may repeat what it was sent; its kind is enough to look for the cause.
        return DeliveryOutcome(type(fault).__name__)


def alarm_url(tenant: Tenant) -> str:
    """The page where an alarm stands."""
    return f"{settings.COUNTERFOIL_PUBLIC_URL}{reverse('ledger', args=[tenant.slug])}"


def _log_alarm(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    logger.error("Tamper alarm %s in tenant %s: %s. See %s", notice.kind, tenant.slug, _word(notice), alarm_url(tenant))
    return DeliveryOutcome()


def _mail_alarm(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    raised = notice.raised_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    where = f"Raised {raised} in {tenant.slug}. Look at it, and say what was found:\n{alarm_url(tenant)}"
    told = RenderedMessage(f"Counterfoil: tamper alarm in {tenant.slug}", (f"{_word(notice)}.", where))
    return _mail(notice, told, settings.COUNTERFOIL_ALARM_EMAILS)


def _post_alarm(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    if settings.COUNTERFOIL_ALARM_WEBHOOK is None:
        return DeliveryOutcome("no webhook is set")
    raised = notice.raised_at.astimezone(UTC).isoformat()
    data = {"alarm_id": str(notice.about_id), "kind": notice.kind, "tenant": tenant.slug, "url": alarm_url(tenant)}
    body = {"type": "alarm.raised", "timestamp": raised, "data": data}
    return _post(settings.COUNTERFOIL_ALARM_WEBHOOK, notice, body, at)


def _mail_people(tenant: Any, notice: Any, at: datetime) -> DeliveryOutcome:
    with tenancy(tenant.id):
        place = directory.membership_of(tenant.id, notice.actor_id)
        told = _still_to_tell(tenant, notice)
    to = mail_address(place.user) if place is not None else ""
    if not to:
        return DeliveryOutcome("this person has no mail address here", gone=True)
    return (
        _mail(notice, render_message(told, tenant=tenant.slug, personal=True, at=at), [to])
        if told
        else DeliveryOutcome()
    )


def _tell_room(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    room = outlets_of(tenant).slack
    if not room:
        return DeliveryOutcome("no chat room is set")
    with tenancy(tenant.id):
        told = _still_to_tell(tenant, notice)
    if not told:
        return DeliveryOutcome()
    said = render_message(told, tenant=tenant.slug, personal=False, at=at)
    text = "\n\n".join([f"*{_plain(said.subject)}*", *map(_plain, said.paragraphs)])
    client = WebhookClient(room, timeout=PATIENCE_S, retry_handlers=[])
    # No preview is fetched: our pages would only show it the sign-in.
    answer = client.send(text=text, unfurl_links=False, unfurl_media=False)
    if answer.status_code == 200 and answer.body.strip() == "ok":
        return DeliveryOutcome()
    told_of = "an answer that is not ok" if answer.status_code == 200 else f"HTTP {answer.status_code}"
    return DeliveryOutcome(told_of, gone=answer.status_code == GONE)


def _post_event(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    hook = outlets_of(tenant).webhook
    if hook is None:
        return DeliveryOutcome("no webhook is set")
    with tenancy(tenant.id):
        fact = load_facts(tenant, notice.lines)[0]
    data = webhook_event(fact, notice.lines[0]) | {"tenant": tenant.slug}
    raised = notice.raised_at.astimezone(UTC).isoformat()
    return _post(
        hook, notice, {"type": f"{_namespace(notice.lines[0])}.{fact.kind}", "timestamp": raised, "data": data}, at
    )


def _post_handoff(tenant: Tenant, notice: Notice, at: datetime) -> DeliveryOutcome:
    """The thirty days that ended with the day before, so that what became known late of the month is in it."""
    hook = outlets_of(tenant).webhook
    if hook is None:
        return DeliveryOutcome("no webhook is set")
    if notice.kind not in documents.HANDOFFS:
        return DeliveryOutcome("there is no such hand-off any more", gone=True)
    until = notice.raised_at
    with tenancy(tenant.id):
        made = documents.make_handoff(tenant.id, notice.kind, period_between(until - 30 * DAY, until, step=DAY), at=at)
    data = orjson.loads(made.model_dump_json(by_alias=True))
    return _post(hook, notice, {"type": f"handoff.{notice.kind}", "timestamp": until.isoformat(), "data": data}, at)


def _namespace(line: dict[str, Any]) -> str:
    """What the type of a webhook begins with; what has always said "approval" still does."""
    known = ("case", "action", "member", "erasure", "retention")
    return str(line["about_kind"]) if line["about_kind"] in known else "approval"


def _still_to_tell(tenant: Tenant, notice: Notice) -> list[NoticeFact]:
    """What a person still has to hear: a request that was decided meanwhile is none any more."""
    return [fact for fact in load_facts(tenant, notice.lines) if not is_obsolete(fact)]


def _mail(notice: Notice, told: RenderedMessage, to: Sequence[str]) -> DeliveryOutcome:
    if settings.COUNTERFOIL_EMAIL is None:
        return DeliveryOutcome("no mail server is set")
    EmailMessage(
        subject=told.subject,
        body="\n\n".join([*told.paragraphs, NO_POWER]) + "\n",
        from_email=settings.COUNTERFOIL_EMAIL_FROM,
        to=list(to),
        headers={"Message-ID": f"<{notice.id}@counterfoil>", "Auto-Submitted": "auto-generated"},
        connection=EmailBackend(**settings.COUNTERFOIL_EMAIL, timeout=PATIENCE_S),
    ).send()
    return DeliveryOutcome()


def _post(hook: tuple[str, str], notice: Notice, document: dict[str, Any], at: datetime) -> DeliveryOutcome:
    """Standard Webhooks: the id stays the same however often it is sent."""
    where, secret = hook
    body = orjson.dumps(document)
    stamp, webhook_id = str(int(at.timestamp())), f"msg_{notice.id.hex}"
    signature = webhooks.signature(webhooks.decode_secret(secret), webhook_id=webhook_id, timestamp=stamp, body=body)
    headers = {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": stamp,
        "webhook-signature": signature,
    }
    answer = httpx.post(where, content=body, headers=headers, timeout=PATIENCE_S, follow_redirects=False)
    fault = "" if answer.is_success else f"HTTP {answer.status_code}"
    return DeliveryOutcome(fault, gone=answer.status_code == GONE)


def _plain(text: str) -> str:
    """Text that a chat room shows as text: no link, no mention, no markup of its own."""
    return text.translate(_MARKS)


def _word(notice: Notice) -> str:
    return labels.alarm_label(notice.kind)


_ALARMS = {"log": _log_alarm, "email": _mail_alarm, "webhook": _post_alarm}
_APPROVALS = {"email": _mail_people, "slack": _tell_room, "webhook": _post_event}
_WAYS = {"alarm": _ALARMS, "approval": _APPROVALS, "handoff": {"webhook": _post_handoff}}
