"""A small IMAP server over messages in memory: it opens mailboxes for reading, searches and fetches (RFC 3501).

It writes nothing, and knows of the commands only what a reader of messages needs.
"""

from __future__ import annotations

import email
import email.policy
import imaplib
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from socketserver import StreamRequestHandler, ThreadingTCPServer

PASSWORD = "word"


@dataclass
class PostOffice:
    """`mailboxes` hold messages by UID, each with the time at which it arrived; `next_uid` counts on for ever."""

    port: int = 0
    is_away: bool = False
    mailboxes: dict[str, dict[int, tuple[datetime, bytes]]] = field(
        default_factory=lambda: {"INBOX": {}, "Quarantine": {}, "Reports": {}}
    )
    next_uid: dict[str, int] = field(default_factory=dict)

    def put(self, message: EmailMessage, mailbox: str = "INBOX") -> None:
        self.put_bytes(message.as_bytes(policy=email.policy.SMTP), mailbox)

    def put_bytes(self, data: bytes, mailbox: str) -> None:
        uid = self.next_uid.get(mailbox, 1)
        self.next_uid[mailbox] = uid + 1
        self.mailboxes.setdefault(mailbox, {})[uid] = (datetime.now(UTC), data)

    def search(self, mailbox: str, words: list[str]) -> list[int]:
        """The UIDs of the messages with these headers, or with this text, or since this day, or all."""
        return [uid for uid, (at, data) in self.mailboxes[mailbox].items() if _fits(list(words), at, data)]


def _fits(words: list[str], at: datetime, data: bytes) -> bool:
    message = email.message_from_bytes(data, policy=email.policy.default)
    while words:
        key = words.pop(0).upper()
        if key == "HEADER":
            name, value = words.pop(0), words.pop(0)
            if not any(value.lower() in str(each).lower() for each in message.get_all(name, [])):
                return False
        elif key == "TEXT":
            if words.pop(0).lower().encode() not in data.lower():
                return False
        elif key == "SINCE" and at < datetime.strptime(words.pop(0), "%d-%b-%Y").replace(tzinfo=UTC):
            return False
    return True


class _Session(StreamRequestHandler):
    office: PostOffice
    mailbox = ""

    def handle(self) -> None:
        if self.office.is_away:
            return
        self._say("* OK ready")
        for line in self.rfile:
            tag, command, *words = shlex.split(line.decode())
            if not self._obey(tag, command.upper(), words):
                return

    def _say(self, line: str) -> None:
        self.wfile.write(line.encode() + b"\r\n")

    def _obey(self, tag: str, command: str, words: list[str]) -> bool:
        if command == "CAPABILITY":
            self._say("* CAPABILITY IMAP4rev1")
        elif command == "LOGIN" and words[1] != PASSWORD:
            self._say(f"{tag} NO [AUTHENTICATIONFAILED] wrong password")
            return True
        elif command == "EXAMINE":
            return self._examine(tag, words[0])
        elif command == "UID" and words[0].upper() == "SEARCH":
            found = self.office.search(self.mailbox, words[1:])
            self._say(" ".join(["* SEARCH", *map(str, found)]))
        elif command == "UID" and words[0].upper() == "FETCH":
            self._fetch(int(words[1]), " ".join(words[2:]))
        self._say(f"{tag} OK {command} completed")
        return command != "LOGOUT"

    def _examine(self, tag: str, mailbox: str) -> bool:
        if mailbox not in self.office.mailboxes:
            self._say(f"{tag} NO no such mailbox")
            return True
        self.mailbox = mailbox
        self._say(f"* {len(self.office.mailboxes[mailbox])} EXISTS")
        self._say("* OK [UIDVALIDITY 1] valid")
        self._say(f"* OK [UIDNEXT {self.office.next_uid.get(mailbox, 1)}] next")
        self._say(f"{tag} OK [READ-ONLY] EXAMINE completed")
        return True

    def _fetch(self, uid: int, what: str) -> None:
        if uid not in self.office.mailboxes[self.mailbox]:
            return
        at, data = self.office.mailboxes[self.mailbox][uid]
        number = list(self.office.mailboxes[self.mailbox]).index(uid) + 1
        if re.search("BODY", what):
            self.wfile.write(f"* {number} FETCH (UID {uid} BODY[] {{{len(data)}}}\r\n".encode() + data + b")\r\n")
        else:
            self._say(
                f"* {number} FETCH (UID {uid} INTERNALDATE {imaplib.Time2Internaldate(at)} RFC822.SIZE {len(data)})"
            )


@contextmanager
def served() -> Iterator[PostOffice]:
    """A server on a port of its own."""
    office = PostOffice()
    handler = type("Session", (_Session,), {"office": office})
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        office.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield office
        server.shutdown()
