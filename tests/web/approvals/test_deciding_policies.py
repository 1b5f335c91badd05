"""Which version of which policy decided: each decision names it, every page says the same, and a wrong one is found."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.policies import POLICY_KINDS, context_field, default_policy
from ledger.db import tenancy
from ledger.management.commands import verify_ledger
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from ledger.record.rules import envelope
from ledger.verification.rules.stored_record import RecordBroken
from reviews.verification.operations import rechecks
from tests.db.record.records import APPEND, forged
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter, refund_contract
from tests.web.recovery.test_recovery_path import cancelling, carried_out, child_of, lesser, wrong

LAST = {
    "id": "OWN-1",
    "finding": "whatever it is",
    "condition": None,
    "inputs": {"trigger": "*"},
    "action": "HOLD_AND_ESCALATE",
    "state_paths": [["REVIEW_REQUIRED"]],
    "effects": ["open review"],
}
HELD = {"table": [LAST]}
RENAMED = {"table": [LAST | {"finding": "another finding"}]}


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path) -> Counter:
    return counter.open(secrets_dir, lesser(), cancelling())


def put_in_force(counter: Counter, kind: str, version: str, document: dict[str, Any]) -> str:
    """A new version of a policy; its digest."""
    answer = counter.operator_key.release(kind, {"version": version, "document": document})
    assert answer.status_code == 201, answer.content
    with tenancy(counter.tenant):
        return catalogue_queries.active_policies(counter.tenant)[kind].digest


def claimed_wrongly(counter: Counter) -> str:
    """A refund that is under way, whose tool claims success, and that came out wrong."""
    started = counter.begun()
    counter.till.refund(started["idempotency_key"], amount=99)
    counter.tell(started)
    return str(started["action_id"])


def read(counter: Counter, clock: Clock, action_id: str) -> None:
    clock.forward(seconds=30)
    counter.read_back(action_id, clock)


def history(counter: Counter, action_id: str) -> list[Any]:
    with tenancy(counter.tenant):
        return events_queries.history(counter.tenant, UUID(action_id))


def decision(counter: Counter, action_id: str) -> Any:
    """The newest event that a row decided: the event, its entry and its detail."""
    return next(each for each in reversed(history(counter, action_id)) if (each[2] or {}).get("recovery_row"))


def check_record(counter: Counter) -> None:
    tenant = events_queries.tenant_by_id(counter.tenant)
    verify_ledger.verify(tenant.id, tenant.origin)


@pytest.mark.req("R-LE-13", "R-VD-17", "R-RP-24")
def test_a_decision_names_the_policies_that_made_it_and_not_those_at_the_proposal(cashier: Counter, clock: Clock):
    action_id = claimed_wrongly(cashier)
    before = history(cashier, action_id)[-1][1]["policy_context"]
    reading = put_in_force(cashier, "verification", "night", default_policy("verification") | {"repeat_limit": 4})
    recovery = put_in_force(cashier, "recovery", "strict", HELD)
    read(cashier, clock, action_id)

    events = history(cashier, action_id)
    event, entry, detail = decision(cashier, action_id)
    assert entry["policy_context"] == before | {
        "verification_policy_version": "night",
        "verification_policy_digest": reading,
        "recovery_policy_version": "strict",
        "recovery_policy_digest": recovery,
    }
    assert entry["reconciliation"]["recovery_decision"] == "OWN-1 HOLD_AND_ESCALATE"
    assert (detail["recovery_row"], bool(detail["recovery_table"])) == ("OWN-1", True)
    named = envelope.parse(bytes(event.envelope)).digests
    assert (named["verification"], named["recovery"]) == (reading, recovery)
    assert before["recovery_policy_version"] == before["verification_policy_version"] == "1"
    assert [entry["policy_context"] for _, entry, _ in events[:4]] == [before] * 4
    assert all(entry["verification"][name] for name in ("source", "query_pointer", "verified_state_pointer"))
    check_record(cashier)


@pytest.mark.req("R-LE-13")
def test_new_entries_name_the_four_policies_in_force_and_old_entries_stay_unchanged(cashier: Counter):
    old = cashier.propose()
    changed = {"verification": {"repeat_limit": 4}, "recovery": {"max_read_attempts": 4}}
    named = {}
    for kind in POLICY_KINDS:
        document = default_policy(kind) | changed.get(kind, {}) | {"version": "night"}
        named |= {f"{context_field(kind)}_version": "night"}
        named |= {f"{context_field(kind)}_digest": put_in_force(cashier, kind, "night", document)}
    new = cashier.propose(order_id="EX-1002")
    assert history(cashier, new)[0][1]["policy_context"] == named
    versions = [value for name, value in history(cashier, old)[-1][1]["policy_context"].items() if "version" in name]
    assert versions == ["1"] * 4
    check_record(cashier)


@pytest.mark.req("R-RP-24")
def test_pages_and_api_show_row_and_version_of_the_deciding_policy(cashier: Counter, clock: Clock):
    action_id = claimed_wrongly(cashier)
    decided_by = put_in_force(cashier, "recovery", "strict", HELD)
    read(cashier, clock, action_id)
    put_in_force(cashier, "recovery", "later", RENAMED)

    case = cashier.case_of(action_id)
    assert case is not None
    page = cashier.operator.client.get(f"/t/{cashier.slug}/cases/{case['case_id']}").content.decode()
    strict = f'version <a href="/t/{cashier.slug}/policies/recovery/strict">strict</a> '
    assert f"OWN-1 of the recovery policy, {strict}" in page
    assert decided_by in page
    assert "Whatever it is." in page
    assert "nother finding" not in page
    shown = cashier.operator.client.get(f"/t/{cashier.slug}/actions/{action_id}").content.decode()
    assert f'<dt>Read under</dt><dd>version <a href="/t/{cashier.slug}/policies/verification/1">1</a> ' in shown
    assert f"<dt>Recovery decided under</dt><dd>{strict}" in shown
    told = cashier.operator.client.get(f"/t/{cashier.slug}/actions/{action_id}/narrative").content.decode()
    assert "By row OWN-1 of the recovery policy, version strict." in told

    run = cashier.operator_key.get(f"/actions/{action_id}/runs").json()["items"][0]
    assert run["decided_under"]["recovery"] == {"version": "strict", "digest": decided_by}
    assert run["decided_under"]["verification"]["version"] == "1"


@pytest.mark.req("R-RP-24")
def test_a_decision_of_the_console_itself_is_attributed_to_the_built_in_table(cashier: Counter):
    cashier.propose()
    [order] = cashier.claim()
    assert cashier.start(order, payload_hash="0" * 64).status_code == 409
    case = cashier.case_of(order["action_id"])
    assert case is not None
    page = cashier.operator.client.get(f"/t/{cashier.slug}/cases/{case['case_id']}").content.decode()
    assert '#rt-21">RT-21</a> of the built-in table' in page


@pytest.mark.req("R-VD-17")
def test_a_later_reading_names_the_policy_under_which_it_was_judged(counter: Counter, clock: Clock, secrets_dir: Path):
    document = refund_contract()
    document["verification"]["recheck_after"] = ["PT1H"]
    counter.open(secrets_dir, document)
    started = counter.begun()
    counter.till.refund(started["idempotency_key"])
    counter.tell(started)
    read(counter, clock, started["action_id"])
    assert counter.state(started["action_id"]) == "RECONCILED_SUCCESS"
    later = put_in_force(counter, "verification", "later", default_policy("verification") | {"repeat_limit": 4})
    clock.forward(seconds=3700)
    rechecks.recheck_action(tenant_id=counter.tenant, action_id=UUID(started["action_id"]), clock=clock.now)
    event, entry, _ = history(counter, started["action_id"])[-1]
    assert event.kind == "rechecked"
    assert entry["policy_context"]["verification_policy_digest"] == later
    check_record(counter)


@pytest.mark.req("R-RP-24")
def test_a_failed_compensation_is_decided_by_the_policy_in_force_at_that_time(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    cashier = counter.open(secrets_dir, lesser(externally_visible=True), cancelling())
    action_id = wrong(cashier, clock)
    later = put_in_force(cashier, "recovery", "later", default_policy("recovery") | {"max_read_attempts": 4})
    carried_out(cashier, clock, child_of(cashier, action_id), status=None)
    _, entry, detail = decision(cashier, action_id)
    assert entry["reconciliation"]["recovery_decision"] == "RT-17 MANUAL_REVIEW_AND_INCIDENT"
    assert entry["policy_context"]["recovery_policy_digest"] == later
    assert detail["recovery_row"] == "RT-17"
    check_record(cashier)


# Forged decisions


@pytest.fixture
def decided(cashier: Counter, clock: Clock) -> tuple[Counter, ledger.SubjectHead, dict[str, Any]]:
    """An action that a recovery policy of the tenant's own has decided, and the detail of that event."""
    action_id = claimed_wrongly(cashier)
    put_in_force(cashier, "recovery", "strict", HELD)
    read(cashier, clock, action_id)
    with tenancy(cashier.tenant):
        head = ledger.lock_subject(tenant_id=cashier.tenant, subject_id=UUID(action_id), kind="action")
    return cashier, head, decision(cashier, action_id)[2]


