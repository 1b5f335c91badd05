"""Every page at four sizes in two themes: nothing is covered, cut off or wider than the screen, and the first screen
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

SCREENS = {"desktop": (1440, 900), "tablet": (1024, 768), "portrait": (820, 1180), "phone": (390, 844)}
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
    if (style.clipPath !== "none") continue;
    const clips = [one, one.parentElement].some((each) => {
      const drawn = getComputedStyle(each);
      const hides = drawn.overflowX !== "visible" && drawn.textOverflow !== "ellipsis";
      return hides && each.scrollWidth > each.clientWidth + 1;
    });
    if (clips) faults.push(`cut off: ${name(one)}`);
    const cut = one.closest(".clip, .rows .main, .queue .card, .beside") || style.textOverflow === "ellipsis";
    for (const node of cut ? [] : words) {
      const range = document.createRange();
      range.selectNodeContents(node);
      const box = range.getBoundingClientRect();
      if (box.width && (box.right > wide + 1 || box.left < -1)) faults.push(`leaves the screen: ${name(one)}`);
    }
  }
  for (const one of document.querySelectorAll(".panel:has(> .table)")) {
    if (one.scrollWidth > one.clientWidth + 1) faults.push(`a table is wider than its frame: ${name(one)}`);
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
    "home": r"cases? and [0-9]+ incidents? wait for you",
    "approvals": r"[0-9]+ requests? waits? for approval\.",
    "approval": r"Approval required: irreversible; no tool undoes it\.",
    "approval-edit": r"The edited request gets its own",
    "quality": r"No figure of the last 30 days can be shown: there are too few decisions, or you may not see them\.",
    "standing-approvals": r"No standing approval is in force\.",
    "emergencies": r"No use of break-glass waits for review\.",
    "cases": r"[0-9]+ open cases? needs? a person\.",
    "target": r"1 action 125\.00 EUR requested in total frozen",
    "case": r"2 refunds exist; one of 125\.00 EUR was approved\.|The system changed without a recorded action\.",
    "case-narrative": r"From facts of the ledger only, as of",
    "batches": r"[0-9]+ batch(es are| is) not finished\.",
    "batch": r"0 of 1 processed",
    "incidents": r"incidents? (is|are) open\.",
    "incident-new": r"An incident gathers the actions, cases and freezes of one problem",
    "incident": r"Operations incident open for",
    "incident-review": r"From facts of the ledger only, as of",
    "freezes": r"freezes? (is|are) in force\.",
    "runbooks": r"[0-9]+ runbooks, one for each kind of failure",
    "help": r"A request begins with its risk and the reason for asking",
    "glossary": r"Eighteen terms, each with one meaning",
    "search": r"[0-9]+ results? for “EX-”",
    "actions": r"[0-9]+ of [0-9]+ actions of the last 24 hours waits? for a person\.",
    "claims": r"0 verified of 1 claimed in the last seven days\.",
    "claim": r"Not safe to claim yet: shop has not been read\.",
    "action": r"Not settled\. It waits for a person to review it\.",
    "action-entry": r"proposed",
    "action-trace": r"The whole action, in progress",
    "action-replay": r"Replayed under the policies of its time: same result",
    "action-narrative": r"From facts of the ledger only, as of",
    "evidence": r"Kind Payload Source agent support",
    "run": r"complete; every step verified",
    "session": r"Completed so far: nothing\.",
    "systems": r"(None|[0-9]+) of [0-9]+ systems (has|have) been read; no reading fails\. No action waits",
    "installation": r"[0-9]+ of [0-9]+ checks failed|No check failed",
    "agents": r"agents? (is|are) flagged\.",
    "agent": r"[0-9]+ of [0-9]+ calls named a tool that does not exist",
    "agent-stopped": r"trainee is stopped",
    "calls": r"(None|[0-9]+) of [0-9]+ calls of the last 7 days (was|were) blocked\.",
    "hallucinations": r"(None|[0-9]+) of [0-9]+ calls of the last 7 days names? an unknown tool\.",
    "recordings": r"[0-9]+ recordings? (was|were) imported\.",
    "recording": r"imported .* [0-9]+ messages [0-9]+ calls",
    "recorded-conversation": r"1 unsupported",
    "executors": r"[0-9]+ executors? (is|are) registered\.",
    "contracts": r"1 tool has a contract in force\.",
    "contract-new": r"a tool's arguments, its effects and how they are read back",
    "contract": r"Refund money on a paid order of the example shop; it cannot be taken back\.",
    "policies": r"Approval is required for every critical mutation",
    "policy": r"A change is attempted at most once",
    "policy-touched": r"Of [0-9]+ verified actions in this period, none would have been decided differently\.",
    "releases": r"1 change is not in force yet\.",
    "release-draft": r"based on the version in force",
    "release": r"It decides some live actions; the version in force decides all others\.",
    "guides": r"[1-9][0-9]* guides\. Each page of the console names its own at the foot\.",
    "guide": r"The ledger is the append-only record of everything that agents, people and executors did",
    "metrics": r"Now: ",
    "metric-actions": r"This address does not name a figure\.",
    "costs": r"No cost of .* so far is priced\.",
    "prices": r"No budget: nobody is notified of costs\.",
    "event": r"Reviewers were asked to decide\.",
    "audit": r"No checkpoint has been signed yet\.|Events are not sequenced yet\.|The latest signed checkpoint covers",
    "sightings": r"(At least )?[0-9]+ (person|people) opened a page about something in the last 24 hours\.",
    "exports": r"[0-9]+ exports? (is|are) in progress\.",
    "holds": r"No erasure waits for a second person; (no|[0-9]+) legal holds? (is|are) in force\.",
    "ledger": r"1 alarm is open: do not rely on the record until somebody has found out why\.",
    "people": r"[0-9]+ people are members\.",
    "member": r"active for",
    "me": r"Available\.",
    "notices": r"[0-9]+ unread\.|Nothing unread\.",
    "notice-channels": r"Nothing undelivered\.",
    "event-export": r"No destination",
}


@pytest.mark.long
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_first_screen_contains_the_sentence_that_answers_the_question_of_its_page(people, site, paths, size):  # noqa: F811
    person = people(reduced_motion="reduce").sign_in(*ROLES)
    width, height = SCREENS[size]
    person.page.set_viewport_size({"width": width, "height": height})
    missing = []
    for name, path in paths:
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
