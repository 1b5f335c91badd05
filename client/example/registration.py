"""Register the example with the console: its systems, contracts and agent.

Done again, it changes nothing: what is registered already is answered with 409, and that is fine.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from counterfoil.connection import Connection
from counterfoil.problems import NotNow
from example import environment, shop

log = logging.getLogger("example.registration")

AGENT_VERSION = "2"
_GIVE_UP_AFTER_S = 60.0


def run() -> None:
    """Register everything with the operator's key."""
    connection = Connection(
        url=environment.setting("COUNTERFOIL_URL"),
        key=environment.setting("COUNTERFOIL_OPERATOR_KEY"),
    )
    for system in systems(environment.folder("SHOP_FOLDER")):
        _register(connection, "/systems", system, str(system["name"]))
    documents = contracts()
    for document in documents:
        name = f"{document['name']} {document['version']}"
        _register(connection, "/contracts", document, name)
    _register(connection, "/agents", agent(documents), environment.AGENT_ID)
    connection.close()


def contracts() -> list[dict[str, Any]]:
    """The contract documents of the example's tools, by name."""
    folder = files("example").joinpath("contracts")
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".json"))
    return [json.loads(folder.joinpath(name).read_text()) for name in names]


def systems(folder: Path) -> list[dict[str, Any]]:
    """The systems of record, without any secret: the verifier's credentials are the console's."""
    return [
        {
            "name": "shop",
            "pattern": "databases",
            "settings": {"tables": [f"shop.{table}" for table in shop.READABLE]},
        },
        {"name": "documents", "pattern": "filesystems", "settings": {"root": str(folder)}},
        {
            "name": "events",
            "pattern": "queues_events",
            "settings": {"streams": [shop.STREAM, shop.DEAD_LETTERS]},
        },
    ]


def agent(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The registry entry of the scripted agent."""
    return {
        "agent_id": environment.AGENT_ID,
        # A version never changes: one that may call other tools is another version.
        "version": AGENT_VERSION,
        "tools": [document["name"] for document in documents],
        "output_tags": ["example"],
        "model_tier": "scripted",
    }


def _register(connection: Connection, path: str, body: Mapping[str, Any], name: str) -> None:
    try:
        connection.write(path, body, give_up_after_s=_GIVE_UP_AFTER_S)
    except NotNow as known:
        log.info("%s was registered before (%s)", name, known.code)
    else:
        log.info("%s is registered", name)
