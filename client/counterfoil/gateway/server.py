"""The front of the gateway: reads a request's head, then passes it, refuses it, or keeps it and has it carried.

The body of a request that is kept goes to disk as it comes, with its digest; memory stays constant. A client that has
gone is only noticed when asked about, which is done before anything starts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast
from uuid import uuid4

import aiohttp
from aiohttp import http_parser, web

from counterfoil.gateway.arriving import Arriving, TooSlow
from counterfoil.gateway.authority import Authority
from counterfoil.gateway.carrying import Carrier
from counterfoil.gateway.connections import Connections
from counterfoil.gateway.credentials import Tokens
from counterfoil.gateway.git import GitReader
from counterfoil.gateway.held import ENDED, HeldRequest, HeldRequests, HeldState, NoRoom
from counterfoil.gateway.kubernetes import KubernetesReader
from counterfoil.gateway.plain import MOST_HEAD, NotPlain, forwarded_headers, read_head
from counterfoil.gateway.reader import Head, Intent, Keeps, KeptBody, Passes, Reader, WaitEnd, WordedAnswer
from counterfoil.gateway.rules import RulesReader
from counterfoil.gateway.sealing import HeldKeys, SealedFile
from counterfoil.gateway.settings import FrontSettings, HostSettings, HttpSettings
from counterfoil.gateway.upstream import HostClients, HostSilent
from counterfoil.gating.settings import BadSettings, read_secret

log = logging.getLogger("counterfoil.gateway")

_RELAYED: Final = (
    *("content-type", "content-encoding", "cache-control", "expires", "pragma", "etag", "last-modified", "link"),
)
_PASSED_BYTES: Final = 64 << 20
_READ_ON: Final = 4
"""So many times its limit of a body that is too large is read, so that its sender hears why."""
_LOOK_S: Final = 0.25
_SILENT_S: Final = 5.0
"""So often it is asked whether the client of an answer that goes on (a watch, a log) is still there."""
_LOOK_BYTES: Final = 8 << 20
_IDLE_S: Final = 15.0


class ClientGone(Exception):
    """The client broke off."""


class Front:
    """Answers every request of a client."""

    def __init__(self, settings: HttpSettings, held: HeldRequests, readers: Mapping[str, Reader]) -> None:
        self._has_head: Callable[[asyncio.BaseTransport | None], None] = lambda _: None
        self._settings = settings
        self._held = held
        self._readers = readers
        self._tokens = Tokens(settings.front.folder)
        self._hosts = HostClients(settings.hosts)
        self._keeping = asyncio.Lock()
        self._arriving = 0
        named = ((name, host.listen) for name, host in settings.hosts.items() if host.listen)
        self._own_ports = {int(listen.rpartition(":")[2]): name for name, listen in named}
        self.carrier = Carrier(settings, held, readers, self._hosts)

    def limit_connections(self, server: Callable[[], asyncio.Protocol]) -> Connections:
        """Put the limits of connections before a server that answers with this front."""
        front = self._settings.front
        made = Connections(
            server, most=front.most_connections, most_per_address=front.most_per_address, head_s=front.head_s
        )
        self._has_head = made.has_head
        return made

    async def close(self) -> None:
        """End running requests and the connections to the hosts."""
        await self.carrier.close()
        await self._hosts.close()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self._has_head(request.transport)
        try:
            version = (request.version.major, request.version.minor)
            target = self._with_host(request)
            name, head = read_head(request.method, target, version, request.raw_headers)
            reader = self._readers.get(name)
            if "upgrade" in head.headers and (reader is None or not reader.answers_upgrades):
                raise NotPlain(400, "not plain HTTP/1.1")
        except NotPlain as fault:
            return _close(_response(_plain(fault.status, str(fault))))
        agent = self._tokens.agent(head.header("authorization"))
        if agent not in self._settings.agents:
            text = "this gateway's own token is needed (it is no credential of the host)"
            refused = _plain(401, text)
            return _close(_response(replace(refused, headers={"WWW-Authenticate": 'Basic realm="counterfoil"'})))
        if (head.method, name, head.path, head.query) == ("GET", "", "", ""):
            return _response(self._list_hosts(agent))
        if reader is None:
            return _close(_response(_plain(404, "no host of this gateway has this name")))
        decided = reader.admit(head)
        if isinstance(decided, WordedAnswer):
            return _close(_response(decided))
        try:
            if isinstance(decided, Keeps):
                return await self._keep(request, name, head, agent, decided.most_bytes)
            return await self._pass(request, name, head)
        except ClientGone:
            return _close(web.Response(status=400))

    def _with_host(self, request: web.Request) -> str:
        """The target of a request, with the host's name before it where it came to a port of the host's own."""
        place = request.transport.get_extra_info("sockname") if request.transport else None
        name = self._own_ports.get(place[1]) if place else None
        if name is None:
            return request.raw_path
        # The paths under which `gh` asks any host but github.com.
        path = re.sub(r"^/api(?:/v3(?=[/?]|$)|(?=/graphql))", "", request.raw_path)
        return f"/{name}{path}"

    def _list_hosts(self, agent: str) -> WordedAnswer:
        """Describe the hosts to an agent, so that its clients can be set up."""
        hosts = {
            name: {
                "url": host.url,
                "reads": host.reads,
                "repositories": list(host.repositories),
                "port": int(host.listen.rpartition(":")[2]) if host.listen else None,
            }
            for name, host in self._settings.hosts.items()
        }
        return WordedAnswer(200, json.dumps({"agent": agent, "hosts": hosts}).encode(), "application/json")

    async def _pass(
        self, request: web.Request, name: str, head: Head, kept: KeptBody | None = None
    ) -> web.StreamResponse:
        body, arriving = cast(AsyncIterator[bytes] | None, None), Arriving(request, self._settings.front)
        headers = forwarded_headers(head)
        if kept is not None:
            body = _read_kept(kept) if kept.size else None
            headers += (("Content-Length", str(kept.size)),) if kept.size else ()
        elif request.can_read_body:
            body = arriving.read_passed(_PASSED_BYTES)
        try:
            came = await self._hosts.begin(
                name,
                method=head.method,
                path=head.path,
                query=head.query,
                headers=headers,
                body=body,
            )
        except HostSilent as fault:
            refused = _plain(arriving.status, arriving.why) if arriving.why else _plain(502, str(fault))
            return _close(_response(refused))
        relayed = {each: came.headers[each] for each in _RELAYED if each in came.headers}
        answer = web.StreamResponse(status=came.status, headers=relayed)
        try:
            if came.content_length is not None and head.method != "HEAD":
                answer.content_length = came.content_length
            await answer.prepare(request)
            await self._relay(request, came, answer)
        finally:
            # Not given back to be used again unless it was read to its end.
            came.release() if came.content.at_eof() else came.close()
        return answer

    async def _relay(self, request: web.Request, came: aiohttp.ClientResponse, answer: web.StreamResponse) -> None:
        """Pass an answer on as it comes; end where its client has gone or does not read it."""
        while not came.content.at_eof():
            try:
                async with asyncio.timeout(_SILENT_S) as silence:
                    piece = await came.content.readany()
            except (TimeoutError, aiohttp.ClientError) as fault:
                if isinstance(fault, TimeoutError) and silence.expired() and _is_there(request):
                    continue
                raise _broken_off(request) from fault
            try:
                async with asyncio.timeout(self._settings.front.pause_s):
                    await answer.write(piece)
            except (TimeoutError, ConnectionError) as fault:
                raise _broken_off(request) from fault
        await answer.write_eof()

    async def _keep(
        self, request: web.Request, name: str, head: Head, agent: str, most_bytes: int
    ) -> web.StreamResponse:
        reader, request_id = self._readers[name], uuid4().hex
        file = self._held.incoming(request_id)
        try:
            try:
                kept = await self._store(request, file, most_bytes)
            except NoRoom as fault:
                await _drain(request, most_bytes * _READ_ON)
                return _close(_response(reader.not_kept(head, f"the request was not kept: {fault}")))
            except TooSlow as fault:
                return _close(_response(reader.not_kept(head, f"the request was not kept: {fault}")))
            intent = await self.carrier.in_thread(reader.read, head, kept)
            if isinstance(intent, WordedAnswer):
                return _response(intent)
            if isinstance(intent, Passes):
                return await self._pass(request, name, head, kept)
            try:
                held = await self._find_or_add(request_id, name, head, agent, intent, kept)
            except NoRoom as fault:
                return _response(reader.not_kept(head, f"the request was not kept: {fault}"))
        finally:
            file.path.unlink(missing_ok=True)
        return await self._wait(request, reader, held, intent)

    async def _store(self, request: web.Request, file: SealedFile, most_bytes: int) -> KeptBody:
        """Write a body to disk as it arrives. Raises `NoRoom`, `TooSlow` and `ClientGone`."""
        digest, size, looked_at = hashlib.sha256(), 0, 0
        try:
            with file.write() as stored:
                self._held.check_space(self._arriving)
                async for piece in Arriving(request, self._settings.front).pieces():
                    size += len(piece)
                    self._arriving += len(piece)
                    if size > most_bytes:
                        raise NoRoom(f"it is larger than {most_bytes} bytes")
                    if size - looked_at >= _LOOK_BYTES:
                        looked_at = size
                        self._held.check_space(self._arriving)
                    stored.write(piece)
                    digest.update(piece)
                await self.carrier.in_thread(os.fsync, stored.finish())
        except (ConnectionError, web.RequestPayloadError) as fault:
            raise ClientGone from fault
        finally:
            self._arriving -= size
        if not request.content.is_eof():
            raise ClientGone
        return KeptBody(file, digest.hexdigest(), size)

    async def _find_or_add(
        self, request_id: str, name: str, head: Head, agent: str, intent: Intent, kept: KeptBody
    ) -> HeldRequest:
        """The open request with the same meaning, whose first body is sent, or one whose end no client has had; else
        this one.
        """
        key = f"{agent} {intent.key}"
        async with self._keeping:
            known = self._held.find(key)
            if known is not None and known.state is HeldState.UNKNOWN and await self.carrier.settle(known):
                known = self._held.find(key)
            if known is not None:
                return known
            self._held.check_count(agent)
            made = HeldRequest(
                id=request_id,
                key=key,
                state=HeldState.RECEIVED,
                agent=agent,
                host=name,
                method=head.method,
                path=head.path,
                query=head.query,
                headers=forwarded_headers(head),
                sha256=kept.sha256,
                size=kept.size,
                tool=intent.tool,
                arguments=intent.arguments,
                shape=intent.shape,
                at=time.time(),
                acknowledges=self._held.failed_before(key),
                session=await self.carrier.in_thread(self.carrier.session_of, agent),
            )
            return await self.carrier.in_thread(self._held.add, made)

    async def _wait(
        self, request: web.Request, reader: Reader, held: HeldRequest, intent: Intent
    ) -> web.StreamResponse:
        """Keep a client until its request has an answer, or its time is over."""
        front, opened = self._settings.front, None
        if reader.streams:
            opened = _response(reader.opening(), streamed=True)
            await opened.prepare(request)
        until = time.monotonic() + front.hold_s
        beat, told = time.monotonic(), ""

        def is_there() -> bool:
            return _is_there(request)

        pursuit = self.carrier.join(held.id, is_there)
        try:
            while is_there():
                await asyncio.wait([pursuit], timeout=_LOOK_S)
                held = self._held.get(held.id)
                if held.state in ENDED or held.state is HeldState.UNKNOWN:
                    break
                if time.monotonic() >= until and held.state is not HeldState.FORWARDING:
                    break
                word = self._word(held)
                if opened is not None and (word != told or time.monotonic() - beat >= front.beat_s):
                    await opened.write(reader.progress(word if word != told else ""))
                    told, beat = word, time.monotonic()
            else:
                raise ClientGone
        except ConnectionError as fault:
            raise ClientGone from fault
        finally:
            self.carrier.leave(held.id, is_there)
        return await self._end(request, reader, held, intent, opened)

    def _word(self, held: HeldRequest) -> str:
        """The line for a client about a state; empty if there is none."""
        if held.state in (HeldState.PROPOSED, HeldState.GRANTED) and held.approval.get("required"):
            return f"this request waits for approval: {self._place(held)}"
        if held.state is HeldState.FORWARDING:
            return "the held bytes are being sent."
        return ""

    def _place(self, held: HeldRequest) -> str:
        """Return the address of the approval, or of the action, for a person to open."""
        front, approval = self._settings.front, held.approval.get("approval_id")
        if not front.pages:
            return f"approval {approval}" if approval else f"action {held.action_id}"
        return f"{front.pages.rstrip('/')}/{f'approvals/{approval}' if approval else f'actions/{held.action_id}'}"

    async def _end(
        self,
        request: web.Request,
        reader: Reader,
        held: HeldRequest,
        intent: Intent,
        opened: web.StreamResponse | None,
    ) -> web.StreamResponse:
        word = ""
        if held.state in (HeldState.ANSWERED, HeldState.REPORTED):
            word = await self.carrier.verdict(held, within_s=self._settings.front.settle_s)
            word = word or "the host answered; it has not been read back yet."
        answer = self._final_answer(reader, held, intent)
        if opened is None:
            if _is_there(request):
                await self._note_told(held)
            return _response(answer)
        try:
            if word:
                await opened.write(reader.progress(f"{word} (action {held.action_id})"))
            await opened.write(answer.body)
            await opened.write_eof()
        except ConnectionError as fault:
            raise ClientGone from fault
        await self._note_told(held)
        return opened

    async def _note_told(self, held: HeldRequest) -> None:
        await self.carrier.in_thread(self._held.note_told, held.id)

    def _final_answer(self, reader: Reader, held: HeldRequest, intent: Intent) -> WordedAnswer:
        if held.state in (HeldState.ANSWERED, HeldState.REPORTED):
            try:
                body = self._held.answer(held.id).read_bytes()
            except OSError as fault:
                log.error("the answer to request %s is gone: %s", held.id, fault)
                return reader.ended(intent.shape, WaitEnd.UNKNOWN, self._place(held))
            return reader.relay(replace(held, shape=intent.shape), held.answer_status, held.answer_type, body)
        if held.state in (HeldState.REFUSED, HeldState.SETTLED):
            return reader.ended(intent.shape, WaitEnd.REFUSED, held.why)
        if held.state is HeldState.UNKNOWN:
            return reader.ended(intent.shape, WaitEnd.UNKNOWN, self._place(held))
        if held.state is HeldState.RECEIVED:
            text = "the console could not be reached; nothing was sent, try again later"
            return reader.ended(intent.shape, WaitEnd.REFUSED, text)
        if not held.approval.get("required"):
            text = f"not started yet, nothing was sent; try again later: {self._place(held)}"
            return reader.ended(intent.shape, WaitEnd.REFUSED, text)
        return reader.ended(intent.shape, WaitEnd.WAITS, self._place(held))


async def _read_kept(kept: KeptBody) -> AsyncIterator[bytes]:
    with kept.file.open("rb") as file:
        while piece := file.read(1 << 16):
            yield piece


def _is_there(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


def _broken_off(request: web.Request) -> ClientGone:
    """End a connection in the middle of an answer, so that the part is not taken for the whole."""
    if request.transport is not None:
        request.transport.abort()
    return ClientGone()


async def _drain(request: web.Request, most: int) -> None:
    size = 0
    try:
        async with asyncio.timeout(60):
            async for piece in request.content.iter_any():
                size += len(piece)
                if size > most:
                    return
    except (TimeoutError, ConnectionError, web.RequestPayloadError):
        return


def _response(answer: WordedAnswer, *, streamed: bool = False) -> web.StreamResponse:
    headers = {"Content-Type": answer.content_type, **answer.headers}
    if streamed:
        return web.StreamResponse(status=answer.status, headers=headers)
    return web.Response(status=answer.status, reason=answer.reason, headers=headers, body=answer.body)


def _close(response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection afterwards, so that the rest of an unread body is not read as another request."""
    response.force_close()
    return response


