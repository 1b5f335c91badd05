"""E-mail: finds a message and its fate in the mailboxes of an IMAP server (R-CP-03).

    effects.<name>   message_id (expression), or match {header: expression}, and optionally
                     mailbox, to, sender, subject, body_sha256 (expressions), fields [header],
                     deliver_within_s, tenant_header, target_header

The system's settings: host, port, tls ("implicit", "starttls", or "none" on the loopback address),
mailboxes (those that may be read), reports (where delivery reports arrive), quarantine (mailboxes),
address (the mailbox's own addresses), authserv_id (whose Authentication-Results are believed),
records_everything (the server itself files every message that is sent, a journal).

1. Nothing is changed: mailboxes are opened with EXAMINE, messages fetched with PEEK. What SEARCH finds is
   compared again, header by header, because it searches for parts of words.
2. Delivered: it is in the mailbox. A delivery report (RFC 3464) about it says bounced, rejected (a policy
   status, X.7.X), suppressed (its diagnostic says so) or delayed.
3. Not found is "absent" only in a journal from which nothing can have been taken: each UID since the
   execution is there. In any other mailbox a message may still be on its way: it cannot be told, and after
   `deliver_within_s` that is `delivery_unknown_beyond_sla`.
4. Sender authentication is read from the header that our own server added, never from the sender's.
5. A session sees one server; unless the settings say otherwise it is believed (STRONG). Freshness is
   UIDVALIDITY, UIDNEXT and the newest INTERNALDATE.

The standard library's client is enough, and carries no licence of its own.
"""

from __future__ import annotations

import email
import email.policy
import hashlib
import imaplib
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage, Message
from email.utils import getaddresses
from typing import Any

from reviews.checks import fetching, lookups
from reviews.checks.interface import CheckFailed, Consistency, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

MAX_MESSAGES = 50
MAX_BYTES = 10 * 1024 * 1024
MAX_SCANNED = 20_000
SLACK = timedelta(minutes=5)
DELIVER_WITHIN_S = 900

_TEXTS = ("mailbox", "to", "sender", "subject", "body_sha256")
_HEADER = shapes.name_schema(r"[A-Za-z][A-Za-z0-9-]{0,76}", "a header's name")
_UNSAFE = re.compile(r'[^\x20-\x7e]|["\\]')
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_PROPERTIES = ("message_id", "sender", "recipients", "subject", "body_sha256", "status", "bounce", "suppressed",
               "dkim", "dmarc", "mailbox", "received_at")  # fmt: skip
_VERDICTS = ("pass", "fail", "softfail", "neutral", "none", "temperror", "permerror", "policy")

Bindings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class FoundMessage:
    """One copy of a message, where and when it arrived."""

    mailbox: str
    uid: int
    received_at: datetime
    message: EmailMessage


@dataclass
class DeliveryReport:
    """The statements of delivery reports on a message, gravest first."""

    kinds: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)


