"""A request to Kubernetes' API by its verb, resource, namespace and name, as the API server itself reads its path.

1. A path is read as `RequestInfoFactory` of k8s.io/apiserver reads it, over plain segments only; the watch and proxy
   prefixes of old servers are no paths here.
2. A body decides whether a DELETE is a dry run: where there is one, the server does not look at the query (its
   `DeleteResource` handler). Elsewhere the query decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_plus

from counterfoil.gateway.reader import Head

_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~-]{0,252}")
_NON_RESOURCES: Final = re.compile(r"(?:|api|apis|version|openapi(?:/.+)?|(?:healthz|livez|readyz)(?:/.+)?)")
_NAMESPACE_PARTS: Final = ("status", "finalize")
_VERBS: Final = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_DRY_RUN: Final = "dryRun"


class UnreadableRequest(Exception):
    """The request cannot be read; the message says why."""


@dataclass(frozen=True)
class ApiRequest:
    """One request for a resource; `group` is empty for the core group, `namespace` for what has none."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str

    @property
    def api_version(self) -> str:
        """Group and version, as objects name them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def collection(self) -> str:
        """The path of the resource's collection at the server."""
        top = f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"
        inside = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{top}{inside}/{self.resource}"

    @property
    def described(self) -> str:
        """Resource, subresource and group, as `kubectl auth can-i` names them: `deployments.apps/scale`."""
        group = f".{self.group}" if self.group else ""
        return f"{self.resource}{group}{'/' if self.subresource else ''}{self.subresource}"


def is_plain_name(name: str) -> bool:
    """True for a name that is one segment of a path; `-` stands for none."""
    return name == "-" or _SEGMENT.fullmatch(name) is not None


def is_non_resource(path: str) -> bool:
    """True for a path of discovery, of the API's description or of the server's health."""
    return _NON_RESOURCES.fullmatch(path.rstrip("/")) is not None


def read_request(head: Head) -> ApiRequest | None:
    """Read the request for a resource (rule 1); None for a list of a group's resources.

    Raises `UnreadableRequest`.
    """
    verb = _VERBS.get(head.method)
    if verb is None:
        raise UnreadableRequest(f"{head.method} is no method of this API")
    segments = head.path.split("/")
    if not all(_SEGMENT.fullmatch(each) for each in segments):
        raise UnreadableRequest("its path is not made of plain names")
    if segments[0] == "api":
        group, rest = "", segments[1:]
    elif segments[0] == "apis" and len(segments) > 1:
        group, rest = segments[1], segments[2:]
    else:
        raise UnreadableRequest("its path leads to no resource")
    if len(rest) < 2:
        return None
    version, parts = rest[0], rest[1:]
    if parts[0] in ("watch", "proxy"):
        raise UnreadableRequest(f"the prefix {parts[0]} is not read here")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in _NAMESPACE_PARTS:
        namespace, parts = parts[1], parts[2:]
    resource, name, *deeper = (*parts, "") if len(parts) < 2 else parts
    if not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    return ApiRequest(verb, group, version, resource, "/".join(deeper), namespace, name)


def read_options(query: str) -> dict[str, str]:
    """The options in a query, each once. Raises `UnreadableRequest`."""
    found = dict[str, str]()
    for part in query.split("&") if query else []:
        name, _, value = (unquote_plus(each) for each in part.partition("="))
        if name in found:
            raise UnreadableRequest(f"it has the option {name[:100]} twice")
        found[name] = value
    return found


def asks_dry_run(request: ApiRequest, options: Mapping[str, str], document: Any) -> bool:
    """True where the server would change nothing (rule 2). Raises `UnreadableRequest` for any other word about it."""
    if request.verb == "delete" and document is not None:
        told = document.get(_DRY_RUN)
        if _DRY_RUN in options and told != ["All"]:
            raise UnreadableRequest("a removal with a body says in that body whether it is a dry run")
        if told not in (None, [], ["All"]):
            raise UnreadableRequest("dryRun is All or missing")
        return bool(told)
    if options.get(_DRY_RUN, "All") != "All":
        raise UnreadableRequest("dryRun is All or missing")
    return _DRY_RUN in options
