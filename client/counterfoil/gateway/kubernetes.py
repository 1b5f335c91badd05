"""The reader of Kubernetes' API: reads and watches pass, a change of one object is held with what it would change.

1. Every answer of the gateway's own is a `Status`, as the API server's: 409 while a request waits or its outcome is
   unknown, 403 where it is rejected or refused. After 429 and 503 clients would send it again by themselves; and after
   the reason `Conflict`, which therefore is none of ours (`kubectl scale` repeats such a request for five minutes).
2. A change is read from its JSON, and asked for as a dry run before it is held. A dry run that the server refuses is
   the answer, and nothing is held. What it does not tell is said to be unknown; then people always decide.
3. Before it is sent the object is read again. Where a person or a program has changed it since, nothing is sent: what
   was approved is a change of the object that was shown.
4. What opens a way past this reading is refused: upgrades (exec, attach, port-forward), proxies, bodies that are not
   JSON, another identity (`Impersonate-…`), tokens of accounts. So are removals of whole collections, and secrets
   unless the settings allow them.
5. A dry run of the client's own passes where the server is known to treat it as one, and is refused elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from counterfoil.canonical import NotCanonical, digest, encode_canonical
from counterfoil.gateway.held import HeldRequest
from counterfoil.gateway.kubernetes_objects import (
    Cluster,
    NotAnswered,
    ServerAnswer,
    changed_part,
    changes,
    content_digest,
    describe_changes,
    without_bookkeeping,
)
from counterfoil.gateway.kubernetes_requests import (
    ApiRequest,
    UnreadableRequest,
    asks_dry_run,
    is_non_resource,
    is_plain_name,
    read_options,
    read_request,
)
from counterfoil.gateway.reader import Head, Intent, Keeps, KeptBody, Passes, WaitEnd, WordedAnswer
from counterfoil.gateway.settings import HostSettings
from counterfoil.gateway.strict_json import UnreadableBody, read_json
from counterfoil.work import Failure, Result, succeeded

_MOST_BODY: Final = 3 << 20
"""The API server takes no larger one (`MaxRequestBodyBytes`)."""
_MOST_MANIFEST: Final = 60_000
_JSON: Final = "application/json"
_PATCHES: Final = {
    "application/json-patch+json": "json patch",
    "application/merge-patch+json": "merge patch",
    "application/strategic-merge-patch+json": "strategic merge patch",
    "application/apply-patch+yaml": "apply",
}
_CHANGED_PARTS: Final = ("", "scale", "status")
_CLOSED_PARTS: Final = ("exec", "attach", "portforward", "proxy")
_REVIEWS: Final = frozenset(
    {("authentication.k8s.io", each) for each in ("selfsubjectreviews", "tokenreviews")}
    | {("authorization.k8s.io", f"{each}accessreviews") for each in ("selfsubject", "localsubject", "subject")}
    | {("authorization.k8s.io", "selfsubjectrulesreviews")}
)
"""Questions in the form of a creation: nothing is stored."""
_SCALED: Final = frozenset(
    {("apps", "deployments"), ("apps", "statefulsets"), ("apps", "replicasets"), ("", "replicationcontrollers")}
)
_OPTIONS: Final = frozenset(
    {"dryRun", "fieldManager", "fieldValidation", "force", "pretty", "timeout", "timeoutSeconds"}
    | {"propagationPolicy", "gracePeriodSeconds", "orphanDependents"}
)
_NOT_DONE: Final = frozenset({400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429})
_REASONS: Final = {
    400: "BadRequest",
    403: "Forbidden",
    409: "Forbidden",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
}
_WORDS: Final = {
    WaitEnd.WAITS: (409, "waits for approval, send it again later: {}"),
    WaitEnd.REFUSED: (403, "{}"),
    WaitEnd.UNKNOWN: (409, "outcome unknown, the cluster is read back: {}"),
}


class KubernetesReader:
    """Reads requests to the API server of one cluster."""

    streams = False
    answers_upgrades = True

    def __init__(self, host: HostSettings) -> None:
        self._host = host
        self._cluster = Cluster(host)
        folder = Path(str(files("counterfoil.gateway"))) / "contracts"
        found = [json.loads(file.read_text()) for file in sorted(folder.glob("kubernetes.*.json"))]
        self.tools: Mapping[str, Mapping[str, Any]] = {each["name"]: each for each in found}

    def admit(self, head: Head) -> Passes | Keeps | WordedAnswer:
        if "upgrade" in head.headers:
            return _refuse("upgrades (exec, attach, port-forward) do not pass: what goes through them is not read")
        reads = head.method in ("GET", "HEAD")
        if is_non_resource(head.path) and reads:
            return Passes()
        try:
            request = read_request(head)
        except UnreadableRequest as fault:
            return _status(400, f"refused: {fault}")
        if request is None:
            return Passes() if reads else _refuse(f"{head.method} of this address")
        # After discovery: kubectl prints no reason there.
        if any(name.startswith("impersonate-") for name in head.headers):
            return _refuse("another identity is not taken on behind this gateway (--as)")
        if why := self._refusal(request):
            return _refuse(why)
        if request.verb in ("get", "list"):
            return Passes()
        return _refuse_media(head) or Keeps(min(self._host.most_bytes, _MOST_BODY))

    def _refusal(self, request: ApiRequest) -> str:
        """The reason for which a request is refused whatever it holds; empty if there is none (rule 4)."""
        if set(request.subresource.split("/")) & set(_CLOSED_PARTS):
            return f"{request.described}: what goes through it cannot be read, so it does not pass"
        if (request.group, request.resource) == ("", "secrets") and not self._host.secrets:
            return "secrets do not pass this gateway (the setting `secrets` of this host)"
        if request.verb in ("get", "list"):
            return ""
        if request.verb == "deletecollection":
            return "a whole collection is not removed at once: name each object"
        if (request.resource, request.subresource) == ("serviceaccounts", "token"):
            return "a token of an account is a credential, and is not given out here"
        if request.verb == "create" and request.name and request.subresource != "eviction":
            return f"creating {request.described} is not read here"
        if request.verb != "create" and request.subresource not in _CHANGED_PARTS:
            return f"changing {request.described} is not read here"
        return ""

    def read(self, head: Head, body: KeptBody) -> Intent | Passes | WordedAnswer:
        request = read_request(head)
        assert request is not None
        try:
            document = read_json(body.file, body.size) if body.size else None
            options = read_options(head.query)
            if unknown := sorted(options.keys() - _OPTIONS):
                raise UnreadableRequest(f"its option {unknown[0][:100]} is not known here")
            _check_document(request, head, document)
            if asks_dry_run(request, options, document):
                return self._judge_dry_run(request)
        except (UnreadableRequest, UnreadableBody) as fault:
            return _status(422, f"refused: {fault}")
        if request.verb == "create" and (request.group, request.resource) in _REVIEWS:
            return Passes()
        return self._propose(request, head, body, document, options)

    def _judge_dry_run(self, request: ApiRequest) -> Passes | WordedAnswer:
        try:
            self._cluster.require_own(request)
        except NotAnswered as fault:
            return _refuse(f"this dry run does not pass: {fault}")
        return Passes()

    def _propose(
        self, request: ApiRequest, head: Head, body: KeptBody, document: Any, options: Mapping[str, str]
    ) -> Intent | WordedAnswer:
        seen = _Foreseen(self._cluster, request, head, document)
        answer = seen.look(body.file.read_bytes() if body.size else b"")
        if answer is not None:
            return WordedAnswer(answer.status, json.dumps(answer.document).encode(), _JSON)
        place = {"method": head.method, "path": f"/{head.path}", "query": head.query}
        arguments = {
            "host": self._host.url,
            "cluster": seen.cluster,
            "verb": _PATCHES.get(_media(head), request.verb) if request.verb == "patch" else request.verb,
            "resource": request.described,
            "api_version": seen.api_version,
            "kind": seen.kind,
            "namespace": request.namespace or "-",
            "object": seen.name,
            "options": [f"{name}={value}" for name, value in options.items()],
            "difference": seen.difference,
            "uid": seen.uid or "none",
            "content": seen.content,
            "request": {**place, "sha256": body.sha256, "size": body.size},
        }
        tool = _tool(request, seen)
        if tool in ("kubernetes.create", "kubernetes.change"):
            arguments["manifest"] = seen.manifest
        try:
            encode_canonical(arguments)
        except NotCanonical as fault:
            return _status(422, f"refused: {fault}")
        media = _media(head)
        key = digest({"host": self._host.url, **place, "type": media, "body": body.sha256})
        return Intent(tool, arguments, key, {})

    def stale(self, held: HeldRequest) -> str:
        """The reason for which a granted request no longer is what was approved (rule 3); empty if there is none."""
        given = held.arguments
        if not given["content"]:
            return ""
        head = Head(held.method, held.path, held.query, {})
        request = read_request(head)
        assert request is not None
        try:
            found = self._cluster.object_at(_object_path(request, given["object"]))
        except NotAnswered as fault:
            return f"what it was to change could not be read again: {fault}"
        if content_digest(found, with_status=request.subresource == "status") == given["content"]:
            return ""
        return "the object has changed since this change of it was shown; send the request again to see the new one"

    def progress(self, text: str) -> bytes:
        return b""

    def opening(self) -> WordedAnswer:
        raise AssertionError("an answer of this reader begins when it is whole")

    def ended(self, shape: Mapping[str, Any], ending: WaitEnd, text: str) -> WordedAnswer:
        status, words = _WORDS[ending]
        return _status(status, words.format(text))

    def not_kept(self, head: Head, text: str) -> WordedAnswer:
        return _status(413, text)

    def judge(self, held: HeldRequest, status: int, content_type: str, body: bytes) -> Result:
        raw = {"status": status, "type": content_type}
        if status in (200, 201, 202) and content_type == _JSON:
            return succeeded(f"HTTP {status}", raw=raw)
        try:
            told = json.loads(body)
        except ValueError:
            told = {}
        message = str(told.get("message", ""))[:400] if isinstance(told, dict) else ""
        if status in _NOT_DONE and message:
            return Result("failed", error=Failure(f"HTTP_{status}", f"The API server refused it: {message}"), raw=raw)
        text = f"The API server answered with {status}, which does not say whether it was done. {message}".strip()
        return Result("timeout", error=Failure("UNKNOWN_STATUS", text, "unknown"), raw=raw)

    def relay(self, held: HeldRequest, status: int, content_type: str, body: bytes) -> WordedAnswer:
        return WordedAnswer(status, body, content_type)


class _Foreseen:
    """One change before it is held: the object as it is, and as the server says that it would be (rule 2)."""

    def __init__(self, cluster: Cluster, request: ApiRequest, head: Head, document: Any) -> None:
        self._server, self._request, self._head, self._document = cluster, request, head, document
        self.name = request.name or _name_in(document)
        self.cluster, self.uid, self.kind, self.api_version = "unknown", "", "unknown", request.api_version
        self.difference, self.manifest, self.content = "", "", ""

    @property
    def can_be_read_back(self) -> bool:
        """True where the object is known and can be compared with what was approved."""
        return "unknown" not in (self.cluster, self.kind) and self.name != "-"

    def look(self, body: bytes) -> ServerAnswer | None:
        """Read the object and try the change; return the server's refusal of it, if it refuses."""
        request = self._request
        try:
            self.cluster = self._server.identity()
            live = self._server.object_at(_object_path(request, self.name)) if self.name != "-" else None
            tried = self._server.dry_run(request, self._head, self._document, body)
        except NotAnswered as fault:
            self.difference = f"unknown: {fault}"
            return None
        if tried.status >= 300:
            return tried
        named = live if request.subresource or request.verb == "delete" else tried.document
        self.kind = str((named or {}).get("kind") or "unknown")
        self.api_version = str((named or {}).get("apiVersion") or request.api_version)
        self.uid = str((live or {}).get("metadata", {}).get("uid", ""))
        if self.name != "-":
            self.content = content_digest(live, with_status=request.subresource == "status")
        self._compare(live, tried.document)
        return None

    def _compare(self, live: Mapping[str, Any] | None, tried: Mapping[str, Any]) -> None:
        request = self._request
        secret = (request.group, request.resource) == ("", "secrets")
        if request.verb == "delete" or request.subresource == "eviction":
            self.difference = f"the {self.kind} {self.name} is removed"
            return
        if request.subresource == "scale":
            before, after = ((each or {}).get("spec", {}).get("replicas") for each in (live, tried))
            self.difference = f"/spec/replicas: {before} -> {after}"
            self.manifest = json.dumps({"spec": {"replicas": after}})
            return
        with_status = request.subresource == "status"
        would = list(
            changes(
                without_bookkeeping(live, with_status=with_status), without_bookkeeping(tried, with_status=with_status)
            )
        )
        self.difference = describe_changes(would, secret=secret)
        # What a creation sends is compared afterwards; a dry run fills in names and addresses that chance decides.
        wanted = self._document if live is None and isinstance(self._document, dict) else changed_part(would)
        self.manifest = "" if secret else json.dumps(without_bookkeeping(wanted), ensure_ascii=False, sort_keys=True)


