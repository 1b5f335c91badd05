"""The edge of every page: the caller, the tenant, and the display of refusals."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec
from uuid import UUID

from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_safe
from django_htmx.middleware import HtmxDetails

from approvals.voting.operations.refusal_records import write_refusal_records
from console.accounts import operations as accounts_operations
from console.accounts.step_up import run_with_proof
from console.edge import frame_facts as queries
from console.edge.auth import Caller, NotAllowed, person_caller, require_second_factor
from console.edge.problems import moving_page
from console.edge.transaction import note_access, record_refusal, request_tenancy
from console.models import User
from console.telemetry.logging_lines import add_log_facts
from ledger.catalogue.rules.moving import check_here
from ledger.db import savepoint, tenancy
from ledger.record.rules.refusals import Refused, TenantMoved, TenantMoving

if TYPE_CHECKING:
    from ledger.models import Tenant

shown_zone: ContextVar[str] = ContextVar("shown_zone", default="")
"""The time zone of whoever looks at the page; empty is UTC."""

P = ParamSpec("P")
log = logging.getLogger(__name__)


class NotStorable(Refused):
    """A value cannot be stored or searched for: it is too large or not valid text."""

    code = "NOT_STORABLE"
    status = 422


class TenantRequest(HttpRequest):
    """A signed-in person's request for a page of one tenant, with its time."""

    user: User
    htmx: HtmxDetails
    tenant: Tenant
    tenants: list[Tenant]
    caller: Caller
    as_of: datetime


Page = Callable[Concatenate[TenantRequest, P], HttpResponseBase]


def allowed_methods(view: Callable[..., Any] | None) -> list[str] | None:
    """Return the methods that a decorator of Django's around a view allows; None where there is no such decorator."""
    while inspect.isfunction(view):
        held = dict(zip(view.__code__.co_freevars, view.__closure__ or (), strict=True))
        if "request_method_list" in held:
            return list(held["request_method_list"].cell_contents)
        view = getattr(view, "__wrapped__", None)
    return None


def in_tenant(*roles: str) -> Callable[[Page[P]], Callable[..., HttpResponseBase]]:
    """Open the tenant of the address around a page; with `roles`, only for people who have one of them.

    A page that names no methods is read only.

    Whoever is no member learns nothing, not even that the tenant exists. A proof that the page asks for is checked
    outside of its transaction (`run_with_proof`). A refusal rolls back what the page began, and is shown here, once for
    all pages. The page carries its `admitted_roles`; none are all members.
    """

    def around(page: Page[P]) -> Callable[..., HttpResponseBase]:
        answer = page if allowed_methods(page) else require_safe(page)

        @wraps(answer)
        def opened(request: TenantRequest, slug: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            _identify(request, slug)
            shown_in = shown_zone.set(request.user.zone)

            def write() -> HttpResponseBase:
                with request_tenancy(request, request.tenant.id):
                    check_here(request.tenant.moving, request.tenant.move)
                    require_second_factor(request, request.caller)
                    if roles and not request.caller.roles & frozenset(roles):
                        raise NotAllowed(_only_for(roles))
                    return answer(request, *args, **kwargs)

            def read_caller() -> None:
                request.user.refresh_from_db(fields=["is_active"])
                _identify(request, slug)

            try:
                return run_with_proof(request, write, read_caller=read_caller)
            except DataError as error:
                log.warning("a value could not be stored or looked for: %s", error)
                with tenancy(request.tenant.id):
                    return _render_refusal(request, NotStorable())
            except Refused as refusal:
                if refusal.status == 404:
                    raise Http404(refusal.detail) from refusal
                record_refusal(request.tenant.id, refusal.records)
                with tenancy(request.tenant.id):
                    return _render_refusal(request, refusal)
            finally:
                shown_zone.reset(shown_in)
                if request.method == "POST":
                    queries.forget_frame_facts(request.tenant.id, request.caller.actor.id)

        opened.admitted_roles = frozenset(roles)  # type: ignore[attr-defined]
        return opened

    return around


@contextmanager
def undo_if_refused(request: TenantRequest) -> Iterator[None]:
    """A part of a page's work that is rolled back alone if it is refused; the page continues with the reason.

    What goes on record of the refusal commits with the page, and so does what stands outside this part. If we crash
    before that, none of it happened.
    """
    try:
        with savepoint():
            yield
    except Refused as refusal:
        write_refusal_records(request.tenant.id, refusal.records)
        raise


def _identify(request: TenantRequest, slug: str) -> None:
    places = queries.places(request.user) if request.user.is_active else []
    here = next(((place, tenant) for place, tenant in places if tenant.slug == slug), None)
    if here is None:
        raise Http404("Page not found.")
    place, request.tenant = here
    add_log_facts(tenant_id=str(place.tenant_id))
    request.tenants = [tenant for _, tenant in places]
    request.caller = person_caller(request.user, place)
    request.as_of = timezone.now()


def enter_any_tenant(request: Any) -> Tenant | None:
    """The tenant whose frame surrounds a page outside of tenants: that of the address, else the person's first."""
    if hasattr(request, "caller"):
        tenant: Tenant = request.tenant
        return tenant
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or not user.is_active:
        return None
    found = queries.places(user)
    if not found:
        return None
    slug = request.path.split("/")[2] if request.path.startswith("/t/") else ""
    place, tenant = next((each for each in found if each[1].slug == slug), found[0])
    request.tenant, request.tenants, request.as_of = tenant, [each for _, each in found], timezone.now()
    request.caller = person_caller(user, place)
    return tenant


def _only_for(roles: tuple[str, ...]) -> str:
    *others, last = (role if role == "compliance" else f"{role}s" for role in sorted(roles))
    return f"Only {', '.join(others)}{' and ' if others else ''}{last} may do this."


def _render_refusal(request: TenantRequest, refusal: Refused) -> HttpResponse:
    if isinstance(refusal, TenantMoving | TenantMoved):
        return moving_page(refusal)
    context: dict[str, Any] = {"refusal": refusal, "back": _previous_address(request)}
    if request.method in ("GET", "HEAD"):
        context |= {"refused_title": "Access denied" if refusal.status == 403 else "Not shown", "is_read": True}
    name = "_refusal.html" if request.htmx else "refused.html"
    return render(request, name, context, status=refusal.status)


def record_page_view(request: TenantRequest, kind: str, thing_id: UUID, about_id: UUID | None = None) -> None:
    """Note that this person has opened the page of something."""
    note_access(
        request,
        accounts_operations.record_sighting,
        tenant_id=request.tenant.id,
        by=request.caller.actor,
        kind=kind,
        thing_id=thing_id,
        about_id=about_id,
        at=request.as_of,
    )


def redirect_back(request: TenantRequest, otherwise: str) -> HttpResponse:
    """Redirect to our own page that a form names in `next`, otherwise to `otherwise`."""
    wanted = request.POST.get("next", "")
    return HttpResponseRedirect(wanted) if is_own_address(request, wanted) else redirect(otherwise)


def is_own_address(request: HttpRequest, address: str) -> bool:
    """Return whether this is the full address or the path of one of our pages; input may be neither."""
    whole = address.startswith(("/", "http://", "https://")) and not address.startswith("//")
    return whole and url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()})


def _previous_address(request: TenantRequest) -> str:
    """The address that the person came from, if it is a page of the console; "" if there is none."""
    before = request.headers.get("Referer", "")
    return before if is_own_address(request, before) else ""
