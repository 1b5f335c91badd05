"""Real workers on real brokers: Redis, Valkey, both under Sentinels, RabbitMQ, and each over TLS."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from console.brokers.addresses import NoAnswer, read_address
from console.local import processes, servers
from deploy.drills.broker_servers import (
    RABBITMQ,
    RABBITMQ_MISSING,
    REDIS_MISSING,
    RabbitCluster,
    Tls,
    WatchedRedis,
    find_redis,
)
from tests.conftest import Stack

pytestmark = pytest.mark.long
NEEDS_REDIS = pytest.mark.skipif(find_redis() is None, reason=REDIS_MISSING)
NEEDS_RABBITMQ = pytest.mark.skipif(not RABBITMQ.is_dir(), reason=RABBITMQ_MISSING)
PATIENCE_S = 90


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the servers' user can enter."""
    account = servers.service_user()
    place = servers.private_folder(servers.SYSTEM_FOLDER if account else Path("var").resolve(), account)
    made = servers.private_folder(place / f"brokers-{time.monotonic_ns()}", account)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def tls(folder: Path) -> Tls:
    """A certificate for localhost and for no other name."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]),
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = Tls(authority=folder / "ca.pem", certificate=folder / "cert.pem", key=folder / "key.pem")
    text = made.public_bytes(serialization.Encoding.PEM)
    files.authority.write_bytes(text)
    files.certificate.write_bytes(text)
    plain = serialization.NoEncryption()
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    account = servers.service_user()
    for each in (files.authority, files.certificate, files.key):
        each.chmod(0o640)
        if account is not None:
            shutil.chown(each, account.uid, account.gid)
    return files


def redis_program(name: str) -> Path:
    found = find_redis() if name == "redis" else servers.install_binaries(servers.service_user()).valkey
    assert found is not None
    return found


@contextmanager
def running(server: WatchedRedis | RabbitCluster) -> Iterator[WatchedRedis | RabbitCluster]:
    try:
        server.begin()
        yield server
    finally:
        server.end()


def ticks_since(stack: Stack) -> Callable[[], bool]:
    """Returns whether beat's ticks have reached a worker since now."""
    with psycopg.connect(stack.environment["DATABASE_URL"], autocommit=True) as connection:
        [(now,)] = connection.execute("SELECT clock_timestamp()").fetchall()

    def came() -> bool:
        with psycopg.connect(stack.environment["DATABASE_URL"], autocommit=True) as connection:
            query = "SELECT count(*) FROM ledger_processlease WHERE name IN ('ticks', 'readings') AND renewed_at > %s"
            return connection.execute(query, [now]).fetchall() == [(2,)]

    return came


def works(stack: Stack, *, within_s: float = PATIENCE_S) -> None:
    assert processes.wait_until(ticks_since(stack), within_s=within_s, every_s=0.3), (
        f"{stack.log('worker')}\n{stack.log('beat')}"
    )


def begin(stack: Stack, broker: str, *, counters: str = "") -> None:
    stack.environment |= {"BROKER_URL": broker, "REDIS_URL": counters or stack.broker.url()}
    stack.start("worker", "beat")
    works(stack)


@pytest.mark.parametrize(
    ("name", "secure"),
    [
        pytest.param("redis", False, marks=NEEDS_REDIS),
        pytest.param("redis", True, marks=NEEDS_REDIS),
        # The Valkey that comes with the project is built without TLS.
        ("valkey", False),
    ],
)
def test_workers_go_on_after_the_sentinels_promoted_another_master(
    stack: Stack, folder: Path, tls: Tls, name: str, secure: bool
):
    account = servers.service_user()
    watched = WatchedRedis(
        folder=folder / "watched",
        account=account,
        program=redis_program(name),
        tls=tls if secure else None,
        down_after_s=2.0,
    )
    with running(watched):
        begin(stack, watched.url, counters=watched.url)
        counters = read_address("REDIS_URL", watched.url).redis_client(patience_s=1.0)
        counters.set("kept", "before")
        counters.wait(1, 5000)
        watched.kill(watched.ports[0])
        watched.kill(watched.sentinel_ports[0])
        works(stack, within_s=30)
        assert counters.get("kept") == b"before"
        assert watched.master() != watched.ports[0]
        stack.stop("worker", "beat")


