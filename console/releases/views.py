"""Releases as pages: the list, one release with its gates, and the forms of its steps (`release_steps`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
from django.contrib import messages
from django.forms import Form
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.accounts.queries import actor_names
from console.accounts.step_up import is_recently_authenticated
from console.edge.http import TenantRequest, in_tenant, undo_if_refused
from console.policies import policy_changes
from console.policies.policy_sentences import KIND_NAMES
from console.releases import release_sentences, release_steps, verbs
from console.releases.lists import RELEASES
from console.releases.release_sentences import OPEN_STATES, release_name
from console.verbs.form import BodyForm
from console.verbs.verb import AnyVerb, Ids, page_of
from console.web import labels, policy_simulation
from console.web.labels import format_json
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue
from ledger.catalogue.rules.releases import CANARY, CONTRACT, GATES, JUDGING_KINDS, SIGNED, CanaryScope, required_gates
from ledger.people.queries import is_same_person
from ledger.record.queries import events, evidence
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.event_kinds import EVENT_KINDS
from ledger.record.rules.refusals import NotFound, Refused
from reviews.release_gates import queries as gate_queries

if TYPE_CHECKING:
    from ledger.models import ContractVersion, PolicyVersion, Release, ReleaseGate

PAGE = 50
FIRST_KIND = "verification"
MAY = ("administrator", "operator")
_OUTCOME_WORDS = ("ends_in", "result", "discrepancy", "recovery")


@in_tenant()
def list_releases(request: TenantRequest) -> HttpResponse:
    found, frame = RELEASES.read_page(request, PAGE)
    names = actor_names(request.tenant.id)
    newest = {(row.kind, row.tool): row for row in found}
    in_force = {what: _in_force(row) for what, row in newest.items()}
    context = {
        "here": "policies",
        "releases": [
            shown | _gate_progress(shown["row"], names, in_force[shown["row"].kind, shown["row"].tool])
            for shown in RELEASES.rows_of(request, found)
        ],
        **frame,
        "on_the_way": sum(row.state in OPEN_STATES for row in found),
        "kinds": list(KIND_NAMES.items()),
        "may_draft": _may(request),
    }
    return render(request, "releases/_list.html" if request.htmx else "releases/list.html", context)


@in_tenant()
def release(request: TenantRequest, release_id: UUID) -> HttpResponse:
    return _detail(request, release_id)


@in_tenant(*MAY)
@require_POST
def run_gates(request: TenantRequest, release_id: UUID) -> HttpResponse:
    form, row = Form(request.POST), _release_or_404(request, release_id)
    done, status = _carried_out(
        request, form, lambda: release_steps.run_gates(row, by=request.caller.actor, at=request.as_of)
    )
    if done is None:
        return _detail(request, release_id, status=status, run=form)
    messages.success(request, "Figures checked." if row.canary else "Gates run.")
    return redirect("release", request.tenant.slug, release_id)


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("release", args=[request.tenant.slug, ids["release_id"]])


def _release_ids(request: TenantRequest, *, release_id: UUID) -> Ids:
    return {"release_id": _release_or_404(request, release_id).id}


def _may(request: TenantRequest) -> bool:
    return bool(frozenset(MAY) & request.caller.roles)


def _release_or_404(request: TenantRequest, release_id: UUID) -> Release:
    row = catalogue.release(request.tenant.id, release_id)
    if row is None:
        raise Http404
    return row


def _carried_out(request: TenantRequest, form: Form, carry_out: Callable[[], Release]) -> tuple[Release | None, int]:
    """The result; a refusal is shown beside its field, and the typed text is kept."""
    try:
        with undo_if_refused(request):
            return carry_out(), 200
    except NotFound:
        raise
    except Refused as refusal:
        form.add_error(None, refusal.detail)
        return None, refusal.status


# What the pages show


def _in_force(row: Release) -> PolicyVersion | ContractVersion:
    """The version that the release would replace, or has replaced; there always is one."""
    found = catalogue.version_in_force(row.tenant_id, row.kind, row.tool)
    assert found is not None
    return found


def version_href(request: TenantRequest, kind: str, tool: str, version: str) -> str:
    if kind == CONTRACT:
        return reverse("contract", args=[request.tenant.slug, tool, version])
    return reverse("policy", args=[request.tenant.slug, kind, version])


def _gate_progress(row: Release, names: dict[UUID, str], in_force: Any) -> dict[str, str]:
    ran, red = _gates_left(row)
    return _standing(row, in_force, ran=ran, red=red, names=names)


def _gates_left(row: Release) -> tuple[bool, list[str]]:
    """Return whether any gate was run, and the gates not passed."""
    if row.state not in OPEN_STATES:
        return True, []
    found = catalogue.gate_results(row.tenant_id, row.id)
    return bool(found), [gate for gate in required_gates(row.kind) if gate not in found or not found[gate].passed]


def _standing(
    row: Release, in_force: Any, *, ran: bool, red: list[str], names: dict[UUID, str], left: int | None = None
) -> dict[str, str]:
    wanted = row.canary["actions"] if row.canary else 0
    return {
        "stands": release_sentences.standing_sentence(
            row.state,
            red=red,
            ran=ran,
            is_on_canary=row.canary is not None,
            is_in_force=in_force.release_id == row.id,
        ),
        "next": release_sentences.next_step(
            row.state,
            red=red,
            ran=ran,
            first_by=names.get(row.first_by, "Somebody") if row.first_by else "",
            is_basis_old=row.basis != in_force.digest,
            is_on_canary=row.canary is not None,
            left=wanted if left is None else left,
        ),
    }


def _detail(
    request: TenantRequest,
    /,
    release_id: UUID,
    *,
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    run: Form | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page of a release; `forms` are those that were refused, by their step."""
    row, tenant_id = _release_or_404(request, release_id), request.tenant.id
    names, in_force = actor_names(tenant_id), _in_force(row)
    results = catalogue.gate_results(tenant_id, row.id)
    red = [gate for gate in required_gates(row.kind) if gate not in results or not results[gate].passed]
    canary = _canary(request, row, results.get(CANARY))
    is_author, may = is_same_person(tenant_id, row.author, request.caller.actor.id), _may(request)
    version = (
        catalogue.contract_version(tenant_id, row.tool, row.version)
        if row.kind == CONTRACT
        else catalogue.policy_version(tenant_id, row.kind, row.version)
    )
    left = max(canary["scope"].actions - canary["ended"], 0) if canary else None
    context = {
        "here": "policies",
        "row": row,
        "name": release_name(row.kind, row.tool),
        "has_canary": row.kind in JUDGING_KINDS,
        "is_replayed": "RG-01" in required_gates(row.kind),
        "alone": release_steps.missing_people(tenant_id) if row.state in OPEN_STATES else "",
        "state": release_sentences.STATE_NAMES[row.state],
        **_standing(row, in_force, ran=bool(results), red=red, names=names, left=left),
        "author": names.get(row.author, "somebody"),
        "policy_href": version_href(request, row.kind, row.tool, row.version) if version else "",
        "compared": _comparison(request, row, in_force),
        "touched": _touched_actions(request, row, results),
        "gates": [_gate(gate, results.get(gate), names) for gate in required_gates(row.kind)],
        "passed": len(required_gates(row.kind)) - len(red),
        "canary": canary,
        "people": _people(row, names),
        "timeline": _history(request, row, names),
        "document": format_json(release_steps.read_draft(row)),
        "back": _way_back(request, row, in_force),
        "is_fresh": is_recently_authenticated(request),
        **_steps(request, row, results, red, is_author=is_author, may=may, typed=forms, run=run),
    }
    return render(request, "releases/_detail.html" if request.htmx else "releases/detail.html", context, status=status)


