"""`msmtp -t < FILE` and `sendmail -t < FILE`: one message in a file.

1. What goes out is read from the file: sender, recipients, subject, Message-ID and the digest of the text. The command
   names nobody else.
2. Only what can be found and compared again is proposed: plain text and nothing beside it, a Message-ID of its own, and
   no hidden recipients, since no copy shows them.
3. Other programs that send mail are said not to be recognised.
"""

from __future__ import annotations

import email
import email.policy
import hashlib
import re
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import getaddresses
from pathlib import Path
from typing import Final

from counterfoil.coding_agents.asking import content
from counterfoil.coding_agents.options import read_options
from counterfoil.coding_agents.program import Program
from counterfoil.coding_agents.shell import Command, Effect, Refusal, Script

_KNOWN: Final = frozenset(("msmtp", "sendmail"))
_SHOWS: Final = frozenset(("--version", "--help", "--serverinfo", "-S", "--pretend", "-P", "-bp"))
_HIDDEN: Final = ("Bcc", "Resent-To", "Resent-Cc", "Resent-Bcc", "Resent-From")
_MOST_RECIPIENTS: Final = 20
_MESSAGE_ID: Final = re.compile(r"<[!-;=?-~]{3,200}>")
_ADDRESS: Final = re.compile(r"[!-~]+@[A-Za-z0-9.-]+")
_HOW: Final = (
    "Write the message to a file, with From, To, Subject and a Message-ID of its own, in plain text, and send "
    "`msmtp -t < FILE` or `sendmail -t < FILE`."
)


def _changes(command: Command, _: Script) -> bool:
    """True if a command may send mail; these programs also show mail, which is not held."""
    name, rest = command.words[0].last_name, command.texts[1:]
    if name in ("mail", "mailx", "s-nail", "mutt", "neomutt"):
        return "-s" in rest or any(word is None or "@" in word for word in rest)
    if name == "himalaya":
        return not {"send", "reply", "forward", "write", None}.isdisjoint(rest)
    if name in _KNOWN:
        return not rest or rest[0] not in _SHOWS
    return _SHOWS.isdisjoint(word or "" for word in rest)


def _read(words: Sequence[str], folder: Path) -> Effect | None:
    name, rest = words[0].rpartition("/")[2], list(words[1:])
    if name not in _KNOWN:
        raise Refusal(f"Not recognised: what `{name}` sends cannot be known in advance. {_HOW}")
    if rest[-2:-1] != ["<"]:
        raise Refusal(f"Not recognised: what `{name}` sends is not in a file. {_HOW}")
    given = read_options([each for each in rest[:-2] if each != "-oi"], name, how=_HOW)
    if given.operands:
        raise Refusal(
            f"Send it without {given.operands[0]}: recipients and sender must be the ones named in the message. {_HOW}"
        )
    if not given.options.get("read-recipients"):
        raise Refusal(f"Send it with -t: the recipients must be the ones named in the message. {_HOW}")
    return Effect("email_send", _message_arguments(_message(folder / rest[-1])))


def _message(file: Path) -> EmailMessage:
    found = email.message_from_bytes(content(file), policy=email.policy.default)
    if found.get_content_type() != "text/plain" or found.get_content_disposition() or found.defects:
        raise Refusal(f"{file.name} is not a plain-text message, the only kind that can be compared afterwards. {_HOW}")
    return found


def _message_arguments(message: EmailMessage) -> dict[str, str]:
    """The arguments proposed for a message (rules 1 and 2)."""
    hidden = next((name for name in _HIDDEN if name in message), "")
    if hidden:
        raise Refusal(f"Send it without {hidden}: no copy would show who received it. {_HOW}")
    senders = _addresses(message, "From")
    recipients = _addresses(message, "To", "Cc")
    if len(senders) != 1 or not 1 <= len(recipients) <= _MOST_RECIPIENTS:
        raise Refusal(f"A message has one sender and at most {_MOST_RECIPIENTS} recipients. {_HOW}")
    identities = [str(each).strip() for each in message.get_all("Message-ID", [])]
    if len(identities) != 1 or not _MESSAGE_ID.fullmatch(identities[0]):
        raise Refusal(
            f"Give the message one Message-ID, such as <any-unique-words@{senders[0].partition('@')[2]}>. {_HOW}"
        )
    subject = str(message.get("Subject", ""))
    if not 1 <= len(subject) <= 300:
        raise Refusal(f"Give the message a subject of at most 300 letters. {_HOW}")
    try:
        text = str(message.get_content())
    except (LookupError, ValueError) as fault:
        raise Refusal(f"The text cannot be read: {fault}.") from fault
    return {
        "message_id": identities[0],
        "sender": senders[0],
        "recipients": ", ".join(recipients),
        "subject": subject,
        "body_sha256": _text_digest(text),
    }


def _addresses(message: EmailMessage, *names: str) -> list[str]:
    written = [str(value) for name in names for value in message.get_all(name, [])]
    found = {address.lower() for _, address in getaddresses(written) if address}
    if wrong := next((each for each in found if not _ADDRESS.fullmatch(each)), ""):
        raise Refusal(f"{wrong} is not a complete address. {_HOW}")
    return sorted(found)


def _text_digest(text: str) -> str:
    """SHA-256 of the text, without trailing spaces and with \\n line ends, as the check pattern `email` counts it."""
    lines = text.replace("\r\n", "\n").split("\n")
    return hashlib.sha256("\n".join(line.rstrip() for line in lines).strip("\n").encode()).hexdigest()


SEND: Final = Program(
    title="msmtp -t < FILE",
    names=("msmtp", "sendmail", "swaks", "mail", "mailx", "s-nail", "mutt", "neomutt", "himalaya"),
    changes=_changes,
    read=_read,
    how="The only supported redirection is the file with the message.",
)
