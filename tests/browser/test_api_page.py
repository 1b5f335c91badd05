"""The API's own page in a browser: it works under our policy, asks no other host, and fits a phone."""

from __future__ import annotations

from typing import Any


def test_the_api_page_opens_without_browser_errors_and_without_requests_to_other_hosts(
    people: Any, site: Any, width: str
):
    reader = people(width)
    asked: list[str] = []
    reader.page.on("request", lambda request: asked.append(request.url))
    reader.page.goto(f"{site.url}/api/v1/docs")
    reader.page.locator("#execution_start summary").click()
    reader.page.get_by_text("DPoP", exact=True).first.wait_for()
    assert all(url.startswith(f"{site.url}/") for url in asked)
    assert reader.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
