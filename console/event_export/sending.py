"""Send a tenant's events to its destinations: webhooks one by one, a collector's records many at once.

No redirect is followed, no proxy of the environment used, and of an answer only its status is kept: it may repeat what
it was sent. Nothing is sent inside a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import httpx
from django.conf import settings

from console.event_export import messages, operations, queries
from console.event_export.destinations import Destination, Destinations, destinations_of
from console.event_export.messages import SealedEvent
from ledger.db import tenancy
from reviews.observations.rules import webhooks

if TYPE_CHECKING:
    from console.models import EventDestination
    from ledger.models import Tenant

Clock = Callable[[], datetime]
AT_A_TIME: Final = 100
WITHIN_S: Final = 20.0
"""How long one lease is used; a third of it."""
PATIENCE_S: Final = 10.0
TEST_PATIENCE_S: Final = 5.0
NO_ADDRESS: Final = "its address is no longer configured"


@dataclass(frozen=True)
class Delivered:
    """The result of a delivery: the events accepted, those that the destination dropped, and the fault, if any."""

    taken: int = 0
    refused: int = 0
    fault: str = ""


def addresses(tenant: Tenant) -> Destinations:
    """The destinations that the installation's file names for a tenant."""
    return destinations_of(settings.COUNTERFOIL_EVENT_DESTINATIONS, tenant.slug)


def export_events(tenant: Tenant, *, clock: Clock) -> int:
    """Send waiting events to a tenant's due destinations; return the number accepted."""
    with tenancy(tenant.id):
        found = queries.due_destinations(tenant.id, at=clock())
    return sum(_export_to(tenant, row, clock) for row in found)


def _export_to(tenant: Tenant, row: EventDestination, clock: Clock) -> int:
    with tenancy(tenant.id):
        held = operations.take_lease(row, at=clock())
        if held is None:
            return 0
        waiting = queries.events_behind(tenant.id, held.log, held.index, limit=AT_A_TIME)
    destination = addresses(tenant).get(held.name)
    done = _deliver(tenant, destination, waiting, clock) if destination is not None else Delivered(fault=NO_ADDRESS)
    last = waiting[done.taken - 1] if done.taken else None
    with tenancy(tenant.id):
        operations.settle(
            held,
            place=(last.log, last.index) if last else (held.log, held.index),
            taken=done.taken,
            refused=done.refused,
            fault=done.fault,
            at=clock(),
        )
    return done.taken


def _deliver(tenant: Tenant, destination: Destination, waiting: Sequence[SealedEvent], clock: Clock) -> Delivered:
    if not waiting:
        return Delivered()
    with httpx.Client(timeout=PATIENCE_S, follow_redirects=False, trust_env=False) as client:
        if destination.kind == "otlp":
            body = messages.log_records(waiting, environment=settings.COUNTERFOIL_ENVIRONMENT, tenant=tenant.slug)
            fault, refused = _post_records(client, destination, body)
            return Delivered(0 if fault else len(waiting), refused, fault)
        until = time.monotonic() + WITHIN_S
        for taken, event in enumerate(waiting):
            if time.monotonic() > until:
                return Delivered(taken)
            body, webhook_id = messages.webhook_body(event), messages.webhook_id(event.id)
            if fault := _post_webhook(client, destination, body, webhook_id, at=clock()):
                return Delivered(taken, fault=fault)
        return Delivered(len(waiting))


def send_test(tenant: Tenant, destination: Destination, *, at: datetime) -> str:
    """Send a message that contains nothing of the record; return the fault, or an empty text."""
    with httpx.Client(timeout=TEST_PATIENCE_S, follow_redirects=False, trust_env=False) as client:
        if destination.kind == "otlp":
            environment = settings.COUNTERFOIL_ENVIRONMENT
            body = messages.test_record(environment=environment, tenant=tenant.slug, at=at)
            fault, refused = _post_records(client, destination, body)
            return fault or ("the collector refused the record" if refused else "")
        body = messages.test_body(tenant.slug, at=at)
        return _post_webhook(client, destination, body, messages.webhook_id(uuid4()), at=at)


def _post_webhook(client: httpx.Client, destination: Destination, body: bytes, webhook_id: str, *, at: datetime) -> str:
    """Standard Webhooks: signed with each secret that is good now."""
    stamp = str(int(at.timestamp()))
    signatures = [
        webhooks.signature(webhooks.decode_secret(each), webhook_id=webhook_id, timestamp=stamp, body=body)
        for each in destination.secrets
    ]
    headers = {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(signatures),
    }
    fault, _ = _post(client, destination.url, body, headers)
    return fault


def _post_records(client: httpx.Client, destination: Destination, body: bytes) -> tuple[str, int]:
    """Return (fault, number of dropped records); a message of which a collector dropped some is not sent again."""
    headers = {**destination.headers, "content-type": "application/x-protobuf"}
    fault, answer = _post(client, destination.url, body, headers)
    return fault, 0 if fault else messages.refused_records(answer)


def _post(client: httpx.Client, url: str, body: bytes, headers: dict[str, str]) -> tuple[str, bytes]:
    try:
        answer = client.post(url, content=body, headers=headers)
    except (httpx.HTTPError, OSError) as fault:
        return type(fault).__name__, b""
    return ("", answer.content) if answer.is_success else (f"HTTP {answer.status_code}", b"")
