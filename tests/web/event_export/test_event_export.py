"""Events go outside: every signed one, in the order of the log, again after a crash, and none is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from console.edge.settings_files import UnusableFile
from console.event_export import operations, queries, sending
from console.event_export.destinations import Destination, load_destinations
from console.tasks import export_events
from ledger.db import tenancy
from ledger.record.rules.canonical import canonical
from ledger.record.rules.envelope import entry_hash
from tests.support.api_tenant import Clock, Workshop
from tests.support.outside.collector import Collector, collecting
from tests.support.outside.receivers import Posts, posts
from tests.support.seals import seal_up

SECRET = "whsec_" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"
OLD_SECRET = "whsec_" + "YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJi"


@pytest.fixture
def receiver(settings: Any) -> Iterator[Posts]:
    with posts() as server:
        url = f"http://127.0.0.1:{server.port}/take"
        settings.COUNTERFOIL_EVENT_DESTINATIONS = {"*": {"soc": Destination("webhook", url, (SECRET, OLD_SECRET))}}
        yield server


@pytest.fixture
def collector(settings: Any) -> Iterator[Collector]:
    with collecting() as here:
        url = here.address.replace("/v1/traces", "/v1/logs")
        headers = {"authorization": "Bearer of-the-collector"}
        settings.COUNTERFOIL_EVENT_DESTINATIONS = {"*": {"siem": Destination("otlp", url, headers=headers)}}
        yield here


def compliance(shop: Workshop) -> Any:
    return shop.person("compliance", name=f"desk-{uuid4()}@{shop.slug}")


def started(shop: Workshop, name: str, start: Any = "now") -> Any:
    answer = compliance(shop).post(f"/event-destinations/{name}/start", {"start": start})
    assert answer.status_code == 200, answer.content
    return answer.json()


def shown(shop: Workshop) -> dict[str, Any]:
    [item] = shop.auditor.get("/event-destinations").json()["items"]
    return dict(item)


def signed_events(shop: Workshop) -> list[str]:
    with tenancy(shop.tenant):
        return [str(each.id) for each in queries.events_behind(shop.tenant, 0, -1, limit=10_000)]


def told(receiver: Posts) -> list[str]:
    return [document["data"]["envelope"]["id"] for document in receiver.documents()]


def test_every_signed_event_is_sent_once_in_log_order_without_content(shop: Workshop, clock: Clock, receiver: Posts):
    action_id = shop.propose()
    seal_up()
    started(shop, "soc", "beginning")
    seal_up()
    export_events()
    while shown(shop)["waiting"]:
        export_events()
    assert told(receiver) == signed_events(shop)
    assert b"returns.md" not in b"".join(body for _, body in receiver.received)
    [proposed] = [each for each in receiver.documents() if each["type"] == "action.proposed"]
    assert proposed["data"]["envelope"]["subject"] == {"kind": "action", "id": action_id}
    assert (proposed["data"]["tool"], proposed["data"]["side_effect_class"]) == ("delete_document", "MEDIUM_RISK_WRITE")
    assert entry_hash(canonical(proposed["data"]["envelope"])).hex() == proposed["data"]["entry_hash"]
    before = len(receiver.received)
    assert export_events() == 0
    assert len(receiver.received) == before
    assert shown(shop)["state"] == "RUNNING"


def test_a_webhook_is_verified_by_the_library_of_the_standard_with_either_secret(shop: Workshop, receiver: Posts):
    started(shop, "soc")
    shop.propose()
    seal_up()
    assert export_events() > 0
    headers, body = receiver.received[0]
    for secret in (SECRET, OLD_SECRET):
        assert Webhook(secret).verify(body, headers)["data"]["envelope"]["seq"] >= 1
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body.replace(b"seq", b"sqe"), headers)
    assert headers["webhook-id"] == f"msg_{json.loads(body)['data']['envelope']['id'].replace('-', '')}"


def test_events_without_a_signed_checkpoint_are_not_exported(shop: Workshop, receiver: Posts, monkeypatch: Any):
    seal_up()
    started(shop, "soc")
    seal_up()
    export_events()
    before = len(receiver.received)
    monkeypatch.setattr(queries, "_SENDABLE", queries._SENDABLE.replace("t.signed_size", "0"))
    shop.propose()
    assert export_events() == 0
    assert len(receiver.received) == before


def test_a_failing_destination_is_retried_shown_and_gets_every_event_in_order(
    shop: Workshop, clock: Clock, receiver: Posts
):
    seal_up()
    started(shop, "soc")
    shop.propose()
    seal_up()
    receiver.answers = [200, 500]
    assert export_events() == 1
    failing = shown(shop)
    assert (failing["state"], failing["fault"], failing["failures"]) == ("FAILING", "HTTP 500", 1)
    assert failing["waiting"] > 0
    assert failing["oldest_waiting_at"] is not None
    sent = len(receiver.received)
    assert export_events() == 0
    assert len(receiver.received) == sent
    page = compliance(shop).client.get(f"/t/{shop.slug}/event-export").content.decode()
    assert "HTTP 500, 1 attempt in a row" in page
    clock.forward(seconds=30)
    while export_events():
        pass
    ids = told(receiver)
    # The one that was refused came again, under the same id.
    assert ids[1] == ids[2]
    assert list(dict.fromkeys(ids)) == signed_events(shop)[-len(set(ids)) :]
    assert (shown(shop)["state"], shown(shop)["fault"], shown(shop)["waiting"]) == ("RUNNING", None, 0)


def test_the_pause_grows_with_each_failure_and_no_event_is_dropped(shop: Workshop, clock: Clock, receiver: Posts):
    seal_up()
    started(shop, "soc")
    shop.propose()
    seal_up()
    clock.stop()
    receiver.answers = [503] * 8
    pauses = []
    for _ in range(8):
        export_events()
        pauses.append((datetime.fromisoformat(shown(shop)["retry_at"]) - clock.now()).total_seconds())
        clock.forward(hours=2)
    assert [
        round(pause) >= least for pause, least in zip(pauses, (15, 30, 60, 300, 900, 3600, 3600, 3600), strict=True)
    ]
    assert pauses == sorted(pauses[:6]) + pauses[6:]
    assert export_events() > 0


def test_a_redirect_is_not_followed(shop: Workshop, receiver: Posts):
    seal_up()
    started(shop, "soc")
    shop.propose()
    seal_up()
    receiver.answers = [302]
    assert export_events() == 0
    assert (shown(shop)["fault"], receiver.fetched) == ("HTTP 302", [])


def test_an_export_starts_at_an_index_or_a_time_and_another_one_continues_there(
    shop: Workshop, clock: Clock, receiver: Posts
):
    shop.propose()
    seal_up()
    desk, all_of_them = compliance(shop), None
    seal_up()
    assert started(shop, "soc", 3)["place"] == {"log": 1, "index": 2}
    while export_events():
        pass
    all_of_them = signed_events(shop)
    assert told(receiver)[0] == all_of_them[3]
    receiver.received.clear()
    assert started(shop, "soc", "2026-01-01T00:00:00Z")["place"]["index"] == -1
    assert desk.post("/event-destinations/soc/start", {"start": 10**9}).json()["code"] == "NOT_SIGNED"
    assert desk.post("/event-destinations/soc/start", {"start": "yesterday"}).json()["code"] == "BAD_START"
    assert desk.post("/event-destinations/nobody/start", {}).status_code == 404
    answer = desk.post("/event-destinations/soc/stop", {"reason": "The desk moved."})
    assert answer.json()["items"][0]["state"] == "NOT_STARTED"
    seal_up()
    assert export_events() == 0
    assert recorded(shop) == ["event_export_started", "event_export_moved", "event_export_stopped"]


def recorded(shop: Workshop) -> list[Any]:
    from ledger.models import Event

    with tenancy(shop.tenant):
        found = Event.objects.filter(tenant_id=shop.tenant, subject_kind="event_destination").order_by("seq")
        return list(found.values_list("kind", flat=True))


def test_a_test_message_contains_nothing_of_the_record_and_does_not_advance_the_export(shop: Workshop, receiver: Posts):
    shop.propose()
    seal_up()
    desk = compliance(shop)
    assert desk.post("/event-destinations/soc/test").json() == {"delivered": True, "fault": None}
    [(headers, body)] = receiver.received
    assert Webhook(SECRET).verify(body, headers)["type"] == "counterfoil.test"
    receiver.answers = [401]
    assert desk.post("/event-destinations/soc/test").json() == {"delivered": False, "fault": "HTTP 401"}
    page = desk.client.post(f"/t/{shop.slug}/event-export/soc/test", follow=True).content.decode()
    assert "soc accepted the test." in page


def test_only_compliance_and_administrators_can_export_events(shop: Workshop, receiver: Posts):
    for one in (shop.operator_key, shop.auditor, shop.reviewer, shop.operator, shop.agent):
        assert one.post("/event-destinations/soc/start", {}).status_code == 403
    assert shop.agent.get("/event-destinations").status_code == 403


def test_one_worker_at_a_time_sends_to_a_destination_and_a_dead_one_is_replaced(
    shop: Workshop, clock: Clock, receiver: Posts
):
    seal_up()
    started(shop, "soc")
    shop.propose()
    seal_up()
    with tenancy(shop.tenant):
        [row] = queries.due_destinations(shop.tenant, at=clock.now())
        held = operations.take_lease(row, at=clock.now())
    assert held is not None
    assert export_events() == 0
    clock.forward(seconds=61)
    assert export_events() > 0
    place = shown(shop)["place"]
    with tenancy(shop.tenant):
        # The one that was thought dead comes back, and moves nothing.
        operations.settle(held, place=(0, -1), taken=0, refused=0, fault="late", at=clock.now())
    assert (shown(shop)["place"], shown(shop)["fault"]) == (place, None)


def test_a_message_accepted_but_not_recorded_is_sent_again_and_nothing_is_lost(
    shop: Workshop, clock: Clock, receiver: Posts, monkeypatch: Any
):
    seal_up()
    started(shop, "soc")
    shop.propose()
    seal_up()

    def dies(*_: Any, **__: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(operations, "settle", dies)
        with pytest.raises(SystemExit):
            sending.export_events(_tenant(shop), clock=clock.now)
    first = told(receiver)
    assert first
    clock.forward(seconds=61)
    assert export_events() > 0
    again = told(receiver)[len(first) :]
    assert again[: len(first)] == first
    assert set(told(receiver)) == set(signed_events(shop)[-len(again) :])


def _tenant(shop: Workshop) -> Any:
    from ledger.record.queries import events

    return events.tenant_by_id(shop.tenant)


def test_a_collector_decodes_every_event_with_the_opentelemetry_messages(
    shop: Workshop, clock: Clock, collector: Collector
):
    action_id = shop.propose()
    seal_up()
    started(shop, "siem", "beginning")
    seal_up()
    collector.answers = 503
    assert export_events() == 0
    assert shown(shop)["fault"] == "HTTP 503"
    clock.forward(seconds=30)
    collector.answers = 200
    while export_events():
        pass
    records = collector.log_records
    attributes = [{each.key: each.value for each in record.attributes} for record in records]
    assert [each["counterfoil.event.id"].string_value for each in attributes] == signed_events(shop)
    [proposed] = [each for each in records if each.event_name == "counterfoil.action.proposed"]
    told_of = {each.key: each.value for each in proposed.attributes}
    assert told_of["counterfoil.subject.id"].string_value == action_id
    assert told_of["counterfoil.action.tool"].string_value == "delete_document"
    hashed = entry_hash(proposed.body.string_value.encode()).hex()
    assert hashed == told_of["counterfoil.log.entry_hash"].string_value
    assert proposed.severity_text == "INFO"
    assert len(proposed.trace_id) == 16
    assert collector.headers["authorization"] == "Bearer of-the-collector"


def test_records_dropped_by_a_collector_are_counted_and_not_sent_again(shop: Workshop, collector: Collector):
    seal_up()
    started(shop, "siem")
    shop.propose()
    seal_up()
    collector.drops = 2
    assert export_events() > 0
    assert (shown(shop)["refused"], shown(shop)["waiting"]) == (2, 0)
    page = compliance(shop).client.get(f"/t/{shop.slug}/event-export").content.decode()
    assert "2, as reported by the collector" in page


def test_events_of_a_destination_without_an_address_wait_and_the_reason_is_shown(
    shop: Workshop, receiver: Posts, settings: Any
):
    seal_up()
    started(shop, "soc")
    shop.propose()
    seal_up()
    settings.COUNTERFOIL_EVENT_DESTINATIONS = {}
    assert export_events() == 0
    assert (shown(shop)["kind"], shown(shop)["fault"]) == (None, "its address is no longer configured")
    assert shown(shop)["waiting"] > 0


GOOD = {"kind": "webhook", "url": "https://soc.example.org/take", "secrets": [SECRET]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"acme": {"soc": GOOD | {"url": "http://soc.example.org/take"}}}, "needs an https url"),
        ({"acme": {"soc": GOOD | {"url": "https://me:pass@soc.example.org/"}}}, "needs an https url"),
        ({"acme": {"soc": GOOD | {"secrets": []}}}, "needs one secret, or two"),
        ({"acme": {"soc": GOOD | {"secrets": ["whsec_short"]}}}, "24 to 64 bytes"),
        ({"acme": {"soc": GOOD | {"kind": "syslog"}}}, "kind webhook with url and secrets"),
        ({"acme": {"../soc": GOOD}}, "letters, digits"),
        (
            {"acme": {"siem": {"kind": "otlp", "url": "https://siem.example.org", "headers": {"a": 1}}}},
            "object of texts",
        ),
        ({"acme": []}, "an object with the name of a destination"),
    ],
)
def test_an_invalid_file_of_destinations_stops_the_process_with_the_reason(
    tmp_path: Path, given: dict[str, Any], said: str
):
    file = tmp_path / "destinations.json"
    file.write_text(json.dumps(given))
    file.chmod(0o600)
    with pytest.raises(UnusableFile, match=said):
        load_destinations(file)
    file.chmod(0o644)
    with pytest.raises(UnusableFile, match="closed to others"):
        load_destinations(file)


def test_a_valid_file_of_destinations_is_read_without_showing_a_secret(tmp_path: Path):
    siem = {"kind": "otlp", "url": "https://siem.example.org:4318", "headers": {"authorization": "Bearer x"}}
    file = tmp_path / "destinations.json"
    file.write_text(json.dumps({"acme": {"soc": GOOD}, "*": {"siem": siem}}))
    file.chmod(0o600)
    found = load_destinations(file)
    assert found["acme"]["soc"].server == "https://soc.example.org"
    assert found["*"]["siem"].url == "https://siem.example.org:4318/v1/logs"
    assert "whsec" not in repr(found)
    assert "Bearer" not in repr(found)
