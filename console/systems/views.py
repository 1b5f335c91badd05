"""Systems: the health of each system of record, its verification debt, and whether irreversible actions are released to
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.accounts.queries import actor_names
from console.accounts.step_up import is_recently_authenticated
from console.contracts import contract_check
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.systems import context as systems_context
from console.systems import verbs
from console.systems.forms import SystemForm
from console.systems.lists import STOPS, SYSTEMS, WORDS, standing_of
from console.systems.schemas import hook_path
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web.list_page import list_context
from ledger.catalogue import queries as catalogue_queries
from ledger.people.queries import is_same_person
from reviews import queries as after
from reviews.readback.operations import connections
from reviews.readback.operations import systems as operations
from reviews.readback.operations.connections import ConnectionResult
from reviews.readback.operations.dry_runs import DryRunFinding, try_contracts_of
from reviews.readback.rules.limits import LABELS

MAY_TEST = frozenset({"administrator", "operator"})
FAMILIES = {"CLOSED": "true", "HALF_OPEN": "verifying", "OPEN": "false"}


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    return _page(request)


def _page(
    request: TenantRequest,
    /,
    *,
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    system_id: UUID | None = None,
    trial: ConnectionResult | None = None,
    findings: tuple[DryRunFinding, ...] = (),
    status: int = 200,
) -> HttpResponse:
    tenant = request.tenant
    resting, seen = systems_context.contracts_by_system(tenant), SYSTEMS.rows(request)
    context = {
        "here": "systems",
        "systems": [
            _system_context(request, each)
            | {
                "contracts": resting.get(each.name, []),
                "described": systems_context.description_of(each.pattern),
                "credential": systems_context.credential_status(tenant, each) if _may_test(request) else None,
                "trial": trial if trial is not None and trial.system_id == each.id else None,
                "findings": findings,
            }
            for each in seen
        ],
        "answer": systems_context.standing_sentence(seen),
        **list_context(request, SYSTEMS),
        "may_test": _may_test(request),
        "spending": systems_context.verification_spending(tenant.id, at=request.as_of),
        "may_stop": "operator" in request.caller.roles,
        "may_answer": bool({"operator", "administrator"} & request.caller.roles),
        **_register_context(request, forms.get("register_system")),
        "word": forms.get("answer_system") or verbs.ANSWER.form(),
        "is_fresh": is_recently_authenticated(request),
    }
    return render(request, "systems/_list.html" if request.htmx else "systems/list.html", context, status=status)


def _register_context(request: TenantRequest, form: BodyForm | None) -> dict[str, Any]:
    """The form of a registration: as it was sent, or empty for the pattern, or filled in with the system to change."""
    if not _may_test(request):
        return {}
    if form is None:
        wanted = catalogue_queries.system(request.tenant.id, request.GET.get("change", ""))
        row = {name: getattr(wanted, name) for name in ("name", "pattern", "settings")} if wanted is not None else {}
        form = verbs.REGISTER.form(initial={"pattern": request.GET.get("pattern", "")} | row)
    assert isinstance(form, SystemForm)
    return {
        "register": form,
        "is_asked": bool({"change", "pattern"} & request.GET.keys()),
        "credential": systems_context.credential_form(request.tenant, form),
    }


def _may_test(request: TenantRequest) -> bool:
    return bool(MAY_TEST & request.caller.roles)


@in_tenant(*sorted(MAY_TEST))
@require_POST
def test_connection(request: TenantRequest, system_id: UUID) -> HttpResponse:
    """Read the system once; who did so and the result are recorded. The reading itself holds no lock."""
    system = catalogue_queries.system_by_id(request.tenant.id, system_id)
    if system is None:
        raise Http404
    trial = connections.try_connection(request.tenant.id, system, at=request.as_of)
    record_page_view(request, "system", system.id, trial.action_id)
    findings: tuple[DryRunFinding, ...] = ()
    if trial.reading is not None and trial.contract is not None:
        findings = try_contracts_of(request.tenant.id, system, by=request.caller.actor, at=request.as_of)
        operations.record_connection(
            tenant_id=request.tenant.id,
            system_id=system.id,
            contract=trial.contract,
            by=request.caller.actor,
            at=request.as_of,
        )
    return _page(request, trial=trial, findings=findings)


def _by_name(request: TenantRequest, *, system_id: UUID) -> Ids:
    """The API knows a system by its name."""
    row = catalogue_queries.system_by_id(request.tenant.id, system_id)
    if row is None:
        raise Http404
    return {"name": row.name}


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("systems", args=[request.tenant.slug])


register = page_of(verbs.REGISTER, home=_home, render=_page, keeps=True)
stop = page_of(verbs.STOP, home=_home, api_ids=_by_name)
resume = page_of(verbs.RESUME, home=_home, api_ids=_by_name)
decide_change = page_of(verbs.ANSWER, home=_home, render=_page, keeps=True, api_ids=_by_name)


def _waits(request: TenantRequest, seen: systems_context.SystemStatus) -> dict[str, Any]:
    """A waiting change: its difference, its sender, and whether that was the reader."""
    assert seen.proposal is not None
    by = systems_context.change_sender(seen)
    wanted = {"pattern": seen.proposal["pattern"], "settings": seen.proposal["settings"]}
    return {
        "changes": contract_check.diff_documents({"pattern": seen.pattern, "settings": seen.settings}, wanted),
        "by": actor_names(request.tenant.id).get(by, "a program") if by else "",
        "is_sender": is_same_person(request.tenant.id, by, request.caller.actor.id),
        "answer": reverse("system-answer", args=[request.tenant.slug, seen.id]),
    }


def _system_context(request: TenantRequest, seen: systems_context.SystemStatus) -> dict[str, Any]:
    tenant = request.tenant
    hooks = after.hooks_of(tenant.id, seen.id)
    taken = after.last_deliveries(tenant.id, [each.id for each in hooks])
    incident = after.incident_with_cause(tenant.id, f"system:{seen.name}")
    stands = standing_of(seen)
    return {
        "seen": seen,
        "waits": _waits(request, seen) if seen.proposal else None,
        "badge": {"family": FAMILIES.get(stands, "waiting"), "word": WORDS[stands]},
        "stop": STOPS.get(str(seen.stop), "") if seen.stop is not None else "",
        "limits": [{"word": LABELS[name], "value": value} for name, value in seen.limits.items()],
        "hooks": [
            {"row": each, "path": hook_path(tenant.id, each.id), "taken_at": taken.get(each.id)} for each in hooks
        ],
        "incident": {"title": incident.title, "href": reverse("incident", args=[tenant.slug, incident.id])}
        if incident is not None
        else None,
        "stop_href": reverse("system-stop", args=[tenant.slug, seen.id]),
        "resume_href": reverse("system-resume", args=[tenant.slug, seen.id]),
    }
