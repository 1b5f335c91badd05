"""Webhooks: addresses for a system's provider, their secrets, and the processing of deliveries.

A webhook is evidence and a reason to look, never a state (R-OB-14). Its secrets are files beside the system's
credential, so that no copy of the database can forge one.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from django.conf import settings

from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.db import execute, tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.lifecycle import State
from ledger.record.rules.refusals import NotFound, Refused
from reviews import queries
from reviews.cases.rules.resolutions import RECHECKED
from reviews.models import Observation, Webhook, WebhookDelivery
from reviews.observations.operations.observations import observation_reference
from reviews.observations.rules import webhooks as rules
from reviews.readback.operations import plans, schedules
from reviews.verification.operations import verification
from reviews.verification.rules import verification as runs

if TYPE_CHECKING:
    from ledger.models import System

_SPOKEN_OF = runs.VERIFIABLE_IN | RECHECKED | {State.EXECUTING}


class SecretNotKept(Refused):
    """The secrets folder cannot be written here; put the secret into the system's `.hooks.json` by hand."""

    code = "SECRETS_READ_ONLY"


def create_hook(*, tenant_id: UUID, name: str, secret: str, by: ledger.Actor, at: datetime) -> Webhook:
    """Make an address for a system's webhooks, which are signed with `secret`."""
    rules.decode_secret(secret)
    system = _system(tenant_id, name)
    row = Webhook(id=uuid4(), tenant_id=tenant_id, system_id=system.id, created_at=at)
    # A secret without an address is harmless; an address without its secret would only refuse.
    _keep(tenant_id, name, row.id, [secret])
    row.save(force_insert=True)
    _tell(row, ledger.NewEvent(kind="hook_created", detail={"hook_id": str(row.id)}), by, at=at)
    return row


def rotate_secret(
    *, tenant_id: UUID, name: str, hook_id: UUID, secret: str, keep_old: bool, by: ledger.Actor, at: datetime
) -> int:
    """Sign with a new secret from now on; while `keep_old`, the last one is good as well. How many are good now."""
    rules.decode_secret(secret)
    row = _own_hook(tenant_id, name, hook_id)
    good = [
        secret,
        *([each for each in secrets_of(tenant_id, name, hook_id) if each != secret][:1] if keep_old else []),
    ]
    _keep(tenant_id, name, hook_id, good)
    detail = {"hook_id": str(hook_id), "secrets": len(good)}
    _tell(row, ledger.NewEvent(kind="hook_secret_changed", detail=detail), by, at=at)
    return len(good)


def revoke_hook(*, tenant_id: UUID, name: str, hook_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> None:
    """Close an address: deliveries to it are refused from now on."""
    row = _own_hook(tenant_id, name, hook_id)
    Webhook.objects.filter(tenant_id=tenant_id, id=hook_id).update(revoked_at=at)
    _keep(tenant_id, name, hook_id, [])
    detail = {"hook_id": str(hook_id), "reason": reason[:1000]}
    _tell(row, ledger.NewEvent(kind="hook_revoked", detail=detail), by, at=at)


def _system(tenant_id: UUID, name: str) -> Any:
    system = catalogue_queries.system(tenant_id, name)
    if system is None:
        raise NotFound("System")
    return system


def _own_hook(tenant_id: UUID, name: str, hook_id: UUID) -> Webhook:
    system, row = _system(tenant_id, name), queries.live_hook(tenant_id, hook_id)
    if row is None or row.system_id != system.id:
        raise NotFound("Webhook address")
    return row


def _tell(row: Webhook, happening: ledger.NewEvent, by: ledger.Actor, *, at: datetime) -> None:
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.system_id, kind="system")
    ledger.append(head, happening, actor=by, at=at)


# Secrets


def _file(tenant_id: UUID, name: str) -> Path:
    slug = events.tenant_by_id(tenant_id).slug
    folder: Path = settings.COUNTERFOIL_SECRETS_DIR / "systems" / slug
    return folder / f"{name}.hooks.json"


def secrets_of(tenant_id: UUID, name: str, hook_id: UUID) -> list[str]:
    """The secrets that are good for an address, the newest first."""
    known = _read_file(_file(tenant_id, name)).get(str(hook_id), [])
    return [each for each in known if isinstance(each, str)] if isinstance(known, list) else []