def found(counter: Counter, head: ledger.SubjectHead, *, detail: dict[str, Any], **changes: Any) -> str:
    """What the check says of one more event, as somebody writes it who goes around every rule."""
    assert head.entry is not None
    at = history(counter, str(head.id))[-1][0].at
    kept = {name: value for name, value in detail.items() if name not in ("view", "grounds")}
    view = {"recovery_decision": (changes.get("entry") or head.entry)["reconciliation"]["recovery_decision"]}
    with tenancy(counter.tenant), connection.cursor() as cursor:
        cursor.execute(APPEND, forged(head, detail=kept, view=view, **({"at": at} | changes)))
    with pytest.raises(RecordBroken) as broken:
        check_record(counter)
    return broken.value.detail.rpartition(": ")[2]


def digests(head: ledger.SubjectHead, **changes: str) -> dict[str, str]:
    assert head.entry is not None
    context = head.entry["policy_context"]
    return {kind: context[f"{kind}_policy_digest"] for kind in ("verification", "recovery")} | changes


@pytest.mark.req("R-RP-24", "R-VD-17")
@pytest.mark.parametrize("kind", ["verification", "recovery"])
def test_a_decision_under_a_nonexistent_policy_is_detected(decided: Any, kind: str):
    counter, head, detail = decided
    said = found(counter, head, detail=detail, digests=digests(head, **{kind: "0" * 64}))
    assert said == f"it was decided under a {kind} policy that was not in force."


