"""The gateway before a real API server with its etcd, where both programs are installed; nothing else of a cluster."""

from __future__ import annotations

import json
import ssl
from uuid import uuid4

import httpx
import pytest

from tests.client.gateway.clusters import (
    APPLY,
    MAPS,
    MERGE,
    POD,
    PODS,
    WEBS,
    Journeys,
    config_map,
    deployment,
    gated,
)
from tests.support.outside import kube_apiserver


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    # Before the console: without the programs there is nothing to start.
    with kube_apiserver.served(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def shop(api, house, tmp_path_factory):
    with gated(house, api, tmp_path_factory.mktemp("gateway")) as made:
        yield made


def _reject_one(house):
    approval = house.reviewer.items("/approvals", state="REQUESTED")[0]
    shown = house.reviewer.get(f"/approvals/{approval['approval_id']}")
    body = {
        "verdict": "reject",
        "payload_hash": shown["covers"]["payload_hash"],
        "rendering_digest": shown["covers"]["rendering_digest"],
        "without_reading": shown["target_unread"],
        "reason": "Only to be looked at.",
        "password": house.password,
    }
    answer = house.reviewer.post(
        f"/approvals/{approval['approval_id']}/votes", body, **{"Idempotency-Key": uuid4().hex}
    )
    assert answer.status_code == 201, answer.text


class TestRealServer(Journeys):
    """The same journeys as at the small server, and what only a real one answers."""

    def test_an_apply_by_the_server_and_each_kind_of_patch_show_their_difference(self, shop):
        image = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "shop/web:8"}]}}}}
        sent = {
            MERGE: ({"spec": {"replicas": 4}}, "/spec/replicas: 2 -> 4"),
            "application/strategic-merge-patch+json": (image, "/spec/template/spec/containers: "),
            "application/json-patch+json": (
                [{"op": "replace", "path": "/spec/replicas", "value": 6}],
                "/spec/replicas: 2 -> 6",
            ),
        }
        for number, (media, (document, says)) in enumerate(sent.items()):
            name = f"site-{number}"
            shop.api.post(WEBS, deployment(name))
            told = shop.ask("PATCH", f"{WEBS}/{name}", document, media=media, agent="patcher")
            assert told.status_code == 409, told.text
            assert says in shop.newest_request(name).arguments["difference"]
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"tea": "3"}}
        told = shop.ask("PATCH", f"{MAPS}/made?fieldManager=agent&force=true", applied, media=APPLY, agent="patcher")
        assert told.status_code == 409, told.text
        one = shop.newest_request("made").arguments
        assert (one["verb"], one["options"], one["uid"]) == ("apply", ["fieldManager=agent", "force=true"], "none")
        for _ in range(4):
            _reject_one(shop.house)

    def test_a_watch_streams_what_changes_meanwhile(self, shop):
        shop.api.post(MAPS, config_map("watched", tea="3"))
        trusted = ssl.create_default_context(cafile=str(shop.certificate))
        query = "watch=1&timeoutSeconds=30&fieldSelector=metadata.name%3Dwatched"
        headers = {"Authorization": f"Bearer {shop.tokens['deployer']}"}
        with (
            httpx.Client(verify=trusted, timeout=60) as client,
            client.stream("GET", f"{shop.address}/{MAPS}?{query}", headers=headers) as events,
        ):
            lines = events.iter_lines()
            assert json.loads(next(lines))["type"] == "ADDED"
            shop.api.patch(f"{MAPS}/watched", {"data": {"tea": "4"}})
            changed = json.loads(next(lines))
        assert (changed["type"], changed["object"]["data"]) == ("MODIFIED", {"tea": "4"})

    def test_an_eviction_names_the_pod_that_is_gone_afterwards(self, shop):
        pod = POD | {"metadata": {"name": "evicted", "namespace": "shop"}}
        shop.api.post(PODS, pod)
        body = {
            "apiVersion": "policy/v1beta1",
            "kind": "Eviction",
            "metadata": {"name": "evicted", "namespace": "shop"},
        }
        told = shop.ask("POST", f"{PODS}/evicted/eviction", body, agent="evictor")
        assert told.status_code == 409, told.text
        one = shop.newest_request("evicted")
        assert (one.tool, one.arguments["resource"]) == ("kubernetes.delete", "pods/eviction")
        shop.house.approve()
        assert shop.ask("POST", f"{PODS}/evicted/eviction", body, agent="evictor").status_code == 201
        assert shop.api.find(f"{PODS}/evicted") is None
