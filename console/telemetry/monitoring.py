"""Figures for monitoring on a port of its own, in Prometheus' text form (docs/monitoring.md).

Each web process counts its own requests and serves them at `/metrics`: the first takes COUNTERFOIL_METRICS_PORT, others
of the same host the ports after it. Each serves the figures of the installation, too, at `/metrics/installation`, from
the look that `/statusz` shows. Nobody signs in there, so nothing is a tenant's: a route is named, never its address.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import DEFAULT_DB_ALIAS, close_old_connections
from django.db.backends.postgresql.base import DatabaseWrapper
from django.http import HttpRequest, HttpResponse
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from console.telemetry import health

log = logging.getLogger(__name__)
PREFIX: Final = "counterfoil_"
PROCESS_PATH: Final = "/metrics"
INSTALLATION_PATH: Final = "/metrics/installation"
PORTS: Final = 32
"""Ports that are tried, one after another: as many web processes can serve their figures on one host."""
UNKNOWN_ROUTE: Final = "unknown"


# One web process


# When each counter began is a series for each of its own, which nobody asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]
process_registry = CollectorRegistry()
ProcessCollector(registry=process_registry)
requests_answered = Counter(
    f"{PREFIX}requests",
    "Requests that were answered, by route, method and class of status",
    ["route", "method", "status"],
    registry=process_registry,
)
request_seconds = Histogram(
    f"{PREFIX}request_seconds",
    "Time from a request's turn to the beginning of its answer, by route",
    ["route"],
    buckets=(0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
    registry=process_registry,
)
requests_refused = Counter(
    f"{PREFIX}requests_refused",
    "Requests that got no turn, by code: too large, too slow, or more than the process can do",
    ["code"],
    registry=process_registry,
)


class ProcessGauges(Collector):
    """The requests that a process has under way, and its pool of database connections."""

    def __init__(self) -> None:
        self.in_flight: dict[str, Callable[[], int]] = {}

    def collect(self) -> Iterator[Metric]:
        """The gauges now; those of the pool are missing in a process that has none."""
        inside = GaugeMetricFamily(
            f"{PREFIX}requests_in_flight", "Requests at work or in line for a thread", labels=["kind"]
        )
        for kind, count in self.in_flight.items():
            inside.add_metric([kind], count())
        yield inside
        pool = DatabaseWrapper._connection_pools.get(DEFAULT_DB_ALIAS)  # type: ignore[attr-defined]
        stats = pool.get_stats() if pool is not None else {}
        for name, meaning in _POOL_GAUGES.items():
            yield GaugeMetricFamily(f"{PREFIX}{name}", meaning, value=stats.get(name) if stats else None)


_POOL_GAUGES: Final = {
    "pool_size": "Database connections of this process",
    "pool_available": "Database connections of this process that nobody uses",
    "pool_max": "Database connections that this process may have",
    "requests_waiting": "Threads that wait for a database connection",
}
process_gauges = ProcessGauges()
process_registry.register(process_gauges)


def count_requests(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: count each answer and its time by the name of its route, where figures are served."""
    if not settings.COUNTERFOIL_METRICS_PORT:
        raise MiddlewareNotUsed

    def counted(request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        response = answer(request)
        route = request.resolver_match.view_name if request.resolver_match else UNKNOWN_ROUTE
        method = request.method if request.method in ("GET", "POST") else "other"
        request_seconds.labels(route).observe(time.perf_counter() - began)
        requests_answered.labels(route, method, f"{response.status_code // 100}xx").inc()
        return response

    return counted


# The installation


class InstallationFigures(Collector):
    """The checks of the installation's status, and its figures; what is not known has no sample."""

    def collect(self) -> Iterator[Metric]:
        """The newest look at the installation."""
        look = health.recent_look()
        checks = GaugeMetricFamily(
            f"{PREFIX}check_in_order", "A check of the installation: 1 in order, 0 failed", labels=["code"]
        )
        # Several faults of one code are one failed check.
        for code in health.TITLES:
            known = [each.in_order for each in look.checks if each.code == code and each.in_order is not None]
            if known:
                checks.add_metric([code], float(all(known)))
        yield checks
        for name, (label, meaning) in health.FIGURES.items():
            family = GaugeMetricFamily(f"{PREFIX}{name}", meaning, labels=[label] if label else [])
            for each in look.figures:
                if each.family == name:
                    family.add_metric([each.label] if label else [], each.value)
            yield family


installation_registry = CollectorRegistry()
installation_registry.register(InstallationFigures())
_REGISTRIES: Final = {PROCESS_PATH: process_registry, INSTALLATION_PATH: installation_registry}


# The port


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answer GET of the two addresses, and nothing else."""
    registry = _REGISTRIES.get(environ["PATH_INFO"])
    status, body = HTTPStatus.NOT_FOUND, b"Figures are at /metrics and /metrics/installation.\n"
    if registry is not None and environ["REQUEST_METHOD"] == "GET":
        status, body = HTTPStatus.OK, generate_latest(registry)
    headers = [("Content-Type", CONTENT_TYPE_PLAIN_0_0_4), ("Content-Length", str(len(body)))]
    start_response(f"{status.value} {status.phrase}", headers)
    return [body]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            close_old_connections()


class _Handler(WSGIRequestHandler):
    timeout = 5

    def log_message(self, format: str, *args: Any) -> None:
        """A request for figures is no line of the log."""


def serve_figures() -> int | None:
    """Serve the figures on a thread of their own, if a port is set; return the port, or None if there is none.

    A process that finds none free goes on: it is there for its requests.
    """
    address, first = settings.COUNTERFOIL_METRICS_ADDRESS, settings.COUNTERFOIL_METRICS_PORT
    if not first:
        return None
    for port in range(first, min(first + PORTS, 65_536)):
        try:
            server = make_server(address, port, application, _Server, _Handler)
        except OSError as taken:
            last = taken
            continue
        Thread(target=server.serve_forever, name="figures", daemon=True).start()
        return port
    log.error("no figures are served at %s, ports %d and after it: %s", address, first, last)
    return None
