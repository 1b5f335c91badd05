"""A first draft of a description from an OpenAPI document (3.x); pure.

Only what the document says under a plain name is taken over. No such document says what a state means, how an object
that is not there is answered, how a list goes on and what cannot be proved: a person writes that, and until then the
draft is no valid description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from ledger.record.rules.refusals import Refused

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id",),
    "state": ("status", "state"),
    "amount": ("amount",),
    "currency": ("currency", "currency_code"),
    "customer": ("customer", "customer_id", "requester_id"),
    "time": ("created_at", "created", "create_time", "createdAt"),
    "version": ("updated_at", "updated", "update_time", "updatedAt", "version"),
}
"""The names under which a value is recognised, and no others."""
_MAX_DEPTH: Final = 40


class UnusableDocument(Refused):
    """The document is no OpenAPI document from which a description can be drafted."""

    code = "UNUSABLE_DOCUMENT"
    status = 422


@dataclass
class DescriptionDraft:
    """A draft, and what a person must add, as sentences."""

    document: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def readable_paths(openapi: Mapping[str, Any]) -> list[str]:
    """The paths that end in a parameter and answer GET: each may be the address of one object."""
    paths = openapi.get("paths")
    if not str(openapi.get("openapi", "")).startswith("3.") or not isinstance(paths, dict):
        raise UnusableDocument("This is no OpenAPI document of version 3.")
    return [
        path
        for path, item in paths.items()
        if re.search(r"/\{[^/{}]+\}$", path) and isinstance(item, dict) and "get" in item
    ]


def draft_description(openapi: Mapping[str, Any], path: str, name: str) -> DescriptionDraft:
    """The draft for the object at a path."""
    if path not in readable_paths(openapi):
        raise UnusableDocument(f"{path} is no path of the document that ends in a parameter and answers GET.")
    made = _OpenApiReader(openapi)
    found, at = made.object_of(path)
    holder, _, parameter = path.rpartition("/")
    fields = made.fields(found, parameter.strip("{}"))
    document = {
        "name": name,
        "title": str(_member(openapi, "info").get("title", name))[:300],
        "object": re.sub(r"[^a-z]+", " ", holder.rpartition("/")[2].lower()).strip().removesuffix("s") or "object",
        "documentation": made.documentation(),
        "address": made.address(),
        "authentication": made.authentication(),
        "gets": {
            "one": {"path": made.prefix + holder + "/{id}", "at": at, "absent": {"status": 404, "where": {}}},
            **made.list_of(holder),
        },
        "fields": fields,
        "states": {},
        "indicators": {},
        "freshness": {},
        "limits": {},
        "cannot_prove": [],
    }
    made.remarks += [
        "How it says that an object is not there: the values of its answer by their JSON Pointers.",
        "What each state means: terminal, pending, failed, undone or other."
        + made.listed_states(found, fields.get("state", "")),
        "The failure indicators, the rate limit, the freshness, and what cannot be proved.",
    ]
    return DescriptionDraft(document, made.remarks)


def _member(part: Any, *names: str) -> dict[str, Any]:
    """The object at these names; an empty one where the document has something else there."""
    for name in names:
        part = part.get(name) if isinstance(part, dict) else None
    return part if isinstance(part, dict) else {}


class _OpenApiReader:
    """One document that is read, with the remarks so far."""

    def __init__(self, openapi: Mapping[str, Any]) -> None:
        self.openapi = openapi
        self.remarks: list[str] = []
        servers = openapi.get("servers")
        first = servers[0] if isinstance(servers, list) and servers else {}
        self.server = str(_member({"first": first}, "first").get("url", ""))
        self.prefix = urlsplit(self.server).path.rstrip("/") if "{" not in self.server else ""

    def resolve(self, part: Any, depth: int = 0) -> dict[str, Any]:
        """A part without references; the members of `allOf` are put together."""
        if not isinstance(part, dict) or depth > _MAX_DEPTH:
            return {}
        reference = part.get("$ref")
        if isinstance(reference, str):
            found: Any = self.openapi
            if not reference.startswith("#/"):
                self.remarks.append(f"{reference} is in another document, which was not read.")
                return {}
            for step in reference[2:].split("/"):
                found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
            return self.resolve(found, depth + 1)
        merged: dict[str, Any] = {}
        several = part.get("allOf")
        for each in several if isinstance(several, list) else ():
            for key, value in self.resolve(each, depth + 1).items():
                both = isinstance(value, dict) and isinstance(merged.get(key), dict)
                merged[key] = {**merged[key], **value} if both else value
        return {**merged, **part}

    def object_of(self, path: str) -> tuple[dict[str, Any], str]:
        """The schema of the object that a path answers with, and where it stands."""
        found = self._answer(path)
        properties = _member(found, "properties")
        inner = [(name, self.resolve(each)) for name, each in properties.items()]
        if len(inner) == 1 and "properties" in inner[0][1]:
            return inner[0][1], f"/{inner[0][0]}"
        if not properties:
            self.remarks.append(f"The document does not say what {path} answers with.")
        return found, ""

    def _answer(self, path: str) -> dict[str, Any]:
        answer = self.resolve(_member(self.openapi, "paths", path, "get", "responses", "200"))
        named = (each for kind, each in _member(answer, "content").items() if "json" in kind)
        return self.resolve(_member({"first": next(named, None)}, "first", "schema"))

    def fields(self, schema: Mapping[str, Any], parameter: str) -> dict[str, str]:
        """The JSON Pointers of the fields that stand under a plain name."""
        properties = _member(schema, "properties")
        found = {}
        for name, known in _NAMES.items():
            names = (*known, parameter) if name == "id" else known
            at = next((each for each in names if each in properties), None)
            if at is None:
                self.remarks.append(f"Where `{name}` stands in the object, if it has one.")
            else:
                found[name] = f"/{at}"
        if "amount" in found:
            self.remarks.append("Whether the amount is in minor or major units (`amount_in`).")
        return found

    def listed_states(self, schema: Mapping[str, Any], pointer: str) -> str:
        """The states that the document lists, as the end of a sentence."""
        listed = self.resolve(_member(schema, "properties", pointer.lstrip("/"))).get("enum")
        if not isinstance(listed, list):
            return " The document lists none."
        return f" The document lists {', '.join(map(str, listed))}."

    def list_of(self, path: str) -> dict[str, Any]:
        """The list beside the object, if the document has one that answers with an array."""
        found = self._answer(path)
        arrays = [""] if found.get("type") == "array" else list(self._arrays(found))
        if len(arrays) != 1:
            self.remarks.append(
                "How the operations on a target are listed: the document has no list beside the object."
            )
            return {}
        self.remarks.append("How the list is narrowed to one target, and how it goes on after a page.")
        return {"list": {"path": self.prefix + path, "at": arrays[0], "paging": {}}}

    def _arrays(self, schema: Mapping[str, Any]) -> Iterator[str]:
        for name, each in _member(schema, "properties").items():
            if self.resolve(each).get("type") == "array":
                yield f"/{name}"

    def documentation(self) -> list[str]:
        """The page that the document names."""
        found = str(_member(self.openapi, "externalDocs").get("url", ""))
        if found.startswith("https://"):
            return [found]
        self.remarks.append("The pages of its documentation.")
        return []

    def address(self) -> str:
        """The address of the first server, without a path."""
        parts = urlsplit(self.server)
        if parts.scheme == "https" and "{" not in self.server:
            return f"https://{parts.netloc}"
        self.remarks.append("Its address: the document names none that begins with https.")
        return ""

    def authentication(self) -> dict[str, Any]:
        """The first way of authentication that a description can have."""
        for each in map(self.resolve, _member(self.openapi, "components", "securitySchemes").values()):
            kind, scheme = each.get("type"), str(each.get("scheme", "")).lower()
            flow = _member(each, "flows", "clientCredentials") if kind == "oauth2" else {}
            if kind == "http" and scheme in ("bearer", "basic"):
                self.remarks.append("What the secret is, in words.")
                return {"by": scheme, **({"user": ""} if scheme == "basic" else {}), "secret": ""}
            if kind == "apiKey" and each.get("in") == "header":
                self.remarks.append("What the secret is, in words.")
                return {"by": "api_key", "header": str(each.get("name", "")), "secret": ""}
            if flow:
                self.remarks.append(
                    "What the secret is, in words, and whether the client stands in the header or body."
                )
                path = urlsplit(str(flow.get("tokenUrl", ""))).path
                return {"by": "oauth_client_credentials", "token_path": path, "secret": ""}
        self.remarks.append("How a request is signed: the document names no way that a description can have.")
        return {}
