"""docs/risks.md, docs/claims.md and docs/security*.md: every row is traced to tests, guides and files that exist."""

from __future__ import annotations

import json
import re
from collections import Counter

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
def test_each_risk_names_existing_controls_guides_and_tests(section: str):
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


CLAIMS = (ROOT / "docs" / "claims.md").read_text()
CLAIM_SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", CLAIMS, re.MULTILINE | re.DOTALL))
LISTS = {
    "AARM, R1 to R9": [f"R{number}" for number in range(1, 10)],
    "OWASP, ten risks of agentic applications": [f"ASI{number:02}" for number in range(1, 11)],
}


@pytest.mark.parametrize("section", sorted(LISTS))
def test_each_claim_names_existing_evidence_and_its_limits(section):
    known = known_tests()
    lines = [line for line in CLAIM_SECTIONS[section].splitlines() if re.match(r"\| (R|ASI)\d", line)]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[0] for row in rows] == LISTS[section]
    for name, asked, answer, evidence, not_claimed in rows:
        assert all((asked, answer, not_claimed)), name
        cited = re.findall(r"`([^`]+)`", evidence)
        assert cited, name
        tests = {each for each in cited if each.startswith("test_")}
        assert tests <= known, (name, tests - known)
        for file in set(cited) - tests:
            assert (ROOT / file).is_file(), (name, file)


def test_no_conformance_is_claimed():
    assert "no conformance is claimed" in " ".join(CLAIMS.split())


# ASVS 5.0.0, levels 1 and 2

SECURITY_PAGES = ("security.md", "security-accounts.md", "security-operation.md")
SECURITY = "\n".join((ROOT / "docs" / page).read_text() for page in SECURITY_PAGES)
ANSWERS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in SECURITY.splitlines() if re.match(r"\| V\d", line)
]
REQUIREMENTS = json.loads((ROOT / "tests" / "vectors" / "asvs-5.0.0-level-2.json").read_text())


def test_every_requirement_has_one_row_in_its_order():
    assert [row[0] for row in ANSWERS] == list(REQUIREMENTS)


def test_every_answer_is_one_of_three_and_counted_on_the_page():
    assert {row[2] for row in ANSWERS} <= {"met", "not met", "not applicable"}
    counted = Counter(row[2] for row in ANSWERS)
    first = Counter(row[2] for row in ANSWERS if REQUIREMENTS[row[0]] == 1)
    sentence = (
        f"{counted['met']} of {len(ANSWERS)} requirements are met, {counted['not met']} are not, "
        f"{counted['not applicable']} concern what the product does not have. "
        f"Of the {first.total()} of level 1, {first['met']} are met, {first['not met']} are not and "
        f"{first['not applicable']} do not concern it."
    )
    assert sentence in SECURITY


def test_every_row_names_what_exists():
    """What is met has evidence; whatever is named is there, and what is not met says why."""
    known = known_tests()
    for name, asked, answer, shown in ANSWERS:
        assert asked, name
        assert shown, name
        cited = re.findall(r"`([^`]+)`", shown)
        tests = {each for each in cited if each.startswith("test_")}
        files = {each for each in cited if "/" in each and ":" not in each} | ({"Makefile", "uv.lock"} & set(cited))
        guides = set(re.findall(r"\]\(([a-z-]+\.md)(?:#[a-z-]+)?\)", shown))
        assert tests <= known, (name, tests - known)
        assert all((ROOT / each).is_file() for each in files), (name, files)
        assert all((ROOT / "docs" / each).is_file() for each in guides), (name, guides)
        assert answer != "met" or tests | files | guides | ({"pyproject.toml"} & set(cited)), name
