"""Addresses of the broker (`BROKER_URL`) and of the counters (`REDIS_URL`): one server, Sentinels, or RabbitMQ.

The broker carries hints to workers. The counters hold rates, presence, the generation of keys and searches that run,
which RabbitMQ cannot; both are Redis or Valkey unless `BROKER_URL` names RabbitMQ.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import redis
from kombu import Connection
from kombu.exceptions import OperationalError
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport.pyamqp import SSLTransport
from kombu.utils.url import as_url
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

PORTS: Final = {
    "redis": 6379,
    "rediss": 6379,
    "sentinel": 26379,
    "sentinels": 26379,
    "amqp": 5672,
    "amqps": 5671,
    "unix": 0,
}
"""Every scheme, with the port of an address that names none."""
OVER_TLS: Final = frozenset({"rediss", "sentinels", "amqps"})
TLS_OPTIONS: Final = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"})
TLS_FILES: Final = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
REQUIRED: Final = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
SENTINEL_OPTIONS: Final = frozenset({"master", "sentinel_username", "sentinel_password"})
LOOKS: Final = {
    "REDIS_URL": "redis://:password@host:port/0, or sentinel://:password@host:port,host:port/0?master=name",
    "BROKER_URL": "redis://:password@host:port/0, sentinel://:password@host:port,host:port/0?master=name,"
    " or amqp://user:password@host:port,host:port/vhost",
}


class WrongServerAddress(Exception):
    """An address that cannot be used; the message is the sentence a person reads, and holds no password."""


class NoAnswer(Exception):
    """The server of an address does not answer; the message is its first line."""


class AmqpOverTls(SSLTransport):
    """AMQP over TLS that checks the name of the host it connects to, also after it went on to the next."""

    client: Any

    def establish_connection(self) -> Any:
        connection = self.client
        options = dict(connection.ssl)
        name = connection.hostname if options.pop("check_hostname") else None
        connection.ssl = options | {"server_hostname": name}
        return super().establish_connection()


TRANSPORT_ALIASES["amqps"] = f"{__name__}:{AmqpOverTls.__name__}"


@dataclass(frozen=True, kw_only=True)
class Address:
    """A server, or several of which one is used; `path` is a database's number, a virtual host or a socket's file."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_rabbitmq(self) -> bool:
        return self.scheme in ("amqp", "amqps")

    @property
    def is_sentinel(self) -> bool:
        return self.scheme in ("sentinel", "sentinels")

    # Clients

    def redis_client(self, *, patience_s: float) -> redis.Redis:
        """A client of Redis or Valkey that waits so long for a connection and for an answer."""
        told = {"username": self.user, "password": self.password, "db": self._database, **self._waits(patience_s)}
        if self.scheme == "unix":
            return redis.Redis(unix_socket_path=self.path, **told)
        told |= self._redis_tls()
        if self.is_sentinel:
            watched: Any = Sentinel
            sentinels = watched(self.hosts, sentinel_kwargs=self._sentinel_login(patience_s), **told)
            client: redis.Redis = sentinels.master_for(self.options["master"])
            return client
        [(host, port)] = self.hosts
        return redis.Redis(host=host, port=port, **told)

    def ask(self, *, within_s: float) -> None:
        """Raise `NoAnswer` if the server does not answer."""
        try:
            if self.is_rabbitmq:
                options = {"max_retries": self.kombu_retries}
                with Connection(
                    self.kombu_url, ssl=self.kombu_tls, connect_timeout=within_s, transport_options=options
                ) as connection:
                    connection.ensure_connection(max_retries=self.kombu_retries, timeout=ceil(within_s))
            else:
                with self.redis_client(patience_s=within_s) as client:
                    client.ping()
        except (redis.RedisError, OperationalError, OSError) as error:
            raise NoAnswer(str(error).strip().split("\n", 1)[0] or type(error).__name__) from None

    # Kombu, which connects for Celery

    @property
    def kombu_url(self) -> str:
        """The address as kombu reads it: of several hosts one after the other, each complete."""
        if self.scheme == "unix":
            login = f":{quote(self.password, safe='')}@" if self.password else ""
            return f"redis+socket://{login}{self.path}?virtual_host={self._database}"
        scheme = "sentinel" if self.is_sentinel else self.scheme
        path = quote(self.path, safe="") if self.is_rabbitmq else str(self._database)
        return ";".join(as_url(scheme, host, port, self.user, self.password, path) for host, port in self.hosts)

    @property
    def kombu_tls(self) -> dict[str, Any] | bool:
        """TLS as kombu passes it on; without it kombu would check no certificate."""
        if self.scheme not in OVER_TLS:
            return False
        if not self.is_rabbitmq:
            return {name: value for name, value in self._redis_tls().items() if name != "ssl"}
        told = {name.removeprefix("ssl_"): value for name, value in self.options.items() if name in TLS_FILES}
        checks = self._checks_host and self._certificates != "none"
        return told | {"cert_reqs": REQUIRED[self._certificates], "check_hostname": checks}

    @property
    def kombu_sentinel(self) -> dict[str, Any]:
        """Transport options by which kombu finds the master; none without Sentinel."""
        if not self.is_sentinel:
            return {}
        return {"master_name": self.options["master"], "sentinel_kwargs": self._sentinel_login(1.0)}

    @property
    def kombu_retries(self) -> int:
        """So often another host is tried at once."""
        return len(self.hosts) - 1

    # Parts

    @property
    def _database(self) -> int:
        return int(self.options.get("db", "0") if self.scheme == "unix" else self.path or "0")

    @property
    def _certificates(self) -> str:
        return self.options.get("ssl_cert_reqs", "required")

    @property
    def _checks_host(self) -> bool:
        return self.options.get("ssl_check_hostname", "true") == "true"

    def _redis_tls(self) -> dict[str, Any]:
        if self.scheme not in OVER_TLS:
            return {}
        told = {name: value for name, value in self.options.items() if name in TLS_FILES}
        checks = self._checks_host and self._certificates != "none"
        return {"ssl": True, "ssl_cert_reqs": self._certificates, "ssl_check_hostname": checks, **told}

    def _sentinel_login(self, patience_s: float) -> dict[str, Any]:
        login = {name: self.options.get(f"sentinel_{name}") for name in ("username", "password")}
        return {**login, **self._waits(patience_s), **self._redis_tls()}

    @staticmethod
    def _waits(patience_s: float) -> dict[str, Any]:
        """A connection that was open when its server went away is opened again once, and at once."""
        again = Retry(NoBackoff(), 1)
        return {"socket_timeout": patience_s, "socket_connect_timeout": patience_s, "retry": again}


