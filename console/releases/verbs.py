"""The writes about a release, but its draft and its gates, that its page and the API share."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from console.edge.schemas import SHORT_REASON, ReasonBody
from console.releases import release_sentences, release_steps, schemas
from console.verbs.verb import FRESH, Ids, Verb
from ledger.catalogue import queries
from ledger.catalogue.operations import releases
from ledger.catalogue.rules.releases import GATES, CanaryScope
from ledger.record.operations import Actor
from ledger.record.rules.refusals import NotFound

if TYPE_CHECKING:
    from ledger.models import Release

PEOPLE: Final = ("operator", "administrator")


def release_answer(row: Release) -> schemas.Release:
    """Describe a release with its draft and its gates."""
    gates = queries.gate_results(row.tenant_id, row.id)
    return schemas.Release.of(
        row,
        document=release_steps.read_draft(row),
        needs=releases.red_gates(row),
        gates=[schemas.Gate.of(gates[name], name=words) for name, (words, _) in GATES.items() if name in gates],
    )


def get_release(tenant_id: UUID, release_id: UUID) -> Release:
    """Return the release; NotFound where there is none."""
    row = queries.release(tenant_id, release_id)
    if row is None:
        raise NotFound
    return row


def _describe_release(row: Release, ids: Ids) -> schemas.Release:
    return release_answer(row)


def _sign(
    *, tenant_id: UUID, release_id: UUID, gate: str, reason: str, is_proven: bool, by: Actor, at: datetime
) -> tuple[Release, str]:
    row = get_release(tenant_id, release_id)
    signed = release_steps.sign_gate(row, gate=gate, reason=reason, by=by, is_proven=is_proven, at=at)
    return signed, gate


def _start_canary(
    *, tenant_id: UUID, release_id: UUID, tools: list[str], share: int, actions: int, by: Actor, at: datetime
) -> Release:
    scope = CanaryScope(tools=tuple(tools), share=share, actions=actions, since=at)
    return releases.start_canary(tenant_id=tenant_id, release_id=release_id, scope=scope, by=by, at=at)


def _promote(*, tenant_id: UUID, release_id: UUID, reason: str, is_proven: bool, by: Actor, at: datetime) -> Release:
    row = get_release(tenant_id, release_id)
    return release_steps.promote(row, reason=reason, by=by, is_proven=is_proven, at=at)


def _promoted_sentence(row: Release) -> str:
    if row.state == "PROMOTED":
        return "It is in force."
    return "Promotion recorded. Another person must promote it as well."


def _ended_sentence(row: Release) -> str:
    return "Stopped. The version in force decides everything." if row.state == "STOPPED" else "Withdrawn."


SIGN: Final = Verb(
    name="sign",
    path="/releases/{release_id}/signatures",
    operation=_sign,
    body=schemas.GateSignatureBody,
    proof=FRESH,
    roles=PEOPLE,
    answer=schemas.Release,
    told=lambda signed, _: release_answer(signed[0]),
    summary="Sign the changes, or the outcomes changed by a replay",
    done=lambda signed: f"You signed {release_sentences.gate_label(signed[1])}.",
)
START_CANARY: Final = Verb(
    name="start_canary",
    path="/releases/{release_id}/canary",
    operation=_start_canary,
    body=schemas.CanaryBody,
    roles=PEOPLE,
    answer=schemas.Release,
    told=_describe_release,
    summary="Start a canary: the draft decides some live actions",
    done="Canary started: it decides actions proposed from now on.",
)
END: Final = Verb(
    name="end",
    path="/releases/{release_id}/end",
    operation=releases.end_release,
    body=ReasonBody,
    asks={"reason": SHORT_REASON},
    roles=PEOPLE,
    answer=schemas.Release,
    told=_describe_release,
    summary="Stop its canary, or withdraw the draft",
    done=_ended_sentence,
)
PROMOTE: Final = Verb(
    name="promote",
    path="/releases/{release_id}/promotion",
    operation=_promote,
    body=schemas.ReleaseWordBody,
    proof=FRESH,
    roles=PEOPLE,
    answer=schemas.Release,
    told=_describe_release,
    summary="Promote a release as one of two people",
    done=_promoted_sentence,
)