def _read_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(tenant_id: UUID, name: str, hook_id: UUID, secrets: list[str]) -> None:
    path = _file(tenant_id, name)
    known = {key: value for key, value in _read_file(path).items() if key != str(hook_id)}
    text = json.dumps(known | ({str(hook_id): secrets} if secrets else {}))
    beside = path.with_suffix(f".{uuid4().hex}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        beside.replace(path)
    except OSError:
        raise SecretNotKept from None


# What arrives


def receive_delivery(
    *, tenant_id: UUID, hook_id: UUID, signed: rules.SignedHeaders, body: bytes, at: datetime
) -> UUID | None:
    """Take a signed webhook once: as evidence of its action, or of its system; the action, where it is bound.

    Nothing is stored of one that is not signed. If we crash before the commit the provider sends it again.
    """
    with tenancy(tenant_id):
        row = queries.live_hook(tenant_id, hook_id)
        if row is None:
            raise NotFound("Webhook address")
        system = catalogue_queries.system_by_id(row.tenant_id, row.system_id)
        assert system is not None
        secrets = secrets_of(row.tenant_id, system.name, hook_id)
        rules.verify_signature(signed, body, secrets=secrets, at=at)
        action_id = _find_action(row.tenant_id, system, body)
        if not _is_first(row, signed.id, action_id, at=at):
            return action_id
        if action_id is None:
            _store(row, system, "system", row.system_id, signed, body, at=at)
        else:
            _observe(row, system, action_id, signed, body, at=at)
    return action_id


def _is_first(row: Webhook, webhook_id: str, action_id: UUID | None, *, at: datetime) -> bool:
    return bool(
        execute(
            "INSERT INTO reviews_hookdelivery (tenant_id, hook_id, webhook_id, action_id, at)"
            " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING true",
            *(row.tenant_id, row.id, webhook_id, action_id, at),
        )
    )


def _find_action(tenant_id: UUID, system: System, body: bytes) -> UUID | None:
    """The action that a webhook speaks of, where that is one which this system verifies."""
    names = rules.named_identifiers(rules.parse_mapping(system.settings), _parse_json(body))
    action_id = _named_action(tenant_id, names)
    action = actions.action(tenant_id, action_id) if action_id is not None else None
    if action is None:
        return None
    verification = plans.contract_of(tenant_id, action).verification
    asked = {verification.system, *(each.system for each in verification.further)} if verification else set()
    return action.id if system.name in asked else None


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _named_action(tenant_id: UUID, names: dict[str, str]) -> UUID | None:
    if "action_id" in names:
        try:
            return UUID(names["action_id"])
        except ValueError:
            return None
    if "idempotency_key" in names:
        return actions.action_by_key(tenant_id, names["idempotency_key"])
    if "target" in names:
        return actions.newest_of_target(tenant_id, names["target"], map(str, _SPOKEN_OF))
    return None


def _store(
    row: Webhook,
    system: System,
    kind: str,
    subject_id: UUID,
    signed: rules.SignedHeaders,
    body: bytes,
    *,
    pointer: UUID | None = None,
    more: dict[str, Any] | None = None,
    at: datetime,
) -> None:
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=subject_id, kind=kind)
    kept = ledger.store_evidence(
        tenant_id=row.tenant_id,
        subject_id=subject_id,
        purpose="webhook",
        data=body,
        media_type="application/json" if _parse_json(body) is not None else "application/octet-stream",
        source=system.name,
        at=at,
        pointer=pointer,
    )
    detail = {"hook_id": str(row.id), "webhook_id": signed.id, "source": system.name, "pointer": str(kept.pointer)}
    happening = ledger.NewEvent(kind="webhook_received", detail=detail | (more or {}), evidence=(kept,))
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)


def _observe(
    row: Webhook, system: System, action_id: UUID, signed: rules.SignedHeaders, body: bytes, *, at: datetime
) -> None:
    ledger.lock_subject(tenant_id=row.tenant_id, subject_id=action_id, kind="action")
    action = actions.action(row.tenant_id, action_id)
    assert action is not None
    pointer = uuid4()
    seen = Observation.objects.create(
        tenant_id=row.tenant_id,
        id=ledger.new_id(at),
        action_id=action_id,
        attempt=action.attempt_count,
        status="notified",
        claimed_success=False,
        error_code="",
        source="webhook",
        late=action.state != State.EXECUTING,
        pointer=pointer,
        raw_pointer=None,
        at=at,
    )
    told = {"attempt": seen.attempt, "observation": observation_reference(seen)}
    _store(row, system, "action", action_id, signed, body, pointer=pointer, more=told, at=at)
    if verification.is_open(action):
        schedules.schedule(tenant_id=row.tenant_id, action_id=action_id, due_at=at, at=at)
    elif State(action.state) in RECHECKED and action.attempt_count:
        schedules.recheck_now(tenant_id=row.tenant_id, action_id=action_id, at=at)


def prune_deliveries(*, before: datetime) -> None:
    """Delete the entries that prevent duplicate deliveries, once no duplicate can still arrive."""
    for tenant_id in tenants_with(Work.OLD_DELIVERIES, at=before):
        with tenancy(tenant_id):
            WebhookDelivery.objects.filter(tenant_id=tenant_id, at__lt=before).delete()
