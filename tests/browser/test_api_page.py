"""The API's own page in a browser: it works under our policy, asks no other host, and fits a phone."""

from __future__ import annotations

from typing import Any


def test_the_page_of_the_api_opens_without_a_word_from_the_browser(people: Any, site: Any, width: str):
    reader = people(width)
    asked: list[str] = []
    reader.page.on("request", lambda request: asked.append(request.url))
    reader.page.goto(f"{site.url}/api/v1/docs")
    reader.page.locator("#execution_start summary").click()
    reader.page.get_by_text("DPoP", exact=True).first.wait_for()
    assert all(url.startswith(f"{site.url}/") for url in asked)
    assert reader.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
