"""Ways to write one forced push or one write outside, and harmless commands that look like them, kind by kind."""

from __future__ import annotations

import pytest

from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.shell import Refusal
from tests.client.coding_agents.scratch import forms, opened

TABLES = {"pushes_held": True, "writes_held": True, "pushes_run": False, "writes_run": False}


@pytest.fixture(scope="module")
def scratch():
    with pytest.MonkeyPatch.context() as patch, opened(patch) as found:
        yield found


def is_held(command, scratch):
    try:
        return read_command(command, scratch.project) is not None
    except Refusal:
        return True


def misjudged(lines, scratch, *, held):
    return [line for line in lines if is_held(scratch.fill(line), scratch) is not held]


@pytest.mark.parametrize("table", TABLES)
def test_an_example_of_each_kind_is_held_or_runs(table, scratch):
    examples = dict(reversed(forms(table)))
    before = scratch.refs(), scratch.files_outside()
    assert misjudged(examples.values(), scratch, held=TABLES[table]) == []
    assert (scratch.refs(), scratch.files_outside()) == before


@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_every_form_is_held_or_runs(table, scratch):
    before = scratch.refs(), scratch.files_outside()
    assert misjudged([line for _, line in forms(table)], scratch, held=TABLES[table]) == []
    assert (scratch.refs(), scratch.files_outside()) == before
