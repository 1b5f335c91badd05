"""Policies, principals and live tokens read back from a real OpenBao."""

from __future__ import annotations

import httpx
import pytest

from reviews.checks.interface import CheckFailed, Consistency
from tests.peers.support import environment
from tests.peers.support.bao import AUDIT, BINDINGS, GRANT, READ_SHOP, WRITE, look

pytestmark = pytest.mark.long


@pytest.mark.req("R-CP-10")
class TestPrincipals:
    def test_a_granted_policy_is_present(self, bao):
        bao.user("ann")
        before = look(bao)
        bao.user("ann", "shop")
        found = look(bao, pre=before)
        assert (before.effects[0].present, found.effects[0].present) == (False, True)
        assert found.effects[0].fields["policies"] == ["shop"]
        assert found.effects[0].fields["holders"] == ["ann"]
        assert found.consistency is Consistency.PRIMARY
        assert "server time" in found.freshness
        assert found.indicators == ()

    def test_a_principal_who_does_not_exist_is_absent(self, bao):
        assert look(bao).effects[0].present is False

    def test_a_removed_policy_is_present_as_a_removal(self, bao):
        bao.user("ann", "shop")
        part = {**GRANT, "granted": [], "removed": ["sr.policy"]}
        assert look(bao, part=part).effects[0].present is False
        bao.user("ann")
        assert look(bao, part=part).effects[0].present

    def test_an_identity_entity_can_be_the_principal(self, bao):
        part = {**GRANT, "directory": "identity/entity/name"}
        bao.write("identity/entity/name/ann", policies=["old"])
        assert look(bao, part=part).effects[0].present is False
        bao.write("identity/entity/name/ann", policies=["shop"])
        assert look(bao, part=part).effects[0].fields["holders"] == ["ann"]
        bao.client.delete("identity/entity/name/ann")

    def test_a_deleted_principal_is_absent(self, bao):
        part = {"principal": "sr.user", "directory": "auth/userpass/users", "expect": "absent"}
        assert look(bao, part=part).effects[0].present
        bao.user("ann")
        assert look(bao, part=part).effects[0].present is False

    def test_more_policies_than_asked_for_are_an_escalation(self, bao):
        bao.user("ann", "other")
        before = look(bao)
        bao.user("ann", "other", "shop", "admin")
        assert look(bao, pre=before).indicators == ("privilege_escalation",)

    def test_a_root_policy_is_an_escalation_even_without_a_baseline(self, bao):
        bao.user("ann", "shop", "root")
        assert look(bao).indicators == ("privilege_escalation",)

    def test_a_half_applied_change_is_a_mismatch(self, bao):
        bao.user("ann", "shop", "old")
        assert look(bao, part={**GRANT, "removed": ["'old'"]}).indicators == ("policy_mismatch",)

    def test_another_principal_who_got_the_policy_is_detected(self, bao):
        bao.user("ann")
        bao.user("bob")
        before = look(bao)
        bao.user("bob", "shop")
        found = look(bao, pre=before)
        assert found.effects[0].present is False
        assert found.indicators == ("wrong_principal",)

    def test_a_granted_policy_with_a_wide_wildcard_is_detected(self, bao):
        bao.policy("shop", 'path "secret/*" { capabilities = ["read"] }')
        bao.user("ann", "shop")
        assert look(bao).indicators == ("wildcard_policy",)

    def test_a_token_issued_before_the_removal_is_stale(self, bao):
        bao.user("ann", "shop")
        token = bao.sign_in("ann")
        bao.user("ann")
        part = {**GRANT, "granted": [], "removed": ["sr.policy"], "token": "sr.accessor"}
        bindings = {**BINDINGS, "sr": {**BINDINGS["sr"], "accessor": token["accessor"]}}
        assert look(bao, part=part, bindings=bindings).indicators == ("stale_token",)
        bao.write("auth/token/revoke-accessor", accessor=token["accessor"])
        found = look(bao, part=part, bindings=bindings)
        assert found.indicators == ()
        assert found.effects[0].fields["token_policies"] == []


