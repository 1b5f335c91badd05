"""What the live example tells the console: its systems, its contracts and its agent."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.keepalive import Wire
from console.local.installation import ROOT

AGENT = "support"
CONTRACTS = ROOT / "client" / "example" / "contracts"
SYSTEMS = {"shop": "databases", "documents": "filesystems", "events": "queues_events"}


def register(operator: Wire) -> None:
    """Register all of it with the operator's key."""
    for name, pattern in SYSTEMS.items():
        operator.post("/api/v1/systems", {"name": name, "pattern": pattern, "settings": {}})
    documents = [json.loads(file.read_text()) for file in sorted(Path(CONTRACTS).glob("*.json"))]
    for document in documents:
        operator.post("/api/v1/contracts", document)
    tools = [document["name"] for document in documents]
    operator.post("/api/v1/agents", {"agent_id": AGENT, "version": "1", "tools": tools})
