"""HTTP requests to a registered system: bounded in time and size, no redirects, no other hosts.

1. Only the system's own addresses are asked, and a secret leaves the loopback address only under TLS. A path that a
   contract or an answer gives can choose no other host, and a redirect is an answer like any other: it is never
   followed from here.
2. An answer is bounded in bytes, and all of it in time. The machine's proxy settings are not used.
3. No answer, an overload and a refused password are outages: somebody can mend them, and then the system
   answers. So is a 403 that says that a limit of requests is reached. A right that the credential lacks is none:
   looking this way never works.
4. An answer in a form that the system does not speak comes from something else, a gateway say: it is no answer.
   Only what the system says in its own words may show that something is not there.
5. An answer whose end is only the end of the connection may be half of one (`whole`). One that is marked as a
   cache's, or whose date lies well before the question, is not fresh, and settles nothing.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx

from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from reviews.checks.limits import ConversationDeadline, deadline_after, socket_of
from reviews.readback.rules.addresses import is_loopback
from reviews.readback.rules.shapes import CONSISTENCY, NAMES, TEXT, Schema, member, number_schema

__all__ = [
    "Site",
    "SiteResponse",
    "clock_lag",
    "deadline_after",
    "effective_consistency",
    "open_site",
    "path_segment",
    "refuse_outages",
    "url_origin",
]

MAX_BYTES = 8 * 1024 * 1024
MAX_AGE_S = 300
"""How old an answer may call itself, clocks that differ included; a system's setting `max_age_s` may say otherwise."""
AGENT = "counterfoil-readback"
SITE: Final[Mapping[str, Schema]] = {
    "url": member(TEXT, "Address", "Such as https://api.example.org; not needed if the credential names it."),
    "ca_file": member(TEXT, "File of the certificate's authority", "PEM, on the hosts that read it.",
                       is_rare=True),
    "max_age_s": member(number_schema(1), "Longest age of an answer, in seconds",
                         "An older answer settles nothing.", default=MAX_AGE_S, is_rare=True),
    "consistency": CONSISTENCY,
}  # fmt: skip
"""The settings of a system that is asked over HTTP."""
HOSTS: Final = member(
    NAMES,
    "Its other hosts",
    "One on each line: where pushes or uploads go, with the port, if any.",
)
"""The setting that lists the hosts to which requests go that this system may settle (`refuse_other_host`)."""
_SECRET = frozenset({"authorization", "x-vault-token"})
_CONNECTED = frozenset({"connection.connect_tcp.complete", "connection.start_tls.complete"})


@dataclass(frozen=True)
class SiteResponse:
    """A response of any status."""

    url: str
    status: int
    headers: httpx.Headers
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", errors="replace")

    def json(self) -> Any:
        """Return the answer as JSON without binary fractions; refuse any other answer."""
        try:
            return json.loads(self.content, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError):
            raise CheckFailed(f"{self.url} did not answer in JSON.", retryable=True) from None

    @property
    def framed(self) -> bool:
        """Return whether the response declared its own end."""
        chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        return chunked or "content-length" in self.headers

    def whole(self) -> SiteResponse:
        """Return this answer unless it may be truncated; for formats that show no end of their own, unlike JSON and
        XML.
        """
        if not self.framed:
            raise CheckFailed(f"{self.url} did not say where its answer ends.", retryable=True)
        return self

    def document(self) -> dict[str, Any]:
        """Return the answer as a JSON object; another type of answer does not come from the system."""
        found = self.json()
        if not isinstance(found, dict):
            raise CheckFailed(f"{self.url} did not answer with a JSON object.", retryable=True)
        return found


