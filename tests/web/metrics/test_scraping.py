"""Figures for a monitor and for the page of hallucinations: equal to what was done, by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from console.tasks import count_metrics
from tests.support.api_tenant import DELETE, Clock, Workshop, result
from tests.support.callers import new_client

DOCS = Path(__file__).resolve().parents[3] / "docs"


def scrape(shop: Workshop) -> str:
    """The text that a monitor gets once everything is counted."""
    count_metrics()
    answer = shop.operator_key.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    text: str = answer.content.decode()
    return text


def series(text: str, **labels: str) -> dict[str, float]:
    """The samples with these labels, by name, or by code where they have one."""
    return {
        sample.labels.get("code", sample.name): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if all(sample.labels.get(name, "") == value for name, value in labels.items())
    }


def scraped(shop: Workshop) -> dict[str, float]:
    return series(scrape(shop), tenant=shop.slug, tool="")


def shown(shop: Workshop) -> dict[str, int]:
    page = shop.reviewer.client.get(f"/t/{shop.slug}/calls/hallucinations").content.decode()
    return {code: int(times) for code, times in re.findall(r'data-code="(HS-\d\d)">(\d+)<', page)}


@pytest.mark.req("R-MT-02", "R-MT-03")
def test_the_exported_shares_equal_those_of_the_calls(shop: Workshop, clock: Clock):
    shop.call(arguments={"path": "old/one.md", "reason": "It is out of date."})
    error = {"code": "REFUSED", "message": "no route", "phase": "before_send"}
    started = shop.started()
    shop.observe(started, result=result(status="failed", evidence=None, error=error))
    clock.forward(seconds=90)
    assert shop.read_back(started["action_id"], clock) == "FAILED"
    shop.call("delete_documents_now")
    shop.call(arguments={"file": "x.md"})
    shop.call(arguments={"path": 7})
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": ["write_document"]})
    shop.call("delete_document")
    found = scraped(shop)
    assert found["counterfoil_gate_calls"] == 6
    assert found["counterfoil_gate_acceptance_rate"] == pytest.approx(2 / 6)
    assert found["counterfoil_attempted_undisclosed_calls"] == 2
    assert found["counterfoil_phantom_tool_rate"] == pytest.approx(1 / 6)
    assert found["counterfoil_argument_hallucination_rate"] == pytest.approx(2 / 6)
    assert found["counterfoil_valid_call_rate"] == pytest.approx(1 / 6)
    assert found["counterfoil_valid_call_execution_failure_rate"] == pytest.approx(1 / 6)


@pytest.mark.req("R-MT-01", "R-MT-05", "R-MT-10")
def test_the_catalogue_is_exported_by_tool_and_class_with_the_values_of_the_summary(
    shop: Workshop, clock: Clock, tmp_path: Path
):
    clock.stop()
    folder = tmp_path / "documents"
    for name in ("notes", "old"):
        (folder / name).mkdir()
    (folder / "old" / "one.md").write_text("Still here.")
    written = shop.propose("write_document")
    started = shop.start(shop.claim()[0]).json()
    (folder / "notes" / "today.md").write_text("Quiet.")
    clock.forward(seconds=2)
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=8)
    assert shop.read_back(written, clock) == "RECONCILED_SUCCESS"
    shop.held(clock)
    shop.call("delete_documents_now")
    text = scrape(shop)
    whole = series(text, tenant=shop.slug, tool="")
    told = shop.operator_key.get("/metrics/summary").json()["figures"]
    for figure in told:
        value, name = figure["value"], f"counterfoil_{figure['name']}"
        if figure["kind"] == "delay":
            assert whole[f"{name}_median_seconds"] == pytest.approx(value / 1000), figure["id"]
        elif value is None:
            assert name not in whole, figure["id"]
        else:
            assert whole[name] == pytest.approx(value), figure["id"]
    assert len(told) == 25
    by_tool = {
        tool: series(text, tenant=shop.slug, tool=tool)["counterfoil_verification_success_rate"]
        for tool in ("write_document", "delete_document")
    }
    assert by_tool == {"write_document": 1, "delete_document": 0}
    assert "delete_documents_now" not in text
    assert whole["counterfoil_executed_actions"] == 2
    assert whole["counterfoil_counted_to_timestamp_seconds"] == pytest.approx(clock.now().timestamp(), abs=60)
    # Every series of the answer is in the docs, and every metric of the docs can be in an answer.
    documented = set(re.findall(r"`(counterfoil_\w+)", (DOCS / "telemetry.md").read_text()))
    assert {family.name for family in text_string_to_metric_families(text)} == documented


def test_a_share_without_cases_is_omitted(shop: Workshop):
    found = scraped(shop)
    assert found["counterfoil_gate_calls"] == 0
    assert "counterfoil_valid_call_rate" not in found


@pytest.mark.req("R-HS-15")
def test_each_matched_pattern_is_counted_under_its_code(shop: Workshop, clock: Clock):
    before = scraped(shop)
    assert {code for code in before if code.startswith("HS-")} == {f"HS-{number:02}" for number in range(1, 15)}
    assert sum(value for code, value in before.items() if code.startswith("HS-")) == 0
    # A refused payload, the same call twice, an action that was never tried; a timeout that nobody took for anything.
    shop.call(arguments={"file": "x.md"})
    session = shop.session()["session_id"]
    shop.agent.post(f"/sessions/{session}/guard", {"message": "I have deleted old/one.md."})
    started = shop.started()
    shop.call()
    timeout = {"code": "TIMED_OUT", "message": "No answer.", "phase": "unknown"}
    shop.observe(started, result=result(status="timeout", evidence=None, error=timeout))
    after = scraped(shop)
    met = {code: after[code] for code in after if code.startswith("HS-") and after[code]}
    assert met == {"HS-01": 1, "HS-02": 1, "HS-06": 1}
    assert {code: times for code, times in shown(shop).items() if times} == met
    # They are those of a window, which passes.
    clock.forward(hours=25)
    assert {code for code, value in scraped(shop).items() if code.startswith("HS-") and value} == set()


@pytest.mark.req("R-HS-15")
def test_an_ordinary_asynchronous_answer_matches_no_pattern(shop: Workshop, clock: Clock, tmp_path: Path):
    started = shop.started()
    shop.observe(started, result=result(status="accepted", evidence=None))
    (tmp_path / "documents" / DELETE["path"]).unlink()
    clock.forward(seconds=90)
    assert shop.read_back(started["action_id"], clock) == "RECONCILED_SUCCESS"
    assert not any(shown(shop).values())


@pytest.mark.req("R-HS-15")
def test_a_contradicted_success_is_counted_once_and_explained_on_the_page(shop: Workshop, clock: Clock):
    shop.held(clock)
    assert {code: times for code, times in shown(shop).items() if times} == {"HS-03": 1}
    page = shop.reviewer.client.get(f"/t/{shop.slug}/calls/hallucinations").content.decode()
    assert "A tool reported success, and a reading showed that nothing had changed." in page


def test_a_contradicted_failure_is_counted(shop: Workshop, clock: Clock, tmp_path: Path):
    started = shop.started()
    error = {"code": "TIMED_OUT", "message": "No answer.", "phase": "unknown"}
    shop.observe(started, result=result(status="failed", evidence=None, error=error))
    (tmp_path / "documents" / DELETE["path"]).unlink()
    clock.forward(seconds=90)
    assert shop.read_back(started["action_id"], clock) == "RECONCILED_SUCCESS"
    assert {code: times for code, times in shown(shop).items() if times} == {"HS-05": 1}


def test_only_operator_and_auditor_keys_can_read_the_metrics(shop: Workshop):
    assert shop.auditor.get("/metrics").status_code == 200
    for other in (shop.agent, shop.executor):
        assert other.get("/metrics").status_code == 403
    assert new_client().get("/api/v1/metrics").status_code == 401