def _tool(request: ApiRequest, seen: _Foreseen) -> str:
    scaled = request.subresource != "scale" or (request.group, request.resource) in _SCALED
    if not seen.can_be_read_back or request.subresource == "status" or not scaled:
        return "kubernetes.unread_change"
    if request.subresource == "eviction" or request.verb == "delete":
        return "kubernetes.delete" if seen.uid else "kubernetes.unread_change"
    if not seen.manifest or len(seen.manifest) > _MOST_MANIFEST:
        return "kubernetes.unread_change"
    return "kubernetes.change" if seen.uid else "kubernetes.create"


def _name_in(document: Any) -> str:
    """The name that a creation gives its object; `-` where the server makes one up."""
    about = document.get("metadata") if isinstance(document, dict) else None
    name = about.get("name") if isinstance(about, dict) else None
    return str(name) if name else "-"


def _object_path(request: ApiRequest, name: str) -> str:
    return f"{request.collection}/{name}"


def _check_document(request: ApiRequest, head: Head, document: Any) -> None:
    """Raise `UnreadableRequest` unless the body is of the form that its verb and type have."""
    if request.verb == "delete":
        if document is not None and not isinstance(document, dict):
            raise UnreadableRequest("the body of a removal is an object")
        return
    if document is None:
        raise UnreadableRequest("it has no body")
    if not request.name and not is_plain_name(_name_in(document)):
        raise UnreadableRequest("its object has no plain name")
    if isinstance(document, list) != (_media(head) == "application/json-patch+json"):
        raise UnreadableRequest("its body is not of the form of its type")


def _media(head: Head) -> str:
    return head.header("content-type").partition(";")[0].strip().lower()


def _refuse_media(head: Head) -> WordedAnswer | None:
    """The refusal of a body that is not JSON; None for one that is (rule 4)."""
    media = _media(head)
    if head.header("content-encoding") not in ("", "identity"):
        return _status(415, "a compressed body is not read here")
    if head.method == "PATCH":
        if media in _PATCHES:
            return None
    elif media == _JSON or (head.method == "DELETE" and not media):
        return None
    binary = " (protobuf and CBOR cannot be shown)" if "protobuf" in media or "cbor" in media else ""
    return _status(415, f"a body of the type {media[:100] or 'none'} is not read here: send JSON{binary}")


def _refuse(why: str) -> WordedAnswer:
    return _status(403, f"refused: {why}")


def _status(code: int, text: str) -> WordedAnswer:
    """A `Status` as the API server's own (rule 1)."""
    about = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    told = {"message": f"Counterfoil: {text}", "reason": _REASONS[code], "code": code}
    return WordedAnswer(code, json.dumps(about | told).encode(), _JSON)
