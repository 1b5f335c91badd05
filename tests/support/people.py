"""An administrator's day: people asked in and changed, keys confirmed and stopped, power lent, people away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from approvals.voting.rules.passkeys import unbase64url
from tests.support.api_tenant import PASSWORD, Workshop
from tests.support.callers import Api, person_for
from tests.support.outside.authenticators import Authenticator


def device() -> Authenticator:
    """A passkey in a browser at this console's own address."""
    return Authenticator(rp_id=settings.COUNTERFOIL_RP_ID, origin=settings.COUNTERFOIL_ORIGINS[0])


def enrol(api: Any, one: Authenticator | None = None) -> Any:
    """The whole ceremony by somebody with their password; the answer of the last step."""
    options = api.post("/approver-keys/options").json()["publicKey"]
    credential = (one or device()).registration(unbase64url(options["challenge"]))
    return api.post("/approver-keys", {"name": "Blue key", "credential": credential, "password": PASSWORD})


def span(days: int) -> dict[str, str]:
    now = timezone.now()
    return {"starts_at": now.isoformat(), "ends_at": (now + timedelta(days=days)).isoformat()}


def administer(shop: Workshop, watched: Callable[[Api], Any]) -> None:
    """Every call about people, each by somebody who may; `watched` looks at what they send."""
    ada, ben, rita, ruth = (
        watched(person_for(shop.tenant, *roles, name=f"{name}@{shop.slug}"))
        for name, roles in (
            ("ada", ("administrator",)),
            ("ben", ("administrator",)),
            ("rita", ("reviewer",)),
            ("ruth", ("reviewer",)),
        )
    )
    _members(ada, ben)
    _keys(ada, ben, rita)
    everybody = {each["name"]: each["actor"] for each in ada.get("/members").json()["items"]}
    loan = {"to": everybody["Ruth"], "groups": ["reviewers"], "password": PASSWORD, **span(3)}
    lent = rita.post("/delegations", loan).json()["delegation_id"]
    ruth.get("/delegations")
    rita.post(f"/delegations/{lent}/end")
    away = rita.post("/absences", span(3)).json()["absence_id"]
    ada.get("/absences")
    rita.post(f"/absences/{away}/end")
    rita.post("/delegations", loan)


def _members(ada: Any, ben: Any) -> None:
    one, two = (
        ada.post("/members", {"email": f"{name}@new.example", "roles": ["operator"]}).json()["member_id"]
        for name in ("nell", "noah")
    )
    ada.post(f"/members/{one}/invitation")
    ada.post(f"/members/{one}/roles", {"roles": ["operator", "compliance"], "groups": ["night-shift"]})
    ada.post(f"/members/{one}/links", {"member_id": two})
    ada.post(f"/members/{two}/separation")
    ben.post(f"/members/{two}/answer", {"confirm": True, "password": PASSWORD})
    ada.post(f"/members/{two}/remove", {"reason": "Asked in by mistake."})


def _keys(ada: Any, ben: Any, rita: Any) -> None:
    refused = enrol(rita).json()["approver_key_id"]
    ada.post(f"/approver-keys/{refused}/refuse", {"reason": "Not the one that was handed out."})
    path = f"/approver-keys/{enrol(rita).json()['approver_key_id']}"
    ada.post(f"{path}/confirm")
    ada.post(f"{path}/suspend", {"reason": "Lost, perhaps."})
    ben.post(f"{path}/restore")
    ada.post(f"{path}/suspend", {"reason": "Lost."})
    ben.post(f"{path}/remove")
    ada.get("/approver-keys")
