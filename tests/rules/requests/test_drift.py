"""Drift: what counts as a change of the target between the request and the start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.requests.rules.drift import compare, is_volatile, state_of


def reading(**changes):
    return {
        "source": "shop",
        "consistency": "PRIMARY",
        "freshness": "lsn 0/16B3",
        "observed_at": "2026-03-02T09:00:00+00:00",
        "effects": [{"name": "refund", "present": False, "count": 0, "fields": {}, "scope": {}}],
        "target": {"status": "paid", "amount": 12500, "version": 3, "exists": True, "count": 1},
        "context": {"audit": {"exists": False, "count": 0, "actors": []}},
        "indicators": [],
    } | changes


def target(**fields):
    return reading(target={"status": "paid", "amount": 12500, "version": 3, "exists": True, "count": 1} | fields)


def fields(then, now, *volatile):
    drift = compare(state_of(then), state_of(now), volatile=volatile)
    return {each.field: each.material for each in drift.differences}


def test_the_time_and_freshness_of_a_reading_are_not_drift():
    later = reading(observed_at="2026-03-02T10:00:00+00:00", freshness="lsn 0/FFFF", pointer="elsewhere")
    assert fields(reading(), later) == {}
    assert state_of(reading()).digest() == state_of(later).digest()


def test_every_field_is_material_unless_the_contract_calls_it_volatile():
    """B31: a version that moves on alone is a change as well."""
    changed = target(version=4, status="settled")
    assert fields(reading(), changed) == {"target.status": True, "target.version": True}
    assert fields(reading(), changed, "target.version") == {"target.status": True, "target.version": False}
    assert fields(reading(), changed, "target") == {"target.status": False, "target.version": False}


def test_volatile_changes_do_not_change_the_digest_and_material_ones_do():
    before, after = state_of(reading()), state_of(target(version=4))
    assert before.digest(("target.version",)) == after.digest(("target.version",))
    assert before.digest() != after.digest()


def test_a_vanished_target_differs_in_every_field():
    drift = compare(state_of(reading()), state_of(reading(target={"exists": False, "count": 0})))
    gone = {each.field: (each.then, each.now) for each in drift.material}
    assert gone["target.exists"] == ("true", "false")
    assert gone["target.status"] == ("paid", None)


def test_an_effect_that_appeared_meanwhile_is_drift():
    brought = {"name": "refund", "present": True, "count": 1, "fields": {"amount": 12500}, "scope": {"tenant": ["a"]}}
    found = fields(reading(), reading(effects=[brought]))
    assert set(found) == {
        "effects.refund.amount",
        "effects.refund.count",
        "effects.refund.exists",
        "effects.refund.scope.tenant",
    }


def test_an_undetermined_effect_is_not_a_difference():
    untold = [{"name": "refund", "present": None, "count": 0, "fields": {}, "scope": {}}]
    drift = compare(state_of(reading()), state_of(reading(effects=untold)))
    assert (drift.differences, drift.untold) == ((), ("refund",))


def test_values_of_different_types_differ():
    assert set(fields(target(count=1), target(count=True))) == {"target.count"}
    assert set(fields(target(amount=1), target(amount="1"))) == {"target.amount"}


def test_every_row_is_compared_where_there_are_several():
    def both(second):
        rows = [{"id": 1, "status": "open"}, {"id": 2, "status": second}]
        effect = {"name": "line", "present": True, "count": 2, "fields": rows[0], "scope": {}, "instances": rows}
        return reading(effects=[effect])

    assert set(fields(both("open"), both("closed"))) == {"effects.line.instances.1.status"}
    assert fields(both("open"), both("closed"), "effects.*.instances.*.status") == {
        "effects.line.instances.1.status": False
    }


@pytest.mark.parametrize("indicators", [[], ["freshness_not_guaranteed"]])
def test_a_state_is_strong_only_if_its_source_is_strong(indicators):
    assert state_of(reading(indicators=indicators)).strong is not bool(indicators)
    assert not state_of(reading(consistency="REPLICA")).strong


def test_a_longer_pattern_does_not_cover_a_shorter_path():
    assert not is_volatile(("target",), ("target.version",))
    assert is_volatile(("target", "version", "minor"), ("target.version",))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_the_digest_changes_exactly_when_something_material_changed(one, other):
    then, now = state_of(reading(target={"it": one})), state_of(reading(target={"it": other}))
    drift = compare(then, now)
    assert (then.digest() == now.digest()) is (drift.material == ())
