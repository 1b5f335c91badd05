"""The account in a run's evidence: five answers of what the run knew, and one line for each."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.reconciliation.rules.reconcile import reconcile
from reviews.reporting.rules.evidence_summary import summarize_evidence, summary_lines
from tests.support.verification_runs import LATER, inputs, reading, refund

POLICIES = {"recovery_policy": "1 (sha256:aa)"}


def account(*effects: Any, **changes: Any) -> dict[str, dict[str, Any]]:
    given = inputs(reading(*effects, **changes), scope={"tenant": "acme", "principal": "cashier"})
    return summarize_evidence(given, reconcile(given), contract_digest="d" * 64, policies=POLICIES)


def test_a_run_that_found_the_refund_answers_all_five_questions() -> None:
    told = account(refund(fields={"amount": 1000, "currency": "EUR", "actor": "runner"}))
    assert told["what"] == {
        "operation": "refund",
        "payload_hash": told["what"]["payload_hash"],
        "result": "SUCCESS",
        "effects": ["refund: present (1)"],
    }
    assert told["where"]["tenant"] == "acme"
    assert told["where"]["sources"] == ["shop: shop.refunds"]
    assert told["by_whom"] == {"agent": "cashier", "principal": "agent-1", "named_by_the_source": ["runner"]}
    authority = told["under_which_authority"]
    assert (authority["contract"], authority["contract_digest"]) == ("1 1", "d" * 64)
    assert authority["policies"] == POLICIES
    proof = told["how_proved"]
    assert proof["readings"] == [f"shop, PRIMARY, 0/16B3748, {LATER.isoformat()}"]
    assert (proof["predicates"], proof["indicators"], proof["not_applicable"]) == ("4 of 4 hold", [], {})
    assert proof["reason"].endswith(".")


def test_actors_are_those_that_the_sources_name_each_once() -> None:
    told = account(
        refund(
            fields={"amount": 1000, "currency": "EUR", "creator": "zoe", "approver": ["abe", "zoe", ""], "note": "x"}
        ),
        context={"trail": {"sender": "mia"}, "count": 3},
    )
    assert told["by_whom"]["named_by_the_source"] == ["abe", "mia", "zoe"]


def test_predicates_that_do_not_hold_are_counted() -> None:
    wrong = account(refund(fields={"amount": 9, "currency": "EUR"}), not_applicable={"x": "y"})
    assert wrong["how_proved"]["predicates"] == "3 of 4 hold"
    assert (wrong["how_proved"]["indicators"], wrong["how_proved"]["not_applicable"]) == ([], {"x": "y"})
    assert wrong["what"]["result"] == "MISMATCH"


@pytest.mark.parametrize(
    ("approval", "told"),
    [({"approval_id": "ap-1"}, "ap-1"), ({"approval_id": None}, "not required"), (None, "not required")],
)
def test_an_approval_is_named_or_was_not_required(approval: dict[str, Any] | None, told: str) -> None:
    given = inputs(reading(refund()))
    given.entry["approval"] = approval  # type: ignore[index]
    summary = summarize_evidence(given, reconcile(given), contract_digest="", policies={})
    assert summary["under_which_authority"]["approval"] == told


def test_each_question_is_one_line_and_what_is_not_known_is_left_out() -> None:
    document = {
        "account": {
            "what": {
                "payload_hash": "aa",
                "result": "SUCCESS",
                "effects": ["refund: present (1)", "notice: absent (0)"],
            },
            "where": {"target": "order/1", "tenant": ""},
            "by_whom": "nobody",
            "how_proved": {"not_applicable": {"read_after": "no version", "empty": ""}},
        }
    }
    assert summary_lines(document) == [
        ("What", "payload hash aa; result SUCCESS; effects refund: present (1), notice: absent (0)"),
        ("Where", "target order/1"),
        ("How proved", "not applicable read after: no version"),
    ]
    assert summary_lines({}) == summary_lines({"account": "none"}) == []
    whole = {"account": {key: {"x": 1} for key in ("what", "where", "by_whom", "under_which_authority", "how_proved")}}
    assert summary_lines(whole) == [
        (title, "x 1") for title in ("What", "Where", "By whom", "Under which authority", "How proved")
    ]
