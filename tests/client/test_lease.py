from __future__ import annotations

import pytest

from counterfoil.execution.lease import Lease, LeaseOver


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_lease_holds_until_its_end(clock):
    lease = Lease(for_s=5, timeout_s=30, clock=clock)
    clock.now += 4.9
    lease.require()
    clock.now += 0.1
    with pytest.raises(LeaseOver):
        lease.require()


def test_an_expired_lease_never_becomes_valid_again(clock):
    lease = Lease(for_s=5, timeout_s=30, clock=clock)
    clock.now += 6
    lease.extend(for_s=60)
    assert lease.left_s() == 0


def test_no_extension_goes_beyond_the_attempts_time(clock):
    lease = Lease(for_s=5, timeout_s=8, clock=clock)
    clock.now += 4
    lease.extend(for_s=60)
    assert lease.left_s() == 4


def test_a_lost_lease_stays_lost(clock):
    lease = Lease(for_s=5, timeout_s=30, clock=clock)
    lease.lose()
    lease.extend(for_s=5)
    with pytest.raises(LeaseOver):
        lease.require()


def test_a_start_answered_too_late_gives_no_lease(clock):
    assert Lease(for_s=5, timeout_s=-1, clock=clock).left_s() == 0
