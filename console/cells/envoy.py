"""The configuration of Envoy that the directory amounts to (docs/cells.md). Pure: documents from a directory.

What names a tenant, by the address of a webhook, a slug or a key, in this order, goes to the tenant's cell whatever the
host is. What names none goes by its host: to the cell whose it is, or to the cell of the tenant whose it is. Anything
else is refused in words, and never sent to a cell to see what it says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from console.accounts.machine_keys import pattern_of_tenants
from console.cells.directory import Cell, Directory, Placement

Document = dict[str, Any]

ROUTES: Final = "counterfoil"
STATUS: Final = "counterfoil-routes"
"""The cluster of the program that writes the routes; no cell's name is this long."""
TENANTS_A_ROUTE: Final = 500
"""A route has one expression for as many tenants, which RE2 compiles within its memory."""
MOST_RE2: Final = {"error_level": 1_000_000, "warn_level": 1_000_000}
MOST_BODY: Final = 1 << 20
_TYPES: Final = "type.googleapis.com/envoy"
_HTTP: Final = f"{_TYPES}.extensions.filters.http"
_JSON: Final = "application/problem+json"


@dataclass(frozen=True)
class Listening:
    """The address that Envoy listens on, the proxies whose headers it trusts, and where the routes report."""

    address: str = "127.0.0.1"
    port: int = 8443
    admin_port: int = 9901
    status_port: int = 9902
    trusted_hops: int = 0
    certificate: Path | None = None
    key: Path | None = None
    trusted_ca: Path = Path("/etc/ssl/certs/ca-certificates.crt")
    within_s: int = 20


# Routes


def routes(directory: Directory) -> Document:
    """The document of the routes, which Envoy reads again when its file is replaced. The first that matches counts."""
    every = [
        *_routes_of_names(directory),
        *_refusals_of_names(),
        *(_to_cell(_on_hosts([_host(cell)]), cell.name) for cell in directory.cells),
        *_machines_on_tenant_hosts(directory),
        *_own_routes(),
        *_people_on_tenant_hosts(directory),
        *_refusals(),
    ]
    hosts = [{"name": "all", "domains": ["*"], "routes": every}]
    return _discovery(
        "config.route.v3.RouteConfiguration", [{"name": ROUTES, "virtual_hosts": hosts}], directory.number
    )


def _routes_of_names(directory: Directory) -> Iterator[Document]:
    """Lead what names a tenant to its cell. Pages lead to the host of the cell, where people are signed in, and are
    served there alone.
    """
    groups = list(_by_cell(directory))
    for cell, some in groups:
        hooks = "|".join(str(each.tenant_id) for each in some)
        yield _to_cell(_path(f"/api/v1/hooks/(?:{hooks})/.*"), cell.name)
    for cell, some in groups:
        pages = _path(f"/t/(?:{'|'.join(re.escape(each.slug) for each in some)})(?:/.*)?")
        yield _to_cell(pages | _on_hosts([_host(cell)], prefix=None), cell.name)
        yield _redirect(pages, urlsplit(cell.public_url))
    for cell, some in groups:
        keys = f"[Bb]earer {pattern_of_tenants(each.tenant_id for each in some)}"
        yield _to_cell(_with_header("authorization", keys), cell.name)


def _refusals_of_names() -> list[Document]:
    unknown = _with_header("authorization", r"[Bb]earer cf_[a-z]+_[0-9a-f]{32}_.*")
    return [
        _refuse({"prefix": "/api/v1/hooks/"}, 404, "No cell serves the tenant in this address."),
        _answer({"prefix": "/t/"}, 404, "No console here is that organisation's.\n", "text/plain"),
        _refuse(unknown, 421, "No cell serves the tenant that this key names."),
    ]


def _machines_on_tenant_hosts(directory: Directory) -> Iterator[Document]:
    """Lead machines on a host that is a tenant's own to its cell, also without a key, as they ask for public keys."""
    for cell, hosts in _tenant_hosts(directory):
        yield _to_cell(_on_hosts(hosts, prefix="/api/"), cell.name)
        yield _to_cell(_on_hosts(hosts, prefix="/.well-known/"), cell.name)


def _own_routes() -> list[Document]:
    """The router's own addresses: alive, ready as soon as it has routes, and the age of these."""
    alive = json.dumps({"status": "alive"})
    own = [_answer({"path": path}, 200, alive, "application/json") for path in ("/livez", "/readyz")]
    return [*own, {"match": {"path": "/statusz"}, "route": {"cluster": STATUS, "timeout": "5s"}}]


def _people_on_tenant_hosts(directory: Directory) -> Iterator[Document]:
    for cell, hosts in _tenant_hosts(directory):
        yield _redirect(_on_hosts(hosts), urlsplit(cell.public_url))


