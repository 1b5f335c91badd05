"""A time-stamp authority: `openssl ts` behind HTTP, with certificates of its own."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)
TIME_STAMPING = (ExtendedKeyUsageOID.TIME_STAMPING,)


@dataclass(frozen=True)
class Holder:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def issue(
    name: str,
    *,
    by: Holder | None = None,
    ca: bool = False,
    usage: tuple[x509.ObjectIdentifier, ...] | None = None,
    critical: bool = True,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Holder:
    """A certificate by another one, or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since or now - 30 * DAY)
        .not_valid_after(until or now + 30 * DAY)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if by:
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
        builder = builder.add_extension(above, critical=False)
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=critical)
    return Holder(builder.sign(by.key if by else key, hashes.SHA256()), key)


CONFIG = """
[tsa]
default_tsa = tsa_config
[tsa_config]
serial = {folder}/serial
crypto_device = builtin
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
accuracy = secs:1
ess_cert_id_alg = sha256
"""


class Authority:
    """A root, something between, and the one who stamps."""

    def __init__(self, folder: Path, *, signer: Holder | None = None, root: Holder | None = None) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("A time-stamp authority needs the program openssl, which is not installed.")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.root = root or issue("Root of the tests", ca=True)
        self.middle = issue("Between", by=self.root, ca=True)
        self.signer = signer or issue("Clock", by=self.middle, usage=TIME_STAMPING)
        (folder / "config").write_text(CONFIG.format(folder=folder))
        (folder / "serial").write_text("01")
        (folder / "chain.pem").write_bytes(self.middle.pem)
        (folder / "signer.pem").write_bytes(self.signer.pem)
        (folder / "key.pem").write_bytes(self.signer.key_pem)
        (folder / "roots.pem").write_bytes(self.root.pem)

    def stamp(self, query: bytes) -> bytes:
        """The response to a request."""
        (self.folder / "query").write_bytes(query)
        argv = ["openssl", "ts", "-reply", "-config", str(self.folder / "config"), "-section", "tsa_config"]
        argv += ["-queryfile", str(self.folder / "query"), "-signer", str(self.folder / "signer.pem")]
        argv += ["-inkey", str(self.folder / "key.pem"), "-chain", str(self.folder / "chain.pem")]
        argv += ["-out", str(self.folder / "reply")]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        assert ran.returncode == 0, ran.stderr
        return (self.folder / "reply").read_bytes()

    def restamp(self, response: bytes, signer: Holder) -> bytes:
        """The words of a response signed by somebody who may not: what openssl refuses to do as an authority."""
        made = self.folder / "forged"
        made.mkdir(exist_ok=True)
        (made / "response").write_bytes(response)
        (made / "signer.pem").write_bytes(signer.pem)
        (made / "key.pem").write_bytes(signer.key_pem)
        for argv in (
            "ts -reply -in {0}/response -token_out -out {0}/token",
            "cms -verify -noverify -in {0}/token -inform DER -binary -out {0}/words",
            "cms -sign -binary -nodetach -econtent_type 1.2.840.113549.1.9.16.1.4 -in {0}/words -md sha256 -cades"
            " -signer {0}/signer.pem -inkey {0}/key.pem -certfile {1}/chain.pem -outform DER -out {0}/forgery",
        ):
            ran = subprocess.run(
                ["openssl", *argv.format(made, self.folder).split()], capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, ran.stderr
        body = bytes.fromhex("3003020100") + (made / "forgery").read_bytes()
        return b"\x30\x82" + len(body).to_bytes(2, "big") + body


@dataclass
class Desk:
    """An authority that answers on HTTP, until it is told to answer something else."""

    authority: Authority
    url: str = ""
    status: int = 200
    content: bytes | None = None
    headers: dict[str, str] | None = None
    asked: int = 0

    def reply(self, query: bytes) -> bytes:
        self.asked += 1
        return self.authority.stamp(query) if self.content is None else self.content


@contextmanager
def desk(authority: Authority) -> Iterator[Desk]:
    """The authority at an address of its own."""
    opened = Desk(authority)
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/timestamp-query"
            with one_at_a_time:
                content = opened.reply(query)
            self.send_response(opened.status)
            self.send_header("Content-Type", "application/timestamp-reply")
            for name, value in (opened.headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    opened.url = f"http://127.0.0.1:{server.server_address[1]}/tsa"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield opened
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
