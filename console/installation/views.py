"""The state of the installation, as reported by each of its parts."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render

from console.edge.http import TenantRequest, in_tenant
from console.telemetry import health

FAMILIES = {"failed": "false", "unknown": "unknown", "in_order": "true"}
WORDS = {"failed": "Failed", "unknown": "Not known", "in_order": "In order"}
FIRST_TO_LAST = tuple(WORDS)


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    """List all checks; what failed comes first, then what is not known."""
    checks = sorted(health.installation_status(), key=lambda check: FIRST_TO_LAST.index(check.state))
    rows = [(check, FAMILIES[check.state], WORDS[check.state]) for check in checks]
    counts = {state: sum(check.state == state for check in checks) for state in WORDS}
    return render(request, "installation/status.html", {"here": "installation", "rows": rows, "counts": counts})
