"""The glossary: eighteen terms, the same in the console and in docs/glossary.md, one click from every page."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from console.glossary.terms import TERMS
from tests.support.api_tenant import Workshop

GUIDE = Path(__file__).parents[3] / "docs" / "glossary.md"


@pytest.mark.req("R-CX-11")
def test_the_glossary_page_defines_eighteen_terms_and_the_guide_agrees(shop: Workshop):
    answer = shop.reviewer.client.get(f"/t/{shop.slug}/glossary")
    assert answer.status_code == 200
    rows = re.findall(r'<tr id="[a-z-]+"><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>',
                      answer.content.decode())  # fmt: skip
    shown = [tuple(unescape(cell) for cell in row) for row in rows]
    assert len(shown) == 18
    assert shown == [(term.name, term.meaning, term.consequence, term.here) for term in TERMS]
    told = re.findall(r"^\| ([A-Z].*?) \| (.*?) \| (.*?) \| (.*?) \|$", GUIDE.read_text(), re.MULTILINE)
    assert [row for row in told if row[0] != "Term"] == shown


def test_every_page_links_to_the_glossary(shop: Workshop):
    page = shop.reviewer.client.get(f"/t/{shop.slug}/").content.decode()
    assert f'<a href="/t/{shop.slug}/glossary">Glossary</a>' in page
