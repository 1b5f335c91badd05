"""Claims: which readings a worker takes, and which it leaves to others or to later."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connections

from ledger.db import execute
from reviews.models import Lane, Schedule
from reviews.readback.operations import claimed_batches, schedules
from reviews.readback.operations.claimed_batches import ReadMode
from tests.support.builders import AT

TENANT = uuid4()
LATER = AT + timedelta(hours=1)


def lane(**changes: Any) -> UUID:
    row = {"concurrency": 4, "reads_per_minute": 6000, "tenant_id": TENANT, "system_id": uuid4(), "pace_ms": 1}
    return Lane.objects.create(**(row | changes)).system_id


def due(system_id: UUID, count: int = 1, *, ago_s: float = 60, priority: int = 2, **changes: Any) -> list[UUID]:
    rows = [
        Schedule(
            **{
                "action_id": uuid4(),
                "tenant_id": TENANT,
                "system_id": system_id,
                "due_at": AT - timedelta(seconds=ago_s) + timedelta(milliseconds=number),
                "priority": priority,
                "opened_at": AT,
                **changes,
            }
        )
        for number in range(count)
    ]
    Schedule.objects.bulk_create(rows)
    return [row.action_id for row in rows]


def taken(**options: Any) -> list[UUID]:
    found = claimed_batches.claim_batches(**({"at": AT, "lanes": 10} | options))
    return [each.action_id for claim in found for each in claim.due]


def conclude(ids: list[UUID], due_at: Any = LATER) -> None:
    schedules.reschedule(TENANT, *(schedules.NextReading(action_id=each, due_at=due_at, began_at=AT) for each in ids))


@pytest.mark.usefixtures("db")
class TestOrder:
    def test_the_higher_class_goes_first(self):
        shop = lane()
        low, high = due(shop, priority=1), due(shop, priority=4)
        assert taken() == [*high, *low]

    def test_within_a_class_the_oldest_goes_first(self):
        shop = lane()
        young, old = due(shop, ago_s=10), due(shop, ago_s=90)
        assert taken() == [*old, *young]

    def test_a_reading_that_waited_long_enough_precedes_a_higher_class(self):
        shop = lane()
        critical, lowly = due(shop, ago_s=1, priority=5), due(shop, ago_s=152, priority=0)
        assert taken() == [*lowly, *critical]

    def test_a_batch_takes_the_most_urgent_of_many(self):
        shop = lane()
        due(shop, 200, priority=1, ago_s=40)
        urgent = due(shop, 50, priority=5, ago_s=5)
        assert taken() == urgent

    def test_readings_that_are_not_due_are_not_claimed(self):
        due(lane(), ago_s=-1, priority=5)
        assert taken() == []

    def test_the_lane_that_has_waited_longest_is_served_first(self):
        busy, idle = lane(served_at=AT - timedelta(seconds=1)), lane(served_at=AT - timedelta(minutes=1))
        due(busy, priority=5), due(idle, priority=0)
        [first] = claimed_batches.claim_batches(at=AT, lanes=1)
        assert first.system_id == idle


@pytest.mark.usefixtures("db")
class TestLimits:
    def test_a_system_has_no_more_batches_at_once_than_its_concurrency(self):
        shop = lane(concurrency=2)
        due(shop, 500)
        assert [len(taken()), len(taken()), len(taken())] == [50, 50, 0]

    def test_a_concluded_batch_frees_its_place(self):
        shop = lane(concurrency=1)
        due(shop, 60)
        first = taken()
        assert taken() == []
        conclude(first)
        assert len(taken()) == 10

    def test_an_expired_claim_is_free_again(self):
        ids = due(lane(concurrency=1))
        assert taken() == ids
        assert taken(at=AT + claimed_batches.CLAIM - timedelta(seconds=1)) == []
        assert taken(at=AT + claimed_batches.CLAIM) == ids

    def test_released_readings_can_be_claimed_at_once(self):
        due(lane(concurrency=1), 3)
        [claim] = claimed_batches.claim_batches(at=AT, lanes=1)
        claimed_batches.release_unread(claim.tenant_id, claim.id, [claim.due[1].action_id, claim.due[2].action_id])
        conclude([claim.due[0].action_id])
        assert taken() == [claim.due[1].action_id, claim.due[2].action_id]

    def test_what_one_tenant_does_with_an_id_leaves_the_same_id_of_another_alone(self):
        [ours], elsewhere = due(lane()), uuid4()
        shop = lane(tenant_id=elsewhere)
        due(shop, tenant_id=elsewhere, action_id=ours, ago_s=30)
        claims = {each.tenant_id: each for each in claimed_batches.claim_batches(at=AT, lanes=10)}
        assert {each.due[0].action_id for each in claims.values()} == {ours}
        claimed_batches.release_unread(elsewhere, claims[elsewhere].id, [ours])
        schedules.end_schedule(tenant_id=TENANT, action_id=ours)
        assert list(Schedule.objects.values_list("tenant_id", "action_id", "claim")) == [(elsewhere, ours, None)]

    def test_a_claim_of_another_holder_is_not_released(self):
        ids = due(lane())
        assert taken() == ids
        claimed_batches.release_unread(TENANT, uuid4(), ids)
        assert taken() == []

    def test_a_rate_limit_applies_across_all_claims(self):
        shop = lane(reads_per_minute=600)
        due(shop, 100)
        assert [len(taken()), len(taken())] == [10, 0]
        assert len(taken(at=AT + timedelta(milliseconds=500))) == 5
        assert len(taken(at=AT + timedelta(seconds=90))) == 10

    def test_slow_systems_get_small_batches(self):
        due(lane(pace_ms=250), 50), due(lane(pace_ms=9000), 50), due(lane(pace_ms=None), 50)
        assert sorted(len(each.due) for each in claimed_batches.claim_batches(at=AT, lanes=3)) == [1, 4, 10]

    def test_a_worker_that_excludes_slow_systems_gets_the_fast_ones(self):
        due(lane(pace_ms=9000))
        fast = due(lane(pace_ms=3))
        assert taken(slow=False) == fast

    def test_a_full_lane_does_not_hide_another_one(self):
        full = lane(concurrency=1)
        due(full, 200)
        taken()
        others = [due(lane(served_at=AT))[0] for _ in range(3)]
        assert set(taken(lanes=3)) == set(others)


@pytest.mark.usefixtures("db")
class TestCircuit:
    def test_an_open_circuit_holds_its_rows_without_reading_them(self):
        shop = lane(held_until=AT + timedelta(seconds=10))
        ids = due(shop, 3)
        [claim] = claimed_batches.claim_batches(at=AT, lanes=1)
        assert (claim.mode, claim.held_until) == (ReadMode.HOLD, AT + timedelta(seconds=10))
        assert [each.action_id for each in claim.due] == ids

    def test_a_probe_is_a_single_reading(self):
        shop = lane(held_until=AT)
        due(shop, 30)
        [claim] = claimed_batches.claim_batches(at=AT, lanes=1)
        assert (claim.mode, len(claim.due)) == (ReadMode.PROBE, 1)
        assert taken() == [], "while the probe is under way nothing else is read"

    def test_the_probe_of_a_dead_worker_is_repeated(self):
        due(lane(held_until=AT), 5)
        assert len(taken()) == 1
        assert len(taken(at=AT + claimed_batches.CLAIM)) == 1


@pytest.mark.usefixtures("db")
class TestSchedules:
    def test_a_reading_requested_during_a_reading_stays_due(self):
        [action_id] = due(lane())
        taken()
        Schedule.objects.filter(action_id=action_id).update(asked_at=AT + timedelta(seconds=1))
        conclude([action_id])
        assert taken() == [action_id]

    def test_a_reading_requested_before_another_one_began_is_answered_by_that_one(self):
        [action_id] = due(lane(), asked_at=AT - timedelta(seconds=1))
        taken()
        conclude([action_id])
        assert taken() == []
        assert Schedule.objects.get(action_id=action_id).readings == 1

    def test_a_held_reading_is_not_counted(self):
        [action_id] = due(lane())
        schedules.reschedule(TENANT, schedules.NextReading(action_id=action_id, due_at=LATER, began_at=AT, asked=False))
        assert Schedule.objects.get(action_id=action_id).readings == 0


def test_concurrent_workers_never_take_the_same_row_nor_exceed_the_limits(committed_db):
    shop, mail = lane(concurrency=3), lane(concurrency=2, reads_per_minute=60_000)
    due(shop, 400), due(mail, 400)

    def worker(_: int) -> list[tuple[UUID, UUID]]:
        try:
            found = [claimed_batches.claim_batches(at=AT, lanes=2) for _ in range(5)]
            return [(each.action_id, claim.id) for some in found for claim in some for each in claim.due]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        rows = [row for each in pool.map(worker, range(6)) for row in each]
    assert max(Counter(action_id for action_id, _ in rows).values()) == 1
    batches = dict(execute("SELECT system_id, count(DISTINCT claim) FROM reviews_schedule GROUP BY 1"))
    assert batches == {shop: 2, mail: 2}, "the shop's rate allows a hundred at once: two batches"
