"""The Action page checks its own proof in the browser, step by step, and fails where everybody sees it."""

from __future__ import annotations

import base64
import json

import pytest

from tests.browser.conftest import PHONE_IS_LONG
from tests.support.seals import seal_up

STEPS = "[data-part=place] [data-proof-steps] li"


@pytest.fixture
def sealed(site):
    action_id = site.stage.done()
    seal_up()
    return action_id


def steps(page, outcome):
    page.locator(f"[data-part=place] [data-proof][data-outcome={outcome}]").wait_for()
    return [(each.get_attribute("data-outcome"), each.inner_text()) for each in page.locator(STEPS).all()]


@PHONE_IS_LONG
@pytest.mark.req("R-UI-13", "R-LE-02")
def test_the_browser_verifies_the_proof_of_an_action(people, site, sealed, width):
    page = people(width).enter("reviewer").page
    page.goto(site.page(f"actions/{sealed}"))
    told = steps(page, "holds")
    assert [outcome for outcome, _ in told] == ["true"] * 4
    said = " ".join(words for _, words in told)
    for part in (
        "hashes to the entry hash",
        "lead from entry",
        "The log's key has signed that root",
        "not seen this log",
    ):
        assert part in said, part
    assert page.locator("[data-proof-broken]").first.is_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_browser_rejects_a_log_that_does_not_continue_the_one_it_saw_before(people, site, sealed):
    person = people().enter("reviewer")
    page = person.page
    person.go(f"actions/{sealed}")
    steps(page, "holds")
    other = site.stage.done()
    seal_up()
    person.go(f"actions/{other}")
    assert "continues the" in steps(page, "holds")[-1][1]
    # As if the log had been rewritten since: the same sizes, another past.
    page.evaluate(
        "for (const name of Object.keys(localStorage)) if (name.startsWith('log:')) { const kept ="
        " JSON.parse(localStorage[name]); kept.size = '3'; kept.root = '00'.repeat(32);"
        " localStorage[name] = JSON.stringify(kept); }"
    )
    person.go(f"actions/{sealed}")
    assert steps(page, "broken")[-1] == ("false", "The log does not continue what this browser saw before.")
    page.get_by_text("Proof invalid.").wait_for()


def test_an_entry_in_the_side_panel_is_verified_on_request(people, site, sealed):
    person = people().enter("compliance")
    person.go(f"actions/{sealed}")
    person.page.get_by_role("link", name="event 2").click()
    inspector = person.page.get_by_role("complementary", name="Inspector")
    inspector.get_by_role("button", name="Check in this browser").click()
    inspector.locator("[data-proof][data-outcome=holds]").wait_for()
    assert inspector.locator("[data-proof-steps] li").count() == 4


# Every member of the answer is under the signature or leads there: whatever is changed on the way is found.


def flipped(text):
    return ("0" if text[0] != "0" else "1") + text[1:]


def other_signature(told):
    note = told["checkpoint"]
    head, _, line = note.rstrip("\n").rpartition(" ")
    raw = bytearray(base64.b64decode(line))
    raw[10] ^= 1
    return {"checkpoint": f"{head} {base64.b64encode(bytes(raw)).decode()}\n"}


def other_root(told):
    lines = told["checkpoint"].split("\n")
    lines[2] = base64.b64encode(bytes(32)).decode()
    return {"checkpoint": "\n".join(lines)}


DAMAGE = {
    "envelope": (lambda told: {"envelope": told["envelope"].replace('"seq":', '"seq": ')}, "The envelope hashes to"),
    "path": (lambda told: {"hashes": [flipped(told["hashes"][0]), *told["hashes"][1:]]}, "does not lead to the root"),
    "shorter path": (lambda told: {"hashes": told["hashes"][1:]}, "shorter than the tree is high"),
    "longer path": (lambda told: {"hashes": [*told["hashes"], "00" * 32]}, "longer than the tree is high"),
    "index": (lambda told: {"index": 0}, "The path "),
    "root": (other_root, "does not lead to the root"),
    "signature": (other_signature, "The signature over the checkpoint is not good."),
    "key": (lambda told: {"keys": []}, "No key of the log has signed this checkpoint."),
    "origin": (
        lambda told: {"checkpoint": told["checkpoint"].replace(told["origin"], "elsewhere.example/log")},
        "The checkpoint is of another log.",
    ),
}


@pytest.mark.req("R-LE-02")
@pytest.mark.parametrize("part", DAMAGE)
def test_an_answer_that_was_tampered_with_fails_visibly(people, site, sealed, part):
    change, words = DAMAGE[part]
    page = people().enter("reviewer").page

    def tamper(route):
        told = json.loads(route.fetch().text())
        route.fulfill(json=told | change(told))

    page.route("**/events/*/*/proof", tamper)
    page.goto(site.page(f"actions/{sealed}"))
    outcome, said = steps(page, "broken")[-1]
    assert (outcome, words in said) == ("false", True), said
    page.get_by_text("Proof invalid. Contact compliance immediately.").wait_for()
