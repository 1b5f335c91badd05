"""Compare the directory with what the cells themselves know of their tenants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from console.cells.directory import Cell, Directory, Placement

_DEFAULTS: Final[Mapping[str, Any]] = {"application_name": "counterfoil cells", "connect_timeout": 5}

# One that has moved away keeps its row, and one that is on its way here has one already. The column is read as JSON,
# since a cell of the version before has none.
_SERVED: Final = (
    "SELECT id, slug FROM ledger_tenant t"
    " WHERE coalesce(to_jsonb(t) ->> 'moving', '') NOT IN ('moved', 'imported', 'verified')"
)

Tenants = Mapping[UUID, str]
"""The slugs of a cell's tenants by their ids."""


@dataclass(frozen=True)
class Finding:
    """One difference, or one cell that is not known; `is_fault` is False for the latter."""

    is_fault: bool
    sentence: str


def ask_cell(cell: Cell) -> Tenants | str:
    """The tenants that a cell serves by its own record; a sentence if that is not known."""
    if not cell.record:
        return f"{cell.name} was not asked: the directory has no address of its record."
    try:
        address = make_conninfo(**{**_DEFAULTS, **conninfo_to_dict(cell.record)})
        with psycopg.connect(address, autocommit=True) as connection:
            return dict(connection.execute(_SERVED).fetchall())
    except psycopg.Error as error:
        return f"{cell.name} did not answer: {str(error).strip()}"


def compare(directory: Directory, answers: Mapping[str, Tenants | str]) -> list[Finding]:
    """The differences between the directory and the cells' answers; what no answer tells is not known."""
    known = {name: answer for name, answer in answers.items() if not isinstance(answer, str)}
    silent = [answer for answer in answers.values() if isinstance(answer, str)]
    placed = {each.tenant_id: each for each in directory.placements}
    having: dict[UUID, dict[str, str]] = {}
    for name, tenants in known.items():
        for tenant_id, slug in tenants.items():
            having.setdefault(tenant_id, {})[name] = slug
    faults = [text for each in sorted(having) for text in _differences(having[each], placed.get(each))]
    faults += [
        f"{each.slug}: {f'{each.cell} does not have it' if silent else 'no cell has it'}, and the directory says"
        f" {each.cell}."
        for each in directory.placements
        if each.tenant_id not in having and (not silent or each.cell in known)
    ]
    return [Finding(False, text) for text in silent] + [Finding(True, text) for text in faults]


def _differences(slugs: Mapping[str, str], standing: Placement | None) -> Iterator[str]:
    """The sentences about a tenant that these cells have, each under a slug."""
    names, slug = sorted(slugs), next(iter(slugs.values()))
    if len(names) > 1:
        yield f"{slug}: {' and '.join(names)} have it."
    if standing is None:
        yield f"{slug}: {', '.join(names)} has it, and the directory does not place it."
    elif standing.cell not in slugs:
        yield f"{slug}: {', '.join(names)} has it, and the directory says {standing.cell}."
    elif slugs[standing.cell] != standing.slug:
        yield f"{slug}: that is its name at {standing.cell}, and the directory says {standing.slug}."
