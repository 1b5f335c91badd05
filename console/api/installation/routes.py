"""How the installation is: alive, ready, and with what key its grants are signed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from approvals.execution.operations import grant_keys
from approvals.execution.rules import grants
from console.api.installation import schemas
from console.api.transaction import json_response
from ledger.log.queries import log
from ledger.log.signer_state import EpochUnknown, read_epoch
from ledger.record.rules.envelope import instant
from ledger.verification.queries import fences
from reviews import queries as after

router = Router(tags=["Operations"])
_WINDOW = (("nbf", "from"), ("exp", "until"))


@login_not_required
def healthz_page(request: HttpRequest) -> HttpResponse:
    return healthz(request)


@login_not_required
def readyz_page(request: HttpRequest) -> HttpResponse:
    return readyz(request)


@login_not_required
def jwks_page(request: HttpRequest) -> HttpResponse:
    return jwks(request)


@login_not_required
def receipt_keys_page(request: HttpRequest) -> HttpResponse:
    """The same keys where verifiers of signed receipts look for them, with each window in the words of their draft."""
    keys = [
        {name: value for name, value in each.items() if name not in ("nbf", "exp")}
        | {f"valid_{end}": instant(datetime.fromtimestamp(each[name], UTC)) for name, end in _WINDOW if name in each}
        for each in grants.jwks(grant_keys.accepted_keys())["keys"]
    ]
    return _published_keys(schemas.Jwks(keys=keys))


@router.get("/healthz", auth=None, summary="The process is alive", response=schemas.Alive)
def healthz(request: HttpRequest) -> HttpResponse:
    return json_response(schemas.Alive(status="alive"))


@router.get(
    "/readyz",
    auth=None,
    summary="Readiness, and what is missing",
    response={200: schemas.Ready, 503: schemas.Ready},
)
def readyz(request: HttpRequest) -> HttpResponse:
    found = readiness()
    return json_response(found, 200 if found.ready else 503)


def readiness() -> schemas.Ready:
    """Readiness, and what is missing; the web process asks for it on a thread of its own."""
    reasons = [*_database(), *_broker(), *_epoch()]
    return schemas.Ready(ready=not reasons, reasons=reasons)


@router.get("/jwks.json", auth=None, summary="The keys that sign grants", response=schemas.Jwks)
def jwks(request: HttpRequest) -> HttpResponse:
    return _published_keys(schemas.Jwks.of(grants.jwks(grant_keys.accepted_keys())))


def _published_keys(keys: schemas.Jwks) -> HttpResponse:
    published = json_response(keys)
    published["Cache-Control"] = f"public, max-age={grant_keys.JWKS_MAX_AGE_S}"
    return published


def _epoch() -> list[schemas.Missing]:
    try:
        read_epoch(settings.COUNTERFOIL_EPOCH)
    except EpochUnknown as unknown:
        return [schemas.Missing(code="EPOCH", detail=unknown.detail)]
    return []


def _database() -> list[schemas.Missing]:
    try:
        pending = MigrationExecutor(connection).migration_plan(MigrationExecutor(connection).loader.graph.leaf_nodes())
        late = after.count_overdue_readings(at=timezone.now() - timedelta(minutes=1))
        waiting = log.backlog()
        gaps = fences.missing_fences() if not pending else []
    except DatabaseError:
        return [schemas.Missing(code="DATABASE", detail="The database does not answer.")]
    found: list[schemas.Missing] = []
    if pending:
        found.append(schemas.Missing(code="MIGRATIONS", detail=f"{len(pending)} migrations have not run."))
    found += [schemas.Missing(code="FENCE", detail=gap) for gap in gaps]
    if late:
        found.append(
            schemas.Missing(code="SWEEPER", detail=f"{late} readings are over a minute late; is a worker running?")
        )
    if waiting.is_late:
        age = f"{waiting.oldest_s or 0:.0f} s"
        told = f"{waiting.waiting} events are not sequenced yet, the oldest for {age}; is the sequencer running?"
        found.append(schemas.Missing(code="SEQUENCER", detail=told))
    return found


def _broker() -> list[schemas.Missing]:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as client:
            client.ping()
    except redis.RedisError:
        return [schemas.Missing(code="BROKER", detail="The broker does not answer; readings wait for the sweeper.")]
    return []
