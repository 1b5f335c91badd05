"""Facts that identify a system as a source, in addition to its own statements (`reconciliation.rules.independence`)."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any
from uuid import UUID

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Verification
from ledger.record.rules.canonical import canonical
from reviews.checks.interface import SystemAccess
from reviews.checks.settings import PARTS
from reviews.readback.operations.plans import access_to
from reviews.readback.rules import addresses
from reviews.reconciliation.rules.independence import SELF_NAMING, address_fault

HERE, SOCKET = "this machine", "/"
POSTGRESQL_PORT = 5432


def source_origin(system: SystemAccess, *, salt: bytes) -> dict[str, Any]:
    """The address, part and account of a system.

    Names are resolved, so that aliases of one host are one address; a loopback address and a socket are this machine.
    The credential is a keyed hash: equal within what shares the `salt`, and worthless without it.
    """
    given = {**system.settings, **system.credential}
    if system.pattern in SELF_NAMING:
        given = _database_address(given)
    places = addresses.named_places(given)
    found = sorted({each for place in places for each in _resolve(*place)})
    if not places and given.get("root"):
        found = [f"{HERE}:files"]
    secret = addresses.secret_part(system.credential)
    return {
        "pattern": system.pattern,
        "addresses": found,
        "part": _part(given),
        "credential": hmac.new(salt, canonical(secret), hashlib.sha256).hexdigest() if secret else "",
    }


def same_sources(tenant_id: UUID, slug: str, verification: Verification) -> Iterator[str]:
    """Return the sources of a contract that are one system under two names, as far as addresses and
    credentials show.
    """
    salt, known = os.urandom(16), {}
    for name in (verification.system, *(each.system for each in verification.further)):
        access, _ = access_to(catalogue_queries.system(tenant_id, name), slug, name)
        origin = source_origin(access, salt=salt) if access is not None else {}
        # What is not set up yet, or cannot be found now, is judged when it is read.
        if origin.get("addresses"):
            known[name] = origin
    for (one, here), (other, there) in combinations(known.items(), 2):
        fault = address_fault(here, there)
        if fault and not _are_databases(here, there, fault):
            yield f"{one} and {other} are one source: {fault}"


def _are_databases(here: Mapping[str, Any], there: Mapping[str, Any], fault: str) -> bool:
    """Return whether two servers may share a credential, because each identifies itself when it is read."""
    return "credential" in fault and here["pattern"] in SELF_NAMING and there["pattern"] in SELF_NAMING


def _database_address(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a PostgreSQL address as separate keys, whichever way it was written."""
    try:
        parts = conninfo_to_dict(str(given.get("url", "")))
    except ProgrammingError:
        return {}
    parts |= {name: given[name] for name in ("host", "hostaddr", "port", "dbname", "user") if name in given}
    hosts = str(parts.get("hostaddr") or parts.get("host") or "").split(",")
    ports = str(parts.get("port") or POSTGRESQL_PORT).split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    return {
        "addresses": [f"{host or SOCKET}:{port}" for host, port in zip(hosts, ports, strict=False)],
        "dbname": parts.get("dbname") or parts.get("user"),
    }


def _resolve(host: str, port: int | None) -> Iterator[str]:
    at = port if port is not None else "*"
    if addresses.is_loopback(host):
        yield f"{HERE}:{at}"
        return
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return
    for *_, address in found:
        yield f"{HERE if addresses.is_loopback(str(address[0])) else address[0]}:{at}"


def _part(given: Mapping[str, Any]) -> str:
    """Return the part of a server that is queried, if settings or credential name one."""
    if given.get("root"):
        return os.path.realpath(str(given["root"]))
    return "/".join(f"{name}={given[name]}" for name in PARTS if given.get(name))
