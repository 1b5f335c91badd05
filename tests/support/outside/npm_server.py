"""A registry of npm packages of its own (verdaccio), and npm's own client. Skips where node is not installed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from console.local.processes import wait_until
from tests.peers.support.environment import peer_node

# One of its needs names a tag instead of a version, which not every copy of the packages has.
_NEEDS = (("node-fetch", "2.7.0"),)
_SETTINGS = """
storage: ./storage
auth: { htpasswd: { file: ./htpasswd } }
packages: { '**': { access: $all, publish: $all, unpublish: $all } }
log: { type: stdout, format: json, level: fatal }
"""


@dataclass
class NpmServer:
    """The registry; anybody may publish."""

    url: str

    def document(self, package: str) -> dict[str, Any]:
        """What the registry says about a package; empty if it has none."""
        answer = httpx.get(f"{self.url}/{package.replace('/', '%2f')}", timeout=30)
        return answer.json() if answer.status_code == 200 else {}

    def add_user(self, name: str, password: str) -> str:
        """A user of the registry, as `npm adduser` makes one; the token."""
        body = {"name": name, "password": password}
        answer = httpx.put(f"{self.url}/-/user/org.couchdb.user:{name}", json=body, timeout=30)
        return str(answer.raise_for_status().json()["token"])

    def tag(self, package: str, tag: str, version: str) -> None:
        """Lead a tag to a version, past the gateway."""
        place = f"{self.url}/-/package/{package}/dist-tags/{tag}"
        assert httpx.put(place, json=version, timeout=30).status_code == 201


@contextmanager
def served(root: Path) -> Iterator[NpmServer]:
    """Serve an empty registry from a folder, on a port of its own."""
    program = peer_node(("verdaccio@6.5.2",), overrides=_NEEDS) / "node_modules/verdaccio/bin/verdaccio"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (root / "settings.yaml").write_text(_SETTINGS)
    words = ["node", str(program), "--config", str(root / "settings.yaml"), "--listen", f"127.0.0.1:{port}"]
    server = subprocess.Popen(words, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert server.poll() is None, "the registry did not start"
        try:
            return httpx.get(f"{url}/-/ping", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    try:
        assert wait_until(answers, within_s=60.0), "the registry does not answer"
        yield NpmServer(url)
    finally:
        server.terminate()
        server.wait(10)


def run_npm(folder: Path, registry: str, token: str, *words: str, ca: str = "") -> subprocess.CompletedProcess[str]:
    """A command of npm in `package` of a folder, with a home beside it in which only this registry's token stands."""
    place = registry.partition(":")[2].rstrip("/") + "/"
    lines = [f"registry={registry}", f"{place}:_authToken={token}", "audit=false", "update-notifier=false"]
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / ".npmrc").write_text("\n".join([*lines, *([f"cafile={ca}"] if ca else [])]) + "\n")
    npm = shutil.which("npm")
    assert npm is not None
    told = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run([npm, *words], cwd=folder / "package", env=told, capture_output=True, text=True, timeout=120)


def write_package(folder: Path, name: str, version: str) -> None:
    """The files of a package to publish."""
    (folder / "package").mkdir(exist_ok=True)
    (folder / "package" / "package.json").write_text(
        json.dumps({"name": name, "version": version, "description": "None."})
    )