@pytest.mark.req("R-CP-10")
class TestPolicies:
    def test_a_policy_in_another_notation_is_present(self, bao):
        bao.policy("shop", '# the shop\npath "secret/data/shop/*" {capabilities=["list","read",]}')
        found = look(bao, part=WRITE)
        assert found.effects[0].present
        assert found.effects[0].fields["paths"] == ["secret/data/shop/*"]
        assert found.indicators == ()

    def test_a_missing_policy_is_absent(self, bao):
        bindings = {**BINDINGS, "sr": {**BINDINGS["sr"], "policy": "none"}}
        assert look(bao, part=WRITE, bindings=bindings).effects[0].present is False
        assert look(bao, part={"policy": "'none'", "expect": "absent"}).effects[0].present

    def test_an_unchanged_policy_is_absent(self, bao):
        bao.policy("shop", 'path "secret/data/shop/a" { capabilities = ["read"] }')
        before = look(bao, part=WRITE)
        assert look(bao, part=WRITE, pre=before).effects[0].present is False

    def test_a_policy_that_grants_less_is_a_mismatch(self, bao):
        bao.policy("shop", 'path "secret/data/shop/*" { capabilities = ["read"] }')
        assert look(bao, part=WRITE).indicators == ("policy_mismatch",)

    def test_a_policy_that_grants_more_is_an_escalation(self, bao):
        bao.policy("shop", READ_SHOP.replace('"list"', '"list", "delete"'))
        assert look(bao, part=WRITE).indicators == ("policy_mismatch", "privilege_escalation")

    def test_a_wide_wildcard_is_detected(self, bao):
        text = 'path "*" { capabilities = ["read"] }'
        bao.policy("shop", text)
        bindings = {**BINDINGS, "sr": {**BINDINGS["sr"], "document": text}}
        assert look(bao, part=WRITE, bindings=bindings).indicators == ("wildcard_policy",)


@pytest.mark.req("R-CP-10", "R-CP-14")
class TestAuditTrail:
    def test_a_change_under_the_approval_is_found_in_the_audit_log(self, bao):
        bao.user("ann", "shop", approval="ap-1")
        found = look(bao, audit={**AUDIT, "actor": "'token'"})
        assert found.indicators == ()
        assert found.context["audit"]["paths"] == ["auth/userpass/users/ann"]
        assert found.context["audit"]["actors"] == ["token"]

    def test_a_change_without_an_audit_entry_is_reported(self, bao):
        bao.user("ann", "shop", approval="ap-2")
        assert look(bao, audit=AUDIT).indicators == ("missing_audit_event",)

    def test_an_audit_entry_of_another_actor_does_not_count(self, bao):
        bao.user("ann", "shop", approval="ap-1")
        assert look(bao, audit={**AUDIT, "actor": "'agent'"}).indicators == ("missing_audit_event",)

    def test_a_change_by_another_actor_under_the_approval_is_detected(self, bao):
        bao.user("ann", "shop", approval="ap-1")
        bao.user("bob", "shop", approval="ap-1")
        assert look(bao, audit=AUDIT).indicators == ("wrong_principal",)

    def test_a_truncated_audit_log_proves_nothing(self, bao, monkeypatch):
        bao.user("ann", "shop")
        monkeypatch.setattr("reviews.checks.access.MAX_AUDIT_BYTES", 10)
        found = look(bao, audit=AUDIT)
        assert found.indicators == ()
        assert "audit" not in found.context

    def test_a_missing_audit_log_is_an_outage(self, bao, tmp_path):
        with pytest.raises(CheckFailed) as failed:
            look(bao, audit=AUDIT, settings={"audit_log": str(tmp_path / "none")})
        assert failed.value.retryable


class TestNoAnswer:
    def test_an_unreachable_server_is_an_outage(self, bao):
        with pytest.raises(CheckFailed) as failed:
            look(bao, settings={"url": f"http://127.0.0.1:{environment.free_port()}"})
        assert failed.value.retryable

    def test_a_token_without_the_right_gives_no_answer(self, bao):
        with pytest.raises(CheckFailed) as failed:
            look(bao, token="s.unknown")
        assert not failed.value.retryable

    def test_a_wrong_server_gives_no_answer(self, bao):
        with pytest.raises(CheckFailed) as failed:
            look(bao, settings={"url": f"{bao.url}/v1/none"})
        assert not failed.value.retryable

    def test_the_credential_can_only_read(self, bao):
        answer = httpx.post(
            f"{bao.url}/v1/auth/userpass/users/ann", json={}, headers={"X-Vault-Token": bao.reader}, trust_env=False
        )
        assert answer.status_code == 403
