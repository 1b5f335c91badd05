"""Messages, from the proposal to the decision: what a tool sends through real mail servers, and what is made of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reviews.checks.email import body_sha256
from tests.peers.support.errand import Errand
from tests.peers.support.path import accounted, fired, not_asked, succeeded
from tests.peers.support.post import Post

pytestmark = pytest.mark.long

OURS = "mx.example.test; dkim=pass header.d=example.test; dmarc=pass header.from=example.test"


def sending(post, **settings):
    usual = {
        "host": "127.0.0.1",
        "port": post.imap,
        "tls": "none",
        "authserv_id": "mx.example.test",
        "quarantine": ["Junk"],
        "reports": "Reports",
    }
    return Errand(
        pattern="email",
        settings={name: value for name, value in (usual | settings).items() if value is not None},
        credential={"user": "ann", "password": "word"},
        arguments={
            "order": "o-17",
            "to": "ann@example.test",
            "subject": "Your refund",
            "body": body_sha256(post.message()),
        },
        lookup={
            "effects": {
                "send": {
                    "match": {"X-Idempotency-Key": "scope.idempotency_key"},
                    "to": "sr.to",
                    "deliver_within_s": 600,
                    "fields": ["X-Order"],
                    "tenant_header": "X-Tenant",
                    "target_header": "X-Order",
                }
            }
        },
        predicates=(
            "sa.status == 'delivered'",
            "sa.recipients == [sr.to]",
            "sa.sender == 'shop@example.test'",
            "sa.subject == sr.subject && sa.body_sha256 == sr.body",
            "sa.bounce == '' && !sa.suppressed",
        ),
        target="order/{order}",
        facts={"effect_domain": "EXTERNAL_COMMUNICATION"},
    )


def send(post, work, times=1, **parts):
    for _ in range(times):
        post.send(**{"key": work.key, "X_Tenant": "acme", "Authentication_Results": OURS} | parts)


@pytest.fixture
def reported(post):
    """A mail server where reports and what was filtered have their places."""
    for mailbox in ("Reports", "Junk"):
        post.put(mailbox, post.message(key="another"))
    return post


@pytest.mark.req("R-CP-03", "R-CP-14", "R-CP-15", "R-VD-05")
def test_a_delivered_message_is_a_success(office, reported):
    ended = office.carry_out(sending(reported), lambda work: send(reported, work))
    succeeded(ended)
    assert {"dkim": "pass", "dmarc": "pass"}.items() <= ended.effect["fields"].items()
    assert not_asked(ended) == set()
    accounted(ended, actor="shop@example.test", place="acme")


@pytest.mark.req("R-CP-03", "R-CP-15")
def test_sender_authentication_does_not_apply_without_a_judging_server(office, reported):
    ended = office.carry_out(sending(reported, authserv_id=None), lambda work: send(reported, work))
    succeeded(ended)
    assert not_asked(ended) == {"dkim_dmarc_alignment"}
    assert "names no server" in ended.document["readings"][0]["not_applicable"]["dkim_dmarc_alignment"]


def policy(post, work):
    post.report(about=work.key, status="5.7.1", diagnostic="smtp; 550 5.7.1 refused by policy")


def suppressed(post, work):
    post.report(about=work.key, diagnostic="smtp; recipient is on the suppression list")


@pytest.mark.req("R-CP-03", "R-CP-16", "R-VD-05")
@pytest.mark.parametrize(
    ("indicator", "effect"),
    [
        ("bounce", lambda post, work: post.report(about=work.key)),
        ("rejection", policy),
        ("suppression", suppressed),
        ("quarantine", lambda post, work: post.put("Junk", post.message(key=work.key, X_Tenant="acme"))),
        ("wrong_recipient", lambda post, work: send(post, work, to="ann@example.test, bob@example.test")),
        ("duplicate_send", lambda post, work: send(post, work, times=2)),
    ],
)
def test_a_misdelivered_message_raises_its_indicator(office, reported: Post, indicator, effect):
    fired(office.carry_out(sending(reported), lambda work: effect(reported, work)), indicator)


@pytest.mark.req("R-CP-03")
def test_a_message_without_any_report_raises_delivery_unknown(office, reported):
    ended = office.carry_out(sending(reported), lambda work: None, later=timedelta(minutes=20))
    fired(ended, "delivery_unknown_beyond_sla")


@pytest.mark.req("R-CP-13")
@pytest.mark.parametrize("parts", [{"X_Tenant": "willow"}, {"X_Order": "o-18"}])
def test_a_message_about_another_target_is_the_wrong_target(office, reported, parts):
    ended = office.carry_out(sending(reported), lambda work: send(reported, work, **parts))
    assert (ended.discrepancy, ended.row) == ("WRONG_TARGET_MODIFIED", "RT-14")
