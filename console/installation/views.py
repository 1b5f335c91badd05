"""The state of the installation, as reported by each of its parts."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render

from console.edge.http import TenantRequest, in_tenant
from console.telemetry import health

FAMILIES = {"in_order": "true", "failed": "false", "unknown": "unknown"}
WORDS = {"in_order": "In order", "failed": "Failed", "unknown": "Not known"}


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    checks = health.installation_status()
    rows = [(check, FAMILIES[check.state], WORDS[check.state]) for check in checks]
    failed = sum(check.state == "failed" for check in checks)
    return render(request, "installation/status.html", {"rows": rows, "failed": failed})
