"""Forty situations after somebody said "done": ten each of tickets, deployments, mail and access rights.

Each is brought about at a system that answers over its own protocol, and told of a claim. What happens after the first
reading is `then`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any

from tests.support.outside.described_systems import FakeSystem
from tests.web.claims.imap_server import PostOffice
from tests.web.claims.machines import Machine

NOT_YET, OTHERWISE, PARTLY = "VERIFYING", "NEEDS_REVIEW", "PARTIALLY_APPLIED"
NOTHING, TAKEN_BACK, DONE = "FAILED", "CONTRADICTED", "VERIFIED"


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is at the system, what becomes of it after the first reading, the outcomes of both readings, and what the
    last sentence says of it.
    """

    kind: str
    name: str
    bring_about: Callable[[Any], object]
    claim: Mapping[str, Any]
    outcome: str
    says: str
    then: Callable[[Any], object] | None = None
    first: str = ""

    @property
    def outcomes(self) -> tuple[str, str]:
        """The outcome of the reading at once, and of the one after the time for late effects."""
        return self.first or (NOT_YET if self.outcome == NOTHING else self.outcome), self.outcome


def _nothing(_: Any) -> None:
    pass


# Tickets: opened for the requester 20978392 under the key K-7, urgent, for the agent 235323

REQUESTER = "20978392"
TICKET = {
    "system": "desk",
    "effect": "ticket",
    "lookup": {"of": {"requester": f"'{REQUESTER}'"}, "match": {"key": "'K-7'"}},
    "expected": {"priority": "urgent", "assignee": "235323"},
}
SOLVED = TICKET | {"expected": {"state": "solved"}}


def _open(*, key: str = "K-7", number: int = 1, **changes: Any) -> Callable[[FakeSystem], None]:
    return lambda desk: desk.add(key, number=number, **({"/priority": "urgent"} | changes)) and None


def _open_two(desk: FakeSystem) -> None:
    _open()(desk)
    _open(number=2)(desk)


def _open_beside_another(desk: FakeSystem) -> None:
    _open(key="K-6", number=1, **{"/priority": "low"})(desk)
    _open(number=2)(desk)


def _open_many(desk: FakeSystem) -> None:
    for number in range(1, 2002):
        desk.add("K-1", number=number)


def _open_without_assignee(desk: FakeSystem) -> None:
    _open()(desk)
    del desk.objects[-1]["assignee_id"]


def _reopen(desk: FakeSystem) -> None:
    desk.objects[-1]["status"] = "open"


TICKETS = [
    Situation(
        kind="tickets",
        name="never opened",
        says="desk shows no such ticket",
        bring_about=_nothing,
        outcome=NOTHING,
        claim=TICKET,
    ),
    Situation(
        kind="tickets",
        name="opened twice",
        says="ticket 2 times instead of once",
        bring_about=_open_two,
        outcome=OTHERWISE,
        claim=TICKET,
    ),
    Situation(
        kind="tickets",
        name="another priority",
        says="priority low instead of urgent",
        bring_about=_open(**{"/priority": "low"}),
        outcome=OTHERWISE,
        claim=TICKET,
    ),
    Situation(
        kind="tickets",
        name="opened for another requester",
        says="customer 77 instead of 20978392",
        bring_about=_open(**{"/requester_id": 77}),
        outcome=OTHERWISE,
        claim=TICKET | {"expected": {"customer": REQUESTER}},
    ),
    Situation(
        kind="tickets",
        name="a state that is not documented",
        says="could not tell about ticket",
        bring_about=_open(**{"/status": "escalated"}),
        outcome=NOT_YET,
        claim=TICKET,
    ),
    Situation(
        kind="tickets",
        name="solved and opened again",
        says="it was shown as claimed before, and now desk shows state open instead of solved",
        bring_about=_open(**{"/status": "solved"}),
        first=DONE,
        then=_reopen,
        outcome=TAKEN_BACK,
        claim=SOLVED,
    ),
    Situation(
        kind="tickets",
        name="more tickets than are read",
        says="could not tell about ticket",
        bring_about=_open_many,
        outcome=NOT_YET,
        claim=TICKET,
    ),
    Situation(
        kind="tickets",
        name="opened at once",
        says="desk shows the ticket as claimed",
        bring_about=_open_beside_another,
        outcome=DONE,
        claim=TICKET,
    ),
    Situation(
        kind="tickets",
        name="opened after a delay",
        says="desk shows the ticket as claimed",
        bring_about=_nothing,
        first=NOT_YET,
        then=_open(),
        outcome=DONE,
        claim=TICKET,
    ),
    Situation(
        kind="tickets",
        name="solved, and located by its id and its requester",
        says="desk shows the ticket as claimed",
        bring_about=_open(key="another", **{"/status": "solved"}),
        outcome=DONE,
        claim=SOLVED | {"lookup": None, "operation": "35437", "target": f"requester/{REQUESTER}"},
    ),
]


