"""Ledger: the logs, the age of their seal, what outsiders witnessed, proofs, alarms and integrity checks."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.execution import queries as execution_queries
from approvals.execution.operations.release_check import stop_of_starts
from console.accounts.queries import actor_names
from console.actions.action_record import event_rows
from console.edge import proofs
from console.edge.http import TenantRequest, in_tenant
from console.edge.transaction import after_commit
from console.ledger import verbs
from console.ledger.log_status import log_status
from console.notifications import queries as notices
from console.tasks import check_integrity
from console.verbs.verb import Ids, page_of
from console.web import labels
from console.web.forms import ReasonForm
from counterfoil_tlog import witness_policy
from ledger.actions.queries import readings
from ledger.log.operations import logs as logs_operations
from ledger.log.queries import anchors, log
from ledger.log.queries import proofs as stored
from ledger.log.rules.epoch import EpochUnknown
from ledger.record.queries import events
from ledger.record.rules.refusals import Refused
from ledger.verification import operations as verification_operations
from ledger.verification.queries import storage

MAY = ("compliance", "administrator")
SHOWN = 10
_EVENT = re.compile(r"events/([0-9a-f-]{36})/([0-9]{1,9})/?$")
_HASH = re.compile(r"[0-9a-f]{64}")


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    tenant = request.tenant.id
    logs = log.logs(tenant)
    head = _chosen_log(request, logs)
    context = {
        "here": "ledger",
        "logs": [_log(request, each, head) for each in logs],
        "head": _head(request, head) if head else None,
        "seal": log_status(tenant, at=request.as_of),
        "alarms": _alarms(request),
        "stop": _stop_of_starts(request),
        "checks": _checks(request),
        "proof": _proof(request, head) if head and request.GET.get("entry") else None,
        "growth": _growth(request, head) if head and request.GET.get("from") else None,
        "asked": {name: request.GET.get(name, "") for name in ("entry", "from", "to")},
        "may_answer": bool(request.caller.roles & frozenset(MAY)),
    }
    return render(request, "ledger/_page.html" if request.htmx else "ledger/page.html", context)


@in_tenant()
def download_verifier_policy(request: TenantRequest) -> HttpResponse:
    """The policy file for `verify_bundle.py`: the keys of this tenant's logs, and the witnesses in force."""
    keys = [key for each in log.logs(request.tenant.id) for key in stored.verifier_keys(request.tenant.id, each.id)]
    head = (
        f"# What {request.tenant.name.encode('ascii', 'replace').decode()} says its logs are signed with.\n"
        "# Compare each key with one from another source: who can change this page can change this file.\n"
    )
    text = head + witness_policy.write(dict.fromkeys(keys), settings.COUNTERFOIL_WITNESSES)
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{request.tenant.slug}-verifier-policy.txt"'
    return answer


@in_tenant(*MAY)
@require_POST
def acknowledge_alarm(request: TenantRequest, alarm_id: UUID) -> HttpResponse:
    form = ReasonForm(request.POST)
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        logs_operations.acknowledge_alarm(
            tenant_id=request.tenant.id, alarm_id=alarm_id, reason=reason, by=request.caller.actor, at=request.as_of
        )
        messages.success(request, "Resolved. If the cause persists, the alarm returns.")
    else:
        messages.error(request, "Not saved: enter what was found.")
    return redirect("ledger", request.tenant.slug)


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("ledger", args=[request.tenant.slug])


place_override = page_of(verbs.PLACE_OVERRIDE, home=_home)
end_override = page_of(verbs.END_OVERRIDE, home=_home)


@in_tenant(*MAY)
@require_POST
def start_check(request: TenantRequest) -> HttpResponse:
    verification_operations.start_check(tenant_id=request.tenant.id, by=request.caller.actor, at=request.as_of)
    after_commit(check_integrity)
    return redirect("ledger", request.tenant.slug)


