"""Brokers of several hosts, each a process on loopback: Redis or Valkey under Sentinels, and a cluster of RabbitMQ.

RabbitMQ and Redis are packages of Debian (`rabbitmq-server`, `redis-server`, `redis-sentinel`); Valkey comes with the
project and is its own Sentinel.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
import redis

from console.brokers.addresses import Address, NoAnswer, read_address
from console.local import servers
from console.local.keys import write_private
from console.local.processes import Child, Program, ServiceUser, run_as_user, spawn, stop_children, tail_log, wait_until

MASTER: Final = "counterfoil"
HOSTS: Final = 3
RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin")
RABBITMQ_MISSING: Final = "Debian's package rabbitmq-server is not installed."
REDIS_MISSING: Final = "Debian's packages redis-server and redis-sentinel are not installed."
START_WITHIN_S: Final = 90.0


def find_redis() -> Path | None:
    """Debian's Redis, or None where it is not installed."""
    found = shutil.which("redis-server")
    return Path(found) if found is not None else None


def kill(child: Child) -> None:
    """End a process and everything below it, without notice."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(child.process.pid)
        for each in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGKILL)
    child.process.wait()


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Files of a certificate for localhost and of the authority that signed it."""

    authority: Path
    certificate: Path
    key: Path


def _write(file: Path, text: str, account: ServiceUser | None) -> None:
    write_private(file, text)
    if account is not None:
        os.chown(file, account.uid, account.gid)


