"""What people and agents do goes on while a key of the installation changes."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from approvals.agents.rules import registry
from console.search import operations as search
from console.search import queries
from ledger import key_files
from ledger.db import execute, tenancy
from tests.support.browser_users import visitor, words


def change_key(file):
    """Make a key and use it, as the first two steps do."""
    lines = key_files.introduce(key_files.read_lines(file), "cd" * 32)
    key_files.write_lines(file, key_files.use_waiting_key(lines, at=timezone.now()))


def drop_former_keys(file):
    key_files.write_lines(file, key_files.read_lines(file)[:1])


def fill(stage):
    with tenancy(stage.tenant):
        while search.update_search(tenant_id=stage.tenant):
            pass


def terms():
    return {term for (term,) in execute("SELECT term FROM console_searchterm WHERE starts_with(term, 'k:')")}


def test_whoever_is_signed_in_stays_so_until_the_former_secret_is_retired(stage, settings):
    operator, reviewer = visitor(stage, "operator"), visitor(stage, "reviewer")
    assert operator.get("approvals").status_code == reviewer.get("approvals").status_code == 200
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = (
        "another secret, long enough for anybody",
        [settings.SECRET_KEY],
    )
    assert operator.get("approvals").status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    # The session of whoever came by meanwhile is under the new secret.
    assert operator.get("approvals").status_code == 200
    assert reviewer.get("approvals").status_code == 302


def test_a_registration_under_the_former_key_counts_until_that_key_is_retired(stage, secrets_dir):
    change_key(secrets_dir / "registry_key")
    stage.propose(order_id="EX-4211", amount=2050)
    with pytest.raises(CommandError, match=r"orchid: the registration support \S+ is sealed under a key before it"):
        call_command("rotate", "registry-key", "--retire")
    stage.propose(order_id="EX-4212", amount=2050)
    call_command("rotate", "registry-key", "--retire", "--now", "--reason", "Stolen.")
    with pytest.raises(registry.RegistryFingerprintMismatch):
        stage.propose(order_id="EX-4213", amount=2050)


def test_actions_are_found_under_the_former_key_and_under_the_new_one_once_they_are_read_again(stage, secrets_dir):
    stage.propose(order_id="EX-4217", amount=2050)
    fill(stage)
    with tenancy(stage.tenant):
        before = terms()
        assert search.is_indexed(tenant_id=stage.tenant)
    operator = visitor(stage, "operator")
    change_key(secrets_dir / "kek")
    with tenancy(stage.tenant):
        assert not search.is_indexed(tenant_id=stage.tenant)
    assert "order EX-4217" in words(operator.page("search", q="20.50 EUR"))
    fill(stage)
    with tenancy(stage.tenant):
        assert before.isdisjoint(terms())
        assert search.is_indexed(tenant_id=stage.tenant)
    drop_former_keys(secrets_dir / "kek")
    with tenancy(stage.tenant):
        assert queries.search(stage.tenant, "20.50 EUR", with_people=False).actions
