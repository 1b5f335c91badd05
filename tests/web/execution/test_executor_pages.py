"""The pages of executors and of machines' keys: last seen, what they may do, and revoking them."""

from __future__ import annotations

import pytest

from approvals.execution.operations import executors
from approvals.execution.operations.executors import ExecutorRevoked
from ledger.db import tenancy
from ledger.record import operations as ledger
from tests.support.browser_users import visitor, words
from tests.support.callers import key_for
from tests.support.scenes import now


def test_the_list_shows_the_tools_of_each_executor_and_when_it_was_last_seen(stage):
    said = words(visitor(stage, "reviewer").page("executors"))
    assert "runner not yet 0 issue_refund any executor key" in said


def test_the_page_shows_the_rights_of_an_executor_and_offers_revocation_to_those_who_may(stage):
    said = words(visitor(stage, "operator").page("executors/runner"))
    assert "may claim, start and report actions of these tools issue_refund" in said
    assert "not seen yet 0 running" in said
    assert "It cannot propose or approve." in said
    assert "Revoke runner" in said
    assert "Revoke runner" not in words(visitor(stage, "reviewer").page("executors/runner"))
    assert visitor(stage, "reviewer").post("executors/runner/revoke", reason="x").status_code == 403


def test_the_audit_log_is_linked_only_for_those_who_may_read_it(stage):
    link = 'href="/t/orchid/audit?action='
    assert link in visitor(stage, "compliance").page("executors/runner")
    assert link not in visitor(stage, "operator").page("executors/runner")


def test_a_revoked_executor_cannot_start_and_cannot_be_registered_again_by_its_key(stage):
    operator = visitor(stage, "operator")
    operator.post("executors/runner/revoke", reason="")
    assert "Not revoked: enter a reason." in words(operator.page("executors/runner"))
    operator.post("executors/runner/revoke", reason="It runs on a lost machine.")
    said = words(operator.page("executors/runner"))
    assert "Revoked. Further claims and starts are refused; running actions can still be reported." in said
    assert "runner revoked not yet 0 issue_refund" in words(operator.page("executors"))
    with tenancy(stage.tenant):
        with pytest.raises(ExecutorRevoked):
            executors.starting_executor(stage.tenant, "runner", stage.executor)
        assert executors.owned_executor(stage.tenant, "runner", stage.executor).executor_id == "runner"
        known = executors.owned_executor(stage.tenant, "runner", stage.executor)
        again = {"executor_id": "runner", "public_jwk": known.public_jwk, "tools": known.tools, "at": now()}
        with pytest.raises(ExecutorRevoked, match="An operator can register it again"):
            executors.register_executor(tenant_id=stage.tenant, by=stage.executor, **again)
        executors.register_executor(tenant_id=stage.tenant, by=ledger.Actor("operator", stage.executor.id), **again)
        assert executors.starting_executor(stage.tenant, "runner", stage.executor).revoked_at is None


def test_the_page_of_a_machine_key_shows_its_rights(stage):
    key_for(stage.tenant, "exec")
    administrator = visitor(stage, "administrator")
    listed = administrator.page("people")
    address = listed.split("/people/keys/")[1].split('"')[0]
    said = words(administrator.page(f"people/keys/{address.split('/')[0]}"))
    assert "Permissions" in said
    assert "It cannot propose or approve." in said
    assert f"Begins with cf_exec_{stage.tenant.hex}_" in said
    assert "Revoke this key" in said
    assert (
        visitor(stage, "operator").client.get(f"/t/{stage.slug}/people/keys/{address.split('/')[0]}").status_code == 403
    )
