"""The words that docs/approvals.md and its sub-pages quote from pages and mails are the words that stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pure.approvals_guide import TEXT

ROOT = Path(__file__).parents[3]
# An example with a name and a time, which no page has.
EXAMPLES = {"Approved by Omar, 2026-11-24 12:04 UTC"}


def quoted() -> list[str]:
    """The emphasised phrases of the guide; its bold ones begin paragraphs."""
    text = re.sub(r"```.*?```|`[^`]*`|\*\*.*?\*\*", "", TEXT, flags=re.DOTALL)
    found = re.findall(r"(?<![*\w])\*([A-Z][^*]+)\*(?!\*)", text)
    return sorted({" ".join(each.split()).rstrip(".") for each in found} - EXAMPLES)


@pytest.fixture(scope="module")
def shown() -> str:
    files = [*(ROOT / "templates").rglob("*")]
    for package in ("console", "approvals", "ledger"):
        files += (ROOT / package).rglob("*.py")
    files += (ROOT / "console" / "static").rglob("*.js")
    return " ".join(" ".join(file.read_text().split()) for file in files if file.is_file())


def test_the_guide_quotes_some_words():
    assert len(quoted()) > 8


@pytest.mark.parametrize("phrase", quoted())
def test_a_quoted_phrase_stands_in_the_console(shown: str, phrase: str):
    assert phrase in shown
