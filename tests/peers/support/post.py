"""pymap over a Maildir, and aiosmtpd delivering into it."""

from __future__ import annotations

import imaplib
import smtplib
import time
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage, MIMEPart

import pytest

from reviews.checks.email import EmailCheck
from reviews.checks.interface import SystemAccess
from tests.peers.support import environment

PINS = ("pymap==0.36.7", "aiosmtpd==1.4.6")
HASH = "from pysasl.hashing import BuiltinHash; print(BuiltinHash(rounds=1000).hash('word'))"
BINDINGS = {"sr": {"to": "ann@example.test", "subject": "Your refund"}, "scope": {"idempotency_key": "key-1"}}
LOOKUP = {
    "match": {"X-Idempotency-Key": "scope.idempotency_key"},
    "to": "sr.to",
    "fields": ["X-Order"],
    "target_header": "X-Order",
}


class Post:
    """A mail server with one account, and ways to put things into it."""

    def __init__(self, imap, smtp):
        self.imap, self.smtp = imap, smtp

    def message(self, key="key-1", to="ann@example.test", subject="Your refund", text="Ten euros.\n", **headers):
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = "Shop <shop@example.test>", to, subject
        message["Message-ID"], message["X-Idempotency-Key"] = f"<{key}@example.test>", key
        for name, value in ({"X_Order": "o-17"} | headers).items():
            message[name.replace("_", "-")] = value
        message.set_content(text)
        return message

    def send(self, **parts):
        with smtplib.SMTP("127.0.0.1", self.smtp, timeout=10) as smtp:
            smtp.send_message(self.message(**parts))

    def put(self, mailbox, message):
        with imaplib.IMAP4("127.0.0.1", self.imap, timeout=10) as session:
            session.login("ann", "word")
            if session.list('""', mailbox)[1] == [None]:
                session.create(mailbox)
            status, answer = session.append(mailbox, None, imaplib.Time2Internaldate(time.time()), message.as_bytes())
            assert status == "OK", answer

    def remove(self):
        with imaplib.IMAP4("127.0.0.1", self.imap, timeout=10) as session:
            session.login("ann", "word")
            session.select("INBOX")
            (number,) = session.search(None, "HEADER", "Message-ID", "<key-1@example.test>")[1]
            session.store(number.decode(), "+FLAGS", "\\Deleted")
            session.expunge()

    def report(self, status="5.1.1", action="failed", diagnostic="smtp; 550 no such user", about="key-1"):
        report = EmailMessage()
        report["From"], report["To"] = "mailer-daemon@example.test", "shop@example.test"
        report["Content-Type"] = 'multipart/report; report-type="delivery-status"'
        note = MIMEPart()
        note.set_content(f"It could not be delivered: <{about}@example.test> {about}\n")
        report.attach(note)
        said = MIMEPart()
        said["Content-Type"] = "message/delivery-status"
        said.set_payload(
            [
                _block({"Reporting-MTA": "dns; mx.example.test"}),
                _block({"Final-Recipient": "rfc822; ann@example.test", "Action": action, "Status": status,
                        "Diagnostic-Code": diagnostic}),
            ]
        )  # fmt: skip
        report.attach(said)
        returned = MIMEPart()
        returned["Content-Type"] = "message/rfc822"
        returned.set_payload([self.message(key=about)])
        report.attach(returned)
        self.put("Reports", report)

    def look(self, *, settings=None, bindings=BINDINGS, at=None, password="word", **part):
        lookup = {name: value for name, value in (LOOKUP | part).items() if value is not None}
        address = {"host": "127.0.0.1", "port": self.imap, "tls": "none"}
        return EmailCheck().read(
            system=SystemAccess("mail", "email", address | (settings or {}), {"user": "ann", "password": password}),
            verification={"lookup": {"effects": {"send": lookup}}},
            bindings=bindings,
            at=at or datetime.now(UTC),
            timeout_s=5,
        )


def _block(headers):
    block = EmailMessage()
    for name, value in headers.items():
        block[name] = value
    return block


@pytest.fixture
def post(tmp_path):
    python = environment.peer_python(PINS)
    home = tmp_path / "mail"
    home.mkdir()
    made = environment.output([str(python), "-c", HASH])
    (home / "pymap-etc-passwd").write_text("ann:x:::Ann:ann:\n")
    (home / "pymap-etc-shadow").write_text(f"ann:{made}:::::::\n")
    imap, smtp = environment.free_port(), environment.free_port()
    serve = [str(python.parent / "pymap"), "--host", "127.0.0.1", "--port", str(imap), "--no-tls", "maildir", str(home)]
    take = [str(python), "-m", "aiosmtpd", "-n", "-l", f"127.0.0.1:{smtp}", "-c", "aiosmtpd.handlers.Mailbox"]
    with (
        environment.running(serve, tmp_path / "pymap.log", ready=environment.listens(imap)),
        environment.running([*take, str(home / "ann")], tmp_path / "smtp.log", ready=environment.listens(smtp)),
    ):
        yield Post(imap, smtp)


def executed(**ago):
    since = datetime.now(UTC) - timedelta(**(ago or {"seconds": 1}))
    return BINDINGS | {"scope": BINDINGS["scope"] | {"executed_at": since.isoformat()}}
