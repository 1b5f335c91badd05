"""Every page on which somebody shows who they are, with a form of it that waits for them.

A door is one form: where it stands, by whom it is sent, and what they fill in besides the password or the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import urlsplit

from django.test import Client
from django.urls import resolve
from django.utils import timezone

from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from tests.support.api_tenant import Clock, Workshop, contract
from tests.support.callers import drafted, new_client, put_contract_in_force, put_in_force
from tests.support.settling import settle

WHY: Final = "The shop asked for it."


@dataclass
class Form:
    """A form of a page, as a browser reads it: its inputs in order, each by its attributes."""

    action: str
    inputs: list[dict[str, str]] = field(default_factory=list)

    def of_type(self, kind: str) -> list[dict[str, str]]:
        return [each for each in self.inputs if each.get("type") == kind]

    def names(self) -> set[str]:
        return {each["name"] for each in self.inputs if "name" in each}

    def asks_for_proof(self) -> bool:
        return bool(self.of_type("password") or self.names() & {"otp", "code"})

    def values(self) -> dict[str, str]:
        """The values that the page itself puts in."""
        chosen = [each for each in self.inputs if each.get("type") not in ("radio", "checkbox") or "checked" in each]
        return {each["name"]: each["value"] for each in chosen if "name" in each and each.get("value") is not None}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(held.get("action", "")))
            self.is_inside = True
        elif self.is_inside and tag in ("input", "textarea", "select"):
            self.forms[-1].inputs.append(held)

    def handle_endtag(self, tag: str) -> None:
        self.is_inside = self.is_inside and tag != "form"


def forms_of(page: str) -> list[Form]:
    """The forms of a page."""
    reader = _Reader()
    reader.feed(page)
    return reader.forms


@dataclass
class Door:
    """One form that asks for a proof; `name` is that of the address which it is sent to."""

    name: str
    client: Client
    username: str
    page: str
    filled: dict[str, Any] = field(default_factory=dict)
    secret: str = "password"
    is_ours: Callable[[Form], bool] = lambda _: True

    def form(self) -> Form:
        """The form, on the page as it is now."""
        answer = self.client.get(self.page)
        assert answer.status_code == 200, (self.page, answer.status_code)
        found = [each for each in forms_of(answer.content.decode()) if self._is_it(each)]
        assert found, f"{self.page} has no form for {self.name}"
        return found[0]

    def send(self, secret: str, *, name: str = "") -> Any:
        """The answer to the form with this password, or with what its input of that name takes."""
        form = self.form()
        return self.client.post(self._address(form), form.values() | self.filled | {name or self.secret: secret})

    def _is_it(self, form: Form) -> bool:
        is_there = resolve(urlsplit(self._address(form)).path).url_name == self.name
        return is_there and form.asks_for_proof() and self.is_ours(form)

    def _address(self, form: Form) -> str:
        return form.action or self.page


def _door(shop: Workshop, name: str, role: str, page: str, *, by: str = "", **more: Any) -> Door:
    username = by or f"{role}-at-{name}@orchid"
    person = shop.person(role, name=username)
    return Door(name, person.client, username, f"/t/{shop.slug}/{page}", **more)


def _account(shop: Workshop, name: str, page: str, **more: Any) -> Door:
    person = shop.person("reviewer", name=f"{name}@orchid")
    return Door(name, person.client, f"{name}@orchid", page, **more)


# Signing in, and one's own account


def sign_in(shop: Workshop, clock: Clock) -> Door:
    shop.person("reviewer", name="rita@orchid")
    return Door("account_login", new_client(), "rita@orchid", "/sign-in", {"username": "rita@orchid"})


def sign_in_again(shop: Workshop, clock: Clock) -> Door:
    return _account(shop, "account_reauthenticate", "/sign-in/again")


def change_password(shop: Workshop, clock: Clock) -> Door:
    new = {"password1": "a longer pass phrase", "password2": "a longer pass phrase"}
    return _account(shop, "account_change_password", "/account/password", filled=new, secret="oldpassword")


# Approvals


def vote(shop: Workshop, clock: Clock) -> Door:
    approval = shop.approval_of(shop.propose())
    filled = {"verdict": "approve", "reason": WHY}
    return _door(shop, "approval-vote", "reviewer", f"approvals/{approval['approval_id']}", filled=filled)


def break_glass(shop: Workshop, clock: Clock) -> Door:
    rule = {"enabled": True, "step_up": "C", "review_within_s": 3600, "reviewers": 2}
    shop.operator_key.release("approval", {"version": "2", "document": {"break_glass": rule}})
    approval = shop.approval_of(shop.propose())
    filled = {"verdict": "break_glass", "reason": WHY}
    return _door(shop, "approval-vote", "operator", f"approvals/{approval['approval_id']}", filled=filled)


def vote_on_several(shop: Workshop, clock: Clock) -> Door:
    batch = {"most": 2, "side_effect_classes": ["EPHEMERAL_WRITE"]}
    rules = {"require": [{"tool": "write_document"}], "batch": batch}
    shop.operator_key.release("approval", {"version": "2", "document": rules})
    asked = [shop.approval_of(shop.propose("write_document", path=f"notes/{each}.md"))["approval_id"] for each in "ab"]
    page = f"approvals/batch?item={asked[0]}&item={asked[1]}"
    return _door(shop, "approvals-batch", "reviewer", page, filled={"verdict": "approve", "reason": WHY, "item": asked})


# Cases


def resolve_case(shop: Workshop, clock: Clock) -> Door:
    case = shop.held(clock)
    return _door(
        shop,
        "case-resolve",
        "operator",
        f"cases/{case['case_id']}",
        filled={"reason": WHY, "evidence": "Statement, line 4."},
        is_ours=lambda form: form.values().get("resolution") == "ATTEST_ABSENT",
    )


def confirm_case(shop: Workshop, clock: Clock) -> Door:
    case = shop.held(clock)
    settle(shop.operator, case["case_id"], "ATTEST_ABSENT")
    return _door(shop, "case-confirm", "reviewer", f"cases/{case['case_id']}", filled={"answer": "confirm"})


# Contracts, systems, policies and their releases


def answer_contract(shop: Workshop, clock: Clock) -> Door:
    document = contract("delete_document") | {"version": "1.1.0"}
    document["arguments_schema"]["properties"]["reason"]["minLength"] = 1
    assert shop.operator_key.post("/contracts", document).json()["state"] == "PENDING"
    filled = {"to": "confirm", "reason": WHY}
    return _door(shop, "contract-answer", "administrator", "contracts/delete_document/1.1.0", filled=filled)


def roll_back_contract(shop: Workshop, clock: Clock) -> Door:
    document = contract("write_document") | {"version": "1.1.0", "no_op_success_allowed": True}
    with tenancy(shop.tenant):
        put_contract_in_force(shop.tenant, document)
    page = "contracts/write_document/1.0.0"
    return _door(shop, "contract-rollback", "administrator", page, filled={"reason": WHY})


def retire_contract(shop: Workshop, clock: Clock) -> Door:
    page = "contracts/write_document/1.0.0"
    return _door(shop, "contract-retire", "administrator", page, filled={"reason": WHY})


def answer_system(shop: Workshop, clock: Clock) -> Door:
    books = {"name": "books", "pattern": "databases", "settings": {"tables": ["books.entries"]}}
    for settings in ({}, {"host": "books.example", "port": 5432}):
        sent = shop.operator_key.post("/systems", books | {"settings": books["settings"] | settings})
    assert sent.json()["waits"]
    filled = {"to": "confirm", "reason": WHY}
    return _door(shop, "system-answer", "administrator", "systems", filled=filled)


def sign_release(shop: Workshop, clock: Clock) -> Door:
    return _door(shop, "release-sign", "administrator", _release(shop, "RG-02"), filled={"reason": WHY})


def promote_release(shop: Workshop, clock: Clock) -> Door:
    return _door(shop, "release-promote", "administrator", _release(shop, ""), filled={"reason": WHY})


def _release(shop: Workshop, without: str) -> str:
    document = default_policy("verification") | {"version": "2", "repeat_limit": 5}
    with tenancy(shop.tenant):
        row = drafted(shop.tenant, "verification", "2", document, at=timezone.now(), but=without)
    return f"releases/{row.id}"


def roll_back_policy(shop: Workshop, clock: Clock) -> Door:
    document = default_policy("verification") | {"version": "2", "repeat_limit": 5}
    with tenancy(shop.tenant):
        put_in_force(shop.tenant, "verification", "2", document, at=timezone.now())
    page = "policies/verification/1"
    return _door(shop, "policy-rollback", "administrator", page, filled={"reason": WHY})


# Holds and retention


def answer_erasure(shop: Workshop, clock: Clock) -> Door:
    action_id = shop.propose()
    assert shop.vote(shop.approval_of(action_id), verdict="reject").status_code == 201
    asked = {"what": action_id, "legal_basis": "GDPR Art. 17", "reason": WHY}
    first = shop.person("compliance", name="first@orchid")
    assert first.client.post(f"/t/{shop.slug}/audit/erasures/ask", asked).status_code == 302
    return _door(shop, "erasure-answer", "compliance", "audit/holds")


def answer_retention(shop: Workshop, clock: Clock) -> Door:
    wish = {"payload_days": "90", "envelope_days": "400", "floor_days": "30"}
    first = shop.person("compliance", name="first@orchid")
    assert first.client.post(f"/t/{shop.slug}/audit/retention/propose", wish).status_code == 302
    return _door(shop, "retention-answer", "compliance", "audit/holds")


# People


def invite(shop: Workshop, clock: Clock) -> Door:
    filled = {"email": "kim@corp.example", "name": "Kim", "roles": ["reviewer"]}
    return _door(shop, "member-invite", "administrator", "people", filled=filled)


def change_member(shop: Workshop, clock: Clock) -> Door:
    from console.models import Membership

    shop.person(name="other@orchid")
    other = Membership.objects.get(user__username="other@orchid")
    return _door(shop, "member-change", "administrator", f"people/{other.id}", filled={"roles": ["reviewer"]})


def delegate(shop: Workshop, clock: Clock) -> Door:
    from console.models import Membership

    shop.person("reviewer", name="omar@orchid")
    omar, today = Membership.objects.get(user__username="omar@orchid"), timezone.now().date()
    span = {"starts": today.isoformat(), "ends": (today + timedelta(days=5)).isoformat()}
    filled = {"to": str(omar.actor_id), "groups": ["reviewers"], "reason": WHY} | span
    return _door(shop, "my-delegation", "reviewer", "me", filled=filled)


DOORS: Final = (
    *(sign_in, sign_in_again, change_password),
    *(vote, break_glass, vote_on_several, resolve_case, confirm_case),
    *(answer_contract, roll_back_contract, retire_contract, answer_system),
    *(sign_release, promote_release, roll_back_policy),
    *(answer_erasure, answer_retention, invite, change_member, delegate),
)
"""The doors of a workshop; those of standing approvals need a till and stand with their test."""
