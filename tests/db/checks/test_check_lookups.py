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
from reviews.checks.catalogue import PATTERNS, check_for
from reviews.checks.fetching import SiteResponse
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from reviews.checks.payments import _payment_indicators

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
KEY = "scope.idempotency_key"
GOOD = {
    "forge": {"reads": "ref", "host": "sr.host", "repository": "sr.owner + '/' + sr.repo", "ref": KEY, "commit": KEY},
    "npm": {"reads": "tag", "package": "sr.package", "host": "sr.host", "expect": "absent"},
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


def members_of(part, beside=()):
    """What a part may have, with the member that chooses its kind where there are several."""
    if "properties" in part:
        yield dict(beside), part["properties"]
    for kind in ("then", "else"):
        if kind in part and ("then" in part[kind] or "properties" in part[kind]):
            chosen = dict.fromkeys(part["if"]["required"], "sr.x") if kind == "then" else {}
            yield from members_of(part[kind], chosen)


def faults(pattern, **changes):
    part = {name: value for name, value in (GOOD[pattern] | changes).items() if value is not None}
    return check_for(pattern).validate({"lookup": {"effects": {"thing": part}}})


@pytest.mark.parametrize("pattern", GOOD)
def test_a_valid_lookup_is_accepted(pattern):
    assert faults(pattern) == []


@pytest.mark.parametrize(("pattern", "changes"), BAD)
def test_an_invalid_lookup_is_reported(pattern, changes):
    assert faults(pattern, **changes)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_member_of_the_wrong_kind_is_reported_with_its_place(pattern):
    """A member that holds what no lookup holds is named, whatever else is missing."""
    for beside, members in members_of(check_for(pattern).part):
        for name in members:
            found = check_for(pattern).validate({"lookup": {"effects": {"thing": beside | {name: [[]]}}}})
            assert any(each.startswith(f"lookup/effects/thing/{name}") for each in found), (name, found)


@pytest.mark.parametrize("wrong", [None, 3, "x", [], [{}]])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_value_in_place_of_an_object_is_reported(pattern, wrong):
    for name in ("effects", *check_for(pattern).beside):
        assert f"lookup/{name} must be an object." in check_for(pattern).validate({"lookup": {name: wrong}})
    assert check_for(pattern).validate({"lookup": {"effects": {"thing": wrong}}}) == [
        "lookup/effects/thing must be an object."
    ]
    assert check_for(pattern).validate({"lookup": wrong}) == ["lookup must be an object."]


@pytest.mark.parametrize(
    ("pattern", "part", "says"),
    [
        ("databases", {"table": "a.b.c"}, "/table must be a table's name, with or without its schema."),
        ("databases", {"where": {"a b": "sr.x"}}, "/where/a b is not a column's name."),
        (
            "databases",
            {"fields": ["count"]},
            "/fields/0 has the name of what the check itself says, and cannot be a field.",
        ),
        ("databases", {"present_if": "row.amount + 1"}, "/present_if: "),
        ("databases", {"tabel": "a"}, " has an unknown field `tabel` (known: "),
        ("filesystems", {"path": "sa.path"}, "/path: `sa.path` does not compile"),
        ("filesystems", {}, "/path must be an expression."),
        ("payments", {"of": {"friend": "sr.x"}}, "/of/friend must be one of charge, customer, payment_intent."),
        ("payments", {"id": "sr.id", "match": {"a": "sr.x"}}, " must have either id or match."),
        ("queues_events", {"max_deliveries": 0}, "/max_deliveries must be a whole number of at least 1."),
        ("vector_search", {"checksum": "sr.sum"}, "/checksum needs checksum_column."),
        ("browser_automation", {"text": "sr.text"}, "/text is what an element must say: name the element."),
        ("browser_automation", {"element": "a >> b"}, "/element: '>>' is no step of a selector"),
        ("security_infrastructure", {"document": "sr.x"}, " must name either a policy or a principal."),
        ("kubernetes", {"uid": "sr.uid"}, ": expect absent names the uid of the object that is to be gone."),
        (
            "database_changes",
            {"reads": "objects", "expect": "absent"},
            ": each object says itself whether it is to be there.",
        ),
    ],
)
def test_a_fault_is_a_sentence_with_its_place(pattern, part, says):
    found = check_for(pattern).validate({"lookup": {"effects": {"thing": part}}})
    assert any(each.startswith(f"lookup/effects/thing{says}") for each in found), found


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
