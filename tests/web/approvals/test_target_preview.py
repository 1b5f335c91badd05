"""The target on the approval page: what is there, what will be, what is lost, and that nothing was read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from approvals.requests.operations import target_drift
from approvals.requests.queries import approvals
from ledger.db import tenancy
from ledger.record import operations as ledger
from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import words
from tests.support.preparing import asked, prepared_contract, read
from tests.support.refund_shop import Counter

PREVIEW = {
    "fields": [
        {"read": "target.status", "label": "Status", "after": "refunded"},
        {"read": "target.amount", "label": "Refunded", "unit": "minor", "after": "sr.amount"},
        {"read": "target.colour", "label": "Colour"},
    ],
    "lost": ["The voucher of the customer."],
}


def target_panel(shop: Workshop, action_id: str) -> str:
    approval = shop.approval_of(action_id)["approval_id"]
    page = shop.reviewer.client.get(f"/t/{shop.slug}/approvals/{approval}").content.decode()
    return words(re.split('data-part="target"', page)[1].split("</section>")[0])


def previewed(counter: Counter, secrets_dir: Path, preview: dict[str, Any]) -> Counter:
    return counter.open(secrets_dir, prepared_contract() | {"preview": preview})


def test_a_preview_shows_each_field_now_and_after(counter: Counter, secrets_dir: Path, clock: Clock):
    shop = previewed(counter, secrets_dir, PREVIEW)
    said = target_panel(shop, asked(shop, clock))
    assert "Field Now After Status paid refunded" in said
    assert "Refunded not in the reading 12.50 EUR" in said
    assert "Colour not in the reading as it is" in said
    assert "Will be lost: The voucher of the customer." in said
    assert "has not been read" not in said


@pytest.mark.parametrize(
    ("preview", "place", "said"),
    [
        ({"fields": [{"read": "target.status", "label": "Status", "after": "sr.colour"}]}, "/after", "`colour`"),
        ({"lost": []}, "/preview/lost", ""),
    ],
)
def test_an_invalid_preview_is_refused(counter: Counter, preview: Any, place: str, said: str):
    refused = counter.operator_key.post("/contracts", prepared_contract() | {"preview": preview})
    assert refused.status_code == 422
    assert any(place in each["path"] and said in each["detail"] for each in refused.json()["errors"])


def test_an_existing_document_is_not_shown_as_gone_and_an_unread_target_is_named(shop: Workshop, clock: Clock):
    action_id = shop.propose()
    unread = target_panel(shop, action_id)
    assert "The target has not been read. What is there now is not known" in unread
    with tenancy(shop.tenant):
        [approval] = approvals.approvals_of(shop.tenant, UUID(action_id))
        target_drift.request_reading(approval=approval, by=ledger.SYSTEM, at=clock.now())
    read(clock)
    said = target_panel(shop, action_id)
    assert "Effect deletion not there yet" in said
    assert "has not been read" not in said
    assert not re.search(r"false|[Ee]xists|\[", said)
