"""The schemas under which entries and observations are written, which change only by release (R-RG-10).

1. A schema has a name, a version and a digest: SHA-256 over its canonical JSON, so that anybody who has the schema can
   tell that it is the one that is named.
2. The verification policy in force names the version of each. A policy of before names none: then it is that of
   `BUILT_IN`, whose digests are fixed here and not read from the files.
3. A program writes only under a schema that it carries and that is in force. A file that was edited, a version that
   nobody released, and a program that is older than the released version are refused alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import orjson

from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.refusals import Refused

BUILT_IN: Final[Mapping[str, Mapping[str, Any]]] = {
    "ledger_entry": {"version": 2, "digest": "0b9d54dc128b3c5c42259d90b24dbc25f362bdacb2d600d055994591f0137baf"},
    "observation": {"version": 1, "digest": "67d8377c938a7dde8b05134f151bc374d697b8bc7bec68fddf41b1c60cb6ede9"},
}


class SchemaNotReleased(Refused):
    """The verification policy in force names another schema of the record than this program writes."""

    code = "SCHEMA_NOT_RELEASED"
    status = 503


@dataclass(frozen=True)
class RecordSchema:
    """One version of a schema, as the program carries it."""

    name: str
    version: int
    document: Mapping[str, Any]

    def reference(self) -> dict[str, Any]:
        """The version and digest by which a policy names it."""
        return {"version": self.version, "digest": digest(canonical(dict(self.document)))}


def _read_carried(name: str, version: int) -> RecordSchema:
    stored = resources.files("ledger.record.rules").joinpath(f"{name}.schema.json").read_bytes()
    return RecordSchema(name, version, orjson.loads(stored))


ENTRY: Final = _read_carried("ledger_entry", 2)
OBSERVATION: Final = _read_carried("observation", 1)
WRITABLE: dict[str, list[dict[str, Any]]] = {each.name: [each.reference()] for each in (ENTRY, OBSERVATION)}
"""The versions that this program can write, by name, as a policy names them."""


def check_schemas(named: Mapping[str, Any] | None) -> None:
    """Refuse to write where the policy in force names a schema that this program does not write (rules 2 and 3)."""
    for name, built_in in BUILT_IN.items():
        wanted = (named or {}).get(name, built_in)
        if wanted not in WRITABLE[name]:
            raise SchemaNotReleased(
                f"The verification policy in force names version {wanted['version']} of the schema {name}"
                f" ({wanted['digest'][:12]}…), which this program does not write. Nothing is written."
            )
