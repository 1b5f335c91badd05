"""What is handed on is printed whole and without the console around it: records, cases, reports, exports, the audit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# What people work with and nobody reads on paper.
AROUND = ".rail, .topbar, .filters, .tabs, .crumbs, .jump, .button, button, .pager, dialog, .no-print"
SEEN = """(selector) => [...document.querySelectorAll(selector)]
    .filter(each => each.checkVisibility({contentVisibilityAuto: true})).map(each => each.outerHTML.slice(0, 120))"""

# What is folded on the screen and not on the paper either; a form is nothing to hand on.
FOLDED = """() => [...document.querySelectorAll('main details:not([open]) > :not(summary)')]
    .filter(each => !each.closest('details:has(form), .decide:has(form), .filters') && each.textContent.trim()
        && !each.checkVisibility({contentVisibilityAuto: true})).map(each => each.outerHTML.slice(0, 120))"""


@pytest.fixture
def pages(site):
    """Each page with what must stand on its paper."""
    from ledger.db import tenancy
    from ledger.exports.operations import exports
    from ledger.record.operations import SYSTEM
    from reviews import queries
    from tests.support.scenes import now

    stage = site.stage
    case, done = stage.case(count=2, ids=(811, 812)), stage.done()
    with tenancy(stage.tenant):
        exports.request_export(
            tenant_id=stage.tenant, wanted={"filters": {"action": str(done)}, "payloads": True}, by=SYSTEM, at=now()
        )
        incident = queries.incidents_of(stage.tenant, case.id)[0].id
    payload = stage.approval(done).payload_hash
    return {
        "action": (f"actions/{done}", ["Verified", "125.00 EUR", payload, "Log", "Timeline"]),
        "narrative": (f"actions/{done}/narrative", ["What happened", "all hashes recomputed"]),
        "case": (f"cases/{case.id}", ["811", "812", "Timeline", "125.00 EUR"]),
        "post-mortem": (f"incidents/{incident}/post-mortem", ["Post-mortem", "From facts of the ledger only"]),
        "audit": ("audit", ["Event", "Log index"]),
        "exports": ("audit/exports", [str(done)]),
        "metrics": ("metrics/", ["Metrics"]),
        "quality": ("approvals/quality", ["Reviewer"]),
    }


@pytest.mark.req("R-UI-26")
def test_shared_pages_are_printed_completely_without_the_frame(people, site, pages):
    """By somebody who has chosen the dark theme. `COUNTERFOIL_PICTURES=folder` keeps each page as a PDF."""
    person = people(color_scheme="dark").enter("compliance", "operator")
    page, folder = person.page, os.environ.get("COUNTERFOIL_PICTURES")
    for name, (path, wanted) in pages.items():
        person.go(path)
        page.emulate_media(media="print")
        paper = page.locator("main").inner_text()
        assert [each for each in wanted if each not in paper] == [], name
        assert page.evaluate(SEEN, AROUND) == [], name
        assert page.evaluate(FOLDED) == [], name
        ground = "getComputedStyle(document.querySelector('.panel')).backgroundColor"
        assert page.evaluate(ground) == "rgb(255, 255, 255)", name
        if folder:
            page.pdf(path=str(Path(folder) / f"{name}.pdf"), format="A4", print_background=True)
        page.emulate_media(media="screen")