@in_tenant(*MAY)
@require_POST
def change_check(request: TenantRequest, check_id: UUID) -> HttpResponse:
    """Pause, resume or cancel."""
    ways = {
        "pause": verification_operations.pause_check,
        "resume": verification_operations.resume_check,
        "cancel": verification_operations.cancel_check,
    }
    way = ways.get(request.POST.get("to", ""))
    if way is None:
        raise Http404
    way(tenant_id=request.tenant.id, check_id=check_id, by=request.caller.actor, at=request.as_of)
    return redirect("ledger", request.tenant.slug)


@in_tenant()
def event_proof(request: TenantRequest, subject_id: UUID, seq: int) -> HttpResponse:
    """The data with which a browser verifies one event."""
    return _json(lambda: proofs.event_proof(request.tenant.id, subject_id, seq))


@in_tenant()
def consistency_proof(request: TenantRequest, number: int, old: int, new: int) -> HttpResponse:
    """The data with which a browser verifies that a log continues what it saw before."""
    return _json(lambda: proofs.consistency_proof(request.tenant.id, number, old, new))


def _json(made: Any) -> HttpResponse:
    try:
        return JsonResponse(made())
    except Refused as refusal:
        return JsonResponse({"code": refusal.code, "detail": refusal.detail}, status=refusal.status)


def _chosen_log(request: TenantRequest, logs: list[log.LogHead]) -> log.LogHead | None:
    wanted = request.GET.get("log", "")
    return next((each for each in logs if str(each.number) == wanted), logs[0] if logs else None)


def _log(request: TenantRequest, row: log.LogHead, chosen: log.LogHead | None) -> dict[str, Any]:
    return {
        "row": row,
        "state": events.subject_state(request.tenant.id, row.id),
        "href": f"{request.path}?log={row.number}",
        "current": chosen is not None and row.number == chosen.number,
    }


def _head(request: TenantRequest, head: log.LogHead) -> dict[str, Any]:
    tenant = request.tenant.id
    given = stored.latest_anchors(tenant, head.number)
    asked = anchors.log_anchoring(tenant, head)
    # Where witnesses are named, only their quorum counts; what a single one signed is no green.
    most = (asked.anchored_size or 0) if asked.witnesses else max((each.size for each in given), default=0)
    return {
        "row": head,
        "note": (head.note or b"").decode(),
        "keys": stored.verifier_keys(tenant, head.id),
        "anchors": [{"row": each, "word": labels.ANCHORS[each.kind]} for each in given],
        "anchored": most,
        "failing": asked.failing,
        "unanchored": head.size - most,
        "kept": stored.kept_checkpoints(tenant, head.number, limit=SHOWN),
        "timeline": event_rows(events.history(tenant, head.id), actor_names(tenant)),
    }


def _checks(request: TenantRequest) -> dict[str, Any]:
    """The earlier checks, and the running one."""
    called = actor_names(request.tenant.id)
    rows: list[dict[str, Any]] = [
        {
            "row": each,
            "word": labels.CHECKS[each.state],
            "icon": _CHECK_ICONS[each.state],
            "by": called.get(each.started_by, "somebody"),
            "turn": reverse("integrity-turn", args=[request.tenant.slug, each.id]),
            "href": reverse("event", args=[request.tenant.slug, each.id, 1]),
            # The record is walked through first and counts for half; then the logs.
            "done": min(each.events, each.expected) + each.leaves,
            "whole": 2 * max(each.expected, 1),
        }
        for each in storage.integrity_checks(request.tenant.id)
    ]
    under_way = next((each for each in rows if each["row"].state in storage.OPEN), None)
    return {
        "under_way": under_way,
        "before": [each for each in rows if each is not under_way],
        "start": reverse("integrity-check", args=[request.tenant.slug]),
    }


_CHECK_ICONS = {"RUNNING": "clock", "PAUSED": "clock", "CANCELLED": "minus", "HELD": "tick", "BROKEN": "alarm"}


