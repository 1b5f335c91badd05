"""Batches: many cases at once, item by item; paused, resumed, cancelled; carried on after a crash."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError

from console.accounts import queries as people
from console.tasks import work_batches
from ledger.actions.queries import freezes
from ledger.db import tenancy
from ledger.record.queries import events as events_queries
from reviews import queries
from reviews.cases.operations import batches, casework
from tests.support.browser_users import visitor, words


def begin(stage, *cases, **fields: Any) -> Any:
    """The batch that the form starts, by the operator."""
    sent = {"kind": "CLAIM", "scope": "picked", "case": [str(each.id) for each in cases]} | fields
    answer = visitor(stage, "operator").post("cases/batches", **sent)
    assert answer.status_code == 302, answer.content
    with tenancy(stage.tenant):
        return queries.batch(stage.tenant, UUID(answer["Location"].rpartition("/")[2]))


def states(stage, batch) -> list[str]:
    with tenancy(stage.tenant):
        return [each.state for each in queries.batch_items(stage.tenant, batch.id)]


def again(stage, batch) -> Any:
    with tenancy(stage.tenant):
        return queries.batch(stage.tenant, batch.id)


def owners(stage, *cases) -> list[Any]:
    with tenancy(stage.tenant):
        found = queries.cases_by_id(stage.tenant, [each.id for each in cases])
    return [found[each.id].claimed_by for each in cases]


def events(stage, subject: UUID) -> list[str]:
    with tenancy(stage.tenant):
        return [event.kind for event, _, _ in events_queries.history(stage.tenant, subject)]


def work_one(stage, batch) -> str | None:
    from django.utils import timezone

    with tenancy(stage.tenant):
        operators = frozenset(people.operators(stage.tenant))
    return batches.process_next_item(tenant_id=stage.tenant, batch_id=batch.id, operators=operators, clock=timezone.now)


def test_selected_cases_are_claimed_one_by_one_and_refusals_are_explained(stage):
    cases = [stage.case() for _ in range(3)]
    visitor(stage, "operator", name="other@orchid").post(f"cases/{cases[1].id}/claim")
    batch = begin(stage, *cases)
    work_batches()
    assert states(stage, batch) == ["DONE", "REFUSED", "DONE"]
    assert again(stage, batch).state == "DONE"
    said = words(visitor(stage, "operator").page(f"cases/batches/{batch.id}"))
    for part in ("3 of 3 processed", "2 done", "1 refused", "Somebody else has claimed this case.", "ALREADY_CLAIMED"):
        assert part in said, part
    assert events(stage, batch.id) == ["batch_started", "batch_ended"]
    assert events(stage, cases[0].id)[-1] == "case_claimed"


@pytest.mark.parametrize(
    ("kind", "fields", "event"),
    [
        ("SNOOZE", {"hours": "12", "reason": "The bank is closed."}, "case_snoozed"),
        ("COMMENT", {"reason": "The provider had an outage."}, "commented"),
        ("VERIFY_AGAIN", {"reason": "The provider is back."}, "case_resolved"),
    ],
)
def test_revocable_operations_can_be_done_in_a_batch(stage, kind, fields, event):
    case = stage.case()
    batch = begin(stage, case, kind=kind, **fields)
    work_batches()
    assert states(stage, batch) == ["DONE"]
    assert events(stage, case.id)[-1] == event


def test_targets_are_frozen_and_cases_assigned_in_a_batch(stage):
    case = stage.case()
    begin(stage, case, kind="FREEZE_TARGETS", reason="Wait for the provider.")
    mira = stage.person("operator", name="mira@orchid")
    begin(stage, case, kind="ASSIGN", to=str(mira.actor_id))
    work_batches()
    assert owners(stage, case) == [mira.actor_id]
    with tenancy(stage.tenant):
        assert [each.value for each in freezes.freezes_in_force(stage.tenant)] == [case.target]


def test_a_batch_cannot_settle_a_case(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    for kind in ("ATTEST_PRESENT", "FAIL", "ABANDON", ""):
        answer = operator.post("cases/batches", kind=kind, case=[str(case.id)], reason="So.")
        assert answer["Location"].endswith("/cases")
    with tenancy(stage.tenant):
        assert queries.batches(stage.tenant) == []


def test_all_cases_that_match_the_filter_are_selected(stage):
    nothing, wrong = stage.case(), stage.case(amount=1)
    batch = begin(stage, scope="all", filter="discrepancy=VALUE_MISMATCH")
    work_batches()
    assert batch.total == 1
    assert owners(stage, nothing, wrong) == [None, stage.person("operator").actor_id]


def test_an_empty_or_oversized_batch_is_refused(stage):
    operator = visitor(stage, "operator")
    assert operator.post("cases/batches", kind="CLAIM", scope="picked").status_code == 422
    many = [str(uuid4()) for _ in range(501)]
    assert operator.post("cases/batches", kind="CLAIM", scope="picked", case=many).status_code == 422
    assert operator.post("cases/batches", kind="COMMENT", scope="picked", case=many[:1]).status_code == 422
    assert operator.post("cases/batches", kind="CLAIM", scope="picked", case=many[:1]).status_code == 404
    for role in ("reviewer", "compliance", "administrator"):
        assert visitor(stage, role).post("cases/batches", kind="CLAIM", case=many[:1]).status_code == 403


def test_a_batch_is_paused_resumed_and_cancelled(stage):
    cases = [stage.case() for _ in range(3)]
    batch = begin(stage, *cases)
    operator = visitor(stage, "operator")
    assert work_one(stage, batch) == "DONE"
    operator.post(f"cases/batches/{batch.id}/turn", to="pause")
    assert work_batches() == 0
    assert "Paused" in words(operator.page(f"cases/batches/{batch.id}"))
    operator.post(f"cases/batches/{batch.id}/turn", to="resume")
    assert work_one(stage, batch) == "DONE"
    operator.post(f"cases/batches/{batch.id}/turn", to="cancel")
    assert states(stage, batch) == ["DONE", "DONE", "LEFT"]
    assert work_batches() == 0
    assert operator.post(f"cases/batches/{batch.id}/turn", to="resume").status_code == 409
    assert events(stage, batch.id) == ["batch_started", "batch_paused", "batch_resumed", "batch_cancelled"]


def test_a_worker_that_dies_before_its_mark_leaves_neither_the_change_nor_the_mark(stage):
    cases = [stage.case() for _ in range(2)]
    batch = begin(stage, *cases)
    with patch.object(batches, "_mark", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        work_one(stage, batch)
    assert states(stage, batch) == ["WAITING", "WAITING"]
    assert owners(stage, *cases) == [None, None]
    work_batches()
    assert states(stage, batch) == ["DONE", "DONE"]
    assert events(stage, cases[0].id).count("case_claimed") == 1


def test_an_internal_error_does_not_stop_the_rest_of_a_batch(stage):
    cases = [stage.case() for _ in range(2)]
    batch = begin(stage, *cases)
    real, broken = casework.claim, iter([True])

    def claim(**asked: Any) -> None:
        if next(broken, False):
            raise DatabaseError("the connection is gone")
        real(**asked)

    with patch.object(casework, "claim", claim):
        work_batches()
    assert states(stage, batch) == ["REFUSED", "DONE"]


def test_a_batch_ends_when_its_starter_loses_the_right(stage):
    case = stage.case()
    batch = begin(stage, case)
    place = stage.person("operator")
    type(place).objects.filter(id=place.id).update(is_operator=False)
    assert work_batches() == 0
    assert again(stage, batch).state == "CANCELLED"
    assert owners(stage, case) == [None]


def test_the_bulk_bar_is_shown_only_to_operators(stage):
    stage.case()
    assert 'id="batch"' in visitor(stage, "operator").page("cases")
    assert 'id="batch"' not in visitor(stage, "reviewer").page("cases")
    assert "Batches" not in words(visitor(stage, "reviewer").page("cases"))
