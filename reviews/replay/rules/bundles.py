"""Replay bundles: everything that a replay needs of some actions, to be judged again elsewhere (R-LE-14, R-LE-15).

1. A replay bundle is one JSON document: `runs` with evidence and the entry that each began with, and `documents`, the
   contracts, policies and recovery rows that these name, each under its SHA-256.
2. An exported bundle of the record holds the same: evidence and entries stand in its lines of events, `documents` in
   its member `replay.json`. Whether the lines are genuine is what `verify_bundle.py` tells; here only a document that
   is not what its digest says is left out, so that the runs that name it are not replayable.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.contract import Contract, ContractAltered
from ledger.catalogue.rules.lent_lookups import with_lookup_of
from ledger.catalogue.rules.policies import DecidingPolicy
from ledger.record.rules.canonical import digest
from reviews.recovery.rules import recovery_table
from reviews.recovery.rules.recovery_table import RecoveryRow
from reviews.replay.rules.replay import JUDGING, StoredPolicy, StoredRun

FORMAT = "counterfoil-replay"
VERSION = 1
MEMBER = "replay.json"
"""The member of an exported bundle with the documents."""


class BadBundle(Exception):
    """This is no bundle that can be replayed; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The contracts, policies and recovery rows that runs name, by those names."""

    contracts: Mapping[str, Contract] = field(default_factory=dict)
    policies: Mapping[tuple[str, str], DecidingPolicy] = field(default_factory=dict)
    recovery_rows: Mapping[str, tuple[RecoveryRow, ...]] = field(default_factory=dict)


def named_documents(evidence: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """The digests that these runs' evidence names: of contracts, of policies by kind, of recovery rows."""
    found: dict[str, set[str]] = {name: set() for name in ("contract", *JUDGING, "recovery_rows")}
    for given in (each["circumstances"] for each in evidence if "circumstances" in each):
        found["contract"] |= {given["contract"], *([given["lookup"]] if "lookup" in given else [])}
        found["recovery_rows"].add(given["recovery_rows"])
        for kind, each in given["policies"].items():
            found[kind].add(each["digest"])
    return found


def write_documents(
    named: Mapping[str, set[str]], *, contracts: Iterable[bytes], policies: Iterable[DecidingPolicy]
) -> dict[str, Any]:
    """The documents as a bundle holds them: of contracts the bytes, of policies versions too, and the built-in rows."""
    rows, own = recovery_table.TABLE["rows"], recovery_table.BUILT_IN.digest
    return {
        "contracts": [document.decode() for document in contracts],
        "policies": [
            {"kind": each.kind, "version": each.version, "document": bytes(each.document).decode()} for each in policies
        ],
        "recovery_rows": {own: rows} if own in named["recovery_rows"] else {},
    }


def judging_contract(known: Mapping[str, Contract], circumstances: Mapping[str, Any]) -> Contract | None:
    """Return the contract that a run was judged by, with its substituted lookup; None if one of them is unknown."""
    contract, lookup = known.get(circumstances.get("contract", "")), circumstances.get("lookup")
    if contract is None or lookup is None:
        return contract
    return with_lookup_of(known[lookup], contract) if lookup in known else None


def read_documents(given: Mapping[str, Any]) -> Documents:
    """Return the documents of a bundle under their own digests; leave out those that cannot be read."""
    try:
        texts = [text.encode() for text in given["contracts"]]
        policies = [
            StoredPolicy(kind=each["kind"], version=each["version"], digest=digest(data), document=data)
            for each in given["policies"]
            for data in [each["document"].encode()]
        ]
        return Documents(
            contracts={name: found for text in texts for name, found in _contract(text)},
            policies={(each.kind, each.digest): each for each in policies},
            recovery_rows={name: found for name, rows in given["recovery_rows"].items() for found in _rows(name, rows)},
        )
    except (KeyError, TypeError, AttributeError) as problem:
        raise BadBundle(f"Its documents cannot be read: {problem!r:.100}.") from None


