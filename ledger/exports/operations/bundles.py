"""Files of an export: written atomically, then packed into one zip."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from ledger.exports.rules.bundles import Member

README = """\
A bundle of a Counterfoil record.

manifest.json   what is in here, and what was asked for
events/         every index of the range, in order: the event with what it commits to, or the leaf hash of what is
                withheld
checkpoints/    signed heads of the log, with the signatures of witnesses
consistency/    proofs that the newest head continues an older one
timestamps/     time stamps of heads (RFC 3161)
proof.json      the hashes that lead from the range to the newest head
tables/         the same events as CSV or Parquet, for reading; they are no evidence
keys.json       public keys of the console, for information; trust none because it is here
replay.json     contracts and policies by which the runs in here were judged, for manage.py replay --bundle; each is
                known by the SHA-256 that the evidence names
verify_bundle.py  the verifier. Take your own copy from where you trust it, not this one

    python verify_bundle.py BUNDLE --policy FILE [--checkpoint OLD]

It needs Python 3.11 and the package cryptography. FILE is your own policy: the log keys, witnesses and quorum that you
trust, in the format of C2SP tlog-policy. docs/exports.md of Counterfoil describes every part.
"""
TABLE = """
COPY (
    SELECT "index", json_extract_string(e, '$.id') AS id, json_extract_string(e, '$.kind') AS kind,
        json_extract_string(e, '$.subject.kind') AS subject_kind, json_extract_string(e, '$.subject.id') AS subject_id,
        CAST(json_extract(e, '$.seq') AS BIGINT) AS seq, json_extract_string(e, '$.from') AS from_state,
        json_extract_string(e, '$.to') AS to_state, json_extract_string(e, '$.actor.kind') AS actor_kind,
        json_extract_string(e, '$.actor.id') AS actor_id, json_extract_string(e, '$.at') AS at,
        json_extract_string(e, '$.causation') AS causation, leaf, envelope, "open"
    FROM (
        SELECT "index", leaf, envelope, "open", TRY_CAST(envelope AS JSON) AS e FROM read_json(
            $lines, format = 'newline_delimited', maximum_object_size = 134217728,
            columns = {'index': 'BIGINT', 'leaf': 'VARCHAR', 'envelope': 'VARCHAR', 'open': 'VARCHAR'})
        WHERE envelope IS NOT NULL
    ) ORDER BY "index"
) TO '%s' (FORMAT PARQUET, COMPRESSION ZSTD)
"""
COLUMNS: Final = (
    *("index", "at", "kind", "subject_kind", "subject_id", "seq"),
    *("from_state", "to_state", "actor_kind", "actor_id", "event_id", "leaf"),
)
"""The columns of a CSV of events."""
_DAY = (1980, 1, 1, 0, 0, 0)
# A verifier refuses what swells too much; such a file is stored as it is.
_RATIO = 100


def has_parquet() -> bool:
    """Return whether the package that writes Parquet is installed."""
    return importlib.util.find_spec("duckdb") is not None


def offline_verifier() -> bytes:
    """The source of the offline verifier of this installation."""
    return files("ledger").joinpath("verify_bundle.py").read_bytes()


def write_file(file: Path, data: bytes) -> None:
    """Write a file atomically."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.part")
    with part.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


def write_csv(lines: Path, file: Path) -> None:
    """Write the disclosed events of a piece as a CSV file (RFC 4180): a header, then one row per event."""
    part = file.with_name(f"{file.name}.part")
    with lines.open("rb") as source, part.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out)
        table.writerow(COLUMNS)
        for line in map(json.loads, source):
            if line.get("envelope") is not None:
                table.writerow(_row(line, json.loads(line["envelope"])))
    part.replace(file)


def _row(line: Mapping[str, Any], envelope: Mapping[str, Any]) -> list[Any]:
    subject, actor = envelope["subject"], envelope["actor"]
    return [
        *(line["index"], envelope["at"], envelope["kind"], subject["kind"], subject["id"], envelope["seq"]),
        *(envelope.get("from"), envelope.get("to"), actor["kind"], actor["id"], envelope["id"], line["leaf"]),
    ]


def write_parquet(lines: Path, file: Path) -> None:
    """Write the disclosed events of a piece as a Parquet file."""
    import duckdb

    part = file.with_name(f"{file.name}.part")
    with duckdb.connect(":memory:", config={"threads": 1, "autoinstall_known_extensions": False}) as database:
        database.execute(TABLE % str(part).replace("'", "''"), {"lines": str(lines)})
    part.replace(file)


TABLES: Final[dict[str, Callable[[Path, Path], None]]] = {"csv": write_csv, "parquet": write_parquet}
"""What writes a table of the events beside the lines, by format."""


def manifest_entry(name: str, part: bytes | Path) -> Member:
    """The manifest's entry for a part: name, size and SHA-256."""
    size, digest = 0, hashlib.sha256()
    for data in _blocks(part):
        size += len(data)
        digest.update(data)
    return Member(name, size, digest.hexdigest())


def write_zip(file: Path, parts: Mapping[str, bytes | Path]) -> tuple[int, str]:
    """Write a reproducible zip file of these parts and return its size and SHA-256."""
    temporary = file.with_name(f"{file.name}.part")
    with zipfile.ZipFile(temporary, "w") as out:
        for name, part in parts.items():
            _add(out, name, part)
    with temporary.open("rb") as made:
        os.fsync(made.fileno())
        digest = hashlib.file_digest(made, "sha256").hexdigest()
    temporary.replace(file)
    return file.stat().st_size, digest


def _add(out: zipfile.ZipFile, name: str, part: bytes | Path) -> None:
    info = zipfile.ZipInfo(name, _DAY)
    info.external_attr = 0o644 << 16
    info.compress_type = zipfile.ZIP_STORED if _swells(part) else zipfile.ZIP_DEFLATED
    with out.open(info, "w") as to:
        for data in _blocks(part):
            to.write(data)


def _swells(part: bytes | Path) -> bool:
    size, packed, compressor = 0, 0, zlib.compressobj(1)
    for data in _blocks(part):
        size += len(data)
        packed += len(compressor.compress(data))
    return size > _RATIO * (packed + len(compressor.flush()))


def _blocks(part: bytes | Path) -> Iterator[bytes]:
    if isinstance(part, bytes):
        yield part
        return
    with part.open("rb") as file:
        while data := file.read(1 << 20):
            yield data