# Deployments: the artifact v2 of `shop` in both regions, in production

DEPLOYMENT = {
    "system": "fleet",
    "effect": "deployment",
    "lookup": {"program": "'shop'", "artifact": "sr.artifact_sha"},
    "expected": {"artifact_sha": "v2", "rollout_stage": "complete", "environment": "production"},
}
Fleet = Mapping[str, Machine]


def _deploy(artifact: str = "v2", *regions: str, **said: Any) -> Callable[[Fleet], None]:
    def bring_about(fleet: Fleet) -> None:
        for region in regions or tuple(fleet):
            fleet[region].deploy(artifact, **said)

    return bring_about


def _crash(fleet: Fleet) -> None:
    fleet["us"].run(state="BACKOFF")
    fleet["us"].is_deaf = True


def _deploy_out_of_sight(fleet: Fleet) -> None:
    _deploy()(fleet)
    fleet["us"].is_deaf = True


def _deploy_without_word(fleet: Fleet) -> None:
    _deploy()(fleet)
    del fleet["us"].release["artifact"]


def _deploy_beside_a_crash(fleet: Fleet) -> None:
    _deploy()(fleet)
    fleet["us"].run("mailer", "FATAL")


DEPLOYMENTS = [
    Situation(
        kind="deployments",
        name="never rolled out",
        says="fleet shows no such deployment",
        bring_about=_nothing,
        outcome=NOTHING,
        claim=DEPLOYMENT,
    ),
    Situation(
        kind="deployments",
        name="another release",
        says="artifact sha v3 instead of v2",
        bring_about=_deploy("v3"),
        outcome=OTHERWISE,
        claim=DEPLOYMENT,
    ),
    Situation(
        kind="deployments",
        name="in one region of two",
        says="rollout stage partial instead of complete",
        bring_about=_deploy("v2", "eu"),
        outcome=PARTLY,
        claim=DEPLOYMENT,
    ),
    Situation(
        kind="deployments",
        name="in the wrong environment",
        says="environment staging instead of production",
        bring_about=_deploy(environment="staging"),
        outcome=OTHERWISE,
        claim=DEPLOYMENT,
    ),
    Situation(
        kind="deployments",
        name="crashing after it ran",
        says="it was shown as claimed before, and now fleet shows rollout stage partial",
        bring_about=_deploy(),
        first=DONE,
        then=_crash,
        outcome=TAKEN_BACK,
        claim=DEPLOYMENT,
    ),
    Situation(
        kind="deployments",
        name="rolled back",
        says="it was shown as claimed before, and now fleet shows artifact sha v1 instead of v2",
        bring_about=_deploy(),
        first=DONE,
        then=_deploy("v1"),
        outcome=TAKEN_BACK,
        claim=DEPLOYMENT,
    ),
    Situation(
        kind="deployments",
        name="an instance that does not answer",
        says="did not answer",
        bring_about=_deploy_out_of_sight,
        outcome=NOT_YET,
        claim=DEPLOYMENT,
    ),
    Situation(
        kind="deployments",
        name="an instance that does not say its release",
        says="could not tell about deployment",
        bring_about=_deploy_without_word,
        outcome=NOT_YET,
        claim=DEPLOYMENT,
    ),
    Situation(
        kind="deployments",
        name="starting, then running",
        says="fleet shows the deployment as claimed",
        bring_about=_deploy(state="STARTING"),
        first=NOT_YET,
        then=_deploy(),
        outcome=DONE,
        claim=DEPLOYMENT,
    ),
    Situation(
        kind="deployments",
        name="running beside another program that crashes",
        says="fleet shows the deployment as claimed",
        bring_about=_deploy_beside_a_crash,
        outcome=DONE,
        claim=DEPLOYMENT,
    ),
]


