"""What the checks of e-mail, calendar, payments, tickets and vector search refuse at registration, without a peer."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from ledger.catalogue.rules import expressions
from reviews.checks import fetching
from reviews.checks.calendar import event_fields, parse_event
from reviews.checks.catalogue import check_for
from reviews.checks.fetching import SiteResponse
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from reviews.checks.payments import _payment_indicators

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
KEY = "scope.idempotency_key"
GOOD = {
    "email": {"match": {"X-Key": KEY}, "to": "sr.to", "fields": ["X-Order"], "deliver_within_s": 60},
    "calendar": {"calendar": "sr.calendar", "uid": KEY, "match": {"X-KEY": KEY}, "exclusive": True},
    "payments": {
        "kind": "refund",
        "match": {"metadata.key": KEY},
        "of": {"charge": "sr.charge"},
        "amount": "sr.amount",
    },
    "crm_ticketing": {"id": "sr.issue", "set": {"status": "'done'"}, "comment": "sr.text", "assignee": "sr.who"},
    "vector_search": {
        "table": "shop.documents",
        "where": {"id": "sr.id"},
        "embedding_column": "embedding",
        "version_column": "model",
        "embedding_version": "sr.model",
        "retrieval": {"table": "search", "where": {"id": "sr.id"}, "embedding_column": "embedding"},
    },
}
BAD = [
    ("email", {"match": {}}),
    ("email", {"message_id": KEY}),
    ("email", {"match": {"X Key": KEY}}),
    ("email", {"match": {"X-Key": "sa.key"}}),
    ("email", {"to": 3}),
    ("email", {"fields": ["a b"]}),
    ("email", {"deliver_within_s": 0}),
    ("email", {"tenant_header": "a:b"}),
    ("email", {"mailboxes": "'x'"}),
    ("calendar", {"calendar": None}),
    ("calendar", {"uid": None, "match": None}),
    ("calendar", {"match": {"lower": KEY}}),
    ("calendar", {"exclusive": "yes"}),
    ("calendar", {"expect": "maybe"}),
    ("calendar", {"fields": ["count"]}),
    ("calendar", {"timezon": "'x'"}),
    ("payments", {"kind": "gift"}),
    ("payments", {"id": "sr.id"}),
    ("payments", {"match": {"a b": KEY}}),
    ("payments", {"of": {"friend": KEY}}),
    ("payments", {"amount": 10}),
    ("payments", {"settle_within_s": True}),
    ("payments", {"target_field": "a;b"}),
    ("crm_ticketing", {"id": None}),
    ("crm_ticketing", {"match": {"key": KEY}}),
    ("crm_ticketing", {"set": {}}),
    ("crm_ticketing", {"kind": "../user"}),
    ("crm_ticketing", {"expect": 1}),
    ("vector_search", {"table": "a.b.c"}),
    ("vector_search", {"embedding_column": None}),
    ("vector_search", {"where": {}}),
    ("vector_search", {"version_column": None}),
    ("vector_search", {"retrieval": {"table": "x"}}),
    ("vector_search", {"retrieval": "x"}),
]


def faults(pattern, **changes):
    part = {name: value for name, value in (GOOD[pattern] | changes).items() if value is not None}
    return check_for(pattern).validate({"lookup": {"effects": {"thing": part}}})


@pytest.mark.parametrize("pattern", GOOD)
def test_a_valid_lookup_is_accepted(pattern):
    assert faults(pattern) == []


@pytest.mark.parametrize(("pattern", "changes"), BAD)
def test_an_invalid_lookup_is_reported(pattern, changes):
    assert faults(pattern, **changes)


@pytest.mark.parametrize("pattern", GOOD)
def test_misspelt_fields_are_refused_in_predicates(pattern):
    typed = dict.fromkeys(expressions.VARIABLES) | {
        "sa": check_for(pattern).typed_fields({"effects": {"thing": GOOD[pattern]}})
    }
    expressions.compile("sa.exists && sa.effects.thing.count == 1", typed)
    with pytest.raises(expressions.BadExpression):
        expressions.compile("sa.nothing == 1", typed)


def test_a_ledger_lookup_requires_a_filter_and_an_amount_column():
    check = check_for("payments")
    effects = {"effects": {"thing": GOOD["payments"]}}
    books = {"table": "entries", "where": {"key": KEY}, "amount_column": "amount"}
    assert check.validate({"lookup": effects | {"ledger": books}}) == []
    assert check.validate({"lookup": effects | {"ledger": books | {"where": {}}}})
    assert check.validate({"lookup": effects | {"ledger": {"table": "entries", "where": {"key": KEY}}}})


class TestWhatNoPeerDoes:
    """Indicators that the real peers cannot produce, over answers as the providers document them."""

    @pytest.mark.req("R-CP-05")
    def test_a_refund_that_failed_did_not_settle(self):
        refund = {"status": "failed", "failure_reason": "expired_or_canceled_card", "amount": 500, "currency": "eur"}
        assert list(_payment_indicators({"kind": "refund", "of": {}}, refund, at=AT)) == ["settlement_failure"]

    @pytest.mark.req("R-CP-05")
    def test_a_charge_that_was_reversed_did_not_settle(self):
        charge = {"status": "succeeded", "failure_balance_transaction": "txn_1", "amount": 500, "currency": "eur"}
        assert list(_payment_indicators({"kind": "charge", "of": {}}, charge, at=AT)) == ["settlement_failure"]

    @pytest.mark.req("R-CP-05")
    def test_a_refund_that_is_pending_too_long_is_detected(self):
        made = int((AT - timedelta(days=6)).timestamp())
        refund = {"status": "pending", "created": made}
        assert list(_payment_indicators({"kind": "refund", "of": {}}, refund, at=AT)) == ["pending_beyond_sla"]
        assert list(_payment_indicators({"kind": "refund", "of": {}, "settle_within_s": 864_000}, refund, at=AT)) == []


def test_a_mail_server_that_answers_byte_by_byte_times_out():
    """Each byte comes well within the socket's limit; the whole answer never does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip():
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"* OK ready\r\n")
                while True:
                    connection.sendall(b"*")
                    time.sleep(0.1)

        threading.Thread(target=drip, daemon=True).start()
        settings = {"host": "127.0.0.1", "port": server.getsockname()[1], "tls": "none"}
        started = time.monotonic()
        with pytest.raises(CheckFailed) as failed:
            check_for("email").read(
                system=SystemAccess("mail", "email", settings, {"user": "ann", "password": "word"}),
                verification={"lookup": {"effects": {"send": GOOD["email"]}}},
                bindings={"scope": {"idempotency_key": "key-1"}, "sr": {"to": "a@example.test"}},
                at=AT,
                timeout_s=1,
            )
    assert failed.value.retryable
    assert time.monotonic() - started < 5


