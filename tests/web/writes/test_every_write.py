"""Each write asked of the API and of its page: the proof, the second person, and what it then has done."""

from __future__ import annotations

import pytest

from tests.support.admissions import FRESH_PROOF, OPERATIONS, SECOND_PERSON
from tests.support.probes import Day
from tests.web.writes.check import faults_of
from tests.web.writes.scenes import WRITES
from tests.web.writes.write import Write


@pytest.mark.req("R-UI-20")
@pytest.mark.parametrize("write", WRITES, ids=lambda each: each.operation)
def test_a_write_accepts_and_changes_what_the_tables_state(day: Day, write: Write):
    assert not faults_of(write, day)


def test_the_columns_name_existing_writes_of_the_document():
    assert FRESH_PROOF | SECOND_PERSON <= {each.operation for each in WRITES} <= set(OPERATIONS)