# Mail: "Your refund" to Ann, under the key key-1, in the journal of everything that is sent

MAIL = {
    "system": "post",
    "effect": "message",
    "lookup": {"match": {"X-Idempotency-Key": "'key-1'"}, "to": "'ann@example.test'"},
    "expected": {"subject": "Your refund", "sender": "shop@example.test"},
}
BY_ID = MAIL | {"lookup": {"message_id": "'<key-1@example.test>'", "to": "'ann@example.test'"}}


def _message(key: str = "key-1", *, to: str = "ann@example.test", subject: str = "Your refund") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Shop <shop@example.test>", to, subject
    message["Message-ID"], message["X-Idempotency-Key"] = f"<{key}@example.test>", key
    message.set_content("Ten euros.\n")
    return message


def _send(*messages: EmailMessage) -> Callable[[PostOffice], None]:
    def bring_about(post: PostOffice) -> None:
        for message in messages:
            post.put(message)

    return bring_about


def _report(status: str, diagnostic: str) -> Callable[[PostOffice], None]:
    """A delivery report (RFC 3464) that returns the headers of the message."""

    def bring_about(post: PostOffice) -> None:
        text = (
            "From: MAILER-DAEMON@example.test\r\nTo: shop@example.test\r\nSubject: Undelivered\r\n"
            'MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type=delivery-status; boundary="b"\r\n\r\n'
            "--b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n"
            "--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; example.test\r\n\r\n"
            f"Final-Recipient: rfc822; ann@example.test\r\nAction: failed\r\nStatus: {status}\r\n"
            f"Diagnostic-Code: smtp; {diagnostic}\r\n\r\n"
            "--b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: <key-1@example.test>\r\n"
            "X-Idempotency-Key: key-1\r\n\r\n--b--\r\n"
        )
        post.put_bytes(text.encode(), "Reports")

    return bring_about


def _bounce(post: PostOffice) -> None:
    _report("5.1.1", "550 5.1.1 no such user")(post)


def _quarantine(post: PostOffice) -> None:
    post.put(_message(), "Quarantine")


def _take_out(post: PostOffice) -> None:
    _send(_message("key-0"), _message(), _message("key-2"))(post)
    del post.mailboxes["INBOX"][2]


def _send_and_go_away(post: PostOffice) -> None:
    _send(_message())(post)
    post.is_away = True


MAILS = [
    Situation(
        kind="mail",
        name="never sent",
        says="post shows no such message",
        bring_about=_nothing,
        outcome=NOTHING,
        claim=MAIL,
    ),
    Situation(
        kind="mail",
        name="sent twice",
        says="message 2 times instead of once",
        bring_about=_send(_message(), _message()),
        outcome=OTHERWISE,
        claim=MAIL,
    ),
    Situation(
        kind="mail",
        name="sent to somebody else",
        says="post shows wrong recipient",
        bring_about=_send(_message(to="bob@example.test")),
        outcome=OTHERWISE,
        claim=MAIL,
    ),
    Situation(
        kind="mail",
        name="sent to one more than it should",
        says="post shows wrong recipient",
        bring_about=_send(_message(to="ann@example.test, bob@example.test")),
        outcome=OTHERWISE,
        claim=MAIL,
    ),
    Situation(
        kind="mail",
        name="another subject",
        says="subject “Your invoice” instead of “Your refund”",
        bring_about=_send(_message(subject="Your invoice")),
        outcome=OTHERWISE,
        claim=MAIL,
    ),
    Situation(
        kind="mail",
        name="bounced after it was sent",
        says="it was shown as claimed before, and now post shows bounce",
        bring_about=_send(_message()),
        first=DONE,
        then=_bounce,
        outcome=TAKEN_BACK,
        claim=MAIL,
    ),
    Situation(
        kind="mail",
        name="taken out of the journal",
        says="could not tell about message",
        bring_about=_take_out,
        outcome=NOT_YET,
        claim=MAIL,
    ),
    Situation(
        kind="mail",
        name="a mail server that is away",
        says="the mail server gave no answer",
        bring_about=_send_and_go_away,
        outcome=NOT_YET,
        claim=MAIL,
    ),
    Situation(
        kind="mail",
        name="sent after a delay, beside another message to the same",
        says="post shows the message as claimed",
        bring_about=_send(_message("key-0", subject="Hello")),
        first=NOT_YET,
        then=_send(_message()),
        outcome=DONE,
        claim=MAIL,
    ),
    Situation(
        kind="mail",
        name="located by its id alone",
        says="post shows the message as claimed",
        bring_about=_send(_message()),
        outcome=DONE,
        claim=BY_ID,
    ),
]


