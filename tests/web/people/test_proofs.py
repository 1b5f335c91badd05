"""Forms that ask who somebody is: each names its account, and wrong passwords and codes count at every one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.web.people.doors import DOORS, Door, forms_of

TEMPLATES = Path(settings.BASE_DIR) / "templates"


@pytest.fixture(params=DOORS, ids=lambda each: each.__name__)
def door(request: pytest.FixtureRequest, shop: Any, clock: Any) -> Door:
    made: Door = request.param(shop, clock)
    return made


# The account that a password belongs to


def test_each_password_form_names_its_account_ahead_of_the_password(door: Door):
    """A password manager then fills in the right one, and the browser has nothing to complain of."""
    form = door.form()
    kinds = [each.get("autocomplete") for each in form.inputs]
    [account] = [each for each in form.inputs if each.get("autocomplete", "").startswith("username")]
    assert kinds.index(account["autocomplete"]) == kinds.index("current-password") - 1
    # One of the type `hidden` counts for nothing.
    assert account["type"] == "text"
    if door.name != "account_login":
        assert account["value"] == door.username
        assert "hidden" in account


def test_an_invited_person_chooses_the_password_of_the_account_that_they_were_invited_as(shop: Any):
    from console.accounts.members import operations
    from ledger.db import tenancy
    from ledger.record.operations import SYSTEM
    from tests.support.callers import new_client

    with tenancy(shop.tenant):
        _, token = operations.invite_member(
            tenant_id=shop.tenant, email="kim@corp.example", name="Kim", roles=[], groups=[], by=SYSTEM, at=_now()
        )
    [form] = forms_of(new_client().get(f"/invitation/{token}").content.decode())
    shown = [(each["name"], each.get("autocomplete"), each.get("value")) for each in form.inputs[1:]]
    assert shown == [("username", "username", "kim@corp.example"), ("password", "new-password", None)]


def test_a_password_is_asked_for_by_one_template_alone():
    """Whatever asks otherwise would have no account beside it: a `password` input, or a form's field by itself."""
    raw = re.compile(r'type="password"|\{\{ *\w+\.(?:old)?password *\}\}')
    found = {str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html") if raw.search(path.read_text())}
    # The sign-in has its account in sight.
    assert found == {"_password.html", "sign_in/form.html"}


def _now() -> Any:
    from django.utils import timezone

    return timezone.now()
