"""Objects of a cluster before a change: what is there, and what a dry run by the server itself says would be.

1. A dry run is asked for only where the API server serves the resource by itself: a server that stands behind it may
   not know the word and carry out the change. Its own `APIService` says so.
2. What could not be asked is said to be unknown, with the reason; it is never shown as no change.
3. What changes from one moment to the next by itself (status, bookkeeping of the server) is no difference.
"""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from counterfoil.gateway.credentials import CredentialUnusable, authorization
from counterfoil.gateway.kubernetes_requests import ApiRequest
from counterfoil.gateway.reader import Head
from counterfoil.gateway.settings import HostSettings

_ASK_S: Final = 10.0
_MOST_TEXT: Final = 7_500
_MOST_VALUE: Final = 120
_SERVERS_OWN: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}
)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class NotAnswered(Exception):
    """The API server gave no usable answer; the message says why."""


@dataclass(frozen=True)
class ServerAnswer:
    """An answer of the API server: its status and its document."""

    status: int
    document: Mapping[str, Any]

    @property
    def message(self) -> str:
        """The server's own words."""
        return str(self.document.get("message", ""))


class Cluster:
    """One API server, asked with the gateway's credential. Blocks."""

    def __init__(self, host: HostSettings) -> None:
        self._host = host
        verify = ssl.create_default_context(cafile=host.ca_file) if host.ca_file else True
        # Changes are rare: no connection is kept for the next one.
        alone, accept = httpx.Limits(max_keepalive_connections=0), {"Accept": "application/json"}
        self._http = httpx.Client(verify=verify, timeout=_ASK_S, trust_env=False, headers=accept, limits=alone)

    def ask(
        self, method: str, path: str, *, query: str = "", content_type: str = "", body: bytes | None = None
    ) -> ServerAnswer:
        """Ask the server. Raises `NotAnswered`."""
        try:
            headers = {"Authorization": authorization(self._host)} if self._host.credential_file else {}
            if content_type:
                headers["Content-Type"] = content_type
            url = f"{self._host.url}/{path}{'?' if query else ''}{query}"
            answer = self._http.request(method, url, headers=headers, content=body)
            document = answer.json()
        except (CredentialUnusable, httpx.HTTPError, ValueError) as fault:
            told = str(fault) if isinstance(fault, CredentialUnusable) else type(fault).__name__
            raise NotAnswered(f"the API server could not be asked ({told})") from fault
        if not isinstance(document, dict):
            raise NotAnswered("the API server answered with no object")
        return ServerAnswer(answer.status_code, document)

    def object_at(self, path: str) -> Mapping[str, Any] | None:
        """The object at a path; None where the server says that there is none. Raises `NotAnswered`."""
        answer = self.ask("GET", path)
        if answer.status == 200 and isinstance(answer.document.get("metadata"), dict):
            return answer.document
        if answer.status == 404 and answer.document.get("reason") == "NotFound":
            return None
        raise NotAnswered(f"reading the object was answered with {answer.status}: {answer.message[:200]}")

    def identity(self) -> str:
        """The uid of the namespace kube-system, by which clusters are told apart. Raises `NotAnswered`."""
        found = self.object_at("api/v1/namespaces/kube-system")
        if found is None:
            raise NotAnswered("the cluster has no namespace kube-system")
        return str(found["metadata"].get("uid", ""))

    def require_own(self, request: ApiRequest) -> None:
        """Raise `NotAnswered` unless the server serves the resource's group by itself (rule 1)."""
        if not request.group:
            return
        found = self.object_at(f"apis/apiregistration.k8s.io/v1/apiservices/{request.version}.{request.group}")
        if found is None or not isinstance(found.get("spec"), dict) or found["spec"].get("service") is not None:
            raise NotAnswered(f"{request.api_version} is served by another server, which may not know dry runs")

    def dry_run(self, request: ApiRequest, head: Head, document: Any, body: bytes) -> ServerAnswer:
        """Ask for the same change as a dry run (rule 1). Raises `NotAnswered`."""
        self.require_own(request)
        query = head.query
        if request.verb == "delete" and document is not None:
            body = json.dumps({**document, "dryRun": ["All"]}).encode()
        else:
            query = f"{query}{'&' if query else ''}dryRun=All"
        answer = self.ask(
            head.method,
            head.path,
            query=query,
            content_type=head.header("content-type"),
            body=body or None,
        )
        about_dry_runs = "dry run" in answer.message.lower() or "dryrun" in answer.message.lower()
        if answer.status in (401, 408, 429) or answer.status >= 500 or (answer.status >= 400 and about_dry_runs):
            raise NotAnswered(f"the dry run was answered with {answer.status}: {answer.message[:200]}")
        return answer


def content_digest(found: Mapping[str, Any] | None, *, with_status: bool) -> str:
    """The digest of what a person set in an object; of an absent one, that of nothing (rule 3)."""
    text = json.dumps(without_bookkeeping(found, with_status=with_status), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def without_bookkeeping(found: Mapping[str, Any] | None, *, with_status: bool = False) -> dict[str, Any]:
    """An object without what the server keeps in it by itself (rule 3)."""
    if found is None:
        return {}
    kept = {name: value for name, value in found.items() if with_status or name != "status"}
    about = found.get("metadata")
    if isinstance(about, dict):
        kept["metadata"] = {name: value for name, value in about.items() if name not in _SERVERS_OWN}
    return kept


@dataclass(frozen=True)
class Change:
    """One field that would be otherwise; `None` where it is not there."""

    path: tuple[str, ...]
    before: Any
    after: Any


def changes(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """The fields that differ between two objects; a list is one field."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from changes(before.get(name), after.get(name), (*path, name))
    elif before != after:
        yield Change(path, before, after)


def changed_part(found: list[Change]) -> dict[str, Any]:
    """Make an object of the fields that changes would set and of no others; a removed field is not in it."""
    made = dict[str, Any]()
    for each in found:
        if each.after is None or not each.path or _LAST_APPLIED in each.path:
            continue
        place = made
        for name in each.path[:-1]:
            place = place.setdefault(name, {})
        place[each.path[-1]] = each.after
    return made


def describe_changes(found: list[Change], *, secret: bool) -> str:
    """The changes in lines for a person; of a secret only the places."""
    if not found:
        return "nothing would change"
    lines, room = list[str](), _MOST_TEXT
    for line in (_describe_change(each, secret=secret) for each in found):
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join([*lines, *([f"and {len(found) - len(lines)} more"] if len(found) > len(lines) else [])])


def _describe_change(change: Change, *, secret: bool) -> str:
    place = "/" + "/".join(name.replace("~", "~0").replace("/", "~1") for name in change.path)
    before, after = ("nothing" if each is None else _short(each) for each in (change.before, change.after))
    if secret or _LAST_APPLIED in change.path:
        before, after = ("nothing" if each is None else "not shown" for each in (change.before, change.after))
    return f"{place}: {before} -> {after}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _MOST_VALUE else f"{text[:_MOST_VALUE]}… ({len(text)} characters)"
