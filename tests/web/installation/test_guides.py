"""The guides of the distribution as pages, linked from every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from console.guides.guides import FOLDER, guide_html, guide_names
from console.web.labels import GUIDES
from tests.support.browser_users import visitor, words


def test_every_guide_is_a_page_whose_links_lead_to_guides_and_anchors_that_are_there(stage):
    person = visitor(stage, "reviewer")
    listed = person.page("docs/")
    for name in guide_names():
        assert f'/docs/{name}"' in listed
        page = person.page(f"docs/{name}")
        assert "<img" not in page.split("<article")[1].split("</article>")[0]
        for target, anchor in re.findall(r'href="([a-z0-9-]+)(#[^"]*)?"', guide_html(name)):
            assert target in guide_names(), (name, target)
            assert not anchor or f'id="{anchor[1:]}"' in guide_html(target), (name, target, anchor)
    assert person.get("docs/nothing").status_code == 404


def test_no_guide_is_longer_than_can_be_read_at_once_but_four():
    longer = {name for name in guide_names() if len((FOLDER / f"{name}.md").read_text().split()) > 4000}
    assert longer <= {"benchmarks", "checks", "coding-agents", "transcripts"}


def test_html_in_a_guide_is_shown_as_text_and_tables_are_tables():
    html = guide_html("approvals")
    assert '<table class="table">' in html
    assert "<!--" not in guide_html("client")


def test_each_page_links_the_guide_about_it(stage):
    person = visitor(stage, "reviewer", "operator", "compliance", "administrator")
    for path, name in (("approvals", "approvals"), ("cases", "cases"), ("policies/", "releases"), ("", "console")):
        assert f'<a href="/t/{stage.slug}/docs/{name}">Guide to this page</a>' in person.page(path), path
    assert set(GUIDES.values()) <= set(guide_names())
    assert f'<a href="/t/{stage.slug}/docs/">Guides</a>' in person.page("help")
    assert "Guide to this page" in words(person.page("people"))


FILES = sorted(
    each
    for pattern in ("*.md", "docs/**/*.md", "client/**/*.md", "tlog/*.md", "witness/*.md", "transcripts/*.md")
    for each in FOLDER.parent.glob(pattern)
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER.parent)))
def test_every_link_of_a_text_leads_to_a_file_and_a_heading_that_are_there(file: Path):
    text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
        there = (file.parent / target).resolve() if target else file
        assert there.exists(), (target, anchor)
        assert not anchor or anchor in headings(there), (target, anchor)


def headings(file: Path) -> set[str]:
    """The anchors of a text's headings, as repositories on the web make them."""
    text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", each).casefold()).replace(" ", "-")
        for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
