"""Requests to the hosts: new ones with their own framing, over verified TLS, without redirects, cookies or proxies."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

from counterfoil.gateway.credentials import CredentialUnusable, authorization
from counterfoil.gateway.held import HeldRequest
from counterfoil.gateway.sealing import SealedFile
from counterfoil.gateway.settings import HostSettings
from counterfoil.work import NothingSent

MOST_ANSWER: Final = 16 << 20
_PIECE: Final = 1 << 16
_CONNECT_S: Final = 10
_OWN: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class HostSilent(Exception):
    """The host gave no usable answer; the message is for the client."""


@dataclass(frozen=True)
class HostAnswer:
    """An answer of a host, read whole."""

    status: int
    content_type: str
    body: bytes


class HostClients:
    """The connections to all hosts. Made and used on one event loop."""

    def __init__(self, hosts: Mapping[str, HostSettings]) -> None:
        self._hosts = hosts
        self._tls = {name: _tls(host) for name, host in hosts.items()}
        self._http = aiohttp.ClientSession(
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            skip_auto_headers=_OWN,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
        )

    async def close(self) -> None:
        """End the connections."""
        await self._http.close()

    async def begin(
        self,
        name: str,
        *,
        method: str,
        path: str,
        query: str,
        headers: tuple[tuple[str, str], ...],
        body: AsyncIterator[bytes] | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a request that passes and return its answer with the body unread. Raises `HostSilent`."""
        host = self._hosts[name]
        try:
            answer = await self._http.request(
                method,
                _address(host, path, query),
                headers=_with_credential(headers, host),
                data=body,
                allow_redirects=False,
                ssl=self._tls[name],
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=600),
            )
        except (CredentialUnusable, aiohttp.ClientError, TimeoutError, OSError) as fault:
            raise HostSilent(_fault_text(fault)) from fault
        if answer.status in (401, 407) or (300 <= answer.status < 400 and answer.status != 304):
            answer.release()
            took = "redirects, which the gateway does not follow" if answer.status < 400 else "refuses the credential"
            raise HostSilent(f"the host {took}")
        return answer

    async def send(
        self, held: HeldRequest, body: SealedFile, *, within_s: float, headers: Mapping[str, str]
    ) -> HostAnswer:
        """Send a held request's stored bytes, once.

        Raises `NothingSent` where no byte can have left, and `TimeoutError`, `aiohttp.ClientError` or `HostSilent`
        where that is not known.
        """
        host = self._hosts[held.host]
        try:
            # An answer that is judged is not to come compressed.
            own = tuple((name, value) for name, value in held.headers if name != "accept-encoding")
            told = _with_credential(own, host) + tuple(headers.items())
        except CredentialUnusable as fault:
            raise NothingSent("CREDENTIAL_UNUSABLE", str(fault)) from fault
        framing = (("Content-Length", str(held.size)),) if held.size or held.method != "DELETE" else ()
        try:
            async with self._http.request(
                held.method,
                _address(host, held.path, held.query),
                headers=told + framing,
                data=_read_stored(body) if held.size else None,
                allow_redirects=False,
                ssl=self._tls[held.host],
                timeout=aiohttp.ClientTimeout(total=within_s, sock_connect=_CONNECT_S),
            ) as answer:
                content = await _read_limited(answer)
                return HostAnswer(answer.status, answer.content_type, content)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as fault:
            # The connection was never made; TLS that is not verified is refused before a request is sent.
            raise NothingSent("HOST_UNREACHABLE", _fault_text(fault)) from fault


async def _read_limited(answer: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for piece in answer.content.iter_chunked(_PIECE):
        content += piece
        if len(content) > MOST_ANSWER:
            raise HostSilent(f"the host's answer is longer than {MOST_ANSWER} bytes")
    return bytes(content)


async def _read_stored(body: SealedFile) -> AsyncIterator[bytes]:
    with body.open() as file:
        while piece := file.read(_PIECE):
            yield piece


def _address(host: HostSettings, path: str, query: str) -> URL:
    return URL(f"{host.url}/{path}{'?' if query else ''}{query}", encoded=True)


def _with_credential(headers: tuple[tuple[str, str], ...], host: HostSettings) -> tuple[tuple[str, str], ...]:
    value = authorization(host)
    return (*headers, ("Authorization", value)) if value else headers


def _tls(host: HostSettings) -> ssl.SSLContext | bool:
    return ssl.create_default_context(cafile=host.ca_file) if host.ca_file else True


def _fault_text(fault: BaseException) -> str:
    if isinstance(fault, CredentialUnusable):
        return str(fault)
    return f"the host does not answer ({type(fault).__name__})"