# Access rights: K-7 is a member of the group, or is none any more

GROUP = "00g1fanEFIQHMQQJMHZP"
MEMBER = {
    "system": "people",
    "effect": "membership",
    "lookup": {"of": {"group": f"'{GROUP}'"}, "match": {"login": "'K-7'"}},
    "expected": {"state": "ACTIVE", "department": "Shipping"},
}
NO_MEMBER = MEMBER | {"effect": "removal", "expected": {}, "lookup": {**MEMBER["lookup"], "expect": "absent"}}
NO_GROUP = NO_MEMBER | {"lookup": {**NO_MEMBER["lookup"], "of": {"group": "'00gGone'"}}}
WITHIN = MEMBER | {"lookup": None, "operation": "00ub0oNGTSWTBKOLGLNR", "target": f"group/{GROUP}"}


def _add(**changes: Any) -> Callable[[FakeSystem], None]:
    return lambda people: people.add("K-7", number=7, **changes) and None


def _remove(people: FakeSystem) -> None:
    people.objects.clear()


def _add_many(people: FakeSystem) -> None:
    for number in range(4001):
        people.add("K-1", number=number)


def _add_and_limit(people: FakeSystem) -> None:
    _add()(people)
    people.fail(429, people.data["too_many"]["body"])


def _be_elsewhere(people: FakeSystem) -> None:
    people.add("K-7")
    people.not_listed = True


RIGHTS = [
    Situation(
        kind="access rights",
        name="never given",
        says="people shows no such membership",
        bring_about=_nothing,
        outcome=NOTHING,
        claim=MEMBER,
    ),
    Situation(
        kind="access rights",
        name="never taken away",
        says="people shows no such removal",
        bring_about=_add(),
        outcome=NOTHING,
        claim=NO_MEMBER,
    ),
    Situation(
        kind="access rights",
        name="taken away in a group that does not exist",
        says="people shows no such target",
        bring_about=_add(),
        outcome=NOTHING,
        first=NOTHING,
        claim=NO_GROUP,
    ),
    Situation(
        kind="access rights",
        name="given to an account that is suspended",
        says="state SUSPENDED instead of ACTIVE",
        bring_about=_add(**{"/status": "SUSPENDED"}),
        outcome=OTHERWISE,
        claim=MEMBER,
    ),
    Situation(
        kind="access rights",
        name="a user who is in no such group, located by the id",
        says="people shows no such membership",
        bring_about=_be_elsewhere,
        outcome=NOTHING,
        claim=WITHIN,
    ),
    Situation(
        kind="access rights",
        name="given and taken back",
        says="it was shown as claimed before, and now people shows no such membership",
        bring_about=_add(),
        first=DONE,
        then=_remove,
        outcome=TAKEN_BACK,
        claim=MEMBER,
    ),
    Situation(
        kind="access rights",
        name="taken away, in a group too large to read",
        says="could not tell about removal",
        bring_about=_add_many,
        outcome=NOT_YET,
        claim=NO_MEMBER,
    ),
    Situation(
        kind="access rights",
        name="too many requests",
        says="answered 429",
        bring_about=_add_and_limit,
        outcome=NOT_YET,
        claim=MEMBER,
    ),
    Situation(
        kind="access rights",
        name="given after a delay, located by the id within the group",
        says="people shows the membership as claimed",
        bring_about=_nothing,
        first=NOT_YET,
        then=lambda people: people.add("K-7"),
        outcome=DONE,
        claim=WITHIN,
    ),
    Situation(
        kind="access rights",
        name="taken away, and given to another",
        says="people shows the removal as claimed",
        bring_about=lambda people: people.add("K-8"),
        outcome=DONE,
        claim=NO_MEMBER,
    ),
]
SITUATIONS = [*TICKETS, *DEPLOYMENTS, *MAILS, *RIGHTS]
