"""What a command of a coding agent would send by mail, read from the file that it would send."""

from __future__ import annotations

import email
import email.policy
from pathlib import Path

import pytest

from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.shell import Effect, Refusal
from reviews.checks.email import body_sha256

MESSAGE = """\
From: Ada <Ada@example.org>
To: Omar <omar@example.org>, rita@example.org
Cc: team@example.org
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= from the build
Message-ID: <build-17@example.org>
Content-Type: text/plain; charset=utf-8

The build is done.  \n
Ada
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "note.eml").write_text(MESSAGE)
    return tmp_path


def changed(folder: Path, before: str, after: str) -> str:
    """A message with something else in it; how it would be sent."""
    (folder / "other.eml").write_text(MESSAGE.replace(before, after))
    return "msmtp -t < other.eml"


def test_a_message_in_a_file_is_proposed_with_all_recipients_and_the_digest_of_its_body(folder):
    written = email.message_from_string(MESSAGE, policy=email.policy.default)
    effect = Effect(
        "email_send",
        {
            "message_id": "<build-17@example.org>",
            "sender": "ada@example.org",
            "recipients": "omar@example.org, rita@example.org, team@example.org",
            "subject": "Grüße from the build",
            "body_sha256": body_sha256(written),
        },
    )
    for command in (
        "msmtp -t < note.eml",
        "msmtp -a work --read-recipients <note.eml",
        "/usr/sbin/sendmail -oi -t < note.eml",
        f"cd {folder} && sendmail -t < ./note.eml",
    ):
        assert read_command(command, folder) == effect


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "echo hello | mail -s Hello omar@example.org",
            "The only supported redirection is the file with the message.",
        ),
        ("cat note.eml | msmtp -t", "The only supported redirection is the file with the message."),
        ("msmtp -t < note.eml && rm note.eml", "The only supported redirection is the file with the message."),
        ("msmtp -t < $FILE", "The only supported redirection is the file with the message."),
        ("msmtp -t <<EOF\nTo: a@example.org\nEOF", "The only supported redirection is the file with the message."),
        ("bash -c 'sendmail -t < note.eml'", "Send `msmtp -t < FILE` as a command of its own"),
        (
            "mutt -s Hello -a key.pem -- omar@example.org",
            "Not recognised: what `mutt` sends cannot be known in advance.",
        ),
        ("swaks --to omar@example.org --server mail.example.org", "Not recognised: what `swaks` sends"),
        ("himalaya message send note.eml", "Not recognised: what `himalaya` sends"),
        ("sendmail omar@example.org", "Not recognised: what `sendmail` sends is not in a file."),
        ("sendmail -t eve@example.org < note.eml", "Send it without eve@example.org"),
        ("sendmail -t -f eve@example.org < note.eml", "Send it without -f"),
        ("sendmail -a work -t < note.eml", "Send it without -a"),
        ("sendmail -i < note.eml", "Send it with -t"),
        ("msmtp -t < nowhere.eml", "nowhere.eml cannot be read: No such file or directory."),
    ],
)
def test_a_message_that_cannot_be_read_exactly_is_refused_with_the_form_to_use(folder, command, said):
    with pytest.raises(Refusal) as refused:
        read_command(command, folder)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("Cc:", "Bcc:", "Send it without Bcc: no copy would show who received it."),
        ("From: ", "Resent-To: eve@example.org\nFrom: ", "Send it without Resent-To"),
        (
            "Message-ID: <build-17@example.org>\n",
            "",
            "Give the message one Message-ID, such as <any-unique-words@example",
        ),
        ("rita@example.org", "root", "root is not a complete address."),
        ("From: Ada <Ada@example.org>\n", "", "A message has one sender"),
        ("Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= from the build\n", "", "a subject of at most 300 letters"),
        ("text/plain; charset=utf-8", "text/html", "is not a plain-text message"),
        ("text/plain; charset=utf-8", 'multipart/mixed; boundary="x"', "is not a plain-text message"),
        ("Content-Type", "Content-Disposition: attachment\nContent-Type", "is not a plain-text message"),
        ("charset=utf-8", "charset=no-such", "The text cannot be read"),
        ("The build", 1_000_001 * "x", "is larger than 1000000 bytes."),
    ],
)
def test_a_message_that_could_not_be_compared_later_is_refused(folder, before, after, said):
    with pytest.raises(Refusal) as refused:
        read_command(changed(folder, before, after), folder)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "command", ["mail", "mutt -R", "himalaya envelope list", "msmtp --version", "sendmail -bp", "grep mail note.eml"]
)
def test_programs_that_only_show_mail_are_not_held(folder, command):
    assert read_command(command, folder) is None
