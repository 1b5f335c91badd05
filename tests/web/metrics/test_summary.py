"""A scripted run with known counts: the API gives the values that a hand calculates, and every figure its actions."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from console.metrics import figures
from console.metrics.rules.filters import EVERYTHING
from console.metrics.rules.periods import DAY, period_between, period_named
from console.tasks import count_metrics
from ledger.db import tenancy
from tests.support.api_tenant import DELETE, Clock, Workshop, anonymous, result
from tests.support.callers import Api, found


@pytest.fixture
def script(shop: Workshop, clock: Clock, tmp_path: Path) -> dict[str, str]:
    """Five calls accepted and four refused. Of the actions three are executed: one is verified, one is disproved, one
    fails; one is rejected, one waits. By name the ids of the actions.
    """
    folder, made = tmp_path / "documents", {}
    for name in ("notes", "old"):
        (folder / name).mkdir()
    (folder / "old" / "one.md").write_text("Still here.")
    clock.stop()
    # Verified: answered after 2 s, read back 8 s after that.
    made["verified"] = shop.propose("write_document")
    started = shop.start(shop.claim()[0]).json()
    (folder / "notes" / "today.md").write_text("Quiet.")
    clock.forward(seconds=2)
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=8)
    assert shop.read_back(made["verified"], clock) == "RECONCILED_SUCCESS"
    # Disproved: told as done, and still there; it is held for a person.
    made["disproved"] = shop.held(clock)["action_id"]
    # Failed: nothing was sent, and a reading shows nothing.
    error = {"code": "REFUSED", "message": "no route", "phase": "before_send"}
    started = shop.started(path="old/one.md")
    shop.observe(started, result=result(status="failed", evidence=None, error=error))
    clock.forward(seconds=90)
    made["failed"] = started["action_id"]
    assert shop.read_back(made["failed"], clock) == "FAILED"
    made["rejected"] = shop.propose(path="old/two.md")
    assert shop.vote(shop.approval_of(made["rejected"]), verdict="reject").status_code == 201
    made["waiting"] = shop.propose(path="old/three.md")
    # At the gate: a tool that does not exist, wrong arguments twice, a repeat of what is open.
    shop.call("delete_documents_now")
    shop.call(arguments={"file": "x.md"})
    shop.call(arguments={"path": 7})
    assert shop.call(arguments=DELETE)["result"]["error"]["code"] == "DUPLICATE_BLOCKED"
    count_metrics()
    return made


def ask(caller: Api, path: str, **query: str) -> Any:
    return caller.get(f"{path}?{urlencode(query)}")


def summary(caller: Api, **query: str) -> dict[str, Any]:
    answer = ask(caller, "/metrics/summary", **query)
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


def values(told: dict[str, Any]) -> dict[str, float | None]:
    return {each["id"]: each["value"] for each in told["figures"]}


@pytest.mark.req("R-MT-01", "R-MT-02", "R-MT-03", "R-MT-04", "R-MT-09", "R-HO-06")
def test_every_metric_equals_its_value_computed_by_hand(shop: Workshop, script: dict[str, str]):
    told = summary(shop.operator_key)
    found_ = values(told)
    third = pytest.approx(1 / 3)
    assert found_ == {
        "M-01": third,
        "M-02": third,
        "M-03": found_["M-03"],
        "M-04": found_["M-04"],
        "M-05": 0,
        "M-06": third,
        "M-07": 0,
        "M-08": 0,
        "M-09": 0,
        "M-10": 0,
        "M-11": 0,
        "M-12": 1,
        "M-13": 0,
        "M-14": None,
        "M-15": None,
        "M-16": 0,
        "M-17": third,
        "M-18": 1,
        "M-19": None,
        "M-20": pytest.approx(5 / 9),
        "M-21": 1,
        "M-22": pytest.approx(4 / 9),
        "M-23": pytest.approx(1 / 9),
        "M-24": pytest.approx(2 / 9),
        "M-25": pytest.approx(1 / 9),
    }
    # What was called with wrong arguments is on record as an action too, which the gate blocked.
    assert (told["counts"]["actions"], told["counts"]["never_ran"]) == (7, 3)
    assert (told["counts"]["executed"], told["counts"]["calls"]) == (3, 9)
    # What it cost: readings of the systems of record, starts over again, calls that repeated what was open.
    assert (told["counts"]["readings"], told["counts"]["repeats"]) == (3, 1)
    by_id = {each["id"]: each for each in told["figures"]}
    assert by_id["M-25"]["healthy"] is False
    verification = by_id["M-03"]["delay"]
    assert verification == {"count": 3, "mean_ms": 188_000 / 3, "median_ms": 90_000, "p95_ms": 90_000}
    # What is held for a person has not come to its end.
    assert by_id["M-04"]["delay"] == {"count": 2, "mean_ms": 50_000, "median_ms": 10_000, "p95_ms": 90_000}


@pytest.mark.req("R-MT-04")
def test_an_empty_tenant_has_no_shares_and_no_errors(shop: Workshop):
    told = summary(shop.operator_key)
    assert {value for name, value in values(told).items() if name != "M-21"} == {None}
    assert values(told)["M-21"] == 0


@pytest.mark.req("R-MT-05")
def test_filters_reduce_the_counts_and_the_parts_add_up_to_the_whole(shop: Workshop, script: dict[str, str]):
    whole = summary(shop.operator_key)["counts"]
    for name, wanted in (
        ("tool", ("write_document", "delete_document")),
        ("agent", ("librarian",)),
        ("class", ("HIGH_RISK_EXTERNAL", "EXTERNAL_EFFECT", "INTERNAL_WRITE", "READ_ONLY")),
        ("version", ("1",)),
    ):
        parts = [summary(shop.operator_key, **{name: value})["counts"] for value in wanted]
        assert sum(each.get("executed", 0) for each in parts) in (whole["executed"], 0), name
    assert values(summary(shop.operator_key, tool="write_document"))["M-01"] == 1
    assert values(summary(shop.operator_key, tool="delete_document"))["M-01"] == 0
    nobody = summary(shop.operator_key, agent="nobody")
    assert nobody["counts"].get("executed", 0) == 0


@pytest.mark.req("R-MT-05")
def test_the_total_is_the_sum_of_the_tenants_and_each_sees_its_own(
    shop: Workshop, script: dict[str, str], clock: Clock
):
    other = found("willow")
    period = period_named("day", at=clock.now())
    reports = []
    for tenant in (shop.tenant, other):
        with tenancy(tenant):
            reports.append(figures.metric_report(tenant, period, EVERYTHING))
    assert [each.counts.get("executed", 0) for each in reports] == [3, 0]


def test_every_point_links_to_the_actions_that_it_counts(shop: Workshop, script: dict[str, str]):
    told = summary(shop.operator_key, step="hour")
    by_id = {each["id"]: each for each in told["figures"]}
    for name, expected in (("M-01", "verified"), ("M-02", "disproved"), ("M-17", "disproved")):
        figure = by_id[name]
        listed = shop.operator_key.get(figure["actions"].removeprefix("/api/v1")).json()
        assert [each["action_id"] for each in listed["items"]] == [script[expected]], name
        points = [each for each in figure["points"] if each["part"]]
        assert len(points) == 1
        [row] = shop.operator_key.get(points[0]["actions"].removeprefix("/api/v1")).json()["items"]
        assert row["action_id"] == script[expected]
    assert by_id["M-20"]["actions"] is None


def test_the_actions_behind_a_count_are_paged(shop: Workshop, script: dict[str, str]):
    told = summary(shop.operator_key)
    query = {"count": "actions", "from": told["from"], "to": told["to"], "limit": "2"}
    seen, cursor = [], ""
    while True:
        page = ask(shop.operator_key, "/metrics/actions", **query, cursor=cursor).json()
        seen += [each["action_id"] for each in page["items"]]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) == len(seen) == 7
    assert set(script.values()) < set(seen)


@pytest.mark.req("R-MT-08")
def test_a_false_success_filed_by_an_operator_raises_the_metric_and_is_recorded(shop: Workshop, script: dict[str, str]):
    body = {"told": "In the chat: the returns policy is gone.", "reason": "It was still there."}
    path = f"/actions/{script['disproved']}/false-success"
    assert shop.agent.post(path, body).status_code == 403
    assert shop.operator.post(path, {"told": "x"}).status_code == 422
    assert shop.operator.post(path, body).status_code == 201
    count_metrics()
    assert values(summary(shop.operator_key))["M-16"] == pytest.approx(1 / 3)
    last = shop.history(script["disproved"])[-1]
    assert (last["event"], last["detail"]["told"]) == ("false_success_filed", body["told"])


@pytest.mark.req("R-MT-07")
def test_the_newest_verification_policy_is_compared_with_the_one_before(
    shop: Workshop, script: dict[str, str], clock: Clock, tmp_path: Path
):
    released = shop.operator_key.release("verification", {"version": "stricter", "document": {"lease_s": 60}})
    assert released.status_code == 201, released.content
    started = shop.started(path="old/four.md")
    shop.observe(started)
    (tmp_path / "documents" / "old" / "four.md").write_text("Still here.")
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    count_metrics()
    told = summary(shop.operator_key)
    [step] = told["verification_versions"]
    assert (step["version"], step["cases"], step["is_regression"]) == ("stricter", 1, False)
    assert step["failure_rise"] == pytest.approx(1 - 1 / 3)
    assert values(told)["M-19"] == pytest.approx(2 / 3)


@pytest.mark.req("R-MT-10")
def test_the_same_figures_are_available_as_a_table_and_for_prometheus(shop: Workshop, script: dict[str, str]):
    told = summary(shop.operator_key)
    answer = shop.operator_key.get("/metrics/summary.csv")
    assert answer["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    whole = {
        row["metric"]: row["value"]
        for row in rows
        if row["from"][:19] == told["from"][:19] and row["to"][:19] == told["to"][:19]
    }
    assert {name: float(value) if value else None for name, value in whole.items()} == values(told)
    assert b"counterfoil_gate_acceptance_rate" in shop.operator_key.get("/metrics").content


def test_a_period_before_the_first_one_has_no_comparison(shop: Workshop, script: dict[str, str], clock: Clock):
    now = clock.now()
    later = summary(shop.operator_key, **{"from": (now + DAY).isoformat(), "to": (now + 2 * DAY).isoformat()})
    first = {each["id"]: each for each in later["figures"]}["M-01"]
    assert first["value"] is None
    assert first["before"] == pytest.approx(1 / 3)


def test_unauthorised_or_impossible_requests_are_refused(shop: Workshop):
    for path in ("/metrics/summary", "/metrics/summary.csv"):
        assert shop.agent.get(path).status_code == shop.executor.get(path).status_code == 403
        assert anonymous().get(path).status_code == 401
    long = {"from": "1990-01-01T00:00:00Z", "step": "hour"}
    answer = ask(shop.operator_key, "/metrics/summary", **long)
    assert (answer.status_code, answer.json()["code"]) == (422, "PERIOD_TOO_LONG")
    behind = {"count": "tenant_id", "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    assert ask(shop.operator_key, "/metrics/actions", **behind).status_code == 422


def test_a_period_covers_whole_hours_or_days_and_is_compared_with_one_of_equal_length(clock: Clock):
    at = clock.now()
    for name, hours in (("day", 24), ("week", 168), ("month", 720), ("quarter", 2184)):
        period = period_named(name, at=at)
        assert period.since < at < period.until
        assert period.until - period.since == timedelta(hours=hours) == period.since - period.earlier.since
        assert period.earlier.until == period.since
        assert period.starts()[0] == period.since
        assert period.step_of(at) in period.starts()
    assert [period_named(name, at=at).span for name in ("day", "week", "month", "quarter")] == [1, 1, 24, 24]
    short = period_between(at, at, step=timedelta(hours=1))
    assert len(short.starts()) == 1
