"""Standing approvals in words: what one covers, its evidence, its used budget, and the actions that passed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.urls import reverse

from approvals.sessions.queries import disclosed_contract
from approvals.standing import queries
from approvals.standing.operations.offers import StandingOffer
from approvals.standing.rules import shapes, standing
from console.accounts.queries import names_of
from ledger.catalogue.rules.money import format_money

if TYPE_CHECKING:
    from approvals.models import Approval, StandingApproval
    from approvals.standing.rules.shapes import Shape
    from console.edge.http import TenantRequest
    from ledger.models import Tenant


def calls_sentence(shape: Shape) -> str:
    """Exactly which calls: `calls of issue_refund by agent cashier: amount up to 20.00 EUR, any order id`."""
    bounds = ", ".join(shapes.describe_bounds(shape))
    return f"calls of {shape.scope.tool} by agent {shape.scope.agent}" + (f": {bounds}" if bounds else "")


def evidence_sentence(shape: Shape, *, count: int, approvers: int, system: str) -> str:
    """The evidence by which it was earned, in one sentence."""
    people = "1 person" if approvers == 1 else f"{approvers} people"
    bounds = ", ".join(shapes.describe_bounds(shape))
    return (
        f"{count} of {count} {calls_word(count)} of {shape.scope.tool} by agent {shape.scope.agent}"
        f"{f' ({bounds})' if bounds else ''} were approved by {people} and confirmed in {system}."
    )


def calls_word(count: int) -> str:
    return "call" if count == 1 else "calls"


def offer_sentence(offer: StandingOffer) -> str:
    """The evidence of an offer."""
    return evidence_sentence(offer.shape, count=len(offer.evidence), approvers=offer.approvers, system=offer.system)


def earned_sentence(row: StandingApproval) -> str:
    """The evidence of a standing approval; of a time-boxed pass, that there is none."""
    if row.is_time_boxed:
        return "One person gave it from one request that was waiting. It rests on no verified approvals."
    contract = disclosed_contract(row.tenant_id, row.shape["contract_digest"])
    system = contract.verification.system if contract.verification else ""
    shape = shapes.read_shape(row.shape)
    return evidence_sentence(shape, count=len(row.evidence), approvers=row.approvers, system=system)


def used_sentence(row: StandingApproval) -> str:
    """The used part of the budget."""
    said = f"{row.used_count} of {row.max_count} passed"
    if row.max_minor is None:
        return f"{said}."
    used, most = (format_money(each, row.currency) for each in (row.used_minor, row.max_minor))
    return f"{said}, {used} of {most}."


def stop_sentence(row: StandingApproval) -> str:
    """The reason why nothing passes under it, or what it waits for; empty if it is in force."""
    if row.state == standing.StandingState.PAUSED:
        return standing.PAUSE_SENTENCES[standing.PauseReason(row.pause_reason)]
    if row.is_time_boxed and row.ended_because in _TIME_BOX_ENDS:
        return _TIME_BOX_ENDS[row.ended_because]
    return {
        "PROPOSED": "It is waiting for a second person and not in force yet.",
        "DECLINED": "The second person did not agree.",
        "DATE": "Its end date has passed.",
        "BUDGET": "Its budget is used up.",
        "BY_HAND": "A person ended it.",
    }.get(row.ended_because or row.state, "")


_TIME_BOX_ENDS: Final = {"DATE": "Its time is over.", "BY_HAND": "A person revoked it."}


def after_pause(row: StandingApproval) -> str:
    """The way to resume a paused standing approval; empty for any other."""
    if row.state != standing.StandingState.PAUSED:
        return ""
    if row.is_time_boxed:
        return "Each call needs approval. It cannot be resumed; another can be given from a request that waits."
    if row.pause_reason in standing.RESUMABLE:
        return "Each call needs approval until two people resume it."
    return (
        "Each call needs approval. It cannot be resumed; end it, and a new one can be proposed once there is new"
        " evidence."
    )


def pass_sentences(tenant_id: UUID, approvals: Collection[Approval]) -> dict[UUID, str]:
    """The standing approval and the number of the pass, for each approval that passed under one."""
    passed = [each for each in approvals if each.standing_id is not None]
    if not passed:
        return {}
    numbers = queries.passes_of(tenant_id, [each.id for each in passed])
    rows = queries.standing_approvals_named(tenant_id, {each.standing_id for each in passed if each.standing_id})
    called = names_of(tenant_id)
    return {
        each.id: _pass_sentence(rows[each.standing_id], numbers[each.id].number, called)
        for each in passed
        if each.standing_id in rows and each.id in numbers
    }


def pass_notice(tenant: Tenant, approval: Approval | None) -> dict[str, str] | None:
    """The notice for an action that passed under a standing approval, with a link."""
    said = pass_sentences(tenant.id, [approval] if approval is not None else [])
    if approval is None or approval.id not in said:
        return None
    row = queries.standing_approval(tenant.id, approval.standing_id) if approval.standing_id else None
    return {
        "said": said[approval.id],
        "kind": "time-boxed pass" if row is not None and row.is_time_boxed else "standing approval",
        "href": reverse("standing-approval", args=[tenant.slug, approval.standing_id]),
    }


def _pass_sentence(row: StandingApproval, number: int, called: Mapping[UUID, str]) -> str:
    people = " and ".join(called.get(each, "somebody") for each in (row.proposed_by, row.answered_by) if each)
    kind = "a time-boxed pass" if row.is_time_boxed else "a standing approval"
    return (
        f"Passed under {kind}, {number} of {row.max_count}, by {people} until {end_text(row)}."
        " No vote was requested for this action."
    )


def time_box_notices(request: TenantRequest) -> list[dict[str, Any]]:
    """The time-boxed passes in force, each in a sentence, with the addresses of its page and of its revocation."""
    tenant = request.tenant
    rows = queries.time_boxes(tenant.id, at=request.as_of)
    called = names_of(tenant.id) if rows else {}
    return [
        {
            "said": f"{called.get(row.proposed_by, 'Somebody')} lets {calls_sentence(shapes.read_shape(row.shape))}"
            f" pass without a vote until {end_text(row)}. {used_sentence(row)}",
            "href": reverse("standing-approval", args=[tenant.slug, row.id]),
            "revoke": revocation_address(request, row),
        }
        for row in rows
    ]


def revocation_address(request: TenantRequest, row: StandingApproval) -> str:
    """The address at which this person revokes a time-boxed pass; empty where they may not, or it has ended."""
    if not row.is_time_boxed or row.state not in queries.LIVE or not {"reviewer", "operator"} & request.caller.roles:
        return ""
    return reverse("standing-approval-revoke", args=[request.tenant.slug, row.id])


def end_text(row: StandingApproval) -> str:
    """The end of a standing approval: a day, and the time of day of a time-boxed pass."""
    return f"{row.ends_at:%H:%M} UTC on {day(row.ends_at)}" if row.is_time_boxed else day(row.ends_at)


def day(at: datetime) -> str:
    """A day in words."""
    return f"{at.day} {at:%B %Y}"
