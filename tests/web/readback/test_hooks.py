"""Webhooks: who may make an address, what is refused, and what a signed one does and does not."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from console.tasks import DELIVERIES_KEPT as KEPT
from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from ledger.models import Event, Evidence
from ledger.record.queries import events
from reviews import queries, tasks
from reviews.models import Observation, Schedule, WebhookDelivery
from reviews.observations.operations import webhooks as operations
from reviews.observations.rules import webhooks
from tests.support.api_tenant import Clock, Workshop, anonymous, result, workshop
from tests.support.callers import Api, key_for

SECRET = "whsec_" + base64.b64encode(b"a secret of at least 24 bytes").decode()
NEXT = "whsec_" + base64.b64encode(b"the secret that comes after it").decode()


@pytest.fixture
def mapped(shop: Workshop) -> Workshop:
    """The documents' system, whose provider names its actions in three ways."""
    mapping = {"action_id": "/data/action", "idempotency_key": "/data/key", "target": "document/{/data/path}"}
    settings = {"root": str(shop.root), "webhook": mapping}
    body = {"name": "documents", "pattern": "filesystems", "settings": settings}
    assert shop.operator_key.post("/systems", body).status_code == 201
    return shop


@pytest.fixture
def hook(mapped: Workshop) -> str:
    answer = mapped.operator_key.post("/systems/documents/hooks", {"secret": SECRET})
    assert answer.status_code == 201, answer.content
    return str(answer.json()["path"]).removeprefix("/api/v1/hooks/")


def id_in(hook: str) -> str:
    return hook.rpartition("/")[2]


def send(hook: str, clock: Clock, body: Any, *, secret: str = SECRET, webhook_id: str = "msg_1", **headers: str) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    timestamp = str(int(clock.now().timestamp()))
    signature = webhooks.signature(
        webhooks.decode_secret(secret), webhook_id=webhook_id, timestamp=timestamp, body=data
    )
    given = {"webhook-id": webhook_id, "webhook-timestamp": timestamp, "webhook-signature": signature} | headers
    return anonymous().client.post(f"/api/v1/hooks/{hook}", data, "application/json", headers=given)


def pending(shop: Workshop) -> str:
    started = shop.started()
    shop.observe(started)
    return str(started["action_id"])


def kinds(shop: Workshop, action_id: str) -> list[str]:
    return [event["event"] for event in shop.history(action_id)]


def stored(shop: Workshop) -> tuple[int, int, int]:
    with tenancy(shop.tenant):
        return Event.objects.count(), Evidence.objects.count(), WebhookDelivery.objects.count()


@pytest.mark.req("R-OB-14")
def test_a_signed_webhook_is_evidence_and_causes_an_early_reading_without_a_state_change(
    hook: str, mapped: Workshop, clock: Clock
):
    action_id = pending(mapped)
    assert send(hook, clock, {"data": {"action": action_id, "status": "deleted"}}).status_code == 202
    assert mapped.state(action_id) == "PENDING"
    assert kinds(mapped, action_id)[-1] == "webhook_received"
    assert Schedule.objects.get(action_id=action_id).due_at <= clock.now()
    assert tasks.verify_due() == 1


@pytest.mark.req("R-OB-14")
def test_a_forged_webhook_is_refused_and_stores_nothing(hook: str, mapped: Workshop, clock: Clock):
    action_id = pending(mapped)
    before = stored(mapped)
    body = {"data": {"action": action_id}}
    for answer in (
        send(hook, clock, body, secret=NEXT),
        send(hook, clock, body, **{"webhook-signature": "v1,AAAA"}),
        send(hook, clock, body, **{"webhook-id": "msg_2"}),
        send(hook, clock, body, **{"webhook-timestamp": str(int(clock.now().timestamp()) - 400)}),
        anonymous().post(f"/hooks/{hook}", body),
    ):
        assert answer.status_code == 403
        assert answer.json()["code"] == "SIGNATURE_INVALID"
    assert stored(mapped) == before


@pytest.mark.req("R-OB-13")
def test_a_webhook_is_recorded_separately_from_the_answer_of_the_tool(hook: str, mapped: Workshop, clock: Clock):
    action_id = pending(mapped)
    send(hook, clock, {"data": {"action": action_id}})
    with tenancy(mapped.tenant):
        seen = queries.observations_of(mapped.tenant, action_id)  # type: ignore[arg-type]
        assert [(each.source, each.status) for each in seen] == [("executor", "success"), ("webhook", "notified")]
        assert queries.last_observation(mapped.tenant, action_id).source == "executor"  # type: ignore[arg-type, union-attr]


