"""Every control of a page is reached with the Tab key alone, in the order of reading, and is seen to be."""

from __future__ import annotations

import pytest

from tests.support.outside.recorded import keep_recording

# What somebody can act on, and sees: nothing that is switched off, hidden, or in a part that is folded away. Of a
# group of radio buttons the Tab key reaches one; arrows reach the others.
CONTROLS = """() => {
  const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')];
  const groups = new Set();
  let number = 0;
  for (const each of all) {
    if (each.disabled || each.type === 'hidden' || !each.checkVisibility({visibilityProperty: true})) continue;
    if (each.closest('dialog:not([open])')) continue;
    if (each.type === 'radio' && each.name) {
      if (groups.has(each.name)) continue;
      groups.add(each.name);
      const chosen = document.querySelector(`input[name="${each.name}"]:checked`) || each;
      chosen.dataset.walk = number++;
      continue;
    }
    each.dataset.walk = number++;
  }
  return all.filter(each => each.dataset.walk).map(each => each.outerHTML.slice(0, 160));
}"""
FOCUSED = """() => {
  const here = document.activeElement;
  if (!here || here === document.body) return null;
  // A link that covers its card shows the focus around the card.
  const card = here.closest('.card');
  const seen = [null, '::after'].some(part => getComputedStyle(here, part).outlineStyle !== 'none') ||
    (card && getComputedStyle(card).boxShadow.includes('0px 0px 0px 1px'));
  const walk = here.dataset.walk === undefined ? -1 : Number(here.dataset.walk);
  return [walk, Boolean(seen), here.outerHTML.slice(0, 160)];
}"""


@pytest.fixture
def paths(site):
    waiting = site.stage.approval(site.stage.propose())
    recording = f"recordings/{keep_recording(site.stage.slug)}"
    member = site.stage.person("operator", name=f"other@{site.stage.slug}")
    return [
        "",
        "approvals",
        f"approvals/{waiting.id}",
        f"approvals/{waiting.id}/edit",
        "approvals/quality",
        "emergencies",
        "people",
        f"people/{member.id}",
        "me",
        "notices",
        "notices/channels",
        "recordings",
        recording,
        f"{recording}/1",
        f"{site.url}/account",
    ]


def test_every_control_of_the_approval_pages_is_reached_by_tab_and_visible(people, site, paths):
    person = people(reduced_motion="reduce").sign_in("reviewer", "operator", "administrator")
    for path in paths:
        person.page.goto(path if path.startswith("http") else site.page(path))
        controls, walked, unseen = walk_again(person.page)
        assert walked == sorted(walked), f"{path}: the order of Tab is not that of the page"
        missed = [text for number, text in enumerate(controls) if number not in walked]
        assert (missed, unseen) == ([], []), path


def walk_again(page):
    """The page's controls and the walk through them.

    A page that is brought up to date meanwhile has other controls, and the part that held the focus may be gone, so
    the walk is begun again. A control that Tab never reaches is missed each time.
    """
    for _ in range(5):
        controls = page.evaluate(CONTROLS)
        walked, unseen = walk(page, len(controls))
        if walked == list(range(len(controls))):
            break
    return controls, walked, unseen


def walk(page, count):
    """The controls in the order in which Tab reaches them, and those on which nothing shows it."""
    page.evaluate("document.activeElement.blur(); window.getSelection().removeAllRanges()")
    walked, unseen = [], []
    for _ in range(count * 4):
        page.keyboard.press("Tab")
        here = page.evaluate(FOCUSED)
        # A field for a time has several stops of its own.
        if here is not None and walked and here[0] == walked[-1]:
            continue
        if here is None or here[0] in walked:
            break
        walked.append(here[0])
        if not here[1]:
            unseen.append(here[2])
    return walked, unseen
