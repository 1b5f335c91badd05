"""Tickets worked on in a real Roundup tracker over REST, and read back with an account that may only view."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from reviews.checks.tickets import Tickets
from tests.peers import environment

pytestmark = pytest.mark.long

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
        return Tickets().read(
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


@pytest.mark.req("R-CP-06", "R-VD-03")
def test_a_ticket_is_found_by_the_action_that_made_it(desk):
    desk.create(actionkey="key-11")
    number = desk.create(assignedto="colleague", priority="bug")
    desk.comment(number, "Bulb ordered, o-17.")
    found = desk.look(fields=["title", "status", "priority"], tenant_field="account", comment="'o-17'")
    (effect,) = found.effects
    assert (effect.present, effect.count) == (True, 1)
    assert effect.scope == {"tenant": ("acme",)}
    assert effect.fields == {
        "title": "Broken lamp",
        "status": "chatting",  # the tracker's own doing, when somebody comments
        "priority": "bug",
        "object_id": number,
        "etag": desk.etag(number),
        "actor": "bot",
        "creator": "bot",
        "created_at": effect.fields["created_at"],
        "changed_at": effect.fields["changed_at"],
        "assignee": "colleague",
        "comments": 1,
        "comment": "Bulb ordered, o-17.",
    }
    assert found.indicators == ()
    assert found.consistency is Consistency.STRONG
    assert desk.etag(number) in found.freshness


@pytest.mark.req("R-CP-06", "R-CP-16")
def test_a_ticket_made_twice_is_a_duplicate(desk):
    desk.create()
    desk.create()
    found = desk.look()
    assert found.effects[0].count == 2
    assert found.indicators == ("duplicate_ticket",)


@pytest.mark.req("R-CP-06")
def test_the_wrong_assignee_is_seen(desk):
    desk.create(assignedto="colleague")
    assert desk.look(assignee="'bot'").indicators == ("wrong_assignee",)
    assert desk.look(assignee="'colleague'").indicators == ()


class TestUpdates:
    SET = {"status": "'resolved'", "assignedto": "'bot'"}

    @pytest.mark.req("R-CP-06")
    def test_a_change_is_there_with_its_history(self, desk):
        number = desk.create()
        started = datetime.now(UTC)
        assert desk.look(number, set=self.SET).effects[0].present is False
        assert desk.change(number, status="resolved", assignedto="bot").status_code == 200
        found = desk.look(number, set=self.SET, executed_at=started)
        assert found.effects[0].present
        assert found.effects[0].fields["actor"] == "bot"
        assert found.indicators == ()

    @pytest.mark.req("R-CP-06")
    def test_a_change_in_part_is_seen(self, desk):
        number = desk.create()
        desk.change(number, status="resolved")
        found = desk.look(number, set=self.SET)
        assert found.effects[0].present
        assert found.indicators == ("missing_field_update",)

    @pytest.mark.req("R-CP-06")
    def test_a_comment_that_is_missing_is_seen(self, desk):
        number = desk.create(status="resolved")
        found = desk.look(number, set={"status": "'resolved'"}, comment="'ordered'")
        assert found.indicators == ("missing_field_update",)

    @pytest.mark.req("R-CP-06", "R-DC-06")
    def test_somebody_who_was_faster_is_seen(self, desk):
        number = desk.create()
        before = desk.etag(number)
        desk.change(number, status="chatting", user=("colleague", "word"))
        refused = desk.change(number, etag=before, status="resolved", assignedto="bot")
        assert refused.status_code == 412
        found = desk.look(number, set=self.SET, pre={"effects": {"work": {"etag": before}}})
        assert found.effects[0].present is False
        assert found.effects[0].fields["actor"] == "colleague"
        assert found.indicators == ("stale_state",)

    @pytest.mark.req("R-CP-06")
    def test_a_lock_is_seen(self, desk):
        number = desk.create(locked="yes")
        found = desk.look(number, set=self.SET, locked_field="locked")
        assert found.indicators == ("record_lock",)
        desk.change(number, status="resolved", assignedto="bot")
        assert desk.look(number, set=self.SET, locked_field="locked").indicators == ()

    @pytest.mark.req("R-CP-06")
    def test_a_state_without_an_entry_in_the_history_is_seen(self, desk):
        number = desk.create(status="resolved", assignedto="bot")
        later = datetime.now(UTC) + timedelta(minutes=10)
        found = desk.look(number, set=self.SET, executed_at=later)
        assert found.indicators == ("missing_change_history_entry",)


class TestAbsence:
    def test_nothing_like_it_is_absent(self, desk):
        desk.create(actionkey="key-11")
        assert desk.look().effects[0].present is False
        assert desk.look("99").effects[0].present is False

    def test_a_retired_ticket_is_gone(self, desk):
        number = desk.create()
        assert desk.look(number, expect="absent").effects[0].present is False
        desk.retire(number)
        assert desk.look(number).effects[0].present is False
        found = desk.look(number, expect="absent")
        assert (found.effects[0].present, found.effects[0].count) == (True, 1)

    def test_more_than_is_walked_proves_nothing(self, desk, monkeypatch):
        monkeypatch.setattr("reviews.checks.tickets.PAGE", 1)
        monkeypatch.setattr("reviews.checks.tickets.MAX_PAGES", 2)
        for _ in range(3):
            desk.create()
        assert desk.look(set={"status": "'resolved'"}).effects[0].present is None

    def test_a_ticket_is_found_over_many_pages(self, desk, monkeypatch):
        monkeypatch.setattr("reviews.checks.tickets.PAGE", 2)
        for _ in range(5):
            desk.create()
        assert desk.look().effects[0].count == 5


@pytest.mark.req("R-VD-16")
def test_a_tracker_that_does_not_answer_is_an_outage(desk):
    with pytest.raises(CheckFailed) as failed:
        desk.look(settings={"url": f"http://127.0.0.1:{environment.free_port()}"})
    assert failed.value.retryable


def test_a_password_that_is_refused_is_not_the_end(desk):
    with pytest.raises(CheckFailed) as failed:
        desk.look(password="wrong")
    assert failed.value.retryable


def test_a_kind_that_is_not_there_never_answers(desk):
    with pytest.raises(CheckFailed) as failed:
        desk.look(kind="nothing")
    assert not failed.value.retryable


def test_only_listed_kinds_are_read(desk):
    with pytest.raises(CheckFailed, match="not among"):
        desk.look(kind="user", settings={"kinds": ["issue"]})


def test_an_id_never_leads_elsewhere(desk):
    with pytest.raises(CheckFailed, match="no record"):
        desk.look("1/../../user/1")


def test_the_viewer_cannot_write(desk):
    number = desk.create()
    assert desk.change(number, user=("viewer", "word"), status="resolved").status_code == 403


def test_the_catalogue_has_it():
    assert isinstance(check_for("crm_ticketing"), Tickets)
