"""A small API server of a cluster, written for these tests: it keeps objects and answers real kubectl, and is no
Kubernetes.

Of the API it has discovery, one object by name, lists by field selector, create, merge patch, the scale subresource
and delete, each of them as a dry run, with uids, resource versions and `Status` answers in the documented forms.
Nothing runs in it, nothing is admitted or validated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_SERVED = {
    "/api/v1": [
        ("namespaces", "Namespace", False),
        *(("configmaps", "ConfigMap", True), ("secrets", "Secret", True), ("pods", "Pod", True)),
    ],
    "/apis/apps/v1": [("deployments", "Deployment", True), ("deployments/scale", "Scale", True)],
}


@dataclass
class ApiServer:
    """`objects` by path; `asked` are the methods that were used, in order."""

    url: str = ""
    token: str = "reader-token"
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    version: int = 100

    def put(self, path: str, found: dict[str, Any], *, dry: bool = False) -> dict[str, Any]:
        about = found.setdefault("metadata", {})
        about.setdefault("uid", str(uuid4()))
        if dry:
            return found
        self.version += 1
        about["resourceVersion"] = str(self.version)
        self.objects[path] = found
        return found

    def kubeconfig(self, folder: Path) -> Path:
        """A configuration for kubectl; it writes with any token."""
        file = folder / "kubeconfig.json"
        cluster = {"name": "test", "cluster": {"server": self.url}}
        context = {"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "shop"}}
        user = {"name": "test", "user": {"token": "writer-token"}}
        about = {"apiVersion": "v1", "kind": "Config", "current-context": "test"}
        file.write_text(json.dumps(about | {"clusters": [cluster], "contexts": [context], "users": [user]}))
        return file


def _status(code: int, reason: str, message: str = "") -> dict[str, Any]:
    about = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return about | {"message": message or reason, "reason": reason, "code": code}


def _discovery(path: str) -> dict[str, Any] | None:
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        version = {"groupVersion": "apps/v1", "version": "v1"}
        group = {"name": "apps", "versions": [version], "preferredVersion": version}
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
    if path in _SERVED:
        named = [
            {"name": name, "singularName": "", "kind": kind, "namespaced": inside, "verbs": _VERBS}
            | ({"group": "autoscaling", "version": "v1"} if kind == "Scale" else {})
            for name, kind, inside in _SERVED[path]
        ]
        about = {"kind": "APIResourceList", "apiVersion": "v1"}
        return about | {"groupVersion": path.removeprefix("/apis/").removeprefix("/api/"), "resources": named}
    return None


def _merged(found: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    kept = dict(found) if isinstance(found, dict) else {}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        kept[name] = _merged(kept.get(name), value)
    return {name: value for name, value in kept.items() if value is not None}


def _scale_of(found: dict[str, Any]) -> dict[str, Any]:
    count = {"replicas": found["spec"].get("replicas", 1)}
    about = {name: found["metadata"].get(name) for name in ("name", "namespace", "uid", "resourceVersion")}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": about, "spec": count, "status": count}


class _Listener(ThreadingHTTPServer):
    state: ApiServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def state(self) -> ApiServer:
        assert isinstance(self.server, _Listener)
        return self.server.state

    def log_message(self, *_: object) -> None: ...

    def _answer(self, code: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")

    def _missing(self) -> None:
        self._answer(404, _status(404, "NotFound"))

    def _own_path(self) -> str:
        self.state.asked.append(f"{self.command} dry" if self._is_dry() else self.command)
        return urlsplit(self.path).path

    def _is_dry(self) -> bool:
        return parse_qs(urlsplit(self.path).query).get("dryRun") == ["All"]

    def do_GET(self) -> None:
        path = self._own_path()
        known = _discovery(path)
        if known is not None:
            return self._answer(200, known)
        if path.endswith("/scale") and path.removesuffix("/scale") in self.state.objects:
            return self._answer(200, _scale_of(self.state.objects[path.removesuffix("/scale")]))
        if path in self.state.objects:
            return self._answer(200, self.state.objects[path])
        selector = parse_qs(urlsplit(self.path).query).get("fieldSelector", [""])[0]
        if selector.startswith("metadata.name="):
            named = f"{path}/{selector.partition('=')[2]}"
            found = [self.state.objects[named]] if named in self.state.objects else []
            about = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.state.version)}}
            return self._answer(200, about | {"items": found})
        return self._missing()

    def do_POST(self) -> None:
        path, found = self._own_path(), self._body()
        name = found["metadata"]["name"]
        if f"{path}/{name}" in self.state.objects:
            return self._answer(409, _status(409, "AlreadyExists", f'"{name}" already exists'))
        return self._answer(201, self.state.put(f"{path}/{name}", found, dry=self._is_dry()))

    def do_PATCH(self) -> None:
        path, patch = self._own_path(), self._body()
        owner = path.removesuffix("/scale")
        if owner not in self.state.objects:
            return self._missing()
        changed = self.state.put(owner, _merged(self.state.objects[owner], patch), dry=self._is_dry())
        return self._answer(200, changed if owner == path else _scale_of(changed))

    def do_PUT(self) -> None:
        path, found = self._own_path(), self._body()
        owner = path.removesuffix("/scale")
        if owner not in self.state.objects:
            return self._missing()
        change = {"spec": {"replicas": found["spec"].get("replicas", 0)}} if owner != path else found
        changed = self.state.put(owner, _merged(self.state.objects[owner], change), dry=self._is_dry())
        return self._answer(200, changed if owner == path else _scale_of(changed))

    def do_DELETE(self) -> None:
        body = self._body()
        dry = body.get("dryRun") == ["All"] if body else self._is_dry()
        path = self._own_path()
        if path not in self.state.objects:
            return self._missing()
        if not dry:
            del self.state.objects[path]
        return self._answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})


@contextmanager
def served() -> Iterator[ApiServer]:
    """A cluster with the namespaces kube-system and shop, on a port of its own."""
    server = ApiServer()
    listening = _Listener(("127.0.0.1", 0), _Handler)
    listening.state = server
    server.url = f"http://127.0.0.1:{listening.server_address[1]}"
    for name in ("kube-system", "shop"):
        about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        server.put(f"/api/v1/namespaces/{name}", about)
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    server.put(f"{services}/v1.apps", {"kind": "APIService", "metadata": {"name": "v1.apps"}, "spec": {}})
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join(10)
