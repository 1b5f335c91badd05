"""From answers of a described system to an effect: what is not said is unknown."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from reviews.systems.rules import answers
from reviews.systems.rules.answers import MISSING, FoundObjects
from reviews.systems.rules.description import Description

STRIPE = Description(
    json.loads((Path(__file__).parents[3] / "reviews" / "systems" / "stripe_refunds.json").read_text())
)
ZENDESK = Description(
    json.loads((Path(__file__).parents[3] / "reviews" / "systems" / "zendesk_tickets.json").read_text())
)
AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
REFUND = {"id": "re_1", "status": "succeeded", "amount": 1000, "currency": "usd", "created": 1772440000, "metadata": {}}
TICKET = {"id": 7, "status": "open", "priority": "high", "assignee_id": 3, "updated_at": "v1"}


def effect(*things, whole=True, description=STRIPE, **part):
    found = FoundObjects(list(things), whole)
    return answers.effect_of("it", part, found, description, description.kind_of_state)


def indicators(*things, description=STRIPE, before=None, **part):
    found, seen = FoundObjects(list(things)), effect(*things, description=description, **part)
    told = answers.indicators_of(part, found, seen, description, description.kind_of_state, before=before or {}, at=AT)
    return list(told)


def test_a_pointer_finds_a_value_or_nothing():
    document = {"a": [{"b/c": 1}, 2], "": 3, "n": None}
    assert answers.value_at(document, "") is document
    assert answers.value_at(document, "/a/0/b~1c") == 1
    assert answers.value_at(document, "/n") is None
    for pointer in ("/x", "/a/2", "/a/b", "/a/-1", "/a/0/b~1c/d"):
        assert answers.value_at(document, pointer) is MISSING


def test_an_answer_is_the_described_one_by_status_value_and_header():
    part = {"status": 404, "where": {"/code": "7"}, "header": "X-Own"}
    told = {"status": 404, "headers": {"x-own": "1"}, "document": {"code": 7}}
    assert answers.answers_as(part, **told)
    for other in ({"status": 200}, {"headers": {}}, {"document": {"code": 8}}, {"document": None}):
        assert not answers.answers_as(part, **told | other)
    assert not answers.answers_as(None, **told)


@pytest.mark.parametrize(
    ("thing", "is_match"),
    [
        (REFUND | {"metadata": {"idempotency_key": "K"}}, True),
        (REFUND | {"metadata": {"idempotency_key": "L"}}, False),
        (REFUND | {"metadata": {"idempotency_key": None}}, False),
        (REFUND, False),
        ({name: value for name, value in REFUND.items() if name != "metadata"}, None),
        ({name: value for name, value in REFUND.items() if name != "id"}, None),
    ],
)
def test_an_object_matches_by_its_values_and_one_that_shows_too_little_is_not_told(thing, is_match):
    assert answers.matches(STRIPE, thing, {"key": "K"}) is is_match


@pytest.mark.parametrize(
    ("things", "whole", "present", "count"),
    [
        ((), True, False, 0),
        ((), False, None, 0),
        ((REFUND,), True, True, 1),
        ((REFUND,), False, None, 0),
        ((REFUND, REFUND), False, True, 2),
        ((REFUND | {"status": "canceled"},), True, False, 0),
        ((REFUND | {"status": "canceled"}, REFUND), True, True, 1),
        ((REFUND | {"status": "failed"},), True, True, 1),
        ((REFUND | {"status": "new"},), True, None, 0),
        ((REFUND | {"status": None},), True, None, 0),
        ((REFUND | {"status": "new"}, REFUND), True, None, 0),
        ((REFUND | {"status": "new"}, REFUND, REFUND), True, True, 2),
    ],
)
def test_an_effect_is_there_as_often_as_its_objects_show(things, whole, present, count):
    found = effect(*things, whole=whole)
    assert (found.present, found.count) == (present, count)


@pytest.mark.parametrize(
    ("things", "whole", "gone"),
    [
        ((), True, True),
        ((), False, None),
        ((REFUND,), False, False),
        ((REFUND | {"status": "canceled"},), True, True),
        ((REFUND | {"status": "new"},), True, None),
    ],
)
def test_what_is_to_be_gone_is_gone_only_where_nothing_may_be_left(things, whole, gone):
    assert effect(*things, whole=whole, expect="absent").present is gone
    assert indicators(*things, expect="absent") == []


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"amount": 1000, "currency": "USD"}, []),
        ({"amount": "10.00"}, []),
        ({"amount": "10"}, []),
        ({"currency": "usd"}, []),
        ({"amount": 1001}, ["refund_mismatch"]),
        ({"amount": "1000"}, ["refund_mismatch"]),
        ({"currency": "EUR"}, ["refund_mismatch"]),
    ],
)
def test_amounts_are_compared_as_money_and_currencies_in_either_case(wanted, says):
    assert effect(REFUND, **wanted).present is True
    assert indicators(REFUND, **wanted) == says


@pytest.mark.parametrize("left_out", ["amount", "currency"])
def test_a_wanted_value_that_is_not_shown_is_unknown(left_out):
    thing = {name: value for name, value in REFUND.items() if name != left_out}
    assert effect(thing, amount=1000).present is None
    assert effect(thing | {left_out: True}, amount=1000).present is None


def test_a_change_is_there_by_one_value_different_by_some_and_absent_without_any():
    both = {"priority": "high", "assignee": "3"}
    assert effect(TICKET, description=ZENDESK, set=both).present is True
    assert indicators(TICKET, description=ZENDESK, set=both) == []
    some = {"priority": "high", "assignee": "4"}
    assert effect(TICKET, description=ZENDESK, set=some).present is True
    assert indicators(TICKET, description=ZENDESK, set=some) == ["missing_field_update"]
    none = {"priority": "low", "assignee": "4"}
    assert effect(TICKET, description=ZENDESK, set=none).present is False
    assert indicators(TICKET, description=ZENDESK, set=none) == []
    unseen = {"priority": "high", "/custom_fields/0/value": "x"}
    assert effect(TICKET, description=ZENDESK, set=unseen).present is None


def test_an_unchanged_object_that_has_moved_on_is_stale():
    wanted = {"priority": "low"}
    assert indicators(TICKET, description=ZENDESK, set=wanted, before={"version": "v0"}) == ["stale_state"]
    assert indicators(TICKET, description=ZENDESK, set=wanted, before={"version": "v1"}) == []


def test_a_pending_object_is_late_after_its_time_and_a_failed_one_tells_why_nothing_is_there():
    pending = REFUND | {"status": "pending", "created": int(AT.timestamp()) - 100}
    assert effect(pending).pending is True
    assert indicators(pending, settle_within_s=101) == []
    assert indicators(pending, settle_within_s=99) == ["pending_beyond_sla"]
    assert indicators(REFUND | {"status": "canceled"}) == ["decline"]
    assert indicators(REFUND | {"status": "canceled"}, REFUND) == []
    assert indicators(REFUND | {"status": "failed"}) == ["settlement_failure"]


def test_the_fields_are_shown_as_expressions_see_them():
    thing = REFUND | {"metadata": {"order": 12}, "charge": None}
    assert effect(thing, fields={"order": "/metadata/order", "note": "/note"}).fields == {
        "order": 12,
        "id": "re_1",
        "state": "succeeded",
        "state_kind": "terminal",
        "amount": 1000,
        "currency": "USD",
        "time": "2026-03-02T08:26:40Z",
    }


def test_tenant_and_target_are_shown_of_every_object():
    found = effect(REFUND | {"charge": "a"}, REFUND | {"charge": "b"}, target_field="charge")
    assert found.scope == {"target": ("a", "b")}
    assert [each["id"] for each in found.instances] == ["re_1", "re_1"]


@pytest.mark.parametrize(
    ("unit", "amount", "currency", "worth"),
    [
        ("minor", 1000, "usd", Decimal("10.00")),
        ("minor", "1000", "jpy", Decimal(1000)),
        ("minor", "10.00", "usd", None),
        ("major", "10.00", "usd", Decimal("10.00")),
        ("major", 10, "usd", Decimal(10)),
        ("major", "ten", "usd", None),
        ("major", "10.00", None, None),
        ("minor", True, "usd", None),
    ],
)
def test_an_amount_is_read_in_the_unit_of_its_system(unit, amount, currency, worth):
    description = Description(STRIPE.document | {"amount_in": unit})
    assert answers.amount_of(description, REFUND | {"amount": amount, "currency": currency}) == worth


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (1772440000, "2026-03-02T08:26:40+00:00"),
        ("2026-03-02T08:26:40Z", "2026-03-02T08:26:40+00:00"),
        ("2026-03-02T10:26:40.000+0200", "2026-03-02T08:26:40+00:00"),
        ("2026-03-02 08:26:40", "2026-03-02T08:26:40+00:00"),
        ("Mon, 02 Mar 2026 08:26:40 +0000", "2026-03-02T08:26:40+00:00"),
        ("yesterday", None),
        (None, None),
        ("9" * 30, None),
    ],
)
def test_a_time_is_read_in_the_forms_that_systems_write(text, moment):
    found = answers.time_of(STRIPE, {"created": text})
    assert (found and found.isoformat()) == moment
