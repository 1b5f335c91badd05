"""Keep the routes of an Envoy as the directory says: `python -m console.cells.router FOLDER [--once]` (docs/cells.md).

It needs COUNTERFOIL_DIRECTORY_URL with a role that reads, and nothing of any cell. `envoy.json` in FOLDER is what Envoy
is started with; the other files are replaced whole when the directory has changed, and Envoy reads them then. While the
directory is away, or has gone back, the last routes stay, and `/statusz` and `/metrics` tell how old they are.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from console.cells import directory, envoy

log = logging.getLogger(__name__)
LOOK_EVERY_S: Final = 1.0
OLD_AFTER_S: Final = 30.0
"""Routes that nobody has confirmed for so long are told as a fault."""


@dataclass
class Routes:
    """The routes in a folder: the number of the change that they are of, and when the directory last confirmed it."""

    folder: Path
    listening: envoy.Listening
    number: int | None = None
    confirmed_at: float | None = None
    fault: str = "The directory has not answered yet."
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.number = _version(self.folder / "routes.json")
        age = Gauge(
            "counterfoil_routes_age_seconds", "Time since the directory confirmed the routes", registry=self.registry
        )
        number = Gauge(
            "counterfoil_routes_number", "The change of the directory that the routes are of", registry=self.registry
        )
        known = Gauge(
            "counterfoil_directory_known", "The directory answers, and has not gone back", registry=self.registry
        )
        age.set_function(lambda: self.age_s if self.age_s is not None else float("nan"))
        number.set_function(lambda: self.number if self.number is not None else float("nan"))
        known.set_function(lambda: float(not self.fault))

    @property
    def age_s(self) -> float | None:
        return None if self.confirmed_at is None else time.monotonic() - self.confirmed_at

    def renew(self, url: str) -> bool:
        """Write the routes again if the directory has changed; False if it is not known whether it has."""
        asked_at = time.monotonic()
        # The first look writes in any case: another version of this program may write other documents.
        unless = self.number if self.confirmed_at is not None else None
        try:
            found = directory.read_directory(url, unless=unless)
        except directory.DirectoryUnavailable as away:
            return self._keep(str(away))
        if found is not None and self.number is not None and found.number < self.number:
            return self._keep(
                f"The directory has gone back from change {self.number} to {found.number}. Compare it with the cells"
                f" (`manage.py cells check`), then remove {self.folder / 'routes.json'} and start this again."
            )
        if found is not None:
            # A route never leads to a cell that Envoy has not heard of yet.
            _replace(self.folder / "clusters.json", envoy.clusters(found, self.listening))
            _replace(self.folder / "routes.json", envoy.routes(found))
            self.write_frame()
            if found.number != self.number:
                log.info("routes of change %d: %d tenants, %d cells", *_counts(found))
            self.number = found.number
        if self.fault and self.confirmed_at is not None:
            log.info("the directory is known again")
        self.confirmed_at, self.fault = asked_at, ""
        return True

    def write_frame(self) -> None:
        """Write what Envoy is started with, which is of no use to it before the other files are there."""
        _replace(self.folder / "envoy.json", envoy.bootstrap(self.folder, self.listening))

    def _keep(self, fault: str) -> bool:
        if fault != self.fault:
            log.warning("%s The last routes stay.", fault)
        self.fault = fault
        return False

    def state(self) -> dict[str, Any]:
        """The answer of `/statusz`."""
        age = self.age_s
        return {
            "in_order": age is not None and age < OLD_AFTER_S,
            "routes": self.number,
            "confirmed_s_ago": None if age is None else round(age, 1),
            "directory": "known" if not self.fault else "not known",
            "detail": "Requests go where the directory says."
            if not self.fault
            else f"{self.fault} The last routes stay.",
        }

    def application(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer GET of `/statusz` and of `/metrics`."""
        status, kind, body = "404 Not Found", "text/plain", b"The state of the routes is at /statusz and /metrics.\n"
        if environ["PATH_INFO"] == "/statusz":
            state = self.state()
            status = "200 OK" if state["in_order"] else "503 Service Unavailable"
            kind, body = "application/json", json.dumps(state).encode()
        elif environ["PATH_INFO"] == "/metrics":
            status, kind, body = "200 OK", CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self.registry)
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
        start_response(status, headers)
        return [body]


class _Handler(WSGIRequestHandler):
    timeout = 5

    def log_message(self, format: str, *args: Any) -> None:
        """A question after the state is no line of the log."""


def _counts(found: directory.Directory) -> tuple[int, int, int]:
    return found.number, len(found.placements), len(found.cells)


def _version(file: Path) -> int | None:
    try:
        return int(json.loads(file.read_bytes())["version_info"])
    except FileNotFoundError:
        return None


def _replace(file: Path, document: envoy.Document) -> None:
    """Replace a file as a whole, if it says anything else; Envoy sees it move into its place."""
    data = json.dumps(document, separators=(",", ":")).encode()
    if file.exists() and file.read_bytes() == data:
        return
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with draft.open("wb") as text:
        text.write(data)
        text.flush()
        os.fsync(text.fileno())
    draft.replace(file)


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m console.cells.router", description="Keep the routes of an Envoy.")
    parser.add_argument("folder", type=Path, help="where the files for Envoy are")
    parser.add_argument("--once", action="store_true", help="write them once, and fail if the directory is not known")
    parser.add_argument("--listen", default="127.0.0.1:8443", help="where Envoy listens")
    parser.add_argument("--admin-port", type=int, default=9901, help="Envoy's port for its operator, on this host")
    parser.add_argument("--status-address", default="127.0.0.1", help="where this program tells of the routes")
    parser.add_argument("--status-port", type=int, default=9902)
    parser.add_argument(
        "--trusted-hops", type=int, default=0, help="proxies in front whose X-Forwarded-For is believed"
    )
    parser.add_argument("--certificate", type=Path, help="a chain, if Envoy is to end TLS")
    parser.add_argument("--key", type=Path, help="its private key")
    parser.add_argument("--trusted-ca", type=Path, help="who vouches for cells at https addresses")
    return parser.parse_args(words)


def _listening(told: argparse.Namespace) -> envoy.Listening:
    address, _, port = told.listen.rpartition(":")
    given = {name: getattr(told, name) for name in ("certificate", "key", "trusted_ca") if getattr(told, name)}
    return envoy.Listening(
        address=address.strip("[]"),
        port=int(port),
        admin_port=told.admin_port,
        status_port=told.status_port,
        trusted_hops=told.trusted_hops,
        **given,
    )


def main(words: list[str]) -> int:
    """Run the program; return its exit code."""
    told, url = _arguments(words), os.environ.get("COUNTERFOIL_DIRECTORY_URL", "")
    if not url:
        sys.stderr.write("counterfoil: COUNTERFOIL_DIRECTORY_URL is not set. See docs/cells.md.\n")
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    routes = Routes(told.folder.resolve(), _listening(told))
    if routes.number is not None:
        routes.write_frame()
    if told.once:
        # The last routes are good enough for Envoy to start with.
        return 0 if routes.renew(url) or routes.number is not None else 1
    server = make_server(told.status_address, told.status_port, routes.application, handler_class=_Handler)
    Thread(target=server.serve_forever, name="status", daemon=True).start()
    ended = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.is_set():
        routes.renew(url)
        ended.wait(LOOK_EVERY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
