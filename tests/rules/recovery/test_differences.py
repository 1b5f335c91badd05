"""Differences: what a reading shows instead of the request, exactly, and which correction makes it good."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ledger.catalogue.rules.remedies import DifferenceKind as Kind
from ledger.catalogue.rules.remedies import Recovery, Remedy
from reviews.reconciliation.rules.difference import describe_correction, find_difference, read_difference
from reviews.recovery.rules.remedies import Correction, PlanBasis, plan_correction

ASKED = {"order_id": "o-17", "amount": "48.50", "currency": "EUR"}
AMOUNT = {"text": "sa.amount == sr.amount", "holds": "FALSE"}


def row(number: int, amount: Any = "48.50", **changes: Any) -> dict[str, Any]:
    return {"id": number, "order_id": "o-17", "amount": amount, "currency": "EUR"} | changes


def findings(
    *rows: dict[str, Any], asked: Any = ASKED, failed: Any = (), found: str = "VALUE_MISMATCH", decisive: bool = True
) -> dict[str, Any]:
    effect = {"name": "refund", "present": True, "count": len(rows), "fields": rows[0], "instances": rows}
    return {
        "layers": {"sr": asked},
        "readings": [{"effects": [effect]}],
        "verdict": {
            "decisive": decisive,
            "discrepancy": found,
            "effects": [{"name": "refund", "found": "PRESENT", "count": len(rows)}],
            "predicates": failed,
        },
    }


DUPLICATE = findings(row(3), row(4), found="DUPLICATE_SIDE_EFFECT")


@pytest.mark.parametrize(
    ("paid", "asked", "kind", "over", "in_notation"),
    [
        ("485.00", "48.50", Kind.SURPLUS, "436.50", "436.50"),
        ("48.505", "48.50", Kind.SURPLUS, "0.005", "0.005"),
        ("0.1", "0.3", Kind.MISSING, "0.2", "0.2"),
        (48500, 4850, Kind.SURPLUS, "436.50", 43650),
        (4849, 4850, Kind.MISSING, "0.01", 1),
        (9007199254740993, 9007199254740992, Kind.SURPLUS, "0.01", 1),
    ],
)
def test_a_difference_in_money_is_exact_and_in_the_notation_of_the_request(paid, asked, kind, over, in_notation):
    request = ASKED | {"amount": asked}
    found = find_difference(findings(row(3, paid), asked=request, failed=[AMOUNT]))
    assert found is not None
    assert (found.kind, found.amount) == (kind, Decimal(over))
    [diff] = found.bindings(request)
    assert (diff["amount"], diff["currency"]) == (in_notation, "EUR")
    assert type(diff["amount"]) is type(in_notation)


def test_a_currency_without_decimals_counts_whole_units():
    request = ASKED | {"amount": 5000, "currency": "JPY"}
    found = find_difference(findings(row(3, 5001, currency="JPY"), asked=request, failed=[AMOUNT]))
    assert found is not None
    assert describe_correction(found, "") == "reverse the surplus of 1 JPY of refund 3"
    assert next(found.bindings(request))["amount"] == 1


def test_the_further_rows_of_a_duplicate_are_corrected_one_by_one():
    found = find_difference(findings(row(3), row(4), row(5), found="DUPLICATE_SIDE_EFFECT"))
    assert found is not None
    assert (found.kind, found.ids) == (Kind.DUPLICATE, ("3", "4", "5"))
    assert [each["row"]["id"] for each in found.bindings(ASKED)] == [4, 5]
    assert describe_correction(found, "") == "reverse refund 4 and refund 5 (97.00 EUR)"


def test_another_value_is_restored_and_must_be_seen_in_the_effect_itself():
    status = {"text": "sa.status == 'succeeded'", "holds": "FALSE"}
    found = find_difference(findings(row(3), failed=[status]))
    assert found is not None
    assert (found.kind, found.may_stay) == (Kind.VALUE, False)
    assert describe_correction(found, "status failed instead of succeeded") == (
        "restore what differs (status failed instead of succeeded)"
    )


@pytest.mark.parametrize(
    "shown",
    [
        findings(row(3, "48.00"), row(4), found="DUPLICATE_SIDE_EFFECT"),
        findings(row(3), row(4), found="DUPLICATE_SIDE_EFFECT", failed=[AMOUNT]),
        findings(row(3, "48.51"), failed=[AMOUNT, {"text": "sa.status == 'succeeded'", "holds": "FALSE"}]),
        findings(row(3, "485.00", order_id="o-18"), failed=[AMOUNT]),
        findings(row(3), row(4), found="DUPLICATE_SIDE_EFFECT", decisive=False),
        findings(row(3), row(4), found="WRONG_TARGET_MODIFIED"),
        DUPLICATE | {"readings": []},
        DUPLICATE | {"readings": [{"effects": [{"name": "refund", "present": True, "count": 2, "fields": row(3)}]}]},
        DUPLICATE | {"readings": [{"effects": [{"name": "refund", "present": None}]}]},
        {},
    ],
    ids=[
        "the first row is not the requested one",
        "the first row fails a check",
        "more differs than the amount",
        "another field of the request differs as well",
        "the reading decides nothing",
        "it is in another target",
        "nothing was read",
        "not every row is shown",
        "it could not be told",
        "no findings",
    ],
)  # fmt: skip
def test_where_more_than_one_thing_is_wrong_or_unknown_no_difference_is_told(shown):
    assert find_difference(shown) is None


def test_differences_are_the_same_where_the_same_rows_have_the_same_amounts():
    one = find_difference(DUPLICATE)
    assert one is not None
    assert one == find_difference(findings(row(3, status="a"), row(4, status="b"), found="DUPLICATE_SIDE_EFFECT"))
    assert one != find_difference(findings(row(3), row(5), found="DUPLICATE_SIDE_EFFECT"))
    assert one != find_difference(findings(row(3), row(4, "48.51"), found="DUPLICATE_SIDE_EFFECT"))
    assert one != find_difference(findings(row(3), row(4), row(5), found="DUPLICATE_SIDE_EFFECT"))
    assert read_difference(one.as_json()) == one


TOOLS = {"cancel_refund": frozenset({"refund_id"}), "refund": frozenset(ASKED)}


def planned(shown: Any, corrections: dict[Kind, Remedy], tool: str = "refund") -> Correction | str:
    basis = PlanBasis(recovery=Recovery(corrections=corrections), tools=TOOLS, layers={"sr": ASKED})
    return plan_correction(basis, find_difference(shown), tool=tool)


def test_a_correction_is_filled_from_the_difference():
    found = planned(DUPLICATE, {Kind.DUPLICATE: Remedy("cancel_refund", {"refund_id": "diff.row.id"})})
    assert isinstance(found, Correction)
    assert [(each.tool, each.arguments) for each in found.orders] == [("cancel_refund", {"refund_id": 4})]


def test_why_there_is_no_correction_is_said():
    cancel = Remedy("cancel_refund", {"refund_id": "diff.row.number"})
    again = Remedy("refund", {name: f"sr.{name}" for name in ASKED})
    assert (
        planned({}, {}) == "The newest decisive reading shows no single difference that a correction could make good."
    )
    assert planned(DUPLICATE, {}) == "The contract names no tool that corrects this difference (duplicate)."
    assert str(planned(DUPLICATE, {Kind.DUPLICATE: cancel})).startswith(
        "The arguments of cancel_refund cannot be told."
    )
    assert planned(DUPLICATE, {Kind.DUPLICATE: Remedy("gone", {})}) == "The tool gone is not registered."
    assert planned(DUPLICATE, {Kind.DUPLICATE: again}) == (
        "A call of refund with the same arguments would repeat the request."
    )
