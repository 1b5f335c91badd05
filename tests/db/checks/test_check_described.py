"""Every described system against a server of its documented answers: one table over all of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reviews.checks import described
from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from reviews.systems.descriptions import shipped_descriptions
from tests.support.outside.described_systems import SYSTEMS, served

pytestmark = pytest.mark.parametrize("name", SYSTEMS)
GATEWAY = "<html><body><h1>404 Not Found</h1><hr>nginx</body></html>"


@pytest.fixture
def fake(name):
    with served(name) as system:
        yield system


def look(fake, part, *, tried=None, at=None, pre=None, **arguments):
    description = shipped_descriptions()[fake.name]
    system = SystemAccess(
        "shop",
        fake.name,
        {"url": fake.url, **fake.data.get("settings", {})},
        {"url": fake.url, **fake.data["credential"]},
        description.digest if tried is None else tried,
    )
    return check_for(fake.name).read(
        system=system,
        verification={"lookup": {"effects": {"it": part}}},
        bindings={"sr": fake.data["arguments"] | {"key": "K-7"} | arguments, "scope": {}, "pre": pre or {}},
        at=at or datetime.now(UTC),
        timeout_s=10,
    )


def by_key(fake, **more):
    return look(fake, fake.data["by_match"], **more)


def by_id(fake, number, **more):
    return look(fake, fake.data["by_id"], id=number, **more)


def made_now(fake):
    """The value of the time of an object that was made just now, in the form that the system has."""
    at = shipped_descriptions()[fake.name].fields.get("time")
    before = fake.data["object"]
    for step in (at or "").split("/")[1:]:
        before = before[step]
    moment = datetime.now(UTC)
    if isinstance(before, int):
        return {at: int(moment.timestamp())}
    return {at: f"{moment:%Y-%m-%dT%H:%M:%SZ}"} if at else {}


def indicator(fake, occasion):
    return shipped_descriptions()[fake.name].indicators.get(occasion)


def test_the_lookups_of_the_table_are_accepted_at_registration(name, fake):
    for part in (fake.data["by_id"], fake.data["by_match"]):
        assert check_for(name).validate({"lookup": {"effects": {"it": part}}}) == []


def test_a_present_object_is_found_by_its_key_and_by_its_id(name, fake):
    fake.add("K-1", number=1)
    made = fake.add("K-7", number=2)
    for reading in (by_key(fake), by_id(fake, fake.id_of(made))):
        (effect,) = reading.effects
        assert (effect.present, effect.count, effect.pending) == (True, 1, False)
        assert effect.fields["id"] == fake.id_of(made)
        assert reading.indicators == ()
        assert reading.is_strong
        assert reading.freshness
    assert {method for method, _ in fake.asked} <= {"GET", "POST"}
    posted = [path for method, path in fake.asked if method == "POST"]
    assert posted in ([], [fake.data.get("token", {}).get("path")])


def test_an_amount_is_shown_in_the_currencys_smallest_unit(name, fake):
    if "amount" not in shipped_descriptions()[name].fields:
        assert "amount" not in fake.data["arguments"]
        return
    fake.add("K-7")
    assert by_key(fake).effects[0].fields["amount"] == fake.data["arguments"]["amount"]


def test_what_the_system_says_is_not_there_is_absent(name, fake):
    assert by_id(fake, fake.data.get("no_id", "none")).effects[0].present is False
    lags = shipped_descriptions()[name].gets["list"].get("lags")
    for others in range(2):
        assert by_key(fake).effects[0].present is (None if lags else False), f"with {others} others"
        fake.add("K-1")


def test_a_wrong_value_is_told(name, fake):
    made = fake.add("K-7", **fake.data["wrong"])
    for reading in (by_key(fake), by_id(fake, fake.id_of(made))):
        assert reading.effects[0].present is True
        assert reading.indicators == (indicator(fake, "differs"),)


def test_two_objects_with_one_key_are_a_duplicate(name, fake):
    fake.add("K-7", number=1)
    fake.add("K-7", number=2)
    reading = by_key(fake)
    assert (reading.effects[0].present, reading.effects[0].count) == (True, 2)
    wanted = indicator(fake, "duplicate")
    assert reading.indicators == ((wanted,) if wanted else ())


@pytest.mark.parametrize("kind", ["pending", "failed", "undone"])
def test_a_state_is_neither_more_nor_less_than_the_system_says(name, fake, kind):
    if kind not in fake.data["states"]:
        assert not shipped_descriptions()[name].document["states"].get(kind)
        return
    fake.add("K-7", **(made_now(fake) | fake.data["states"][kind]))
    reading = by_key(fake)
    effect = reading.effects[0]
    assert (effect.present, effect.pending) == (kind != "failed", kind == "pending")
    assert effect.fields["state_kind"] == kind
    wanted = indicator(fake, kind)
    assert reading.indicators == ((wanted,) if wanted else ())


def test_what_is_pending_for_too_long_is_told(name, fake):
    if "pending" not in fake.data["states"]:
        assert indicator(fake, "late") is None
        return
    fake.add("K-7", **fake.data["states"]["pending"])
    assert by_key(fake, at=datetime.now(UTC) + timedelta(days=60)).indicators == (indicator(fake, "late"),)


@pytest.mark.parametrize("others", [0, 1])
def test_an_unknown_state_is_unknown_and_never_success_or_absence(name, fake, others):
    made = fake.add("K-7", number=1, **fake.data["states"]["unknown"])
    for number in range(others):
        fake.add("K-7", number=2 + number)
    effect = by_key(fake).effects[0]
    assert effect.present is None
    assert effect.fields["state_kind"] == "unknown"
    gone = fake.data["by_id"] | {"expect": "absent"}
    assert look(fake, gone, id=fake.id_of(made)).effects[0].present is None


def test_an_object_without_its_state_or_a_wanted_value_is_unknown(name, fake):
    made = fake.add("K-7")
    description = shipped_descriptions()[name]
    for at in (description.fields["state"], *fake.data["wrong"]):
        holder, _, last = at.rpartition("/")
        found = made
        for step in holder.split("/")[1:]:
            found = found[int(step)] if isinstance(found, list) else found[step]
        kept = found.pop(last)
        assert by_key(fake).effects[0].present is None, at
        found[last] = kept


@pytest.mark.parametrize("status", [500, 503, 404, 200])
def test_no_answer_of_the_system_is_no_reading(name, fake, status):
    fake.add("K-7")
    by_key(fake)
    fake.fail(status, GATEWAY)
    for ask in (by_key, lambda system: by_id(system, "none")):
        with pytest.raises(CheckFailed) as failed:
            ask(fake)
        assert failed.value.retryable


@pytest.mark.parametrize("body", ["{}", "[]", "null", '{"error": "no"}'])
@pytest.mark.parametrize("status", [200, 404])
def test_an_answer_that_is_not_as_described_is_no_reading(name, fake, status, body):
    by_key(fake)
    fake.fail(status, body)
    described = shipped_descriptions()[name].gets
    if status == 200 and body == "[]" and described["list"]["at"] == "" and "target" not in described:
        # An empty array is how this system says that there are none.
        assert by_key(fake).effects[0].present is False
    else:
        with pytest.raises(CheckFailed) as failed:
            by_key(fake)
        assert failed.value.retryable
    with pytest.raises(CheckFailed):
        by_id(fake, "none")


def test_a_list_is_walked_to_its_end(name, fake):
    size = fake.data["paging"].get("size", 1)
    for number in range(1, size + 1):
        fake.add("K-1", number=number)
    fake.add("K-7", number=size + 1)
    reading = by_key(fake)
    assert (reading.effects[0].present, reading.effects[0].count) == (True, 1)
    if fake.data["paging"]["by"] == "none":
        return
    pages = [
        path
        for method, path in fake.asked
        if method == "GET" and path.startswith(fake.data["paths"]["list"].partition("?")[0])
    ]
    assert len(pages) == 2
    by_key(fake)
    fake.fail(503, "busy", after=1 + ("target" in fake.data["paths"]))
    with pytest.raises(CheckFailed):
        by_key(fake)


def test_a_list_that_is_longer_than_we_walk_proves_nothing(name, fake, monkeypatch):
    paging = fake.data["paging"]
    monkeypatch.setattr(described, "MAX_PAGES", 1)
    for number in range(1, paging.get("size", 1) + 2):
        fake.add("K-1", number=number)
    assert by_key(fake).effects[0].present is (False if paging["by"] == "none" else None)


def test_a_request_too_many_is_waited_for(name, fake):
    by_key(fake)
    refusal = fake.data["too_many"]
    fake.fail(refusal["status"], refusal["body"])
    with pytest.raises(CheckFailed) as failed:
        by_key(fake)
    assert failed.value.retryable


def test_a_credential_that_is_refused_is_an_outage_and_never_absence(name, fake):
    fake.data["signed"] = {next(iter(fake.data["signed"])): "of another"}
    with pytest.raises(CheckFailed) as failed:
        by_id(fake, "none")
    assert failed.value.retryable


def test_an_untried_description_settles_nothing(name, fake):
    fake.add("K-7")
    for tried in ("", "0" * 64):
        reading = by_key(fake, tried=tried)
        assert reading.consistency is Consistency.UNDECLARED
        assert not reading.is_strong
        assert reading.effects[0].present is True
