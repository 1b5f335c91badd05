from __future__ import annotations

import pytest

from approvals.agents.rules import acceptance
from approvals.agents.rules.acceptance import CallTally, Flag, FlagThresholds


def flags(tally, *, names=0, standing=None, version="1", **limits):
    return set(
        acceptance.current_flags(
            tally, names=names, standing=standing or {}, version=version, limits=FlagThresholds(**limits)
        )
    )


@pytest.mark.req("R-TG-06")
def test_the_acceptance_rate_is_the_share_of_accepted_calls():
    assert CallTally(made=4, accepted=1).acceptance_rate == 0.25


@pytest.mark.req("R-MC-14", "R-MT-03")
def test_each_class_is_a_share_of_all_calls():
    tally = CallTally(made=4, accepted=2, failed=1, argument=1, phantom=1)

    assert (tally.valid_share, tally.failed_share, tally.argument_share, tally.phantom_share) == (0.25,) * 4


def test_without_calls_there_is_no_acceptance_rate():
    nothing = CallTally()

    assert {nothing.acceptance_rate, nothing.phantom_share, nothing.valid_share, nothing.healthy} == {None}


@pytest.mark.req("R-MC-15")
@pytest.mark.parametrize(
    ("phantom", "made", "flagged"),
    [(3, 100, True), (2, 100, True), (1, 100, False), (3, 49, False), (0, 100, False)],
)
def test_phantoms_are_healthy_below_two_in_a_hundred_over_enough_calls(phantom, made, flagged):
    tally = CallTally(made=made, accepted=made - phantom, phantom=phantom)

    assert (Flag.PHANTOM_SHARE in flags(tally)) is flagged


def test_the_checklist_names_the_three_causes():
    assert [name for name, _ in acceptance.CHECKLIST] == ["Tools loaded", "Renames", "Model tier"]


@pytest.mark.req("R-TG-07")
def test_an_acceptance_rate_below_the_floor_of_the_tenant_raises_a_flag():
    assert flags(CallTally(made=100, accepted=79)) == {Flag.LOW_ACCEPTANCE}
    assert flags(CallTally(made=100, accepted=80)) == set()
    assert flags(CallTally(made=100, accepted=80), acceptance_floor_pct=90) == {Flag.LOW_ACCEPTANCE}


@pytest.mark.req("R-TG-11")
def test_many_different_refused_names_in_one_session_are_probing():
    assert flags(CallTally(made=50, accepted=50), names=50) == {Flag.PROBING}
    assert flags(CallTally(made=50, accepted=50), names=9) == set()


@pytest.mark.parametrize(
    ("tally", "version", "stays"),
    [
        (CallTally(made=10, accepted=10), "1", True),
        (CallTally(made=50, accepted=50), "1", False),
        (CallTally(), "1", False),
        (CallTally(made=10, accepted=10), "2", False),
    ],
    ids=["too few calls to tell", "healthy", "no call at all", "another version"],
)
def test_a_flag_remains_until_the_numbers_are_healthy_or_the_version_changes(tally, version, stays):
    standing = {"PHANTOM_SHARE": {"version": "1"}, "PROBING": {"version": "1"}}

    assert flags(tally, standing=standing, version=version) == ({Flag.PHANTOM_SHARE} if stays else set())


def test_every_number_of_tools_falls_into_one_band():
    bands = [acceptance.disclosure_band(number) for number in range(200)]

    assert all(low <= number and (high is None or number <= high) for number, (low, high) in enumerate(bands))


def test_limits_of_the_policy_replace_the_defaults():
    assert acceptance.flag_thresholds({"least_calls": 5}) == FlagThresholds(least_calls=5)
