"""The browsable page of the API: the OpenAPI document, written out; it needs no script and no other host."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase


class Docs(DocsBase):
    """The page behind `docs_url`."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        document = api.get_openapi_schema()
        context = {"document": document, "source": self.get_openapi_url(api, kwargs), "groups": _groups(document)}
        return render(request, "api/docs.html", context)


def _groups(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations by their tags, each as the page shows it."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_operation_row(document, path, method, operation))
    return [{"name": name, "operations": found} for name, found in groups.items()]


def _operation_row(document: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {})
    answers = operation["responses"]
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "callers": operation.get("description", "Public; no key needed."),
        "parameters": [_parameter(document, each) for each in operation["parameters"]],
        "body": [(kind, render_schema(document, each["schema"])) for kind, each in body.items()],
        "answers": [_answer(document, status, said) for status, said in answers.items() if "$ref" not in said],
        "problems": [status for status, said in answers.items() if "$ref" in said],
    }


def _parameter(document: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    said = _resolve(document, said)
    return said | {"shape": render_schema(document, said["schema"])}


def _answer(document: dict[str, Any], status: str, said: dict[str, Any]) -> dict[str, Any]:
    content = said.get("content", {}).get("application/json")
    return {"status": status, "shape": render_schema(document, content["schema"]) if content else said["description"]}


def render_schema(document: dict[str, Any], schema: dict[str, Any], margin: str = "") -> str:
    """A schema in readable form: the JSON that it allows, with types as values and `?` for optional members."""
    schema = _resolve(document, schema)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(dict.fromkeys(render_schema(document, each, margin) for each in choices))
    if "enum" in schema or "const" in schema:
        return " or ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    if "properties" in schema:
        return _object(document, schema, margin)
    if "items" in schema:
        return f"[{render_schema(document, schema['items'], margin)}, …]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f'{{"…": {render_schema(document, schema["additionalProperties"], margin)}}}'
    kind = schema.get("type", "anything")
    return schema.get("format") or (" or ".join(kind) if isinstance(kind, list) else str(kind))


def _object(document: dict[str, Any], schema: dict[str, Any], margin: str) -> str:
    inner, required = f"{margin}  ", schema.get("required", [])
    lines = [
        f'{inner}"{name}"{"" if name in required else "?"}: {render_schema(document, part, inner)}'
        for name, part in schema["properties"].items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"


def _resolve(document: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Resolve a reference."""
    while "$ref" in said:
        found: Any = document
        for part in str(said["$ref"]).removeprefix("#/").split("/"):
            found = found[part]
        said = found
    return said
