"""The gateway before a small API server that was written for the tests, and the reading of requests by itself."""

from __future__ import annotations

import json

import pytest

from console.local.servers import free_port
from counterfoil.gateway.kubernetes import KubernetesReader
from counterfoil.gateway.kubernetes_requests import ApiRequest, UnreadableRequest, asks_dry_run, read_request
from counterfoil.gateway.reader import Head, Intent, Keeps, KeptBody, WordedAnswer
from counterfoil.gateway.settings import HostSettings
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules import contract_faults
from tests.client.gateway.clusters import Journeys, gated
from tests.support.outside import api_server
from tests.support.outside.api_objects import Api


@pytest.fixture(scope="module")
def shop(house, tmp_path_factory):
    with api_server.served() as server, gated(house, Api(server.url, server.token), tmp_path_factory.mktemp("g")) as it:
        yield it


class TestSmallServer(Journeys):
    """The journeys at the small server."""


# Requests by themselves


@pytest.mark.parametrize(
    ("method", "path", "read_as"),
    [
        ("GET", "api/v1/namespaces/shop", ("get", "", "namespaces", "", "", "shop")),
        ("PUT", "api/v1/namespaces/shop/finalize", ("update", "", "namespaces", "finalize", "", "shop")),
        ("DELETE", "api/v1/namespaces/shop/pods/a", ("delete", "", "pods", "", "shop", "a")),
        (
            "DELETE",
            "apis/apps/v1/namespaces/shop/deployments",
            ("deletecollection", "apps", "deployments", "", "shop", ""),
        ),
        ("PATCH", "apis/apps/v1/namespaces/s/deployments/d/scale", ("patch", "apps", "deployments", "scale", "s", "d")),
        ("GET", "api/v1/nodes/one/proxy/a/b", ("get", "", "nodes", "proxy/a/b", "", "one")),
        ("GET", "apis/rbac.authorization.k8s.io/v1/clusterroles/system:node", ("get", "rbac.authorization.k8s.io")),
    ],
)
def test_a_path_is_read_as_the_api_server_reads_it(method, path, read_as):
    found = read_request(Head(method, path, "", {}))
    told = (found.verb, found.group, found.resource, found.subresource, found.namespace, found.name)
    assert told[: len(read_as)] == read_as


@pytest.mark.parametrize(
    "path", ["api/v1/proxy/nodes/a", "api/v1/watch/pods", "api/v1/namespaces/%2e/pods", "logs/a", "api/v1/pods//a"]
)
def test_a_path_that_could_lead_elsewhere_is_refused(path):
    made = KubernetesReader(HostSettings(reader="kubernetes", url="https://c.example.org"))
    refused = made.admit(Head("GET", path, "", {}))
    assert isinstance(refused, WordedAnswer)
    assert json.loads(refused.body)["kind"] == "Status"


def test_a_dry_run_of_a_group_that_another_server_stands_behind_is_refused(tmp_path):
    with api_server.served() as server:
        about = {"kind": "APIService", "metadata": {"name": "v1.odd"}, "spec": {"service": {"name": "other"}}}
        server.put("/apis/apiregistration.k8s.io/v1/apiservices/v1.odd", about)
        made = KubernetesReader(HostSettings(reader="kubernetes", url=server.url))
        told = read(
            made, tmp_path, "POST", "apis/odd/v1/namespaces/shop/things", {"metadata": {"name": "a"}}, "dryRun=All"
        )
        assert isinstance(told, WordedAnswer)
        assert "odd/v1 is served by another server, which may not know dry runs" in json.loads(told.body)["message"]
        held = read(made, tmp_path, "POST", "apis/odd/v1/namespaces/shop/things", {"metadata": {"name": "a"}})
    assert isinstance(held, Intent)
    assert held.tool == "kubernetes.unread_change"
    assert held.arguments["difference"].startswith("unknown: odd/v1 is served by another server")
    assert "POST" not in " ".join(server.asked)


