"""Rights, from the proposal to the decision: what a tool changes in a real OpenBao, and what is made of it."""

from __future__ import annotations

import pytest

from tests.peers.support.bao import READ_SHOP
from tests.peers.support.errand import Errand
from tests.peers.support.path import accounted, fired, not_asked, succeeded

pytestmark = pytest.mark.long

WIDE = 'path "secret/*" { capabilities = ["read"] }'


def granting(bao, *, url=None, accessor="", **part):
    usual = {
        "principal": "sr.user",
        "directory": "auth/userpass/users",
        "granted": ["sr.policy"],
        "removed": ["'old'"],
        "target_field": "principal",
    }
    return Errand(
        pattern="security_infrastructure",
        settings={"url": url or bao.url, "audit_log": str(bao.log), "approval_header": "X-Approval-Id"},
        credential={"token": bao.reader},
        arguments={"user": "ann", "policy": "shop", "accessor": accessor or "none"},
        lookup={
            "effects": {"grant": usual | part},
            "audit": {"approval": "scope.action_id", "actor": "'token'"},
        },
        predicates=(
            "sa.principal == sr.user",
            "sr.policy in sa.policies && !('old' in sa.policies)",
            "sa.audit.exists && sa.audit.actors == ['token']",
        ),
        target="user/{user}",
        reading={"baseline": True},
        facts={"effect_domain": "SECURITY"},
    )


def writing(bao, document=READ_SHOP):
    return Errand(
        pattern="security_infrastructure",
        settings={"url": bao.url},
        credential={"token": bao.reader},
        arguments={"policy": "shop", "document": document},
        lookup={"effects": {"write": {"policy": "sr.policy", "document": "sr.document", "target_field": "policy"}}},
        predicates=("sa.paths == ['secret/data/shop/*']",),
        target="policy/{policy}",
        reading={"baseline": True},
    )


def grant(bao, work, *policies, user="ann", said=True):
    bao.user(user, *(policies or ("shop",)), approval=str(work.action_id) if said else None)


@pytest.fixture
def staffed(bao):
    for name in ("ann", "bob"):
        bao.user(name, "old")
    return bao


@pytest.mark.req("R-CP-10", "R-CP-14", "R-VD-06")
def test_a_granted_right_is_a_success(office, staffed):
    ended = office.carry_out(granting(staffed), lambda work: grant(staffed, work))
    succeeded(ended)
    assert ended.document["readings"][0]["context"]["audit"]["paths"] == ["auth/userpass/users/ann"]
    assert not_asked(ended) == set()
    accounted(ended, actor="token", place="acme")


@pytest.mark.req("R-CP-10")
def test_a_written_policy_is_a_success(office, bao):
    bao.policy("shop", 'path "secret/data/shop/a" { capabilities = ["read"] }')
    succeeded(office.carry_out(writing(bao), lambda work: bao.policy("shop", READ_SHOP)))


def grant_elsewhere(bao, work):
    grant(bao, work)
    grant(bao, work, user="bob")


def widen(bao, work):
    bao.policy("shop", WIDE)
    grant(bao, work)


@pytest.mark.req("R-CP-10", "R-CP-13", "R-CP-16")
@pytest.mark.parametrize(
    ("indicator", "effect"),
    [
        ("privilege_escalation", lambda bao, work: grant(bao, work, "shop", "root")),
        ("wrong_principal", grant_elsewhere),
        ("missing_audit_event", lambda bao, work: grant(bao, work, said=False)),
        ("wildcard_policy", widen),
        ("policy_mismatch", lambda bao, work: grant(bao, work, "shop", "old")),
    ],
)
def test_a_wrong_right_raises_its_indicator(office, staffed, indicator, effect):
    fired(office.carry_out(granting(staffed), lambda work: effect(staffed, work)), indicator)


@pytest.mark.req("R-CP-10", "R-DC-09")
def test_an_old_token_is_waited_for_until_it_is_revoked(office, staffed):
    accessor = staffed.sign_in("ann")["accessor"]
    work = office.begin(granting(staffed, accessor=accessor, token="sr.accessor"))
    grant(staffed, work)
    office.observe(work)
    fired(office.verify(work), "stale_token")
    staffed.write("auth/token/revoke-accessor", accessor=accessor)
    succeeded(office.verify(work))


@pytest.mark.req("R-CP-13", "R-DC-07")
def test_a_policy_that_grants_more_raises_privilege_escalation(office, bao):
    bao.policy("shop", READ_SHOP.replace(', "list"', ""))
    more = READ_SHOP.replace('"list"', '"list", "delete"')
    fired(office.carry_out(writing(bao), lambda work: bao.policy("shop", more)), "privilege_escalation")
