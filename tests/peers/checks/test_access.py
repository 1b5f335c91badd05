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
    def test_a_grant_is_present(self, bao):
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

    def test_a_removal_is_present(self, bao):
        bao.user("ann", "shop")
        part = {**GRANT, "granted": [], "removed": ["sr.policy"]}
        assert look(bao, part=part).effects[0].present is False
        bao.user("ann")
        assert look(bao, part=part).effects[0].present

    def test_an_entity_is_a_principal_too(self, bao):
        part = {**GRANT, "directory": "identity/entity/name"}
        bao.write("identity/entity/name/ann", policies=["old"])
        assert look(bao, part=part).effects[0].present is False
        bao.write("identity/entity/name/ann", policies=["shop"])
        assert look(bao, part=part).effects[0].fields["holders"] == ["ann"]
        bao.client.delete("identity/entity/name/ann")

    def test_a_principal_who_was_to_go_is_gone(self, bao):
        part = {"principal": "sr.user", "directory": "auth/userpass/users", "expect": "absent"}
        assert look(bao, part=part).effects[0].present
        bao.user("ann")
        assert look(bao, part=part).effects[0].present is False

    def test_more_policies_than_asked_for_are_an_escalation(self, bao):
        bao.user("ann", "other")
        before = look(bao)
        bao.user("ann", "other", "shop", "admin")
        assert look(bao, pre=before).indicators == ("privilege_escalation",)

    def test_root_is_an_escalation_without_any_baseline(self, bao):
        bao.user("ann", "shop", "root")
        assert look(bao).indicators == ("privilege_escalation",)

    def test_half_of_a_change_is_a_mismatch(self, bao):
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

    def test_a_token_from_before_is_stale(self, bao):
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
    def test_a_policy_is_there_in_other_words(self, bao):
        bao.policy("shop", '# the shop\npath "secret/data/shop/*" {capabilities=["list","read",]}')
        found = look(bao, part=WRITE)
        assert found.effects[0].present
        assert found.effects[0].fields["paths"] == ["secret/data/shop/*"]
        assert found.indicators == ()

    def test_one_that_does_not_exist_is_absent(self, bao):
        bindings = {**BINDINGS, "sr": {**BINDINGS["sr"], "policy": "none"}}
        assert look(bao, part=WRITE, bindings=bindings).effects[0].present is False
        assert look(bao, part={"policy": "'none'", "expect": "absent"}).effects[0].present

    def test_one_that_did_not_change_is_absent(self, bao):
        bao.policy("shop", 'path "secret/data/shop/a" { capabilities = ["read"] }')
        before = look(bao, part=WRITE)
        assert look(bao, part=WRITE, pre=before).effects[0].present is False

    def test_less_than_asked_for_is_a_mismatch(self, bao):
        bao.policy("shop", 'path "secret/data/shop/*" { capabilities = ["read"] }')
        assert look(bao, part=WRITE).indicators == ("policy_mismatch",)

    def test_more_than_asked_for_is_an_escalation(self, bao):
        bao.policy("shop", READ_SHOP.replace('"list"', '"list", "delete"'))
        assert look(bao, part=WRITE).indicators == ("policy_mismatch", "privilege_escalation")

    def test_a_wide_wildcard_is_detected(self, bao):
        text = 'path "*" { capabilities = ["read"] }'
        bao.policy("shop", text)
        bindings = {**BINDINGS, "sr": {**BINDINGS["sr"], "document": text}}
        assert look(bao, part=WRITE, bindings=bindings).indicators == ("wildcard_policy",)


@pytest.mark.req("R-CP-10", "R-CP-14")
class TestAuditTrail:
    def test_a_change_under_the_approval_is_in_the_log(self, bao):
        bao.user("ann", "shop", approval="ap-1")
        found = look(bao, audit={**AUDIT, "actor": "'token'"})
        assert found.indicators == ()
        assert found.context["audit"]["paths"] == ["auth/userpass/users/ann"]
        assert found.context["audit"]["actors"] == ["token"]

    def test_one_that_is_not_in_the_log_is_missing(self, bao):
        bao.user("ann", "shop", approval="ap-2")
        assert look(bao, audit=AUDIT).indicators == ("missing_audit_event",)

    def test_one_by_another_actor_is_missing(self, bao):
        bao.user("ann", "shop", approval="ap-1")
        assert look(bao, audit={**AUDIT, "actor": "'agent'"}).indicators == ("missing_audit_event",)

    def test_a_change_of_somebody_else_under_the_approval_is_detected(self, bao):
        bao.user("ann", "shop", approval="ap-1")
        bao.user("bob", "shop", approval="ap-1")
        assert look(bao, audit=AUDIT).indicators == ("wrong_principal",)

    def test_a_log_that_was_cut_proves_nothing(self, bao, monkeypatch):
        bao.user("ann", "shop")
        monkeypatch.setattr("reviews.checks.access.MAX_AUDIT_BYTES", 10)
        found = look(bao, audit=AUDIT)
        assert found.indicators == ()
        assert "audit" not in found.context

    def test_a_log_that_is_not_there_is_an_outage(self, bao, tmp_path):
        with pytest.raises(CheckFailed) as failed:
            look(bao, audit=AUDIT, settings={"audit_log": str(tmp_path / "none")})
        assert failed.value.retryable


class TestNoAnswer:
    def test_a_server_that_is_gone_is_an_outage(self, bao):
        with pytest.raises(CheckFailed) as failed:
            look(bao, settings={"url": f"http://127.0.0.1:{environment.free_port()}"})
        assert failed.value.retryable

    def test_a_token_without_the_right_never_answers(self, bao):
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
