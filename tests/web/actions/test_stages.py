"""The eight stages of an action's life can be told apart on its page, each with its time."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.api_tenant import Clock, Workshop
from tests.web.actions.test_traces import deleted

NAMES = ["Planned", "Proposed", "Validated", "Attempted", "Observed", "Verified", "Reconciled", "Reported"]


def stages(shop: Any, action_id: str) -> dict[str, str]:
    """What the page says of each stage: its time, or nothing."""
    page = shop.reviewer.client.get(f"/t/{shop.slug}/actions/{action_id}").content.decode()
    panel = page.split('data-part="stages"')[1].split("</section>")[0]
    return dict(re.findall(r"<dt>(\w+)</dt><dd>(?:<time datetime=\"([^\"]+)\"|<span)", panel))


@pytest.mark.req("R-CX-01")
def test_a_finished_action_has_a_time_for_each_of_its_eight_stages_in_order(shop: Workshop, clock: Clock):
    found = stages(shop, deleted(shop, clock)["action_id"])
    assert list(found) == NAMES
    assert all(found.values())
    assert list(found.values()) == sorted(found.values())


def test_a_stage_that_was_not_reached_has_no_time(shop: Workshop):
    found = stages(shop, shop.propose())
    assert list(found) == NAMES
    assert [name for name, at in found.items() if at] == ["Planned", "Proposed", "Validated"]
