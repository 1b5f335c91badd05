"""The frame around every page on a phone: its bar of pages lies at the bottom, and may be wider than the screen."""

from __future__ import annotations

CURRENT = """() => {
  const [bar, here] = ['.rail-links', '.rail-link[aria-current]'].map(each => document.querySelector(each));
  const [whole, part] = [bar, here].map(each => each.getBoundingClientRect());
  return part.left >= whole.left - 1 && part.right <= whole.right + 1 && part.bottom <= window.innerHeight;
}"""


def test_on_a_phone_the_navigation_shows_the_current_page_and_that_there_are_more(people):
    person = people("phone").sign_in("reviewer", "operator", "compliance", "administrator")
    page = person.page
    person.wait_until("document.querySelector('.rail-links').hasAttribute('data-behind')")
    addresses = page.eval_on_selector_all(".rail-link[href]", "all => all.map(each => each.href)")
    assert len(addresses) > 10
    for address in addresses:
        page.goto(address)
        person.wait_until(f"({CURRENT})()")
    person.wait_until("document.querySelector('.rail-links').hasAttribute('data-before')")
    page.eval_on_selector(".rail-links", "bar => bar.scrollTo(bar.scrollWidth, 0)")
    person.wait_until("!document.querySelector('.rail-links').hasAttribute('data-behind')")
