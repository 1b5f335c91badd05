"""The frame around every page on a phone: its bar lies at the bottom, with four pages and the others under *More*."""

from __future__ import annotations

INSIDE = """() => {
  const bar = document.querySelector('.rail').getBoundingClientRect();
  const links = [...document.querySelectorAll('.rail-links .rail-link')].filter((each) => each.checkVisibility());
  return links.length === 5 && bar.bottom <= innerHeight && links.every((each) => {
    const box = each.getBoundingClientRect();
    return box.left >= 0 && box.right <= innerWidth && each.scrollWidth <= each.clientWidth + 1;
  });
}"""


def test_on_a_phone_every_page_is_in_the_bar_or_under_more_and_the_current_one_is_marked(people):
    person = people("phone").enter("reviewer", "operator", "compliance", "administrator").go()
    page = person.page
    more = page.get_by_role("button", name="More")
    own = page.eval_on_selector_all(".rail-links .rail-link[href]", "all => all.map(each => each.href)")
    further = page.eval_on_selector_all("#more-places .rail-link", "all => all.map(each => each.href)")
    assert len(own) > 10
    assert further == own[4:]
    for address in (own[0], further[0], further[-1]):
        page.goto(address)
        person.wait_until(f"({INSIDE})()")
        assert (more.get_attribute("aria-current") == "true") is (address in further)
    more.click()
    page.locator("#more-places").get_by_role("link", name="Systems").click()
    page.wait_for_url("**/systems")