def _steps(
    request: TenantRequest,
    row: Release,
    results: dict[str, ReleaseGate],
    red: list[str],
    *,
    is_author: bool,
    may: bool,
    typed: Mapping[str, BodyForm],
    run: Form | None,
) -> dict[str, Any]:
    """The forms of this person's next steps; a step that waits for others is described in a sentence."""
    is_first = is_same_person(row.tenant_id, row.first_by, request.caller.actor.id)
    ready = may and row.state == "READY"
    refused = typed.get("sign")
    if refused is not None:
        gate = refused.data.get("gate", "")
        refused.auto_id = f"id_{gate if gate in SIGNED else 'gate'}_%s"
    unsigned = [gate for gate in red if gate in SIGNED and gate in results and row.canary is None] if may else []
    return {
        "run": run,
        "may_run": may and row.state in (OPEN_STATES if row.kind in JUDGING_KINDS else ("DRAFT",)),
        "signatures": [
            {
                "gate": gate,
                "word": gate if gate.startswith("RG-") else GATES[gate][0].lower(),
                "name": GATES[gate][0] if gate.startswith("RG-") else "",
                "said": results[gate].summary,
                "form": refused
                if refused is not None and refused.data.get("gate") == gate
                else verbs.SIGN.form(initial={"gate": gate}, auto_id=f"id_{gate}_%s"),
            }
            for gate in unsigned
        ],
        "is_author": is_author,
        # The head of a page tells what was wrong in a refused form, also where its panel is gone.
        "refused_forms": {**typed, **({"run": run} if run else {})},
        "canary_form": _form(verbs.START_CANARY, typed, "id_canary_%s")
        if may and (row.state == "CHECKED" or "start_canary" in typed)
        else None,
        "promotion": _form(verbs.PROMOTE, typed, "id_promote_%s")
        if (ready and not is_first) or "promote" in typed
        else None,
        "is_first": ready and is_first,
        "ending": _form(verbs.END, typed, "id_end_%s") if may and row.state in OPEN_STATES else None,
    }


