"""The part of an approval's page with which one person lets such calls through for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.urls import reverse

from approvals.standing.operations import time_boxes
from console.edge.http import TenantRequest
from console.standing_approvals import context, verbs
from console.verbs.form import BodyForm
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from approvals.models import Approval

USUAL: Final = {"minutes": 15, "count": 10}


def time_box_panel(request: TenantRequest, approval: Approval, *, form: BodyForm | None) -> dict[str, Any] | None:
    """The calls that this person may let through, the limits and the form; None where they may not now."""
    if approval.state != "REQUESTED" or "reviewer" not in request.caller.roles:
        return None
    try:
        offer = time_boxes.find_offer(approval, request.caller.actor.id, at=request.as_of)
    except Refused:
        return None
    most = {"minutes": offer.limits.most_minutes, "count": offer.limits.most_count}
    start = {name: min(usual, most[name]) for name, usual in USUAL.items()}
    return {
        "calls": context.calls_sentence(offer.shape),
        "most": most,
        "form": form or verbs.GIVE.form(initial=start, auto_id="id_time_box_%s"),
        "is_open": form is not None,
        "href": reverse("approval-time-boxed-pass", args=[request.tenant.slug, approval.id]),
    }
