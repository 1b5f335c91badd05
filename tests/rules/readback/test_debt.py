from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ledger.catalogue.rules.policies import BadPolicy, ReleaseStop, check_policy, release_stop_rule
from reviews.readback.rules.schedule import NO_DEBT, StopReason, VerificationDebt, release_stop

AT = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def stop(
    policy: ReleaseStop, *, is_open: bool = False, stopped: bool = False, debt: VerificationDebt = NO_DEBT
) -> StopReason | None:
    return release_stop(policy, is_open=is_open, stopped=stopped, debt=debt, at=AT)


def owed(waiting: int = 0, *, since_s: float = 0) -> VerificationDebt:
    return VerificationDebt(waiting=waiting, due=0, oldest_at=AT - timedelta(seconds=since_s))


def test_by_default_only_an_open_circuit_stops_releases():
    assert stop(ReleaseStop()) is None
    assert stop(ReleaseStop(), is_open=True) is StopReason.CIRCUIT_OPEN
    assert stop(ReleaseStop(), debt=owed(9999, since_s=10**7)) is None


def test_a_policy_may_ignore_an_open_circuit():
    assert stop(ReleaseStop(open_circuit=False), is_open=True) is None


def test_a_policy_may_limit_the_number_and_age_of_unverified_actions():
    assert stop(ReleaseStop(waiting=5), debt=owed(4)) is None
    assert stop(ReleaseStop(waiting=5), debt=owed(5)) is StopReason.TOO_MANY_WAIT
    assert stop(ReleaseStop(oldest_s=60), debt=owed(1, since_s=59)) is None
    assert stop(ReleaseStop(oldest_s=60), debt=owed(1, since_s=60)) is StopReason.WAITED_TOO_LONG
    assert stop(ReleaseStop(oldest_s=60), debt=NO_DEBT) is None


def test_a_stop_by_a_person_precedes_every_policy():
    assert stop(ReleaseStop(open_circuit=False), stopped=True, is_open=True) is StopReason.BY_PERSON


@pytest.mark.parametrize(
    "part", [{"open": True}, {"waiting": 0}, {"open_circuit": 1}, {"oldest_s": "1"}, {"waiting": 10_001}]
)
def test_an_invalid_setting_is_refused(part):
    with pytest.raises(BadPolicy):
        check_policy("verification", {"stop_release": part})


def test_the_stop_rule_is_read_from_the_policy():
    document = {"stop_release": {"open_circuit": False, "waiting": 7}}
    check_policy("verification", document)
    assert release_stop_rule(document) == ReleaseStop(open_circuit=False, waiting=7)
    assert release_stop_rule({}) == ReleaseStop()