def _plain(status: int, text: str) -> WordedAnswer:
    return WordedAnswer(status, f"Counterfoil: {text}\n".encode(), "text/plain; charset=utf-8")


def make_reader(name: str, host: HostSettings) -> Reader:
    """The reader of a host."""
    if host.reader == "kubernetes":
        return KubernetesReader(host)
    return GitReader(host) if host.reader == "git" else RulesReader(name, host)


async def serve(settings: HttpSettings, *, ready: asyncio.Event | None = None) -> None:
    """Run the gateway until it is cancelled."""
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise RuntimeError("aiohttp was installed without its own parser; the other one is not strict enough.")
    front = settings.front
    held = HeldRequests(
        front.folder,
        HeldKeys(front.keys),
        most=front.most_held,
        most_bytes=front.most_held_bytes,
        least_free=front.least_free_bytes,
    )
    readers = {name: make_reader(name, host) for name, host in settings.hosts.items()}
    gate = Front(settings, held, readers)
    runner = web.AppRunner(
        _application(gate),
        access_log=None,
        handle_signals=True,
        keepalive_timeout=front.head_s + _IDLE_S,
        max_line_size=MOST_HEAD,
        max_field_size=MOST_HEAD,
    )
    listeners: list[asyncio.Server] = []
    try:
        await gate.carrier.ready()
        await runner.setup()
        tls = make_tls(front)
        assert runner.server is not None
        limited = gate.limit_connections(runner.server)
        for listen in (front.listen, *(host.listen for host in settings.hosts.values() if host.listen)):
            address, _, port = listen.rpartition(":")
            listener = await asyncio.get_running_loop().create_server(
                limited,
                address.strip("[]"),
                int(port),
                ssl=tls,
                ssl_handshake_timeout=front.head_s if tls else None,
            )
            listeners.append(listener)
        log.info("listening on %s for %s", front.listen, ", ".join(settings.hosts))
        if ready is not None:
            ready.set()
        while True:
            await gate.carrier.sweep()
            await asyncio.sleep(front.sweep_s)
            try:
                if tls is not None:
                    load_certificate(tls, front)
            except (BadSettings, OSError) as fault:
                log.error("the earlier certificate stays in use: %s", fault)
    finally:
        for listener in listeners:
            listener.close()
        await runner.cleanup()
        await gate.close()
        held.close()


def make_tls(front: FrontSettings) -> ssl.SSLContext | None:
    """The TLS of the gateway's own port; None if it speaks plain http. Raises `BadSettings`."""
    if not front.tls_cert and not front.tls_names:
        return None
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_certificate(tls, front)
    return tls


def load_certificate(tls: ssl.SSLContext, front: FrontSettings) -> None:
    """Load the certificate as it is now, for the connections that come; one of the gateway's own is renewed first."""
    certificate, key = Path(front.tls_cert), Path(front.tls_key or front.tls_cert)
    if front.tls_names:
        authority = own_authority(front)
        authority.renew(datetime.now(UTC))
        certificate, key = authority.server_certificate, authority.server_key
    read_secret(key)
    try:
        tls.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as fault:
        raise BadSettings(f"{certificate} and {key} cannot be used for TLS: {fault}.") from fault


def own_authority(front: FrontSettings) -> Authority:
    """The gateway's own certificate authority."""
    return Authority(front.folder / "tls", front.tls_names)


def _application(gate: Front) -> web.Application:
    application = web.Application(client_max_size=0)
    application.router.add_route("*", "/{rest:.*}", gate.answer)
    return application
