"""A real browser on a real server: the product's own web process over a database of the test's own."""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from console.local import processes, programs, servers
from console.local.keys import ensure_push_key
from tests.browser.chromium import FLAGS, Chromium, NoBrowser, find
from tests.conftest import _clone, _drop, _use, environment
from tests.support.outside.forking import forks

# Nothing takes so long where nothing is broken, however busy the machine is.
WITHIN_MS = 90_000
WIDTHS = {"desktop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
# A page that is left ends the request that it was making, and htmx says so. Of one that failed the browser itself says
# that it failed to load.
ABORTED = ("htmx:afterRequest", "htmx:sendAbort", "htmx:sendError")
# For what is quick to show at a desk alone: tests/browser/test_decisions.py decides on a phone, too.
PHONE_IS_LONG = pytest.mark.parametrize("width", ["desktop", pytest.param("phone", marks=pytest.mark.long)])
SIZES = {"wide": (1440, 900), "tablet": (820, 1180), "phone": (390, 844)}


@pytest.fixture(scope="package")
def chromium() -> Chromium:
    try:
        return find()
    except NoBrowser as reason:
        pytest.skip(f"browser tests: {reason}")


@pytest.fixture(scope="package")
def browser(chromium: Chromium) -> Iterator[Any]:
    from playwright.sync_api import Error, sync_playwright

    # Playwright leaves a loop running in this thread, which Django would take for an asynchronous context.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(
                executable_path=chromium.path, args=list(FLAGS), env=os.environ | chromium.environment
            )
        except Error as fault:
            pytest.skip(f"browser tests: {chromium.path} does not start: {str(fault).splitlines()[0]}")
        yield started
        started.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@dataclass(frozen=True)
class Server:
    """A running web process, what it says, and the database that it is on."""

    url: str
    log: Path
    database: str


@pytest.fixture(scope="package")
def web_process(
    django_db_setup: None, run: Any, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The product's web process over a database of its own; each test has a tenant of its own there."""
    name = f"browser_{uuid4().hex[:12]}"
    _clone(run, name)
    log = tmp_path_factory.mktemp("web") / "web.log"
    port = servers.free_port()
    url = f"http://localhost:{port}"
    ensure_push_key(run.secrets)
    ours = {"COUNTERFOIL_PUBLIC_URL": url, "COUNTERFOIL_PUSH_SERVICES": "browsers"}
    told = os.environ | environment(run, name) | ours
    program = programs.web_program(port=port, environment=told, log=log.parent)
    # With the tests' own settings, whose passwords are hashed quickly.
    told = dict(program.environment) | {"DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"]}
    web = forks().spawn(replace(program, environment=told))
    try:
        ready = partial(_answers, f"{url}/sign-in", web)
        assert processes.wait_until(ready, within_s=WITHIN_MS / 1000), processes.tail_log(log, 40)
        yield Server(url, log, name)
    finally:
        processes.stop_children([web])
        _drop(run, name)


@pytest.fixture(scope="module")
def server(web_process: Server, django_db_blocker: Any) -> Iterator[Server]:
    """The web process, with the tests' own connections on its database as long as a module of the browser runs."""
    from django.db import connections

    shared = connections.settings["default"]["NAME"]
    _use(web_process.database)
    with django_db_blocker.unblock():
        yield web_process
        _use(shared)


@dataclass
class Site:
    """A running console with one tenant on it."""

    url: str
    stage: Any
    log: Path

    def page(self, path: str = "") -> str:
        return f"{self.url}/t/{self.stage.slug}/{path}"


@pytest.fixture
def site(server: Server) -> Site:
    """A tenant of the test's own. What the test does through `stage` is committed and seen by the server."""
    from django.core.cache import cache

    from tests.support.scenes import set_up

    # One address may sign in thirty times a minute, which quick tests exceed.
    cache.clear()
    return Site(server.url, set_up(f"orchid-{uuid4().hex[:8]}"), server.log)


