"""A real Roundup tracker over REST, with an account that may only view."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import httpx
import pytest

from reviews.checks.interface import SystemAccess
from reviews.checks.tickets import TicketCheck
from tests.peers.support import environment

PINS = ("roundup==2.6.0",)
# roundup-server will not run as root; this is the same application behind the library's own WSGI server.
SERVE = (
    "import sys; from wsgiref.simple_server import make_server;"
    " from roundup.cgi.wsgi_handler import RequestDispatcher;"
    " make_server('127.0.0.1', int(sys.argv[2]), RequestDispatcher(sys.argv[1])).serve_forever()"
)
SCHEMA = """
db.security.addRole(name="Viewer", description="may look")
for right in ("Rest Access", "Web Access"):
    db.security.addPermissionToRole("Viewer", right)
for kind in ("issue", "msg", "status", "user", "priority", "keyword"):
    db.security.addPermissionToRole("Viewer", "View", kind)
"""


class Desk:
    """A tracker whose issues also have an action's key, an account and a lock."""

    def __init__(self, url):
        self.url = url
        asked = {"X-Requested-With": "desk", "Origin": url, "Referer": f"{url}/", "Accept-Encoding": "identity"}
        self.client = httpx.Client(base_url=f"{url}/rest/data", auth=("bot", "word"), headers=asked, trust_env=False)

    def create(self, **fields):
        usual = {"title": "Broken lamp", "actionkey": "key-1", "account": "acme", "status": "unread"}
        answer = self.client.post("/issue", data=usual | fields)
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]["id"]

    def etag(self, number):
        return self.client.get(f"/issue/{number}").headers["ETag"]

    def change(self, number, *, etag=None, user=None, **fields):
        return self.client.patch(
            f"/issue/{number}",
            data=fields,
            headers={"If-Match": etag or self.etag(number)},
            auth=user or httpx.USE_CLIENT_DEFAULT,
        )

    def comment(self, number, text):
        made = self.client.post("/msg", data={"content": text, "author": "bot"}).json()["data"]["id"]
        assert self.change(number, messages=made, **{"@op": "add"}).status_code == 200

    def retire(self, number):
        answer = self.client.request(
            "DELETE",
            f"/issue/{number}",
            auth=("admin", "word"),
            headers={"If-Match": self.etag(number), "Content-Type": "application/x-www-form-urlencoded"},
        )
        assert answer.status_code == 200, answer.text

    def look(self, number=None, *, settings=None, password="word", pre=None, executed_at=None, **part):
        way = {"id": "sr.issue"} if number else {"match": {"actionkey": "scope.idempotency_key"}}
        system = SystemAccess(
            "desk", "crm_ticketing", {"url": self.url} | (settings or {}), {"user": "viewer", "password": password}
        )
        bindings = {
            "sr": {"issue": number or ""},
            "scope": {"idempotency_key": "key-1", "executed_at": executed_at.isoformat() if executed_at else ""},
            "pre": pre or {},
        }
        return TicketCheck().read(
            system=system,
            verification={"lookup": {"effects": {"work": way | part}}},
            bindings=bindings,
            at=datetime.now(UTC),
            timeout_s=10,
        )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A tracker without tickets, made once."""
    python = environment.peer_python(PINS)
    folder = tmp_path_factory.mktemp("roundup") / "tracker"
    folder.mkdir()
    admin = [str(python.parent / "roundup-admin"), "-i", str(folder)]
    given = "tracker_web=http://127.0.0.1/,mail_domain=example.test,mail_host=localhost,mail_debug=mail.log"
    environment.output([*admin, "install", "classic", "sqlite", given])
    schema = folder / "schema.py"
    text = schema.read_text()
    own = 'issue = IssueClass(db, "issue", actionkey=String(), account=String(), locked=Boolean(),'
    assert 'issue = IssueClass(db, "issue",' in text
    schema.write_text(text.replace('issue = IssueClass(db, "issue",', own) + SCHEMA)
    environment.output([*admin, "initialise", "word"])
    for name, role in (("bot", "User"), ("colleague", "User"), ("viewer", "Viewer")):
        user = [f"username={name}", "password=word", f"roles={role}", f"address={name}@example.test"]
        environment.output([*admin, "create", "user", *user])
    return python, folder


@pytest.fixture
def desk(prepared, tmp_path):
    python, made = prepared
    folder = shutil.copytree(made, tmp_path / "tracker")
    port = environment.free_port()
    url = f"http://127.0.0.1:{port}"
    settings = folder / "config.ini"
    settings.write_text(settings.read_text().replace("http://127.0.0.1/", f"{url}/"))
    argv = [str(python), "-c", SERVE, str(folder), str(port)]
    with environment.running(argv, tmp_path / "roundup.log", ready=environment.listens(port)):
        desk = Desk(url)
        yield desk
        desk.client.close()