@pytest.mark.parametrize(
    ("verb", "options", "body", "dry"),
    [
        ("create", {"dryRun": "All"}, {"a": 1}, True),
        ("create", {}, {"dryRun": ["All"]}, False),
        ("delete", {"dryRun": "All"}, None, True),
        ("delete", {}, {"dryRun": ["All"]}, True),
        ("delete", {}, {"dryRun": []}, False),
        ("delete", {"dryRun": "All"}, {}, None),
        ("delete", {}, {"dryRun": ["All", "None"]}, None),
        ("patch", {"dryRun": ""}, {"a": 1}, None),
    ],
)
def test_a_removal_with_a_body_is_a_dry_run_only_if_its_body_says_so(verb, options, body, dry):
    request = ApiRequest(verb, "", "v1", "configmaps", "", "shop", "a")
    if dry is not None:
        assert asks_dry_run(request, options, body) is dry
        return
    with pytest.raises(UnreadableRequest, match="dry"):
        asks_dry_run(request, options, body)


def test_a_change_of_an_object_that_was_changed_since_is_stale_and_a_new_status_is_no_change(tmp_path):
    path = "/api/v1/namespaces/shop/configmaps/a"
    with api_server.served() as server:
        server.put(path, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"tea": "3"}})
        made = KubernetesReader(HostSettings(reader="kubernetes", url=server.url))
        intent = read(made, tmp_path, "DELETE", path[1:])
        assert isinstance(intent, Intent)

        class Held:
            arguments, method, path, query = intent.arguments, "DELETE", "api/v1/namespaces/shop/configmaps/a", ""

        assert made.stale(Held) == ""
        server.put(path, server.objects[path] | {"status": {"seen": "now"}})
        assert made.stale(Held) == ""
        server.put(path, server.objects[path] | {"data": {"tea": "4"}})
        assert "the object has changed since" in made.stale(Held)
    assert "could not be read again" in made.stale(Held)


def test_a_difference_that_the_server_does_not_tell_is_said_to_be_unknown(tmp_path):
    made = KubernetesReader(HostSettings(reader="kubernetes", url=f"http://127.0.0.1:{free_port()}"))
    held = read(made, tmp_path, "DELETE", "api/v1/namespaces/shop/configmaps/a")
    assert isinstance(held, Intent)
    assert (held.tool, held.arguments["difference"]) == (
        "kubernetes.unread_change",
        "unknown: the API server could not be asked (ConnectError)",
    )


def test_the_values_of_a_secret_are_in_no_approval(tmp_path):
    with api_server.served() as server:
        made = KubernetesReader(HostSettings(reader="kubernetes", url=server.url, secrets=True))
        secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}, "stringData": {"key": "hunter2"}}
        held = read(made, tmp_path, "POST", "api/v1/namespaces/shop/secrets", secret)
    assert isinstance(held, Intent)
    assert held.tool == "kubernetes.unread_change"
    assert "/stringData: nothing -> not shown" in held.arguments["difference"]
    assert "hunter2" not in json.dumps(held.arguments)


@pytest.mark.parametrize(
    ("status", "media", "answer", "judged_as"),
    [
        (201, "application/json", {"kind": "ConfigMap"}, "success"),
        (202, "application/json", {"kind": "Status", "status": "Success"}, "success"),
        (409, "application/json", {"kind": "Status", "message": "conflict"}, "failed"),
        (403, "text/html", "<p>no</p>", "timeout"),
        (500, "application/json", {"kind": "Status", "message": "etcdserver: request timed out"}, "timeout"),
        (504, "application/json", {"kind": "Status", "message": "timeout"}, "timeout"),
        (200, "text/html", "<p>signed in</p>", "timeout"),
    ],
)
def test_an_answer_of_the_api_server_is_done_not_done_or_unknown(status, media, answer, judged_as):
    made = KubernetesReader(HostSettings(reader="kubernetes", url="https://c.example.org"))
    assert made.judge(None, status, media, json.dumps(answer).encode()).status == judged_as


def test_the_contracts_of_kubernetes_can_be_registered():
    made = KubernetesReader(HostSettings(reader="kubernetes", url="https://c.example.org"))
    assert sorted(made.tools) == [f"kubernetes.{each}" for each in ("change", "create", "delete", "unread_change")]
    for contract in made.tools.values():
        document = contracts.read(json.dumps(contract))
        assert contract_faults.shape_faults(document) == []
        assert list(contract_faults.semantic_faults(document)) == []


def read(made, tmp_path, method, path, document=None, query=""):
    file = tmp_path / "body"
    file.write_text("" if document is None else json.dumps(document))
    head = Head(method, path, query, {} if document is None else {"content-type": "application/json"})
    assert isinstance(made.admit(head), Keeps)
    return made.read(head, KeptBody(file, "0" * 64, file.stat().st_size))