def _alarms(request: TenantRequest) -> list[dict[str, Any]]:
    rows = [*log.alarms(request.tenant.id), *log.alarms(request.tenant.id, closed=True, limit=5)]
    told = notices.notices_of_alarms(request.tenant.id, [each.id for each in rows])
    return [
        {
            "row": each,
            "word": labels.alarm_label(each.kind),
            "href": reverse("alarm-acknowledge", args=[request.tenant.slug, each.id]),
            "told": [{"row": one, "word": labels.CHANNELS[one.channel]} for one in told.get(each.id, [])],
        }
        for each in rows
    ]


def _stop_of_starts(request: TenantRequest) -> dict[str, Any] | None:
    """The reason why nothing starts on this record, and the tools exempted from it; None if neither applies."""
    why: Refused | None
    try:
        why = stop_of_starts(request.tenant.id)
    except EpochUnknown as unknown:
        why = unknown
    slug = request.tenant.slug
    allowed = [
        {"row": each, "end": reverse("start-override-end", args=[slug, each.id])}
        for each in execution_queries.overrides_in_force(request.tenant.id, at=request.as_of)
    ]
    forgotten = readings.unrecorded_starts(request.tenant.id)
    if why is None and not allowed and not forgotten:
        return None
    return {
        "why": why,
        "allowed": allowed,
        "forgotten": forgotten,
        "place": reverse("start-override", args=[slug]),
        "may": "operator" in request.caller.roles,
    }


def _proof(request: TenantRequest, head: log.LogHead) -> dict[str, Any]:
    """The checker's result for the entered entry."""
    tenant, asked = request.tenant.id, request.GET["entry"].strip().lower()
    try:
        leaf = _leaf(tenant, head, asked)
        if leaf is None:
            return {"missing": "This log has no entry with this index."}
        steps = proofs.inclusion_steps(tenant, head, leaf)
    except Refused as refusal:
        return {"missing": refusal.detail}
    slug = request.tenant.slug
    found = events.event_with_detail(tenant, leaf.subject_id, leaf.seq)
    return {
        "leaf": leaf,
        "word": labels.event_label(found[0].kind) if found else "Event no longer available",
        "href": reverse("event", args=[slug, leaf.subject_id, leaf.seq]) if found else "",
        "steps": steps,
        "holds": all(step.holds for step in steps),
        "hashes": [each.hex() for each in stored.inclusion_proof(tenant, head.number, leaf.index, head.signed_size)],
    }


def _leaf(tenant: UUID, head: log.LogHead, asked: str) -> stored.LogLeaf | None:
    """The leaf that an index, an entry hash or the address of an event names."""
    if asked.isascii() and asked.isdigit() and len(asked) < 16:
        return stored.leaf_at(tenant, head.number, int(asked))
    if _HASH.fullmatch(asked):
        return stored.leaf_by_hash(tenant, head.number, bytes.fromhex(asked))
    named = _EVENT.search(asked)
    place = log.event_position(tenant, UUID(named[1]), int(named[2])) if named else None
    return stored.leaf_at(tenant, place.log, place.index) if place and place.log == head.number else None


def _growth(request: TenantRequest, head: log.LogHead) -> dict[str, Any]:
    """The checker's result for two checkpoints."""
    asked = [request.GET.get("from", ""), request.GET.get("to", "") or str(head.signed_size)]
    if not all(each.isascii() and each.isdigit() and len(each) < 16 for each in asked):
        return {"missing": "A size is a number of entries."}
    old, new = sorted(int(each) for each in asked)
    if not 0 < old <= new <= head.signed_size:
        return {"missing": f"Sizes are between 1 and {head.signed_size}."}
    try:
        steps, hashes = proofs.consistency_steps(request.tenant.id, head, old, new)
    except Refused as refusal:
        return {"missing": refusal.detail}
    return {"steps": steps, "holds": all(step.holds for step in steps), "hashes": hashes}
