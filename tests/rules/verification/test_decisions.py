"""What is asked of decisions from before entries had digests, and of tables that another release built in."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.envelope import Envelope
from ledger.verification.rules.decisions import READ_FOR, PolicyHistory, PolicyInForce
from tests.support.pure.entries import AT, make_entry

ACTION = UUID("01990000-0000-7000-8000-000000000001")
BUILT_IN = canonical({"table": "built-in"})
POLICY = PolicyInForce(
    kind="recovery",
    version="1",
    digest=digest(BUILT_IN),
    since=AT,
    until=AT + timedelta(hours=1),
    document=BUILT_IN,
)
HISTORY = PolicyHistory([POLICY], {"t" * 64: {"RT-1": "HOLD"}})


def happened(at=AT, **digests):
    return Envelope(
        origin="o",
        id=str(uuid4()),
        kind="noted",
        subject_kind="action",
        subject_id=str(ACTION),
        seq=2,
        prev="0" * 64,
        from_state="PENDING",
        to_state="PENDING",
        actor_kind="system",
        actor_id=str(uuid4()),
        at=at,
        digests=digests,
        commitments=(),
    )


def fault(envelope, detail=None, before=None, decision=None, **context):
    entry = make_entry(ACTION)
    entry["reconciliation"] = entry["reconciliation"] | {"recovery_decision": decision}
    entry["policy_context"] = entry["policy_context"] | context
    return HISTORY.fault(envelope, detail or {}, entry, before)


@pytest.mark.req("R-LE-13")
@pytest.mark.parametrize(
    ("after", "held"),
    [
        (-READ_FOR, True),
        (-READ_FOR - timedelta(seconds=1), False),
        (timedelta(hours=1) + READ_FOR, True),
        (timedelta(hours=1, seconds=1) + READ_FOR, False),
    ],
)
def test_an_event_without_digests_is_checked_against_the_policy_in_its_envelope(after, held):
    found = fault(happened(AT + after, recovery=POLICY.digest))
    assert found == (None if held else "it was decided under a recovery policy that was not in force.")


def test_an_event_that_names_no_policy_is_not_checked_against_one():
    assert fault(happened(), {"run": "r", "recovery_row": "RT-1"}) is None


@pytest.mark.req("R-RP-24")
@pytest.mark.parametrize(("table", "row", "held"), [("t", "RT-1", True), ("t", "RT-2", False), ("u", "RT-2", True)])
def test_a_row_is_looked_up_in_the_table_that_decided(table, row, held):
    detail = {"recovery_row": row, "recovery_table": table * 64}
    found = fault(happened(recovery=POLICY.digest), detail, decision=f"{row} HOLD")
    assert found == (None if held else "its recovery policy has no row RT-2 that decides this.")


@pytest.mark.req("R-RP-24")
def test_a_row_without_its_policy_is_reported():
    detail = {"recovery_row": "RT-1", "recovery_table": "t" * 64}
    assert fault(happened(), detail) == "a row of a recovery policy decided that it does not name."


def test_a_changed_policy_document_is_not_reported_at_its_decisions():
    other = PolicyHistory([replace(POLICY, document=b"{}")], {})
    detail = {"recovery_row": "RT-9", "recovery_table": "t" * 64}
    assert other.fault(happened(recovery=POLICY.digest), detail, make_entry(ACTION), None) is None
