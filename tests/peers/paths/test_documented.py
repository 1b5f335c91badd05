"""What docs/checks.md says of the indicators is what the tables and the tests say."""

from __future__ import annotations

import re
from pathlib import Path

from reviews.reconciliation.rules.discrepancies import INDICATORS, PARAMETERS
from tests.peers.support.path import STATES
from tests.support.tables import every_row

ROOT = Path(__file__).resolve().parents[3]
ROWS = re.findall(
    r"(?m)^\| `(\w+)` \| `(\w+)` \| [^|]+ \| ([A-Z_]+) \| (RT-\d\d) \|$", (ROOT / "docs" / "checks.md").read_text()
)


def test_every_indicator_is_in_the_docs_once():
    assert len(ROWS) == 74
    assert {key for _, key, _, _ in ROWS} == set(INDICATORS)
    assert {pattern for pattern, _, _, _ in ROWS} == set(PARAMETERS)


@every_row(("pattern", "indicator", "discrepancy", "row"), ROWS)
def test_every_indicator_leads_to_the_documented_row(pattern, indicator, discrepancy, row):
    assert discrepancy == INDICATORS[indicator]
    weak = {"RT-02"} if indicator == "freshness_not_guaranteed" else set()
    assert row in STATES[discrepancy][0] | weak


@every_row(("pattern", "indicator", "discrepancy", "row"), ROWS)
def test_every_documented_indicator_is_provoked_by_a_path_test(pattern, indicator, discrepancy, row):
    files = (ROOT / "tests" / "peers" / "paths").glob("test_path_*.py")
    assert any(f'"{indicator}"' in file.read_text() for file in files)
