"""The pictures of docs/console.md and docs/approvals.md: what each person sees of a tenant that the test makes.

With `COUNTERFOIL_PICTURES=docs/images pytest -m long tests/browser/test_gallery.py` they are made again in that folder.
"""

from __future__ import annotations

import base64
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import SIZES, look_at
from tests.support.pure.approvals_guide import TEXT
from tests.support.seals import seal_up

DOCS = Path(__file__).resolve().parents[2] / "docs"
# By document: name, role, page, theme, size. The page is a format of what the tenant below has.
PICTURES = {
    "console": [
        ("reviewer-home", "reviewer", "", "light", "wide"),
        ("reviewer-approval", "reviewer", "approvals/{approval}", "dark", "phone"),
        (
            "reviewer-split",
            "reviewer",
            "approvals/{next}?beside=inbox&item={next}&decided={decided}",
            "light",
            "wide",
        ),
        ("operator-case", "operator", "cases/{case}", "light", "wide"),
        ("operator-home", "operator", "", "dark", "phone"),
        ("compliance-audit", "compliance", "audit", "dark", "wide"),
        ("compliance-record", "compliance", "actions/{done}/narrative", "light", "phone"),
        ("administrator-freezes", "administrator", "freezes", "light", "wide"),
        ("administrator-people", "administrator", "people", "dark", "tablet"),
        ("reader-action", "", "actions/{done}", "light", "wide"),
    ],
    "approvals": [
        ("channels", "administrator", "notices/channels", "light", "wide"),
        ("request", "reviewer", "approvals/{approval}", "light", "wide"),
        ("request-phone", "reviewer", "approvals/{approval}", "dark", "phone"),
        ("queue", "reviewer", "approvals", "light", "wide"),
        ("people", "administrator", "people", "light", "wide"),
        ("edit", "reviewer", "approvals/{next}/edit", "light", "wide"),
    ],
}
NAMES = {
    "reviewer": "dana@{}",
    "operator": "omar@{}",
    "compliance": "carla@{}",
    "administrator": "ada@{}",
    "": "max@{}",
}


@pytest.fixture
def shown(site):
    """A morning at the shop: requests, a refund that was made twice, one that holds, and a freeze."""
    from console.metrics.operations import update_metrics
    from ledger.catalogue.operations import registration
    from ledger.db import tenancy
    from ledger.record.operations import SYSTEM
    from tests.support.scenes import now

    stage = site.stage
    waiting = [
        stage.propose(order_id="EX-7F3A21", amount=2050, goal="Refund the order in full: the lamp arrived broken."),
        stage.propose(order_id="EX-19C0DE", amount=48900, goal="The chair never came; give the money back."),
    ]
    case, done = stage.case(count=2, ids=(811, 812)), stage.done()
    with tenancy(stage.tenant):
        registration.place_freeze(
            tenant_id=stage.tenant,
            scope="agent",
            value="support",
            reason="It asked for one refund twice.",
            actor=SYSTEM,
            at=now(),
        )
        update_metrics(tenant_id=stage.tenant, at=datetime.now(UTC))
    first, second, decided = (stage.approval(each).id for each in (*waiting, done))
    return {"approval": first, "next": second, "decided": decided, "case": case.id, "done": done}


@pytest.mark.parametrize("document", PICTURES)
def test_every_picture_of_the_gallery_is_in_its_document(document):
    text = TEXT if document == "approvals" else (DOCS / f"{document}.md").read_text()
    told = re.findall(rf"\(images/{document}/([a-z-]+)\.webp\)", text)
    assert sorted(told) == sorted(name for name, *_ in PICTURES[document])
    assert sorted(each.stem for each in (DOCS / "images" / document).iterdir()) == sorted(told)


@pytest.mark.long
@pytest.mark.parametrize("document", PICTURES)
def test_each_page_of_the_gallery_fits_its_screen(people, site, shown, tmp_path, document):
    folder = Path(os.environ.get("COUNTERFOIL_PICTURES", tmp_path)) / document
    folder.mkdir(exist_ok=True)
    signed_in: dict[str, Any] = {}
    for name, role, path, look, size in PICTURES[document]:
        if role not in signed_in:
            named = NAMES[role].format(site.stage.slug)
            signed_in[role] = people(reduced_motion="reduce").sign_in(*([role] if role else []), name=named)
        person = signed_in[role]
        seal_up()
        look_at(person, look, size)
        person.go(path.format(**shown))
        assert person.page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0], name
        (folder / f"{name}.webp").write_bytes(photograph(person.page))


def photograph(page) -> bytes:
    """What stands on the screen, small enough for a repository."""
    session = page.context.new_cdp_session(page)
    taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": 70})
    return base64.b64decode(taken["data"])