class Site:
    """One address of a registered system, for one reading."""

    def __init__(
        self,
        address: Any,
        *,
        until: float,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        ca_file: str | None = None,
        secret: bool = False,
    ) -> None:
        self.address = _address(address)
        secret = secret or auth is not None or bool(_SECRET & {name.lower() for name in headers or {}})
        if secret and self.address.scheme != "https" and not is_loopback(self.address.host):
            raise CheckFailed(f"{self.address.host} is asked without TLS, so no secret is sent to it.", retryable=False)
        self.limit = ConversationDeadline(until)
        self.client = httpx.Client(
            headers={
                "User-Agent": AGENT,
                "Cache-Control": "no-cache",
                "Accept-Encoding": "identity",
                **(headers or {}),
            },
            auth=auth,
            # Without TLS there is no certificate to check, and no other address is asked (`_url`).
            verify=ssl.create_default_context(cafile=ca_file) if self.address.scheme == "https" else False,
            follow_redirects=False,
            trust_env=False,
        )

    def __enter__(self) -> Site:
        self.limit.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.limit.__exit__(kind, fault, at)
        self.client.close()

    def get(self, path: str, *, params: Mapping[str, str] | None = None, **headers: str) -> SiteResponse:
        """The answer at a path, with any status that is neither an outage nor a refusal."""
        return self._refuse_outage(self._send("GET", path, params=params, headers=headers))

    def visit(self, path: str) -> SiteResponse:
        """Return the answer at a path, with any status; for lookups that judge the status itself."""
        return self._send("GET", path)

    def ask(
        self,
        method: str,
        path: str,
        *,
        document: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> SiteResponse:
        """The answer to a question that the protocol puts by another method than GET."""
        return self._refuse_outage(self._send(method, path, json=document, content=content, headers=headers))

    def _refuse_outage(self, answer: SiteResponse) -> SiteResponse:
        refuse_outages(answer)
        return answer

    def _send(self, method: str, path: str, **parts: Any) -> SiteResponse:
        url = self._url(path)
        given = {name: value for name, value in parts.items() if value is not None}
        left_s, told = self.limit.left_s, {"trace": self._watch_connection}
        try:
            with self.client.stream(method, url, timeout=left_s, extensions=told, **given) as response:
                content = self._read_content(response)
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise CheckFailed(f"{url} did not answer: {type(problem).__name__}.", retryable=True) from None
        return SiteResponse(str(url), response.status_code, response.headers, content)

    def _watch_connection(self, event: str, about: Mapping[str, Any]) -> None:
        """Called by the HTTP library for each connection that it opens, and again once that is encrypted."""
        talk = socket_of(about.get("return_value")) if event in _CONNECTED else None
        if talk is not None:
            self.limit.watch(talk)

    def _url(self, path: str) -> httpx.URL:
        if not path.startswith("/") or path.startswith("//") or "\\" in path:
            raise CheckFailed(f"{path!r} is no path of this system.", retryable=False)
        try:
            url = httpx.URL(str(self.address).rstrip("/") + path)
        except httpx.InvalidURL:
            raise CheckFailed(f"{path!r} is no path of this system.", retryable=False) from None
        below = url.path.startswith(self.address.path.rstrip("/") + "/")
        climbs = not {".", ".."}.isdisjoint(url.path.split("/"))
        if climbs or not below or url_origin(url) != url_origin(self.address):
            raise CheckFailed(f"{path!r} leads away from this system.", retryable=False)
        return url

    def _read_content(self, response: httpx.Response) -> bytes:
        content = bytearray()
        for block in response.iter_bytes():
            content += block
            if len(content) > MAX_BYTES:
                raise CheckFailed(f"The answer is longer than {MAX_BYTES} bytes.", retryable=False)
        return bytes(content)


def refuse_other_host(system: SystemAccess, site: Site, sent_to: Any, what: str) -> None:
    """Refuse to settle by this system what the request sent to another host; `sent_to` is the request's address.

    Without an address nothing can be compared. `host:path` and `ssh://` name a host; for `http` and `https` a port that
    is none of theirs counts too.
    """
    if sent_to is None:
        return
    here = _host_and_port(site.address.host, site.address.port)
    asked = _named_host(str(sent_to), of=here)
    if asked not in {here, *(str(each).casefold() for each in system.settings.get("hosts", ()))}:
        named = asked or "an address without a host"
        raise CheckFailed(
            f"This system reads {here}; the request went to {named}. If that is the same {what}, an administrator names"
            " it in the system's setting `hosts`.",
            retryable=False,
        )


def _named_host(address: str, *, of: str) -> str:
    """The host that an address names, with its port if that matters; empty if it names none."""
    scheme, _, rest = address.partition("://")
    if not rest and address.startswith((".", "/")):
        return ""
    try:
        parts = urlsplit(address if rest else f"ssh://{address.partition(':')[0]}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if scheme.casefold() in ("http", "https"):
        return _host_and_port(host, port)
    # Another protocol has another port at the same host.
    return of if host and host == of.rpartition(":")[0] else host


def _host_and_port(host: str, port: int | None) -> str:
    return host.casefold() if port in (None, 80, 443) else f"{host.casefold()}:{port}"


def open_site(
    system: SystemAccess,
    address: object,
    *,
    until: float,
    headers: Mapping[str, str] | None = None,
    secret: bool = False,
) -> Site:
    """Open one of a system's addresses, with its credential and the authority of its certificate; `secret` says that
    more than the usual headers must not leave without TLS.
    """
    ca_file = system.settings.get("ca_file")
    return Site(address, until=until, headers=headers, auth=_password(system), ca_file=ca_file, secret=secret)


def _password(system: SystemAccess) -> tuple[str, str] | None:
    """Return the name and password of a credential, if it has them."""
    name = system.credential.get("user")
    return None if name is None else (str(name), str(system.credential.get("password", "")))


def effective_consistency(
    system: SystemAccess, *answers: SiteResponse, at: datetime, own: Consistency = Consistency.STRONG
) -> Consistency:
    """The trust in these responses: as the system's settings declare, but never for a cached or old one (rule 5)."""
    if any(_is_cached(answer.headers) for answer in answers):
        return Consistency.CACHE
    oldest = at - timedelta(seconds=system.settings.get("max_age_s", MAX_AGE_S))
    if any(date is not None and date < oldest for date in map(_date_of, answers)):
        return Consistency.STALE_ENDPOINT
    return Consistency(system.settings.get("consistency", own))


def path_segment(value: object) -> str:
    """A value as one segment of a path: it cannot become two, nor climb."""
    text = str(value)
    if text in {"", ".", ".."}:
        raise CheckFailed(f"{text!r} names nothing.", retryable=False)
    return quote(text, safe="")


def url_origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _address(given: Any) -> httpx.URL:
    try:
        url = httpx.URL(given) if isinstance(given, str) else httpx.URL()
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in {"http", "https"} or not url.host or url.query or url.fragment or url.userinfo:
        raise CheckFailed("The system has no address that can be asked over HTTP.", retryable=False)
    return url


def _is_cached(headers: httpx.Headers) -> bool:
    age = headers.get("age", "0").strip()
    return (age.isdecimal() and int(age) > 0) or headers.get("x-cache", "").lower().startswith("hit")


def clock_lag(answers: Iterable[SiteResponse], *, at: datetime) -> timedelta:
    """Return how far the answering server's clock is behind the local one, as far as the answer's date shows it."""
    said = [date for date in map(_date_of, answers) if date is not None]
    return max((at - date for date in said), default=timedelta(0))


def _date_of(answer: SiteResponse) -> datetime | None:
    try:
        given = parsedate_to_datetime(answer.headers.get("date", ""))
    except (ValueError, TypeError, IndexError):
        return None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def refuse_outages(answer: SiteResponse) -> None:
    """Raise `CheckFailed` for an answer that is an outage or a refusal (rule 3)."""
    if answer.status in {401, 408, 425, 429} or answer.status >= 500:
        raise CheckFailed(f"{answer.url} answered {answer.status}.", retryable=True)
    if answer.status == 403 and ("retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"):
        raise CheckFailed(f"{answer.url} answered 403: its limit of requests is reached.", retryable=True)
    if answer.status == 403:
        raise CheckFailed(f"{answer.url} may not be read with this credential.", retryable=False)
