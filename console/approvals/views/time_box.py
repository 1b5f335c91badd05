"""The time-boxed pass that a reviewer gives from the page of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse

from console.approvals.views.approvals import render_approval
from console.edge.http import TenantRequest
from console.standing_approvals import verbs
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web.forms import VoteForm


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("approval", args=[request.tenant.slug, ids["approval_id"]])


def _render(
    request: TenantRequest, /, approval_id: UUID, *, forms: Mapping[str, BodyForm], status: int
) -> HttpResponse:
    return render_approval(request, approval_id, VoteForm(), status=status, time_box=forms[verbs.GIVE.name])


give = page_of(verbs.GIVE, home=_home, render=_render, keeps=True)
