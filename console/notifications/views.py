"""A person's notifications and their settings, and the channels that an administrator allows."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.edge.http import TenantRequest, in_tenant
from console.notifications import inbox, routing, sending, verbs
from console.notifications import operations as notifications_operations
from console.notifications import queries as notifications_queries
from console.notifications.forms import ChannelsForm, MailPreferencesForm
from console.notifications.lists import CHANNELS, NOTICES, UNDELIVERED
from console.verbs.verb import page_of
from console.web.list_page import export_address, place_in

PAGE = 50
# In this order: each names those after it as well.
_BROWSERS = {
    "Edg": "Edge",
    "Firefox": "Firefox",
    "FxiOS": "Firefox",
    "Chrome": "Chrome",
    "CriOS": "Chrome",
    "Safari": "Safari",
}
_SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "Linux": "Linux",
}


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    return _page(
        request,
        MailPreferencesForm.of(notifications_queries.mail_preferences(request.tenant.id, request.caller.actor.id)),
    )


mark_read = page_of(verbs.READ, home=lambda request, ids, result: reverse("notices", args=[request.tenant.slug]))


@in_tenant()
def open_next(request: TenantRequest) -> HttpResponse:
    """Redirect to the most urgent item; opening it marks it as seen."""
    found = inbox.next_item(request.tenant, request.caller.actor.id)
    if found is None:
        messages.info(request, "None of your notifications needs action.")
        return redirect("notices", request.tenant.slug)
    return redirect(found.fact.href)


@in_tenant()
@require_POST
def save_mail_preferences(request: TenantRequest) -> HttpResponse:
    form = MailPreferencesForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    notifications_operations.set_mail_preferences(
        tenant_id=request.tenant.id, actor_id=request.caller.actor.id, wish=form.wish(), at=request.as_of
    )
    messages.success(request, "Mail settings saved.")
    return redirect("notices", request.tenant.slug)


@in_tenant()
@require_POST
def add_device(request: TenantRequest) -> HttpResponse:
    """Add the browser's push address, if it belongs to a listed push service."""
    sender = settings.COUNTERFOIL_PUSH
    if sender is None:
        raise notifications_operations.BadDevice("This installation calls no push service.")
    notifications_operations.add_device(
        tenant_id=request.tenant.id,
        actor_id=request.caller.actor.id,
        address=request.POST.get("address", ""),
        name=_device_name(request.headers.get("User-Agent", "")),
        sender=sender,
        at=request.as_of,
    )
    messages.success(request, "This device is told from now on when something waits for you.")
    return redirect("notices", request.tenant.slug)


@in_tenant()
@require_POST
def remove_device(request: TenantRequest, device_id: UUID) -> HttpResponse:
    notifications_operations.remove_device(
        tenant_id=request.tenant.id, actor_id=request.caller.actor.id, device_id=device_id
    )
    messages.success(request, "That device is told nothing more.")
    return redirect("notices", request.tenant.slug)


@in_tenant("administrator")
def channels(request: TenantRequest) -> HttpResponse:
    return _channels(request, ChannelsForm.of(notifications_queries.tenant_settings(request.tenant.id)))


@in_tenant("administrator")
@require_POST
def set_channels(request: TenantRequest) -> HttpResponse:
    form = ChannelsForm(request.POST)
    if not form.is_valid():
        return _channels(request, form, status=422)
    notifications_operations.set_settings(
        tenant_id=request.tenant.id, document=form.document(), by=request.caller.actor, at=request.as_of
    )
    messages.success(request, "Channels saved.")
    return redirect("notice-channels", request.tenant.slug)


@in_tenant("administrator")
@require_POST
def send_test(request: TenantRequest, channel: str) -> HttpResponse:
    """Send a test by one channel, in the way of its messages; mail and pushes go to the person who asks."""
    if channel not in routing.CHANNELS:
        raise Http404
    tenant, me = request.tenant, request.caller.actor.id
    devices = [each.address for each in notifications_queries.push_devices(tenant.id, me)]
    mail = sending.mail_address(request.user)
    done = sending.send_test(tenant, channel, mail=mail, devices=devices, at=request.as_of)
    if done.fault:
        messages.error(request, f"{CHANNELS[channel]} did not take the test: {done.fault}.")
    else:
        messages.success(request, f"{CHANNELS[channel]} took the test.")
    return redirect("notice-channels", request.tenant.slug)