def _refusals() -> list[Document]:
    detail = (
        "This address belongs to several consoles, and the request names no tenant: send a key of the present form, or"
        " use the host of a cell or of a tenant."
    )
    text = (
        "This address belongs to several consoles. Open the one of your organisation: its address ends in"
        " /t/ and the name of your organisation.\n"
    )
    machines = [_refuse({"prefix": prefix}, 421, detail) for prefix in ("/api/", "/.well-known/")]
    return [*machines, _answer({"prefix": "/"}, 421, text, "text/plain")]


def _by_cell(directory: Directory) -> Iterator[tuple[Cell, Sequence[Placement]]]:
    for cell in directory.cells:
        placements = iter([each for each in directory.placements if each.cell == cell.name])
        while some := tuple(islice(placements, TENANTS_A_ROUTE)):
            yield cell, some


def _tenant_hosts(directory: Directory) -> Iterator[tuple[Cell, list[str]]]:
    for cell, some in _by_cell(directory):
        if hosts := [each.host for each in some if each.host]:
            yield cell, hosts


def _path(expression: str) -> Document:
    return {"safe_regex": {"regex": expression}}


def _with_header(name: str, expression: str, *, prefix: str | None = "/") -> Document:
    header = {"name": name, "string_match": {"safe_regex": {"regex": expression}}}
    return ({"prefix": prefix} if prefix else {}) | {"headers": [header]}


def _on_hosts(hosts: Iterable[str], *, prefix: str | None = "/") -> Document:
    names = "|".join(map(re.escape, hosts))
    return _with_header(":authority", f"(?i)(?:{names})(?::[0-9]+)?", prefix=prefix)


def _to_cell(match: Document, cell: str) -> Document:
    # A stream has no end, so there is no limit to the time of an answer; one that says nothing is ended by the
    # listener. Only what has reached no cell is sent again.
    retry = {"retry_on": "connect-failure,refused-stream", "num_retries": 2}
    return {"match": match, "route": {"cluster": cell, "timeout": "0s", "retry_policy": retry}}


def _redirect(match: Document, url: SplitResult) -> Document:
    where: Document = {"host_redirect": url.hostname, "scheme_redirect": url.scheme}
    where |= {"port_redirect": url.port} if url.port else {}
    return {"match": match, "redirect": where | {"response_code": "TEMPORARY_REDIRECT"}}


def _refuse(match: Document, status: int, detail: str) -> Document:
    body = _problem(status, "TENANT_NOT_ROUTED", detail)
    return _answer(match, status, json.dumps(body), _JSON)


def _problem(status: int, code: str, detail: str) -> Document:
    title = code.replace("_", " ").capitalize()
    kind = f"urn:counterfoil:problem:{code.lower()}"
    return {"type": kind, "title": title, "status": status, "code": code, "detail": detail}


def _answer(match: Document, status: int, text: str, kind: str) -> Document:
    headers = [_header("content-type", kind), _header("cache-control", "no-store")]
    answer = {"status": status, "body": {"inline_string": text}}
    return {"match": match, "direct_response": answer, "response_headers_to_add": headers}


def _header(name: str, value: str) -> Document:
    return {"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def _host(cell: Cell) -> str:
    return urlsplit(cell.public_url).hostname or ""


# Clusters


def clusters(directory: Directory, listening: Listening) -> Document:
    """The document of the cells' addresses; a web process that is not ready gets no requests."""
    found = [_cluster(cell, listening) for cell in directory.cells]
    status = {**_cluster_at(STATUS, [("127.0.0.1", listening.status_port)]), "connect_timeout": "1s"}
    return _discovery("config.cluster.v3.Cluster", [*found, status], directory.number)


def _cluster(cell: Cell, listening: Listening) -> Document:
    urls = [urlsplit(address) for address in cell.addresses]
    places = [(url.hostname or "", url.port or (443 if url.scheme == "https" else 80)) for url in urls]
    every = {"timeout": "6s", "interval": "2s", "no_traffic_interval": "2s"}
    look = {"http_health_check": {"host": _host(cell), "path": "/readyz"}}
    most = {"max_connections": 4096, "max_pending_requests": 4096, "max_requests": 8192}
    return {
        **_cluster_at(cell.name, places),
        "health_checks": [every | {"unhealthy_threshold": 2, "healthy_threshold": 1} | look],
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "circuit_breakers": {"thresholds": [most]},
        **(_tls(places[0][0], listening) if urls[0].scheme == "https" else {}),
    }


def _cluster_at(name: str, places: Iterable[tuple[str, int]]) -> Document:
    addresses = [{"socket_address": {"address": host, "port_value": port}} for host, port in places]
    endpoints = [{"endpoint": {"address": address}} for address in addresses]
    return {
        "name": name,
        "type": "STRICT_DNS",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def _tls(host: str, listening: Listening) -> Document:
    names = [{"san_type": "DNS", "matcher": {"exact": host}}]
    trust = {"trusted_ca": {"filename": str(listening.trusted_ca)}, "match_typed_subject_alt_names": names}
    context = {
        "@type": f"{_TYPES}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": host,
        "common_tls_context": {"validation_context": trust},
    }
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context}}


