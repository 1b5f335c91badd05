"""Messages sent by SMTP into a Maildir and read back through pymap, an IMAP server from a package.

into the real mailbox: none of the peers bounces or signs.
"""

from __future__ import annotations

import imaplib
import json
from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.onboarding import sorted_contracts
from reviews.checks.catalogue import check_for
from reviews.checks.email import EmailCheck, body_sha256
from reviews.checks.interface import CheckFailed, Consistency
from tests.peers.support import environment
from tests.peers.support.post import BINDINGS, executed

pytestmark = pytest.mark.long


@pytest.mark.req("R-CP-03", "R-VD-03")
def test_a_message_that_arrived_is_present(post):
    post.send(key="key-2")
    post.send()
    found = post.look()
    (effect,) = found.effects
    assert (effect.present, effect.count) == (True, 1)
    assert effect.fields["recipients"] == ["ann@example.test"]
    assert effect.fields["sender"] == "shop@example.test"
    assert effect.fields["subject"] == "Your refund"
    assert effect.fields["body_sha256"] == body_sha256(post.message())
    assert effect.fields["status"] == "delivered"
    assert effect.fields["x_order"] == "o-17"
    assert effect.scope == {"target": ("o-17",)}
    assert found.indicators == ()
    assert found.consistency is Consistency.STRONG
    assert "uidvalidity" in found.freshness
    assert "uidnext 3" in found.freshness
    assert datetime.fromisoformat(effect.fields["received_at"]) > datetime.now(UTC) - timedelta(minutes=1)
    assert found.not_applicable["dkim_dmarc_alignment"]


@pytest.mark.req("R-CP-03")
def test_a_message_is_found_by_its_exact_message_id(post):
    post.send(key="key-11")
    post.send()
    found = post.look(match=None, message_id="'<' + scope.idempotency_key + '@example.test>'")
    assert found.effects[0].fields["message_id"] == "<key-1@example.test>"
    assert found.effects[0].count == 1


@pytest.mark.req("R-CP-03", "R-CP-16", "R-HS-03")
def test_a_message_sent_twice_is_a_duplicate(post):
    post.send()
    post.send()
    found = post.look()
    assert found.effects[0].count == 2
    assert found.indicators == ("duplicate_send",)


@pytest.mark.req("R-CP-03")
@pytest.mark.parametrize("to", ["bob@example.test", "ann@example.test, bob@example.test"])
def test_a_message_to_another_recipient_is_detected(post, to):
    post.send(to=to)
    assert post.look().indicators == ("wrong_recipient",)


@pytest.mark.req("R-CP-03")
def test_a_copy_delivered_to_another_address_is_detected(post):
    post.send(Delivered_To="journal@example.test")
    assert post.look(settings={"address": ["journal@example.test"]}).indicators == ()
    assert post.look().indicators == ("wrong_recipient",)


@pytest.mark.req("R-CP-03")
def test_a_message_in_quarantine_is_detected(post):
    post.put("Junk", post.message())
    found = post.look(settings={"quarantine": ["Junk"]})
    assert found.effects[0].fields["status"] == "quarantined"
    assert found.indicators == ("quarantine",)


def test_mail_sent_by_a_coding_agent_is_read_back_as_proposed(post, tmp_path):
    """The file that `msmtp -t < note.eml` reads, by the lookup of the contract that it is held as."""
    contract = json.loads(next(file for file in sorted_contracts() if file.name == "email_send.json").read_text())
    (tmp_path / "note.eml").write_bytes(post.message().as_bytes())
    proposed = read_command("msmtp -t < note.eml", tmp_path).arguments
    asked = {"match": None, "fields": None, "target_header": None}
    asked |= contract["verification"]["lookup"]["effects"]["message"]
    bindings = {"sr": proposed, "scope": executed()["scope"]}
    post.send(key="key-2")
    assert post.look(bindings=bindings, **asked).effects[0].present is None
    post.send()
    found = post.look(bindings=bindings, **asked)
    shown = found.effects[0].fields
    assert {name: shown[name] for name in ("message_id", "sender", "subject", "body_sha256")} == {
        name: proposed[name] for name in ("message_id", "sender", "subject", "body_sha256")
    }
    assert (shown["status"], found.indicators) == ("delivered", ())
    post.send()
    assert post.look(bindings=bindings, **asked).indicators == ("duplicate_send",)


