"""A password hash that changes without an event is found; each way to set one is an event, and none tells the hash."""

from __future__ import annotations

from io import StringIO
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.hashers import make_password
from django.core.management import call_command

from console.accounts.sign_in.adapters import AccountAdapter
from console.accounts.sign_in.sessions import PasswordBackend
from console.models import User
from ledger.db import tenancy
from ledger.management.commands import verify_ledger
from ledger.record.queries import events
from tests.support.scenes import PASSWORD

ALTERED = "the stored hash of its password is not the one that its events tell of."


def findings(stage: Any) -> list[str]:
    return verify_ledger.check_tenant(stage.tenant, events.tenant_by_id(stage.tenant).origin)[1].listed


def last_event(stage: Any, member: Any) -> tuple[str, dict[str, Any]]:
    with tenancy(stage.tenant):
        event, _, detail = events.history(stage.tenant, member.id)[-1]
    assert detail is not None
    return event.kind, detail


@pytest.fixture
def member(stage: Any) -> Any:
    return stage.person("operator", name="ada@orchid")


@pytest.mark.req("R-LE-02")
def test_a_manually_inserted_password_hash_is_detected(stage: Any, member: Any):
    assert findings(stage) == []
    User.objects.filter(id=member.user_id).update(password=make_password("a password of the intruder"))
    assert findings(stage) == [f"member {member.id}: {ALTERED}"]


def by_the_page(user: User) -> None:
    AccountAdapter().set_password(user, "another correct horse")


def by_the_command(user: User) -> None:
    with patch("getpass.getpass", return_value="another correct horse"):
        call_command("changepassword", user.get_username(), stdout=StringIO())


def by_a_renewed_hash(user: User) -> None:
    """As after an upgrade that hashes with more rounds."""
    with patch("django.contrib.auth.hashers.MD5PasswordHasher.must_update", return_value=True):
        assert PasswordBackend().authenticate(None, username=user.get_username(), password=PASSWORD) == user


@pytest.mark.parametrize("change", [by_the_page, by_the_command, by_a_renewed_hash])
def test_every_way_of_setting_a_password_is_recorded(stage: Any, member: Any, change: Any):
    before = User.objects.get(id=member.user_id).password
    change(User.objects.get(id=member.user_id))
    after = User.objects.get(id=member.user_id).password
    assert before != after
    kind, detail = last_event(stage, member)
    assert kind == "password_changed"
    assert after not in str(detail)
    assert "another correct horse" not in str(detail)
    assert set(detail["password"]) == {"salt", "digest"}
    assert findings(stage) == []


def test_a_restored_former_password_hash_is_detected(stage: Any, member: Any):
    before = User.objects.get(id=member.user_id).password
    by_the_page(User.objects.get(id=member.user_id))
    User.objects.filter(id=member.user_id).update(password=before)
    assert findings(stage) == [f"member {member.id}: {ALTERED}"]


def test_the_same_hash_has_another_digest_each_time(stage: Any, member: Any):
    _, first = last_event(stage, member)
    by_the_page(User.objects.get(id=member.user_id))
    _, second = last_event(stage, member)
    assert first["password"]["salt"] != second["password"]["salt"]
