"""The writes about versions of contracts that their page and the API share."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from console.contracts import schemas
from console.contracts.lists import contract_answers
from console.people.schemas import SecondWordBody
from console.releases.schemas import ContractInForce, ReleaseWordBody, RetirementBody
from console.verbs.verb import FRESH, Verb
from ledger.catalogue.operations import releases, second_person
from ledger.people.rules.confirmation import Answer
from ledger.record.operations import Actor

if TYPE_CHECKING:
    from ledger.models import ContractVersion

OPERATORS: Final = ("operator", "administrator")


def contract_answer(row: ContractVersion) -> schemas.ContractVersion:
    """Describe one version."""
    return contract_answers(row.tenant_id, [row])(row)


def _answer(
    *,
    tenant_id: UUID,
    name: str,
    version: str,
    confirm: bool,
    reason: str,
    is_proven: bool,
    by: Actor,
    at: datetime,
) -> tuple[ContractVersion, bool]:
    row = second_person.decide_contract_change(
        tenant_id=tenant_id,
        name=name,
        version=version,
        answer=Answer.CONFIRM if confirm else Answer.DECLINE,
        reason=reason,
        is_proven=is_proven,
        by=by,
        at=at,
    )
    return row, confirm


ANSWER: Final = Verb(
    name="answer_contract",
    path="/contracts/{name}/{version}/answer",
    part=str,
    operation=_answer,
    body=SecondWordBody,
    proof=FRESH,
    roles=OPERATORS,
    answer=schemas.ContractVersion,
    told=lambda answered, _: contract_answer(answered[0]),
    summary="Confirm or decline a weaker contract version as the second person",
    done=lambda answered: (
        "Confirmed. It applies to agents registered for this version or its range." if answered[1] else "Declined."
    ),
)
RETIRE: Final = Verb(
    name="retire_contract",
    path="/contracts/{name}/{version}/retirement",
    part=str,
    operation=releases.retire_contract,
    body=RetirementBody,
    proof=FRESH,
    roles=OPERATORS,
    answer=schemas.ContractVersion,
    told=lambda retired, _: contract_answer(retired[-1]),
    summary="Retire a contract version and all earlier ones; retiring the newest ends the tool",
    done=lambda retired: f"Retired: {', '.join(each.version for each in retired)}. Nothing new is proposed under it.",
)
ROLL_BACK: Final = Verb(
    name="roll_back_contract",
    path="/contracts/{name}/{version}/rollback",
    part=str,
    operation=releases.roll_back_contract,
    body=ReleaseWordBody,
    proof=FRESH,
    roles=OPERATORS,
    answer=ContractInForce,
    summary="Roll back a contract to an earlier version",
    done=lambda row: f"Rolled back. Version {row.version} is the newest in force.",
)