def test_a_webhook_is_not_shown_as_the_answer_of_the_executor(hook: str, mapped: Workshop, clock: Clock):
    action_id = pending(mapped)
    send(hook, clock, {"data": {"action": action_id}})
    page = mapped.operator.client.get(f"/t/{mapped.slug}/actions/{action_id}").content.decode()
    assert "observation: success" in page
    assert "observation: notified" not in page


def test_a_repeated_webhook_is_accepted_once(hook: str, mapped: Workshop, clock: Clock):
    action_id = pending(mapped)
    body = {"data": {"action": action_id}}
    assert [send(hook, clock, body).status_code for _ in range(3)] == [202, 202, 202]
    assert kinds(mapped, action_id).count("webhook_received") == 1
    send(hook, clock, body, webhook_id="msg_2")
    assert kinds(mapped, action_id).count("webhook_received") == 2


def test_an_action_is_found_by_its_key_and_by_its_target(hook: str, mapped: Workshop, clock: Clock):
    started = mapped.started()
    mapped.observe(started)
    send(hook, clock, {"data": {"key": started["idempotency_key"]}})
    send(hook, clock, {"data": {"path": "policies/returns.md"}}, webhook_id="msg_2")
    assert kinds(mapped, started["action_id"]).count("webhook_received") == 2


@pytest.mark.parametrize(
    "body",
    [
        {"data": {"action": "01a20102-7d9a-77c8-b347-ab02c7b05883"}},
        {"data": {"action": "nonsense"}},
        {"data": {"key": "unknown"}},
        {"other": 1},
        [],
        b"\xff\xfe not json",
        b"[" * 100_000,
        b"",
    ],
)
def test_a_webhook_without_an_action_is_stored_as_evidence_of_the_system(
    hook: str, mapped: Workshop, clock: Clock, body: Any
):
    assert send(hook, clock, body).status_code == 202
    with tenancy(mapped.tenant):
        system = catalogue_queries.system(mapped.tenant, "documents")
        assert system is not None
        assert [event.kind for event, _, _ in events.history(mapped.tenant, system.id)][-1] == "webhook_received"
        assert Observation.objects.count() == 0


@pytest.mark.req("R-OB-14")
def test_a_webhook_cannot_be_about_an_action_of_another_system(mapped: Workshop, clock: Clock, tmp_path: Path):
    other = {"name": "mail", "pattern": "filesystems", "settings": {"webhook": {"action_id": "/id"}}}
    assert mapped.operator_key.post("/systems", other).status_code == 201
    path = mapped.operator_key.post("/systems/mail/hooks", {"secret": SECRET}).json()["path"]
    hook = path.removeprefix("/api/v1/hooks/")
    action_id = pending(mapped)
    assert send(hook, clock, {"id": action_id}).status_code == 202
    assert "webhook_received" not in kinds(mapped, action_id)


def test_a_webhook_cannot_be_about_an_action_of_another_tenant(hook: str, mapped: Workshop, clock: Clock):
    other = workshop("willow").set_up()
    theirs = pending(other)
    assert send(hook, clock, {"data": {"action": theirs}}).status_code == 202
    assert "webhook_received" not in kinds(other, theirs)


@pytest.mark.req("R-OB-14")
def test_after_settlement_a_webhook_causes_one_more_reading_without_a_state_change(
    hook: str, mapped: Workshop, clock: Clock, tmp_path: Path
):
    action_id = pending(mapped)
    gone = tmp_path / "documents" / "policies" / "returns.md"
    gone.unlink()
    clock.forward(seconds=60)
    tasks.verify_due()
    assert mapped.state(action_id) == "RECONCILED_SUCCESS"
    gone.write_text("Somebody put it back.")
    send(hook, clock, {"data": {"action": action_id}})
    assert mapped.state(action_id) == "RECONCILED_SUCCESS"
    assert tasks.verify_due() == 1
    assert mapped.state(action_id) == "RECONCILED_SUCCESS"
    assert "contradicted" in kinds(mapped, action_id)


