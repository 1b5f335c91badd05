"""A package index of its own (pypiserver), and files of a project to publish to it with twine."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx


@dataclass
class PackageServer:
    """The index; anybody may upload, and no file may be replaced."""

    url: str
    files: Path

    @property
    def simple(self) -> str:
        """What the pages of projects stand below."""
        return f"{self.url}/simple"

    def publish(self, file: Path) -> subprocess.CompletedProcess[str]:
        """Upload a file as a person would."""
        words = ["upload", "--non-interactive", "--disable-progress-bar", "-u", "ada", "-p", "none"]
        return subprocess.run(
            [sys.executable, "-m", "twine", *words, "--repository-url", self.url, str(file)],
            capture_output=True,
            text=True,
            timeout=120,
            env=os.environ | {"HOME": str(file.parent)},
        )


def make_sdist(folder: Path, project: str, version: str, text: str = "") -> Path:
    """A source distribution with nothing in it but its description."""
    file = folder / f"{project}-{version}.tar.gz"
    described = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\nSummary: {text or 'none'}\n".encode()
    with tarfile.open(file, "w:gz") as archive:
        folder_of_it = tarfile.TarInfo(f"{project}-{version}")
        folder_of_it.type, folder_of_it.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder_of_it)
        about = tarfile.TarInfo(f"{project}-{version}/PKG-INFO")
        about.size = len(described)
        archive.addfile(about, io.BytesIO(described))
    return file


_WITH_PASSWORD = """
import sys
from wsgiref.simple_server import make_server
import pypiserver
root, port, user, password = sys.argv[1:]
auther = lambda *given: given == (user, password)
app = pypiserver.app(roots=[root], auther=auther, authenticate=["update"])
make_server("127.0.0.1", int(port), app).serve_forever()
"""


@contextmanager
def served(root: Path, *, password: str = "") -> Iterator[PackageServer]:
    """Serve an empty index from a folder, on a port of its own; uploads need the `user:password` that is given."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["-i", "127.0.0.1", "-p", str(port), "--hash-algo", "sha256", "--disable-fallback", "-a", ".", "-P", "."]
    words = ["-m", "pypiserver", "run", *where, str(root)]
    if password:
        words = ["-c", _WITH_PASSWORD, str(root), str(port), *password.split(":")]
    server = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 30
        while True:
            try:
                httpx.get(f"{url}/simple/", timeout=5).raise_for_status()
                break
            except httpx.HTTPError:
                assert server.poll() is None, "the index did not start"
                assert time.monotonic() < until, "the index does not answer"
                time.sleep(0.1)
        yield PackageServer(url, root)
    finally:
        server.terminate()
        server.wait(10)
