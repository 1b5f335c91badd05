"""The case of an ungated effect or of a claim that does not match: what was read, and a person's findings about it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
from django.urls import reverse

from approvals.requests.rules import rendering
from console.accounts import queries as directory
from console.accounts.queries import actor_names
from console.actions.action_record import event_rows
from console.cases import settlement_signing, verbs
from console.cases.checklist import checklist_panel
from console.cases.containment import containment_panel
from console.cases.context import PAGES, may_work_on, resolution_groups
from console.claims.answers import claim_answer
from console.edge.auth import Caller
from console.web import labels
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.targets import target_text
from ledger.record.queries import events, evidence
from ledger.record.rules.encryption import CannotOpen
from reviews import queries as after
from reviews.cases.operations import cases
from reviews.cases.operations import runbooks as work
from reviews.cases.rules import resolutions, runbooks
from reviews.claims import queries as claims

if TYPE_CHECKING:
    from ledger.models import Tenant
    from reviews.models import Case, UngatedClaim

DEFINITION = "The system changed without a recorded action. Nothing was undone; find out who changed it and why."

CLAIM_DEFINITION = (
    "What was claimed is not what the system of record shows. Nothing was undone; find out why they differ."
)


def ungated_context(tenant: Tenant, case: Case, *, caller: Caller, at: datetime) -> dict[str, Any]:
    """Return the page's context, without deciding anything."""
    called, history = actor_names(tenant.id), events.history(tenant.id, case.id)
    claim = claims.claim_of_case(tenant.id, case.id)
    found, system = _stray_effect(tenant, case) if claim is None else ({}, claim.system)
    at_work = may_work_on(case, caller)
    page = {name: reverse(f"case-{name}", args=[tenant.slug, case.id]) for name in PAGES}
    return {
        "ungated": True,
        "row": case,
        "title": target_text(case.target),
        "label": labels.case_reason_label(case.reason),
        "definition": DEFINITION if claim is None else CLAIM_DEFINITION,
        "claim": _claim(tenant, claim) if claim is not None else None,
        "system": system,
        "place": found.get("place", ""),
        "fields": [{"shown": each, "purpose": "", "reading": ""} for each in rendering.render_payload(_plain(found))],
        "owner": called.get(case.claimed_by, "") if case.claimed_by else "",
        "snoozed": bool(case.snoozed_until and case.snoozed_until > at),
        "timeline": event_rows(history, called),
        "comments": [
            {"by": called.get(each.author, "somebody"), "at": each.at, "text": each.text}
            for each in after.comments_of(tenant.id, case.id)
        ],
        "incidents": _incidents(tenant, case),
        "containment": containment_panel(tenant, caller, target=case.target),
        "checklist": checklist_panel(
            runbooks.for_case(reason=case.reason),
            work.ticks_from_history(history),
            called,
            may_tick=at_work,
            href=reverse("case-step", args=[tenant.slug, case.id]),
        ),
        "page": page,
        "works": at_work,
        "may_claim": at_work and case.claimed_by is None,
        "may_release": at_work and case.claimed_by == caller.actor.id,
        "may_settle": at_work,
        "may_reopen": "operator" in caller.roles and case.state == "RESOLVED",
        "may_comment": bool({"operator", "reviewer", "compliance"} & caller.roles),
        "owners": sorted(directory.operators(tenant.id).items(), key=lambda pair: pair[1]) if at_work else [],
        "snooze": verbs.SNOOZE.form(auto_id="snooze-%s") if at_work else None,
        "why_not": "" if at_work else "Only operators can resolve cases.",
        **_signing(case, caller, page["challenge"], at=at),
        "settled": _settlement(case, history, called) if case.state == "RESOLVED" else None,
    }


def _signing(case: Case, caller: Caller, challenge_at: str, *, at: datetime) -> dict[str, Any]:
    """The ways to settle it, and the terms to sign."""
    held = cases.held_action(case)
    sign = settlement_signing.signing_context(case, held, caller, challenge_at=challenge_at, at=at)
    return {
        "signing": sign,
        "ways": resolution_groups(held, resolutions.allowed_resolutions(held), policy=sign["policy"]),
    }


def _claim(tenant: Tenant, claim: UngatedClaim) -> dict[str, Any]:
    """The claim of the case: how it stands, and its page."""
    return {"sentence": claim_answer(claim).sentence, "href": reverse("claim", args=[tenant.slug, claim.id])}


def _incidents(tenant: Tenant, case: Case) -> list[dict[str, Any]]:
    return [
        {"row": each, "href": reverse("incident", args=[tenant.slug, each.id])}
        for each in after.incidents_of(tenant.id, case.id)
    ]


def _stray_effect(tenant: Tenant, case: Case) -> tuple[dict[str, Any], str]:
    stray = after.ungated_effect_of(tenant.id, case.id)
    if stray is None:
        return {}, ""
    system = next((each.name for each in catalogue_queries.systems(tenant.id) if each.id == stray.system_id), "")
    try:
        data = evidence.open_evidence(tenant.id, stray.pointer)
    except CannotOpen:
        data = None
    return (orjson.loads(data) if data else {}), system


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    told = {name: found.get(name) for name in ("operation", "actor", "target", "at", "trace_id", "action_id")}
    shown = {name: value for name, value in found.get("shown", {}).items() if not isinstance(value, dict | list)}
    return {name: value for name, value in {**shown, **told}.items() if value not in (None, "")}


def _settlement(case: Case, history: list[Any], called: dict[Any, str]) -> dict[str, Any]:
    by = {str(actor): name for actor, name in called.items()}
    for event, _, detail in reversed(history):
        if event.kind == "case_resolved" and detail:
            return {
                "word": labels.RESOLUTIONS[case.resolution][0],
                "by": by.get(detail["by"], "somebody"),
                "second": "",
                "reason": detail["reason"],
                "evidence": detail["evidence"],
                "at": case.resolved_at,
                "signed_with": labels.SIGNATURES.get(detail.get("evidence_class", ""), ""),
            }
    return {"word": labels.sentence_case(case.resolution), "at": case.resolved_at}