def _form(verb: AnyVerb, typed: Mapping[str, BodyForm], auto_id: str) -> BodyForm:
    form = typed.get(verb.name) or verb.form()
    form.auto_id = auto_id
    return form


def _comparison(request: TenantRequest, row: Release, in_force: Any) -> dict[str, Any] | None:
    """The differences from the version in force; for an ended release, from the last compared one."""
    basis = in_force
    if row.state not in OPEN_STATES:
        basis = (
            catalogue.contract_by_digest(row.tenant_id, row.basis)
            if row.kind == CONTRACT
            else catalogue.policy_by_digest(row.tenant_id, row.kind, row.basis)
        )
    if basis is None:
        return None
    told = {"version": basis.version, "href": version_href(request, row.kind, row.tool, basis.version)}
    was, now = bytes(basis.document), bytes(row.document)
    if row.kind == CONTRACT:
        return told | release_steps.compare_contracts(was, now)
    return told | policy_changes.compare_documents(row.kind, was, now)


def _gate(gate: str, result: ReleaseGate | None, names: dict[UUID, str]) -> dict[str, Any]:
    name, purpose = GATES[gate]
    return {
        "gate": gate,
        "code": gate if gate.startswith("RG-") else "",
        "name": name,
        "purpose": f"{purpose[:1].upper()}{purpose[1:]}.",
        "result": result,
        "word": "not run" if result is None else "passed" if result.passed else "not passed",
        "by": names.get(result.by, "somebody") if result else "",
    }


def _evidence_of(tenant_id: UUID, result: ReleaseGate | None) -> dict[str, Any] | None:
    """The evidence that a gate stored; a signature leads to the run that it signs. None if it cannot be read."""
    if result is None:
        return None
    try:
        told = orjson.loads(evidence.open_evidence(tenant_id, result.pointer) or b"{}").get(result.gate, {})
        if "signs" in told:
            told = orjson.loads(evidence.open_evidence(tenant_id, UUID(told["signs"])) or b"{}").get(result.gate, {})
    except CannotOpen:
        return None
    return dict(told)


