"""The comparison of a case: what was not read, what was read and not compared, and what is not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from console.actions.state_comparison import comparison_table
from ledger.catalogue.rules.contract import parse_document
from ledger.record.rules.canonical import canonical
from ledger.record.rules.lifecycle import State
from reviews.reporting.rules.facts import Facts
from tests.support.pure.facts import facts_in
from tests.support.refund_shop import refund_contract

ASKED = {"order_id": "EX-1", "amount": 1250, "currency": "EUR"}
SOURCE = {"source": "shop", "consistency": "PRIMARY"}


def table(
    facts: Facts, authority: dict[str, Any] | None, *predicates: str, answer: dict[str, Any] | None = None
) -> dict[str, dict[str, str]]:
    """By field what each column says, or what stands where it says nothing."""
    found: dict[str, Any] = {}
    if authority is not None:
        results = [
            {"text": text, "holds": "TRUE", "expected": 1250, "actual": 1250, "origin": "contract"}
            for text in predicates
        ]
        layers = {"sr": ASKED, "sa": authority, "so": answer or {}}
        found = {"layers": layers, "readings": [SOURCE], "verdict": {"predicates": results}}
    record = SimpleNamespace(
        found=found,
        payload=canonical(ASKED),
        facts=facts,
        action=facts,
        contract=parse_document(refund_contract()),
    )
    rows = comparison_table(record)["rows"]  # type: ignore[arg-type]
    silent = {row["field"]: row["silences"] for row in rows}
    said = {row["field"]: {cell["account"]: cell["value"] for cell in row["cells"] if cell["said"]} for row in rows}
    return {field: silent[field] | said[field] for field in silent}


def test_an_unread_field_is_not_reported_as_not_found() -> None:
    unread = table(facts_in(State.UNKNOWN, readings=()), None)
    assert {row["authoritative"] for row in unread.values()} == {"not read"}
    assert {row["believed"] for row in unread.values()} == {"pending"}


def test_a_field_is_shown_as_not_compared_or_absent_according_to_the_reading() -> None:
    there = {"effects": {"refund": {"count": 1}}, "amount": 1250}
    assert table(facts_in(State.REVIEW_REQUIRED), there)["order_id"]["authoritative"] == "not compared"
    gone = {"effects": {"refund": {"count": 0}}}
    rows = table(facts_in(State.REVIEW_REQUIRED), gone, "sa.amount == sr.amount")
    assert rows["amount"]["authoritative"] == "absent"
    assert rows["order_id"]["authoritative"] == "not compared", "no check of the contract looks for it"


def test_a_tool_that_failed_is_shown_with_its_answer_and_not_with_a_finding() -> None:
    failed = table(facts_in(State.FAILED), {"effects": {"refund": {"count": 0}}}, answer={"status": "failed"})
    assert (failed["refund"]["observed"], failed["refund"]["authoritative"]) == ("failed", "not there")


def test_a_settled_action_without_confirmation_is_not_pending() -> None:
    there = {"effects": {"refund": {"count": 1}}, "amount": 1250}
    attested = facts_in(State.RECONCILED_SUCCESS, reached_by="attested_present")
    assert table(attested, there)["amount"]["believed"] == "not confirmed"
    assert table(facts_in(State.RECONCILED_SUCCESS), there)["amount"]["believed"] == "1250"


def test_a_field_has_one_row_with_or_without_the_name_of_its_effect() -> None:
    named = "sa.effects.refund.amount == sr.amount"
    one = table(facts_in(State.REVIEW_REQUIRED), {"effects": {"refund": {"count": 1}}, "amount": 1250}, named)
    assert "refund.amount" not in one
    assert (one["amount"]["intended"], one["amount"]["requested"], one["amount"]["authoritative"]) == ("1250",) * 3
    effects = {"refund": {"count": 1, "amount": 1250}, "notice": {"count": 1}}
    several = table(facts_in(State.REVIEW_REQUIRED), {"effects": effects}, named)
    assert "amount" not in several
    assert (several["refund.amount"]["requested"], several["refund.amount"]["authoritative"]) == ("1250", "1250")
