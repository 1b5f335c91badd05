"""An action's verification runs judged again from their stored evidence, by the policies of its time or by others."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.actions.action_record import parse_arguments, payload_of
from console.actions.erased_pages import erased_page
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.web import replay_sentences
from console.web.labels import action_title
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue
from ledger.record.rules.refusals import NotFound
from reviews.replay import queries as replays
from reviews.replay.rules.replay import JUDGING, RunReplay

MOST_VERSIONS = 200
"""Versions of each kind to choose from, the newest ones; the address takes any."""


@in_tenant()
def action_replay(request: TenantRequest, action_id: UUID) -> HttpResponse:
    tenant_id, found = request.tenant.id, actions.action(request.tenant.id, action_id)
    if found is None:
        raise Http404
    record_page_view(request, "action", found.id)
    if gone := erased_page(request, "action", found.id):
        return gone
    wanted = {kind: request.GET.get(kind, "") for kind in JUDGING}
    try:
        under = replays.named_policies(tenant_id, wanted)
    except NotFound as refusal:
        raise Http404 from refusal
    instead = {kind: each.version for kind, each in under.items()}
    [replay] = replays.replay_actions(tenant_id, [found.id], under=under)
    context = {
        "here": "actions",
        "back": reverse("action", args=[request.tenant.slug, action_id]),
        "title": action_title(found.operation_kind, found.target, parse_arguments(payload_of(found))),
        "said": replay_sentences.action_sentence(replay, instead),
        "bundle": reverse("action-replay-bundle", args=[request.tenant.slug, action_id]),
        "runs": [_run_row(request, each, instead) for each in replay.runs],
        "choices": [
            {
                "kind": kind,
                "chosen": wanted[kind],
                "versions": [row.version for row in catalogue.policy_versions(tenant_id, kind, limit=MOST_VERSIONS)],
            }
            for kind in JUDGING
        ],
    }
    return render(request, "actions/replay.html", context)


@in_tenant()
def download_replay_bundle(request: TenantRequest, action_id: UUID) -> HttpResponse:
    """Return everything needed to replay the action's runs, as the file for `manage.py replay --bundle`."""
    found = actions.action(request.tenant.id, action_id)
    if found is None:
        raise Http404
    record_page_view(request, "action", found.id)
    if gone := erased_page(request, "action", found.id):
        return gone
    answer = HttpResponse(
        orjson.dumps(replays.replay_bundle(request.tenant.id, action_id)), content_type="application/json"
    )
    answer["Content-Disposition"] = f'attachment; filename="replay-{action_id}.json"'
    return answer


def _run_row(request: TenantRequest, each: RunReplay, instead: dict[str, str]) -> dict[str, Any]:
    return {
        "run": each.run,
        "said": replay_sentences.run_sentence(each, instead),
        "recorded": each.recorded,
        "replayed": each.replayed if each.differences else None,
        "under": [(kind, version) for kind, version in each.under.items()],
        "evidence": reverse("evidence", args=[request.tenant.slug, each.run.pointer]),
    }
