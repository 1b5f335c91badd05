"""The commonest tasks take the clicks and keys that docs/console.md says, and none takes more than before."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser.tasks import TASKS, Task, counted

DOC = Path(__file__).resolve().parents[2] / "docs" / "console.md"
ROW = re.compile(r"\| (?P<name>[^|]+?) \| (?P<who>[^|]+?) \| (\d+) \+ (\d+) \| (\d+) \+ (\d+) \|")
# What is done most often is counted with every change, the rest in the long suite.
OFTEN = {"Approve a refund", "Have a case verified now", "Lift a freeze"}


def table() -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    """Of each task clicks and keys, before and now."""
    rows = [match.groups() for match in ROW.finditer(DOC.read_text())]
    return {row[0]: ((int(row[2]), int(row[3])), (int(row[4]), int(row[5]))) for row in rows}


def test_no_task_takes_more_clicks_and_keys_than_before():
    told = table()
    assert list(told) == [each.name for each in TASKS]
    assert [name for name, (before, after) in told.items() if sum(after) > sum(before)] == []


@pytest.mark.parametrize(
    "one",
    [pytest.param(each, id=each.name, marks=() if each.name in OFTEN else pytest.mark.long) for each in TASKS],
)
def test_a_task_takes_the_clicks_and_keys_that_the_table_states(people, site, one: Task):
    person = people().sign_in(*([one.role] if one.role else []))
    assert counted(one, person) == table()[one.name][1]
