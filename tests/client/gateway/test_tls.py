"""https to the gateway under its own authority with real clients, and https from the gateway to its hosts."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from counterfoil.gateway.authority import Authority
from counterfoil.gateway.sealing import HeldKeys, SealedFile
from counterfoil.gateway.settings import HostSettings
from counterfoil.gateway.upstream import HostClients
from counterfoil.gating.settings import BadSettings
from counterfoil.work import NothingSent
from tests.client.gateway.conftest import LONG_S, REPOSITORY
from tests.client.gateway.test_held import ONE
from tests.support.outside import package_server

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("localhost", "127.0.0.1")


def read_served(authority):
    return x509.load_pem_x509_certificate(authority.server_certificate.read_bytes())


@pytest.fixture
def secured(gateway):
    """The gateway on https under its own authority, whose certificate is in `gateway.folder / "ca.pem"`."""
    gateway.settings["gateway"]["tls_names"] = list(NAMES)
    gateway.url = f"https://localhost:{gateway.port}"
    gateway.settings["hosts.pypi"] = {"reader": "rules", "rules": "pypi", "url": "http://127.0.0.1:9"}
    assert gateway.program("register").returncode == 0
    printed = gateway.program("ca")
    assert printed.returncode == 0, printed.stderr
    (gateway.folder / "ca.pem").write_bytes(printed.stdout)
    gateway.verify = ssl.create_default_context(cafile=gateway.folder / "ca.pem")
    return gateway.start(hold_s=1.0)


def test_git_and_twine_reach_the_gateway_over_https_once_they_are_given_its_certificate(secured, clone, host, tmp_path):
    ca = str(secured.folder / "ca.pem")
    new = clone.commit("second")
    unknown = clone.push("origin", "HEAD:main")
    assert unknown.returncode == 128
    assert "certificate" in unknown.stderr
    clone.variables["GIT_SSL_CAINFO"] = ca
    pushed = clone.push("origin", "HEAD:main")
    assert pushed.returncode == 0, pushed.stderr + secured.log
    assert host.ref(REPOSITORY, "refs/heads/main") == new

    file = package_server.make_sdist(tmp_path, "lantern", "1.0")
    words = ["upload", "--non-interactive", "--disable-progress-bar", "-u", "__token__", "-p", secured.token]
    upload = [sys.executable, "-m", "twine", *words, "--repository-url", f"{secured.url}/pypi/", str(file)]
    told = {"capture_output": True, "text": True, "timeout": LONG_S}
    refused = subprocess.run(upload, env=os.environ | {"HOME": str(tmp_path)}, **told)
    assert "CERTIFICATE_VERIFY_FAILED" in refused.stdout + refused.stderr
    waits = subprocess.run(upload, env=os.environ | {"HOME": str(tmp_path), "REQUESTS_CA_BUNDLE": ca}, **told)
    assert "Counterfoil: waits for approval, send it again later: " in waits.stdout + waits.stderr
    secured.house.decide("reject", "Not this one.")
    assert not any("BEGIN" in line for line in secured.log.splitlines())


def test_keys_are_private_and_the_certificate_is_renewed_when_a_third_of_its_time_is_left(tmp_path):
    authority = Authority(tmp_path / "tls", NAMES)
    assert authority.renew(NOW)
    first = read_served(authority)
    assert first.not_valid_after_utc - NOW == timedelta(days=90)
    for name in ("ca.key", "server.key"):
        assert (tmp_path / "tls" / name).stat().st_mode & 0o777 == 0o600
    ca = authority.certificate.read_bytes()
    assert not authority.renew(NOW + timedelta(days=59))
    assert authority.renew(NOW + timedelta(days=61))
    assert read_served(authority).not_valid_after_utc > first.not_valid_after_utc
    assert authority.certificate.read_bytes() == ca


def test_a_certificate_that_a_crash_left_without_its_key_is_made_anew(tmp_path):
    authority = Authority(tmp_path / "tls", NAMES)
    authority.renew(NOW)
    authority.server_key.write_bytes((tmp_path / "tls/ca.key").read_bytes())
    assert authority.renew(NOW)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.server_certificate, authority.server_key)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda tls: (tls / "ca.key").chmod(0o644), "can be read by others; set its mode to 0600"),
        (lambda tls: (tls / "server.key").chmod(0o644), "can be read by others; set its mode to 0600"),
        (lambda tls: (tls / "ca.key").write_text("x"), "is no key that can be read"),
        (lambda tls: (tls / "ca.pem").write_text("x"), "is no certificate that can be read"),
        (lambda tls: (tls / "ca.key").unlink(), "cannot be read: No such file"),
        (lambda tls: (tls / "ca.key").write_bytes((tls / "server.key").read_bytes()), "is not the key of ca.pem"),
    ],
)
def test_an_authority_that_is_damaged_or_that_others_may_read_stops_the_start(tmp_path, damage, says):
    authority = Authority(tmp_path / "tls", NAMES)
    authority.renew(NOW)
    damage(tmp_path / "tls")
    with pytest.raises(BadSettings, match=says):
        authority.renew(NOW)


def test_other_names_need_another_authority_which_is_made_only_when_asked_for(tmp_path):
    Authority(tmp_path / "tls", NAMES).renew(NOW)
    other = Authority(tmp_path / "tls", ("gateway.internal",))
    with pytest.raises(BadSettings, match=r"tls_names are not those of this gateway's authority"):
        other.renew(NOW)
    before = other.certificate.read_bytes()
    other.create(NOW)
    assert other.renew(NOW)
    assert other.certificate.read_bytes() != before


# From the gateway to its hosts


class Host(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.server.seen.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        return None


@pytest.fixture
def encrypted_host(tmp_path):
    """A host over TLS under an authority of its own, for the name localhost."""
    authority = Authority(tmp_path / "host", ("localhost",))
    authority.renew(datetime.now(UTC))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.server_certificate, authority.server_key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Host) as server:
        server.seen, server.authority, server.context = [], authority, context
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send_to(host, tmp_path):
    keys = HeldKeys(tmp_path / "held.keys")
    keys.create()
    body = SealedFile(tmp_path / "body", "one/body", keys)
    body.path.unlink(missing_ok=True)
    with body.write() as file:
        file.write(b"abc")
        file.finish()

    async def send():
        clients = HostClients({"forge": host})
        try:
            return await clients.send(ONE, body, within_s=LONG_S, headers={})
        finally:
            await clients.close()

    return asyncio.run(send())


def test_a_host_with_a_private_authority_is_reached_with_its_file_and_nothing_is_sent_without(encrypted_host, tmp_path):
    address = f"https://localhost:{encrypted_host.server_port}"
    with pytest.raises(NothingSent, match=r"the host does not answer \(ClientConnectorCertificateError\)"):
        send_to(HostSettings(url=address), tmp_path)
    named = str(encrypted_host.authority.certificate)
    with pytest.raises(NothingSent, match="ClientConnectorCertificateError"):
        send_to(HostSettings(url=address.replace("localhost", "127.0.0.1"), ca_file=named), tmp_path)
    assert encrypted_host.seen == []
    assert send_to(HostSettings(url=address, ca_file=named), tmp_path).status == 201
    assert encrypted_host.seen == [b"abc"]


@pytest.mark.parametrize(
    ("allowed", "forged"), [("localhost", "127.0.0.1"), ("127.0.0.2", "localhost"), ("127.0.0.2", "127.0.0.1")]
)
def test_a_certificate_that_the_authoritys_key_signs_for_another_name_is_refused(
    encrypted_host, tmp_path, allowed, forged
):
    authority, folder = Authority(tmp_path / "stolen", (allowed,)), tmp_path / "stolen"
    authority.renew(datetime.now(UTC))
    key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    own = serialization.load_pem_private_key(authority.server_key.read_bytes(), None)
    subject, number = read_served(authority).subject, x509.random_serial_number()
    name = x509.DNSName(forged) if forged == "localhost" else x509.IPAddress(ip_address(forged))
    made = (
        x509.CertificateBuilder(issuer.subject, subject, own.public_key(), number)
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(issuer.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    authority.server_certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encrypted_host.context.load_cert_chain(authority.server_certificate, authority.server_key)
    trusting = ssl.create_default_context(cafile=authority.certificate)
    with pytest.raises(httpx.ConnectError, match=r"permitted subtree violation|excluded subtree violation"):
        httpx.post(f"https://{forged}:{encrypted_host.server_port}", content=b"abc", verify=trusting)
    assert encrypted_host.seen == []