class TestReports:
    """What delivery reports say."""

    SETTINGS = {"reports": "Reports"}

    @pytest.mark.req("R-CP-03")
    def test_a_bounced_message_is_reported_as_returned(self, post):
        post.report()
        found = post.look(settings=self.SETTINGS)
        assert found.effects[0].present
        assert found.effects[0].fields == {"status": "bounced", "suppressed": False, "bounce": "5.1.1"}
        assert found.indicators == ("bounce",)

    @pytest.mark.req("R-CP-03")
    @pytest.mark.parametrize(
        ("said", "fired"),
        [
            ({"status": "5.7.1", "diagnostic": "smtp; 550 5.7.1 refused by policy"}, "rejection"),
            ({"status": "5.1.1", "diagnostic": "smtp; recipient is on the suppression list"}, "suppression"),
        ],
    )
    def test_a_message_that_was_never_sent_is_absent(self, post, said, fired):
        post.report(**said)
        found = post.look(settings=self.SETTINGS)
        assert found.effects[0].present is False
        assert found.indicators == (fired,)

    def test_a_delayed_message_is_waited_for(self, post):
        post.report(action="delayed", status="4.4.1")
        found = post.look(settings=self.SETTINGS)
        assert found.effects[0].present is None
        assert found.indicators == ()

    def test_a_report_about_another_message_is_ignored(self, post):
        post.report(about="key-2")
        post.report(about="key-11")
        assert post.look(settings=self.SETTINGS).effects[0].present is None


class TestSenderAuthentication:
    OURS = "mx.example.test; dkim=pass header.d=example.test; dmarc=fail header.from=example.test"

    @pytest.mark.req("R-CP-03", "R-CP-15")
    def test_an_authentication_result_of_our_own_server_is_read(self, post):
        post.put("INBOX", post.message(Authentication_Results=self.OURS))
        fields = post.look(settings={"authserv_id": "mx.example.test"}).effects[0].fields
        assert (fields["dkim"], fields["dmarc"]) == ("pass", "fail")

    def test_an_authentication_result_of_another_server_is_ignored(self, post):
        post.put("INBOX", post.message(Authentication_Results=self.OURS.replace("mx.", "evil.")))
        fields = post.look(settings={"authserv_id": "mx.example.test"}).effects[0].fields
        assert fields["dkim"] == "not_applicable"


class TestAbsence:
    """A message that is not found may be on its way."""

    JOURNAL = {"records_everything": True}

    def test_an_ordinary_mailbox_does_not_prove_absence(self, post):
        post.send(key="key-2")
        assert post.look(bindings=executed()).effects[0].present is None

    @pytest.mark.req("R-CP-03")
    def test_a_message_is_reported_as_unknown_after_its_delivery_time(self, post):
        assert post.look(bindings=executed(minutes=2), deliver_within_s=600).indicators == ()
        late = post.look(bindings=executed(minutes=20), deliver_within_s=600)
        assert late.effects[0].present is None
        assert late.indicators == ("delivery_unknown_beyond_sla",)

    def test_a_complete_journal_proves_absence(self, post):
        post.send(key="key-2")
        found = post.look(settings=self.JOURNAL, bindings=executed(minutes=20))
        assert found.effects[0].present is False
        assert found.indicators == ()

    def test_a_journal_with_a_removed_message_does_not_prove_absence(self, post):
        post.send()
        post.send(key="key-2")
        assert post.look(settings=self.JOURNAL, bindings=executed()).effects[0].present
        post.remove()
        assert post.look(settings=self.JOURNAL, bindings=executed()).effects[0].present is None


@pytest.mark.req("R-VD-16")
def test_a_server_that_does_not_answer_is_an_outage(post):
    with pytest.raises(CheckFailed) as failed:
        post.look(settings={"port": environment.free_port()})
    assert failed.value.retryable


def test_a_refused_password_is_retried(post):
    with pytest.raises(CheckFailed) as failed:
        post.look(password="wrong-word")
    assert failed.value.retryable
    assert "wrong-word" not in failed.value.reason


def test_only_listed_mailboxes_are_read(post):
    with pytest.raises(CheckFailed, match="not among"):
        post.look(settings={"mailboxes": ["Sent"]})


def test_a_missing_mailbox_gives_no_answer(post):
    with pytest.raises(CheckFailed) as failed:
        post.look(mailbox="'Nowhere'")
    assert not failed.value.retryable


@pytest.mark.parametrize("value", ['x" OR ALL "', "x\r\nA1 LOGOUT", "käse", ""])
def test_a_value_is_never_read_as_a_command(post, value):
    with pytest.raises(CheckFailed, match="cannot stand"):
        post.look(bindings=BINDINGS | {"scope": {"idempotency_key": value}})


def test_without_encryption_only_the_loopback_address_is_read(post):
    with pytest.raises(CheckFailed, match="loopback"):
        post.look(settings={"host": "mail.example.test"})


def test_no_message_is_marked_as_read(post):
    post.send()
    post.look()
    with imaplib.IMAP4("127.0.0.1", post.imap, timeout=10) as session:
        session.login("ann", "word")
        session.select("INBOX")
        assert session.search(None, "UNSEEN")[1] == [b"1"]


def test_the_catalogue_contains_the_email_check():
    assert isinstance(check_for("email"), EmailCheck)