@pytest.mark.req("R-VD-09")
@pytest.mark.parametrize(
    ("headers", "trusted"),
    [
        ({"age": "0"}, "STRONG"),
        ({"age": "7"}, "CACHE"),
        ({"x-cache": "HIT"}, "CACHE"),
        ({"date": "Mon, 02 Mar 2026 08:56:00 GMT"}, "STRONG"),
        ({"date": "Mon, 02 Mar 2026 08:54:00 GMT"}, "STALE_ENDPOINT"),
        ({"date": "soon"}, "STRONG"),
    ],
)
def test_an_answer_from_a_cache_has_weaker_consistency(headers, trusted):
    answer = SiteResponse("http://x", 200, fetching.httpx.Headers(headers), b"")
    assert fetching.effective_consistency(SystemAccess("x", "calendar"), answer, at=AT) is Consistency(trusted)


@pytest.mark.parametrize(
    ("start", "zone", "instant"),
    [
        ("DTSTART:20260302T080000Z", "UTC", "2026-03-02T08:00:00Z"),
        ("DTSTART;TZID=Europe/Berlin:20260702T080000", "Europe/Berlin", "2026-07-02T06:00:00Z"),
        ("DTSTART;VALUE=DATE:20260302", "date", "2026-03-02T00:00:00Z"),
        ("DTSTART:20260302T080000", "floating", ""),
        ("DTSTART;TZID=Nowhere/Land:20260302T080000", "Nowhere/Land", ""),
        ("DTSTART:soon", "floating", ""),
    ],
)
def test_times_are_read_with_their_time_zone(start, zone, instant):
    found = event_fields(parse_event(f"BEGIN:VEVENT\r\nUID:1\r\n{start}\r\nEND:VEVENT\r\n"))
    assert (found["timezone"], found["starts_at"]) == (zone, instant)
