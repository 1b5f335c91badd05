"""A real Roundup, looked at as its web pages show it."""

from __future__ import annotations

import hashlib
import subprocess
from datetime import UTC, datetime

import httpx
import pytest

from reviews.checks.catalogue import check_for
from reviews.checks.interface import SystemAccess
from tests.peers.support import environment

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CHECK = check_for("browser")
PINS = ("roundup==2.6.0",)
SERVE = """
import sys
from wsgiref.simple_server import make_server
from roundup.cgi.wsgi_handler import RequestDispatcher
make_server("127.0.0.1", int(sys.argv[2]), RequestDispatcher(sys.argv[1])).serve_forever()
"""
CHALLENGE = """<html><head><title>One moment</title></head><body>
<form id="challenge-form"><div class="h-captcha" data-sitekey="10000000-ffff-ffff-ffff-000000000001"></div></form>
<script src="https://js.hcaptcha.com/1/api.js" async defer></script></body></html>"""
CONFIRM = {"path": "'/rest/data/issue/' + sr.issue", "where": {"data/attributes/title": "sr.title"}}
LOOKUP = {
    "page": "'/issue' + sr.issue",
    "element": "input[name=title]",
    "text": "sr.title",
    "shown": {"subject": "input[name=title]", "nosy": "input[name=nosy]", "keyword": "select[name=status]"},
    "error": "p.error-message",
    "account": {"selector": "p.userblock b", "name": "'reader'"},
    "confirmation": CONFIRM,
    "target_field": "subject",
}


class Tracker:
    """The server, written to by us through its API as the administrator."""

    def __init__(self, url, folder):
        self.url = url
        self.folder = folder
        headers = {"X-Requested-With": "rest", "Origin": url, "Referer": f"{url}/"}
        self.client = httpx.Client(base_url=f"{url}/rest/data/", auth=("admin", "secret"), headers=headers,
                                   trust_env=False, timeout=30)  # fmt: skip

    def make(self, kind, **fields):
        said = self.client.post(kind, json=fields)
        assert said.status_code == 201, said.text
        return said.json()["data"]["id"]

    def rename(self, number, title):
        tag = self.client.get(f"issue/{number}").headers["etag"]
        answer = self.client.put(f"issue/{number}/title", json={"data": title}, headers={"If-Match": tag})
        assert answer.status_code == 200, answer.text

    def retire(self, kind, number):
        tag = self.client.get(f"{kind}/{number}").headers["etag"]
        assert self.client.delete(f"{kind}/{number}", headers={"If-Match": tag}).status_code == 200


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    python = environment.peer_python(PINS)
    folder = tmp_path_factory.mktemp("roundup")
    home, port = folder / "tracker", environment.free_port()
    admin = [str(python.with_name("roundup-admin")), "-i", str(home)]
    home.mkdir()
    environment.output([*admin, "install", "classic", "sqlite"])
    settings = (home / "config.ini").read_text()
    for name, value in (("web", f"http://127.0.0.1:{port}/"), ("domain", "example.test"), ("host", "127.0.0.1")):
        settings = settings.replace(f"#{name} = NO DEFAULT", f"{name} = {value}")
    (home / "config.ini").write_text(settings)
    subprocess.run([*admin, "initialise", "secret"], check=True, capture_output=True, timeout=120)
    # A page of another kind, served as it stands: what a gateway puts before the tracker.
    (home / "html" / "challenge.html").write_text(CHALLENGE)
    (home / "html" / "page.css").write_text("p { color: black }")
    (folder / "serve.py").write_text(SERVE)
    argv = [str(python), str(folder / "serve.py"), str(home), str(port)]
    url = f"http://127.0.0.1:{port}"
    with environment.running(argv, folder / "roundup.log", ready=environment.answers(f"{url}/@@file/page.css")):
        made = Tracker(url, home)
        made.make("user", username="reader", password="word", roles="User", address="reader@example.test")
        yield made
        made.client.close()


@pytest.fixture
def issue(tracker):
    return tracker.make("issue", title="Refund o-17")


def look(tracker, number, *, title="Refund o-17", settings=None, user="reader", **part):
    lookup = {name: value for name, value in (LOOKUP | part).items() if value is not None}
    given = {"url": tracker.url, **(settings or {})}
    return CHECK.read(
        system=SystemAccess("tracker", "browser_automation", given, {"user": user, "password": "word"}),
        verification={"lookup": {"effects": {"submit": lookup}}},
        bindings={"sr": {"issue": number, "title": title, "sha256": hashlib.sha256(b"p { color: black }").hexdigest()}},
        at=AT,
        timeout_s=20,
    )
