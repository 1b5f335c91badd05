"""A real API server of Kubernetes with its etcd, where both are on the machine: nothing else of a cluster runs.

The programs are found as Kubernetes' own test tools find them: by TEST_ASSET_KUBE_APISERVER and TEST_ASSET_ETCD, or as
`kube-apiserver` and `etcd` on the path.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from console.local.processes import wait_until
from console.local.servers import free_port
from tests.support.outside.api_objects import Api

START_S = 120.0
TOKEN = "the-real-token-of-the-cluster"


def _program(name: str) -> str:
    found = os.environ.get(f"TEST_ASSET_{name.replace('-', '_').upper()}") or shutil.which(name)
    if not found:
        pytest.skip(f"A real API server needs the program {name}, which is not installed here.")
    return found


@contextmanager
def served(folder: Path) -> Iterator[Api]:
    """An API server with the namespace shop; skips where the programs are missing."""
    programs = _program("kube-apiserver"), _program("etcd")
    with ExitStack() as ending:
        store = _start_store(programs[1], folder, ending)
        port = free_port()
        key = folder / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True, timeout=60)
        (folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
        words = {
            "etcd-servers": store,
            "bind-address": "127.0.0.1",
            "secure-port": str(port),
            "token-auth-file": str(folder / "tokens.csv"),
            "cert-dir": str(folder / "certs"),
            "service-account-key-file": str(key),
            "service-account-signing-key-file": str(key),
            "service-account-issuer": "https://kubernetes.default.svc",
            "authorization-mode": "RBAC",
            "disable-admission-plugins": "ServiceAccount",
            "service-cluster-ip-range": "10.0.0.0/24",
        }
        _start([programs[0], *(f"--{name}={value}" for name, value in words.items())], folder / "api.log", ending)
        certificate = folder / "certs" / "apiserver.crt"
        assert wait_until(lambda: certificate.exists(), within_s=START_S), (folder / "api.log").read_text()
        api = Api(f"https://127.0.0.1:{port}", TOKEN, str(certificate))
        assert wait_until(lambda: _is_ready(api), within_s=START_S), (folder / "api.log").read_text()
        api.post("api/v1/namespaces", {"metadata": {"name": "shop"}})
        yield api


def _is_ready(api: Api) -> bool:
    try:
        with httpx.Client(verify=ssl.create_default_context(cafile=api.ca_file)) as client:
            answer = client.get(f"{api.url}/readyz", headers={"Authorization": f"Bearer {api.token}"}, timeout=10)
            return answer.status_code == 200
    except httpx.TransportError:
        return False


def _start_store(program: str, folder: Path, ending: ExitStack) -> str:
    address, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    words = ["--data-dir", str(folder / "etcd"), "--listen-client-urls", address, "--advertise-client-urls", address]
    peers_at = ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
    _start([program, *words, *peers_at, "--initial-cluster", f"default={peers}"], folder / "etcd.log", ending)
    return address


def _start(words: list[str], log: Path, ending: ExitStack) -> None:
    with log.open("wb") as out:
        child = subprocess.Popen(words, stdout=out, stderr=out)
    ending.callback(child.wait, 60)
    ending.callback(child.terminate)