@pytest.mark.req("R-RP-24")
def test_a_decision_under_a_superseded_policy_is_detected(decided: Any):
    counter, head, detail = decided
    with tenancy(counter.tenant):
        first = catalogue_queries.policy_version(counter.tenant, "recovery", "1")
    assert first is not None
    at = history(counter, str(head.id))[-1][0].at
    late = digests(head, recovery=first.digest)
    said = found(counter, head, detail=detail, digests=late, at=at + timedelta(hours=1))
    assert said == "it was decided under a recovery policy that was not in force."


@pytest.mark.req("R-RP-24")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recovery_row": "RT-03"}, "its recovery policy has no row RT-03 that decides this."),
        ({"recovery_table": "0" * 64}, "its recovery policy has another table than the one that decided."),
    ],
)
def test_a_row_missing_from_the_policy_is_detected(decided: Any, changes: dict[str, str], said: str):
    counter, head, detail = decided
    assert found(counter, head, detail=detail | changes, digests=digests(head)) == said


@pytest.mark.req("R-RP-24")
def test_a_row_with_another_decision_than_in_the_policy_is_detected(decided: Any):
    counter, head, detail = decided
    entry = head.entry | {"reconciliation": head.entry["reconciliation"] | {"recovery_decision": "OWN-1 FAIL_CLOSED"}}
    said = found(counter, head, detail=detail, digests=digests(head), entry=entry)
    assert said == "its recovery policy has no row OWN-1 that decides this."


@pytest.mark.req("R-RP-24", "R-VD-17")
def test_a_decision_without_a_policy_is_detected(decided: Any):
    counter, head, detail = decided
    said = found(counter, head, detail=detail)
    assert said == "it was read and judged under a verification policy that it does not name."


@pytest.mark.req("R-LE-13")
def test_an_entry_with_another_version_and_no_decision_is_detected(decided: Any):
    counter, head, _ = decided
    entry = head.entry | {"policy_context": head.entry["policy_context"] | {"recovery_policy_version": "1"}}
    said = found(counter, head, detail={}, entry=entry)
    assert said == "its entry names another recovery policy, and nothing was decided under it."


@pytest.mark.req("R-LE-13")
def test_an_entry_with_another_version_than_the_deciding_one_is_detected(decided: Any):
    counter, head, detail = decided
    entry = head.entry | {"policy_context": head.entry["policy_context"] | {"recovery_policy_version": "1"}}
    said = found(counter, head, detail=detail, entry=entry, digests=digests(head))
    assert said == "its entry names another recovery policy than the one that decided."
