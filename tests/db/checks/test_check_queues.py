"""Messages followed through a real Valkey: published, acknowledged, given up, handled, or not to be told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import redis

from ledger.record.rules.lifecycle import State
from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from reviews.verification.rules.verification import judge_run
from tests.support.verification_runs import FACTS, inputs

CHECK = check_for("queues")
LOOKUP = {
    "stream": "'shop:events'",
    "match": {"key": "scope.idempotency_key"},
    "group": "'mailer'",
    "dead_letter": "'shop:dead'",
    "downstream": {"hash": "'shop:sent:' + sr.order_id"},
    "fields": ["order_id"],
    "target_field": "order_id",
}
BINDINGS = {"sr": {"order_id": "o-17"}, "scope": {"idempotency_key": "key-1"}}


@pytest.fixture
def events(valkey_url):
    with redis.Redis.from_url(valkey_url, decode_responses=True, encoding_errors="replace") as client:
        client.xgroup_create("shop:events", "mailer", id="0", mkstream=True)
        yield client


def publish(client, key="key-1", **fields):
    return client.xadd("shop:events", {"key": key, "order_id": "o-17", **fields})


def consume(client, *, acknowledge=True, handle=True):
    for _, messages in client.xreadgroup("mailer", "m-1", {"shop:events": ">"}):
        for number, fields in messages:
            if handle:
                client.hset(f"shop:sent:{fields['order_id']}", mapping=fields)
            if acknowledge:
                client.xack("shop:events", "mailer", number)


def look(valkey_url, *, settings=None, bindings=BINDINGS, at=None, **part):
    lookup = {name: value for name, value in (LOOKUP | part).items() if value is not None}
    return CHECK.read(
        system=SystemAccess("events", "queues_events", settings or {}, {"url": valkey_url}),
        verification={"lookup": {"effects": {"publish": lookup}}},
        bindings=bindings,
        at=at or datetime.now(UTC),
        timeout_s=5,
    )


@pytest.mark.req("R-CP-11")
def test_a_message_that_was_handled_is_present(valkey_url, events):
    publish(events, key="another")
    number = publish(events)
    consume(events)
    found = look(valkey_url)
    (effect,) = found.effects
    assert (effect.present, effect.count, effect.pending) == (True, 1, False)
    assert effect.fields == {"order_id": "o-17", "message_id": number, "acknowledged": True}
    assert effect.scope == {"target": ("o-17",)}
    assert found.context["downstream"]["order_id"] == "o-17"
    assert found.consistency is Consistency.PRIMARY
    assert number in found.freshness
    assert found.indicators == ()


@pytest.mark.req("R-CP-11", "R-DC-09")
@pytest.mark.parametrize("delivered", [True, False])
def test_a_message_that_is_not_acknowledged_is_pending(valkey_url, events, delivered):
    publish(events)
    if delivered:
        consume(events, acknowledge=False)
    found = look(valkey_url)
    assert found.effects[0].present
    assert found.effects[0].pending
    assert found.indicators == ()


@pytest.mark.req("R-CP-11")
def test_a_message_that_waits_too_long_is_stuck(valkey_url, events):
    publish(events)
    later = look(valkey_url, at=datetime.now(UTC) + timedelta(minutes=2))
    assert later.indicators == ("message_stuck",)


def test_a_message_is_pending_for_a_group_that_does_not_exist(valkey_url, events):
    publish(events)
    assert look(valkey_url, group="'others'").effects[0].pending


@pytest.mark.req("R-CP-11")
def test_a_message_published_twice_is_a_duplicate(valkey_url, events):
    publish(events)
    publish(events)
    consume(events)
    found = look(valkey_url)
    assert found.effects[0].count == 2
    assert found.indicators == ("duplicate_event",)


@pytest.mark.req("R-CP-11")
def test_a_dead_letter_is_not_pending(valkey_url, events):
    publish(events)
    consume(events, acknowledge=False, handle=False)
    events.xadd("shop:dead", {"key": "key-1", "reason": "no address"})
    found = look(valkey_url)
    assert not found.effects[0].pending
    assert found.indicators == ("dead_letter",)


@pytest.mark.req("R-CP-11")
def test_a_message_that_fails_repeatedly_has_failed(valkey_url, events):
    number = publish(events)
    consume(events, acknowledge=False, handle=False)
    for _ in range(2):
        events.xclaim("shop:events", "mailer", "m-2", 0, [number])
    assert look(valkey_url, max_deliveries=4).effects[0].pending
    found = look(valkey_url, max_deliveries=3)
    assert found.indicators == ("consumer_failure",)
    assert not found.effects[0].pending


@pytest.mark.req("R-CP-11")
def test_an_acknowledgement_without_a_change_downstream_is_detected(valkey_url, events):
    publish(events)
    consume(events, handle=False)
    assert look(valkey_url).indicators == ("missing_downstream_mutation",)


@pytest.mark.req("R-CP-11")
def test_an_older_state_after_a_newer_message_is_detected(valkey_url, events):
    publish(events, seq="8")
    consume(events)
    assert look(valkey_url, sequence_field="seq").indicators == ()
    events.hset("shop:sent:o-17", "seq", "7")
    assert look(valkey_url, sequence_field="seq").indicators == ("out_of_order_processing",)


class TestAbsence:
    """Nothing found is "absent" only where nothing can have been taken away."""

    def test_a_complete_stream_proves_absence(self, valkey_url, events):
        publish(events, key="another")
        assert look(valkey_url).effects[0].present is False

    def test_an_empty_stream_of_a_group_proves_absence(self, valkey_url, events):
        assert look(valkey_url).effects[0].present is False

    def test_a_trimmed_stream_does_not_prove_absence(self, valkey_url, events):
        publish(events)
        publish(events, key="another")
        events.xtrim("shop:events", maxlen=1, approximate=False)
        assert look(valkey_url).effects[0].present is None

    def test_a_stream_with_a_deleted_message_does_not_prove_absence(self, valkey_url, events):
        number = publish(events)
        publish(events, key="another")
        events.xdel("shop:events", number)
        assert look(valkey_url).effects[0].present is None

    def test_messages_trimmed_before_the_execution_do_not_matter(self, valkey_url, events):
        events.xadd("shop:events", {"key": "old"}, id="1000-1")
        events.xadd("shop:events", {"key": "old"}, id="2000-1")
        publish(events, key="another")
        events.xtrim("shop:events", maxlen=2, approximate=False)
        recent = BINDINGS | {"scope": BINDINGS["scope"] | {"executed_at": datetime.now(UTC).isoformat()}}
        assert look(valkey_url, bindings=recent).effects[0].present is False
        assert look(valkey_url).effects[0].present is None

    def test_a_stream_that_is_gone_with_its_group_does_not_prove_absence(self, valkey_url, events):
        events.delete("shop:events")
        assert look(valkey_url).effects[0].present is None

    def test_a_stream_that_was_never_created_proves_absence(self, valkey_url):
        assert look(valkey_url, group=None).effects[0].present is False

    def test_a_stream_longer_than_the_scan_does_not_prove_absence(self, valkey_url, events, monkeypatch):
        monkeypatch.setattr("reviews.checks.queues.PAGE", 2)
        monkeypatch.setattr("reviews.checks.queues.MAX_SCANNED", 4)
        for number in range(5):
            publish(events, key=f"other-{number}")
        assert look(valkey_url).effects[0].present is None


def test_messages_are_found_over_many_pages(valkey_url, events, monkeypatch):
    monkeypatch.setattr("reviews.checks.queues.PAGE", 3)
    for number in range(10):
        publish(events, key=f"other-{number}")
    publish(events)
    consume(events)
    assert look(valkey_url).effects[0].present


def test_messages_from_before_the_execution_are_ignored(valkey_url, events):
    events.xadd("shop:events", {"key": "key-1", "order_id": "o-17"}, id="1000-1")
    recent = BINDINGS | {"scope": BINDINGS["scope"] | {"executed_at": datetime.now(UTC).isoformat()}}
    assert look(valkey_url, bindings=recent).effects[0].present is False
    assert look(valkey_url).effects[0].present


def test_undecodable_bytes_do_not_end_the_reading(valkey_url, events):
    events.xadd("shop:events", {"key": b"\xff\xfe", "order_id": "o-1"})
    publish(events)
    consume(events)
    assert look(valkey_url).effects[0].count == 1


@pytest.mark.req("R-VD-16")
def test_a_broker_that_does_not_answer_is_an_outage():
    with pytest.raises(CheckFailed) as failed:
        look("redis://127.0.0.1:1/0")
    assert failed.value.retryable


def test_a_refused_password_is_retried(valkey_url):
    with pytest.raises(CheckFailed) as failed:
        look(valkey_url.replace(":", ":wrong", 2).replace("redis:wrong", "redis:"))
    assert failed.value.retryable


def test_a_key_of_another_type_gives_no_answer(valkey_url, events):
    events.set("shop:other", "text")
    with pytest.raises(CheckFailed) as failed:
        look(valkey_url, stream="'shop:other'")
    assert not failed.value.retryable


def test_only_listed_streams_are_read(valkey_url, events):
    with pytest.raises(CheckFailed, match="not among"):
        look(valkey_url, settings={"streams": ["shop:dead"]})


def test_a_read_only_user_is_sufficient(valkey_url, events):
    publish(events)
    consume(events)
    events.acl_setuser(
        "reader", enabled=True, passwords=["+word"], reset=True,
        commands=["+@read", "+@connection", "+info"], keys=["%R~shop:*"],
    )  # fmt: skip
    host = valkey_url.rpartition("@")[2]
    try:
        assert look(f"redis://reader:word@{host}").effects[0].present
    finally:
        events.acl_deluser("reader")


def test_a_server_that_does_not_report_its_role_has_undeclared_consistency(valkey_url, events):
    events.acl_setuser(
        "mute", enabled=True, passwords=["+word"], reset=True,
        commands=["+@read", "+@connection"], keys=["%R~shop:*"],
    )  # fmt: skip
    host = valkey_url.rpartition("@")[2]
    try:
        found = look(f"redis://mute:word@{host}")
    finally:
        events.acl_deluser("mute")
    assert found.consistency is Consistency.UNDECLARED
    assert not found.is_strong


class TestToTheEnd:
    """The check and the rules together."""

    FACTS = {**FACTS.__dict__, "required_effects": ("publish",), "predicates": ("sa.exists",)}

    def outcome(self, reading):
        facts = type(FACTS)(**self.FACTS)
        return judge_run(inputs(reading, facts=facts, at=reading.observed_at, horizon_at=reading.observed_at,
                          sla_at=reading.observed_at + timedelta(hours=1)))  # fmt: skip

    def test_a_late_consumer_is_waited_for_until_it_succeeds(self, valkey_url, events):
        publish(events)
        assert self.outcome(look(valkey_url)).decision.row == "RT-01"
        consume(events)
        assert self.outcome(look(valkey_url)).state is State.RECONCILED_SUCCESS

    def test_a_dead_letter_is_a_partial_application(self, valkey_url, events):
        publish(events)
        consume(events, handle=False)
        events.xadd("shop:dead", {"key": "key-1"})
        found = self.outcome(look(valkey_url))
        assert found.verdict.discrepancy == "PARTIAL_APPLICATION"
        assert found.state is State.REVIEW_REQUIRED


class TestAtRegistration:
    def faults(self, **changes):
        part = {name: value for name, value in (LOOKUP | changes).items() if value is not None}
        return CHECK.validate({"lookup": {"effects": {"publish": part}}})

    def test_a_valid_lookup_is_accepted(self):
        assert self.faults(sequence_field="seq", max_deliveries=3, tenant_field="tenant") == []

    @pytest.mark.parametrize(
        "changes",
        [
            {"stream": None},
            {"stream": "shop:events"},
            {"match": {}},
            {"match": {"key": "sa.key"}},
            {"group": 3},
            {"fields": ["exists"]},
            {"fields": "order_id"},
            {"downstream": {"key": "'x'"}},
            {"downstream": "x"},
            {"max_deliveries": 0},
            {"steam": "'x'"},
        ],
    )
    def test_an_invalid_lookup_is_reported(self, changes):
        assert self.faults(**changes)

    def test_the_fields_of_a_message_are_typed(self):
        properties = CHECK.typed_fields({"effects": {"publish": LOOKUP}})["properties"]
        assert {"order_id", "message_id", "acknowledged", "downstream", "exists"} <= set(properties)


def test_a_message_is_found_on_a_broker_whose_clock_is_behind(valkey_url, events):
    """It numbers its messages by its own clock; ours is ahead by an hour here."""
    publish(events)
    consume(events)
    ours = datetime.now(UTC) + timedelta(hours=1)
    bindings = BINDINGS | {"scope": BINDINGS["scope"] | {"executed_at": ours.isoformat()}}
    assert look(valkey_url, bindings=bindings, at=ours).effects[0].present


def test_duplicates_are_found_over_many_pages(valkey_url, events, monkeypatch):
    monkeypatch.setattr("reviews.checks.queues.PAGE", 3)
    publish(events)
    for number in range(10):
        publish(events, key=f"other-{number}")
    publish(events)
    consume(events)
    assert look(valkey_url).indicators == ("duplicate_event",)


def test_an_answer_to_an_earlier_request_is_rejected(valkey_url, events, monkeypatch):
    monkeypatch.setattr("reviews.checks.queues.redis.Redis.echo", lambda self, word: "an earlier word")
    with pytest.raises(CheckFailed, match="what it is asked") as failed:
        look(valkey_url)
    assert failed.value.retryable
