"""A settled case says how it was settled, by whom and when; what was found then is told as found then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from console.accounts.queries import actor_names
from ledger.db import tenancy
from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter
from tests.web.actions.test_partial_success import page
from tests.web.recovery.test_recovery_path import cancelling, carried_out, child_of, lesser, wrong

DEFINITION = "It cannot be told whether the action took effect."


def held_unknown(counter: Counter, clock: Clock, secrets_dir: Path) -> tuple[str, str]:
    """A refund whose tool went silent and whose till did not answer in time: its action and its case."""
    desk = counter.open(secrets_dir)
    started = desk.begun()
    desk.tell(started, "timeout", evidence=None)
    (secrets_dir / "systems" / "orchid" / "till.json").write_text('{"url": "postgresql://nobody@127.0.0.1:1/none"}')
    for _ in range(3):
        clock.forward(seconds=400)
        desk.read_back(started["action_id"], clock)
    case = desk.case_of(started["action_id"])
    assert case is not None, desk.path(started["action_id"])
    return str(started["action_id"]), str(case["case_id"])


@pytest.mark.parametrize(
    ("resolution", "said"),
    [("ATTEST_PRESENT", "attested that it happened"), ("ABANDON", "closed it unresolved")],
)
def test_a_settled_case_shows_who_settled_it_how_and_the_former_finding(
    counter: Counter, clock: Clock, secrets_dir: Path, resolution: str, said: str
):
    action_id, case_id = held_unknown(counter, clock, secrets_dir)
    assert DEFINITION in page(counter, f"cases/{case_id}")
    assert counter.operator_key.get(f"/actions/{action_id}").json()["settlement"] is None

    second = counter.person("operator", name="second@orchid")
    answer = settling.settle(counter.operator, case_id, resolution, reason="Seen at the bank.")
    assert answer.json()["state"] == "AWAITING_SECOND", answer.content
    assert settling.confirm(second, case_id).status_code == 200

    with tenancy(counter.tenant):
        called = {str(each): name for each, name in actor_names(counter.tenant).items()}
    action = counter.operator_key.get(f"/actions/{action_id}").json()
    settlement = action["settlement"]
    assert (settlement["resolution"], settlement["reason"]) == (resolution, "Seen at the bank.")
    sentence = f"{called[settlement['by']]} {said}, confirmed by {called[settlement['confirmed_by']]}"
    words = page(counter, f"cases/{case_id}")
    assert DEFINITION not in words
    assert sentence in words
    assert "Found when the case was opened: Unknown state." in words
    words = page(counter, f"actions/{action_id}")
    assert f"Case settled : {sentence}," in words
    assert ". Found before: Unknown state." in words
    assert "outcome unknown" not in words or resolution == "ABANDON"

    listed = page(counter, "cases?tab=settled")
    assert "Settled: " in listed
    assert "Earlier: unknown state" in listed
    known = counter.agent.get(f"/actions/{action_id}").json()["settlement"]
    assert (known["resolution"], known["by"], known["reason"]) == (resolution, None, None)
    assert action["discrepancy_settled"] is (resolution == "ATTEST_PRESENT")
    found = "Earlier: unknown state" if resolution == "ATTEST_PRESENT" else "Unknown state"
    assert found in page(counter, "actions")


def test_a_finding_is_shown_as_past_after_the_effect_was_reversed(counter: Counter, clock: Clock, secrets_dir: Path):
    cashier = counter.open(secrets_dir, lesser(), cancelling())
    action_id = wrong(cashier, clock)
    assert "Value mismatch" in page(cashier, "actions")
    carried_out(cashier, clock, child_of(cashier, action_id))
    action: dict[str, Any] = cashier.operator_key.get(f"/actions/{action_id}").json()
    assert (action["outcome"], action["discrepancy"], action["discrepancy_settled"]) == (
        "COMPENSATED",
        "VALUE_MISMATCH",
        True,
    )
    assert "Earlier: value mismatch" in page(cashier, "actions")
