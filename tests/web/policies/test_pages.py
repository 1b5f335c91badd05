"""The Policies page: what is in force in sentences, each version with who set it and what it changed, and the links."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from ledger.catalogue import queries as catalogue
from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from tests.support.api_tenant import Clock, Workshop, workshop
from tests.support.callers import put_in_force

SMALL = {"name": "small", "when": "amount.minor <= 5000", "outcome": "auto"}
REST = {"name": "rest", "outcome": "hold"}


def answer(shop: Workshop, path: str = "", **query: str) -> Any:
    return shop.operator.client.get(f"/t/{shop.slug}/policies/{path}", query)


def page(shop: Workshop, path: str = "", **query: str) -> str:
    found = answer(shop, path, **query)
    assert found.status_code == 200, found.content
    return str(found.content.decode())


def spoken(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def part(html: str, name: str) -> str:
    return html.split(f'data-part="{name}"')[1].split("data-part=")[0]


def put(shop: Workshop, clock: Clock, kind: str, version: str, document: dict[str, Any], **given: str) -> None:
    clock.forward(seconds=1)
    sent = shop.operator_key.release(kind, {"version": version, "document": document} | given)
    assert sent.status_code == 201, sent.content


@pytest.mark.req("R-UI-28")
def test_the_page_shows_what_is_in_force_of_all_four_kinds_and_who_set_it(shop: Workshop, clock: Clock):
    put(shop, clock, "approval", "2", {"rules": [SMALL, REST]})
    said = spoken(page(shop))
    for sentence in (
        "Approval policy which calls need approval, by whom and by when",
        "“small”: if the amount in the smallest unit of its currency is at most 5,000,"
        " later rules that require approval do not apply.",
        "Autonomy policy what an agent may propose, and how much",
        "An agent may call only the tools that were disclosed to its session.",
        "Verification policy how and for how long systems of record are read back",
        "If 3 readings could not settle a doubt, a person decides.",
        "Recovery policy what follows each finding, and what needs a person",
        "RT-99: anything else: hold and escalate (fail closed).",
    ):
        assert sentence in said, sentence
    assert re.search(r"Version 1 , put in force by Counterfoil (just now|\S+ \S+ ago)", said)
    assert "Version 2 , put in force by " in said
    assert "Version 2 , put in force by Counterfoil" not in said


@pytest.mark.req("R-UI-28")
def test_every_version_has_a_page_with_its_history_and_its_changes(shop: Workshop, clock: Clock):
    put(shop, clock, "approval", "2", default_policy("approval") | {"release_within_s": 60, "rules": [SMALL, REST]})
    put(
        shop,
        clock,
        "approval",
        "3",
        default_policy("approval") | {"release_within_s": 120, "rules": [REST, SMALL]},
        reason="Releases took too long.",
    )
    newest = page(shop, "approval/3")
    assert "<h1>Approval policy 3</h1>" in newest
    assert "in force" in spoken(newest.split("</h1>")[1][:400])
    changes = spoken(part(newest, "diff"))
    assert "Changes from 2" in changes
    assert "Deadlines before: An approved action must start within 1 minute." in changes
    assert "now: An approved action must start within 2 minutes." in changes
    assert "/release_within_s before: 60 now: 120" in changes
    assert "/rules before: in the order small, rest now: in the order rest, small" in changes
    history = spoken(part(newest, "versions"))
    assert re.findall(r"(\S+) put in force by", history) == ["3", "2", "1"]
    assert "; event “Releases took too long.” 2 put in force by" in history
    assert history.count("no reason given") == 1, "only of what came with the installation"
    assert "“Releases took too long.”" in spoken(part(page(shop), "approval"))
    first = page(shop, "approval/1")
    assert "superseded" in spoken(first.split("</h1>")[1][:400])
    assert "First version; nothing to compare." in spoken(first)
    assert re.search(r"1 put in force by Counterfoil .*? superseded by 2 ", spoken(part(first, "versions")))
    whole = spoken(part(page(shop, "approval/3", since="1"), "diff"))
    assert "Changes from 1" in whole
    assert '/rules before: not given now: [{"name": "rest"' in whole


def test_a_version_is_shown_as_its_stored_document(shop: Workshop, clock: Clock):
    put(
        shop, clock, "autonomy", "night", {"outside": [{"name": "nightly", "when": "now.hour < 6", "reason": "Sleep."}]}
    )
    said = spoken(page(shop, "autonomy/night"))
    assert (
        "“nightly”: all calls are refused if the hour (UTC) is less than 6 or if that cannot be evaluated;"
        " the agent reads “Sleep.”" in said
    )
    assert '"reason": "Sleep."' in said
    assert '"version": "night"' in said


@pytest.mark.req("R-VD-13")
def test_verification_numbers_are_shown_and_change_with_a_new_version(shop: Workshop, clock: Clock):
    first = spoken(part(page(shop), "verification"))
    put(shop, clock, "verification", "2", default_policy("verification") | {"repeat_limit": 5, "backoff": 4})
    second = spoken(part(page(shop), "verification"))
    assert "each wait is about 2 times the previous one" in first
    assert "each wait is about 4 times the previous one" in second
    assert "If 5 readings could not settle a doubt, a person decides." in second
    assert "If 3 readings could not settle a doubt, a person decides." in spoken(page(shop, "verification/1"))


def test_rules_that_never_count_are_named_on_the_page(shop: Workshop, clock: Clock):
    put(shop, clock, "approval", "2", {"rules": [SMALL, REST, {"name": "late", "outcome": "auto"}]})
    for said in (spoken(page(shop, "approval/2")), spoken(part(page(shop), "approval"))):
        assert (
            "Notable rules “rest” always matches. Approval is required for each call that no earlier `auto` rule"
            " matches. “late” never applies. No later rule requires approval, so it exempts no call."
        ) in said
    assert "What stands out" not in page(shop, "approval/1")


@pytest.mark.parametrize("kind", ["approval", "autonomy"])
def test_a_stored_version_that_is_no_longer_valid_is_shown_as_such(shop: Workshop, clock: Clock, kind: str):
    clock.forward(seconds=1)
    with tenancy(shop.tenant):
        put_in_force(shop.tenant, kind, "of-old", {"version": "of-old", "rules": [{"moon": "full"}]}, at=clock.now())
    for path in ("", f"{kind}/of-old"):
        said = spoken(page(shop, path))
        assert "This installation does not accept this version's document, so its rules are not listed:" in said
        assert "Put a version in force that it accepts." in said
    touched = spoken(page(shop, f"{kind}/of-old/touched"))
    assert "This installation does not accept this version's document, so it cannot be simulated:" in touched
    assert "decided differently" not in touched
    detail = page(shop, f"{kind}/of-old")
    assert "moon" in part(detail, "diff")
    assert "full" in detail.split('aria-label="Document"')[1]


def test_older_versions_are_behind_a_link(shop: Workshop, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("console.policies.views.PAGE", 2)
    for version in ("2", "3"):
        put(shop, clock, "recovery", version, default_policy("recovery") | {"max_attempts": int(version)})
    newest = page(shop, "recovery/3")
    older = unescape(re.findall(r'href="([^"]+)">Older versions', newest)[0])
    assert "1 put in force by" not in spoken(part(newest, "versions"))
    listed = shop.operator.client.get(older.partition("#")[0]).content.decode()
    assert "1 put in force by Counterfoil" in spoken(part(listed, "versions"))


def test_links_to_a_version_from_other_pages_lead_to_its_page(shop: Workshop, clock: Clock):
    shop.propose()
    with tenancy(shop.tenant):
        row = catalogue.policy_version(shop.tenant, "approval", "1")
    assert row is not None
    client, base = shop.operator.client, f"/t/{shop.slug}"
    approval = client.get(f"{base}/approvals").content.decode()
    approval_id = re.findall(rf'{base}/approvals/([0-9a-f-]{{36}})"', approval)[0]
    shown = client.get(f"{base}/approvals/{approval_id}").content.decode()
    for kind in ("approval", "verification", "recovery"):
        assert f'{kind.capitalize()} policy</dt><dd>version <a href="{base}/policies/{kind}/1">1</a>' in shown
    event = client.get(f"{base}/events/{row.id}/1").content.decode()
    assert f'href="{base}/policies/approval/1"' in event


def test_a_missing_version_is_not_found(shop: Workshop):
    for path in ("approval/9", "retention/1", "approval/0x", "nothing/1"):
        assert answer(shop, path).status_code == 404, path
    assert answer(shop, "approval/1", since="nine", before="soon").status_code == 200


def test_versions_of_another_tenant_are_not_found(shop: Workshop, clock: Clock):
    other = workshop("willow")
    put(other, clock, "approval", "willows-own", {"rules": [REST]})
    assert answer(shop, "approval/willows-own").status_code == 404
    assert "willows-own" not in page(shop, "approval/1")
