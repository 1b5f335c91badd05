"""Radicale, a CalDAV server from a package, with one account."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from reviews.checks.calendar import CalendarCheck
from reviews.checks.interface import SystemAccess
from tests.peers.support import environment

PINS = ("radicale==3.9.0",)
BINDINGS = {"sr": {"calendar": "ann/work", "zone": "Europe/Berlin"}, "scope": {"idempotency_key": "key-1"}}
LOOKUP = {
    "calendar": "sr.calendar",
    "uid": "scope.idempotency_key",
    "fields": ["X-ORDER"],
    "tenant_property": "X-TENANT",
    "target_property": "X-ORDER",
}
EVENT = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:{uid}
DTSTAMP:20260301T120000Z
{more}ORGANIZER:mailto:ann@example.test
SUMMARY:{summary}
X-ORDER:{order}
X-TENANT:{tenant}
BEGIN:VALARM
ACTION:DISPLAY
DESCRIPTION:soon
TRIGGER:-PT15M
END:VALARM
END:VEVENT
END:VCALENDAR
"""
USUAL = (
    "DTSTART;TZID=Europe/Berlin:20260302T090000",
    "DTEND;TZID=Europe/Berlin:20260302T093000",
    'ATTENDEE;CN="Bob; the: builder";PARTSTAT=ACCEPTED:mailto:Bob@example.test',
    "RRULE:FREQ=WEEKLY;COUNT=3",
    "CONFERENCE;VALUE=URI:https://meet.example.test/1",
    "STATUS:TENTATIVE",
    "SEQUENCE:2",
)


RIGHTS = """
[own]
user: ann
collection: ann(/.*)?
permissions: RrWw
[shared]
user: reader
collection: ann(/.*)?
permissions: Rr
"""


class Planner:
    """A calendar server with the account ann, who has a calendar `work`, and one that may only read it."""

    def __init__(self, url):
        self.url = url
        self.client = httpx.Client(base_url=url, auth=("ann", "word"), trust_env=False)
        self.client.request("MKCALENDAR", "/ann/work/").raise_for_status()

    def put(self, uid="key-1", *lines, name=None, summary="Visit\\, first", replaced=(), order="o-17", tenant="acme"):
        kept = [line for line in USUAL if line.split(":")[0].split(";")[0] not in replaced]
        more = "".join(f"{line}\n" for line in [*kept, *lines])
        data = EVENT.format(uid=uid, more=more, summary=summary, order=order, tenant=tenant).replace("\n", "\r\n")
        answer = self.client.put(
            f"/ann/work/{name or uid}.ics", content=data, headers={"Content-Type": "text/calendar"}
        )
        answer.raise_for_status()
        return answer.headers["ETag"]

    def look(self, *, settings=None, bindings=BINDINGS, password="word", **part):
        lookup = {name: value for name, value in (LOOKUP | part).items() if value is not None}
        system = SystemAccess(
            "planner", "calendar", {"url": self.url} | (settings or {}), {"user": "reader", "password": password}
        )
        return CalendarCheck().read(
            system=system,
            verification={"lookup": {"effects": {"book": lookup}}},
            bindings=bindings,
            at=datetime.now(UTC),
            timeout_s=10,
        )


@pytest.fixture
def planner(tmp_path):
    python = environment.peer_python(PINS)
    port = environment.free_port()
    users = tmp_path / "users"
    users.write_text("ann:word\nreader:word\n")
    rights = tmp_path / "rights"
    rights.write_text(RIGHTS)
    argv = [str(python), "-m", "radicale", "--config", "", "--server-hosts", f"127.0.0.1:{port}"]
    argv += ["--auth-type", "htpasswd", "--auth-htpasswd-filename", str(users), "--auth-htpasswd-encryption", "plain"]
    argv += ["--rights-type", "from_file", "--rights-file", str(rights)]
    argv += ["--auth-delay", "0", "--storage-filesystem-folder", str(tmp_path / "calendars")]
    url = f"http://127.0.0.1:{port}"
    with environment.running(argv, tmp_path / "radicale.log", ready=environment.answers(url)):
        planner = Planner(url)
        yield planner
        planner.client.close()
