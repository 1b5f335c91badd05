"""The writes about systems of record that their page and the API share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from console.edge.schemas import ReasonBody
from console.people.schemas import SecondWordBody
from console.systems import schemas
from console.systems.forms import SystemForm
from console.verbs.verb import FRESH, Verb
from ledger.catalogue.operations import second_person
from ledger.people.rules.confirmation import Answer
from ledger.record.operations import Actor
from reviews.checks.settings import check_settings, complete_settings
from reviews.readback.operations import systems, work_queue
from reviews.readback.rules.limits import limits_of

if TYPE_CHECKING:
    from ledger.models import System

OPERATORS: Final = ("oper", "operator")


def _register(
    *, tenant_id: UUID, name: str, pattern: str, settings: dict[str, Any], by: Actor, at: datetime
) -> tuple[System, bool]:
    check_settings(pattern, settings)
    settings = complete_settings(pattern, settings)
    row, waits = second_person.submit_system(
        tenant_id=tenant_id, name=name, pattern=pattern, settings=settings, actor=by, at=at
    )
    if not waits:
        work_queue.set_lane_limits(tenant_id=tenant_id, system_id=row.id, limits=limits_of(settings))
    return row, waits


def _registered_sentence(registered: tuple[System, bool]) -> str:
    row, waits = registered
    if waits:
        return f"The change of {row.name} waits for a second person."
    return f"{row.name} is registered. Put its credential where its panel says, then test the connection."


def _answer(
    *, tenant_id: UUID, name: str, confirm: bool, reason: str, is_proven: bool, by: Actor, at: datetime
) -> tuple[Any, bool]:
    answer = Answer.CONFIRM if confirm else Answer.DECLINE
    row = systems.decide_change(
        tenant_id=tenant_id, name=name, answer=answer, reason=reason, is_proven=is_proven, by=by, at=at
    )
    return row, confirm


def _answered_sentence(answered: tuple[Any, bool]) -> str:
    row, confirmed = answered
    if confirmed:
        return f"Confirmed. The new settings of {row.name} apply."
    return f"Declined. The settings of {row.name} are unchanged."


def _switch(switch: Callable[..., None], *, tenant_id: UUID, name: str, reason: str, by: Actor, at: datetime) -> str:
    switch(tenant_id=tenant_id, name=name, reason=reason, by=by, at=at)
    return name


REGISTER: Final = Verb(
    name="register_system",
    path="/systems",
    status=201,
    operation=_register,
    body=schemas.SystemBody,
    roles=(*OPERATORS, "administrator"),
    answer=schemas.System,
    told=lambda registered, _: schemas.System.of(registered[0]),
    form_base=SystemForm,
    summary="Register a system of record; its credential is a file; a new address needs a second person",
    done=_registered_sentence,
)
ANSWER: Final = Verb(
    name="answer_system",
    path="/systems/{name}/answer",
    part=str,
    operation=_answer,
    body=SecondWordBody,
    proof=FRESH,
    roles=("operator", "administrator"),
    answer=schemas.System,
    told=lambda answered, _: schemas.System.of(answered[0]),
    summary="Confirm or decline a change of a system as the second person",
    done=_answered_sentence,
)
STOP: Final = Verb(
    name="stop_releasing",
    path="/systems/{name}/stop-releasing",
    part=str,
    operation=partial(_switch, systems.stop_releasing),
    body=ReasonBody,
    roles=OPERATORS,
    answer=schemas.Releasing,
    told=lambda name, _: schemas.Releasing(name=name, stopped=True),
    summary="Pause irreversible actions on a system",
    done=lambda name: f"Irreversible actions on {name} are paused.",
    incomplete="Not paused: enter a reason.",
)
RESUME: Final = Verb(
    name="resume_releasing",
    path="/systems/{name}/resume-releasing",
    part=str,
    operation=partial(_switch, systems.resume_releasing),
    body=ReasonBody,
    roles=OPERATORS,
    answer=schemas.Releasing,
    told=lambda name, _: schemas.Releasing(name=name, stopped=False),
    summary="Resume actions on a system, as far as its health and unverified actions allow",
    done=lambda name: f"Actions on {name} are resumed, provided that it answers.",
    incomplete="Not resumed: enter a reason.",
)