# The frame


def bootstrap(folder: Path, listening: Listening) -> Document:
    """The document that Envoy is started with; it names the folder of the two others."""
    return {
        "node": {"id": "counterfoil-router", "cluster": "counterfoil"},
        "admin": {"address": _socket("127.0.0.1", listening.admin_port)},
        "dynamic_resources": {"cds_config": _file(folder, "clusters.json")},
        "static_resources": {"listeners": [_listener(folder, listening)]},
        # A route's expression names up to 500 tenants; Envoy refuses more than a few unless it is told.
        "layered_runtime": {"layers": [{"name": "static", "static_layer": {"re2": {"max_program_size": MOST_RE2}}}]},
        "overload_manager": {
            "resource_monitors": [
                {
                    "name": "envoy.resource_monitors.global_downstream_max_connections",
                    "typed_config": {
                        "@type": f"{_TYPES}.extensions.resource_monitors.downstream_connections.v3"
                        ".DownstreamConnectionsConfig",
                        "max_active_downstream_connections": 20_000,
                    },
                }
            ]
        },
    }


def _listener(folder: Path, listening: Listening) -> Document:
    manager = {"name": "envoy.filters.network.http_connection_manager", "typed_config": _manager(folder, listening)}
    chain: Document = {"filters": [manager]}
    if listening.certificate and listening.key:
        files = {"filename": str(listening.certificate)}, {"filename": str(listening.key)}
        certificate = {"certificate_chain": files[0], "private_key": files[1]}
        context = {
            "@type": f"{_TYPES}.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": {"tls_certificates": [certificate], "alpn_protocols": ["h2", "http/1.1"]},
        }
        chain["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    place = _socket(listening.address, listening.port)
    return {
        "name": "router",
        "address": place,
        "filter_chains": [chain],
        "per_connection_buffer_limit_bytes": MOST_BODY,
    }


def _manager(folder: Path, listening: Listening) -> Document:
    """The filters of each request. Its path, headers and body go on as they came; only who forwards it is added."""
    within = f"{listening.within_s}s"
    whole = {"@type": f"{_HTTP}.buffer.v3.Buffer", "max_request_bytes": MOST_BODY}
    router = {"@type": f"{_HTTP}.router.v3.Router", "suppress_envoy_headers": True}
    return {
        "@type": f"{_TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "router",
        "rds": {"route_config_name": ROUTES, "config_source": _file(folder, "routes.json")},
        "use_remote_address": True,
        "xff_num_trusted_hops": listening.trusted_hops,
        "preserve_external_request_id": True,
        "server_header_transformation": "PASS_THROUGH",
        "request_headers_timeout": within,
        "request_timeout": within,
        "stream_idle_timeout": "300s",
        "max_request_headers_kb": 64,
        "common_http_protocol_options": {"idle_timeout": "300s"},
        "access_log": [_access_log()],
        "local_reply_config": {"mappers": [_unavailable()]},
        "http_filters": [
            {"name": "envoy.filters.http.buffer", "typed_config": whole},
            {"name": "envoy.filters.http.router", "typed_config": router},
        ],
    }


def _access_log() -> Document:
    """One line a request. No path, since an invitation is one, and no header but the request's own id."""
    line = {
        "time": "%START_TIME%",
        "request": "%REQ(X-REQUEST-ID)%",
        "method": "%REQ(:METHOD)%",
        "host": "%REQ(:AUTHORITY)%",
        "status": "%RESPONSE_CODE%",
        "details": "%RESPONSE_CODE_DETAILS%",
        "cell": "%UPSTREAM_CLUSTER%",
        "duration_ms": "%DURATION%",
    }
    typed = {
        "@type": f"{_TYPES}.extensions.access_loggers.stream.v3.StdoutAccessLog",
        "log_format": {"json_format": line},
    }
    return {"name": "envoy.access_loggers.stdout", "typed_config": typed}


def _unavailable() -> Document:
    """A cell that does not answer is told like a console whose database does not: wait, and send it again."""
    body = _problem(503, "UNAVAILABLE", "The cell that serves this tenant does not answer. Send this again later.")
    mine = {"status_code_filter": {"comparison": {"op": "EQ", "value": {"default_value": 503, "runtime_key": "none"}}}}
    return {
        "filter": mine,
        "body_format_override": {"json_format": body, "content_type": _JSON},
        "headers_to_add": [_header("retry-after", "2")],
    }


def _socket(address: str, port: int) -> Document:
    return {"socket_address": {"address": address, "port_value": port}}


def _file(folder: Path, name: str) -> Document:
    source = {"path": str(folder / name), "watched_directory": {"path": str(folder)}}
    return {"resource_api_version": "V3", "path_config_source": source}


def _discovery(kind: str, resources: Iterable[Document], number: int) -> Document:
    # The version is the number of the directory's newest change.
    return {"version_info": str(number), "resources": [{"@type": f"{_TYPES}.{kind}", **each} for each in resources]}
