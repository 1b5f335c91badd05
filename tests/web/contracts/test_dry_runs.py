"""Dry runs: a lookup is tried on the real system before its contract is registered, and must find what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser_users import Visitor, words
from tests.support.refund_shop import Counter, refund_contract

PRESENT = {"order_id": "EX-1001", "amount": 1250, "currency": "EUR"}
DRY_RUN = {
    "present": {"arguments": PRESENT, "idempotency_key": "sample"},
    "absent": {"arguments": PRESENT, "idempotency_key": "nobody"},
}


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path) -> Counter:
    """A till in which one refund is known to be there."""
    counter.open(secrets_dir, refund_contract(name="another_tool"))
    counter.till.refund("sample")
    return counter


def lookup(**changes: Any) -> dict[str, Any]:
    effect = refund_contract()["verification"]["lookup"]["effects"]["refund"]
    return {"effects": {"refund": effect | changes}}


def tried(counter: Counter, dry_run: Any = DRY_RUN, **verification: Any) -> Any:
    document = refund_contract(name="refund_slowly", dry_run=dry_run)
    document["verification"] |= verification
    return counter.operator_key.post("/contracts", document)


def findings(answer: Any) -> list[tuple[str, str]]:
    assert (answer.status_code, answer.json()["code"]) == (422, "BAD_CONTRACT"), answer.content
    assert {each["code"] for each in answer.json()["errors"]} == {"DRY_RUN_FAILED"}
    return [(each["path"], each["detail"]) for each in answer.json()["errors"]]


def test_a_lookup_that_finds_what_is_there_and_nothing_else_is_registered(cashier: Counter):
    answer = tried(cashier)
    assert (answer.status_code, answer.json()["state"]) == (201, "REGISTERED")
    runs = cashier.till.till.execute("SELECT count(*) AS n FROM refunds").fetchone()
    assert runs == {"n": 1}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (
            {"lookup": lookup(table="payments")},
            [
                ("present", 'till: Not read. relation "payments" does not exist'),
                ("absent", 'till: Not read. relation "payments" does not exist'),
            ],
        ),
        (
            {"lookup": lookup(version_column="revision")},
            [
                ("present", 'till: Not read. column "revision" does not exist'),
                ("absent", 'till: Not read. column "revision" does not exist'),
            ],
        ),
        (
            {"lookup": lookup(where={"key": "sr.order_id"})},
            [("present", "till: `refund` was not found, and the sample names one that is there.")],
        ),
        (
            {"lookup": lookup(where={"order_id": "sr.order_id"})},
            [
                (
                    "absent",
                    "till: `refund` was found, and the sample names one that is not there: the lookup is too wide.",
                )
            ],
        ),
        (
            {"predicates": ["sa.amount == sr.amount", "sa.amount == 99"]},
            [("present", "till: `sa.amount == 99` does not hold")],
        ),
    ],
    ids=["no such table", "no such column", "finds nothing", "finds too much", "a predicate fails"],
)
def test_a_lookup_that_is_wrong_is_refused_with_what_was_found(cashier: Counter, changes: Any, found: Any):
    told = findings(tried(cashier, **changes))
    assert [(path.removeprefix("/dry_run/"), text) for path, text in told] == found
    assert cashier.operator_key.get("/contracts/refund_slowly/1.0.0").status_code == 404


def test_a_row_of_another_tenant_is_told_by_the_tenant_column(cashier: Counter):
    cashier.till.till.execute("UPDATE refunds SET tenant = 'somebody'")
    [(path, text)] = findings(tried(cashier, lookup=lookup(tenant_column="tenant")))
    assert (path, text) == (
        "/dry_run/present",
        "till: `effects.refund.tenant is within the authorised scope` does not hold:"
        " The tenant lies outside the authorised scope.",
    )


def test_a_table_outside_the_allowed_ones_is_refused(counter: Counter, secrets_dir: Path):
    counter.open(secrets_dir, refund_contract(name="another_tool"), settings={"till": {"tables": ["orders"]}})
    counter.till.refund("sample")
    assert findings(tried(counter)) == [
        (f"/dry_run/{sample}", "till: Not read. refunds is not among the tables that may be read.")
        for sample in ("present", "absent")
    ]


def test_a_system_that_does_not_answer_is_no_pass(cashier: Counter, secrets_dir: Path):
    file = secrets_dir / "systems" / cashier.slug / "till.json"
    file.write_text(json.dumps({"url": "postgresql://nobody@127.0.0.1:1/till"}))
    told = findings(tried(cashier))
    assert [path for path, _ in told] == ["/dry_run/present", "/dry_run/absent"]
    assert all(text.startswith("till: Not read. ") for _, text in told)
    file.unlink()
    assert findings(tried(cashier))[0][1] == "till: Not read. There is no credential for the system till."


def test_a_version_that_is_registered_is_not_tried_again(cashier: Counter, secrets_dir: Path):
    assert tried(cashier).status_code == 201
    (secrets_dir / "systems" / cashier.slug / "till.json").unlink()
    assert tried(cashier).status_code == 201


def test_samples_must_be_calls_that_the_tool_takes(cashier: Counter):
    wrong = DRY_RUN | {"absent": {"arguments": {"order": "EX-1001"}}}
    answer = tried(cashier, wrong)
    assert answer.json()["errors"] == [
        {
            "path": "/dry_run/absent/arguments",
            "code": "BAD_SAMPLE",
            "detail": "A call with these arguments would be refused.",
        }
    ]


def test_a_system_may_take_no_contract_without_a_dry_run(counter: Counter, secrets_dir: Path):
    counter.till.refund("sample")
    counter.open(secrets_dir, refund_contract(dry_run=DRY_RUN), settings={"till": {"dry_run": "required"}})
    answer = counter.operator_key.post("/contracts", refund_contract(name="refund_slowly"))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["code"] == "DRY_RUN_REQUIRED"
    assert tried(counter).status_code == 201


def test_the_page_says_what_the_dry_run_found(cashier: Counter):
    operator = Visitor(cashier.operator.client, cashier.slug)
    document = refund_contract(name="refund_slowly", dry_run=DRY_RUN)
    document["verification"]["lookup"] = lookup(where={"order_id": "sr.order_id"})
    answer = operator.post("contracts/new", document=json.dumps(document, indent=2))
    assert "the lookup is too wide" in words(answer.content.decode())
