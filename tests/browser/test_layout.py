"""Every page at three sizes in two themes: nothing is covered, cut off or wider than the screen, and the first screen
contains the sentence that answers the page's question.

With `COUNTERFOIL_CONTACT_SHEET=folder` the long suite writes a sheet of all pages for each size and theme.
"""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

import pytest

from tests.browser.test_accessible import paths  # noqa: F401
from tests.support.admissions import ROLES

SCREENS = {"desktop": (1440, 900), "tablet": (1024, 768), "phone": (390, 844)}
THEMES = ("light", "dark")
FAULTS = """() => {
  const faults = [], wide = document.documentElement.clientWidth;
  const name = (one) => (one.id || one.getAttribute("name") || one.textContent).trim().slice(0, 40);
  const seen = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getClientRects().length > 0;
  const over = document.documentElement.scrollWidth - wide;
  if (over > 0) faults.push(`scrolls sideways by ${over}`);
  const quiet = ".visually-hidden, .skip, .scroll, .raw, .strip, .excerpt, pre, textarea, select, svg, [popover]";
  for (const one of document.querySelectorAll("body *")) {
    const words = [...one.childNodes].filter((node) => node.nodeType === 3 && node.textContent.trim());
    if (!words.length || one.closest(quiet) || !seen(one)) continue;
    const style = getComputedStyle(one);
    const clips = [one, one.parentElement].some((each) => {
      const drawn = getComputedStyle(each);
      const hides = drawn.overflowX !== "visible" && drawn.textOverflow !== "ellipsis";
      return hides && each.scrollWidth > each.clientWidth + 1;
    });
    if (clips && style.clipPath === "none") faults.push(`cut off: ${name(one)}`);
    const cut = one.closest(".clip, .rows .main, .queue .card, .beside") || style.textOverflow === "ellipsis";
    for (const node of cut ? [] : words) {
      const range = document.createRange();
      range.selectNodeContents(node);
      const box = range.getBoundingClientRect();
      if (box.width && (box.right > wide + 1 || box.left < -1)) faults.push(`leaves the screen: ${name(one)}`);
    }
  }
  const drawn = document.createElement("canvas").getContext("2d");
  for (const one of document.querySelectorAll("input[placeholder]")) {
    if (!seen(one) || one.value) continue;
    const style = getComputedStyle(one);
    drawn.font = style.font;
    const room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (drawn.measureText(one.placeholder).width > room + 1) faults.push(`cut off: ${one.placeholder}`);
  }
  const bars = ".rail, .topbar, .bar, .arrivals, .inspector";
  for (const one of document.querySelectorAll("main :is(a, button, input, select, textarea, summary)")) {
    if (!seen(one) || one.closest(".visually-hidden, .skip") || one.closest(bars)) continue;
    one.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
    const box = one.getClientRects()[0];
    const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const bar = hit?.closest(bars);
    if (bar && !one.contains(hit)) faults.push(`covered by ${bar.className}: ${name(one)}`);
  }
  scrollTo(0, 0);
  return [...new Set(faults)];
}"""
SEEN = """() => {
  const found = [];
  for (const one of document.querySelectorAll("main :is(h1, h2, p, dt, dd, th, td, li, span, strong, a, summary)")) {
    const box = one.getBoundingClientRect();
    const seen = one.checkVisibility({ visibilityProperty: true }) && box.height && box.bottom <= innerHeight;
    if (seen) found.push(one.innerText);
  }
  return found.join(" ").replace(/\\s+/g, " ");
}"""


# The sentence on the first screen of a page, at a desk and on a phone: the answer to what the page is opened for.
ANSWERS = {
    "home": r"cases? and [0-9]+ incidents? need a person",
    "approvals": r"[0-9]+ requests? waits? for approval\.",
    "approval": r"Approval required: irreversible; no tool undoes it\.",
    "approval-edit": r"The edited request gets its own",
    "quality": r"the last [0-9]+ days",
    "standing-approvals": r"No standing approval is in force\.",
    "emergencies": r"due soonest first",
    "cases": r"[0-9]+ open cases? needs? a person\.",
    "target": r"order/",
    "case": r"2 refunds exist; one of 125\.00 EUR was approved\.|The system changed without a recorded action\.",
    "incidents": r"incidents? (is|are) open\.",
    "freezes": r"freezes? (is|are) in force\.",
    "systems": r"systems of record used for verification",
    "installation": r"check",
    "actions": r"newest first",
    "action": r"Not settled\. It waits for a person to review it\.",
    "agents": r"agents? needs? attention\.",
    "metrics": r"Now: ",
    "notices": r"[0-9]+ unread\.|Nothing unread\.",
    "ledger": r"Status",
}


@pytest.mark.long
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_first_screen_contains_the_sentence_that_answers_the_question_of_its_page(people, site, paths, size):  # noqa: F811
    person = people(reduced_motion="reduce").sign_in(*ROLES)
    width, height = SCREENS[size]
    person.page.set_viewport_size({"width": width, "height": height})
    missing = []
    for name, path in paths:
        if name not in ANSWERS:
            continue
        person.go(path)
        said = person.page.evaluate(SEEN)
        if not re.search(ANSWERS[name], said):
            missing.append(f"{name}: {said[:300]}")
    assert not missing, "\n".join(missing)


@pytest.mark.long
@pytest.mark.parametrize("size", SCREENS)
def test_no_page_covers_cuts_off_or_scrolls_sideways_in_either_theme(people, site, paths, size, tmp_path):  # noqa: F811
    person = people(reduced_motion="reduce").sign_in(*ROLES)
    width, height = SCREENS[size]
    found = []
    for theme in THEMES:
        person.page.set_viewport_size({"width": width, "height": height})
        person.page.emulate_media(color_scheme=theme)
        pictures = []
        for name, path in paths:
            person.go(path)
            found += [f"{theme} {name}: {each}" for each in person.page.evaluate(FAULTS)]
            pictures.append((name, person.page.screenshot(type="jpeg", quality=60)))
        if folder := os.environ.get("COUNTERFOIL_CONTACT_SHEET"):
            Path(folder).mkdir(exist_ok=True, parents=True)
            (Path(folder) / f"{size}-{theme}.html").write_text(contact_sheet(pictures, width))
    assert not found, "\n".join(found)


def contact_sheet(pictures: list[tuple[str, bytes]], width: int) -> str:
    """One page with a small picture of each page, under the name of its address."""
    figures = "".join(
        f'<figure><img src="data:image/jpeg;base64,{base64.b64encode(data).decode()}" width="{width // 3}" alt="">'
        f"<figcaption>{name}</figcaption></figure>"
        for name, data in pictures
    )
    style = "body { font: 14px sans-serif; display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; }"
    return f"<!doctype html><html lang=en><title>Contact sheet</title><style>{style}</style>{figures}"