@NEEDS_RABBITMQ
def test_workers_go_on_after_a_node_of_rabbitmq_is_lost(stack: Stack, folder: Path):
    cluster = RabbitCluster(folder=folder / "rabbitmq", account=servers.service_user())
    with running(cluster):
        begin(stack, cluster.url)
        told = cluster.control(cluster.ports[0], "list_queues", "--no-table-headers", "name", "type")
        kinds = dict(line.split("\t") for line in told.splitlines())
        assert {name: kind for name, kind in kinds.items() if "celery" not in name} == dict.fromkeys(
            ("due", "tick", "bulk"), "quorum"
        )
        assert not any("delayed" in name for name in kinds)
        # The node that both the connections and the leaders of the queues are on.
        cluster.kill(cluster.leader("due"))
        works(stack, within_s=30)
        # It comes back, and another one goes.
        [lost] = set(cluster.ports) - cluster.running.keys()
        cluster.start(lost)
        cluster.wait(lost)
        cluster.kill(next(port for port in cluster.ports if port != lost))
        works(stack, within_s=30)
        stack.stop("worker", "beat")


@NEEDS_RABBITMQ
def test_rabbitmq_is_spoken_to_over_tls_under_the_name_of_its_certificate(stack: Stack, folder: Path, tls: Tls):
    cluster = RabbitCluster(folder=folder / "rabbitmq", account=servers.service_user(), hosts=1, tls=tls)
    with running(cluster):
        begin(stack, cluster.url)
        with pytest.raises(NoAnswer, match="certificate"):
            read_address("BROKER_URL", cluster.url.replace("@localhost:", "@127.0.0.1:")).ask(within_s=5.0)
        with pytest.raises(NoAnswer, match="certificate"):
            read_address("BROKER_URL", cluster.url.partition("?")[0]).ask(within_s=5.0)
        stack.stop("worker", "beat")


@NEEDS_REDIS
def test_a_certificate_of_another_name_is_refused(folder: Path, tls: Tls):
    watched = WatchedRedis(
        folder=folder / "watched", account=servers.service_user(), program=redis_program("redis"), tls=tls
    )
    with running(watched):
        one = watched.ports[0]
        for host, more in (("127.0.0.1", f"?ssl_ca_certs={tls.authority}"), ("localhost", "")):
            with pytest.raises(NoAnswer):
                read_address("REDIS_URL", f"rediss://:{watched.password}@{host}:{one}/0{more}").ask(within_s=5.0)
        read_address("REDIS_URL", f"rediss://:{watched.password}@localhost:{one}/0?ssl_ca_certs={tls.authority}").ask(
            within_s=5.0
        )


@NEEDS_REDIS
def test_a_worker_takes_hints_over_a_socket_and_over_tls(stack: Stack, folder: Path, tls: Tls):
    account = servers.service_user()
    program = redis_program("redis")
    port, socket = servers.free_port(), folder / "valkey.sock"
    words = ["--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--tls-auth-clients", "no"]
    words += ["--tls-cert-file", str(tls.certificate), "--tls-key-file", str(tls.key)]
    words += ["--tls-ca-cert-file", str(tls.authority), "--unixsocket", str(socket), "--unixsocketperm", "777"]
    words += ["--requirepass", "p@word", "--save", "", "--dir", str(folder)]
    child = processes.spawn(
        processes.Program(
            name="tls", argv=[str(program), *words], log=folder / "tls.log", account=account, environment={}
        )
    )
    try:
        assert processes.wait_until(socket.exists, within_s=10), processes.tail_log(folder / "tls.log")
        for url in (
            f"rediss://:p%40word@localhost:{port}/0?ssl_ca_certs={tls.authority}",
            f"unix://:p%40word@{socket}?db=1",
        ):
            begin(stack, url, counters=url)
            stack.stop("worker", "beat")
    finally:
        processes.stop_children([child])
