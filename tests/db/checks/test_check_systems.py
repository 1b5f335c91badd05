"""Deployments, procurement, browser and access without a peer: lookups, policies, pages, and a server's standing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from reviews.checks import access, acl, browser, fetching
from reviews.checks.catalogue import check_for
from reviews.checks.fetching import SiteResponse
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
GOOD: dict[str, dict[str, Any]] = {
    "deployments": {
        "program": "'shop'",
        "artifact": "sr.digest",
        "regions": ["sr.region"],
        "replicas": "3",
        "repository": "'shop'",
        "tag": "'v2'",
        "approval": "scope.action_id",
        "max_error_permille": 10,
        "tenant_field": "environment",
    },
    "procurement": {
        "match": {"reference": "scope.idempotency_key"},
        "vendor": "sr.vendor",
        "amount": "sr.amount",
        "states": ["draft"],
        "catalogue": True,
        "budget": {"limit": "sr.limit", "match": {"party.code": "sr.vendor"}},
        "target_field": "vendor",
    },
    "browser_automation": {
        "page": "'/issue' + sr.issue",
        "element": "input[name=title]",
        "text": "sr.title",
        "url": "'/x'",
        "shown": {"subject": "input[name=title]"},
        "error": "p.error-message",
        "account": {"selector": "p.userblock b", "name": "'reader'"},
        "download": {"path": "'/x'", "sha256": "sr.sha256"},
        "confirmation": {"path": "'/x'", "where": {"data/title": "sr.title"}},
        "expect": "absent",
        "target_field": "subject",
    },
    "security_infrastructure": {
        "principal": "sr.user",
        "directory": "auth/userpass/users",
        "granted": ["sr.policy"],
        "removed": [],
        "token": "sr.accessor",
        "wildcard_depth": 3,
        "target_field": "principal",
    },
}
BAD: list[tuple[str, dict[str, Any]]] = [
    ("deployments", {"program": None}),
    ("deployments", {"artifact": None}),
    ("deployments", {"artifact": "sa.digest"}),
    ("deployments", {"regions": "eu"}),
    ("deployments", {"regions": [3]}),
    ("deployments", {"max_error_permille": 1001}),
    ("deployments", {"repository": None}),
    ("deployments", {"target_field": "colour"}),
    ("deployments", {"artefact": "'x'"}),
    ("procurement", {"match": None}),
    ("procurement", {"match": {"id; drop": "'x'"}}),
    ("procurement", {"amount": 3}),
    ("procurement", {"vendor": "sa.vendor"}),
    ("procurement", {"states": []}),
    ("procurement", {"catalogue": "yes"}),
    ("procurement", {"budget": {"limit": "1"}}),
    ("procurement", {"target_field": "colour"}),
    ("procurement", {"vender": "'x'"}),
    ("browser_automation", {"page": None}),
    ("browser_automation", {"page": 3}),
    ("browser_automation", {"element": "a:hover"}),
    ("browser_automation", {"element": None}),
    ("browser_automation", {"shown": {"title": "title"}}),
    ("browser_automation", {"shown": ["title"]}),
    ("browser_automation", {"account": {"selector": "p"}}),
    ("browser_automation", {"download": {"path": "'/x'"}}),
    ("browser_automation", {"confirmation": {"path": "'/x'", "where": {}}}),
    ("browser_automation", {"confirmation": "x"}),
    ("browser_automation", {"expect": "gone"}),
    ("browser_automation", {"target_field": "other"}),
    ("browser_automation", {"click": "a"}),
    ("security_infrastructure", {"principal": None}),
    ("security_infrastructure", {"policy": "'shop'"}),
    ("security_infrastructure", {"directory": "sys/raw"}),
    ("security_infrastructure", {"directory": "auth/../sys/users"}),
    ("security_infrastructure", {"granted": "sr.policy"}),
    ("security_infrastructure", {"granted": ["sa.policy"]}),
    ("security_infrastructure", {"target_field": "policy"}),
    ("security_infrastructure", {"wildcard_depth": 0}),
    ("security_infrastructure", {"expect": "gone"}),
    ("security_infrastructure", {"principle": "'x'"}),
]
FIELDS = {
    "deployments": {"artifact_sha", "error_permille", "approval_id", "regions"},
    "procurement": {"amount", "vendor", "skus", "approved", "committed"},
    "browser_automation": {"subject", "title", "confirmed", "error_text"},
    "security_infrastructure": {"policies", "holders", "token_policies"},
}


def faults(pattern, **changes):
    part = {name: value for name, value in (GOOD[pattern] | changes).items() if value is not None}
    return check_for(pattern).validate({"lookup": {"effects": {"it": part}}})


@pytest.mark.parametrize("pattern", GOOD)
def test_a_valid_lookup_is_accepted(pattern):
    assert faults(pattern) == []


@pytest.mark.parametrize(("pattern", "changes"), BAD)
def test_an_invalid_lookup_is_reported(pattern, changes):
    assert faults(pattern, **changes)


@pytest.mark.parametrize("pattern", GOOD)
def test_the_fields_of_an_effect_are_typed(pattern):
    properties = check_for(pattern).typed_fields({"effects": {"it": GOOD[pattern]}})["properties"]
    assert FIELDS[pattern] | {"exists", "count"} <= set(properties)


def test_a_policy_lookup_may_have_an_audit_trail_with_an_approval():
    check = check_for("access")
    effects = {"write": {"policy": "sr.policy", "document": "sr.document"}}
    assert check.validate({"lookup": {"effects": effects, "audit": {"approval": "scope.action_id"}}}) == []
    assert check.validate({"lookup": {"effects": effects, "audit": {"actor": "'x'"}}})
    assert "audit" in check.typed_fields({"effects": effects, "audit": {"approval": "'x'"}})["properties"]


@pytest.mark.parametrize(
    ("said", "standing"),
    [
        ({"standby": False, "performance_standby": False}, Consistency.PRIMARY),
        ({"standby": True}, Consistency.REPLICA),
        ({"standby": False, "performance_standby": True}, Consistency.REPLICA),
        ({"standby": False, "replication_performance_mode": "secondary"}, Consistency.REPLICA),
        ({}, Consistency.REPLICA),
    ],
)
def test_only_the_active_node_is_the_primary(said, standing, monkeypatch):
    """The development server is a single node, so what standby nodes answer is given here."""
    answer = SiteResponse("http://x/", 200, httpx.Headers(), httpx.Response(200, json=said).content)
    monkeypatch.setattr(fetching.Site, "get", lambda *_args, **_parts: answer)
    with fetching.Site("http://127.0.0.1:1", until=0) as site:
        system = SystemAccess("vault", "security_infrastructure")
        assert access._node_status(site, system, at=AT)[0] is standing


@pytest.mark.parametrize("address", [None, 3, "", "ftp://x", "http://", "http://u:p@x", "http://x?y", "//x"])
def test_a_malformed_address_is_refused(address):
    with pytest.raises(CheckFailed) as failed:
        fetching.Site(address, until=0)
    assert not failed.value.retryable


@pytest.mark.parametrize("path", ["http://y/", "//y/", "/../y", "/%2e%2e/y", "/../belowx/y", "y", "/\\y", "@y"])
def test_a_path_that_leaves_the_base_address_is_refused(path):
    with fetching.Site("http://127.0.0.1:1/below", until=0) as site, pytest.raises(CheckFailed) as failed:
        site.get(path)
    assert not failed.value.retryable


class TestTheTextOfAPolicy:
    @pytest.mark.parametrize(
        "text",
        [
            'path "a" {',
            'path "a" { capabilities = "read" }',
            'path "a" { capabilities = ["read" "list"] }',
            "path = 3",
            'other "a" { }',
            'path "a" { capabilities = <<EOT\nread\nEOT\n}',
            '{"path": {"a": {"capabilities": ["read"]}, "a": {}}}',
            'path "a" { policy = "all" }',
            "[" * 100_000,
            'path "a" ' + "{ a = " * 100,
        ],
    )
    def test_an_unreadable_policy_is_never_treated_as_empty(self, text):
        with pytest.raises(acl.UnreadablePolicy):
            acl.parse_policy(text)

    def test_hcl_and_json_policies_are_read_alike(self):
        hcl = 'path "a" { capabilities = ["read"] /* so */ }\npath "a" { capabilities = ["list"] }'
        assert acl.parse_policy(hcl) == acl.parse_policy('{"path": {"a": {"capabilities": ["read", "list"]}}}')

    def test_one_denial_denies_the_path(self):
        text = 'path "a" { capabilities = ["read"] }\npath "a" { capabilities = ["deny"] }'
        assert acl.parse_policy(text)["a"].capabilities == {"deny"}

    def test_a_policy_without_a_condition_grants_more(self):
        narrow = 'path "a" { capabilities = ["create"] allowed_parameters = { "x" = ["1"] } }'
        wide = 'path "a" { capabilities = ["create"] }'
        assert acl.grants_more(acl.parse_policy(wide), acl.parse_policy(narrow))
        assert not acl.grants_more(acl.parse_policy(narrow), acl.parse_policy(wide))


class TestPages:
    def find(self, text, selector):
        return [node.value for node in browser.HtmlPage(text).find(selector)]

    def test_unclosed_elements_end_where_browsers_end_them(self):
        text = "<ul><li>one<li>two</ul><p>a<p>b<div>c</div></i><table><tr><td>1<td>2</table>"
        assert self.find(text, "li") == ["one", "two"]
        assert self.find(text, "td") == ["1", "2"]

    def test_selectors_find_elements_and_their_values(self):
        text = '<form id=f><p class="a b"><input name=x value="1 &amp; 2"><select name=s><option value=1>A'
        text += "<option value=2 selected>B</select><textarea name=t>long\ntext</textarea></form>"
        assert self.find(text, "form#f p.a.b input[name=x]") == ["1 & 2"]
        assert self.find(text, 'select[name="s"]') == ["2"]
        assert self.find(text, "textarea") == ["long\ntext"]
        assert self.find(text, "div input") == []

    def test_scripts_do_not_count_as_text(self):
        assert browser.HtmlPage("<div>a<script>b</script></div>").find("div")[0].text == "a"

    @pytest.mark.parametrize("selector", ["", "a > b", "a:hover", "a[x", "a,b", "#", ".."])
    def test_an_invalid_selector_is_reported(self, selector):
        with pytest.raises(browser.BadSelector):
            browser.parse_selector(selector)

    @pytest.mark.parametrize("text", ["<a>" * 60_000, "<br>" * 60_000])
    def test_a_page_above_the_limit_is_refused(self, text):
        with pytest.raises(browser.PageTooLarge):
            browser.HtmlPage(text)