class EmailCheck(lookups.LookupCheck):
    """The check of pattern `email`."""

    pattern = "email"
    settings = {
        "host": shapes.member(shapes.TEXT, "Host", "Not needed if the credential names it."),
        "port": shapes.member(shapes.number_schema(1, 65_535), "Port", "Left out, 993, or 143 without implicit TLS."),
        "tls": shapes.member(
            shapes.one_of(("implicit", "starttls", "none")), "TLS", "none only on this machine.", default="implicit"
        ),
        "mailboxes": shapes.readable("Mailboxes"),
        "address": shapes.member(shapes.NAMES, "The mailbox's own addresses", "One on each line."),
        "records_everything": shapes.member(
            shapes.TRUTH, "A journal: the server files every message that is sent", default=False
        ),
        "reports": shapes.member(shapes.TEXT, "Mailbox in which delivery reports arrive"),
        "quarantine": shapes.member(shapes.NAMES, "Mailboxes of the quarantine", "One on each line."),
        "authserv_id": shapes.member(shapes.TEXT, "Server whose Authentication-Results are believed"),
        "ca_file": fetching.SITE["ca_file"],
        "consistency": shapes.CONSISTENCY,
    }
    part = shapes.object_schema(
        {},
        {
            **dict.fromkeys(("message_id", *_TEXTS), shapes.EXPRESSION),
            "match": shapes.map_schema(_HEADER),
            "fields": shapes.fields_schema(_HEADER),
            "deliver_within_s": shapes.number_schema(1),
            **dict.fromkeys(("tenant_header", "target_header"), _HEADER),
        },
        shapes.either("message_id", "match"),
    )
    needs = {
        "recipient_match": ("to", "recipients"),
        "sender_match": ("sender",),
        "subject_body_hash_match": ("subject", "body_sha256"),
    }

    def fields_of(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """A message's properties, and the declared headers under their lower-case names."""
        text: dict[str, Any] = {name: {"type": "string"} for name in _PROPERTIES}
        headers = {_key(name): {"type": "string"} for name in part.get("fields", ())}
        return {**headers, **text, "recipients": {"type": "array"}, "suppressed": {"type": "boolean"}}

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Bindings,
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Read each message from the mailboxes."""
        parts = lookups.lookup_effects(verification)
        filled = {name: _fill_part(part, bindings) for name, part in parts.items()}
        effects, indicators, raw, marks = [], set[str](), {}, []
        try:
            with _session(system, timeout_s) as session:
                for name, part in filled.items():
                    look = _Look(session, system, part, _executed_at(bindings, at=at), at)
                    look.take()
                    effects.append(look.effect(name))
                    indicators |= look.indicators
                    raw[name] = look.shown()
                    marks += look.marks
        except (imaplib.IMAP4.abort, OSError) as problem:
            raise CheckFailed(f"The mail server gave no answer: {_sentence(problem)}", retryable=True) from None
        except imaplib.IMAP4.error as problem:
            raise CheckFailed(f"The mail server refused: {_sentence(problem)}", retryable=False) from None
        return Reading(
            source=system.name,
            consistency=Consistency(system.settings.get("consistency", Consistency.STRONG)),
            freshness="; ".join(dict.fromkeys(marks))[:200],
            observed_at=at,
            pointer="; ".join(_describe(part) for part in parts.values()),
            effects=tuple(effects),
            indicators=tuple(sorted(indicators)),
            raw=raw,
            not_applicable=_not_applicable(system),
        )


def _key(header: str) -> str:
    return header.lower().replace("-", "_")


# The session


class _Limited:
    """A limit for the whole session: a socket's own starts again with each byte."""

    limit: threading.Timer | None = None

    def begin(self, timeout_s: float | None) -> None:
        if timeout_s is not None:
            self.limit = threading.Timer(timeout_s, self.cut)
            self.limit.daemon = True
            self.limit.start()

    def cut(self) -> None:
        assert isinstance(self, imaplib.IMAP4)
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        if self.limit is not None:
            self.limit.cancel()


class _Plain(_Limited, imaplib.IMAP4):
    def open(self, host: str = "", port: int = 143, timeout: float | None = None) -> None:
        imaplib.IMAP4.open(self, host, port, timeout)
        self.begin(timeout)

    def shutdown(self) -> None:
        self.end()
        imaplib.IMAP4.shutdown(self)


class _Sealed(_Limited, imaplib.IMAP4_SSL):
    def open(self, host: str | None = "", port: int | None = 993, timeout: float | None = None) -> None:
        imaplib.IMAP4_SSL.open(self, host or "", port or 993, timeout)
        self.begin(timeout)

    def shutdown(self) -> None:
        self.end()
        imaplib.IMAP4_SSL.shutdown(self)


@contextmanager
def _session(system: SystemAccess, timeout_s: float) -> Iterator[imaplib.IMAP4]:
    session = _connect(system, timeout_s)
    try:
        try:
            session.login(str(system.credential.get("user", "")), str(system.credential.get("password", "")))
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error as problem:
            # A refused password may be mended while the action waits. The answer never holds it.
            raise CheckFailed(f"The mail server refused the sign-in: {_sentence(problem)}", retryable=True) from None
        yield session
    finally:
        with suppress(imaplib.IMAP4.error, OSError):
            session.shutdown()


def _connect(system: SystemAccess, timeout_s: float) -> imaplib.IMAP4:
    host, tls = str(system.settings.get("host", "")), system.settings.get("tls", "implicit")
    port = int(system.settings.get("port", 993 if tls == "implicit" else 143))
    if not host:
        raise CheckFailed("The system has no host.", retryable=False)
    if tls == "none" and host not in _LOOPBACK:
        raise CheckFailed("Without encryption only the loopback address is read.", retryable=False)
    context = ssl.create_default_context(cafile=system.settings.get("ca_file"))
    try:
        if tls == "implicit":
            return _Sealed(host, port, ssl_context=context, timeout=timeout_s)
        session = _Plain(host, port, timeout=timeout_s)
        if tls == "starttls":
            session.starttls(context)
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error as problem:
        raise CheckFailed(f"This is no mail server: {_sentence(problem)}", retryable=True) from None
    return session


def _executed_at(bindings: Bindings, *, at: datetime) -> datetime | None:
    said = bindings.get("scope", {}).get("executed_at")
    try:
        executed_at = datetime.fromisoformat(str(said))
    except ValueError:
        return None
    return None if executed_at.tzinfo is None else min(executed_at, at)


def _fill_part(part: Mapping[str, Any], bindings: Bindings) -> dict[str, Any]:
    """The part with its expressions replaced by their values."""
    found = dict(part)
    for name in _TEXTS:
        if name in part:
            found[name] = str(lookups.fill_template(part[name], bindings))
    texts = {"Message-ID": part["message_id"]} if "message_id" in part else part["match"]
    found["match"] = {name: _safe(str(lookups.fill_template(text, bindings))) for name, text in texts.items()}
    return found


def _safe(value: str) -> str:
    """Return a value that can be sent in a command; a line break or a quote would start another command."""
    if not value or len(value) > 900 or _UNSAFE.search(value):
        raise CheckFailed("The lookup's value cannot stand in a header of a message.", retryable=False)
    return value


def _describe(part: Mapping[str, Any]) -> str:
    texts = {"Message-ID": part["message_id"]} if "message_id" in part else part["match"]
    where = " and ".join(f"{header} = {text}" for header, text in texts.items())
    return f"{part.get('mailbox', 'INBOX')} where {where}"


def _sentence(problem: Exception) -> str:
    said = problem.args[0] if problem.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(problem)
    return (text.strip().split("\n")[0] or type(problem).__name__)[:200]


# One message


class _Look:
    """One effect's way through the mailboxes."""

    def __init__(
        self,
        session: imaplib.IMAP4,
        system: SystemAccess,
        part: Mapping[str, Any],
        executed_at: datetime | None,
        at: datetime,
    ) -> None:
        self.session, self.system, self.part, self.executed_at, self.at = session, system, part, executed_at, at
        self.mailbox = str(part.get("mailbox", "INBOX"))
        self.delivered: list[FoundMessage] = []
        self.quarantined: list[FoundMessage] = []
        self.report = DeliveryReport()
        self.whole = False
        self.next_uid = "unknown"
        self.indicators: set[str] = set()
        self.marks: list[str] = []

    def take(self) -> None:
        settings = self.system.settings
        self._open(self.mailbox)
        self.delivered = self._matching(self.mailbox)
        if not self.delivered and settings.get("records_everything") is True:
            self.whole = self._nothing_taken()
        for name in settings.get("quarantine", ()):
            self._open(name)
            self.quarantined += self._matching(name)
        if "reports" in settings:
            self._open(settings["reports"])
            self._read_reports(settings["reports"])
        self._judge()

    def _open(self, mailbox: str) -> None:
        allowed = self.system.settings.get("mailboxes")
        if allowed is not None and mailbox not in allowed:
            raise CheckFailed(f"{mailbox} is not among the mailboxes that may be read.", retryable=False)
        status, answer = self.session.select(f'"{_safe(mailbox)}"', readonly=True)
        if status != "OK":
            said = answer[0].decode(errors="replace") if answer and answer[0] else ""
            raise CheckFailed(f"{mailbox} cannot be opened: {said[:200]}", retryable=False)
        self.next_uid = self._code("UIDNEXT")
        self.marks.append(f"{mailbox} uidvalidity {self._code('UIDVALIDITY')} uidnext {self.next_uid}")

    def _code(self, name: str) -> str:
        value = self.session.response(name)[1]
        return value[-1].decode() if value and value[-1] else "unknown"

    def _search(self, *criteria: str) -> list[int]:
        status, answer = self.session.uid("SEARCH", *criteria)
        if status != "OK":
            raise CheckFailed("The mail server would not search.", retryable=False)
        return [int(number) for line in answer if line for number in line.split()]

    def _matching(self, mailbox: str) -> list[FoundMessage]:
        """The messages of the open mailbox with all these headers (rule 1)."""
        criteria = [word for header, value in self.part["match"].items() for word in ("HEADER", header, f'"{value}"')]
        numbers = self._search(*criteria)
        if len(numbers) > MAX_MESSAGES:
            raise CheckFailed(f"More than {MAX_MESSAGES} messages fit.", retryable=False)
        found = [self._fetch_message(mailbox, number) for number in numbers]
        return [one for one in found if self._fits(one.message)]

    def _fits(self, message: Message) -> bool:
        values = {name: [str(one).strip() for one in message.get_all(name, [])] for name in self.part["match"]}
        return all(value in values[name] for name, value in self.part["match"].items())

    def _fetch_message(self, mailbox: str, uid: int) -> FoundMessage:
        head = self._fetch(uid, "(INTERNALDATE RFC822.SIZE)")
        said = imaplib.Internaldate2tuple(head[0] if isinstance(head[0], bytes) else head[0][0])
        size = re.search(rb"RFC822\.SIZE (\d+)", head[0] if isinstance(head[0], bytes) else head[0][0])
        if size is None or int(size[1]) > MAX_BYTES:
            raise CheckFailed(f"A message is larger than {MAX_BYTES} bytes.", retryable=False)
        body = self._fetch(uid, "(BODY.PEEK[])")
        data = next((one[1] for one in body if isinstance(one, tuple)), b"")
        received_at = datetime.fromtimestamp(time.mktime(said), UTC) if said else self.at
        return FoundMessage(mailbox, uid, received_at, email.message_from_bytes(data, policy=email.policy.default))

    def _fetch(self, uid: int, what: str) -> list[Any]:
        status, answer = self.session.uid("FETCH", str(uid), what)
        if status != "OK" or not answer or answer[0] is None:
            raise CheckFailed("A message went away while it was read.", retryable=True)
        return answer

    def _nothing_taken(self) -> bool:
        """Return whether each UID assigned since the execution is still there (rule 3)."""
        if self.executed_at is None or not self.next_uid.isdecimal():
            return False
        numbers = self._search("ALL")
        if len(numbers) > MAX_SCANNED:
            return False
        # The day before as the server counts days: time zones can move a date by one.
        since = f"{self.executed_at - timedelta(days=2):%d-%b-%Y}"
        recent = set(self._search("SINCE", since))
        first = max((number for number in numbers if number not in recent), default=0)
        return {number for number in numbers if number > first} == set(range(first + 1, int(self.next_uid)))

    def _read_reports(self, mailbox: str) -> None:
        """The delivery reports about this message (rule 2)."""
        number = next(iter(self.part["match"].values()))
        wanted = self.part["match"].get("Message-ID", number)
        for uid in self._search("TEXT", f'"{wanted}"')[-MAX_MESSAGES:]:
            message = self._fetch_message(mailbox, uid).message
            if message.get_content_type() == "multipart/report" and self._is_about(message):
                for kind, status in _recipient_reports(message):
                    self.report.kinds.append(kind)
                    self.report.statuses.append(status)

    def _is_about(self, message: EmailMessage) -> bool:
        """Return True if the report returns this message or its headers; a mention in its text proves nothing."""
        for part in message.walk():
            if part.get_content_type() == "message/rfc822":
                returned = part.get_payload()
                if isinstance(returned, list) and any(self._fits(one) for one in returned if isinstance(one, Message)):
                    return True
            if part.get_content_type() == "text/rfc822-headers":
                returned_headers = email.message_from_string(str(part.get_content()), policy=email.policy.default)
                if self._fits(returned_headers):
                    return True
        return False

    @property
    def copies(self) -> list[FoundMessage]:
        return self.delivered + self.quarantined

    def _judge(self) -> None:
        self.indicators |= set(self.report.kinds) & {"bounce", "rejection", "suppression"}
        if self.quarantined:
            self.indicators.add("quarantine")
        if len(self.copies) > 1:
            self.indicators.add("duplicate_send")
        if any(self._has_wrong_recipients(one.message) for one in self.copies):
            self.indicators.add("wrong_recipient")
        if self._is_late():
            self.indicators.add("delivery_unknown_beyond_sla")

    def _has_wrong_recipients(self, message: EmailMessage) -> bool:
        """Return True if it was sent to anyone else than intended, or not to all intended recipients."""
        if "to" not in self.part:
            return False
        wanted = _addresses([self.part["to"]])
        own = {str(one).lower() for one in self.system.settings.get("address", ())}
        delivered = _addresses(_headers(message, "Delivered-To", "X-Original-To", "Envelope-To"))
        written = set(_recipients(message))
        return written != wanted or bool(delivered - wanted - own)

    def _is_late(self) -> bool:
        if self.copies or self.whole or set(self.report.kinds) - {"delayed"} or self.executed_at is None:
            return False
        within = timedelta(seconds=self.part.get("deliver_within_s", DELIVER_WITHIN_S))
        return self.at > self.executed_at + within

    @property
    def status(self) -> str:
        order = ("suppression", "rejection", "bounce")
        said = next((one for one in order if one in self.report.kinds), None)
        words = {"suppression": "suppressed", "rejection": "rejected", "bounce": "bounced"}
        if said is not None:
            return words[said]
        if self.delivered:
            return "delivered"
        if self.quarantined:
            return "quarantined"
        return "delayed" if "delayed" in self.report.kinds else "unknown"

    def effect(self, name: str) -> ReadEffect:
        if not self.copies:
            return self._effect_without_copy(name)
        first = self.copies[0]
        return ReadEffect(
            name=name,
            present=True,
            count=len(self.copies),
            fields={**self._declared_fields(first.message), **self._fields(first)},
            scope=self._scope(),
        )

    def _effect_without_copy(self, name: str) -> ReadEffect:
        said = {"status": self.status, "suppressed": self.status == "suppressed"}
        if self.status == "bounced":
            # It left, and came back.
            return ReadEffect(name=name, present=True, count=1, fields={**said, "bounce": self.report.statuses[0]})
        if self.status in {"rejected", "suppressed"}:
            return ReadEffect(name=name, present=False, fields=said)
        return ReadEffect(name=name, present=False if self.whole and self.status == "unknown" else None)

    def _fields(self, found: FoundMessage) -> dict[str, Any]:
        message = found.message
        return {
            "message_id": str(message.get("Message-ID", "")).strip(),
            "sender": next(iter(sorted(_addresses(_headers(message, "From")))), ""),
            "recipients": _recipients(message),
            "subject": str(message.get("Subject", "")),
            "body_sha256": body_sha256(message),
            "status": self.status,
            "bounce": self.report.statuses[0] if self.report.statuses else "",
            "suppressed": self.status == "suppressed",
            "mailbox": found.mailbox,
            "received_at": found.received_at.isoformat(),
            **authentication_results(message, self.system.settings.get("authserv_id")),
        }

    def _declared_fields(self, message: EmailMessage) -> dict[str, str]:
        return {_key(name): str(message[name]) for name in self.part.get("fields", ()) if name in message}

    def _scope(self) -> dict[str, tuple[Any, ...]]:
        kinds = {kind: self.part[f"{kind}_header"] for kind in ("tenant", "target") if f"{kind}_header" in self.part}
        return {
            kind: tuple(dict.fromkeys(str(one.message[header]) if one.message[header] else None for one in self.copies))
            for kind, header in kinds.items()
        }

    def shown(self) -> dict[str, Any]:
        return {
            "copies": [f"{one.mailbox} uid {one.uid} at {one.received_at.isoformat()}" for one in self.copies],
            "reports": list(zip(self.report.kinds, self.report.statuses, strict=True)),
        }


def _not_applicable(system: SystemAccess) -> dict[str, str]:
    """The parameters that cannot be determined with this system's settings, each with the reason."""
    reports = "The system names no mailbox where delivery reports arrive."
    found = {} if "reports" in system.settings else {"bounce_status": reports, "suppression_list_status": reports}
    if system.settings.get("authserv_id") is None:
        found["dkim_dmarc_alignment"] = "The system names no server whose Authentication-Results are believed."
    return found


def _headers(message: Message, *names: str) -> list[str]:
    return [str(value) for name in names for value in message.get_all(name, [])]


def _addresses(values: list[str]) -> set[str]:
    return {address.lower() for _, address in getaddresses(values) if address}


def _recipients(message: Message) -> list[str]:
    return sorted(_addresses(_headers(message, "To", "Cc", "Bcc")))


def body_sha256(message: EmailMessage) -> str:
    """SHA-256 of the plain text, without trailing spaces and with \\n line ends; of all bytes where there is none."""
    part = message.get_body(("plain",))
    if part is None:
        return hashlib.sha256(message.as_bytes().partition(b"\n\n")[2]).hexdigest()
    lines = str(part.get_content()).replace("\r\n", "\n").split("\n")
    return hashlib.sha256("\n".join(line.rstrip() for line in lines).strip("\n").encode()).hexdigest()


def authentication_results(message: Message, authserv_id: str | None) -> dict[str, str]:
    """Return DKIM and DMARC as our own server judged them (RFC 8601), from the topmost such header, which it added."""
    unknown = {"dkim": "not_applicable", "dmarc": "not_applicable"}
    for value in _headers(message, "Authentication-Results") if authserv_id else ():
        if value.split(";")[0].split()[:1] == [authserv_id]:
            return {method: _verdict(value, method) for method in unknown}
    return unknown


def _verdict(value: str, method: str) -> str:
    found = re.search(rf";\s*{method}\s*=\s*([a-z]+)", value, re.IGNORECASE)
    verdict = found[1].lower() if found else "none"
    return verdict if verdict in _VERDICTS else "none"


def _recipient_reports(message: EmailMessage) -> Iterator[tuple[str, str]]:
    """Yield a report's statement on each recipient: a kind and the enhanced status code."""
    for part in message.walk():
        if part.get_content_type() != "message/delivery-status":
            continue
        blocks = part.get_payload()
        for block in blocks if isinstance(blocks, list) else []:
            if not isinstance(block, Message):
                continue
            action = str(block.get("Action", "")).strip().lower()
            status = str(block.get("Status", "")).strip().split(" ")[0]
            if action == "delayed":
                yield "delayed", status
            elif action == "failed":
                yield _failure(status, str(block.get("Diagnostic-Code", ""))), status


def _failure(status: str, diagnostic: str) -> str:
    if "suppress" in diagnostic.lower():
        return "suppression"
    return "rejection" if re.fullmatch(r"\d\.7\.\d+", status) else "bounce"