retry_notice = page_of(
    verbs.AGAIN, home=lambda request, ids, result: reverse("notice-channels", args=[request.tenant.slug])
)


def _page(request: TenantRequest, form: MailPreferencesForm, *, status: int = 200) -> HttpResponse:
    tenant, me = request.tenant, request.caller.actor.id
    before = request.GET.get("before", "")
    found = NOTICES.find(request, PAGE, after=place_in(request, "before"))
    here = reverse("notices", args=[tenant.slug])
    context = {
        "here": "notices",
        "tabs": notice_tabs(request, here),
        "groups": inbox.collect_alike(NOTICES.rows_of(request, found)),
        "unread": notifications_queries.count_unread(tenant.id, me),
        "newest": found[0].id if found else None,
        "older": f"{here}?before={found[-1].id}" if len(found) == PAGE else "",
        "newest_href": here if before else "",
        "next": inbox.next_item(tenant, me),
        "export": export_address(request, NOTICES),
        "form": form,
        "push": _push(request),
        "address": sending.mail_address(request.user) if "email" in sending.available_channels(tenant) else "",
    }
    return render(request, "notices/_list.html" if request.htmx else "notices/list.html", context, status=status)


def _way(name: str, word: str, is_there: bool) -> str:
    if name == "push":
        return f"{word} that a person has switched on are notified" if is_there else f"{word} are not notified"
    return f"{word} has an address" if is_there else f"{word} has no address"


def _push(request: TenantRequest) -> dict[str, Any] | None:
    sender = settings.COUNTERFOIL_PUSH
    if sender is None:
        return None
    devices = notifications_queries.push_devices(request.tenant.id, request.caller.actor.id)
    # The page finds its own browser by the digest; the address itself is shown to nobody.
    digests = [hashlib.sha256(each.address.encode()).hexdigest() for each in devices]
    return {"key": sender.public_key, "devices": list(zip(devices, digests, strict=True))}


def _device_name(user_agent: str) -> str:
    """A name for the device: browser and system, as far as the browser reports them."""
    browser = next((name for mark, name in _BROWSERS.items() if mark in user_agent), "A browser")
    system = next((name for mark, name in _SYSTEMS.items() if mark in user_agent), "")
    return f"{browser} on {system}" if system else browser


def _channels(request: TenantRequest, form: ChannelsForm, *, status: int = 200) -> HttpResponse:
    tenant = request.tenant
    here, ways = reverse("notice-channels", args=[tenant.slug]), sending.available_channels(tenant)
    context = {
        "here": "notices",
        "tabs": notice_tabs(request, here),
        "form": form,
        "ways": [
            {
                "word": _way(name, CHANNELS[name], name in ways),
                "there": name in ways,
                "test": reverse("notice-channel-test", args=[tenant.slug, name]),
            }
            for name in routing.CHANNELS
        ],
        "undelivered": UNDELIVERED.rows(request, PAGE),
        "late": notifications_queries.delivery_status(tenant.id, at=request.as_of)["late"],
    }
    name = "notices/_channels.html" if request.htmx else "notices/channels.html"
    return render(request, name, context, status=status)


def notice_tabs(request: TenantRequest, current: str) -> list[dict[str, Any]]:
    """The tabs about outgoing messages, for people who may see them."""
    slug = request.tenant.slug
    tabs = [("Inbox", reverse("notices", args=[slug]))]
    if "administrator" in request.caller.roles:
        tabs.append(("Channels", reverse("notice-channels", args=[slug])))
    if request.caller.roles & {"administrator", "compliance"}:
        tabs.append(("Event export", reverse("event-export", args=[slug])))
    return [{"word": word, "href": href, "current": href == current} for word, href in tabs]


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
