"""The commonest tasks take the clicks and keys of docs/console.md and the steps of docs/how-to.md, and none takes more
than before.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser.tasks import TASKS, Task, carried_out

DOC = Path(__file__).resolve().parents[2] / "docs" / "console.md"
ROW = re.compile(r"\| (?P<name>[^|]+?) \| (?P<who>[^|]+?) \| (\d+) \+ (\d+) \| (\d+) \+ (\d+) \|")
STEPS = dict(re.findall(r"^### (.+)\n\n((?:\d\. .+\n)+)", DOC.with_name("how-to.md").read_text(), re.MULTILINE))
"""The steps of each task."""
PRESSED = re.compile(r"\*\*(.+?)\*\*|`(.+?)`|\*(.+?)\*")
"""The words on a control, a key, or a control whose words differ each time."""
# What is done most often is counted with every change, the rest in the long suite.
OFTEN = {"Approve a refund", "Have a case verified now", "Lift a freeze"}


def table() -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    """Of each task clicks and keys, before and now."""
    rows = [match.groups() for match in ROW.finditer(DOC.read_text())]
    return {row[0]: ((int(row[2]), int(row[3])), (int(row[4]), int(row[5]))) for row in rows}


def test_no_task_takes_more_clicks_and_keys_than_before():
    told = table()
    assert list(told) == list(STEPS) == [each.name for each in TASKS]
    assert [name for name, (before, after) in told.items() if sum(after) > sum(before)] == []


@pytest.mark.parametrize(
    "one",
    [pytest.param(each, id=each.name, marks=() if each.name in OFTEN else pytest.mark.long) for each in TASKS],
)
def test_a_task_takes_the_steps_of_the_guide_and_the_clicks_and_keys_of_the_table(people, site, one: Task):
    # Whoever has just signed in is not asked for the password again, which the table does not count.
    person = people().sign_in(*([one.role] if one.role else []))
    hand = carried_out(one, person)
    assert (hand.clicks, hand.keys) == table()[one.name][1]
    steps = STEPS[one.name]
    pressed = [re.escape(exact or key).replace("…", ".+") or ".+" for exact, key, _ in PRESSED.findall(steps)]
    assert [bool(re.fullmatch(*pair)) for pair in zip(pressed, hand.words, strict=True)] == [True] * len(pressed), (
        hand.words
    )
    assert [quoted for quoted in re.findall(r'"(.+?)"', steps) if quoted not in hand.read] == []