@lru_cache(maxsize=8)
def read_address(name: str, text: str) -> Address:
    """Read the address of a setting; `WrongServerAddress` says what is wrong with it."""
    try:
        parts = urlsplit(text)
        hosts = tuple(_hosts(parts))
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise WrongServerAddress(f"{name} is not a valid URL.") from None
    options = dict(pairs)
    login, _, _ = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    address = Address(
        scheme=parts.scheme,
        hosts=hosts,
        user=unquote(user) or None,
        password=unquote(password) or None,
        path=unquote(parts.path if parts.scheme == "unix" else parts.path.removeprefix("/")),
        options=options,
    )
    for fault in _faults(address, name):
        raise WrongServerAddress(f"{name} {fault}")
    return address


def _hosts(parts: SplitResult) -> Iterator[tuple[str, int]]:
    for place in parts.netloc.rpartition("@")[2].split(","):
        one = urlsplit(f"//{place}")
        yield unquote(one.hostname or ""), one.port or PORTS.get(parts.scheme, 0)


def _faults(address: Address, name: str) -> Iterator[str]:
    if address.scheme not in PORTS:
        yield f"must look like {LOOKS[name]}."
    if address.is_rabbitmq and name != "BROKER_URL":
        yield "leads to the counters, which RabbitMQ cannot keep: name it in BROKER_URL, and Redis or Valkey here."
    yield from _faults_of_place(address)
    known = set(TLS_OPTIONS) if address.scheme in OVER_TLS else set()
    known |= SENTINEL_OPTIONS if address.is_sentinel else {"db"} if address.scheme == "unix" else set()
    for option in sorted(address.options.keys() - known):
        over = " without TLS" if option in TLS_OPTIONS else ""
        yield f"has the option {option}, which means nothing for {address.scheme}://{over}."
    if address.is_sentinel and not address.options.get("master"):
        yield "must name the master that the Sentinels watch: add ?master=name."
    yield from _faults_of_tls(address)


def _faults_of_place(address: Address) -> Iterator[str]:
    if address.scheme == "unix":
        if not address.path.startswith("/") or address.hosts[0][0]:
            yield "must name the socket's file: unix:///path/of/socket."
    elif not all(host for host, _ in address.hosts):
        yield "names no host." if len(address.hosts) == 1 else "has an empty host between its commas."
    elif len(address.hosts) > 1 and address.scheme in ("redis", "rediss"):
        yield "names several hosts: of Redis or Valkey that takes Sentinel (sentinel://…?master=name)."
    number = address.options.get("db", "0") if address.scheme == "unix" else address.path or "0"
    if not address.is_rabbitmq and not number.isdecimal():
        yield "must end with the number of a database, such as /0."


def _faults_of_tls(address: Address) -> Iterator[str]:
    for option in sorted(TLS_FILES & address.options.keys()):
        if not Path(address.options[option]).is_file():
            yield f"names a file for {option} that is not there."
    if address.options.get("ssl_cert_reqs", "none") not in REQUIRED:
        yield f"must have for ssl_cert_reqs one of {', '.join(REQUIRED)}."
    if address.options.get("ssl_check_hostname", "true") not in ("true", "false"):
        yield "must have true or false for ssl_check_hostname."