def test_during_a_rotation_both_secrets_are_valid(hook: str, mapped: Workshop, clock: Clock):
    path = f"/systems/documents/hooks/{id_in(hook)}/rotate"
    assert mapped.operator_key.post(path, {"secret": NEXT}).json()["secrets"] == 2
    assert send(hook, clock, {}, webhook_id="a").status_code == 202
    assert send(hook, clock, {}, webhook_id="b", secret=NEXT).status_code == 202
    mapped.operator_key.post(path, {"secret": NEXT, "keep_old": False})
    assert send(hook, clock, {}, webhook_id="c").status_code == 403
    assert send(hook, clock, {}, webhook_id="d", secret=NEXT).status_code == 202


def test_an_address_with_another_tenant_in_it_is_not_found(hook: str, mapped: Workshop, clock: Clock):
    assert hook == f"{mapped.tenant}/{id_in(hook)}"
    for tenant in (workshop("willow").tenant, UUID(int=0)):
        assert send(f"{tenant}/{id_in(hook)}", clock, {}).status_code == 404
    assert send(id_in(hook), clock, {}).status_code == 404
    assert send(hook, clock, {}).status_code == 202


def test_a_revoked_address_is_not_found(hook: str, mapped: Workshop, clock: Clock):
    answer = mapped.operator_key.post(f"/systems/documents/hooks/{id_in(hook)}/revoke", {"reason": "It leaked."})
    assert answer.json() == {"hook_id": id_in(hook), "revoked": True}
    assert send(hook, clock, {}).status_code == 404
    [shown] = mapped.operator_key.get("/systems/documents/hooks").json()["items"]
    assert shown["revoked_at"] is not None
    assert shown["secrets"] == 0


def test_secrets_are_stored_in_separate_files_and_never_shown(hook: str, mapped: Workshop, secrets_dir: Path):
    path = secrets_dir / "systems" / "orchid" / "documents.hooks.json"
    assert json.loads(path.read_text()) == {id_in(hook): [SECRET]}
    assert path.stat().st_mode & 0o777 == 0o600
    shown = mapped.operator_key.get("/systems/documents/hooks").content + mapped.operator_key.get("/systems").content
    assert SECRET[6:].encode() not in shown


def test_a_body_above_one_mebibyte_is_refused(hook: str, mapped: Workshop, clock: Clock):
    assert send(hook, clock, b"x" * (1 << 20)).status_code == 202
    assert send(hook, clock, b"x" * ((1 << 20) + 1)).status_code == 413


@pytest.mark.parametrize("path", ["nonsense", "01a20102-7d9a-77c8-b347-ab02c7b05883"])
def test_an_unknown_address_is_not_found(mapped: Workshop, clock: Clock, path: str):
    assert send(path, clock, {}).status_code == 404


@pytest.mark.parametrize("kind", ["agent", "exec", "audit"])
def test_only_operators_create_webhook_addresses(mapped: Workshop, kind: str):
    caller: Api = key_for(mapped.tenant, kind)
    assert caller.post("/systems/documents/hooks", {"secret": SECRET}).status_code == 403


def test_a_weak_secret_and_an_unknown_system_are_refused(mapped: Workshop):
    assert mapped.operator_key.post("/systems/documents/hooks", {"secret": "whsec_QUJD"}).status_code == 422
    assert mapped.operator_key.post("/systems/nowhere/hooks", {"secret": SECRET}).status_code == 404


def test_an_invalid_mapping_is_refused_when_a_system_is_registered(mapped: Workshop):
    body = {"name": "x", "pattern": "filesystems", "settings": {"webhook": {"action_id": "data.id"}}}
    answer = mapped.operator_key.post("/systems", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "BAD_MAPPING")


def test_delivery_ids_are_deleted_after_they_can_no_longer_repeat(hook: str, mapped: Workshop, clock: Clock):
    send(hook, clock, {})
    operations.prune_deliveries(before=clock.now() - KEPT)
    assert stored(mapped)[2] == 1
    clock.forward(days=8)
    operations.prune_deliveries(before=clock.now() - KEPT)
    assert stored(mapped)[2] == 0


def test_a_webhook_for_an_action_that_has_not_started_changes_no_state(hook: str, mapped: Workshop, clock: Clock):
    action_id = mapped.propose()
    assert send(hook, clock, {"data": {"action": action_id}}).status_code == 202
    assert mapped.state(action_id) == "VALIDATED"
    assert not Schedule.objects.filter(action_id=action_id).exists()


def test_an_answer_after_a_webhook_is_judged_on_its_own(hook: str, mapped: Workshop, clock: Clock):
    started = mapped.started()
    send(hook, clock, {"data": {"action": started["action_id"]}})
    mapped.observe(started, result=result())
    assert mapped.state(started["action_id"]) == "PENDING"
