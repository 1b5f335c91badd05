"""Lifting a freeze."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.forms import Lift
from console.http import Request, in_tenant
from ledger import operations


@in_tenant("operator", "administrator")
@require_POST
def lift(request: Request, freeze_id: UUID) -> HttpResponse:
    form = Lift(request.POST)
    if form.is_valid():
        operations.lift_freeze(
            tenant_id=request.tenant.id,
            freeze_id=freeze_id,
            reason=form.cleaned_data["reason"],
            actor=request.caller.actor,
            at=request.as_of,
        )
        messages.success(request, "Lifted. New work is released to it again.")
    else:
        messages.error(request, "Nothing was lifted: say why it may be released again.")
    return redirect("home", request.tenant.slug)
