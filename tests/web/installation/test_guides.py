"""The guides of the distribution as pages, linked from every page."""

from __future__ import annotations

import re

from console.guides.guides import guide_html, guide_names
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
