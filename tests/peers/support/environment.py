"""Where the peers come from: real systems that nobody here wrote, kept outside our own environment.

Several are under copyleft licences, so they are installed into virtual environments of their own under
`var/peers`, one for each set of requirements, and only ever run as separate processes. One that cannot be
installed is skipped with the reason.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from console.local import processes
from console.local.servers import free_port

PEERS = Path(__file__).resolve().parents[3] / "var" / "peers"
INSTALL_S = 600
START_S = 60

__all__ = [
    "PEERS",
    "answers",
    "debian_program",
    "debian_tree",
    "free_port",
    "listens",
    "output",
    "peer_node",
    "peer_python",
    "running",
]


def peer_python(requirements: tuple[str, ...]) -> Path:
    """The Python of an environment that holds these packages, made on the first call."""
    name = hashlib.sha256("\n".join(sorted(requirements)).encode()).hexdigest()[:12]
    folder = PEERS / name
    python = folder / "bin" / "python"
    with _alone(folder):
        if not (folder / "ready").exists():
            uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
            if uv is None:
                pytest.skip("The peers need uv, which is not installed.")
            _installed([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
            _installed([uv, "pip", "install", "--quiet", "--python", str(python), *requirements])
            (folder / "ready").write_text("\n".join(requirements))
    return python


def peer_node(requirements: tuple[str, ...], *, overrides: tuple[tuple[str, str], ...] = ()) -> Path:
    """The folder of an npm installation that holds these packages, made on the first call.

    `overrides`: a package that another one needs, and the version that it gets instead.
    """
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("This peer needs node and npm, which are not installed.")
    named = "\n".join(sorted([*requirements, *("=".join(each) for each in overrides)]))
    folder = PEERS / ("node-" + hashlib.sha256(named.encode()).hexdigest()[:12])
    with _alone(folder):
        if not (folder / "ready").exists():
            folder.mkdir(parents=True, exist_ok=True)
            if overrides:
                (folder / "package.json").write_text(json.dumps({"private": True, "overrides": dict(overrides)}))
            quiet = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
            _installed([npm, "install", *quiet, "--prefix", str(folder), *requirements])
            (folder / "ready").write_text("\n".join(requirements))
    return folder


def output(command: list[str], folder: Path | None = None) -> str:
    """What a peer's own tool prints."""
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=120).stdout.strip()


def debian_program(package: str, path: str) -> Path:
    """A program of a Debian package: the installed one, else one unpacked without root."""
    found = shutil.which(Path(path).name)
    if found is not None:
        return Path(found)
    folder = PEERS / package
    with _alone(folder):
        if not (folder / path).exists():
            if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
                pytest.skip(f"{package} is not installed, and this is no Debian to fetch it from.")
            folder.mkdir(parents=True, exist_ok=True)
            _installed(["apt-get", "download", package], folder)
            _installed(["dpkg", "-x", str(next(folder.glob("*.deb"))), str(folder)])
    return folder / path


def debian_tree(packages: tuple[str, ...]) -> Path:
    """A folder in which these Debian packages are unpacked together, without root and beside nothing else."""
    folder = PEERS / ("debian-" + hashlib.sha256("\n".join(sorted(packages)).encode()).hexdigest()[:12])
    with _alone(folder):
        if not (folder / "ready").exists():
            if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
                pytest.skip(f"{', '.join(packages)} come from Debian, and this is none.")
            folder.mkdir(parents=True, exist_ok=True)
            _installed(["apt-get", "download", *packages], folder)
            for each in sorted(folder.glob("*.deb")):
                _installed(["dpkg", "-x", str(each), str(folder)])
                each.unlink()
            (folder / "ready").write_text("\n".join(packages))
    return folder


@contextmanager
def running(
    argv: list[str], log: Path, *, ready: Callable[[], bool], environment: Mapping[str, str] | None = None
) -> Iterator[processes.Child]:
    """A peer that answers, in a session of its own, and ended with everything that it started."""
    program = processes.Program(
        name=Path(argv[0]).name,
        argv=argv,
        log=log,
        environment=dict.fromkeys(("HOME", "TMPDIR"), str(log.parent))
        | {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        | dict(environment or {}),
    )
    child = processes.spawn(program)
    try:
        if not processes.wait_until(lambda: not child.running() or ready(), within_s=START_S) or not child.running():
            pytest.skip(f"{program.name} did not start: {processes.tail_log(log)}")
        yield child
    finally:
        processes.stop_children([child])


def answers(url: str) -> Callable[[], bool]:
    """Whether something speaks HTTP there."""

    def ready() -> bool:
        try:
            httpx.get(url, trust_env=False, timeout=2)
        except httpx.TransportError:
            return False
        return True

    return ready


def listens(port: int) -> Callable[[], bool]:
    """Whether something accepts connections on that port of the loopback address."""

    def ready() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    return ready


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two runs must not install the same peer into the same place at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _installed(command: list[str], folder: Path | None = None) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_S)
    except (OSError, subprocess.SubprocessError) as problem:
        said = getattr(problem, "stderr", b"") or b""
        pytest.skip(f"A peer could not be installed: {said.decode(errors='replace').strip()[-300:] or problem}")
