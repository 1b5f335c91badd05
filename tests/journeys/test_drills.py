"""The drills, in short: each runs an installation of its own and tells by its exit code whether all went well."""

from __future__ import annotations

import pytest

from deploy.drills import table

CANNOT_RUN = 3

# A drill kills what its threads talk to, and ends while some of them wait.
IGNORED = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
pytestmark = [pytest.mark.long, IGNORED]


@pytest.mark.parametrize("name", table.SHORT)
def test_nothing_is_lost_doubled_false_or_stuck(name: str):
    outcome = table.run_short(name)
    if outcome.code == CANNOT_RUN:
        pytest.skip(outcome.reason)
    assert outcome.code == 0, outcome
