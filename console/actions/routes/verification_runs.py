"""Verification runs: the answer of each source, the checks that were made, their consequence, and
repeated judgements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router

from console.actions import schemas
from console.actions.routes.actions import visible_action
from console.edge.auth import admits
from console.edge.schemas import Page
from console.edge.transaction import in_tenancy, record_read
from console.web import replay_sentences
from ledger.record.rules.encryption import CannotOpen
from reviews import queries as after
from reviews.replay import queries as replays
from reviews.replay.rules.replay import ActionReplay, Judgement

if TYPE_CHECKING:
    from ledger.models import Action
    from reviews.models import VerificationRun

router = Router(tags=["Actions"])


@router.get(
    "/actions/{action_id}/runs",
    summary="All verification runs of an action: sources, checks, verdict, decision",
    response=Page[schemas.Run],
)
@admits("oper", "audit", "person")
@in_tenancy
def list_runs(request: HttpRequest, action_id: UUID) -> Page[schemas.Run]:
    action = visible_action(request, action_id)
    return Page(items=shown_runs(action), next=None)


@router.get(
    "/actions/{action_id}/replay",
    summary="Replay all verification runs from stored evidence, under the original or other policies",
    response=schemas.ReplayedAction,
)
@admits("oper", "audit", "person")
@in_tenancy
def replay_runs(request: HttpRequest, action_id: UUID, wanted: Query[schemas.ReplayWanted]) -> schemas.ReplayedAction:
    action = visible_action(request, action_id)
    versions = {"verification": wanted.verification_policy, "recovery": wanted.recovery_policy}
    under = replays.named_policies(action.tenant_id, versions)
    _note_look(request, action)
    [found] = replays.replay_actions(action.tenant_id, [action.id], under=under)
    return _replayed_action(found, {kind: each.version for kind, each in under.items()})


@router.get(
    "/replay-bundles/{bundle_id}",
    summary="Everything needed to replay an action's runs; its entry names it as trace.replay_bundle_id",
    response=schemas.ReplayBundle,
)
@admits("oper", "audit", "person")
@in_tenancy
def get_replay_bundle(request: HttpRequest, bundle_id: UUID) -> schemas.ReplayBundle:
    action = visible_action(request, bundle_id)
    _note_look(request, action)
    return schemas.ReplayBundle(**replays.replay_bundle(action.tenant_id, action.id))


def _note_look(request: HttpRequest, action: Action) -> None:
    """Record the access like opening the action's page, because evidence is shown."""
    record_read(request, "action", action.id)


def _replayed_action(found: ActionReplay, instead: Mapping[str, str]) -> schemas.ReplayedAction:
    """An action's replayed runs as answered; `instead` are the requested policy versions."""
    return schemas.ReplayedAction(
        action_id=UUID(found.action_id),
        text=replay_sentences.action_sentence(found, instead),
        same=found.same,
        runs=[
            schemas.ReplayedRun(
                number=each.run.number,
                at=each.run.at,
                pointer=UUID(each.run.pointer),
                text=replay_sentences.run_sentence(each, instead),
                same=None if each.replayed is None else each.same,
                not_replayable=each.not_replayable,
                under=dict(each.under),
                differs=[one.part for one in each.differences],
                recorded=_judged_run(each.recorded),
                replayed=_judged_run(each.replayed),
            )
            for each in found.runs
        ],
    )


def _judged_run(one: Judgement | None) -> schemas.JudgedRun | None:
    if one is None:
        return None
    return schemas.JudgedRun(
        result=one.verdict["result"],
        discrepancy=one.verdict["discrepancy"],
        reason=one.verdict["reason"],
        recovery_decision=one.recovery,
        held=one.held,
        state=one.ends_in,
        steps=[schemas.JudgedStep(**step) for step in one.steps],
    )


def shown_runs(action: Action) -> list[schemas.Run]:
    """Every run of an action, the newest first."""
    return [_build_run(each) for each in reversed(after.runs_of(action.tenant_id, action.id))]


def _build_run(run: VerificationRun) -> schemas.Run:
    try:
        found = after.run_findings(run)
    except CannotOpen:
        found = {}
    verdict = found.get("verdict", {})
    silent = [each for each in (found.get("failure"), *found.get("silent", [])) if each is not None]
    independence = verdict.get("independence") or {}
    return schemas.Run.of(
        run,
        independent_sources=independence.get("independent"),
        independence=independence.get("reason", ""),
        decided_under=found.get("decided_under", {}),
        reason=verdict.get("reason", ""),
        sources=[_source(each) for each in found.get("readings", [])],
        silent=[schemas.SourceSilent(name=each["source"], reason=each["reason"]) for each in silent],
        effects=verdict.get("effects", []),
        checks=verdict.get("checks", []),
        lookup=found.get("lookup"),
    )


def _source(reading: dict[str, Any]) -> schemas.SourceRead:
    kept = {name: reading.get(name, "") for name in schemas.SourceRead.model_fields if name != "indicators"}
    return schemas.SourceRead(**kept, indicators=reading.get("indicators", []))
