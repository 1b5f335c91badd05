"""docs/risks.md: each of the two risks is traced to controls, and every row to tests and guides that exist."""

from __future__ import annotations

import re

import pytest

from tests.test_threats import ROOT, known_tests

TEXT = (ROOT / "docs" / "risks.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
CONTROLS = {
    "Excessive Agency": {"gate.md", "approvals.md"},
    "Improper Output Handling": {"guard.md", "verification.md"},
}


def rows(section: str) -> list[list[str]]:
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| ") and "`test_" in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.req("R-CX-14")
@pytest.mark.parametrize("section", sorted(CONTROLS))
def test_each_risk_is_traced_to_controls_with_guides_and_tests_that_exist(section: str):
    known, guides = known_tests(), set()
    found = rows(section)
    assert len(found) >= 5
    for risk, control, where, shown_by in found:
        assert control, risk
        guide = re.fullmatch(r"\[([a-z]+\.md)\]\(\1\)", where)
        assert guide, risk
        assert (ROOT / "docs" / guide[1]).is_file(), risk
        guides.add(guide[1])
        named = set(re.findall(r"`(test_\w+)`", shown_by))
        assert named, risk
        assert named <= known, (risk, named - known)
    assert guides >= CONTROLS[section]
