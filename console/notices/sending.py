"""How an alarm reaches people outside: a line in the log of the process, a mail, a signed webhook.

A message says what kind of alarm stands, and where; it carries no detail of the record and no power: whoever follows
the link signs in first.
"""

from __future__ import annotations

import logging
import smtplib
from datetime import UTC, datetime
from typing import Any

import httpx
import orjson
from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.urls import reverse

from console import words
from reviews.rules import hooks

logger = logging.getLogger(__name__)
PATIENCE_S = 10


def channels() -> list[str]:
    """What this installation tells people by; the log always."""
    told = ["log"]
    if settings.COUNTERFOIL_ALARM_EMAILS:
        told.append("email")
    if settings.COUNTERFOIL_ALARM_WEBHOOK:
        told.append("webhook")
    return told


def send(tenant: Any, notice: Any, *, at: datetime) -> str:
    """Send one notice; what was wrong, or nothing."""
    try:
        return {"log": _log, "email": _mail, "webhook": _post}[notice.channel](tenant, notice, at)
    except (OSError, smtplib.SMTPException, httpx.HTTPError, hooks.BadSecret) as fault:
        # What a server answers may repeat what it was sent; its kind is enough to look for the cause.
        return type(fault).__name__


def link(tenant: Any) -> str:
    """The page where the alarm stands."""
    return f"{settings.COUNTERFOIL_PUBLIC_URL}{reverse('ledger', args=[tenant.slug])}"


def _log(tenant: Any, notice: Any, at: datetime) -> str:
    logger.error("Tamper alarm %s in tenant %s: %s. See %s", notice.kind, tenant.slug, _word(notice), link(tenant))
    return ""


def _mail(tenant: Any, notice: Any, at: datetime) -> str:
    if settings.COUNTERFOIL_EMAIL is None:
        return "no mail server is set"
    raised = notice.raised_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    text = (
        f"{_word(notice)}.\n\nRaised {raised} in {tenant.slug}. Look at it, and say what was found:\n{link(tenant)}\n\n"
        "This message gives nobody any power: whoever follows the link signs in first.\n"
    )
    message = EmailMessage(
        subject=f"Counterfoil: tamper alarm in {tenant.slug}",
        body=text,
        from_email=settings.COUNTERFOIL_EMAIL_FROM,
        to=settings.COUNTERFOIL_ALARM_EMAILS,
        headers={"Message-ID": f"<{notice.id}@counterfoil>"},
        connection=EmailBackend(**settings.COUNTERFOIL_EMAIL, timeout=PATIENCE_S),
    )
    message.send()
    return ""


def _post(tenant: Any, notice: Any, at: datetime) -> str:
    """Standard Webhooks: the id stays the same however often it is sent."""
    if settings.COUNTERFOIL_ALARM_WEBHOOK is None:
        return "no webhook is set"
    address, secret = settings.COUNTERFOIL_ALARM_WEBHOOK
    raised = notice.raised_at.astimezone(UTC).isoformat()
    data = {"alarm_id": str(notice.about_id), "kind": notice.kind, "tenant": tenant.slug, "url": link(tenant)}
    body = orjson.dumps({"type": "alarm.raised", "timestamp": raised, "data": data})
    stamp, webhook_id = str(int(at.timestamp())), f"msg_{notice.id.hex}"
    signature = hooks.signature(hooks.key_of(secret), webhook_id=webhook_id, timestamp=stamp, body=body)
    headers = {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": stamp,
        "webhook-signature": signature,
    }
    answer = httpx.post(address, content=body, headers=headers, timeout=PATIENCE_S, follow_redirects=False)
    return "" if answer.is_success else f"HTTP {answer.status_code}"


def _word(notice: Any) -> str:
    return words.alarm(notice.kind)