def _answers(url: str, web: processes.Child) -> bool:
    assert web.running(), processes.tail_log(web.program.log, 40)
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


@dataclass
class Person:
    """Somebody at a browser, signed in; whatever the browser complains about is kept."""

    page: Any
    site: Site
    complaints: list[str] = field(default_factory=list)
    expected_complaints: list[str] = field(default_factory=list)

    def expects_complaint(self, words: str) -> None:
        """The browser may say this in its console. Said ahead of time, since its messages arrive when they like."""
        self.expected_complaints.append(words)

    def unexpected_complaints(self) -> list[str]:
        expected = [*self.expected_complaints, *ABORTED]
        return [each for each in self.complaints if not any(words in each for words in expected)]

    def sign_in(self, *roles: str, name: str = "") -> Person:
        from tests.support.scenes import PASSWORD

        username = self.site.stage.person(*roles, name=name).user.username
        self.page.goto(f"{self.site.url}/")
        self.page.get_by_label("Email").fill(username)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in", exact=True).click()
        self.page.wait_for_url(f"**/t/{self.site.stage.slug}/")
        return self

    def enter(self, *roles: str, name: str = "") -> Person:
        """As somebody who has signed in before: with their session, and no page yet."""
        from django.conf import settings

        from tests.support.callers import new_session

        key = new_session(self.site.stage.person(*roles, name=name).user).session_key
        cookie = {"name": settings.SESSION_COOKIE_NAME, "value": key, "url": self.site.url}
        self.page.context.add_cookies([cookie])
        return self

    def go(self, path: str = "") -> Person:
        self.page.goto(self.site.page(path))
        return self

    def wait_until(self, condition: str) -> None:
        """Until this is so in the page. Asked from here: Playwright's own polling needs an `eval` that we forbid."""
        until = time.monotonic() + WITHIN_MS / 1000
        while not self._holds(condition):
            assert time.monotonic() < until, condition
            self.page.wait_for_timeout(50)

    def _holds(self, condition: str) -> bool:
        from playwright.sync_api import Error

        try:
            # While a page is being replaced it has no active element, and no body.
            return bool(self.page.evaluate(f"() => {{ try {{ return {condition}; }} catch {{ return false; }} }}"))
        except Error as fault:
            if "navigation" in str(fault):
                return False
            raise

    def go_live(self, path: str) -> None:
        """Go there and wait until the page hears of what changes."""
        with self.page.expect_response(lambda answer: "/api/v1/stream" in answer.url):
            self.go(path)


def acknowledge_unread(page: Any) -> None:
    """Tick that the target has not been read, where the page on which somebody decides asks for it."""
    page.locator("input[name=password]").first.wait_for(state="attached")
    tick = page.locator("[data-part=tick-unread] input")
    if tick.count():
        tick.check()


def look_at(person: Person, theme: str, size: str) -> None:
    """From now on the page is drawn in this theme at this size; it is not loaded again."""
    width, height = SIZES[size]
    person.page.set_viewport_size({"width": width, "height": height})
    person.page.emulate_media(color_scheme=theme)


@pytest.fixture(params=sorted(WIDTHS))
def width(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def people(browser: Any, site: Site) -> Iterator[Any]:
    """Makes a person with a browser of their own; at the end none may have heard a complaint."""
    contexts, made = [], []

    def person(width: str = "desktop", **options: Any) -> Person:
        context = browser.new_context(viewport=WIDTHS[width], **options)
        context.set_default_timeout(WITHIN_MS)
        contexts.append(context)
        page = context.new_page()
        one = Person(page, site)
        page.on("console", lambda message: one.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: one.complaints.append(str(error)))
        made.append(one)
        return one

    yield person
    complaints = [complaint for one in made for complaint in one.unexpected_complaints()]
    for context in contexts:
        # A request that a test still holds up or alters ends with its page, not in the next test.
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")
        context.close()
    assert complaints == [], site.log.read_text()[-2000:]