def _touched_actions(request: TenantRequest, row: Release, results: dict[str, ReleaseGate]) -> dict[str, Any] | None:
    """The actions with a changed outcome in RG-01 or the simulation; None before it ran."""
    gate = "RG-01" if "RG-01" in required_gates(row.kind) else "SIMULATION"
    told = _evidence_of(request.tenant.id, results.get(gate))
    names = ("changed", "changed_in_all", "replayed") if gate == "RG-01" else ("touched", "touched_in_all", "decided")
    if told is None or names[0] not in told:
        return None
    changed, in_all, looked_at = (told[name] for name in names)
    words = _outcome_words if gate == "RG-01" else policy_simulation.WORDS.__getitem__
    before, after = ("recorded", "replayed") if gate == "RG-01" else ("then", "now")
    rows = actions.actions_by_id(request.tenant.id, [UUID(each["action_id"]) for each in changed])
    listed = [
        {
            "title": labels.action_title(found.operation_kind, found.target),
            "href": reverse("action", args=[request.tenant.slug, found.id]),
            "before": words(each[before]),
            "after": words(each[after]),
            "wrong": each.get("wrong", ""),
            "planted": each.get("planted", ""),
        }
        for each in changed
        if (found := rows.get(UUID(each["action_id"]))) is not None
    ]
    return {"gate": gate, "actions": listed, "looked_at": looked_at, "hidden": in_all - len(listed)}


def _outcome_words(outcome: dict[str, str]) -> str:
    return ", ".join(labels.sentence_case(outcome[name]).lower() for name in _OUTCOME_WORDS if outcome.get(name))


def _canary(request: TenantRequest, row: Release, result: ReleaseGate | None) -> dict[str, Any] | None:
    """The scope of a canary and the figures of its actions and the others; for an ended one, of the actions that it
    decided.
    """
    if row.canary is None:
        return None
    scope = CanaryScope.of(row.canary)
    ended = result.at if result is not None and row.state != "STOPPED" else row.changed_at
    until = request.as_of if row.state in OPEN_STATES else ended
    inside, beside = gate_queries.canary_figures(row.tenant_id, scope, until=until)
    return {
        "scope": scope,
        "said": release_sentences.scope_sentence(scope),
        "ended": inside.ended,
        "rows": release_sentences.canary_rows(inside, beside),
    }


def _people(row: Release, names: dict[UUID, str]) -> list[tuple[str, str]]:
    """The people who drafted and promoted it, and the missing ones."""
    missing = "nobody yet" if row.state in OPEN_STATES else "nobody"
    return [
        ("Drafted by", names.get(row.author, "somebody")),
        ("Promoted first by", names.get(row.first_by, "somebody") if row.first_by else missing),
        ("Promoted by a second person", names.get(row.promoted_by, "somebody") if row.promoted_by else missing),
    ]


def _history(request: TenantRequest, row: Release, names: dict[UUID, str]) -> list[dict[str, Any]]:
    return [
        {
            "seq": event.seq,
            "word": labels.event_label(event.kind),
            "icon": EVENT_KINDS[event.kind].icon,
            "actor": names.get(event.actor_id, event.actor_kind),
            "detail": str((detail or {}).get("reason") or ""),
            "href": reverse("event", args=[request.tenant.slug, row.id, event.seq]),
            "at": event.at,
        }
        for event, _, detail in events.history(row.tenant_id, row.id)
    ]


def _way_back(request: TenantRequest, row: Release, in_force: Any) -> list[dict[str, str]]:
    """The earlier versions that can be restored in place of this one, while it is in force."""
    if in_force.release_id != row.id or not _may(request):
        return []
    if row.kind == CONTRACT:
        earlier = catalogue.contracts_in_force(row.tenant_id, [row.tool])[row.tool][:-1]
        return [
            {"version": each.version, "href": version_href(request, CONTRACT, row.tool, each.version)}
            for each in reversed(earlier)
        ]
    return [
        {"version": each.version, "href": reverse("policy", args=[request.tenant.slug, row.kind, each.version])}
        for each in catalogue.policy_versions(row.tenant_id, row.kind, limit=PAGE)
        if release_steps.can_come_back(each)
    ]


sign = page_of(verbs.SIGN, home=_home, render=_detail, keeps=True, api_ids=_release_ids)
start_canary = page_of(verbs.START_CANARY, home=_home, render=_detail, keeps=True, api_ids=_release_ids)
promote = page_of(verbs.PROMOTE, home=_home, render=_detail, keeps=True, api_ids=_release_ids)
end = page_of(verbs.END, home=_home, render=_detail, keeps=True, api_ids=_release_ids)
