"""From a rule to an alert that is raised, told, cleared and ended: on the page, over HTTP, and for one tenant alone."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError

from console.models import Alert, Message, MetricAction, MetricRollUp
from console.tasks import count_metrics, tell_people, watch_alerts, watch_regressions
from ledger.catalogue import queries as catalogue
from ledger.db import savepoint, tenancy
from ledger.record.operations import new_id
from tests.support.api_tenant import Clock, Workshop, contract
from tests.support.callers import key_for

RULE = {
    "metric": "M-10",
    "window_h": 24,
    "tool": "issue_refund",
    "raise_at": 1000,
    "clear_at": 500,
    "least_cases": 30,
    "hold_min": 10,
}


def counted(shop: Workshop, clock: Clock, *, tool: str = "issue_refund", version: str = "1", **counts: int) -> None:
    """This hour, and its day, with these counts of a tool."""
    start = clock.now().replace(minute=0, second=0, microsecond=0)
    row = {"tool": tool, "agent": "support", "side_effect_class": "HIGH_RISK_EXTERNAL", "version": version}
    with tenancy(shop.tenant):
        MetricRollUp.objects.filter(tenant_id=shop.tenant, **row).delete()
        for span, at in ((1, start), (24, start.replace(hour=0))):
            MetricRollUp.objects.create(tenant_id=shop.tenant, span=span, start=at, **row, **counts)


def look(clock: Clock, minutes: int = 0) -> int:
    clock.forward(seconds=60 * minutes)
    count_metrics()
    return watch_alerts()


def spoken(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def panel(shop: Workshop) -> str:
    html = shop.operator.client.get(f"/t/{shop.slug}/metrics/").content.decode()
    return spoken(html.split('data-part="alerts"')[1].split("</section>")[0])


def listed(shop: Workshop, **wanted: str) -> list[dict[str, Any]]:
    query = "&".join(f"{name}={value}" for name, value in wanted.items())
    return list(shop.operator_key.get(f"/alerts?{query}").json()["items"])


def test_an_alert_is_raised_notified_and_cleared_with_its_reason(shop: Workshop, clock: Clock):
    tell_people()
    made = shop.operator_key.post("/alert-rules", RULE)
    assert made.status_code == 201, made.content
    counted(shop, clock, executed=40, unknown=5)
    assert look(clock) == 0
    assert "No open alerts." in panel(shop)
    assert look(clock, minutes=10) == 1
    assert look(clock) == 0
    said = (
        "Unknown of issue_refund: 12.5 % in the last 24 hours (5 of 40), which is 10 % or above and has been for 10"
        " minutes. It clears at 5 %."
    )
    assert said in panel(shop)
    [alert] = listed(shop, open="true")
    assert (alert["said"], alert["alert_rule_id"]) == (said, made.json()["alert_rule_id"])
    home = spoken(shop.operator.client.get(f"/t/{shop.slug}/").content.decode())
    assert "Alerts 1 oldest" in home
    tell_people()
    with tenancy(shop.tenant):
        assert set(Message.objects.filter(tenant_id=shop.tenant).values_list("kind", flat=True)) == {"alert_raised"}
    inbox = spoken(shop.operator.client.get(f"/t/{shop.slug}/notices").content.decode())
    assert "A metric has passed its alert threshold" in inbox
    # Below the raising threshold and above the clearing one nothing turns.
    counted(shop, clock, executed=60, unknown=5)
    assert look(clock, minutes=5) == 0
    counted(shop, clock, executed=100, unknown=5)
    assert look(clock, minutes=1) == 0
    assert look(clock, minutes=10) == 1
    [alert] = listed(shop, open="false")
    cleared = (
        "Unknown of issue_refund: 5 % in the last 24 hours (5 of 100), which is 5 % or below and has been for 10"
        " minutes."
    )
    assert alert["cleared_said"] == cleared
    assert cleared in panel(shop)


def test_a_rule_can_be_created_changed_and_ended_on_the_page(shop: Workshop, clock: Clock):
    page = f"/t/{shop.slug}/metrics/"
    post = shop.operator.client.post
    chosen = {"metric": "M-10", "window_h": 24, "raise_at": "10", "clear_at": "10", "least_cases": 1, "hold_min": 0}
    refused = post(f"{page}alert-rules", chosen)
    assert refused.status_code == 422
    assert "The thresholds to raise and to clear must differ, or the alert would flap." in spoken(
        refused.content.decode()
    )
    assert post(f"{page}alert-rules", chosen | {"clear_at": "5"}).status_code == 302
    [rule] = shop.operator_key.get("/alert-rules").json()["items"]
    counted(shop, clock, executed=10, unknown=1)
    assert look(clock) == 1
    path = f"{page}alert-rules/{rule['alert_rule_id']}"
    assert post(f"{path}/change", chosen | {"raise_at": "20.5"}).status_code == 302
    said = "raised at 20.5 % or above, cleared at 10 % or below; looked at from 1 case on."
    assert said in panel(shop)
    assert post(f"{path}/end", {"reason": ""}).status_code == 422
    assert post(f"{path}/end", {"reason": "Another team watches it."}).status_code == 302
    assert "Unknown: the rule was ended. Nothing says that the figure is well again." in panel(shop)
    assert shop.operator_key.get("/alert-rules").json()["items"] == []
    again = shop.operator_key.post(f"/alert-rules/{rule['alert_rule_id']}/end", {"reason": "Once more."})
    assert (again.status_code, again.json()["code"]) == (404, "NOT_FOUND")


def test_a_version_with_other_verification_figures_raises_an_alert_until_it_is_replaced(shop: Workshop, clock: Clock):
    with tenancy(shop.tenant):
        [first] = catalogue.policy_versions_by_digest(shop.tenant, "verification").values()
    shop.operator_key.release("verification", {"version": "strict", "document": {"lease_s": 60}})
    counted(shop, clock, version=first, executed=100, verification_failed=5, read_back=100)
    counted(shop, clock, version="strict", executed=100, verification_failed=5, read_back=100)
    assert watch_regressions() == 0
    counted(shop, clock, version="strict", executed=100, verification_failed=40, read_back=100)
    assert watch_regressions() == 1
    assert watch_regressions() == 0
    [alert] = listed(shop, open="true")
    assert (alert["about"], alert["version"], alert["previous"]) == ("verification", "strict", first)
    said = (
        "Verification policy strict: Disproved by a reading: 8 times as often,"
        f" from 5 % of 100 under {first} to 40 % of 100. Chance does not explain it."
    )
    assert said in panel(shop)
    counted(shop, clock, version="strict", executed=100, verification_failed=6, read_back=100)
    assert watch_regressions() == 1
    assert f"Verification policy strict and {first} are not apart beyond chance any more." in panel(shop)


def test_a_higher_unknown_rate_under_a_new_contract_version_is_reported(shop: Workshop, clock: Clock):
    older = shop.propose("write_document")
    newer = contract("write_document") | {"version": "1.3.0"}
    assert shop.operator_key.post("/contracts", newer).status_code == 201
    under_newer = shop.propose("write_document", path="notes/two.md")
    row = {"tool": "write_document", "agent": "librarian", "side_effect_class": "LOW_RISK_MUTATION", "version": "1"}
    with tenancy(shop.tenant):
        for action_id, unknown in ((older, 32), (under_newer, 64)):
            MetricAction.objects.create(
                tenant_id=shop.tenant,
                action_id=action_id,
                seq=1,
                hour=clock.now(),
                executed=800,
                unknown=unknown,
                **row,
            )
    assert watch_regressions() == 1
    [alert] = listed(shop, open="true")
    assert (alert["about"], alert["version"]) == ("contract write_document", "1.3.0")
    assert (
        f"Contract write_document 1.3.0: Unknown: doubled, from 4 % of 800 under {alert['previous']} to 8 % of 800."
        " Chance does not explain it." in panel(shop)
    )


def test_rules_and_alerts_are_visible_only_in_their_tenant(shop: Workshop, elsewhere: UUID, clock: Clock):
    rule = shop.operator_key.post("/alert-rules", RULE | {"hold_min": 0}).json()["alert_rule_id"]
    counted(shop, clock, executed=40, unknown=5)
    assert look(clock) == 1
    other = key_for(elsewhere, "oper")
    assert other.get("/alerts").json()["items"] == []
    assert other.get("/alert-rules").json()["items"] == []
    assert other.post(f"/alert-rules/{rule}/end", {"reason": "Mine?"}).status_code == 404


def test_the_database_allows_one_open_alert_per_rule(shop: Workshop, clock: Clock):
    rule = UUID(shop.operator_key.post("/alert-rules", RULE).json()["alert_rule_id"])
    row = {"tenant_id": shop.tenant, "rule_id": rule, "about": "", "said": "It is.", "raised_at": clock.now()}
    with tenancy(shop.tenant):
        Alert.objects.create(id=new_id(clock.now()), **row)
        with pytest.raises(IntegrityError, match="alert_one_open_per_rule"), savepoint():
            Alert.objects.create(id=new_id(clock.now()), **row)
