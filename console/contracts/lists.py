"""Contracts: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.urls import reverse

from approvals.sessions import queries as sessions_queries
from console.contracts import schemas
from console.contracts.contract_check import current_findings, registered_systems
from console.edge.http import TenantRequest
from console.edge.schemas import LintFinding
from console.web import labels
from console.web.list_page import Column, GetRoute, ListPage, sortable
from ledger.catalogue import queries
from ledger.catalogue.rules.contract import load_stored

if TYPE_CHECKING:
    from ledger.models import ContractVersion

OPERATORS: Final = ("oper", "operator", "administrator")


def _rows(request: TenantRequest, found: Sequence[ContractVersion]) -> list[dict[str, Any]]:
    systems = registered_systems(request.tenant.id)
    states = queries.contract_states(request.tenant.id, [each.id for each in found])
    contracts = {each.id: load_stored(bytes(each.document), expected_digest=each.digest) for each in found}
    return [
        {
            "row": row,
            "contract": contracts[row.id],
            "state": states[row.id],
            "findings": len(current_findings(contracts[row.id], systems)),
            "href": reverse("contract", args=[request.tenant.slug, row.name, row.version]),
        }
        for row in found
    ]


def contract_answers(tenant_id: UUID, rows: Sequence[ContractVersion]) -> Callable[[Any], schemas.ContractVersion]:
    """A function that answers each of these versions; what all of them need is looked up once."""
    systems = registered_systems(tenant_id)
    states = queries.contract_states(tenant_id, [row.id for row in rows])

    def contract(row: ContractVersion) -> schemas.ContractVersion:
        found = current_findings(sessions_queries.disclosed_contract(row.tenant_id, row.digest), systems)
        lint = [LintFinding.of(each, detail=each.told) for each in found]
        return schemas.ContractVersion.of(row, lint=lint, state=states[row.id])

    return contract


CONTRACTS: Final = ListPage(
    "contracts",
    columns=(
        sortable("name", "Tool", lambda row: row["row"].name),
        Column("version", "Version", lambda row: row["row"].version),
        Column("state", "State", lambda row: labels.sentence_case(row["state"]), is_usual=False),
        Column(
            "class",
            "Class",
            lambda row: labels.side_effect_class_label(row["contract"].side_effect_class),
            more={"Reversibility": lambda row: labels.reversibility_label(row["contract"].reversibility)},
        ),
        Column(
            "verified",
            "Verified by",
            lambda row: path.system if (path := row["contract"].verification) else "attestation only",
        ),
        Column("findings", "Findings", lambda row: row["findings"], "num"),
        Column("digest", "Digest", lambda row: row["row"].digest, "roomy"),
        sortable("registered_at", "Registered", lambda row: row["row"].registered_at, "num"),
        Column("id", "Id", lambda row: row["row"].id, is_usual=False),
    ),
    query=queries.contract_versions,
    rows_of=_rows,
    get=GetRoute(
        path="/contracts",
        operation="list_contracts",
        summary="All versions of all contracts",
        answer=schemas.ContractVersion,
        told=lambda tenant_id, rows, _: contract_answers(tenant_id, rows),
        readers=(*OPERATORS, "audit", "person"),
    ),
)
