"""docs/threats.md: every row says what stops a threat, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "threats.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if re.match(r"\| [STRIDE] \|", line)
]


def known_tests() -> set[str]:
    sources = (file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    return {name for source in sources for name in re.findall(r"^ *(?:async )?def (test_\w+)", source, re.MULTILINE)}


def test_every_threat_names_a_countermeasure_and_an_existing_test():
    known = known_tests()
    for kind, threat, stops, shown_by in ROWS:
        assert all((kind, threat, stops)), threat
        named = re.findall(r"`(test_\w+)`", shown_by)
        assert named, threat
        assert set(named) <= known, (threat, set(named) - known)


@pytest.mark.parametrize("letter", "STRIDE")
def test_every_category_of_threat_has_an_entry(letter: str):
    assert [row for row in ROWS if row[0] == letter]
