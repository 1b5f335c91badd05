"""The overrides of a stop of starts, by one declaration each for their page and the API."""

from __future__ import annotations

from typing import Final

from approvals.execution.operations import overrides
from console.edge.schemas import ReasonBody
from console.ledger import schemas
from console.verbs.verb import Verb

OPERATOR: Final = ("operator",)
PLACE_OVERRIDE: Final = Verb(
    name="place_override",
    path="/ledger/overrides",
    operation=overrides.place_override,
    body=schemas.OverrideBody,
    roles=OPERATOR,
    answer=schemas.Override,
    status=201,
    summary="Let actions of some tools start for a while, although the record has gone back",
    done=lambda row: f"Actions of {', '.join(row.tools)} start until the allowance ends or you end it.",
    incomplete="Not saved: name the tools, how long, and why.",
)
END_OVERRIDE: Final = Verb(
    name="end_override",
    path="/ledger/overrides/{override_id}/end",
    operation=overrides.end_override,
    body=ReasonBody,
    roles=OPERATOR,
    answer=schemas.OverrideEnded,
    told=lambda _, ids: schemas.OverrideEnded(id=ids["override_id"], ended=True),
    summary="End an override before its time",
    done="Ended. Nothing of these tools starts on this record any more.",
    incomplete="Not saved: enter why.",
)
