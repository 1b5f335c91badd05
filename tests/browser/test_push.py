"""A browser that its person switches on, as far as one without a screen goes.

Chromium without a screen reaches no push service and draws no notification: so no address comes of the button here, and
what the worker asks to be shown is read in place of what is drawn. The button, the worker, its scope and the empty push
that Chromium hands to it are real.
"""

from __future__ import annotations

import json

SHOWN = """
    self.shown = [];
    self.registration.showNotification = async (title, options) => void self.shown.push([title, options]);
    null;
"""
UNTIL_SHOWN = """(async () => {
    while (!self.shown.length) await new Promise((done) => setTimeout(done, 20));
    return JSON.stringify(self.shown);
})()"""


def test_an_empty_push_shows_a_neutral_sentence_and_a_missing_push_service_is_reported(people, site):
    person = people("phone", is_mobile=True, has_touch=True).enter("reviewer")
    person.expects_complaint("Push API in incognito mode")
    page = person.page
    page.context.grant_permissions(["notifications"], origin=site.url)
    person.go("notices")
    page.get_by_role("button", name="Switch on for this device").click()
    page.get_by_text("This browser could not reach its push service. Nothing was switched on.").wait_for()

    [worker] = page.context.service_workers
    worker.evaluate(SHOWN)
    assert worker.evaluate("inbox()") == f"/t/{site.stage.slug}/notices"
    found, browser = [], page.context.new_cdp_session(page)
    browser.on("ServiceWorker.workerRegistrationUpdated", lambda told: found.extend(told["registrations"]))
    browser.send("ServiceWorker.enable")
    for _ in range(1000):
        if found:
            break
        page.wait_for_timeout(20)
    registration = found[0]
    assert registration["scopeURL"] == f"{site.url}/static/console/{site.stage.slug}/"
    push = {"origin": site.url, "registrationId": registration["registrationId"], "data": ""}
    browser.send("ServiceWorker.deliverPushMessage", push)
    [[title, options]] = json.loads(worker.evaluate(UNTIL_SHOWN))
    assert (title, options["body"], options["tag"]) == (
        "Counterfoil needs your attention",
        "Sign in for details.",
        "waits",
    )
    assert "actions" not in options, "nothing is decided from a notification"
