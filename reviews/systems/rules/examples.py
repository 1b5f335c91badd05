"""The credential and the example contract of a description, for people who set its system up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reviews.systems.rules.description import Description


def credential_example(description: Description) -> dict[str, Any]:
    """The form of the credential; every secret in it is made up."""
    how = description.document["authentication"]
    secret = str(how["secret"])
    parts = {
        "bearer": {"token": secret},
        "basic": {"user": how.get("user", ""), "password": secret},
        "api_key": {"key": secret},
        "oauth_client_credentials": {"client_id": "the id of the client", "client_secret": secret},
    }[how["by"]]
    return {"url": description.document["address"], **parts}


def contract_example(description: Description) -> dict[str, Any]:
    """A contract for a tool that makes one such object and writes its key into it, or changes one where it cannot."""
    makes = "key" in description.fields and "list" in description.gets
    asked = description.parameters("list" if makes else "one")
    worth = ("amount", "currency") if "amount" in description.fields else ()
    named = (*asked, *worth) if makes else (*asked, "id", "state")
    lookup: dict[str, Any] = {"of": {name: f"sr.{name}" for name in asked}} if asked else {}
    if makes:
        lookup |= {"match": {"key": "scope.idempotency_key"}} | {name: f"sr.{name}" for name in worth}
    else:
        lookup |= {"id": "sr.id", "set": {"state": "sr.state"}}
    effect = description.document["object"].replace(" ", "_")
    target = "/".join(f"{{{name}}}" for name in ((*asked, "id") if not makes else asked or ("subject",)))
    if makes and not asked:
        named = (*named, "subject")
    properties: dict[str, Any] = {name: {"type": "string", "minLength": 1, "maxLength": 200} for name in named}
    if worth and makes:
        properties["amount"] = {"type": "integer", "minimum": 1}
        properties["currency"] = {"type": "string", "pattern": "^[A-Z]{3}$"}
    return {
        "name": f"{'make' if makes else 'change'}_{effect}",
        "version": "1.0.0",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": f"{'Makes' if makes else 'Changes'} one {description.document['object']} ({description.title}).",
        "arguments_schema": {
            "type": "object",
            "additionalProperties": False,
            "required": list(properties),
            "properties": properties,
        },
        "side_effect_class": "MEDIUM_RISK_WRITE",
        "reversibility": "COMPENSABLE",
        "target_resource": f"{effect}/{target}",
        "required_effects": [effect],
        "verification": {
            "pattern": description.name,
            "system": description.name,
            "lookup": {"effects": {effect: lookup}},
            "predicates": [f"sa.effects.{effect}.exists", f"sa.effects.{effect}.count == 1"],
        },
    }


def documentation_table(descriptions: Iterable[Description]) -> str:
    """The descriptions as a table of docs/described-systems.md."""
    rows = [
        "| pattern | reads | lists what belongs to | signed by | states | cannot prove |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*rows, *map(_table_row, descriptions)])


def _table_row(description: Description) -> str:
    get = description.gets.get("list", {})
    of = ", ".join(f"`{name}`" for name in description.parameters("list"))
    listed = f"{of}; the list lags" if get.get("lags") else of
    states = "; ".join(f"{kind}: {', '.join(each)}" for kind, each in description.document["states"].items())
    signed = description.document["authentication"]["by"].replace("_", " ")
    unproven = " ".join(description.document["cannot_prove"])
    reads = f"{description.title}, `{description.gets['one']['path']}`"
    return f"| `{description.name}` | {reads} | {listed} | {signed} | {states} | {unproven} |"
