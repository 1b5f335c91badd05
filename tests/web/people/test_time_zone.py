"""Times in the zone that a person chose, with UTC beside it."""

from __future__ import annotations

import re

from tests.support.browser_users import visitor


def test_times_are_shown_in_the_chosen_time_zone_and_in_utc(stage):
    stage.propose()
    operator = visitor(stage, "operator")
    assert re.search(r'title="[^"]+ UTC" data-ago', operator.page("actions"))
    answer = operator.client.post("/preferences", {"zone": "Asia/Kolkata"})
    assert answer.status_code == 302
    assert re.search(r'title="[^"]+ IST \([^"]+ UTC\)" data-ago', operator.page("actions"))
    assert "shown now in Asia/Kolkata" in operator.page("me")
    operator.client.post("/preferences", {"zone": "Nowhere/Else"})
    assert "shown now in Asia/Kolkata" in operator.page("me")
