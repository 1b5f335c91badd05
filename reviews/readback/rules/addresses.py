"""Addresses to which a secret may be sent: only those that its own credential names.

1. A credential file names its address: `url`, `host` and `port`, or a list `addresses` (URLs, or host:port).
2. Settings are what an operator's key can write. Every address in them must be one that the credential names; a port or
   a host beside the credential's URL may not lead elsewhere.
3. A credential without any secret binds nothing: there is nothing to lose, and the settings say where it is.
4. A secret leaves the loopback address only under TLS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

_PORTS: Final = {"https": 443, "http": 80, "postgresql": 5432, "postgres": 5432, "redis": 6379, "rediss": 6379}
_HOSTS: Final = ("host", "hostaddr")
_PLACES: Final = frozenset({"url", "host", "hostaddr", "port", "dbname", "addresses", "root"})
"""Keys of a credential that are no secret by themselves."""

Address = tuple[str, int | None]


def resolve_address(settings: Mapping[str, Any], credential: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the settings with the credential's own address filled in, and their faults as a sentence."""
    if not holds_secret(credential):
        return dict(settings), ""
    known = set(_addresses(credential))
    if not known and any(_addresses(settings)):
        return dict(settings), "Its credential names no address, so its secret is sent nowhere."
    strange = [each for each in _addresses(settings) if not any(_matches(each, one) for one in known)]
    if strange:
        return dict(settings), f"Its settings name {_format_address(strange[0])}, which its credential does not name."
    own = {name: credential[name] for name in ("url", "host", "port") if name in credential}
    return {**settings, **own}, ""


def holds_secret(credential: Mapping[str, Any]) -> bool:
    """Return True if a credential contains anything secret."""
    url = str(credential.get("url", ""))
    # A connection string of words (`host=… password=…`) is not taken apart here.
    within = bool(_split_url(url).password) or "password=" in url or bool(url and "://" not in url)
    return within or bool(credential.keys() - _PLACES)


def secret_part(credential: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a credential that identifies the account: everything but the address."""
    own = {name: each for name, each in credential.items() if name not in _PLACES}
    url = str(credential.get("url", ""))
    found = _split_url(url)
    if found.username or found.password:
        own |= {"user": found.username, "password": found.password}
    elif url and "://" not in url:
        own |= {"url": sorted(each for each in url.split() if each.startswith(("user=", "password=")))}
    return own


def named_places(part: Mapping[str, Any]) -> list[Address]:
    """Return every host that a document names, with its port if one is named."""
    return sorted({each for each in _addresses(part) if each[0]}, key=str)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine; a path is a socket on it."""
    if host == "localhost" or host.startswith(("/", "@")):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _addresses(part: Any) -> Iterator[Address]:
    """Every address that a document names, at any depth."""
    if isinstance(part, Mapping):
        yield from _separate_addresses(part)
        for name, each in part.items():
            if name == "url" and isinstance(each, str) and "://" not in each:
                yield each.lower(), None
            elif name not in (*_HOSTS, "port"):
                yield from _addresses(each)
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _addresses(each)
    elif isinstance(part, str) and "://" in part:
        found = _split_url(part)
        if found.hostname:
            yield found.hostname, _port(found)
        # A database's URL may name another host behind its question mark, and the client would go there.
        yield from _separate_addresses({name: values[-1] for name, values in parse_qs(found.query).items()})


def _separate_addresses(part: Mapping[str, Any]) -> Iterator[Address]:
    """Return host and port as separate keys; a list of `addresses` may hold host:port as text."""
    port = int(part["port"]) if str(part.get("port", "")).isdecimal() else None
    hosts = [str(part[name]).lower() for name in _HOSTS if part.get(name)]
    yield from ((host, port) for host in hosts)
    if port is not None and not hosts:
        yield "", port
    for each in part.get("addresses", ()) if isinstance(part.get("addresses"), list) else ():
        if isinstance(each, str) and "://" not in each:
            host, _, given = each.rpartition(":")
            yield (host.lower(), int(given)) if host and given.isdecimal() else (each.lower(), None)


def _matches(asked: Address, known: Address) -> bool:
    """Return True if an address is a named one; a part that either leaves out matches."""
    return asked[0] in ("", known[0]) and (asked[1] is None or known[1] is None or asked[1] == known[1])


def _split_url(url: str) -> Any:
    try:
        found = urlsplit(url)
        _port(found)
    except ValueError:
        return urlsplit("")
    return found


def _port(found: Any) -> int | None:
    return found.port or _PORTS.get(found.scheme)


def _format_address(address: Address) -> str:
    host, port = address
    return f"port {port}" if not host else f"{host}:{port}" if port else host
