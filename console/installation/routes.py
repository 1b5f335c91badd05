"""Health of the process and of the installation, and the keys that sign grants."""

from __future__ import annotations

from datetime import UTC, datetime

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from ninja import Router

from approvals.execution.operations import grant_keys
from approvals.execution.rules import grants
from console.edge.transaction import json_response
from console.installation import schemas
from console.telemetry import health
from ledger.record.rules.envelope import instant

router = Router(tags=["Operations"])
_WINDOW = (("nbf", "from"), ("exp", "until"))


@login_not_required
def livez_page(request: HttpRequest) -> HttpResponse:
    return livez(request)


@login_not_required
def readyz_page(request: HttpRequest) -> HttpResponse:
    return readyz(request)


@login_not_required
def statusz_page(request: HttpRequest) -> HttpResponse:
    return statusz(request)


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


@router.get("/livez", auth=None, summary="The process is alive", response=schemas.Alive)
def livez(request: HttpRequest) -> HttpResponse:
    return json_response(schemas.Alive(status="alive"))


@router.get(
    "/readyz",
    auth=None,
    summary="This process can take requests, or the reasons why not",
    response={200: schemas.Ready, 503: schemas.Ready},
)
def readyz(request: HttpRequest) -> HttpResponse:
    found = readiness()
    return json_response(found, 200 if found.ready else 503)


def readiness() -> schemas.Ready:
    """The readiness of this process; the event loop asks for it on a thread of its own."""
    faults = health.readiness_faults()
    return schemas.Ready(
        ready=not faults, reasons=[schemas.Missing(code=each.code, detail=each.detail) for each in faults]
    )


@router.get(
    "/statusz",
    auth=None,
    summary="The state of the installation, each part with its code",
    response={200: schemas.InstallationStatus, 503: schemas.InstallationStatus},
)
def statusz(request: HttpRequest) -> HttpResponse:
    checks = [
        schemas.InstallationCheck(code=each.code, state=each.state, detail=each.detail, runbook=each.runbook)
        for each in health.installation_status()
    ]
    failed = any(each.state == "failed" for each in checks)
    return json_response(schemas.InstallationStatus(in_order=not failed, checks=checks), 503 if failed else 200)


@router.get("/jwks.json", auth=None, summary="The keys that sign grants", response=schemas.Jwks)
def jwks(request: HttpRequest) -> HttpResponse:
    return _published_keys(schemas.Jwks.of(grants.jwks(grant_keys.accepted_keys())))


def _published_keys(keys: schemas.Jwks) -> HttpResponse:
    published = json_response(keys)
    published["Cache-Control"] = f"public, max-age={grant_keys.JWKS_MAX_AGE_S}"
    return published