def _contract(text: bytes) -> Iterator[tuple[str, Contract]]:
    name = digest(text)
    try:
        yield name, contracts.load_stored(text, expected_digest=name)
    except (ContractAltered, ValueError, KeyError, TypeError):
        return


def _rows(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[RecoveryRow, ...]]:
    try:
        yield recovery_table.parse_rows(rows, expected_digest=name)
    except (ValueError, KeyError, TypeError):
        return


def write_bundle(action_id: str, runs: Sequence[StoredRun], documents: Mapping[str, Any]) -> dict[str, Any]:
    """The replay bundle of one action (rule 1)."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "id": action_id,
        "runs": [
            {
                "action_id": run.action_id,
                "number": run.number,
                "pointer": run.pointer,
                "at": run.at.isoformat(),
                "evidence": run.evidence,
                "entry": run.entry,
                "missing": run.missing,
            }
            for run in runs
        ],
        "documents": documents,
    }


def read_bundle(data: bytes) -> list[StoredRun]:
    """The runs of a replay bundle (rule 1)."""
    try:
        given = orjson.loads(data)
        if (given["format"], given["version"]) != (FORMAT, VERSION):
            raise BadBundle(f"It is of the format {given['format']} {given['version']}, which is not known here.")
        documents = read_documents(given["documents"])
        return [_stored_run(documents, **(each | {"at": datetime.fromisoformat(each["at"])})) for each in given["runs"]]
    except (ValueError, KeyError, TypeError) as problem:
        raise BadBundle(f"It is no replay bundle: {problem!r:.100}.") from None


def read_export(lines: Iterable[bytes], documents: Documents) -> Iterator[StoredRun]:
    """The runs whose evidence an exported bundle discloses, in the order of its log (rule 2)."""
    entries: dict[str, tuple[int, dict[str, Any]]] = {}
    for line in map(orjson.loads, lines):
        envelope = _opened_text(line, "envelope")
        event = orjson.loads(envelope) if envelope else None
        if event is None or event["subject"]["kind"] != "action":
            continue
        action_id = event["subject"]["id"]
        opened = [(promise, answer) for promise, answer in zip(event["commitments"], line["open"], strict=False)]
        parts = {
            promise["purpose"]: _opened_text(answer, "text") for promise, answer in opened if not promise["pointer"]
        }
        detail = orjson.loads(parts.get("detail") or b"{}")
        listed = detail.get("listed")
        if listed:
            kept: Mapping[str, Any] = next(
                (answer for promise, answer in opened if promise["pointer"] == listed["pointer"]), {}
            )
            data, began = _opened_text(kept, "text"), entries.get(action_id)
            evidence = orjson.loads(data) if data else None
            seq = (evidence or {}).get("circumstances", {}).get("seq")
            yield _stored_run(
                documents,
                action_id=action_id,
                number=listed["number"],
                pointer=listed["pointer"],
                at=datetime.fromisoformat(event["at"]),
                evidence=evidence,
                entry=began[1] if began is not None and began[0] == seq else None,
                missing="" if data else f"Its evidence is not in the bundle: {kept.get('gone', 'lost')}.",
            )
        if parts.get("entry"):
            entries[action_id] = event["seq"], orjson.loads(parts["entry"] or b"{}")


def _opened_text(given: Mapping[str, Any], name: str) -> bytes | None:
    """Return the bytes that a line holds as text, or as base64 if they are not text."""
    if name in given:
        return str(given[name]).encode()
    return base64.b64decode(given["base64"]) if "base64" in given else None


def _stored_run(documents: Documents, **parts: Any) -> StoredRun:
    given = (parts["evidence"] or {}).get("circumstances", {})
    named = {kind: each["digest"] for kind, each in given.get("policies", {}).items()}
    return StoredRun(
        **parts,
        contract=judging_contract(documents.contracts, given),
        policies={
            kind: documents.policies[kind, name] for kind, name in named.items() if (kind, name) in documents.policies
        },
        recovery_rows=documents.recovery_rows,
    )