@dataclass(kw_only=True)
class WatchedRedis:
    """A master, two replicas, and three Sentinels that watch them; all of Redis or all of Valkey."""

    folder: Path
    account: ServiceUser | None
    program: Path
    tls: Tls | None = None
    down_after_s: float = 5.0
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    sentinel_password: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    ports: list[int] = field(default_factory=lambda: [servers.free_port() for _ in range(HOSTS)])
    sentinel_ports: list[int] = field(default_factory=lambda: [servers.free_port() for _ in range(HOSTS)])
    running: dict[int, Child] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address of the counters and of the broker."""
        places = ",".join(f"{self._host}:{port}" for port in self.sentinel_ports)
        tls = f"&ssl_ca_certs={self.tls.authority}" if self.tls else ""
        login = f"sentinel_password={self.sentinel_password}"
        return f"sentinel{'s' if self.tls else ''}://:{self.password}@{places}/0?master={MASTER}&{login}{tls}"

    @property
    def _host(self) -> str:
        return "localhost" if self.tls else "127.0.0.1"

    def begin(self) -> None:
        servers.private_folder(self.folder, self.account)
        for port in self.ports:
            self._write_server(port)
            self.start(port)
        for port in self.sentinel_ports:
            self._write_sentinel(port)
            self.start(port)
        if not wait_until(self.is_complete, within_s=START_WITHIN_S, every_s=0.2):
            raise servers.ServerFailed(f"The Sentinels did not find each other: {tail_log(self._log(port))}")

    def start(self, port: int) -> None:
        watches = ["--sentinel"] if port in self.sentinel_ports else []
        argv = [str(self.program), str(self._file(port)), *watches]
        program = Program(
            name=f"redis-{port}",
            argv=argv,
            log=self._log(port),
            environment={"PATH": "/usr/bin:/bin"},
            account=self.account,
        )
        self.running[port] = spawn(program)

    def end(self) -> None:
        stop_children(list(self.running.values()))

    def is_complete(self) -> bool:
        """Return True if every Sentinel knows the others and both replicas."""
        with suppress(redis.RedisError):
            for port in self.sentinel_ports:
                with self._sentinel(port) as sentinel:
                    state = sentinel.sentinel_master(MASTER)
                    if (state["num-other-sentinels"], state["num-slaves"]) != (HOSTS - 1, HOSTS - 1):
                        return False
            return True
        return False

    def master(self) -> int:
        """The port of the server that is the master according to the first Sentinel that answers."""
        for port in self.sentinel_ports:
            with suppress(redis.RedisError), self._sentinel(port) as sentinel:
                return int(sentinel.sentinel_get_master_addr_by_name(MASTER)[1])
        raise servers.ServerFailed("No Sentinel answers.")

    def kill(self, port: int) -> None:
        kill(self.running.pop(port))

    def _sentinel(self, port: int) -> redis.Redis:
        tls = {"ssl": True, "ssl_ca_certs": str(self.tls.authority)} if self.tls else {}
        return redis.Redis(host=self._host, port=port, password=self.sentinel_password, socket_timeout=2, **tls)  # type: ignore[arg-type]

    def _file(self, port: int) -> Path:
        return self.folder / str(port) / "server.conf"

    def _log(self, port: int) -> Path:
        return self.folder / f"{port}.log"

    def _common(self, port: int) -> list[str]:
        folder = servers.private_folder(self.folder / str(port), self.account)
        lines = [f'dir "{folder}"', "daemonize no", "bind 127.0.0.1", "protected-mode no"]
        if self.tls is None:
            return [*lines, f"port {port}"]
        lines += ["port 0", f"tls-port {port}", "tls-auth-clients no", "tls-replication yes"]
        files = {"cert": self.tls.certificate, "key": self.tls.key, "ca-cert": self.tls.authority}
        return lines + [f'tls-{name}-file "{file}"' for name, file in files.items()]

    def _write_server(self, port: int) -> None:
        lines = [*self._common(port), f"requirepass {self.password}", f"masterauth {self.password}"]
        lines += ["appendonly yes", 'save ""', "maxmemory-policy noeviction", "repl-diskless-sync-delay 0"]
        if self.tls:
            # Whoever is promoted is known by the name that its certificate bears.
            lines.append(f"replica-announce-ip {self._host}")
        if port != self.ports[0]:
            lines.append(f"replicaof {self._host} {self.ports[0]}")
        _write(self._file(port), "\n".join(lines) + "\n", self.account)

    def _write_sentinel(self, port: int) -> None:
        lines = [*self._common(port), f"requirepass {self.sentinel_password}"]
        if self.tls:
            # Sentinels answer with names, which the certificates bear.
            lines += ["sentinel resolve-hostnames yes", "sentinel announce-hostnames yes"]
        lines += [
            f"sentinel sentinel-pass {self.sentinel_password}",
            f"sentinel monitor {MASTER} {self._host} {self.ports[0]} 2",
            f"sentinel auth-pass {MASTER} {self.password}",
            f"sentinel down-after-milliseconds {MASTER} {int(self.down_after_s * 1000)}",
            f"sentinel failover-timeout {MASTER} 20000",
        ]
        _write(self._file(port), "\n".join(lines) + "\n", self.account)


@dataclass(kw_only=True)
class RabbitCluster:
    """Nodes of RabbitMQ that form one cluster, with a port mapper of their own."""

    folder: Path
    account: ServiceUser | None
    hosts: int = HOSTS
    tls: Tls | None = None
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    cookie: str = field(default_factory=lambda: secrets.token_hex(20))
    mapper_port: int = field(default_factory=servers.free_port)
    ports: list[int] = field(default_factory=list)
    running: dict[int, Child] = field(default_factory=dict)
    mapper: Child | None = None

    def __post_init__(self) -> None:
        self.ports = self.ports or [servers.free_port() for _ in range(self.hosts)]

    @property
    def url(self) -> str:
        host = "localhost" if self.tls else "127.0.0.1"
        places = ",".join(f"{host}:{port}" for port in self.ports)
        tls = f"?ssl_ca_certs={self.tls.authority}" if self.tls else ""
        return f"amqp{'s' if self.tls else ''}://counterfoil:{self.password}@{places}/{tls}"

    def begin(self) -> None:
        servers.private_folder(self.folder, self.account)
        home = servers.private_folder(self.folder / "home", self.account)
        _write(home / ".erlang.cookie", self.cookie, self.account)
        (home / ".erlang.cookie").chmod(0o400)
        mapper = ["epmd", "-port", str(self.mapper_port), "-address", "127.0.0.1"]
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(home)}
        self.mapper = spawn(
            Program(
                name="epmd",
                argv=mapper,
                log=self.folder / "epmd.log",
                environment=environment,
                account=self.account,
            )
        )
        for port in self.ports:
            self._write_node(port)
            self.start(port)
            # One after the other: the first founds the cluster that the others join.
            self.wait(port)

    def start(self, port: int) -> None:
        argv = [str(RABBITMQ / "rabbitmq-server")]
        log = self.folder / f"{port}.log"
        environment = self._environment(port)
        program = Program(name=f"rabbit-{port}", argv=argv, log=log, environment=environment, account=self.account)
        self.running[port] = spawn(program)

    def wait(self, port: int) -> None:
        def answers() -> bool:
            if not self.running[port].running():
                raise servers.ServerFailed(f"RabbitMQ did not start: {tail_log(self.folder / f'{port}.log')}")
            try:
                self.address(port).ask(within_s=2.0)
            except NoAnswer:
                return False
            return True

        if not wait_until(answers, within_s=START_WITHIN_S, every_s=0.3):
            raise servers.ServerFailed(f"RabbitMQ was not ready: {tail_log(self.folder / f'{port}.log')}")

    def address(self, port: int) -> Address:
        """The address of one node."""
        places = self.url.rpartition("@")[2].partition("/")[0]
        host = places.partition(":")[0]
        return read_address("BROKER_URL", self.url.replace(places, f"{host}:{port}"))

    def kill(self, port: int) -> None:
        kill(self.running.pop(port))

    def end(self) -> None:
        for child in self.running.values():
            kill(child)
        if self.mapper is not None:
            stop_children([self.mapper])

    def control(self, port: int, *words: str) -> str:
        """The output of `rabbitmqctl` against one node."""
        done = subprocess.run(
            [str(RABBITMQ / "rabbitmqctl"), "--quiet", *words],
            env=dict(self._environment(port)),
            capture_output=True,
            text=True,
            cwd="/",
            timeout=120,
            **run_as_user(self.account),
        )
        if done.returncode != 0:
            raise servers.ServerFailed(f"rabbitmqctl {words[0]} failed: {done.stderr.strip()[-300:]}")
        return done.stdout

    def leader(self, queue: str) -> int:
        """The port of the node that leads a queue."""
        asked = next(iter(self.running))
        for line in self.control(asked, "list_queues", "name", "leader").splitlines():
            name, _, node = line.partition("\t")
            if name == queue:
                return int(node.partition("@")[0].removeprefix("node"))
        raise servers.ServerFailed(f"RabbitMQ has no queue {queue}.")

    def _environment(self, port: int) -> Mapping[str, str]:
        place = servers.private_folder(self.folder / str(port), self.account)
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"node{port}@localhost",
            "RABBITMQ_DIST_PORT": str(port + 20000 if port < 40000 else port - 20000),
            "RABBITMQ_MNESIA_BASE": str(place / "data"),
            "RABBITMQ_LOG_BASE": str(place),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(place / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(place / "pid"),
            # Small: one scheduler, which sleeps while there is nothing to do.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
            " -kernel inet_dist_use_interface {127,0,0,1}",
        }

    def _write_node(self, port: int) -> None:
        place = servers.private_folder(self.folder / str(port), self.account)
        lines = [
            "default_user = counterfoil",
            f"default_pass = {self.password}",
            "default_user_tags.administrator = true",
            "cluster_partition_handling = pause_minority",
            "log.console.level = warning",
            "vm_memory_high_watermark.absolute = 512MB",
            "disk_free_limit.absolute = 50MB",
            *(
                f"cluster_formation.classic_config.nodes.{at} = node{each}@localhost"
                for at, each in enumerate(self.ports)
            ),
        ]
        if self.tls is None:
            lines.append(f"listeners.tcp.1 = 127.0.0.1:{port}")
        else:
            lines += ["listeners.tcp = none", f"listeners.ssl.1 = 127.0.0.1:{port}", "ssl_options.verify = verify_none"]
            files = {"cacertfile": self.tls.authority, "certfile": self.tls.certificate, "keyfile": self.tls.key}
            lines += [f"ssl_options.{name} = {file}" for name, file in files.items()]
        _write(place / "rabbitmq.conf", "\n".join(lines) + "\n", self.account)
        _write(place / "enabled_plugins", "[].\n", self.account)
